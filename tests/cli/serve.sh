# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154
# Shared by the tests of hearth serve: source it after cli.sh. Servers that were started end with the test.
command -v curl >/dev/null || skip "curl is not there"
need_server
export no_proxy='*' NO_PROXY='*' CURL_HOME=$tmp # servers here are asked directly, whatever is usual for others
servers=()
trap 'for pid in "${servers[@]}"; do kill -KILL "$pid" 2>/dev/null; done; rm -rf "$tmp"' EXIT

# start ARGUMENT...: starts hearth serve at a free port, which $base names then, and its process $server. What it says is
# in $tmp/log.
start() {
    local i
    : >"$tmp/log"
    "$hearth" serve "$@" --port 0 >"$tmp/log" 2>&1 &
    server=$!
    servers+=("$server")
    for ((i = 0; i < 3000; i++)); do
        base=$(sed -n 's/.* is served at \(http:.*\)/\1/p' "$tmp/log")
        [ -n "$base" ] && return
        kill -0 "$server" 2>/dev/null || break
        if [ $i -lt 50 ]; then sleep 0.02; else sleep 0.1; fi
    done
    cat "$tmp/log" >&2
    fail "the server does not start"
}

ended() { ! kill -0 "$server" 2>/dev/null; }

# stop: asks the server to end, and wants it to, with status 0.
stop() {
    local status=0
    kill -TERM "$server"
    until_true ended || fail "the server does not end"
    wait "$server" || status=$?
    [ "$status" -eq 0 ] || fail "the server ended with status $status: $(tail -n 5 "$tmp/log")"
}

# ask STATUS PATH [CURL'S ARGUMENT...]: a request, its answer in $tmp/out; wants that HTTP status.
ask() {
    local wanted=$1 path=$2 code
    shift 2
    code=$(curl -sS -N -m 600 -o "$tmp/out" -w '%{http_code}' "$base$path" "$@" 2>"$tmp/err")
    [ "$code" = "$wanted" ] || fail "$path $*: status $code instead of $wanted"
}

# number NAME: the value of a metric, such as llamacpp:requests_deferred; nothing where there is none.
number() { curl -sS -m 600 "$base/metrics" | sed -n "s/^$1 //p"; }
is_number() { [ "$(number "$1")" = "$2" ]; }

# is_idle SLOT: nothing is at work there.
is_idle() {
    ask 200 /slots
    [ "$(json "$tmp/out" "$1/is_processing")" = false ]
}

# has PATH VALUE: the answer has this value there.
has() {
    local value
    value=$(json "$tmp/out" "$1") || fail "no $1"
    [ "$value" = "$2" ] || fail "$1 is $value instead of $2"
}

# The pieces of text of an answer that was streamed, one after the other: joined FIELD <STREAM
joined() {
    sed -n 's/^data: \({.*\)/\1/p' | while IFS= read -r line; do
        printf '%s' "$line" >"$tmp/event"
        "$JSON_GET" "$tmp/event" "$1" 2>/dev/null | head -c -1
    done
}
