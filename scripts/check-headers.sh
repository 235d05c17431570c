#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that every header compiles on its own, with gcc and clang, and hearth.h also as C++. Files *_tmpl.h are no
# headers but code that is compiled several times: they are left out.
set -eu
cd "$(dirname "$0")/.."

# Optimised, because without it gcc has macros for some intrinsics, which warn.
flags=(-O1 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -Isrc)
failed=0
compilers=0

try() { # compiler, language, standard, header
    local machine=() compiler=$1
    case $4 in
    *_windows.h) # where there is a compiler for Windows
        command -v x86_64-w64-mingw32-gcc >/dev/null 2>&1 && [ "$1" = gcc ] || return 0
        compiler=x86_64-w64-mingw32-gcc
        ;;
    kernels/x86/*)
        [ "$(uname -m)" = x86_64 ] || return 0
        machine=(-march=x86-64-v3)
        ;;
    kernels/arm/*)
        if [ "$(uname -m)" != aarch64 ]; then
            command -v aarch64-linux-gnu-gcc >/dev/null 2>&1 || return 0
            case $1 in
            clang) machine=(--target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include) ;;
            *) compiler=aarch64-linux-gnu-gcc ;;
            esac
        fi
        ;;
    esac
    case $4 in
    kernels/x86/*_avx512.h)
        machine+=(-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd -mavx512vnni -mavx512vbmi)
        ;;
    kernels/x86/*_amx.h)
        machine+=(-mamx-tile -mamx-bf16)
        ;;
    esac
    if ! printf '#include "%s"\ntypedef int checked;\n' "$4" | "$compiler" -x "$2" -std="$3" -D_GNU_SOURCE "${machine[@]}" "${flags[@]}" -; then
        echo "check-headers: $4 does not compile on its own with $1 -x $2" >&2
        failed=1
    fi
}

mapfile -t headers < <(git ls-files --cached --others --exclude-standard -- 'include/*.h' 'src/*.h' ':!*_tmpl.h')
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
