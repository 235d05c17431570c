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

# ---- more texts than there can be at once
ask 400 /v1/chat/completions -d "{$user, \"n\": 9}"
grep -q 'room for 8' out || fail "the bound is not told"
ask 400 /v1/completions -d '{"prompt": ["a", "b", "c"], "n": 3, "max_tokens": 1}'
ask 200 /v1/chat/completions -d "{$user, \"n\": 8, \"max_tokens\": 1}"
has choices 8

# ---- keys and web pages: see the end
stop
start "$model" -np 1 -t 1 -c 128 --temp 0 --api-key right
ask 200 /v1/models -H 'Authorization: Bearer wrong' -H 'x-api-key: right'
ask 401 /v1/models -H 'Authorization: Bearer wrong' -H 'x-api-key: wrong'
stop
exit 0
