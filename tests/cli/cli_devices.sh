#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Devices: the list, options, statistics, and the same text. What needs a device is skipped without one.
# Where PoCL keeps the kernels that test_accel has compiled; cli.sh has another folder for caches.
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pocl/kcache}
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf
prompt="Once upon a time"
mkdir -p "$POCL_CACHE_DIR"

run 0 run "$model" -p "$prompt" -n 12 --temp 0 -q
cp "$tmp/out" "$tmp/want"

# ---- options that make no sense; a GPU that is not there changes nothing
run 2 run "$model" -p "$prompt" --device ""
err_has "--device: give the number or name of a device"
run 2 run "$model" -p "$prompt" -ngl 3,4
err_has "--gpu-layers 3,4: give a number of layers, or all"
for list in "0,,1" ",0" "0," none,0 0,auto all,0 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0; do
    run 2 run "$model" -p "$prompt" --device "$list"
    err_has "--device $list: give numbers or names of at most 16 devices, separated by commas"
done
run 2 run "$model" -p "$prompt" --device 0,1 --vram 1G,2G,3G
err_has "--vram has 3 sizes, and --device 2 devices"
run 2 run "$model" -p "$prompt" --device 0,1 --vram 1G,2G --vram 1G,2G,3G # the last one counts
err_has "--vram has 3 sizes, and --device 2 devices"
run 2 run "$model" -p "$prompt" --device 0 -ts 1,1
err_has "--tensor-split has 2 numbers, and --device 1 device"
run 2 run "$model" -p "$prompt" --device 0,1 -ts 1
err_has "--tensor-split has 1 number, and --device 2 devices"
run 0 run "$model" -p "$prompt" -n 1 --op-offload
err_has "without effect here: --op-offload (no --device or --gpu-layers)"
run 0 run "$model" -p "$prompt" -n 1 --device-hot 50 -nopo --device-inexact
err_has "without effect here: --device-hot, --no-op-offload, --device-inexact (no --device or --gpu-layers)"
run 0 embed "$model" -p "$prompt" --device-hot 50
err_has "without effect here: --device-hot (no --device or --gpu-layers)"
run 0 plan "$model" --machine oneplus-12 -c 128 --device-inexact
err_has "without effect here: --device-inexact (no --device or --gpu-layers)"
run 0 run "$model" -p "$prompt" -n 1 --device none --vram 1G -ngl 0 --op-offload
err_has "without effect here: --vram, --gpu-layers, --op-offload (--device none leaves everything to the CPU)"
run 0 run "$model" -p "$prompt" -n 1 --device 0 -ngl 0 -nopo
err_has "without effect here: --device, --no-op-offload (--gpu-layers 0 leaves everything to the CPU)"
HEARTH_OP_OFFLOAD=1 HEARTH_DEVICE_HOT=50 run 0 run "$model" -p "$prompt" -n 1 # set for good
err_lacks "without effect"
run 2 run "$model" -p "$prompt" --device 0,0 -ts 0,0
err_has "--tensor-split: one of its numbers must be more than 0"
run 2 run "$model" -p "$prompt" --device 0,0 -ts 1,x
err_has "must be at most 16 numbers from 0, separated by commas"
for list in "1G," "1G,,1G" "1G,x"; do
    run 2 run "$model" -p "$prompt" --device 0,0 --vram "$list"
    err_has "must be a size such as 512M or 2G, or at most 16 of them, separated by commas"
done
run 2 run "$model" -p "$prompt" --device 0 --device-hot 101
err_has "must be a whole number from -1 to 100"
run 2 run "$model" -p "$prompt" --device 0 --vram 6
err_has "that would be bytes; did you mean 6G or 6M?"
run 0 run "$model" -p "$prompt" -n 1 -cmoe -ncmoe 2 -ot exps=CPU
err_has "without effect here: --cpu-moe, --n-cpu-moe, --override-tensor (no --device or --gpu-layers)"
for pattern in exps =CPU exps= "" "a=CPU,"; do
    run 2 run "$model" -p "$prompt" -ot "$pattern"
    err_has ': give PATTERN=CPU, such as "exps=CPU"'
