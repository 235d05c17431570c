#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth profile and hearth pack: the shipped model, profiled, packed and run; what inspect says; what goes wrong.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
pack=$tmp/novels.hearth.gguf
profile=$tmp/novels.profile
prompt='It was a dark and stormy night, and'

# A text of its own, made by the model.
run 0 run "$model" -p "$prompt" -n 450 --seed 3 --ignore-eos
cp "$tmp/out" "$tmp/text"

# ---- profile
run 0 profile "$model" -f "$tmp/text" -o "$profile" --svg "$tmp/profile.svg"
err_has "of the neurons, 32 together"
err_has " mean "
out_is_empty
grep -q "Active neurons, layer by layer" "$tmp/profile.svg" || fail "the chart is not there"
run 0 profile "$model" -f "$tmp/text" -o "$tmp/again" --ram min -ub 16 -q
same "$profile" "$tmp/again"
run 0 profile "$model" -f - -o "$tmp/again" -t 1 -q <"$tmp/text"
err_lacks "neurons"
same "$profile" "$tmp/again"
run 0 inspect "$profile"
out_has "hearth.profile.tokens"
run 0 inspect "$profile" --verify

# ---- pack, in both orders
run 0 pack "$model" "$tmp/plain.hearth.gguf"
err_has "in the model's own order"
err_has "requantised to Q8_0 in 6 layers"
err_has "has no predictors"
run 0 pack "$model" "$pack" --profile "$profile" -t 1
err_has "by how often they are active"
run 0 pack "$model" "$tmp/again" --profile "$profile" -t 2
same "$pack" "$tmp/again"

# What is said of logits is so.
run 0 synth tiny-turbosparse "$tmp/by-neuron.gguf"
for file in "$tmp/by-neuron.gguf" "$golden/mistral-gqa.BF16.gguf"; do
    run 0 run "$file" -p w12 -n 4 --temp 0 --ignore-eos --logits-out "$tmp/want"
    run 0 pack "$file" "$tmp/plain"
    if [ "$file" = "$tmp/by-neuron.gguf" ]; then
        err_has "logits are the model's, to the last bit"
        run 0 run "$tmp/plain" -p w12 -n 4 --temp 0 --ignore-eos --logits-out "$tmp/logits"
        same "$tmp/want" "$tmp/logits"
    else
        err_has "no number was rounded, but sums have another order"
    fi
done

run 0 run "$model" -p "$prompt" -n 100 --temp 0 -ctk f32 -ctv f32
cp "$tmp/out" "$tmp/wanted"
for file in "$tmp/plain.hearth.gguf" "$pack"; do
    run 0 run "$file" -p "$prompt" -n 100 --temp 0 -ctk f32 -ctv f32 --verify
    err_lacks "no checksums"
    same "$tmp/out" "$tmp/wanted"
done
# Both are the same model: as many sequences as one likes, exact or not.
run 0 run "$pack" -p "$prompt" -n 60 --temp 0.7 --seed 1 -np 3 --sparsity off
cp "$tmp/out" "$tmp/wanted"
run 0 run "$pack" -p "$prompt" -n 60 --temp 0.7 --seed 1 -np 3 --sparsity exact -t 1
same "$tmp/out" "$tmp/wanted"

# ---- inspect
run 0 inspect "$pack" --verify
out_has "pack          6 spaces of 768 neurons, 1024 bytes each (Q8_0 | Q8_0 | Q8_0)"
out_has "quantised again, Q8_0 from Q8_0"
out_has "by how often neurons are active, from a profile of"
out_has "checksums     CRC-32C"
run 0 inspect "$model"
params=$(grep '^parameters' "$tmp/out")
for early in "" --early-predictors; do
    rm -f "$tmp/synth.gguf" "$tmp/synth.hearth.gguf"
    run 0 synth tiny-turbosparse "$tmp/synth.gguf" $early
    run 0 pack "$tmp/synth.gguf" "$tmp/synth.hearth.gguf"
    run 0 inspect "$tmp/synth.hearth.gguf"
    out_has "predictors    look at ${early:+the feed-forward input of the layer before}"
    run 0 inspect "$tmp/synth.hearth.gguf" --json
    wanted=normed
    [ -n "$early" ] && wanted=previous
    [ "$(json "$tmp/out" pack/predictor_input)" = $wanted ] || fail "predictors' input in JSON"
