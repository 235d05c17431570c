#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make check-fit: models run in a control group with less memory than they have weights, without any option, and the
# kernel never kills one. Not part of ctest: it needs root for the group, and models of some GiB.
#
#   check_fit.sh HEARTH [MODEL...]     without MODEL: two synthetic ones, 8 GiB in $TMPDIR
#   CAGE=3000000000 ROUNDS=20 SEED=1   bytes of the group; runs of each model; what is random
#
# Page cache counts in a group, so some of each file is read into it before every other run. Exit status 77: skipped.
set -u
hearth=$1
shift
cage=${CAGE:-3000000000} rounds=${ROUNDS:-20}
RANDOM=${SEED:-1}
tmp=$(mktemp -d)
group=

leave() {
    [ -n "$group" ] && rmdir "$group" 2>/dev/null
    rm -rf "$tmp"
}
trap leave EXIT

# ---- a group of this version, beside which nothing else is limited

open_v1() {
    local mount path
    mount=$(awk '$(NF-2) == "cgroup" && $NF ~ /(^|,)memory(,|$)/ { print $5; exit }' /proc/self/mountinfo)
    path=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
    [ -n "$mount" ] && [ -n "$path" ] && group=$mount$path/hearth-check-$$ && mkdir "$group" 2>/dev/null &&
        echo "$cage" >"$group/memory.limit_in_bytes"
}

open_v2() {
    local mount path
    mount=$(awk '$(NF-2) == "cgroup2" { print $5; exit }' /proc/self/mountinfo)
    path=$(sed -n 's/^0:://p' /proc/self/cgroup)
    [ -n "$mount" ] && grep -qw memory "$mount$path/cgroup.controllers" 2>/dev/null || return 1
    echo +memory >"$mount$path/cgroup.subtree_control" 2>/dev/null
    group=$mount$path/hearth-check-$$
    mkdir "$group" 2>/dev/null && echo "$cage" >"$group/memory.max" && echo 0 >"$group/memory.swap.max"
}

[ "$(id -u)" -eq 0 ] || {
    echo "check-fit: skipped: control groups need root"
    exit 77
}
version=1
open_v1 || {
    version=2
    open_v2 || {
        group=
        echo "check-fit: skipped: no control group for memory can be made here"
        exit 77
    }
}

# caged COMMAND...: in the group.
caged() {
    # shellcheck disable=SC2016 # the inner shell's
    bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}

# ---- models

if [ $# -eq 0 ]; then
    for preset in turbosparse-mistral-7b mistral-7b-dense; do
        "$hearth" synth $preset "$tmp/$preset.gguf" || exit 1
        set -- "$@" "$tmp/$preset.gguf"
    done
fi

# pick WORD...: one of them is in $picked. No command substitutions: their random numbers would be the same again.
pick() {
    shift $((RANDOM % $#))
    picked=$1
}

# Into $options: contexts, batches and prompts of all kinds, and now and then a budget that is too large.
random_options() {
    local prompt='' words=$((1 + RANDOM % 40)) i
    for ((i = 0; i < words; i++)); do prompt+="w$((RANDOM % 400)) "; done
    options=(-p "$prompt" -n $((1 + RANDOM % 2)) --temp 1 -s $((RANDOM)))
    pick 1 1 1 2 4 8 && options+=(-np "$picked")
    pick 512 512 128 2048 && options+=(-ub "$picked")
    pick '' '' '' 512 2048 4096 8192 16384 && [ -n "$picked" ] && options+=(-c "$picked")
    pick '' '' '' f32 q8_0 && [ -n "$picked" ] && options+=(-ctk "$picked")
    pick '' '' '' 20G 4G 2600M && [ -n "$picked" ] && options+=(--ram "$picked")
}

failed=0 killed=0 streamed=0 n=0
for model in "$@"; do
    for ((round = 1; round <= rounds; round++)); do
        random_options
        [ $((round % 2)) -eq 0 ] && caged head -c "$cage" "$model" >/dev/null # page cache, all that fits
        start=$SECONDS status=0
        caged "$hearth" run "$model" "${options[@]}" >"$tmp/out" 2>"$tmp/err" || status=$?
        n=$((n + 1))
        [ $status -ge 128 ] && killed=$((killed + 1))
        grep -q 'running with --ram\|more than there is' "$tmp/err" && streamed=$((streamed + 1))
        [ $status -eq 0 ] || {
            failed=$((failed + 1))
            cat "$tmp/err"
        }
        printf '%s %d: status %d, %d s, %s; %s\n' "${model##*/}" $round $status $((SECONDS - start)) \
            "$(sed -n 's/.*waited for storage.*; \(.* of memory at most\)/\1/p' "$tmp/err")" "${options[*]:2}"
    done
done
# ---- two that start at once: the second takes what the first one leaves, or says that it is too little

for ((i = 0; i < 2; i++)); do
    caged "$hearth" run "$1" -p "w1 w2" -n 1 >"$tmp/out$i" 2>"$tmp/err$i" &
    pids[i]=$!
done
for ((i = 0; i < 2; i++)); do
    status=0
    wait "${pids[i]}" || status=$?
    n=$((n + 1))
    [ $status -ge 128 ] && killed=$((killed + 1))
    [ $status -eq 0 ] || grep -q 'there is too little memory' "$tmp/err$i" || failed=$((failed + 1))
    echo "one of two: status $status, $(head -n 1 "$tmp/err$i")"
done

peak=$(cat "$group/memory.max_usage_in_bytes" "$group/memory.peak" 2>/dev/null)
echo "check-fit: version $version, $cage bytes: $n runs, $streamed streamed, $failed failed, $killed killed; peak $peak"
[ $failed -eq 0 ]
