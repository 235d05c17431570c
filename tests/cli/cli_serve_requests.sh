#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth serve: requests that want too much, come from where they should not, or are odd in other ways.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
[ "$sanitized" = 1 ] && model=$golden/qwen3.Q8_0.gguf # smaller, and its texts are nonsense
start "$model" -np 2 -t 1 -c 256 --temp 0 --queue 6 --chat-template vicuna
user='"messages": [{"role": "user", "content": "It was a dark night."}]'
weather='{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": false}}}'

# ---- more texts than there can be at once
ask 400 /v1/chat/completions -d "{$user, \"n\": 9}"
grep -q 'room for 8' out || fail "the bound is not told"
ask 400 /v1/completions -d '{"prompt": ["a", "b", "c"], "n": 3, "max_tokens": 1}'
ask 200 /v1/chat/completions -d "{$user, \"n\": 8, \"max_tokens\": 1}"
has choices 8

# ---- prompts that no context can hold are refused at once; large requests keep nobody waiting
awk 'BEGIN { printf "{\"prompt\": \""; for (i = 0; i < 300000; i++) printf "some words "; print "\"}" }' >large
sed 's/"prompt"/"content"/' large >content
ask 400 /completion --data-binary @large
grep -q 'a text of 3300000 bytes has [0-9]*, or more' out || fail "a prompt of three megabytes was cut into tokens"
# Clients of each API know in their own way that they must make a prompt shorter.
printf 'one %.0s' $(seq 400) >long
echo "{\"prompt\": \"$(cat long)\"}" >request
ask 400 /completion -d @request
has error/type exceed_context_size_error
has error/n_ctx 256
[ "$(json out error/n_prompt_tokens)" -gt 256 ] || fail "tokens are not counted"
ask 400 /v1/completions -d @request
has error/code context_length_exceeded
has error/type invalid_request_error
echo "{\"max_tokens\": 5, \"messages\": [{\"role\": \"user\", \"content\": \"$(cat long)\"}]}" >request
ask 400 /v1/chat/completions -d @request
has error/code context_length_exceeded
has error/param messages
ask 400 /v1/messages -d @request
has error/type invalid_request_error
json out error/message | grep -q '^prompt is too long: [0-9]* tokens > 255 maximum' || fail "$(cat out)"
echo "{\"input\": [\"It was\", \"$(cat long)\"]}" >request
ask 400 /v1/embeddings -d @request
has error/code context_length_exceeded
ask 400 /completion -d "{\"prompt\": \"It was\", \"stop\": \"$(head -c 5000 /dev/zero | tr '\0' a)\"}"
stop
start "$model" -np 2 -t 1 -c 256 --temp 0 --threads-http 1
# The one thread of HTTP answers others while large requests are at work: again and again, not once between two of them.
# On a busy machine that shows at one of several times.
at_work() { # all of them
    local pid
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done
}
for try in 1 2 3 4 5 6 7 8; do
    for i in 1 2 3 4; do
        curl -sS -o "tokens$i" "$base/tokenize" --data-binary @content &
        pids[i]=$!
    done
    answered=0
    while at_work; do
        ask 200 /health
        at_work && answered=$((answered + 1))
    done
    wait "${pids[@]}"
    [ -s tokens4 ] || fail "no tokens"
    cmp -s tokens1 tokens4 || fail "tokens differ"
    [ "$answered" -lt 5 ] || break
    [ "$try" -lt 8 ] || fail "nobody else is answered while a large request is read"
done

