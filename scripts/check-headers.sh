#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that every header compiles on its own, with gcc and clang, and hearth.h also as C++.
set -eu
cd "$(dirname "$0")/.."

flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -Isrc)
failed=0
compilers=0

try() { # compiler, language, standard, header
    if ! printf '#include "%s"\n' "$4" | "$1" -x "$2" -std="$3" -D_GNU_SOURCE "${flags[@]}" -; then
        echo "check-headers: $4 does not compile on its own with $1 -x $2" >&2
        failed=1
    fi
}

mapfile -t headers < <(git ls-files --cached --others --exclude-standard -- 'include/*.h' 'src/*.h')
for cc in gcc clang; do
    command -v $cc >/dev/null 2>&1 || {
        echo "check-headers: $cc is not installed: not checked with it" >&2
        continue
    }
    compilers=$((compilers + 1))
    for header in "${headers[@]}"; do
        header=${header#include/}
        try $cc c c17 "${header#src/}"
    done
    try $cc c++ c++11 hearth.h
done
[ $compilers -gt 0 ] || failed=1
exit $failed
