#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth serve: the form of answers and errors in each API, streams, keys, limits.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
[ "$sanitized" = 1 ] && model=$golden/qwen3.Q8_0.gguf # smaller, and its texts are nonsense
name=$(basename "$model" .gguf)
start "$model" -np 2 -t 1 -c 256 --temp 0 --chat-template vicuna --max-body 1M

# ---- the server itself
ask 200 /health
has status ok
ask 200 /
grep -q "<html" out || fail "there is no page"
[ "$(wc -c <out)" -lt 100000 ] || fail "the page has 100 KB or more"
grep -o "\(src\|href\)=[^ >]*" out | grep -v '"data:,"' && fail "the page loads something"
ask 200 /index.html -D headers
grep -qi "^content-type: text/html" headers || fail "the page's type"
grep -qi "^content-security-policy: default-src 'none'; script-src 'sha256-[^']*'; style-src 'sha256-[^']*'; connect-src 'self'" headers ||
    fail "the page's policy"
if command -v openssl >/dev/null; then
    hash=$(sed -n '/^<script>/,/^<\/script>/p' out | sed '1s/^<script>//; $d' | openssl dgst -sha256 -binary | openssl base64)
    grep -qiF "script-src 'sha256-$hash'" headers || fail "the policy does not allow the page's script"
fi
ask 200 /v1/models
has data/0/id "$name"
ask 200 /props
has total_slots 2
ask 200 /slots
has 1/is_processing false
# Paths and methods that there are not: errors in the form of the path's API.
ask 404 /nothing
has error/code 404
ask 404 /api/tags # of ollama
has error/message "there is no /api/tags here; /v1/models is what this server has for it"
ask 404 /api/chat -d '{}'
has error/message "there is no /api/chat here; /v1/chat/completions is what this server has for it"
ask 405 /completion
has error/code 405
for path in /v1/nothing /v1/chat; do
    ask 404 "$path" -d '{}'
    has error/type not_found_error
    json out error/message >/dev/null
    grep -q '"code":null' out || fail "no error of OpenAI's form: $(cat out)"
done
ask 405 /v1/chat/completions -D headers
has error/type invalid_request_error
grep -q '"code":null' out || fail "no error of OpenAI's form: $(cat out)"
allows() { # LIST: what the answer's head says that the path takes
    tr -d '\r' <headers | grep -qix "allow: $1" || fail "$(grep -i '^allow' headers) instead of $1"
}
allows 'POST, OPTIONS'
ask 405 /lora-adapters -X DELETE -D headers
allows 'GET, HEAD, POST, OPTIONS'
ask 405 /v1/models -d '{}' -D headers
allows 'GET, HEAD, OPTIONS'
ask 405 /slots/0 -D headers
allows 'POST, OPTIONS'
ask 204 /props -X OPTIONS -D headers
allows 'GET, HEAD, OPTIONS'
ask 404 /nothing -D headers
grep -qi '^allow:' headers && fail "methods of a path that is not there"
ask 404 /v1/messages/nothing -d '{}'
has type error
has error/type not_found_error
ask 405 /v1/messages
has type error
has error/type invalid_request_error
ask 200 /health -I

# ---- OpenAI's chat, whole and streamed: the same text
chat='"messages": [{"role": "user", "content": "It was a dark night."}], "max_tokens": 12, "ignore_eos": true'
ask 200 /v1/chat/completions -d "{$chat}"
has object chat.completion
has choices/0/message/role assistant
has choices/0/finish_reason length
has usage/completion_tokens 12
json out choices/0/message/content >whole
ask 200 /v1/chat/completions -d "{$chat, \"stream\": true, \"stream_options\": {\"include_usage\": true}}"
joined choices/0/delta/content <out >streamed
echo >>streamed
same whole streamed
[ "$(tail -n 2 out | head -n 1)" = "data: [DONE]" ] || fail "a stream without its end"
tail -n 4 out | sed -n 's/^data: {/{/p' >last
[ "$("$JSON_GET" last usage/completion_tokens)" = 12 ] || fail "no usage in the stream"
head -n 1 out | grep -q '"role":"assistant"' || fail "the first delta has no role"

# ---- several at once, probabilities, the same seed
ask 200 /v1/chat/completions -d "{$chat, \"n\": 3, \"temperature\": 1, \"seed\": 5, \"logprobs\": true, \"top_logprobs\": 2}"
has choices 3
has choices/2/index 2
has choices/1/logprobs/content 12
has choices/1/logprobs/content/3/top_logprobs 2
json out choices/1/message/content >one
ask 200 /v1/chat/completions -d "{$chat, \"temperature\": 1, \"seed\": 6}"
json out choices/0/message/content >two
same one two

