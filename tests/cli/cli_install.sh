#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An installed Hearth: all files are where they belong, and a program builds against header, library and pkg-config.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
build=$(dirname "$hearth")
grep -q '^HEARTH_SANITIZE:.*=.' "$build/CMakeCache.txt" && skip "not for sanitizer builds"
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")

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
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
mapfile -t flags < <(pkg-config --cflags --libs hearth | xargs -n1)
"$compiler" -std=c17 -o "$tmp/user" "$tmp/user.c" "${flags[@]}" 2>"$tmp/err" || fail "a program does not build: ${flags[*]}"
"$tmp/user" "$golden/llama-mha.Q8_0.gguf" >"$tmp/out" || fail "the program does not run"
[ "$(cat "$tmp/out")" = "$(pkg-config --modversion hearth) 288" ] || fail "the program prints $(cat "$tmp/out")"
exit 0
