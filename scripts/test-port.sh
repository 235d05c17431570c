#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the program for another system, and with TESTS=1 the tests in C that can run there, in an emulator, and compares
# what it writes with what the program for Linux does.
#
#   scripts/test-port.sh TARGET [FOLDER [REGEX]]
#
# TARGET: x86_64-windows (Wine; Debian: wine, wine64), aarch64-linux-musl (qemu-aarch64; Debian: qemu-user or
#         qemu-user-static) or x86_64-linux-musl (nothing is needed)
# FOLDER: of scripts/cross.sh, build-cross if none is given. REGEX: which tests in C, with TESTS=1; all if none is given.
# HEARTH: the program for Linux, build/hearth if not given.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-}
folder=${2:-$here/build-cross}
regex=${3:-.}
linux=${HEARTH:-$here/build/hearth}
emulator=() suffix=
case $target in
x86_64-windows) emulator=(wine) suffix=.exe ;;
aarch64-linux-musl)
    emulator=("$(command -v qemu-aarch64 || command -v qemu-aarch64-static || echo qemu-aarch64)")
    ;;
x86_64-linux-musl) ;;
*)
    sed -n 's/^# \{0,1\}//; 5,11p' "$0" >&2
    exit 2
    ;;
esac
for tool in "${emulator[@]}" ctest curl python3; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "test-port: $tool is not installed" >&2
        exit 1
    }
done
[ -x "$linux" ] || {
    echo "test-port: $linux is not there: make it first, or name another as \$HEARTH" >&2
    exit 1
}
linux=$(cd "$(dirname "$linux")" && pwd)/$(basename "$linux")
TESTS=${TESTS:-} "$here/scripts/cross.sh" "$target" "$folder"
folder=$(cd "$folder" && pwd)
export WINEPREFIX=$folder/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' HEARTH_TEST_DATA=${HEARTH_TEST_DATA:-}
unset DISPLAY
dir=$folder/$target/port-tests
rm -rf "$dir"
mkdir -p "$dir/földer ünd so"
cd "$dir"
program=("${emulator[@]}" "$folder/$target/hearth$suffix")
model=$here/models/hearth-novels-drelu-Q8_0.gguf
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

failed=0
# same NAME: what both wrote into NAME.linux and NAME.port
same() {
    if cmp -s "$1.linux" "$1.port" && [ -s "$1.linux" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1" >&2
        diff "$1.linux" "$1.port" | head -5 >&2 || true
        failed=1
    fi
}

# both NAME ARGUMENT...: runs both programs, with the same input, and compares what they write to standard output
both() {
    local name=$1 input=${input:-/dev/null}
    shift
    "$linux" "$@" <"$input" >"$name.linux" 2>"$name.linux.err" || true
    "${program[@]}" "$@" <"$input" >"$name.port" 2>"$name.port.err" || true
    same "$name"
}

"${program[@]}" --version
both help --help
both run run "$model" -p "It was a dark and stormy night, and" -n 40 --seed 7
both run-greedy run "$model" -p "Émile said" -n 40 --temp 0
both streamed run "$model" -p "It was a dark" -n 24 --seed 7 --ram min
printf 'Once upon a time\nThere was a king\n/exit\n' >chat.txt
input=chat.txt both chat chat "$model" -n 20 --seed 3 --chat-template chatml

# What fails tells why, and by its status.
status=0
"${program[@]}" run missing.gguf -p x >/dev/null 2>refused.err || status=$?
if [ $status != 1 ] || ! grep -q 'error: missing.gguf: cannot open the file: ' refused.err; then
    echo "FAILED: a file that is missing (status $status)" >&2
    failed=1
fi

# Ctrl-C ends a text, and says so by the status. (Wine makes it of SIGINT.)
"${program[@]}" run "$model" -n 100000 -c 100100 --ignore-eos -p "It was" >interrupted.txt 2>interrupted.err &
server=$!
for _ in $(seq 150); do
    [ ! -s interrupted.txt ] || break
    sleep 0.2
done
kill -INT "$server"
status=0
wait "$server" || status=$?
server=
if [ $status = 130 ] && [ -s interrupted.txt ]; then
    echo "ok: Ctrl-C"
else
    echo "FAILED: Ctrl-C (status $status)" >&2
    failed=1
fi

# A path and a text that are not ASCII, and a pack that is made and used.
cp "$model" "földer ünd so/mödel 模.gguf"
both path run "földer ünd so/mödel 模.gguf" -p "Émile 模 🔥" -n 12 --temp 0
"$linux" synth tiny-turbosparse synth.linux.gguf >/dev/null
"${program[@]}" synth tiny-turbosparse synth.port.gguf >/dev/null
mv synth.linux.gguf synth.linux && mv synth.port.gguf synth.port
same synth
mv synth.linux synth.gguf
"$linux" pack synth.gguf pack.linux.gguf >/dev/null
"${program[@]}" pack synth.gguf "földer ünd so/päck.gguf" >/dev/null
mv pack.linux.gguf pack.linux && cp "földer ünd so/päck.gguf" pack.port
same pack
both packed run "földer ünd so/päck.gguf" -p "w1 w2 w3" -n 16 --temp 0 --ram min

# The server on the loopback interface.
ask() { # PROGRAM...: its answer to one request
    local port=$1 name=$2
    shift 2
    "$@" serve "$model" --port "$port" -c 512 >"$name.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        ! curl -sf "http://127.0.0.1:$port/health" >/dev/null || break
        sleep 0.2
    done
    curl -sf "http://127.0.0.1:$port/completion" -d '{"prompt": "It was a dark", "n_predict": 16, "seed": 5, "stream": false}' |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["content"])' >"$name" || true
    curl -sfN "http://127.0.0.1:$port/completion" -d '{"prompt": "It was a dark", "n_predict": 8, "seed": 5, "stream": true}' |
        sed -n 's/.*"content": *\("[^"]*"\).*/\1/p' >>"$name" || true
    curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$port/nothing" >>"$name" || true
    kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    grep -o 'the server has ended' "$name.log" >>"$name" || true
    server=
}
ask 18231 serve.linux "$linux"
ask 18232 serve.port "${program[@]}"
same serve

# Processors with fewer instructions give the same bits.
if [ "$target" = aarch64-linux-musl ]; then
    for cpu in cortex-a53 cortex-a76; do
        export QEMU_CPU=$cpu
        "${program[@]}" --version | grep CPU
        both "run-$cpu" run "$model" -p "It was a dark and stormy night, and" -n 40 --seed 7
    done
    unset QEMU_CPU
fi

if [ -n "${TESTS:-}" ]; then
    (cd "$folder/$target/build" && ctest --output-on-failure -j "${JOBS:-2}" -E '^cli_' -R "$regex") || failed=1
fi
exit $failed
