#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An installed Hearth: all files are where they belong, and a program builds against header, library and pkg-config.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
build=$(dirname "$hearth")
grep -q '^HEARTH_SANITIZE:.*=.' "$build/CMakeCache.txt" && skip "not for sanitizer builds"
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")

# make install builds what is installed and nothing else.
if grep -q '^CMAKE_GENERATOR:.*=Ninja' "$build/CMakeCache.txt" && ninja -C "$build" -t inputs installed >"$tmp/inputs" 2>/dev/null; then
    grep -q 'cmd_run\.c' "$tmp/inputs" || fail "the program is not built for make install"
    grep -E '(tests|examples)/.*\.o$' "$tmp/inputs" && fail "make install builds tests or examples"
fi

# The list of what make install has put somewhere is make uninstall's: it stays what it was.
list=$build/install_manifest.txt
[ -e "$list" ] && cp "$list" "$tmp/list"
trap 'if [ -e "$tmp/list" ]; then cp "$tmp/list" "$list"; else rm -f "$list"; fi; rm -rf "$tmp"' EXIT

DESTDIR=$tmp/root cmake --install "$build" --prefix /opt/hearth >"$tmp/out" 2>&1 || fail "cmake --install"
root=$tmp/root/opt/hearth
for file in bin/hearth include/hearth.h share/man/man1/hearth.1 share/man/man1/hearth-run.1 share/man/man3/hearth.3 \
    share/bash-completion/completions/hearth share/zsh/site-functions/_hearth \
    share/fish/vendor_completions.d/hearth.fish; do
    [ -s "$root/$file" ] || fail "$file is not installed"
