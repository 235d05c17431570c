#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A trained model with its reference text, and a real text to score. Needs outside data.
# shellcheck source=tests/cli.sh
. "$(dirname "$0")/cli.sh"
data=${HEARTH_TEST_DATA:-}
model=$data/stories260K.gguf
[ -f "$model" ] || skip "HEARTH_TEST_DATA is not set or has no stories260K.gguf"

run 0 run "$model" --temp 0 -n 200
same "$tmp/out" "$data/stories260K.greedy200.txt"

# Both classes of evaluation, and the same weights in 8 bits, predict the text about equally well.
text=$data/corpora/tinystories_train_a.txt
[ -f "$text" ] || exit 0
head -c 8192 "$text" >"$tmp/text"
score() {
    run 0 perplexity "$@" -f "$tmp/text" -c 256 --chunks 2
    sed -nE 's/^Final estimate: PPL = ([0-9.]+) .*/\1/p' "$tmp/out"
}
prompt=$(score "$model")
step=$(score "$model" --phase step)
run 0 quantize "$model" "$tmp/q8.gguf" Q8_0
q8=$(score "$tmp/q8.gguf")
run 0 quantize "$model" "$tmp/q4.gguf" Q4_0
q4=$(score "$tmp/q4.gguf")
echo "perplexity: prompt $prompt, step $step, Q8_0 $q8, Q4_0 $q4"
awk -v p="$prompt" -v s="$step" -v q="$q8" -v r="$q4" 'BEGIN {
    exit !(p > 1 && p < 20 && s / p > 0.99 && s / p < 1.01 && q / p > 0.97 && q / p < 1.03 && r / p > 0.9 && r / p < 1.3)
}' || fail "perplexities are too far apart"
exit 0