done
run 2 run "$model" -p "$prompt" -ot 'blk\.(0|1=CPU'
err_has "--override-tensor blk\.(0|1=CPU: the pattern cannot be used: a ( has no )"
run 2 run "$model" -p "$prompt" -ngl 3 --op-offload -nopo
err_has "--op-offload and --no-op-offload exclude each other"
run 1 run "$model" -p "$prompt" --device "no such device"
err_has "device"
for options in "-ngl 0" "--device none --vram 1G" "-ngl 99" "--vram-budget 1G" "-ngl auto"; do
    # shellcheck disable=SC2086
    run 0 run "$model" -p "$prompt" -n 12 --temp 0 $options
    same "$tmp/out" "$tmp/want"
done
run 0 --version
out_has "devices: "

run 0 devices
[ -s "$tmp/out" ] || exit 77 # no device: the rest is not for this machine

# ---- the list
out_has "0  "
run 0 devices --json
exact=$(json "$tmp/out" 0/exact)
name=$(json "$tmp/out" 0/name)
backend=$(json "$tmp/out" 0/backend)
cpus=$(grep -o '"is_cpu": *true' "$tmp/out" | wc -l) all=$(grep -o '"is_cpu"' "$tmp/out" | wc -l)
[ "$exact" = true ] || exit 77

# ---- the same text, some layers, all, by number and by name
for options in "--device 0" "--device 0 -ngl 1" "--device 0 --vram 100K" "--device 0 -c 64 -ub 3"; do
    # shellcheck disable=SC2086
    run 0 run "$model" -p "$prompt" -n 12 --temp 0 $options
    same "$tmp/out" "$tmp/want"
    err_has "$name: "
    [ "$cpus" != "$all" ] || err_has "$name computes on the CPU, and many times slower than hearth does without --device"
done
if [ "$cpus" = "$all" ]; then # nobody gets a CPU who has not named it
    run 0 run "$model" -p "$prompt" -n 3 -ngl 99
    err_has "(there is no GPU with a driver of OpenCL or CUDA; only one that computes on the CPU: --device 0)"
    for device in auto all; do
        run 1 run "$model" -p "$prompt" -n 3 --device $device
        err_has "a device that computes on the CPU must be named"
        run 1 plan "$model" --device $device
        err_has "a device that computes on the CPU must be named"
    done
    for options in "--vram 1G,2G" "--tensor-split 3/1"; do # all GPUs
        # shellcheck disable=SC2086
        run 0 run "$model" -p "$prompt" -n 12 --temp 0 $options
        same "$tmp/out" "$tmp/want"
        err_has "without effect here: ${options% *}"
    done
else
    run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device auto -t 2
    same "$tmp/out" "$tmp/want"
fi
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device "$name" --stats json
same "$tmp/out" "$tmp/want"
tail -n 1 "$tmp/err" >"$tmp/json"
[ "$(json "$tmp/json" device/works)" = true ] || fail "the device has failed"
[ "$(json "$tmp/json" device/head)" = true ] || fail "the head is not on the device"
[ "$(json "$tmp/json" device/tokens)" -gt 12 ] || fail "no tokens went through the device"
[ "$(json "$tmp/json" devices/0/head)" = true ] || fail "the list of devices is another"
# shellcheck disable=SC2086
for options in "" "--vram 60M,60M" "--vram 100M -ts 1/2" "-ngl 2"; do # one device twice is two
    run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0,"$name" $options --stats json
    same "$tmp/out" "$tmp/want"
    err_has "$name: "
    err_has "; $name: "
    tail -n 1 "$tmp/err" >"$tmp/json"
    layers=$(($(json "$tmp/json" devices/0/layers) + $(json "$tmp/json" devices/1/layers)))
    [ "$layers" = 2 ] || fail "$layers layers are on devices"
    [ "$(json "$tmp/json" devices/1/works)" = true ] || fail "the device has failed"
done
run 0 bench "$model" -p 8 -n 4 -npl 1 -r 1 --roof 0 --device 0,0 -ts 1,1
err_has "$name: 1 layer, "
err_has "; $name: 1 layer and the head, "
out_has "| $backend "
run 0 bench "$model" -p 8 -n 0 -r 1 --roof 0 --device 0 -o json
[ "$(json "$tmp/out" 0/backends)" = "$backend" ] || fail "bench does not name the back end"
for options in "--op-offload" "-nopo"; do
    run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0 -ngl 1 $options --stats json
    same "$tmp/out" "$tmp/want"
    tail -n 1 "$tmp/err" >"$tmp/json"
    [ "$(($(json "$tmp/json" device/through) > 0))" = "$([ $options = -nopo ]; echo $?)" ] ||
        fail "$options: $(json "$tmp/json" device/through) tokens passed through the device"
