#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles Hearth and its tests for 64-bit ARM and runs them in an emulator, on processors of three levels of kernels:
# what cmake/aarch64.cmake and scripts/arm-libraries.sh need must be there (scripts/install-deps.sh arm).
#
#   scripts/test-arm.sh [FOLDER]
#
# FOLDER: of the build, build-arm if none is given. CPUS: which processors (names of qemu), "cortex-a53 cortex-a76 max" if
# not given. CTEST: which tests, options of ctest; "-L ^arm$" if not given. QUICK=1: the kernels in one round, and on the
# last processor the golden models' logits. JOBS: how many at once, 2 if not given.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$here/build-arm}
jobs=${JOBS:-2}
read -r -a cpus <<<"${CPUS:-cortex-a53 cortex-a76 max}"
read -r -a options <<<"${CTEST:--L ^arm$}"
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || {
    echo "test-arm: qemu-aarch64 is not installed: scripts/install-deps.sh arm" >&2
    exit 1
}
"$here/scripts/arm-libraries.sh" "$folder/libraries"
folder=$(cd "$folder" && pwd)
generator=()
! command -v ninja >/dev/null 2>&1 || generator=(-G Ninja)
cmake -S "$here" -B "$folder" "${generator[@]}" -DCMAKE_TOOLCHAIN_FILE="$here/cmake/aarch64.cmake" \
    -DHEARTH_ARM_ROOT="$folder/libraries"

# emulate CPU PROGRAM ARGUMENT...
emulate() {
    echo "== $1: ${*:2}"
    QEMU_CPU=$1 HEARTH_BITS_WAYS=0 "$qemu" -L /usr/aarch64-linux-gnu "$folder/tests/$2" "${@:3}"
}
failed=0
if [ -n "${QUICK:-}" ]; then
    cmake --build "$folder" --parallel "$jobs" --target checkkernels test_bits
    emulate "${cpus[-1]}" test_bits test_goldens &
    running=($!)
    for cpu in "${cpus[@]}"; do
        if [ ${#running[@]} -ge "$jobs" ]; then
            wait "${running[0]}" || failed=1
            running=("${running[@]:1}")
        fi
        emulate "$cpu" checkkernels --rounds 1 &
        running+=($!)
    done
    for one in "${running[@]}"; do
        wait "$one" || failed=1
    done
    exit $failed
fi

cmake --build "$folder" --parallel "$jobs"
for cpu in "${cpus[@]}"; do
    echo "== $cpu"
    (cd "$folder" && QEMU_CPU=$cpu ctest --output-on-failure --parallel "$jobs" "${options[@]}") || failed=1
done
exit $failed
