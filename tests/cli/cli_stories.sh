#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A trained model with its reference text, and a real text to score. Needs outside data.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
data=${HEARTH_TEST_DATA:-}
model=$data/stories260K.gguf
[ -f "$model" ] || skip "HEARTH_TEST_DATA is not set or has no stories260K.gguf"

run 0 run "$model" --temp 0 -n 200
cp "$data/stories260K.greedy200.txt" "$tmp/want"
end_line "$tmp/want"
same "$tmp/out" "$tmp/want"

# Both classes of evaluation score the same text alike, and 8 bits nearly as all of them. With four bits prompts take one
# plane of activations, whose rounding a longer text averages out.
text=$data/corpora/tinystories_train_a.txt
[ -f "$text" ] || exit 0
score() { # BYTES OPTION...
    head -c "$1" "$text" >"$tmp/text"
    shift
    run 0 perplexity "$@" -f "$tmp/text" -c 256
    sed -nE 's/^Final estimate: PPL = ([0-9.]+) .*/\1/p' "$tmp/out"
}
compare() { # BYTES MODEL
    local prompt step
    prompt=$(score "$1" "$2") || exit 1
    step=$(score "$1" "$2" --phase step) || exit 1
    echo "perplexity of ${2##*/}, $1 bytes: $prompt in prompts, $step in steps"
    awk -v p="$prompt" -v s="$step" 'BEGIN { exit !(p > 1 && p < 20 && s / p > 0.999 && s / p < 1.001) }' ||
        fail "perplexities of the classes are too far apart"
}
run 0 quantize "$model" "$tmp/q8.gguf" Q8_0
run 0 quantize "$model" "$tmp/q4.gguf" Q4_0
compare 8192 "$model"
compare 8192 "$tmp/q8.gguf"
compare 40960 "$tmp/q4.gguf"
all=$(score 8192 "$model") || exit 1
q8=$(score 8192 "$tmp/q8.gguf") || exit 1
q4=$(score 8192 "$tmp/q4.gguf") || exit 1
awk -v p="$all" -v q="$q8" -v r="$q4" 'BEGIN { exit !(q / p > 0.99 && q / p < 1.01 && r / p > 1 && r / p < 1.3) }' ||
    fail "perplexities of the formats are too far apart: $all, $q8, $q4"
exit 0