done
run 0 inspect "$pack" --json
[ "$(json "$tmp/out" pack/spaces)" = 6 ] || fail "spaces in JSON"
[ "$(json "$tmp/out" pack/down)" = requantised ] || fail "down in JSON"
[ "$(json "$tmp/out" pack/source)" = hearth-novels-drelu-Q8_0.gguf ] || fail "source in JSON"
run 0 inspect "$pack"
out_has "$params"
run 1 inspect "$model" --verify
err_has "has no checksums"
run 0 run "$model" -p a -n 1 --verify
err_has "has no checksums"

# ---- another format for down
run 0 pack "$model" "$tmp/down.hearth.gguf" --down q4_0
err_has "requantised to Q4_0 in 6 layers"
run 0 run "$tmp/down.hearth.gguf" -p "$prompt" -n 4 --temp 0
run 0 synth tiny-turbosparse "$tmp/by-neuron.gguf"
run 1 pack "$tmp/by-neuron.gguf" "$tmp/x" --down q4_0
err_has "has down by neuron"
run 1 pack "$model" "$tmp/x" --down q9_0
err_has 'there is no number format "q9_0"'
err_has "option --down"

# ---- predictors: few steps of a text of its own; then its pack has them
run 0 train-predictors "$model" -f "$tmp/text" -o "$tmp/predictors.gguf" --steps 5 -c 16 -t 1
err_has "layer 5: rank"
err_has "warning: the predictors name "
err_has "this is lossy: predictors leave out some of what each layer's neurons give"
err_has "compare: hearth perplexity $model -f HELDOUT --phase step, and hearth perplexity $tmp/predictors.gguf -f HELDOUT --phase step"
out_is_empty
[ ! -e "$tmp/predictors.gguf.layers" ] || fail "finished layers are left behind"
run 0 train-predictors "$model" -f "$tmp/text" -o "$tmp/narrow.gguf" --steps 5 -c 16 -ub 64
same "$tmp/narrow.gguf" "$tmp/predictors.gguf"
run 0 inspect "$tmp/predictors.gguf" --verify
out_has "hearth.predictors.recall"
run 0 run "$tmp/predictors.gguf" -p "$prompt" -n 5 --temp 0 --sparsity predict
# Few steps make predictors that name nearly all neurons: then no pack is offered that would gain nothing.
run 0 run "$tmp/predictors.gguf" -p "$prompt" -n 2 --ram min -c 64
err_has "read by "
err_lacks "makes a pack of it"
run 0 plan "$tmp/predictors.gguf" --machine oneplus-12 --ram min -c 64
grep -q "packed, with" "$tmp/out" && fail "a pack that would gain nothing is planned for"
run 0 pack "$tmp/predictors.gguf" "$tmp/again"
err_lacks "has no predictors"
err_has "warning: $tmp/predictors.gguf: its predictors name "
err_has "the feed-forward parts than the model itself, in small pieces, and "
err_lacks "as a number only" # of the ReLU family
run 0 run "$tmp/again" -p "$prompt" -n 2 --ram min --sparsity-threshold 0.1
err_has "with --sparsity-threshold the model's predictors are not used"
swiglu=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf
for command in profile train-predictors; do
    run 1 "$command" "$swiglu" -f "$tmp/text" -o "$tmp/x" -c 16
    err_has "for instance 40% (option --sparsity-threshold)"
done
run 0 pack "$swiglu" "$tmp/gates.gguf" --gates-apart
err_has "this pack takes --sparsity-threshold as a number only, not as a share such as 40%"
run 0 run "$tmp/gates.gguf" -p "$prompt" -n 2 --ram min -v
err_has "this pack streams whole layers: its gates say which neurons to read with --sparsity-threshold only"
run 0 run "$tmp/gates.gguf" -p "$prompt" -n 2 --ram min -v --sparsity-threshold 0.1
err_lacks "whole layers"
if unshare -rm true 2>/dev/null; then # a disk with room for layers, but not for the model
    mkdir "$tmp/small"
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare -rm bash -c 'mount -t tmpfs -o size=5M none "$1" && shift && "$@"' bash "$tmp/small" \
        "$hearth" train-predictors "$model" -f "$tmp/text" -o "$tmp/small/out" --steps 5 -c 16 -t 1 \
        >"$tmp/out" 2>"$tmp/err" && fail "a model on a small disk"
    err_has "No space left on the disk: the model with predictors takes up to"
    err_lacks "layer 0"
