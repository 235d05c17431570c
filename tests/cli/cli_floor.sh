#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The smallest budget of hearth run: it is named, exact, always the same, and the message says what makes it smaller.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

# With sanitizers a process holds memory that no plan knows of.
grep -q '^HEARTH_SANITIZE:.*=.' "$(dirname "$hearth")/CMakeCache.txt" 2>/dev/null && exit 77

named() {
    sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err"
}

# One byte less than what is named is refused, with the same number, and what is named runs.
check() { # MODEL OPTION...
    local model=$1 least readable i
    shift
    run 1 run "$model" -p "w1 w2" -n 3 --ignore-eos --ram 64K "$@"
    least=$(named)
    [ -n "$least" ] || fail "no smallest budget in the message"
    for i in 1 2; do
        run 1 run "$model" -p "w1 w2" -n 3 --ignore-eos --ram $((least - i)) "$@"
        [ "$(named)" = "$least" ] || fail "$model $*: $least and $(named) bytes are named"
    done
    readable=$(sed -n 's/.*at least \([0-9.]* [MG]iB\) (.*/\1/p' "$tmp/err")
    for i in "$least" "${readable/ /}"; do
        run 0 run "$model" -p "w1 w2" -n 3 --ignore-eos --ram "$i" "$@"
    done
    run 0 run "$model" -p "w1 w2" -n 3 --ignore-eos --ram min --stats json "$@"
    readable=${readable/ /} i=$(tail -n 1 "$tmp/err" | sed -n 's/.*"planned_bytes":\([0-9]*\).*/\1/p')
    err_has "hearth: --ram min is ${readable/iB/}"
    [ "${i:-0}" -le "$least" ] || fail "$i bytes are planned with --ram min, where $least would do"
}

for preset in tiny-dense tiny-turbosparse tiny-turbosparse-moe tiny-turbosparse-pack tiny-relullama tiny-opt \
    tiny-falcon tiny-qwen3-moe tiny-gpt-oss tiny-qwen3.6 tiny-glm-flash tiny-glm-5 \
    tiny-gemma-4-e tiny-gemma-4-moe; do
    rm -f "$tmp/model.gguf"
    run 0 synth $preset "$tmp/model.gguf"
    check "$tmp/model.gguf" -t 2 -c 300
    check "$tmp/model.gguf" -t 3 -ub 16 -np 2 --sparsity off
done
for model in "$source_dir"/models/*.gguf; do
    check "$model" -t 1
    check "$model" -t 2 -ub 8 -c 128
done

model=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf

# More threads take more.
run 1 run "$model" -t 1 --ram 64K
one=$(named)
run 1 run "$model" -t 2 --ram 64K
[ "$(named)" -gt "$one" ] || fail "two threads need no more than one"

# What weighs most is named.
for ((i = 0; i < 300; i++)); do echo "It was night."; done >"$tmp/long" # micro-batches are no longer than the prompt
run 1 run "$model" -ub 512 -f "$tmp/long" --ram 64K
err_has "are due to the micro-batch of 512 tokens"
run 1 run "$model" -ub 1 -c 100000 --ram 64K
err_has "are due to the context of 100000 tokens"
run 1 run "$model" -ub 1 -c 512 -np 200 --ram 64K
err_has "are due to the 200 sequences"
run 1 run "$model" -ub 1 -c 4096 -np 4 --ram 64K
err_has "are due to the context of 4096 tokens and the 4 sequences in it"
err_has "error: give --ram "
err_has "M or --ram min: --ram must be at least"
err_has "; a smaller context (-c) takes less"
run 0 run "$model" -ub 1 -c 4096 -np 4 -n 1 -p x --ram "$(sed -n 's/.*error: give --ram \([^ ]*\) .*/\1/p' "$tmp/err")"
run 1 run "$model" -ub 1 -c 64 -n 1 -p x --ram 64K
err_lacks " 0.0" # what is nothing has no part in it
# Of a cache with less room than all sequences would take, its own size: a server's sequences are not -np alone.
run 1 serve "$model" -ub 1 -c 4096 -np 4 --ram 64K --port 0
err_has "are due to the KV cache of 16384 tokens; a smaller context (-c) or fewer texts at once (-np) takes less"
run 1 bench "$model" -p 64 -n 192 -ub 8 -npl 1,4,8 --ram 64K
err_has "tokens and the 8 sequences in it"
