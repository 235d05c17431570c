#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth serve under load: answers are the same alone and among others, with and without what is kept of prompts; clients
# that go; a queue that is full; ends while texts are generated.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
clients=16
length=24
repeats=12
if [ "$sanitized" = 1 ]; then
    repeats=4
    model=$golden/qwen3.Q8_0.gguf
    length=8
fi

# Prompts of different lengths, some of which begin alike.
for i in $(seq $clients); do
    {
        printf '{"temperature": 0.9, "seed": %d, "n_predict": %d, "ignore_eos": true, "prompt": "' "$i" "$length"
        for _ in $(seq $((i % 4 * repeats))); do printf 'It was a dark and stormy night. '; done
        [ $((i % 3)) = 0 ] && printf 'She went %d miles. ' "$i"
        printf 'Then"}'
    } >"request$i"
done

# Long texts from short prompts: a small KV cache does not hold two of them whole, so they need not begin together.
for i in long1 long2 long3 long4 long5 long6; do
    printf '{"temperature": 0.9, "seed": 1, "n_predict": %d, "ignore_eos": true, "prompt": "Text %s was"}' \
        "$((repeats == 12 ? 600 : 300))" "$i" >"request$i"
done

# get I NAME: what request I gets goes to NAME.
get() {
    curl -sS -m 600 -o "$2.json" "$base/completion" -d "@request$1" || fail "request $1"
    "$JSON_GET" "$2.json" content >"$2" || fail "request $1: $(head -c 300 "$2.json")"
}

# all NAME [REQUESTS]: all requests at once.
all() {
    local pids=()
    # shellcheck disable=SC2086
    for i in ${2:-$(seq $clients)}; do
        get "$i" "$1$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "a client"
    done
}

# ---- alone, on a server that starts anew with nothing kept
start "$model" -np 1 -t 1 -c 1024 -ub 512
for i in $(seq $clients) long1 long2 long3 long4 long5 long6; do
    get "$i" "alone$i"
done
stop

# The embeddings of many texts in one request, more than may wait, alone and then while texts are generated.
{
    printf '{"input": ['
    for i in $(seq 40); do printf '"Text %d: it was a dark and stormy night.", ' "$i"; done
    printf '"Then"]}'
} >texts
embed() { # NAME
    curl -sS -m 600 -o "$1" "$base/v1/embeddings" -d @texts || fail "embeddings"
    [ "$("$JSON_GET" "$1" data)" = 41 ] || fail "embeddings: $(head -c 300 "$1")"
}
start "$model" -np 1 -t 1 -c 1024 -ub 512 --queue 3
embed vectors
stop

# ---- together, twice: the second time with what is kept of the first
start "$model" -np 5 -t 2 -c 1024 -ub 48
for round in first second; do
    embed "vectors.$round" &
    embedding=$!
    all "$round"
    wait "$embedding" || fail "embeddings beside texts"
    same vectors "vectors.$round"
    for i in $(seq $clients); do
        same "alone$i" "$round$i"
    done
done
[ "$(sed -n 's/^hearth:cached_tokens_total //p' <(curl -sS "$base/metrics"))" -gt $((repeats * 40)) ] || fail "nothing was kept"
stop

# ---- a small KV cache: texts make room for others and go on later with the same bits
start "$model" -np 6 -t 2 -c 1024 --kv-size $((repeats == 12 ? 1024 : 512))
made_room() {
    [ "$(curl -sS "$base/metrics" | sed -n 's/^hearth:preempted_total //p')" -gt 0 ]
}
all tight
# Whether long texts are there together depends on when their clients come: so some rounds, if need be.
for round in $(seq 20); do
    embed vectors.tight &
    embedding=$!
    all tight "long1 long2 long3 long4 long5 long6"
    for i in $(seq $clients) long1 long2 long3 long4 long5 long6; do
        same "alone$i" "tight$i"
    done
    wait "$embedding" || fail "embeddings in a small KV cache"
    same vectors vectors.tight
    ! made_room || break
done
made_room || fail "no text made room for another"
stop

# ---- the same with prompts on disk, which come from there and go there while room is made
start "$model" -np 6 -t 2 -c 1024 --kv-size $((repeats == 12 ? 1024 : 512)) --prefix-cache "$tmp/prompts"
all disk
all disk "long1 long2 long3 long4 long5 long6"
all disk
for i in $(seq $clients) long1 long2 long3 long4 long5 long6; do
    same "alone$i" "disk$i"
done
stop

# ---- a budget of memory, least possible
start "$model" -np 4 -t 2 -c 1024 --ram min --prefix-cache "$tmp/prompts"
all small
for i in $(seq $clients); do
    same "alone$i" "small$i"
