#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that no files of src/ need each other in a circle: neither do headers include each other so, nor do the
# .c files of the library and the server call each other so. Calls are read from the objects of a build: check-circles.sh
# [BUILD].
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

# Objects of files that are gone stay in a build.
objects=$(find "$build" -path '*hearth.dir/src/*.o' -o -path '*hearth-serve.dir/src/*.o' | while IFS= read -r object; do
    source=${object##*.dir/}
    [ ! -e "${source%.o}" ] || echo "$object"
done | sort)
if [ -z "$objects" ]; then
    echo "check-circles: there are no objects in $build: build first" >&2
    exit 2
fi

# "a b": header a includes header b.
includes() {
    git ls-files --cached --others --exclude-standard -- 'src/*.h' | while IFS= read -r file; do
        [ ! -e "$file" ] || sed -nE 's/^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*"([^"]+)".*/\1/p' "$file" |
            sed -E "s|^|${file#src/} |"
    done
}

# "a b": an object of file a uses a symbol of file b.
calls() {
    # shellcheck disable=SC2086 # a list of paths without blanks
    nm -A $objects | sed -E 's/^[^ ]*hearth[a-z-]*\.dir\/src\/([^:]*\.c)\.o:/\1 /' | awk '
        NF == 3 && $2 == "U" { used[$1 " " $3] }
        NF == 4 && $3 ~ /^[TDRB]$/ { home[$4] = $1 }
        END {
            for (pair in used) {
                split(pair, at, " ")
                if (at[2] in home)
                    print at[1], home[at[2]]
            }
        }'
}

# tsort names the members of each loop that it meets, a line each.
if ! loops=$({ includes; calls; } | awk '$1 != $2' | sort -u | tsort 2>&1 >/dev/null); then
    printf '%s\n' "$loops" | sed -E 's/^tsort: -: input contains a loop:/files that need each other in a circle:/
        s/^tsort: /    src\//' >&2
    exit 1
fi
