#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs that are killed, files cut short or damaged, disks that are full, with hearth run --ram and hearth pack: a
# clear message and nothing on disk that should not be there.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

mkdir "$tmp/models" "$tmp/scratch" "$tmp/work"
export TMPDIR=$tmp/scratch # whatever made a temporary file would make it here, or beside the model
cd "$tmp/work" || exit 1
prompt="w12 w40 w7 w300 w5"
usual=(-p "$prompt" --ignore-eos --temp 0 -s 1 -c 512 -t 2)

# find_budget MODEL N [OPTION...]: sets $least to the smallest budget for N tokens, with which the model has to stream.
find_budget() {
    local model=$1 n=$2
    shift 2
    run 1 run "$model" "${usual[@]}" -n "$n" "$@" --ram 1M
    least=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err")
    run 0 run "$model" "${usual[@]}" -n $((n < 9 ? n : 9)) "$@" --ram "$least" --stats json
    tail -n 1 "$tmp/err" | grep -q '"streaming":{' || fail "$model does not stream with $least bytes"
}

# pause MILLISECONDS
pause() {
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"
}

# state: checksums of all files that could have changed, and their names.
state() {
    find "$tmp/models" "$tmp/scratch" "$tmp/work" -type f -exec cksum {} + | sort -k 3
}

run 0 synth tiny-dense "$tmp/models/dense.gguf"
run 0 synth tiny-turbosparse-pack "$tmp/models/experts.gguf"
run 0 synth tiny-turbosparse "$tmp/models/sparse.gguf"
run 0 pack "$tmp/models/sparse.gguf" "$tmp/models/pack.gguf"

# ---- killed while it reads and while it generates, at all times of its short life
for model in dense experts pack; do
    path=$tmp/models/$model.gguf
    find_budget "$path" 500
    run 0 run "$path" "${usual[@]}" -n 500
    cp "$tmp/out" "$tmp/want"
    before=$(state)
    spoke=0
    for i in 1 2 3 4 5 6 7 8; do
        # Slow storage, so that there is reading to be interrupted: first while it starts, then while it generates.
        throttle=$((i % 2 ? 2000 : 8000)),$((i % 2 ? 40 : 160))
        "$hearth" run "$path" "${usual[@]}" -n 500 --ram "$least" --throttle $throttle >"$tmp/killed" 2>"$tmp/err" &
        pid=$!
        pause $((RANDOM % (i * 100)))
        kill -KILL $pid 2>/dev/null
        { wait $pid; } 2>/dev/null
        status=$?
        [ $status -eq 137 ] || [ $status -eq 0 ] || fail "a killed run ended with $status"
        cmp -s -n "$(count_bytes "$tmp/killed")" "$tmp/killed" "$tmp/want" || fail "a killed run had said something else"
        [ -s "$tmp/killed" ] && spoke=$((spoke + 1))
        [ "$(state)" = "$before" ] || fail "a killed run changed files: $(state)"
    done
    run 0 run "$path" "${usual[@]}" -n 500 --ram "$least"
    same "$tmp/out" "$tmp/want"
    [ "$(state)" = "$before" ] || fail "a run changed files: $(state)"
    echo "$model: $spoke of 8 were killed while they generated"
done

# ---- cut short while it runs: what was said until then is right, and the message names the file
for model in dense experts pack; do
    path=$tmp/work/cut.gguf
    cp "$tmp/models/$model.gguf" "$path"
    find_budget "$path" 400
    run 0 run "$path" "${usual[@]}" -n 400
    cp "$tmp/out" "$tmp/want"
    for keep in 0 2 3; do
        cp "$tmp/models/$model.gguf" "$path"
        : >"$tmp/out"
        "$hearth" run "$path" "${usual[@]}" -n 400 --ram "$least" --throttle 4000,40 >"$tmp/out" 2>"$tmp/err" &
        pid=$!
        until [ -s "$tmp/out" ] || ! kill -0 $pid 2>/dev/null; do pause 10; done
        truncate -s $((($(count_bytes "$path") * keep / 4) + keep * 777)) "$path"
        wait $pid
        status=$?
        [ $status -eq 1 ] || fail "$model cut short while it ran: exit status $status"
        err_has "$path"
        cmp -s -n "$(count_bytes "$tmp/out")" "$tmp/out" "$tmp/want" || fail "$model cut short gave another text"
    done
    # And while it starts: whatever comes of it, it is said.
    for i in 1 2 3 4 5 6 7 8; do
        cp "$tmp/models/$model.gguf" "$path"
        "$hearth" run "$path" "${usual[@]}" -n 40 --ram "$least" --throttle 4000,40 >"$tmp/out" 2>"$tmp/err" &
        pid=$!
        sleep 0.00$((RANDOM % 10))$i
        truncate -s $(($(count_bytes "$path") * (i % 4) / 4)) "$path"
        wait $pid
        status=$?
        [ $status -eq 0 ] || { [ $status -eq 1 ] && err_has "$path"; } || fail "$model cut short: exit status $status"
    done
    # And before.
    cp "$tmp/models/$model.gguf" "$path"
    truncate -s $(($(count_bytes "$tmp/models/$model.gguf") / 2)) "$path"
    for ram in "$least" 1000000000; do
        run 1 run "$path" "${usual[@]}" -n 10 --ram "$ram"
        out_is_empty
        err_has "truncated"
    done
    rm -f "$path"
