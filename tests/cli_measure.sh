#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth bench and hearth perplexity.
# shellcheck source=tests/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf

# ---- bench: a row for each test
run 0 bench "$model" -p 16 -n 4 -npl 1,3 -r 2 --roof 1M
for name in pp16 "tg4" "tg4 x3" "Memory roof: "; do
    out_has "$name"
done
[ "$(grep -c '^| llama' "$tmp/out")" -eq 3 ] || fail "rows of the table"
[ "$(grep -c ' ± ' "$tmp/out")" -eq 3 ] || fail "deviations in the table"
columns=$(head -n 1 "$tmp/out" | tr -cd '|' | wc -c)
while IFS= read -r line; do
    [ "$(printf '%s' "$line" | tr -cd '|' | wc -c)" -eq "$columns" ] || fail "columns of: $line"
done < <(grep '^|' "$tmp/out")

run 0 bench "$model" -p 16,8 -n 4 -npl 2 -r 2 --roof 0 -o json
[ "$(json "$tmp/out" .)" = 3 ] || fail "results in JSON"
[ "$(json "$tmp/out" 0/n_prompt)" = 16 ] || fail "n_prompt"
[ "$(json "$tmp/out" 2/n_gen)" = 4 ] || fail "n_gen"
[ "$(json "$tmp/out" 2/n_sequences)" = 2 ] || fail "n_sequences"
[ "$(json "$tmp/out" 2/samples_ts)" = 2 ] || fail "samples"
[ "$(json "$tmp/out" 2/roof_gb_per_second)" = null ] || fail "a roof that was not measured"
awk -v v="$(json "$tmp/out" 2/avg_ts)" 'BEGIN { exit !(v > 0) }' || fail "avg_ts"
run 1 bench "$tmp/none.gguf" --roof 0
err_has "none.gguf"

# ---- a long prompt can be stopped
status=0
timeout -s INT -k 60 1 "$hearth" bench "$model" -p 1048576 -n 0 -r 1 --roof 0 >/dev/null 2>"$tmp/err" || status=$?
[ $status -eq 124 ] || fail "SIGINT during a long prompt: exit status $status"

# ---- perplexity: a fixed text; both classes agree closely, and chunks add up
for i in $(seq 40); do
    printf 'Once upon a time there was a cat number %d. ' "$i"
done >"$tmp/text"
ppl() {
    run 0 perplexity "$model" -f "$tmp/text" -c 64 "$@"
    [ "$(wc -l <"$tmp/out")" -eq 1 ] || fail "more than the result on standard output"
    sed -nE 's/^Final estimate: PPL = ([0-9.]+) \+\/- [0-9.]+$/\1/p' "$tmp/out"
}
all=$(ppl)
step=$(ppl --phase step)
threads=$(ppl -t 1 -ub 5)
awk -v a="$all" -v b="$step" 'BEGIN { exit !(a > 1 && b / a > 0.99 && b / a < 1.01) }' || fail "PPL $all against $step"
[ "$all" = "$threads" ] || fail "perplexity depends on threads or micro-batch: $all, $threads"
two=$(ppl --chunks 2)
err_has "[2]"
err_lacks "[3]"
[ "$two" != "$all" ] || fail "--chunks 2 scores all chunks"
run 0 perplexity "$model" -f - -c 64 <"$tmp/text"
out_has "PPL = $all "
printf 'short' >"$tmp/short"
run 1 perplexity "$model" -f "$tmp/short" -c 64
err_has "need at least 128"
exit 0
