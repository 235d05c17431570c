#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth run --ram: the text does not depend on it, the smallest budget is named and works, and memory stays within it.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"


samples=0
# runs_within RAM COMMAND ARGUMENT...: hearth as `run 0`, while its private memory is looked at from outside.
runs_within() {
    local ram=$1 pid status=0 kib most=0
    shift
    "$hearth" "$@" --ram "$ram" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    while kib=$(awk '/^Anonymous:/ { n += $2 } END { print n + 0 }' "/proc/$pid/smaps_rollup" 2>/dev/null); do
        [ "$kib" -gt "$most" ] && most=$kib
        [ "$kib" -gt 0 ] && samples=$((samples + 1))
    done
    wait "$pid" || status=$?
    [ "$status" -eq 0 ] || fail "hearth $*: exit status $status"
    [ "$sanitized" -gt 0 ] || [ $((most * 1024)) -le "$ram" ] || fail "hearth $*: $most KiB of private memory with --ram $ram"
}

# named: the smallest budget that the last message names.
named() {
    sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err"
}

# Not every kernel lets every program have io_uring.
uring=auto
check() { # MODEL OPTION...
    local model=$1 least=0 io ram
    shift
    local usual=(-p "w12 w40 w7 w300 w5" -n 40 --ignore-eos --temp 0 -s 1 -c 512 "$@")
    run 0 run "$model" "${usual[@]}"
    cp "$tmp/out" "$tmp/want"
    [ -s "$tmp/want" ] || fail "no text"
    # The larger one of the two backends'.
    for io in $uring pread; do
        run 1 run "$model" "${usual[@]}" --io "$io" --ram 1M
        out_is_empty
        [ -n "$(named)" ] || fail "no smallest budget in the message"
        [ "$(named)" -lt "$least" ] || least=$(named)
    done
    run 1 run "$model" "${usual[@]}" --io pread --ram $((least - 1))
    [ "$(named)" = "$least" ] || fail "$(named) and $least bytes are named"
    for ram in "$least" $((least + 400000)) $((least + 1500000)) 1000000000; do
        for io in $uring pread; do
            runs_within "$ram" run "$model" "${usual[@]}" --io "$io"
            same "$tmp/out" "$tmp/want"
        done
    done
}

run 0 synth tiny-dense "$tmp/dense.gguf"
"$hearth" run "$tmp/dense.gguf" -n 1 -p a --ram 50M --io uring >/dev/null 2>&1 && uring=uring
for preset in tiny-dense tiny-qwen3-moe tiny-turbosparse-pack tiny-turbosparse; do
    rm -f "$tmp/model.gguf"
    run 0 synth $preset "$tmp/model.gguf"
    check "$tmp/model.gguf" -t 2
done
run 0 profile "$tmp/model.gguf" -f "$source_dir/README.md" -o "$tmp/profile"
run 0 pack "$tmp/model.gguf" "$tmp/pack.gguf" --profile "$tmp/profile"
check "$tmp/pack.gguf" -np 3 -t 1
check "$tmp/pack.gguf" --sparsity exact

# A text that takes more memory than a plan expects of a program counts. (What a sanitizer adds must not.)
if [ "$sanitized" = 0 ]; then
    head -c 8000000 /dev/zero | tr '\0' 'a' | fold -w 7 >"$tmp/long"
    head -c 1000 "$tmp/long" >"$tmp/short"
    run 1 perplexity "$tmp/dense.gguf" -f "$tmp/short" -c 64 -t 1 --ram 64K
    least=$(named)
    run 1 perplexity "$tmp/dense.gguf" -f "$tmp/long" --chunks 1 -c 64 -t 1 --ram 64K
    [ "$(named)" -gt $((least + 4 * 1024 * 1024)) ] || fail "$least bytes for a short text, $(named) for a long one"
fi

# Short runs on a busy machine may end unseen: then there are more of them.
for _ in $(seq 200); do
    [ "$samples" -le 20 ] || break
    runs_within 1000000000 run "$tmp/dense.gguf" -p "w12 w40 w7 w300 w5" -n 400 --ignore-eos --temp 0 -s 1 -c 512
done
[ "$samples" -gt 20 ] || fail "memory was looked at $samples times only"

