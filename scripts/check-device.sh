#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All that there is to do on a machine with a GPU, in one go: the tests on it, the same text with and without it, and how
# fast it is: make check-device. Results go to a folder.
#
#   scripts/check-device.sh [BUILD] [OUT]
#
# DEVICE=0 names the device (hearth devices), PRESETS the synthetic models, SIZES the memory to give it, MODELS further
# files. PEER=bench/peer/bin/llama-bench-cuda (bench/peer/build.sh cuda) is measured beside. Takes about ten minutes and
# 10 GB of disk on a large machine.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
out=${2:-device-results}
device=${DEVICE:-0}
mkdir -p "$out"
hearth=$build/hearth

step() { printf '\n== %s\n' "$*"; }

step "devices"
"$hearth" --version
"$hearth" devices | tee "$out/devices.txt"
"$hearth" devices --json >"$out/devices.json"
if ! [ -s "$out/devices.txt" ]; then
    echo "check-device: there is no device" >&2
    exit 1
fi

failed=0
step "tests"
ctest --test-dir "$build" --output-on-failure -R '^(test_accel|test_offload|test_offload_through|test_through_experts|test_offload_attention|test_offload_experts|test_offload_several|test_placement|cli_devices)$' | tee "$out/tests.txt" || failed=1
if command -v compute-sanitizer >/dev/null 2>&1; then
    step "compute-sanitizer"
    compute-sanitizer --error-exitcode 1 "$build/tests/test_accel" >"$out/sanitizer.txt" 2>&1 || failed=1
    tail -n 3 "$out/sanitizer.txt"
fi

# ---- texts and speeds
read -r -a models <<<"${MODELS:-}"
read -r -a presets <<<"${PRESETS:-mistral-7b-dense turbosparse-mistral-7b}"
read -r -a sizes <<<"${SIZES:-none 1G 2G 3G 100G}"
for preset in ${presets[@]+"${presets[@]}"}; do
    [ -e "$out/$preset.gguf" ] || "$hearth" synth "$preset" "$out/$preset.gguf" -q
    models+=("$out/$preset.gguf")
done
for model in ${models[@]+"${models[@]}"}; do
    name=$(basename "$model" .gguf)
    step "$name"
    for size in "${sizes[@]}"; do
        options=(--device "$device" --vram "$size")
        [ "$size" = none ] && options=(--device none)
        "$hearth" run "$model" -p "Once upon a time, there was a house by the sea" -n 48 --temp 0 --ignore-eos -c 256 \
            "${options[@]}" --stats json >"$out/$name.$size.text" 2>"$out/$name.$size.json" || failed=1
        if ! cmp -s "$out/$name.$size.text" "$out/$name.${sizes[0]}.text"; then
            echo "$name with $size: another text than with ${sizes[0]}" >&2
            failed=1
        fi
        tail -n 1 "$out/$name.$size.json"
        "$hearth" bench "$model" -p 512 -n 64 -r 2 "${options[@]}" | tee "$out/$name.$size.bench" || failed=1
    done
    if [ -n "${PEER:-}" ]; then
        "$PEER" -m "$model" -ngl 99 -p 512 -n 64 -r 2 2>/dev/null | tee "$out/$name.peer" || true # it may not know it
    fi
    if command -v ncu >/dev/null 2>&1; then
        ncu --clock-control none --print-summary per-kernel --launch-skip 400 --launch-count 800 \
            --metrics gpu__time_duration.sum,dram__bytes_read.sum "$hearth" bench "$model" -p 0 -n 6 -r 1 --device "$device" \
            --vram "${sizes[-1]}" >"$out/$name.kernels" 2>&1 || true # a tool that may be of no use here
        grep -E '^ +[a-z0-9_]+ \(|gpu__time' "$out/$name.kernels" || true
    fi
done
[ "$failed" = 0 ] && echo "check-device: all is well; results are in $out"
exit "$failed"