# ---- completions of OpenAI and of llama.cpp
ask 200 /v1/completions -d '{"prompt": ["It was", "She had"], "max_tokens": 4, "logprobs": 1}'
has object text_completion
has choices 2
has choices/1/logprobs/tokens 4
ask 200 /v1/completions -d '{"prompt": "It was", "max_tokens": 4, "echo": true}'
json out choices/0/text | head -n 1 | grep -q "^It was" || fail "no echo"
ask 200 /completion -d '{"prompt": "It was", "n_predict": 6, "ignore_eos": true, "id_slot": 1, "return_tokens": true}'
slot=$(json out id_slot)
ask 200 /slots # an idle slot tells of its last text, as in llama.cpp
has "$slot/is_processing" false
has "$slot/n_decoded" 6
[ "$(json out "$slot/n_prompt_tokens")" -ge 2 ] || fail "no prompt in an idle slot"
[ "$(json out "$slot/id_task")" -ge 1 ] || fail "no number in an idle slot"
ask 200 /completion -d '{"prompt": "It was", "n_predict": 6, "ignore_eos": true, "return_tokens": true}'
has stop_type limit
has tokens 6
json out content >plain
word=$(tail -c +3 plain | head -c 3)
printf '{"prompt": "It was", "n_predict": 6, "ignore_eos": true, "stop": ["%s"]}' "$word" >request
ask 200 /completion -d @request
has stop_type word
has stopping_word "$word"
[ "$(json out content)" = "$(head -c 2 plain)" ] || fail "a text goes on after where it should stop"
ask 200 /completion -d '{"prompt": "It was", "n_predict": 6, "ignore_eos": true, "stream": true}'
joined content <out >streamed
echo >>streamed
same plain streamed
ask 200 /completion -d '{"prompt": "It was", "n_predict": 0}'
has content ""
ask 200 /tokenize -d '{"content": "It was"}'
tokens=$(tr -d '{}' <out | sed 's/"tokens"://')
ask 200 /detokenize -d "{\"tokens\": $tokens}"
has content "It was"
ask 200 /completion -d "{\"prompt\": $tokens, \"n_predict\": 1}"
ask 200 /apply-template -d '{"messages": [{"role": "user", "content": "Hello"}]}'
json out prompt | grep -q "USER: Hello" || fail "no template"
ask 200 /metrics
grep -q '^llamacpp:tokens_predicted_total [1-9]' out || fail "no metrics"

# ---- embeddings of OpenAI and of llama.cpp
ask 200 /v1/embeddings -d '{"model": "any", "input": "It was"}'
has object list
has data/0/object embedding
has model "$name"
width=$(json out data/0/embedding)
[ "$(json out usage/prompt_tokens)" -ge 2 ] || fail "no usage of an embedding"
has usage/total_tokens "$(json out usage/prompt_tokens)"
numbers() { # of the first embedding, a line each
    sed 's/.*"embedding":\[*\([^]]*\)\].*/\1/' out | tr ',' '\n'
    echo
}
numbers >one
awk '{ s += $1 * $1 } END { exit !(s > 0.9999 && s < 1.0001) }' one || fail "an embedding has not the length 1"
"$hearth" embed "$model" -p "It was" -q --embd-output-format raw | tr ' ' '\n' >two
same one two
for input in '["It was"]' "$tokens" "[$tokens]"; do
    ask 200 /v1/embeddings -d "{\"input\": $input}"
    numbers >two
    [ "$input" = '["It was"]' ] && { same one two; continue; }
    [ "$(wc -l <two)" = "$(wc -l <one)" ] || fail "tokens have no embedding"
done
ask 200 /v1/embeddings -d "{\"input\": [\"It was\", \"She had\", $tokens]}"
has data 3
has data/2/index 2
ask 200 /v1/embeddings -d '{"input": "It was", "encoding_format": "base64"}'
json out data/0/embedding | base64 -d >bytes || fail "base64"
[ "$(count_bytes bytes)" -eq $((4 * width)) ] || fail "base64 has other bytes"
od -An -v -t f4 -w4 bytes | awk 'NR == FNR { x[NR] = $1; next } { d = x[FNR] - $1; if (d * d > 1e-12) exit 1 }' - one ||
    fail "base64 has other numbers"