done

# ---- flipped bits: with --verify no word is said
for model in experts pack; do
    size=$(count_bytes "$tmp/models/$model.gguf")
    find_budget "$tmp/models/$model.gguf" 10 --verify
    for at in 5000 $((size / 3)) $((size / 2)) $((size - 9000)); do
        cp "$tmp/models/$model.gguf" "$tmp/work/bad.gguf"
        byte=$(od -An -tu1 -j "$at" -N 1 "$tmp/work/bad.gguf")
        # shellcheck disable=SC2059
        printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$tmp/work/bad.gguf" bs=1 seek="$at" conv=notrunc status=none
        run 1 run "$tmp/work/bad.gguf" "${usual[@]}" -n 10 --ram "$least" --verify
        out_is_empty
        err_has "$tmp/work/bad.gguf"
    done
done
rm "$tmp/work/bad.gguf"

# ---- packing, killed at any time: under its name there is all of a pack or nothing, and the next one works
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
run 0 pack "$model" "$tmp/good"
took=60000
pack_once() { # $took: what the fastest one took, in milliseconds: whatever else a busy machine did is in the others
    local start ms
    start=$(date +%s%N)
    run 0 pack "$model" "$tmp/scratch/out" -q
    ms=$((($(date +%s%N) - start) / 1000000 + 1))
    took=$((ms < took ? ms : took))
}
for _ in 1 2 3; do pack_once; done
rm "$tmp/scratch/out"
finished=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    [ $((i % 4)) -eq 0 ] && echo GGUF old >"$tmp/scratch/out"
    "$hearth" pack "$model" "$tmp/scratch/out" -q 2>/dev/null &
    pid=$!
    pause $((RANDOM % (took * 5 / 4)))
    kill -KILL $pid 2>/dev/null
    wait $pid
    if [ -e "$tmp/scratch/out" ] && [ "$(head -c 8 "$tmp/scratch/out")" != "GGUF old" ]; then
        same "$tmp/scratch/out" "$tmp/good"
        finished=$((finished + 1))
    fi
    [ "$(find "$tmp/scratch" -type f ! -name out ! -name '*.part' | wc -l)" -eq 0 ] || fail "packing left strange files"
    pack_once
    same "$tmp/scratch/out" "$tmp/good"
    [ "$(find "$tmp/scratch" -type f | wc -l)" -eq 1 ] || fail "packing left files behind"
    rm "$tmp/scratch/out"
done
[ "$finished" -lt 12 ] || fail "no packer was killed in time"

# Of four at once two are killed; the others do not mind.
pids=()
for i in 1 2 3 4; do
    "$hearth" pack "$model" "$tmp/scratch/out" -q 2>/dev/null &
    pids+=($!)
done
pause $((took / 3))
kill -KILL "${pids[0]}" "${pids[2]}" 2>/dev/null
wait "${pids[1]}" || fail "a packer beside one that was killed failed"
wait "${pids[3]}" || fail "a packer beside one that was killed failed"
same "$tmp/scratch/out" "$tmp/good"
run 0 pack "$model" "$tmp/scratch/out" -q
[ "$(find "$tmp/scratch" -type f | wc -l)" -eq 1 ] || fail "packing left files behind"

# ---- a disk that is really full, where one may be made (tests with a limit on file sizes: cli_pack.sh)
mkdir "$tmp/full"
# shellcheck disable=SC2016
if unshare --mount --map-root-user sh -c 'mount -t tmpfs -o size=1m none "$1"' sh "$tmp/full" 2>/dev/null; then
    # shellcheck disable=SC2016
    unshare --mount --map-root-user sh -c '
        mount -t tmpfs -o size=1m none "$1" && echo GGUF old >"$1/out" || exit 9
        "$2" pack "$3" "$1/out"
        status=$?
        [ "$(cat "$1/out")" = "GGUF old" ] && [ "$(ls -A "$1" | wc -l)" -eq 1 ] || exit 8
        exit $status' sh "$tmp/full" "$hearth" "$model" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -eq 1 ] || fail "packing to a full disk ended with $status"
    err_has "No space left"
    err_has "$tmp/full/out"
else
    echo "no full disk: this system lets nobody mount one"
fi
exit 0
