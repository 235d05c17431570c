#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the form of all tracked files: clang-format for C, an SPDX line at the top, no tabs or blanks at line ends.
# With --fix, formats the C files instead.
set -eu
cd "$(dirname "$0")/.."

formatter=clang-format-14
command -v "$formatter" >/dev/null 2>&1 || formatter=clang-format
if ! "$formatter" --version 2>/dev/null | grep -q ' version 14\.'; then
    echo "check-format: clang-format 14 is needed (other versions format differently)" >&2
    exit 1
fi

mapfile -t c_files < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h')
if [ "${1:-}" = --fix ]; then
    "$formatter" -i "${c_files[@]}"
    exit 0
fi

failed=0
"$formatter" --dry-run -Werror "${c_files[@]}" || failed=1

# Everything that people write by hand and that has comments.
mapfile -t text_files < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.sh' '*.py' '*.cmake' \
    'CMakeLists.txt' '*/CMakeLists.txt' Makefile .ci/run)
for file in "${text_files[@]}"; do
    if ! head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT'; then
        echo "$file:1: the line SPDX-License-Identifier: MIT is missing" >&2
        failed=1
    fi
    if grep -nHE '[[:blank:]]+$' "$file" >&2; then
        echo "$file: blanks at the end of a line" >&2
        failed=1
    fi
    case $file in
    Makefile) ;;
    *)
        if grep -nHP '\t' "$file" >&2; then
            echo "$file: tabs" >&2
            failed=1
        fi
        ;;
    esac
done
exit $failed