ask 200 /v1/embeddings -d '{"input": "It was", "dimensions": 10}'
has data/0/embedding 10
numbers | awk '{ s += $1 * $1 } END { exit !(s > 0.9999 && s < 1.0001) }' || fail "a short embedding has not the length 1"
ask 200 /embedding -d '{"content": "It was"}'
has 0/index 0
has 0/embedding 1
has 0/embedding/0 "$width"
numbers >two
same one two
ask 200 /embeddings -d '{"input": ["It was", "She had"], "embd_normalize": -1}'
has 1/index 1
ask 400 /v1/embeddings -d '{"input": []}'
has error/param input
ask 400 /v1/embeddings -d '{}'
ask 400 /v1/embeddings -d '{"input": [[]]}'
ask 400 /v1/embeddings -d '{"input": "It was", "encoding_format": "hex"}'
has error/param encoding_format
ask 400 /v1/embeddings -d "{\"input\": \"It was\", \"dimensions\": $((width + 1))}"
has error/param dimensions
ask 400 /v1/embeddings -d '{"input": [99999999]}'
ask 400 /embedding -d '{}'

# ---- Anthropic
message='"max_tokens": 8, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]'
ask 200 /v1/messages -d "{$message}"
has type message
has content/0/type text
has stop_reason max_tokens
has usage/output_tokens 8
json out content/0/text >whole
ask 200 /v1/messages -d "{$message, \"stream\": true}"
joined delta/text <out >streamed
echo >>streamed
same whole streamed
[ "$(sed -n 's/^event: //p' out | uniq | tr '\n' ' ')" = \
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop " ] ||
    fail "events: $(sed -n 's/^event: //p' out | uniq)"
ask 200 /v1/messages/count_tokens -d "{$message}"
[ "$(json out input_tokens)" -gt 3 ] || fail "no count"
ask 400 /v1/messages -d '{"messages": []}'
has type error
has error/type invalid_request_error

# ---- responses
ask 200 /v1/responses -d '{"input": "Hello", "max_output_tokens": 8, "instructions": "Be brief."}'
has object response
has output/0/content/0/type output_text
has usage/output_tokens 8
json out output/0/content/0/text >whole
ask 200 /v1/responses -d '{"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], "max_output_tokens": 8, "instructions": "Be brief.", "stream": true}'
grep '"response.output_text.delta"' out | joined delta >streamed
echo >>streamed
same whole streamed
grep -q '^event: response.\(completed\|incomplete\)' out || fail "a response without its end"
ask 400 /v1/responses -d '{"input": "Hello", "previous_response_id": "resp_1"}'

# ---- answers of a given form
ask 200 /completion -d '{"prompt": "It was", "n_predict": 20, "grammar": "root ::= \" yes\" | \" no\""}'
json out content | grep -qx ' yes\| no' || fail "a grammar"
schema='{"type": "object", "properties": {"age": {"type": "integer", "maximum": 99, "minimum": 10}}, "required": ["age"], "additionalProperties": false}'
for _ in 1 2; do # the second time with the grammar that was kept
    ask 200 /v1/chat/completions -d "{\"messages\": [{\"role\": \"user\", \"content\": \"Age?\"}], \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", \"schema\": $schema}}}"
    json out choices/0/message/content >content
    [ "$("$JSON_GET" content age)" -ge 10 ] || fail "a schema"
done
ask 200 /v1/responses -d "{\"input\": \"Age?\", \"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"a\", \"schema\": $schema}}}"
json out output/0/content/0/text >content
[ "$("$JSON_GET" content age)" -ge 10 ] || fail "a schema of a response"
ask 400 /completion -d '{"prompt": "It was", "grammar": "root ::= ("}'
ask 400 /completion -d '{"prompt": "It was", "json_schema": {"type": "nothing"}}'
ask 400 /v1/chat/completions -d "{$chat, \"response_format\": {\"type\": \"poem\"}}"

# ---- broken and large requests
ask 400 /v1/chat/completions -d '{"messages": '
has error/type invalid_request_error
ask 400 /v1/chat/completions -d '[]'
ask 400 /v1/chat/completions -d '{"messages": []}'
ask 400 /v1/chat/completions -d "{$chat, \"temperature\": \"hot\"}"
has error/param temperature
ask 400 /v1/chat/completions -d "{$chat, \"logit_bias\": {\"99999999\": 1}}"
ask 400 /v1/completions -d '{"prompt": [99999999]}'
ask 400 /v1/completions -d '{"prompt": {}}'
head -c 19000 /dev/zero | tr '\0' 'a' >long
ask 400 /v1/completions -d "{\"prompt\": \"$(sed 's/aaaa/one /g' long)\"}" # longer than the context
head -c 20000000 /dev/zero | tr '\0' ' ' >huge # more than all buffers between the two hold
ask 413 /v1/completions --data-binary @huge -H 'Expect:' -H 'Transfer-Encoding: chunked'
# Who reads only once all is sent hears of a refusal, too.
refused() { # STATUS PATH HOST
    exec {socket}<>"/dev/tcp/127.0.0.1/${base##*:}"
    printf 'POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 20000000\r\n\r\n' "$2" "$3" >&"$socket"
    cat huge >&"$socket" || fail "$2: the body is not taken"
    timeout 600 cat <&"$socket" >out || fail "$2: the answer was lost"
    exec {socket}>&-
    head -n 1 out | grep -q "^HTTP/1.1 $1 " || fail "$2: $(head -n 1 out) instead of $1"
}
refused 413 /v1/completions localhost
refused 404 /nothing localhost
refused 403 /v1/completions example.org
sent=$(curl -sS -m 600 -o out -w '%{http_code} %{size_upload}' "$base/v1/completions" --data-binary @huge -H 'Expect: 100-continue')
[ "$sent" = "413 0" ] || fail "who waits to be asked for the body got, and sent: $sent"
printf 'GET / HTTP/9\r\n\r\n\377\377' >noise
head -c 4000 /dev/urandom >>noise
cat noise 2>err >"/dev/tcp/127.0.0.1/${base##*:}" # nobody waits for an answer
ask 200 /health

# ---- web pages of others may not use the server
ask 200 /health -H 'Origin: http://localhost:3000' -D headers
grep -qi '^access-control-allow-origin: http://localhost:3000' headers || fail "a page of this machine is kept out"
ask 200 /health -H 'Origin: https://example.org' -D headers
grep -qi '^access-control-allow-origin' headers && fail "a page of another machine may read answers"
ask 403 /health -H 'Host: example.org'
ask 204 /v1/chat/completions -X OPTIONS -H 'Origin: http://127.0.0.1' -H 'Access-Control-Request-Headers: content-type'
stop

# ---- keys
printf 'first\nsecond\n' >keys
start "$model" -np 1 -t 1 -c 128 --temp 0 --api-key third --api-key-file keys --cors-origins https://example.org
ask 200 /health -H 'Host: example.org'
ask 401 /v1/models
ask 401 /v1/models -H 'Authorization: Bearer firs'
ask 401 /v1/models -H 'Authorization: Bearer first2'
for key in first second third; do
    ask 200 /v1/models -H "Authorization: Bearer $key"
    ask 200 /v1/models -H "x-api-key: $key"
done
ask 200 /health -H 'Origin: https://example.org' -D headers
grep -qi '^access-control-allow-origin: https://example.org' headers || fail "--cors-origins"

# ---- thoughts and calls of tools, in each API (a grammar has the model write them)
stop
start "$model" -np 1 -t 1 -c 512 --temp 0 --chat-template qwen3
cat >grammar <<'END'
"grammar": "root ::= \"<think>\\nHmm.\\n</think>\\n\\nLet me see.\\n<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {\\\"city\\\": \\\"Rome\\\"}}\\n</tool_call>\""
END
schema='{"type": "object", "properties": {"city": {"type": "string"}}}'
user='"messages": [{"role": "user", "content": "Weather?"}]'
echo "{$user, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": $schema}}], $(cat grammar)}" >request
ask 200 /v1/chat/completions -d @request
has choices/0/finish_reason tool_calls
has choices/0/message/content "Let me see."
has choices/0/message/reasoning_content Hmm.
has choices/0/message/tool_calls/0/function/name weather
has choices/0/message/tool_calls/0/function/arguments '{"city": "Rome"}'
sed 's/^{/{"stream": true, /' request >streaming
ask 200 /v1/chat/completions -d @streaming
[ "$(joined choices/0/delta/tool_calls/0/function/arguments <out)" = '{"city": "Rome"}' ] || fail "a call in a stream"
[ "$(joined choices/0/delta/reasoning_content <out)" = Hmm. ] || fail "thoughts in a stream"
[ "$(joined choices/0/delta/content <out)" = "Let me see." ] || fail "text in a stream"
sed 's/^{/{"tool_choice": "none", /' request >none
ask 200 /v1/chat/completions -d @none
has choices/0/finish_reason stop
echo "{\"max_tokens\": 200, $user, \"tools\": [{\"name\": \"weather\", \"input_schema\": $schema}], $(cat grammar)}" >request
ask 200 /v1/messages -d @request
has stop_reason tool_use
has content/0/thinking Hmm.
has content/2/input/city Rome
sed 's/\\*"Rome\\*"/1234567890.12/; s/"string"/"number"/' request >amount # all digits of the model's numbers
ask 200 /v1/messages -d @amount
grep -q '"city":1234567890.1[12]' out || fail "a number of a call: $(cat out)"
sed 's/^{/{"stream": true, /' request >streaming
ask 200 /v1/messages -d @streaming
[ "$(joined delta/partial_json <out)" = '{"city": "Rome"}' ] || fail "a call in a stream of Anthropic's"
echo "{\"input\": \"Weather?\", \"tools\": [{\"type\": \"function\", \"name\": \"weather\", \"parameters\": $schema}], $(cat grammar)}" >request
ask 200 /v1/responses -d @request
has output/0/type reasoning
has output/2/type function_call
has output/2/arguments '{"city": "Rome"}'
# A model that must call does, with arguments that the tool takes, whatever it would have said.
weather='{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": false}}}'
other='{"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}'
for choice in '"required"' '{"type": "function", "function": {"name": "weather"}}'; do
    ask 200 /v1/chat/completions -d "{$user, \"tools\": [$weather], \"parallel_tool_calls\": false, \"tool_choice\": $choice, \"max_tokens\": 300, \"chat_template_kwargs\": {\"enable_thinking\": false}}"
    has choices/0/finish_reason tool_calls
    has choices/0/message/tool_calls/0/function/name weather
    json out choices/0/message/tool_calls/0/function/arguments >arguments
    case $("$JSON_GET" arguments city) in Rome | Oslo) ;; *) fail "arguments: $(cat arguments)" ;; esac
