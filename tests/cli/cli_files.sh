#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth inspect and hearth quantize.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
novels=$source_dir/models/hearth-novels-drelu-Q8_0.gguf

# ---- inspect: every golden model, table and JSON
for file in "$golden"/*.gguf; do
    run 0 inspect "$file" --json
    [ "$(json "$tmp/out" version)" = 3 ] || fail "version of $file"
    arch=$(json "$tmp/out" metadata/general.architecture)
    case $arch in
    afmoe | apertus | arcee | baichuan | bailingmoe | bailingmoe2 | bailingmoe3 | bamboo | bitnet | bloom | chatglm | cohere2 | cohere2moe | command-r | dbrx | deci | \
        deepseek | deepseek2 | deepseek32 | deepseek4 | dots1 | ernie4_5 | ernie4_5-moe | exaone | exaone-moe | \
        exaone4 | falcon | falcon-h1 | gemma | gemma2 | gemma3 | gemma3n | gemma4 | glm-dsa | glm4 | glm4moe | gpt-oss | gpt2 | \
        gptneox | granite | granite_swa | granitehybrid | granitemoe | hunyuan-dense | hunyuan-moe | hunyuan_vl | hy_v3 | hy_v4 | internlm2 | \
        jais2 | kimi-linear | laguna | lfm2 | lfm2moe | llama | llama4 | maincoder | mellum | mimo2 | minicpm | minicpm3 | \
        minimax-01 | minimax-m2 | minimax-m3 | mistral3 | mistral4 | mpt | muse-glimmer | nemotron | nemotron_h | nemotron_h_moe | olmo | olmo2 | olmoe | opt | \
        orion | pangu-embedded | phi2 | phi3 | phimoe | qwen | qwen2 | qwen2moe | qwen2vl | qwen3 | qwen35 | qwen35moe | qwen3moe | \
        qwen3next | qwen3vl | qwen3vlmoe | qwen4exp | refact | seed_oss | smallthinker | smollm3 | stablelm | starcoder | starcoder2 | \
        step35 | xverse) ;;
    *) fail "architecture of $file" ;;
    esac
    [ "$(json "$tmp/out" tensors)" -gt 8 ] || fail "tensors of $file"
    [ "$(json "$tmp/out" metadata/tokenizer.ggml.tokens/count)" = 288 ] || fail "token count of $file"
    [ "$(json "$tmp/out" metadata/tokenizer.ggml.tokens/first)" -lt 20 ] || fail "array of $file is not abbreviated"
    run 0 inspect "$file"
    out_has "shape         "
    out_has "context       "
    out_has "tokenizer     "
    out_has "architecture  $arch"
    out_has "token_embd.weight"
done
model=$golden/llama-mha.F32.gguf
run 0 inspect "$model" --json
[ "$(json "$tmp/out" formats/F32/bytes)" = "$(json "$tmp/out" n_bytes)" ] || fail "bytes of F32"
[ "$(json "$tmp/out" n_bytes)" -eq $(($(json "$tmp/out" n_params) * 4)) ] || fail "4 bytes a parameter"
cp "$tmp/out" "$tmp/source.json"

# ---- the activation is the file's, or else the architecture's
run 0 inspect "$golden/llama-mha.F32.gguf"
out_has "activation    silu"
run 0 inspect "$golden/drelu.Q8_0.gguf"
out_has "activation    drelu"
run 0 inspect "$golden/bamboo.Q8_0.gguf"
out_has "activation    drelu"

# ---- inspect needs to know nothing about architectures, and a file cannot steer the terminal
LC_ALL=C sed 's/llama/\x1b[31m/' "$model" >"$tmp/odd.gguf"
run 0 inspect "$tmp/odd.gguf"
LC_ALL=C grep -q $'\x1b' "$tmp/out" && fail "an escape sequence of the file reaches the terminal"
run 0 inspect "$tmp/odd.gguf" --json
json "$tmp/out" architecture >/dev/null
run 1 run "$tmp/odd.gguf" -p x
err_has "is not supported"
run 1 inspect "$tmp/none.gguf"
err_has "none.gguf"
head -c 1000 "$model" >"$tmp/short.gguf"
run 1 inspect "$tmp/short.gguf"
out_is_empty

LC_ALL=C grep -q $'\x1b' "$tmp/err" && fail "an escape sequence of the file reaches the terminal in a message"

# ---- quantize: types, sizes, and a model that still runs
for type in Q8_0 q4_0 F16 BF16 F32; do
    run 0 quantize "$model" "$tmp/new.gguf" $type
    run 0 inspect "$tmp/new.gguf" --json
    name=$(echo $type | tr '[:lower:]' '[:upper:]')
    [ "$(json "$tmp/out" tensors)" = "$(json "$tmp/source.json" tensors)" ] || fail "tensors after $type"
    [ "$(json "$tmp/out" n_params)" = "$(json "$tmp/source.json" n_params)" ] || fail "parameters after $type"
    [ "$(json "$tmp/out" "formats/$name/tensors")" -ge 15 ] || fail "few matrices in $type"
    [ "$(json "$tmp/out" formats/F32/tensors)" -ge 5 ] || fail "norms did not stay F32 in $type"
    run 0 run "$tmp/new.gguf" -p "Once upon a time" -n 8 --temp 0
    [ $type = F32 ] || [ "$(count_bytes "$tmp/new.gguf")" -lt "$(count_bytes "$model")" ] || fail "$type is not smaller"
done
# The last one was F32 to F32: nothing may have changed in the weights, which is said.
run 0 quantize "$model" "$tmp/new.gguf" F32
err_has "no matrix has changed: $model was in these formats already"
run 0 quantize "$model" "$tmp/q8.gguf" Q8_0
err_lacks "no matrix has changed"
run 0 run "$tmp/new.gguf" -p "Once upon a time" -n 8 --temp 0
"$hearth" run "$model" -p "Once upon a time" -n 8 --temp 0 2>/dev/null | cmp - "$tmp/out" || fail "F32 to F32 changes the text"
# Encoding is that of the reference, so the file is the golden one but for its metadata.
run 0 quantize "$model" "$tmp/q8.gguf" Q8_0
"$hearth" run "$tmp/q8.gguf" -p "Once upon" -n 8 --temp 0 --logits-out "$tmp/a" >/dev/null 2>&1 || fail "run q8"
"$hearth" run "$golden/llama-mha.Q8_0.gguf" -p "Once upon" -n 8 --temp 0 --logits-out "$tmp/b" >/dev/null 2>&1 || fail "run golden"
same "$tmp/a" "$tmp/b"
run 0 quantize "$tmp/q8.gguf" "$tmp/again.gguf" Q4_0
err_has "converting it again loses quality"
err_lacks "is larger than"
run 0 quantize "$tmp/again.gguf" "$tmp/q8.gguf" Q8_0
err_has "q8.gguf is larger than $tmp/again.gguf"
err_lacks "next: "

# ---- quantize: mixtures, also where rows fit no block of 256
for type in Q4_K_M q5_k_m; do
    base=$(echo "${type%_?}" | tr '[:lower:]' '[:upper:]')
    run 0 quantize "$novels" "$tmp/mixed.gguf" $type
    err_has "matrices in $base"
    run 0 inspect "$tmp/mixed.gguf" --json
    [ "$(json "$tmp/out" "formats/$base/tensors")" = 38 ] || fail "matrices of $type in $base"
    [ "$(json "$tmp/out" formats/Q6_K/tensors)" = 5 ] || fail "matrices of $type in Q6_K"
    run 0 run "$tmp/mixed.gguf" -p "It was a dark" -n 8 --temp 0
    run 0 quantize "$model" "$tmp/mixed.gguf" $type
    grep -qE "[a-z0-9_.]+\.weight is in [QF][0-9_]+, not Q._K: its rows of [0-9]+ are no multiple of Q._K's blocks of 256; [0-9]+ more" \
        "$tmp/err" || fail "which matrices have other formats in $type"
    run 0 run "$tmp/mixed.gguf" -p "Once upon a time" -n 8 --temp 0
done
run 0 quantize "$novels" "$tmp/mixed.gguf" Q4_K --pure
run 0 inspect "$tmp/mixed.gguf" --json
[ "$(json "$tmp/out" formats/Q4_K/tensors)" = 43 ] || fail "matrices of a pure Q4_K"
rm "$tmp/mixed.gguf"

# ---- quantize: single matrices in other formats; what comes first counts
run 0 quantize "$novels" "$tmp/mixed.gguf" IQ4_NL --pure --tensor-type attn_v=q8_0 --tensor-type blk.1.=Q5_1 --tensor-type attn=Q4_0
run 0 inspect "$tmp/mixed.gguf" --json
for want in Q8_0=6 Q5_1=6 Q4_0=15 IQ4_NL=16; do
    [ "$(json "$tmp/out" "formats/${want%=*}/tensors")" = "${want#*=}" ] || fail "matrices in $want with --tensor-type"
done
run 0 run "$tmp/mixed.gguf" -p "It was a dark" -n 8 --temp 0
run 0 quantize "$golden/glm4.Q8_0.gguf" "$tmp/mixed.gguf" Q4_0 --pure --tensor-type output=F16 # not attn_output
run 0 inspect "$tmp/mixed.gguf" --json
[ "$(json "$tmp/out" formats/F16/tensors)" = 1 ] || fail "matrices that are the head"
run 1 quantize "$novels" "$tmp/mixed.gguf" Q4_0 --tensor-type atn_v=Q8_0
err_has "hearth-novels-drelu-Q8_0.gguf: no matrix that is converted has \"atn_v\" in its name"
run 2 quantize "$novels" "$tmp/mixed.gguf" Q4_0 --tensor-type attn_v
err_has "NAME=TYPE"
run 2 quantize "$novels" "$tmp/mixed.gguf" Q4_0 --tensor-type attn_v=IQ4_XS
err_has "cannot write type IQ4_XS"
rm "$tmp/mixed.gguf"

# ---- numbers that no signed integer holds
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0n\12\0\0\0\377\377\377\377\377\377\377\377' >"$tmp/u64"
run 0 inspect "$tmp/u64"
out_has 18446744073709551615
run 0 inspect "$tmp/u64" --json
out_has '"n": 1.8446744'

# ---- quantize: failures leave nothing behind
rm -f "$tmp/new.gguf"
run 1 quantize "$tmp/short.gguf" "$tmp/new.gguf" Q8_0
[ -e "$tmp/new.gguf" ] && fail "a failed quantize left a file"
run 1 quantize "$model" "$tmp/no/such/new.gguf" Q8_0
err_has "no/such/new.gguf"
cp "$model" "$tmp/copy.gguf"
run 1 quantize "$tmp/copy.gguf" "$tmp/copy.gguf" Q8_0
err_has "the same file"
same "$tmp/copy.gguf" "$model"
echo "a text of weeks" >"$tmp/text"
cp "$tmp/text" "$tmp/text-before"
mkdir "$tmp/folder"
for making in "quantize $model $tmp/text Q8_0" "pack $model $tmp/text" "synth tiny-dense $tmp/text" "convert $tmp/folder $tmp/text"; do
    # shellcheck disable=SC2086
    run 1 $making
    err_has "$tmp/text is there and no GGUF file: it is not overwritten"
    same "$tmp/text" "$tmp/text-before"
done
rmdir "$tmp/folder"
# What is no model does not take the place of one, nor of what is read.
for writing in "run $model -n 1 -p x --logits-out" "run $model -n 1 -p x --trace" "bench $model -p 0 -n 1 --trace" "plan $model --svg" \
    "chat $model -st -p x --save"; do
    # shellcheck disable=SC2086
    run 1 $writing "$tmp/copy.gguf"
    err_has "$tmp/copy.gguf is a model: it is not overwritten"
    same "$tmp/copy.gguf" "$model"
done
for reading in "run $model -n 1 -f $tmp/text --logits-out" "chat $model -st -f $tmp/text --save"; do
    # shellcheck disable=SC2086
    run 1 $reading "$tmp/text"
    err_has "$tmp/text is read here: give another name for what is written"
    same "$tmp/text" "$tmp/text-before"
done
: >"$tmp/empty.gguf"
run 0 quantize "$model" "$tmp/empty.gguf" Q8_0
run 0 quantize "$model" "$tmp/empty.gguf" Q8_0
for name in '' "$tmp/" "$tmp/$(printf '%0250d' 0)"; do
    run 1 quantize "$model" "$name" Q8_0
    err_lacks "matrices"
done
if (ulimit -f 8 && trap '' XFSZ) 2>/dev/null; then
    status=0
    (ulimit -f 8; exec "$hearth" synth tiny-dense "$tmp/new.gguf" >"$tmp/out" 2>"$tmp/err") || status=$?
    [ $status -eq 1 ] || fail "beyond the limit on file sizes: exit status $status"
    err_has "File too large"
fi
find "$tmp" -name '*.gguf*' | grep -vE '/(odd|short|q8|again|copy|empty)\.gguf$' && fail "files were left behind"
exit 0