# ---- long answers are written while they are sent
digits=$(head -c 1000000 /dev/zero | tr '\0' 7)
echo "{\"with_pieces\": true, \"content\": \"$digits\"}" >request
ask 200 /tokenize -d @request -D headers
grep -qi '^transfer-encoding: chunked' headers || fail "a long answer is not written in parts"
[ "$(json out tokens)" -gt 300000 ] || fail "tokens are missing"
[ "$(grep -o '"piece":"7*"' out | cut -d '"' -f 4 | tr -d '\n' | wc -c)" -eq 1000000 ] || fail "pieces are missing"
peak=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$server/status" 2>/dev/null)
[ "$sanitized" = 1 ] || [ "${peak:-0}" -lt 200 ] || fail "$peak MB for the tokens of one"
awk 'BEGIN { printf "{\"input\": [\"It was\""; for (i = 0; i < 198; i++) printf ", \"She had %d\"", i; print ", \"It was\"]}" }' >request
ask 200 /v1/embeddings -d @request -D headers
grep -qi '^transfer-encoding: chunked' headers || fail "many embeddings are not written in parts"
has data 200
has data/199/index 199
[ "$(json out data/0/embedding/1)" = "$(json out data/199/embedding/1)" ] || fail "embeddings that are written late differ"
ask 200 /v1/chat/completions -d "{$user, \"n\": 3, \"max_tokens\": 50, \"ignore_eos\": true, \"logprobs\": true, \"top_logprobs\": 20}" -D headers
grep -qi '^transfer-encoding: chunked' headers || fail "many probabilities are not written in parts"
has choices/2/logprobs/content 50
has choices/2/logprobs/content/49/top_logprobs 20
has usage/completion_tokens 150
ask 200 /v1/completions -d '{"prompt": ["It was", "She had"], "max_tokens": 3, "ignore_eos": true, "logprobs": 2}'
for list in tokens token_logprobs top_logprobs text_offset; do
    has choices/1/logprobs/$list 3
done
ask 200 /completion -d '{"prompt": ["It was", "She had"], "n_predict": 3, "ignore_eos": true, "n_probs": 2}'
has 1/completion_probabilities 3
# A part of a character is no text, but bytes.
ask 200 /tokenize -d '{"content": "𓀀", "with_pieces": true}'
bytes=$(sed 's/"piece":\[/\n/g' out | sed -n 's/^\([0-9,]*\)\].*/\1/p' | tr '\n' ' ')
[ -n "$bytes" ] || has tokens/0/piece 𓀀
case ${bytes:-240,147,128,128} in *240*147*128*128*) ;; *) fail "the bytes of a character are $bytes" ;; esac
# What no memory is taken for: very many values, texts that no context need hold.
awk 'BEGIN { printf "{\"a\": ["; for (i = 0; i < 1200000; i++) printf "{},"; print "0]}" }' >many
ask 413 /tokenize --data-binary @many
grep -q 'too many values' out || fail "what is wrong with very many values"
{
    printf '{"content": "'
    head -c 9000000 /dev/zero | tr '\0' 7
    echo '"}'
} >request
ask 400 /tokenize --data-binary @request
grep -q 'cut into tokens at once' out || fail "what is wrong with a very long text"

# ---- a client that sends nothing more but reads on: a stream is whole, another answer is none rather than half
stop
start "$model" -np 1 -t 1 -c 32768 --temp 0 --chat-template vicuna
post() {
    printf 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' ${#1} "$1"
}
body='{"prompt": "It was", "n_predict": 60, "ignore_eos": true, "stream": true}'
ask 200 /completion -d "$body"
grep '^data' out | joined content >whole
post "$body" | "$HALF_CLOSE" "${base##*:}" >out || fail "no stream for a client that sends nothing more"
tr -d '\r' <out | grep '^data' | joined content >streamed
same whole streamed
grep -q '"stop":true' out || fail "a stream that is cut"
post '{"prompt": "It was", "n_predict": 400, "ignore_eos": true}' | "$HALF_CLOSE" "${base##*:}" >out
[ -s out ] && fail "half an answer"
# Whoever has gone is noticed while a prompt is evaluated, too, when nothing would be sent.
awk 'BEGIN { printf "{\"stream\": true, \"n_predict\": 20000, \"ignore_eos\": true, \"prompt\": \""; for (i = 0; i < 2000; i++) printf "It was. "; print "\"}" }' >request
for try in 1 2 3 4 5 6 7 8; do # the prompt may be over before a busy machine gets that far
    before=$(number llamacpp:tokens_predicted_total)
    curl -sS -N -o out "$base/completion" -d @request 2>err &
    client=$!
    until_true is_number llamacpp:requests_processing 1 || fail "a prompt"
    kill -KILL "$client"
    { wait "$client"; } 2>/dev/null
    until_true is_idle 0 || fail "a text for nobody"
    after=$(number llamacpp:tokens_predicted_total)
    [ "$after" -lt $((before + 20000)) ] || fail "a text for nobody was generated to its end"
    [ "$after" -gt "$before" ] || break
    [ "$try" -lt 8 ] || fail "a prompt for nobody was evaluated to its end"