done
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0,0 -ngl 1 --op-offload
same "$tmp/out" "$tmp/want"
err_has "without effect here: --op-offload (prompts pass through a device where it is the only one)"
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0 -ngl 1 --op-offload
err_lacks "without effect"

# ---- experts that pass through it in prompts
experts=$golden/granitemoe.Q8_0.gguf
run 0 run "$experts" -p "$prompt" -n 12 --temp 0 -q
cp "$tmp/out" "$tmp/want_experts"
for options in "--op-offload" "-nopo"; do
    run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 --vram 120K -ub 8 $options --stats json
    same "$tmp/out" "$tmp/want_experts"
    tail -n 1 "$tmp/err" >"$tmp/json"
    [ "$(($(json "$tmp/json" device/through) > 0))" = "$([ $options = -nopo ]; echo $?)" ] ||
        fail "$options: experts of $(json "$tmp/json" device/through) tokens passed through the device"
done
run 0 plan "$model" --device 0,0 --machine oneplus-12
err_has "what several devices would have is not foreseen"
run 0 run "$model" -p "$prompt" -n 3 --temp 0 --stats json
tail -n 1 "$tmp/err" >"$tmp/json"
[ "$(json "$tmp/json" device)" = null ] || fail "there is a device where none was asked for"

# ---- experts that both have, divided as the option says
rows_with() { # PERCENT: rows of experts that the device computed
    run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 --vram 64M -nopo --device-hot "$1" --stats json
    same "$tmp/out" "$tmp/want_experts"
    tail -n 1 "$tmp/err" >"$tmp/json"
    rows=$(json "$tmp/json" device/expert_rows)
}
rows_with 100
all_rows=$rows
rows_with 50
half_rows=$rows
rows_with 0
[ "$(json "$tmp/json" device/experts)" = 0 ] || fail "--device-hot 0 puts experts on the device"
if [ "$rows" != 0 ] || [ "$half_rows" = 0 ] || [ "$half_rows" -ge "$all_rows" ]; then
    fail "--device-hot 0, 50, 100: $rows, $half_rows, $all_rows rows of experts on the device"
fi

# ---- experts that are the CPU's
of_model() { # OPTION...: what the device has then, in $tmp/json
    run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 --vram 64M -nopo --device-hot 100 --stats json "$@"
    same "$tmp/out" "$tmp/want_experts"
    tail -n 1 "$tmp/err" >"$tmp/json"
    n_experts=$(json "$tmp/json" device/experts)
}
of_model
all_experts=$n_experts
of_model --n-cpu-moe 1
one_less=$n_experts
if [ "$one_less" -le 0 ] || [ "$one_less" -ge "$all_experts" ]; then
    fail "--n-cpu-moe 1: $one_less of $all_experts experts"
fi
of_model -ot 'blk\.0\.ffn_.*_exps\.=CPU'
[ "$n_experts" = "$one_less" ] || fail "-ot for layer 0: $n_experts experts, not $one_less"
err_lacks "without effect"
of_model -ot 'blk\.[1-9]\d*\.ffn_(up|down|gate)_exps=CUDA0,exps=CPU'
[ "$n_experts" = "$one_less" ] || fail "-ot for layers but 0: $n_experts experts, not $one_less"
err_has "without effect here: --override-tensor blk\.[1-9]\d*\.ffn_(up|down|gate)_exps=CUDA0 (no tensor is bound to a device;"
for options in --cpu-moe "-cmoe" "--n-cpu-moe 999" "-ot exps=CPU" '-ot \.ffn_.*_exps\.=CPU' '-ot .ffn_.*_exps.=CPU' '-ot \.ffn_(up|down|gate)_exps=CPU'; do
    # shellcheck disable=SC2086
    of_model $options
    [ "$n_experts" = 0 ] || fail "$options leaves $n_experts experts to the device"
    [ "$(json "$tmp/json" device/attention)" -gt 0 ] || fail "$options leaves attention to the CPU"
    err_lacks "without effect"
    # shellcheck disable=SC2086
    run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 --vram 64M $options --stats json
    same "$tmp/out" "$tmp/want_experts"
    tail -n 1 "$tmp/err" >"$tmp/json"
    [ "$(json "$tmp/json" device/layers)" = 0 ] || fail "$options has whole layers on the device"
    # shellcheck disable=SC2086
    run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 --vram 120K -ub 8 --op-offload $options --stats json
    same "$tmp/out" "$tmp/want_experts"
    tail -n 1 "$tmp/err" >"$tmp/json"
    [ "$(json "$tmp/json" device/through)" = 0 ] || fail "$options has experts pass"
