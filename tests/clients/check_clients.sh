#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The packages of OpenAI and Anthropic, for Python and JavaScript, against hearth serve: check_clients.sh HEARTH MODEL. They
# come from the package registries, into a scratch folder. MODEL is one that was trained to chat. Needs Python with venv,
# Node and npm; 77: they are not there.
set -eu
hearth=$1
model=$2
here=$(cd "$(dirname "$0")" && pwd)
for tool in python3 node npm; do
    command -v $tool >/dev/null || {
        echo "$tool is not there" >&2
        exit 77
    }
done
tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$tmp"' EXIT

python3 -m venv "$tmp/python"
"$tmp/python/bin/pip" install -q openai anthropic
npm install --silent --no-audit --no-fund --prefix "$tmp/node" openai @anthropic-ai/sdk >&2
cp "$here/clients.mjs" "$tmp/node/"

: >"$tmp/log"
"$hearth" serve "$model" --port 0 --temp 0 -c 2048 2>"$tmp/log" &
server=$!
for _ in $(seq 600); do
    base=$(sed -n 's/.* is served at \(http:.*\)/\1/p' "$tmp/log")
    [ -n "$base" ] && break
    sleep 0.1
done
"$tmp/python/bin/python" "$here/clients.py" "$base"
node "$tmp/node/clients.mjs" "$base"
echo "the packages of OpenAI and Anthropic get what they want"