done

# ---- contents that are no text
for content in '[{"type": "image_url", "image_url": {"url": "data:"}}]' '{}' 5 '["a"]'; do
    ask 400 /v1/chat/completions -d "{\"messages\": [{\"role\": \"user\", \"content\": $content}]}"
    grep -q 'no images' out || fail "content $content"
done
ask 400 /v1/chat/completions -d '{"messages": ["Hello"]}'

# ---- an answer that is begun goes on
begun='{"messages": [{"role": "user", "content": "Say \"It was a dark night\"."}, {"role": "assistant", "content": "It was "}]'
ask 200 /apply-template -d "$begun}"
json out prompt | tail -n 1 | grep -q "ASSISTANT: It was $" || fail "not cut behind the content"
json out prompt >whole
parts='[{"type": "text", "text": "It"}, {"type": "text", "text": " was "}]'
echo "${begun/\"It was \"/$parts}}" >request
ask 200 /apply-template -d @request
json out prompt >parts
same whole parts
ask 200 /v1/messages/count_tokens -d "$begun, \"max_tokens\": 1}"
[ "$(json out input_tokens)" -gt 9 ] || fail "no count"
ask 200 /v1/chat/completions -d "$begun, \"max_tokens\": 2}"
json out choices/0/message/content >whole
ask 200 /v1/messages -d "$begun, \"max_tokens\": 2}"
ask 200 /v1/responses -d "{\"input\"${begun#*\"messages\"}, \"max_output_tokens\": 2}"
json out output/0/content/0/text >responded
same whole responded
input='[{"role": "user", "content": "Say \"It was a dark night\"."}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It was "}]}]'
ask 200 /v1/responses -d "{\"input\": $input, \"max_output_tokens\": 2, \"stream\": true}"
joined delta <out >responded
echo >>responded
same whole responded
ask 200 /apply-template -d '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]}'
json out prompt | tail -n 1 | grep -qx "ASSISTANT:" || fail "an empty beginning"

# ---- roles and variables of templates
developer='{"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]'
stop
start "$model" -np 1 -t 1 -c 256 --temp 0 --chat-template qwen3
ask 200 /apply-template -d "$developer}"
json out prompt | grep -q "^<|im_start|>system" || fail "the role developer reaches a template that has it not"
ask 400 /apply-template -d "$developer, \"chat_template_kwargs\": {\"messages\": []}}"
ask 400 /apply-template -d "$developer, \"chat_template_kwargs\": 1}"
thinks() {
    ask 200 "$@"
    json out input_tokens
}
with=$(thinks /v1/messages/count_tokens -d "{$user, \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 2000}}")
without=$(thinks /v1/messages/count_tokens -d "{$user, \"thinking\": {\"type\": \"disabled\"}}")
[ "$without" -gt "$with" ] || fail "thinking has no effect: $with and $without tokens"
stop
start "$model" -np 1 -t 1 -c 256 --temp 0 --chat-template '[{{ reasoning_effort }}]{% for m in messages %}{% if m.role == "developer" %}!{% endif %}{{ m.role }}: {{ m.content | trim }};{% endfor %}'
ask 200 /apply-template -d "$developer, \"reasoning\": {\"effort\": \"high\"}}"
has prompt "[high]!developer: Be brief.;user: Hi;"
ask 200 /apply-template -d "$begun}"
json out prompt | grep -q "assistant: It was $" || fail "not cut behind the content"

