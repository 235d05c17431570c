#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth convert.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

hf=$source_dir/tests/golden/hf

# folder NAME: a golden model's folder with its tokenizer's files, in $tmp/NAME.
folder() {
    mkdir -p "$tmp/$1"
    cp "$hf/$1"/* "$hf/tokenizers/$(cat "$hf/$1/tokenizer")"/* "$tmp/$1" 2>/dev/null
}

# ---- a model that runs, in the default format and in another
folder llama
run 0 convert "$tmp/llama" "$tmp/llama.gguf"
err_has "matrices in F16"
out_is_empty
run 0 inspect "$tmp/llama.gguf" --json
[ "$(json "$tmp/out" metadata/general.name)" = llama ] || fail "the name is that of the folder"
run 0 run "$tmp/llama.gguf" -p "The hen" -n 4 --temp 0
run 0 convert "$tmp/llama/" "$tmp/llama-q4.gguf" q4_0 --pure -t 1 -q
[ -s "$tmp/err" ] && fail "-q is not quiet"
run 0 run "$tmp/llama-q4.gguf" -p "The hen" -n 4 --temp 0

# ---- predictors: one of PowerInfer's files, which packs and runs
folder relullama
run 0 convert "$tmp/relullama" "$tmp/relu.gguf" --predictors "$hf/relullama/predictors"
[ "$(head -c 4 "$tmp/relu.gguf")" = PWRI ] || fail "no file of PowerInfer's"
run 0 run "$tmp/relu.gguf" -p "The hen" -n 4 --temp 0 --sparsity predict
run 0 pack "$tmp/relu.gguf" "$tmp/relu.hearth.gguf"
run 0 run "$tmp/relu.hearth.gguf" -p "The hen" -n 4 --temp 0 --sparsity predict

# ---- refusals leave nothing behind
run 2 convert "$tmp/llama" "$tmp/no.gguf" Q9
err_has "cannot write type Q9; one of F32"
run 2 convert "$tmp/llama"
err_has "OUT is missing"
run 1 convert "$tmp/llama" "$tmp/llama/config.json"
err_has "is a file of the model"
[ -s "$tmp/llama/config.json" ] || fail "a file of the model was written over"
run 1 convert "$tmp/nothing" "$tmp/no.gguf"
err_has "nothing: No such file or directory"
run 1 convert "$tmp/llama" "$tmp/no/where.gguf"
err_has "where.gguf"
truncate -s -1 "$tmp/llama/model-00001-of-00002.safetensors"
run 1 convert "$tmp/llama" "$tmp/no.gguf"
err_has "model-00001-of-00002.safetensors"
[ -e "$tmp/no.gguf" ] && fail "a refused conversion left a file"
exit 0