fi
run 2 train-predictors "$model" -o "$tmp/x"
err_has "-f is missing"
run 2 train-predictors "$model" -f "$tmp/text"
err_has "-o is missing"
run 1 train-predictors "$model" -f "$tmp/text" -o "$tmp/text"
err_has "give another name"
run 1 train-predictors "$model" -f "$tmp/text" -o "$tmp/x"
err_has "fill 1 window of 512; "

# ---- other files of the user's are not overwritten; models of PowerInfer are
echo precious >"$tmp/notes"
cp "$tmp/notes" "$tmp/wanted"
run 1 train-predictors "$model" -f "$tmp/text" -o "$tmp/notes" --steps 5 -c 16
err_has "it is not overwritten"
run 1 profile "$model" -f "$tmp/text" -o "$tmp/notes"
err_has "it is not overwritten"
same "$tmp/notes" "$tmp/wanted"
for _ in 1 2; do
    run 0 train-predictors "$source_dir/tests/golden/pwri/bamboo.Q4_0.gguf" -f "$tmp/text" \
        -o "$tmp/pwri.gguf" --steps 2 -c 16 -q
done

# ---- wrong command lines
run 2 profile "$model" -o "$tmp/x"
err_has "-f is missing"
run 2 profile "$model" -f "$tmp/text"
err_has "-o is missing"
run 1 profile "$model" -f "$tmp/text" -o "$tmp/text"
err_has "give another name"
run 1 profile "$source_dir/models/hearth-novels-swiglu-Q8_0.gguf" -f "$tmp/text" -o "$tmp/x"
err_has "--sparsity-threshold"
echo short >"$tmp/short"
run 1 profile "$model" -f "$tmp/short" -o "$tmp/x"
err_has "at least 64"
run 1 profile "$pack" -f "$tmp/text" -o "$tmp/x"
err_has "this is a pack"
run 2 pack "$model"
err_has "OUT is missing"
run 1 pack "$model" "$model"
err_has "give another name"
run 1 pack "$pack" "$tmp/x"
err_has "a pack already"
run 1 pack "$model" "$tmp/x" --profile "$model"
err_has "not a profile"
run 1 pack "$source_dir/models/hearth-novels-swiglu-Q8_0.gguf" "$tmp/x" --profile "$profile"
err_has "the profile is of another model, hearth-novels-drelu"
run 0 quantize "$model" "$tmp/f16.gguf" F16
run 0 pack "$tmp/f16.gguf" "$tmp/f16.pack.gguf" --profile "$profile"
rm "$tmp"/f16*
head -c 2000 "$model" >"$tmp/bytes"
run 0 profile "$model" -f "$tmp/bytes" -o "$tmp/bytes.profile"
err_has "does not look like text"
run 1 pack "$model" "$tmp/no/such/folder"
run 1 pack "$tmp/short" "$tmp/x"
err_has "not a GGUF file"
run 1 quantize "$pack" "$tmp/x" Q4_0
err_has "this is a pack"
[ -e "$tmp/x" ] && fail "a command that failed left a file"

# ---- damage
size=$(stat -c %s "$pack")
for at in 3000 200000 $((size / 2)) $((size - 5000)); do
    cp "$pack" "$tmp/bad"
    byte=$(od -An -tu1 -j "$at" -N 1 "$pack")
    # shellcheck disable=SC2059
    printf "\\x$(printf %x $((byte ^ 8)))" | dd of="$tmp/bad" bs=1 seek="$at" conv=notrunc status=none
    run 1 inspect "$tmp/bad" --verify
    err_has "bad"
    run 1 run "$tmp/bad" -p a -n 1 --verify
done
head -c $((size / 2)) "$pack" >"$tmp/bad"
run 1 run "$tmp/bad" -p a -n 1
err_has "truncated"

# ---- full disk, and packing that is killed: nothing is left, the old file stays
mkdir "$tmp/disk"
cp "$tmp/bad" "$tmp/disk/out"
(
    trap '' XFSZ
    ulimit -f 2000
    run 1 pack "$model" "$tmp/disk/out"
) || exit 1
err_has "cannot write"
same "$tmp/bad" "$tmp/disk/out"
(
    ulimit -c 0 -f 2000
    "$hearth" pack "$model" "$tmp/disk/out" >"$tmp/out" 2>"$tmp/err"
) && fail "packing went beyond the limit"
same "$tmp/bad" "$tmp/disk/out"
[ "$(find "$tmp/disk" -type f | wc -l)" -eq 1 ] || fail "packing left files behind"
run 0 pack "$model" "$tmp/disk/out"
same "$tmp/disk/out" "$tmp/plain.hearth.gguf"