done
# Every command has its page.
for command in $("$root/bin/hearth" --help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
    [ -s "$root/share/man/man1/hearth-$command.1" ] || fail "hearth-$command.1 is not installed"
done
# Every function of the library has one, which tells of it, and every alias leads to a page.
man3=$root/share/man/man3
nm -g --defined-only "$(find "$root" -name libhearth.a)" 2>/dev/null | sed -n 's/^[0-9a-f]* T //p' >"$tmp/symbols"
while read -r name; do
    [ -s "$man3/$name.3" ] || fail "$name.3 is not installed"
    page=$(sed -n 's/^\.so //p' "$man3/$name.3")
    grep -q "^\.SS $name()" "$man3/../${page:-man3/$name.3}" || fail "$name.3 does not tell of $name"
    [[ $name == *_params_default ]] || grep -qx "$name" "$tmp/symbols" || fail "$name is not in the library"
done < <(sed -nE '/^[a-z]/s/.*[ *](hearth_[a-z0-9_]+)\(.*/\1/p' "$root/include/hearth.h" | sort -u)
if command -v groff >/dev/null; then
    for page in "$man3"/*.3; do
        warnings=$(cd "$man3/.." && groff -man -Tutf8 -ww -z "$page" 2>&1)
        [ -z "$warnings" ] || fail "$page: $warnings"
    done
fi

# The example in the manual is that of the sources, which is compiled and run with them.
sed -n '/^\.EX$/,/^\.EE$/p' "$man3/hearth.3" | sed -e '1d;$d' -e "s/\\\\(aq/'/g" -e 's/\\(ha/^/g;s/\\(ti/~/g;s/\\-/-/g;s/\\e/\\/g' |
    cmp - <(sed 1d "$source_dir/examples/hello.c") || fail "the example in hearth.3 is not examples/hello.c"

cat >"$tmp/user.c" <<'TEXT'
#include <hearth.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct hearth_model *model;
    struct hearth_error err;
    if (argc != 2 || hearth_model_open(&model, argv[1], NULL, &err))
        return 1;
    printf("%s %d\n", hearth_version(), hearth_model_info(model)->n_vocab);
    hearth_model_close(&model);
    return 0;
}
TEXT
pc=$(find "$root" -name hearth.pc)
[ -n "$pc" ] || fail "hearth.pc is not installed"
lib=$(dirname "$(find "$root" -name libhearth.a)")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
uses() { # PROGRAM: it runs and prints what it should
    LD_LIBRARY_PATH=$lib "$1" "$golden/llama-mha.Q8_0.gguf" >"$tmp/out" || fail "$1 does not run"
    [ "$(cat "$tmp/out")" = "$(pkg-config --modversion hearth) 288" ] || fail "$1 prints $(cat "$tmp/out")"
}
mapfile -t flags < <(pkg-config --cflags --libs hearth | xargs -n1)
"$compiler" -std=c17 -o "$tmp/user" "$tmp/user.c" "${flags[@]}" 2>"$tmp/err" || fail "a program does not build: ${flags[*]}"
uses "$tmp/user"
# What pkg-config --static says can be linked here; the library itself is named before it, or the shared one is taken.
mapfile -t flags < <(echo "$lib/libhearth.a" -Wl,--as-needed "$(pkg-config --static --cflags --libs hearth)" | xargs -n1)
"$compiler" -std=c17 -o "$tmp/static" "$tmp/user.c" "${flags[@]}" 2>"$tmp/err" || fail "a static program does not build: ${flags[*]}"
uses "$tmp/static"

# ---- the shared library: its name and what it exports, which is what hearth.h declares
if [ -e "$lib/libhearth.so" ]; then
    version=$(pkg-config --modversion hearth)
    readelf -d "$lib/libhearth.so" | grep -qF "soname: [libhearth.so.${version%.*}]" || fail "soname of libhearth.so"
    readelf -d "$tmp/user" | grep -qF "libhearth.so.${version%.*}" || fail "the program does not use libhearth.so"
    nm -D --defined-only "$lib/libhearth.so" | sed -nE 's/^[0-9a-f]+ T ([^@]+).*/\1/p' | sort >"$tmp/exported"
    sed -nE '/^[a-z]/s/.*[ *](hearth_[a-z0-9_]+)\(.*/\1/p' "$root/include/hearth.h" | grep -v '_params_default$' | sort -u >"$tmp/declared"
    same "$tmp/exported" "$tmp/declared"
    nm -D --defined-only "$lib/libhearth.so" | grep -q 'hearth_model_open@@HEARTH_0' || fail "symbols have no version"
    readelf -d "$tmp/static" | grep -q libhearth && fail "the static program uses libhearth.so"
fi

# ---- the CMake package, also of a tree that was moved
if command -v cmake >/dev/null; then
    mv "$root" "$tmp/moved"
    lib=$tmp/moved/${lib#"$root/"}
    mkdir "$tmp/project"
    cp "$tmp/user.c" "$tmp/project"
    cat >"$tmp/project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(hearth 0.2 REQUIRED)
add_executable(user user.c)
target_link_libraries(user hearth::hearth)
add_executable(user_static user.c)
target_link_libraries(user_static hearth::hearth_static)
TEXT
    cmake -S "$tmp/project" -B "$tmp/project/build" -DCMAKE_PREFIX_PATH="$tmp/moved" -DCMAKE_C_COMPILER="$compiler" \
        >"$tmp/out" 2>&1 || fail "a CMake project does not find the package"
    cmake --build "$tmp/project/build" >>"$tmp/out" 2>&1 || fail "a CMake project does not build"
    PKG_CONFIG_PATH=$lib/pkgconfig
    uses "$tmp/project/build/user"
    uses "$tmp/project/build/user_static"
fi

# ---- make uninstall leaves nothing, and nothing of others is gone
DESTDIR=$tmp/again cmake --install "$build" --prefix /opt/hearth >"$tmp/out" 2>&1 || fail "cmake --install"
touch "$tmp/again/opt/hearth/share/man/man1/other.1"
"$source_dir/scripts/uninstall.sh" "$list" "$tmp/again" /opt/hearth >"$tmp/out" 2>"$tmp/err" || fail "uninstall"
(cd "$tmp/again/opt/hearth" && find . | sort) >"$tmp/left"
printf '%s\n' . ./bin ./include ./lib ./share ./share/man ./share/man/man1 ./share/man/man1/other.1 >"$tmp/want"
sed -i 's|^\./lib64$|./lib|' "$tmp/left"
same "$tmp/left" "$tmp/want"
exit 0