done
of_model -ot 'ffn_(up|gate)_exps=CPU'
[ "$n_experts" = "$all_experts" ] || fail "a part of each expert is the CPU's: $n_experts experts"
err_has "without effect here: --override-tensor ffn_(up|gate)_exps=CPU for experts of layer 0, and maybe others"
of_model -ot 'ffn_.*=CPU'
[ "$n_experts" = 0 ] || fail "ffn_.*=CPU: $n_experts experts"
err_has "without effect here: --override-tensor ffn_.*=CPU, but for experts (other tensors go where their layer goes;"
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0 --cpu-moe
same "$tmp/out" "$tmp/want"
err_has "without effect here: --cpu-moe, --n-cpu-moe, --override-tensor (the model has no experts)"

# ---- plans: what run has there; the machine may be another one
for vram in 1K 200K 300K 1G; do
    for of in "$model" "$experts"; do
        run 0 plan "$of" --machine oneplus-12 --device 0 --vram $vram -c 128 -ub 64 --json
        cp "$tmp/out" "$tmp/plan"
        run 0 run "$of" -p "$prompt" -n 3 --temp 0 --device 0 --vram $vram -c 128 -ub 64 --stats json
        tail -n 1 "$tmp/err" >"$tmp/json"
        for key in layers attention head neurons; do
            [ "$(json "$tmp/plan" device/$key)" = "$(json "$tmp/json" device/$key)" ] ||
                fail "$vram: of $key the plan has $(json "$tmp/plan" device/$key), run $(json "$tmp/json" device/$key)"
        done
    done
done
[ "$(json "$tmp/json" device/layers)" -gt 1 ] || fail "no layers with experts are whole on the device"
run 0 plan "$experts" --machine oneplus-12 --device 0 --vram 1G -c 128
out_has "    the last 2 of 2 layers and the head"
grep -qF "hot experts" "$tmp/out" && fail "there are hot experts in the plan where all layers are on the device"
run 0 plan "$experts" --machine oneplus-12 --device 0 --vram 1G -c 128 --device-hot 100
out_has "attention of the last"
for options in "--device-hot 100" "--device-hot 100 --vram 1G" "-ngl 1 --vram 1G"; do
    # shellcheck disable=SC2086
    run 0 plan "$experts" --machine oneplus-12 --device 0 -c 128 $options
    out_has "hot experts, in the rest of its memory"
done
run 0 plan "$experts" --machine oneplus-12 --device 0 -c 128 -ngl 1
out_has "    the last 1 of"
grep -qF "hot experts" "$tmp/out" && fail "a number of layers leaves room for hot experts in the plan, but not in run"
run 0 run "$experts" -p "$prompt" -n 3 --temp 0 --device 0 -c 128 -ngl 1 --stats json
tail -n 1 "$tmp/err" >"$tmp/json"
[ "$(json "$tmp/json" device/experts)" = 0 ] || fail "a number of layers leaves room for hot experts in run"
run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 -c 128
same "$tmp/out" "$tmp/want_experts"
err_has "$name: 2 layers and the head, "
run 0 run "$experts" -p "$prompt" -n 12 --temp 0 --device 0 -c 128 --device-hot 100
same "$tmp/out" "$tmp/want_experts"
err_has "$name: attention of "
run 0 plan "$model" --machine oneplus-12 --device 0 --vram 1G -c 128
out_has "on $name ("
out_has "layers and the head"
out_has "its speed is not forecast: what it computes counts as if the CPU did"
run 0 plan "$model" --machine oneplus-12 -c 128 --json
[ "$(json "$tmp/out" device)" = null ] || fail "a plan has a device that nobody asked for"
run 2 plan "$model" --machine oneplus-12 --device "no such device"
err_has 'there is no device "no such device" here'
run 2 plan "$model" --machine oneplus-12 --device "0,,0"
err_has "--device 0,,0: give numbers or names of at most 16 devices, separated by commas"

# ---- two programs on one device
"$hearth" run "$model" -p "$prompt" -n 12 --temp 0 --device 0 -q >"$tmp/other" 2>/dev/null &
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --device 0
wait
same "$tmp/out" "$tmp/want"
same "$tmp/other" "$tmp/want"