# ---- two at once
"$hearth" pack "$model" "$tmp/disk/out" -q --profile "$profile" &
first=$!
"$hearth" pack "$model" "$tmp/disk/out" -q --profile "$profile" &
second=$!
wait $first || fail "the first of two packers failed"
wait $second || fail "the second of two packers failed"
same "$tmp/disk/out" "$pack"
[ "$(find "$tmp/disk" -type f | wc -l)" -eq 1 ] || fail "packing left files behind"
silu=$golden/mistral-gqa.Q4_0.gguf
# ---- gates apart: of use outside the ReLU family only with a threshold, which packing and running say
run 0 pack "$silu" "$tmp/gates.gguf" --gates-apart
err_has "gates say which neurons to read in models of the ReLU family"
err_lacks "such as hearth run" # no shares without a profile
run 0 run "$tmp/gates.gguf" -p ab -n 2 --ram min -v
err_has "streams whole layers"
run 0 run "$tmp/gates.gguf" -p ab -n 2 --ram min -v --sparsity-threshold 0.1
err_lacks "streams whole layers"
run 0 pack "$model" "$tmp/gates.gguf" --gates-apart
err_lacks "gates say"
run 0 inspect "$tmp/gates.gguf"
out_has "gates         apart"
run 0 inspect "$tmp/gates.gguf" --json
[ "$(json "$tmp/out" pack/version)" = 2 ] || fail "the version of a pack with its gates apart"

# ---- layers without experts beside others: not in the table, nor in the mean; no pack
glm=$golden/glm4moe.Q8_0.gguf
run 0 profile "$glm" -f "$tmp/text" -o "$tmp/glm.profile" --sparsity-threshold 40%
grep -q '^ *0 ' "$tmp/err" && fail "a layer without experts has a row"
grep -q '^ *1 ' "$tmp/err" || fail "the layer behind it has none"
awk '$1 == "mean" && $2 > 50 { found = 1 } END { exit !found }' "$tmp/err" || fail "a layer without experts is in the mean"
err_has "have no experts"
run 1 pack "$glm" "$tmp/x"
err_has "first layers have no experts"

# ---- thresholds by share, for models outside the ReLU family
run 1 profile "$silu" -f "$tmp/text" -o "$tmp/silu.profile"
err_has "for instance 40% (option --sparsity-threshold)"
run 0 profile "$silu" -f "$tmp/text" -o "$tmp/silu.profile" --sparsity-threshold 40%
run 0 pack "$silu" "$tmp/silu.hearth.gguf" --profile "$tmp/silu.profile"
err_has "hearth run $tmp/silu.hearth.gguf --sparsity-threshold 40%, which is lossy"
err_has "compare: hearth perplexity $tmp/silu.hearth.gguf -f HELDOUT --phase step, without the threshold and with it"
run 0 run "$tmp/silu.hearth.gguf" -p ab -n 20 --ignore-eos --sparsity-threshold 40%
run 1 run "$silu" -p ab -n 4 --sparsity-threshold 40%
err_has "does not say how large its activations are"
err_has "hearth pack --profile puts them into a pack"
run 2 run "$silu" -p ab -n 4 --sparsity-threshold 100%
err_has "a share such as 40%"
run 2 run "$silu" -p ab -n 4 --sparsity-threshold=-1

# ---- traces of what runs, and the caches that they are for
run 0 run "$pack" -p "$prompt" -n 60 --seed 1 --ignore-eos --trace "$tmp/run.htrace"
run 0 plan --simulate "$tmp/run.htrace" --cache-sizes 50,100
out_has "59 tokens, 6 spaces"
out_has "active in a visit"
run 0 bench "$pack" -p 0 -n 16 -npl 1,4 -r 1 --roof 0 --trace "$tmp/bench.htrace" --ram 64M
run 0 plan --simulate "$tmp/bench.htrace" --cache-sizes 50,100
run 1 run "$golden/llama-mha.F32.gguf" -p a -n 4 --trace "$tmp/none.htrace"
err_has "nothing to trace"
[ ! -e "$tmp/none.htrace" ] || fail "a trace of nothing"
run 1 run "$pack" -p a -n 4 --trace "$tmp/none/x.htrace"

exit 0
