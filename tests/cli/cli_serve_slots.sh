#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth serve --slot-save-path: a slot's last prompt goes to a file and comes back, after a restart, too; no text depends on
# it; no name leads out of the folder; files that are damaged, of another model or none at all change nothing.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
model=$golden/qwen3.Q8_0.gguf

text='It was a dark and stormy night, and the rain fell in torrents, except at occasional intervals.'
complete() { # NAME [MORE]: the answer's text goes to NAME
    ask 200 /completion -d "{\"prompt\": \"$text\", \"n_predict\": 12, \"temperature\": 0.9, \"seed\": 5, \"ignore_eos\": true, \"n_probs\": 3${2:-}}"
    json out content >"$1" && json out completion_probabilities/11/logprob >>"$1"
}
act() { # STATUS SLOT ACTION [FILE]
    ask "$1" "/slots/$2?action=$3" -d "{\"filename\": \"${4:-}\"}"
}

# ---- without a folder
start "$model" -np 2 -c 512
act 501 0 save x
has error/code 501
stop

# ---- saved, erased and restored
start "$model" -np 2 -c 512 --slot-save-path "$tmp/saved"
act 400 0 save early # there is nothing yet
grep -q 'slot 0 has no prompt' out || fail "$(cat out)"
complete alone
has id_slot 0
has tokens_cached 0
prompt=$(json out tokens_evaluated)
act 200 0 save one.bin
has id_slot 0
has filename one.bin
has n_saved "$prompt"
[ "$(json out n_written)" = "$(wc -c <saved/one.bin)" ] || fail "n_written is not the file's size"
json out timings/save_ms >/dev/null || fail "no save_ms"
ask 200 '/slots/0?action=erase' -X POST # without a body
has n_erased "$prompt"
act 400 0 save one.bin
complete erased
has tokens_cached 0
same alone erased
act 200 1 restore one.bin
has id_slot 1
has n_restored "$prompt"
has n_read "$(wc -c <saved/one.bin)"
act 200 1 save two.bin # what was restored is what is saved
same saved/one.bin saved/two.bin

# ---- in the slot that a request names
complete second ', "id_slot": 1'
has id_slot 1
has tokens_cached $((prompt - 1))
same alone second
ask 400 /completion -d '{"prompt": "x", "id_slot": 2}'
has error/message 'id_slot: an integer of -1 to 1 is wanted'

# ---- names, slots and actions that are none
long=$(printf 'x%.0s' $(seq 300))
for name in '' . .. .hidden ../one.bin a/b /etc/passwd 'a\\b' 'a\u0000b/../c' 'a\nb' "$long"; do
    act 400 0 save "$name"
    grep -q filename out || fail "$name: $(cat out)"
    act 400 0 restore "$name"
done
ask 400 '/slots/0?action=save' -d '{"filename": 5}'
ask 400 '/slots/0?action=save' -d '{}'
ask 405 '/slots/0?action=save'
for slot in 2 -1 x 0x1 00000000000000000001x 99999999999999999999; do
    act 400 "$slot" save x
done
act 400 0 rename x
ask 400 /slots/0 -d '{"filename": "x"}'
[ "$(find . -newer alone -type f ! -path './saved/*' -name '*.bin' | wc -l)" = 0 ] || fail "a file outside of the folder"
[ "$(find saved -type f | sort | tr '\n' ' ')" = "saved/one.bin saved/two.bin " ] || fail "files that nobody wanted: $(ls -A saved)"

# ---- files that are none
act 400 0 restore missing
mkdir saved/folder && mkfifo saved/fifo
act 400 0 restore folder
act 400 0 restore fifo
act 400 0 save folder
head -c 300 saved/one.bin >saved/cut
act 400 0 restore cut
{ head -c 200 saved/one.bin && printf 'xxxx' && tail -c +205 saved/one.bin; } >saved/bits
act 400 0 restore bits
complete third
same alone third

stop

# ---- while the slot is at work
start "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" -np 2 -t 1 -c 32768 --kv-size 65536 --slot-save-path saved
curl -sS -N "$base/completion" -d '{"prompt": "It was", "n_predict": 32000, "ignore_eos": true, "stream": true, "id_slot": 1}' >stream 2>/dev/null &
client=$!
until_true test -s stream || fail "no stream"
act 503 1 save busy
grep -q 'slot 1 is at work' out || fail "$(cat out)"
[ -e saved/busy ] && fail "a slot at work was saved"
kill "$client" 2>/dev/null
wait "$client" 2>/dev/null
until_true is_idle 1 || fail "a text for nobody"
act 200 1 save busy
stop

# ---- after a restart, on a server whose every slot keeps less
start "$model" -np 1 -c 512 --kv-size 512 --slot-save-path saved --prefix-cache prompts
act 200 0 restore one.bin
has n_restored "$prompt"
complete restarted
has tokens_cached $((prompt - 1))
same alone restarted
for i in 1 2 3; do # again and again, and the KV cache has room for more
    act 200 0 restore one.bin
    complete "again$i"
    same alone "again$i"
done
ask 200 /metrics
stop

# ---- of another model
start "$golden/bamboo.Q8_0.gguf" -np 1 -c 256 --slot-save-path saved
act 400 0 restore one.bin
ask 200 /completion -d '{"prompt": "It was", "n_predict": 3}'
stop

# ---- a folder that cannot be
touch file
run 1 serve "$model" --port 0 --slot-save-path file/sub
err_has file
exit 0
