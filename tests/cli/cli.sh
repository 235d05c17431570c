# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the command-line tests: source it first. Gives $hearth, $source_dir, $golden and a scratch folder $tmp, $sanitized,
# and the checks below. A check that fails ends the test.
set -u

hearth=$1
source_dir=$2
export golden=$source_dir/tests/golden/models
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=$tmp/cache
# What whoever runs the tests has set for his own use of the program.
for name in ${!HEARTH_@}; do
    [ "$name" = HEARTH_TEST_DATA ] || unset "$name"
done
# 1: with sanitizers or in an emulator, where a process holds memory that no plan knows of, and everything takes its time.
sanitized=$(grep -c "^HEARTH_SANITIZE:.*=." "$(dirname "$hearth")/CMakeCache.txt" 2>/dev/null)
sanitized=${sanitized:-0}
case $hearth in
*/tests/emulated/*) sanitized=1 ;;
esac

fail() {
    echo "FAILED: $*" >&2
    for file in out err; do
        [ -f "$tmp/$file" ] && { echo "--- $file" >&2; head -c 2000 "$tmp/$file" >&2; }
    done
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

# Skips the rest where the program was made without a server.
need_server() {
    "$hearth" serve "$tmp/missing.gguf" 2>&1 | grep -qF "this build has no server" && skip "there is no server"
    return 0
}

# run STATUS ARGUMENT...: runs hearth with stdout in $tmp/out and stderr in $tmp/err, and wants that exit status.
run() {
    local wanted=$1 status=0
    shift
    "$hearth" "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ "$status" -eq "$wanted" ] || fail "hearth $*: exit status $status instead of $wanted"
}

err_has() {
    grep -qF -- "$1" "$tmp/err" || fail "standard error does not say: $1"
}

err_lacks() {
    grep -qF -- "$1" "$tmp/err" && fail "standard error says: $1"
    return 0
}

out_has() {
    grep -qF -- "$1" "$tmp/out" || fail "standard output does not say: $1"
}

out_is_empty() {
    [ -s "$tmp/out" ] && fail "standard output is not empty"
    return 0
}

same() { # files
    cmp "$1" "$2" || fail "$1 and $2 differ"
}

# json FILE PATH: the value at a path such as "tensors/0/name"; fails when the file is not one JSON value.
json() {
    "$JSON_GET" "$1" "$2" || fail "no $2 in the JSON of $1"
}

# until_true COMMAND...: waits until that is so, for minutes: on a machine that is busy, or stands still, what takes
# milliseconds may take as long.
until_true() {
    local times=0
    until "$@"; do
        times=$((times + 1))
        [ $times -lt 3000 ] || return 1
        if [ $times -lt 50 ]; then sleep 0.02; else sleep 0.1; fi
    done
}

# settle: as if nobody else had been at work when this machine was measured.
settle() {
    sed -i 's/^cpu_share = .*/cpu_share = 1/' "$XDG_CACHE_HOME"/hearth/probe-*.txt
}

# know_machine: as if this machine had been measured by now. Under ctest it was, once for all tests: beside other tests it takes
# three attempts, and seconds.
know_machine() {
    mkdir -p "$XDG_CACHE_HOME/hearth"
    if ! cp "${MACHINE:-none}"/hearth/probe-*.txt "$XDG_CACHE_HOME/hearth" 2>/dev/null; then
        "$hearth" plan "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" -c 64 -q >/dev/null 2>&1 || fail "this machine cannot be measured"
    fi
    settle
}

# end_line FILE: as the program ends text: with a newline, if there is any text.
end_line() {
    [ ! -s "$1" ] || [ -z "$(tail -c 1 "$1" | tr -d '\n')" ] || echo >>"$1"
}

# count_bytes FILE
count_bytes() {
    wc -c <"$1" | tr -d ' '
}