# ---- figures: of a model that is some MiB larger than its smallest budget
run 0 synth tiny-turbosparse-pack "$tmp/experts.gguf"
run 1 run "$tmp/experts.gguf" -n 30 --ignore-eos --io "$uring" --ram 1M
least=$(named)
run 0 run "$tmp/experts.gguf" -n 30 --ignore-eos --io "$uring" --ram "$least" --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" streaming/planned_bytes)" -le "$least" ] || fail "planned_bytes"
[ "$(json "$tmp/stats" streaming/neurons)" -ge "$(json "$tmp/stats" streaming/neurons_cached)" ] || fail "neurons"
[ "$(json "$tmp/stats" streaming/read_bytes)" -gt 0 ] || fail "read_bytes"
[ "$sanitized" -gt 0 ] || [ "$(json "$tmp/stats" memory_peak_bytes)" -le $((least + 8 * 1024 * 1024)) ] || fail "memory_peak_bytes"
run 0 run "$tmp/experts.gguf" -n 30 --ignore-eos --io "$uring" --ram "$least"
err_lacks "without effect"
grep -qE "iB for a token(, [^;]*)?; waited for storage " "$tmp/err" || fail "what a token read"
err_has " MiB of memory at most, and "
err_has " MiB of the program itself"
[ "$sanitized" -gt 0 ] || [ "$(sed -n 's/.*; \([0-9]*\) MiB of memory at most.*/\1/p' "$tmp/err")" -le $(((least + 1048575) / 1048576)) ] ||
    fail "more memory than --ram"

# ---- the first tokens read more, as they fill the cache: what is told of bytes says so
if [ "$sanitized" = 0 ]; then
    run 0 synth small-turbosparse "$tmp/model.gguf"
    run 0 pack "$tmp/model.gguf" "$tmp/filling.gguf"
    filling=(run "$tmp/filling.gguf" -p "one two three" --ignore-eos -s 1 -t 1 -c 64 --ram 34M)
    run 0 "${filling[@]}" -n 4
    err_has " for a token, as the first ones fill the cache; waited for storage "
    run 0 "${filling[@]}" -n 24
    grep -qE " for a token, [0-9.]+ [KM]iB once the cache had filled; waited for storage " "$tmp/err" || fail "bytes of later tokens"
    run 0 "${filling[@]}" -n 24 --stats json
    tail -n 1 "$tmp/err" >"$tmp/stats"
    awk -v all="$(json "$tmp/stats" streaming/read_bytes_per_token)" -v late="$(json "$tmp/stats" streaming/late_read_bytes_per_token)" \
        'BEGIN { exit !(late > 0 && 1.2 * late < all) }' || fail "late_read_bytes_per_token"
    awk -v late="$(json "$tmp/stats" streaming/late_ms_per_token_p50)" -v p99="$(json "$tmp/stats" ms_per_token_p99)" \
        'BEGIN { exit !(late > 0 && late <= p99) }' || fail "late_ms_per_token_p50"
    # Beside a forecast it is told there, once; in chats of the first answers.
    know_machine
    run 0 "${filling[@]}" -n 4
    err_has ", as the first ones fill the cache) in "
    [ "$(grep -c "fill the cache" "$tmp/err")" = 1 ] || fail "twice"
    run 0 chat "$tmp/filling.gguf" --chat-template chatml -st -p x --ignore-eos -s 1 -t 1 -c 64 --ram 34M -n 4
    err_has " for a token, as the first ones fill the cache; waited for storage "
fi

# ---- who waits for loading off a terminal is told how long that took
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
run 1 run "$model" -p x -n 1 -c 64 --ram 64K
# Two layers more than the least, and half a layer more, by which the program itself varies under ASan.
ram=$(($(named) + 3 * 1024 * 1024))
run 0 run "$model" -p x -n 1 -c 64 --ram $ram --throttle 4000,2
grep -qE '^hearth: loading took [0-9]+\.[0-9] s$' "$tmp/err" || fail "nothing says how long loading took"
run 0 run "$model" -p x -n 1 -c 64 --ram $ram --throttle 4000,2 --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
awk -v loading="$(json "$tmp/stats" load_ms)" -v measure="$(json "$tmp/stats" measure_ms)" \
    'BEGIN { exit !(loading >= 1000 && measure + 0 == 0) }' || fail "load_ms, measure_ms"

# ---- what makes no sense
run 2 run "$tmp/pack.gguf" --ram 900M --throttle floppy
err_has "is no kind of storage"
