#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth sparsify: a shipped model whose neurons are all active becomes one that uses a third of them, loses little by it,
# and streams as a pack; what is refused.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf
sparse=$tmp/novels-sparse.gguf
prompt='It was a dark and stormy night, and'

# Texts of the model's own: to learn from, and to judge by.
run 0 run "$model" -p "$prompt" -n 490 --seed 3 --ignore-eos
cp "$tmp/out" "$tmp/text"
run 0 run "$model" -p "$prompt" -n 490 --seed 4 --ignore-eos
cat "$tmp/out" >>"$tmp/text"
run 0 run "$model" -p "$prompt" -n 490 --seed 5 --ignore-eos
cp "$tmp/out" "$tmp/heldout"

run 0 sparsify "$model" -f "$tmp/text" -o "$sparse" --density 70 -t 2
err_has "--density 70: models of more than 60 % lose more than those of 50 %"
run 0 sparsify "$model" -f "$tmp/text" -o "$sparse" --density 30 -t 1
err_lacks "lose more"
err_has "this is lossy"
err_has "next: hearth run"
run 0 sparsify "$model" -f - -o "$tmp/again" --density 30 -t 2 --ram min -ub 100 -q <"$tmp/text"
same "$sparse" "$tmp/again"
run 0 inspect "$sparse" --verify
out_has "jump_relu"

# Perplexity of text that it has not seen: near the model's, and far below that of the same share of neurons by size alone.
ppl() {
    run 0 perplexity "$@" -f "$tmp/heldout" -c 120 --phase step --json -q
    sed -n 's/.*"ppl": *\([0-9.]*\).*/\1/p' "$tmp/out"
}
run 0 profile "$model" -f "$tmp/text" -o "$tmp/profile" --sparsity-threshold 70%
run 0 pack "$model" "$tmp/threshold.hearth.gguf" --profile "$tmp/profile"
dense=$(ppl "$model")
now=$(ppl "$sparse")
threshold=$(ppl "$tmp/threshold.hearth.gguf" --sparsity-threshold 70%)
awk "BEGIN { exit !($now > 0.9 * $dense && $now < 1.12 * $dense && $now - $dense < 0.6 * ($threshold - $dense)) }" ||
    fail "perplexity $dense, sparse $now, by threshold $threshold"

# A token uses about a third of its neurons, and the others need not be read.
run 0 profile "$sparse" -f "$tmp/heldout" -o "$tmp/sparse.profile"
awk '/^ mean / { exit !($2 > 25 && $2 < 36) }' "$tmp/err" || fail "not 30 % of the neurons"
run 0 pack "$sparse" "$tmp/sparse.hearth.gguf" --profile "$tmp/sparse.profile" --gates-apart
run 0 run "$tmp/sparse.hearth.gguf" -p "$prompt" -n 60 --temp 0
cp "$tmp/out" "$tmp/wanted"
run 0 run "$tmp/sparse.hearth.gguf" -p "$prompt" -n 60 --temp 0 --ram min
same "$tmp/out" "$tmp/wanted"

# ---- what goes wrong
run 2 sparsify "$model" -o "$tmp/x"
err_has "-f is missing"
run 2 sparsify "$model" -f "$tmp/text"
err_has "-o is missing"
run 2 sparsify "$model" -f "$tmp/text" -o "$tmp/x" --density 0
run 1 sparsify "$model" -f "$tmp/text" -o "$tmp/text"
err_has "another name"
run 1 sparsify "$sparse" -f "$tmp/text" -o "$tmp/x"
err_has "sparse already"
run 1 sparsify "$tmp/sparse.hearth.gguf" -f "$tmp/text" -o "$tmp/x"
err_has "pack"
echo "Too short." >"$tmp/short"
run 1 sparsify "$model" -f "$tmp/short" -o "$tmp/x"
err_has "at least 512"
[ ! -e "$tmp/x" ] || fail "something was written"
