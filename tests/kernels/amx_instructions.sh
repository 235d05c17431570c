#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# amx_instructions.sh LIBRARY: what the compiler made of the AMX kernels is AMX, all of the instructions that they are
# written in, and no other object of the library has any, nor has this one an instruction beyond them.
set -eu
library=$1
command -v objdump >/dev/null 2>&1 || {
    echo "objdump is not installed: skipped"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && ar x "$library")

tiles() { # object: its tile instructions, with how often each occurs
    objdump -d --no-show-raw-insn "$1" | awk '$2 ~ /^(tile|tdp|ldtile|sttile|tcmm)/ { n[$2]++ } END { for (i in n) print i, n[i] }'
}

failed=0
for object in "$work"/*.o "$work"/*.obj; do
    [ -e "$object" ] || continue
    found=$(tiles "$object" | sort)
    case $object in
    */prompt_amx.*)
        echo "$found"
        expected=$'ldtilecfg\ntdpbf16ps\ntileloadd\ntilerelease\ntilestored\ntilezero'
        [ "$(cut -d' ' -f1 <<<"$found")" = "$expected" ] || {
            echo "expected these, and nothing else:"
            echo "$expected"
            failed=1
        }
        # Every sum begins in a zeroed tile, and one or two products go into it.
        awk '{ n[$1] = $2 } END { exit !(n["tilezero"] <= n["tdpbf16ps"] && n["tdpbf16ps"] <= 2 * n["tilezero"]) }' <<<"$found" || failed=1
        kernels=1
        ;;
    *)
        [ -z "$found" ] || {
            echo "$(basename "$object") has tile instructions"
            failed=1
        }
        ;;
    esac
done
[ "${kernels:-}" ] || {
    echo "the library has no prompt_amx"
    failed=1
}
exit $failed