done
embed vectors.small
same vectors vectors.small
stop

# ---- a full queue
start "$model" -np 1 -t 1 -c 32768 --queue 1 --sse-ping-interval 1
forever='{"prompt": "It was", "n_predict": 32000, "ignore_eos": true, "stream": true}'
curl -sS -N "$base/completion" -d "$forever" >stream1 2>/dev/null &
curl1=$!
curl -sS -N "$base/completion" -d "$forever" >stream2 2>/dev/null &
curl2=$!
until_true is_number llamacpp:requests_processing 1 || fail "no text"
until_true is_number llamacpp:requests_deferred 1 || fail "no text that waits"
ask 503 /completion -d "$forever" -D headers
grep -qi '^retry-after:' headers || fail "no Retry-After"
has error/type unavailable_error
# shellcheck disable=SC2317 # until_true calls it
is_told() { cat stream1 stream2 | grep -q '^: working'; } # the one that waits, that the server is at work
until_true is_told || fail "a silent stream"

# ---- clients that go leave room at once
kill "$curl1" "$curl2"
# shellcheck disable=SC2317 # until_true calls it
has_room() { curl -fsS -m 600 -o out "$base/completion" -d '{"prompt": "It was", "n_predict": 2}' 2>err; }
until_true has_room || fail "no room where clients have gone"
curl -sS "$base/completion" -m 0.5 -d '{"prompt": "It was", "n_predict": 32000, "ignore_eos": true}' >out 2>err # not streamed
until_true is_idle 0 || fail "a text for nobody"
[ "$(number llamacpp:tokens_predicted_total)" -lt 32000 ] || fail "texts for nobody were generated to their ends"

# ---- clients that end in the middle of a request, before the server has seen any of it, leave nothing either
descriptors() { find "/proc/$server/fd" -mindepth 1 | wc -l; }
if [ -d "/proc/$server/fd" ]; then
    before=$(descriptors)
    kill -STOP "$server"
    for _ in $(seq 20); do
        exec 5<>"/dev/tcp/127.0.0.1/${base##*:}"
        printf 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{' >&5
        exec 5>&-
    done
    kill -CONT "$server"
    # shellcheck disable=SC2317 # until_true calls it
    are_few() { [ "$(descriptors)" -le $((before + 4)) ]; }
    sleep 0.1
    until_true are_few || fail "$before descriptors became $(descriptors)"
fi

# ---- nor do clients that wait for a text and go, although others are silent for longer, and nobody says anything after
connections() { find "/proc/$server/fd" -lname 'socket:*' | wc -l; }
if [ -d "/proc/$server/fd" ]; then
    stop
    start "$model" -np 1 -t 1 -c 32768 --queue 8 --sse-ping-interval 1
    none=$(connections)
    # shellcheck disable=SC2317 # until_true calls it
    are_left() { [ "$(connections)" -le $((none + $1)) ]; }
    exec 5<>"/dev/tcp/127.0.0.1/${base##*:}" 6<>"/dev/tcp/127.0.0.1/${base##*:}" 7<>"/dev/tcp/127.0.0.1/${base##*:}"
    curl -sS -N "$base/completion" -d "$forever" >stream1 2>/dev/null 5>&- 6>&- 7>&- &
    curl1=$!
    until_true is_number llamacpp:requests_processing 1 || fail "no text"
    curls=()
    for _ in $(seq 8); do
        curl -sS -N "$base/completion" -d "$forever" >/dev/null 2>&1 5>&- 6>&- 7>&- &
        curls+=($!)
    done
    until_true is_number llamacpp:requests_deferred 8 || fail "no texts that wait"
    kill "${curls[@]}"
    until_true are_left 4 || fail "8 of 12 clients have gone, and $(($(connections) - none)) connections are left"
    kill "$curl1"
    until_true are_left 3 || fail "9 of 12 clients have gone, and $(($(connections) - none)) connections are left"
    exec 5>&- 6>&- 7>&-
fi

# ---- an end while a text is streamed: the stream ends in good order, within some seconds
curl -sS -N "$base/v1/completions" -d '{"prompt": "It was", "max_tokens": 32000, "ignore_eos": true, "stream": true}' >stream 2>err &
client=$!
until_true test -s stream || fail "no stream"
stop
wait "$client" || fail "the client of a server that ends: $(cat err)"
[ "$(tail -n 2 stream | head -n 1)" = "data: [DONE]" ] || fail "a stream without its end"
[ "$length" = 8 ] || grep -q 'shutting down' stream || fail "a text of 32,000 tokens in five seconds"
exit 0