done
ask 400 /v1/chat/completions -d "{$user, \"tools\": [$weather, $other], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"none\"}}}"
# What came of calls goes back in each API's form, to the same prompt.
cat >chat <<'END'
{"messages": [{"role": "user", "content": "Weather?"},
 {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}}]},
 {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}], "max_tokens": 1}
END
ask 200 /v1/chat/completions -d @chat
tokens=$(json out usage/prompt_tokens)
cat >message <<'END'
{"messages": [{"role": "user", "content": "Weather?"},
 {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Rome"}}]},
 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]}]}
END
ask 200 /v1/messages/count_tokens -d @message
has input_tokens "$tokens"
cat >response <<'END'
{"input": [{"role": "user", "content": "Weather?"},
 {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{\"city\": \"Rome\"}"},
 {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}], "max_output_tokens": 1}
END
ask 200 /v1/responses -d @response
has usage/input_tokens "$tokens"

# A grammar is about all that is generated, also where the prompt has begun thoughts.
stop
printf '%s' '{% for m in messages %}<|im_start|>{{ m.role }}{{ "\n" }}{{ m.content }}<|im_end|>{{ "\n" }}{% endfor %}' \
    '{% if add_generation_prompt %}<|im_start|>assistant{{ "\n<think>\n" }}{% endif %}' >thinking.jinja
start "$model" -np 1 -t 1 -c 512 --temp 0 --chat-template-file thinking.jinja
ask 200 /v1/chat/completions -d "{$user, \"grammar\": \"root ::= \\\"yes\\\"\"}"
has choices/0/message/content yes

# ---- embeddings of all tokens
stop
start "$model" -np 1 -t 1 -c 256 --pooling none
ask 400 /v1/embeddings -d '{"input": "It was"}'
ask 200 /embedding -d "{\"content\": [1, 2, 3]}"
has 0/embedding 3
has 0/embedding/2 "$width"
tokens=$(seq -s, 1 200)
ask 200 /embedding -d "{\"content\": [[$tokens], [$tokens]]}"
has 1/embedding 200
awk -v list="$tokens" 'BEGIN { printf "{\"content\": [["; for (i = 0; i < 2047; i++) printf "%s], [", list; print list "]]}" }' >request
[ $((409600 * 4 * width)) -le $((256 << 20)) ] || {
    ask 400 /embedding -d @request
    grep -q '409600 embeddings at once are too many' out || fail "$(cat out)"
}

# ---- a port that is taken
run 1 serve "$model" --port "${base##*:}"
err_has "in use"
stop

# ---- a socket in a folder
"$hearth" serve "$model" -np 1 -t 1 -c 128 --host "$tmp/hearth.sock" >log 2>&1 &
server=$!
servers+=("$server")
# shellcheck disable=SC2317 # until_true calls it
answers() { curl -fsS --unix-socket hearth.sock http://localhost/health >out 2>err; }
until_true answers || fail "no answer from the socket"
has status ok
stop
[ -e hearth.sock ] && fail "the socket stays"
exit 0