# ---- odd texts and numbers
ask 200 /tokenize -d '{"content": "a\u0000b"}'
tokens=$(tr -d '{}' <out | sed 's/"tokens"://')
ask 200 /detokenize -d "{\"tokens\": $tokens}"
[ "$(json out content)" = "a�b" ] || fail "a zero in a text"
ask 200 /completion -d '{"prompt": "It \u0000 \\u0000", "n_predict": 1, "id": -123456789012345678901, "list": ["12345678901234567890", 12345678901234567890]}'
random='{"prompt": "It was", "n_predict": 8, "temperature": 1, "ignore_eos": true'
for seed in 4294967295 18446744073709551615 -5; do
    ask 200 /completion -d "$random, \"seed\": $seed}"
    json out content >one
    ask 200 /completion -d "$random, \"seed\": $seed}"
    json out content >two
    same one two
done
ask 400 /completion -d "$random, \"seed\": 0.5}"
ask 200 /completion -d '{"prompt": "", "n_predict": 2}'
ask 200 /v1/completions -d '{"prompt": "It", "max_tokens": 1, "suffix": ""}'
ask 400 /v1/completions -d '{"prompt": "It", "max_tokens": 1, "suffix": "end"}'
ask 404 /%ff
has error/code 404
ask 400 /v1/completions -d '{"prompt": "It", "echo": true, "logprobs": 1}'
ask 200 /v1/completions -d '{"prompt": "It was — so", "max_tokens": 6, "logprobs": 0, "grammar": "root ::= \"—é—\""}'
[ "$(json out choices/0/logprobs/text_offset/0)" = 0 ] || fail "offsets"
n=$(json out choices/0/logprobs/text_offset)
[ "$(json out "choices/0/logprobs/text_offset/$((n - 1))")" -le 3 ] || fail "offsets are bytes"

# ---- the model by its name; usage at both ends of a stream
ask 200 /v1/models
has has_more false
name=$(json out data/0/id)
ask 200 "/v1/models/$name"
has display_name "$name"
ask 404 /v1/models/other
for _ in 1 2; do # the second time the prompt is there
    ask 200 /v1/messages -d "{$user, \"max_tokens\": 2, \"stream\": true}"
done
sed -n 's/^data: \(.*message_start.*\)/\1/p' out >first
sed -n 's/^data: \(.*message_delta.*\)/\1/p' out >last
[ "$("$JSON_GET" first message/usage/cache_read_input_tokens)" -gt 0 ] || fail "nothing was there"
for field in input_tokens cache_read_input_tokens; do
    [ "$("$JSON_GET" first message/usage/$field)" = "$("$JSON_GET" last usage/$field)" ] || fail "$field differs"
done

# ---- a grammar that leaves more open than can be followed: an error, not what company leaves of it
awk 'BEGIN { printf "{\"prompt\": \"It\", \"grammar\": \"root ::= ("
    for (i = 97; i < 123; i++) printf "%s\\\"%c\\\" [a-z]{0,200}", (i > 97 ? " | " : ""), i
    print ")+\", \"n_predict\": 60}" }' >request
curl -sS -o out "$base/completion" -d @request
[ "$sanitized" = 1 ] || grep -q 'leaves too much open' out || fail "a grammar that cannot be followed"

# An answer that is begun behind a header comes whole, too.
stop
start "$model" -np 1 -t 1 -c 512 --temp 0 --chat-template gpt-oss
ask 200 /v1/chat/completions -d "$begun, \"max_tokens\": 8, \"ignore_eos\": true}"
[ -n "$(json out choices/0/message/content)" ] || fail "the rest of an answer that was begun is gone"
ask 200 /v1/chat/completions -d "$begun, \"max_tokens\": 8, \"ignore_eos\": true, \"tools\": [$weather]}"
[ -n "$(json out choices/0/message/content)" ] || fail "the rest of an answer that was begun is gone"

# ---- pages of other origins: a browser sends such a request without asking
ask 403 /completion -H 'Origin: https://example.org' -H 'Content-Type: text/plain' -d '{"prompt": "It", "n_predict": 1}'
ask 403 /completion -H 'Origin: null' -d '{"prompt": "It", "n_predict": 1}'
ask 200 /completion -H "Origin: $base" -d '{"prompt": "It", "n_predict": 1}'
ask 200 /health -H 'Origin: https://example.org'
stop
start "$model" -np 1 -t 1 -c 128 --temp 0 --host 0.0.0.0 --cors-origins https://example.org
base=http://127.0.0.1:${base##*:}
ask 200 /completion -H 'Host: box:8080' -H 'Origin: http://box:8080' -d '{"prompt": "It", "n_predict": 1}'
ask 200 /completion -H 'Origin: https://example.org' -d '{"prompt": "It", "n_predict": 1}'
ask 403 /completion -H 'Origin: http://127.0.0.1:1' -d '{"prompt": "It", "n_predict": 1}'

# ---- answers that must be calls, and other forms
stop
start "$model" -np 1 -t 1 -c 512 --temp 0 --chat-template qwen3
call="$user, \"tools\": [$weather], \"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"chat_template_kwargs\": {\"enable_thinking\": false}"
ask 200 /v1/chat/completions -d "{$call, \"response_format\": {\"type\": \"text\"}}"
has choices/0/message/tool_calls/0/function/name weather
ask 400 /v1/chat/completions -d "{$call, \"response_format\": {\"type\": \"json_object\"}}"
has error/param tool_choice
ask 400 /v1/chat/completions -d "{$call, \"grammar\": \"root ::= \\\"yes\\\"\"}"
ask 400 /v1/chat/completions -d "{$user, \"tool_choice\": \"required\"}"
ask 200 /v1/chat/completions -d "{$user, \"max_tokens\": 2, \"response_format\": {\"type\": \"text\"}, \"grammar\": \"\"}"

# ---- many bodies that do not come to their end: no more memory is taken for others until some have gone
stop
start "$model" -np 1 -t 1 -c 128 --temp 0 --api-key right --max-body 64K
echo "{\"content\": \"${digits:0:60000}\"}" >request
# is_tokenized STATUS: whether a request is answered with it.
# shellcheck disable=SC2317 # until_true calls it
is_tokenized() {
    [ "$(curl -sS -o out -w '%{http_code}' "$base/tokenize" -H 'x-api-key: right' -d @request)" = "$1" ]
}
for fd in $(seq 10 28); do
    eval "exec $fd<>/dev/tcp/127.0.0.1/${base##*:}"
    {
        printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nContent-Length: 65000\r\n\r\n'
        head -c 64000 /dev/zero
    } >&"$fd"
done
until_true is_tokenized 503 || fail "any number of bodies is taken"
grep -q 'too much is being sent' out || fail "what is wrong with many bodies"
for fd in $(seq 10 28); do
    eval "exec $fd>&-"
done
until_true is_tokenized 200 || fail "bodies that are gone count"

# ---- keys
ask 200 /v1/models -H 'Authorization: Bearer wrong' -H 'x-api-key: right'
ask 401 /v1/models -H 'Authorization: Bearer wrong' -H 'x-api-key: wrong'
stop

# ---- a socket in a folder: any name of a host, a mode of its own, and no file when the model does not open
(umask 000 && exec "$hearth" serve "$model" -np 1 -t 1 -c 128 --host "$tmp/hearth.sock" >log 2>&1) &
server=$!
servers+=("$server")
# shellcheck disable=SC2317 # until_true calls it
answers() { curl -fsS --unix-socket hearth.sock http://anything/health >out 2>err; }
until_true answers || fail "no answer from the socket"
has status ok
[ "$(stat -c %a hearth.sock)" = 660 ] || fail "the socket's mode is $(stat -c %a hearth.sock)"
stop
run 1 serve "$tmp/request" --host "$tmp/other.sock"
[ -e other.sock ] && fail "the socket of a server that did not start stays"
exit 0
