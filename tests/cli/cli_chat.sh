#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth chat: messages from pipes and from a terminal, commands, templates, full contexts; and that no text depends on
# what the sequence has kept.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
cd "$tmp" || exit 1
model=$golden/qwen3.Q8_0.gguf
small=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
[ -f "$model" ] || model=$small
chat=(chat "$small" --chat-template vicuna --temp 0 -n 12 --ignore-eos -t 1)

# ---- one message, one answer, wherever it comes from
run 0 "${chat[@]}" -st -p "It was a dark night."
cp out one
[ -s one ] || fail "no answer"
err_has "tok/s"
printf 'It was a dark night.\n' >message
for way in "-f message" "-f -" ""; do
    # shellcheck disable=SC2086
    run 0 "${chat[@]}" -st $way <message
    same out one
done
run 0 "${chat[@]}" -st -q -p "It was a \x64ark night." # escapes, as in llama.cpp
same out one
[ -s err ] && fail "--quiet is not quiet"

# Each answer ends with one newline, its own or one that is added.
for text in a 'a\n'; do
    run 0 "${chat[@]}" -st -p x --grammar "root ::= \"$text\""
    printf 'a\n' | cmp - out || fail "the end of an answer"
    printf 'x\ny\n' | run 0 "${chat[@]}" --grammar "root ::= \"$text\""
    printf 'a\na\n' | cmp - out || fail "the end of answers"
done
printf 'x\ny\n' | run 0 "${chat[@]}" -n 0
printf '\n\n' | cmp - out || fail "answers of no text"

# ---- what was kept changes nothing: the second answer is that to the same messages anew, and with one thread or two
printf 'Good morning.\nWho is there?\n/save saved.json\n' >talk.txt
run 0 "${chat[@]}" <talk.txt
cp out two
err_has "kept"
[ "$(json saved.json messages/3/role)" = '"assistant"' ] || [ "$(json saved.json messages/3/role)" = assistant ] || fail "saved messages"
[ "$(tail -c 1 saved.json | wc -l)" = 1 ] || fail "the file does not end with a newline"
touch files
find . -type f | sort >files # nothing but the file is left of saving, and what was there is replaced
printf 'Good morning.\n/save saved.json\n' | run 0 "${chat[@]}"
find . -type f | sort | cmp -s - files || fail "files that nobody wanted: $(ls -A)"
printf 'Good morning.\nWho is there?\n/save saved.json\n' | run 0 "${chat[@]}"
printf 'x\n/save no/such/folder\n' | run 1 "${chat[@]}"
err_has no/such/folder
printf '/load saved.json\n/regen\n' >again
run 0 "${chat[@]}" -t 2 -ub 7 <again
tail -n 1 two >want
tail -n 1 out >got
same want got
printf 'Good morning.\nNo.\n/edit Who is there?\n' >edit
run 0 "${chat[@]}" <edit
tail -n 1 out >got
same want got

# Statistics of all answers, as the last line of standard error.
printf 'Good morning.\nWho is there?\n' | run 0 "${chat[@]}" -n 5 --ignore-eos --stats json
tail -n 1 err >stats
[ "$(json stats generated_tokens)" = 10 ] || fail "generated_tokens of two answers"
[ "$(json stats stop)" = length ] || fail "stop of a chat"
for key in prompt_tokens tokens_per_second ms_per_token_p50 memory_peak_bytes load_ms; do
    awk -v v="$(json stats $key)" 'BEGIN { exit !(v > 0) }' || fail "$key of a chat"
done

# The same with options, an answer at a time; what is told of the file is right.
run 0 "${chat[@]}" -st -p "Good morning." --save kept.json
err_has "2 messages are in kept.json"
run 0 "${chat[@]}" -st -p "Who is there?" --load kept.json --save kept.json
err_has "2 messages from kept.json"
err_has "4 messages are in kept.json"
tail -n 1 out >got
same want got
same kept.json saved.json
printf '/regen\n' | run 0 "${chat[@]}" --load saved.json --save again.json
tail -n 1 out >got
same want got
[ "$(json again.json messages/2/content)" = "$(json saved.json messages/2/content)" ] || fail "--save after /regen"
printf '/load saved.json\n/clear\n' | run 0 "${chat[@]}" --save none.json
[ -e none.json ] && fail "--save writes a chat without an answer"
# /save alone writes to the file that was named last.
printf '/save\n/load\n' | run 0 "${chat[@]}"
err_has "/save wants the name of a file: /save FILE"
err_has "/load wants the name of a file: /load FILE"
cp saved.json named.json
printf '/system Be brief.\n/save\n' | run 0 "${chat[@]}" --load named.json
[ "$(json named.json messages/0/content | tr -d '"')" = "Be brief." ] || fail "/save after --load"
printf '/save\n' | run 0 "${chat[@]}" --load saved.json --save both.json
same both.json saved.json
printf '/load named.json\n/save other.json\n/clear\n/save\n/load named.json\n/system Be long.\n/save\n' | run 0 "${chat[@]}"
[ "$(grep -c role other.json)" = 1 ] || fail "/save after /save FILE"
[ "$(json named.json messages/0/content | tr -d '"')" = "Be long." ] || fail "/save after /load FILE"
run 0 "${chat[@]}" -st -p x -sys "Be brief." --save brief.json
run 0 "${chat[@]}" -st -p x --load brief.json -sys "Be long." --save long.json
[ "$(json long.json messages/0/content)" = "Be long." ] || fail "-sys beside --load"
[ "$(grep -c role long.json)" = 5 ] || fail "messages after --load and -sys"
run 1 chat nothing.gguf --load no/such/file
err_has "cannot open no/such/file"
err_lacks nothing.gguf
run 1 "${chat[@]}" -st -p "It was a dark night." --save no/such/folder
err_has no/such/folder
same out one

# All seeds that a run may print can be given again, but the last one means any.
printf '/set seed 4100000000\n/set\n' | run 0 "${chat[@]}"
err_has "seed 4100000000"
for i in 1 2; do
    run 0 "${chat[@]}" -st -p "Good morning." --temp 1 -s 4294967295 --stats json
    tail -n 1 err >"seed$i"
done
[ "$(json seed1 seed)" != "$(json seed2 seed)" ] || fail "a random seed comes twice"
printf '/load saved.json\nAnd then?\n' | run 0 "${chat[@]}" -s 7 --stats json
tail -n 1 err >seed1
[ "$(json seed1 seed)" -ne 0 ] || fail "the seed of the first answer behind a saved chat"

# A chat that was saved and loaded goes on with the seed that it would have gone on with.
printf 'Good morning.\nWho is there?\n/save seeded.json\nAnd then?\n' | run 0 "${chat[@]}" --temp 1 -s 7
tail -n 1 out >want
printf '/load seeded.json\nAnd then?\n' | run 0 "${chat[@]}" --temp 1 -s 7
tail -n 1 out >got
same want got
grep -v answers seeded.json | sed 's/],$/]/' >others.json # as others write it: then answers are counted
printf '/load others.json\nAnd then?\n' | run 0 "${chat[@]}" --temp 1 -s 7
tail -n 1 out >got
same want got

# ---- a system's message, several lines, other settings
printf '"""one\ntwo"""\n/save a.json\n' | run 0 "${chat[@]}" -sys "Be brief."
[ "$(json a.json messages/0/content | tr -d '"')" = "Be brief." ] || fail "-sys"
json a.json messages/1/content | grep -q one || fail "several lines"
printf 'one\\\ntwo\n/save b.json\n/clear\n/system Be long.\n/save c.json\n/set temp 0.5\n/set\n/help\n/stats\n//x\n/nothing\n/exit\nnever\n' |
    run 0 "${chat[@]}" -sys "Be brief."
cmp -s a.json b.json || fail "a line that goes on is not what a fence has"
json c.json messages/0/content | grep -q long || fail "/system"
err_has "temp 0.5"
err_has "/regen "
err_has "/nothing: no such command"
printf '/set predict 1\nx\n' | run 0 "${chat[@]}"
err_has "the answer has the 1 token that /set predict allows"
err_has "; answer 1 token, "
printf 'x\ny\n\n' | run 0 "${chat[@]}" -mli
[ "$(grep -c . out)" -ge 1 ] || fail "-mli"
grep -c 'tok/s' err | grep -qx 1 || fail "-mli makes several messages of one"

# ---- templates
run 0 chat "$small" --chat-template list
out_has chatml
run 2 "${chat[@]}" -st -p x --chat-template nothing
err_has "neither a built-in template nor a file"
printf '{{ messages[0].content }}{%% if %%}' >bad.jinja
run 1 chat "$small" --chat-template bad.jinja -st -p x
err_has "chat template, line 1: "
run 1 chat "$small" --chat-template "{{ raise_exception('not today') }}" -st -p x
err_has "refuses this conversation: not today"
run 0 chat "$small" -st -p x -n 2 -t 1 # the file has none
err_has "has no chat template"
run 0 chat "$golden/gemma3.Q4_0.gguf" -st -p hi -n 1
err_has "has no chat template: it gets the built-in one named gemma"
err_has "may not end its answers: -n N does"
run 1 "${chat[@]}" -st -p x --chat-template-kwargs '[1]'
err_has "a JSON object is wanted"
printf '{{ word }}{{ enable_thinking }}' >word.jinja
run 0 chat "$small" --chat-template-file word.jinja --chat-template-kwargs '{"word": "It was"}' -rea off -st -p x -n 3 -t 1

# ---- a context that is full
for _ in 1 2 3 4 5 6 7 8; do echo "It was a dark and stormy night, and the old man said so."; done >long
run 1 "${chat[@]}" -c 128 <long
err_has "/drop forgets the oldest"
run 0 "${chat[@]}" -c 128 --context-shift <long
err_has "are forgotten"
run 1 "${chat[@]}" -c 64 --context-shift -st -p "$(cat long long)"
err_has "-c makes it larger"

# An answer without an end: what bounds answers is named, too.
run 0 chat "$small" --chat-template-file word.jinja --chat-template-kwargs '{"word": "It was"}' -st -p x -c 64 -t 1 --ignore-eos
err_has "is full and cuts the answer off; -c makes it larger, and -n N ends answers after N tokens"
run 0 chat "$small" --chat-template-file word.jinja --chat-template-kwargs '{"word": "It was"}' -st -p x -c 64 -t 1 --ignore-eos -q
err_has "warning: the context of 64 tokens is full and cuts the answer off"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a warning with -q"

# ---- what cannot be set or loaded is told in other messages' words
printf '/set temp abc\n/set top-q 1\n/set think\n/load no/such/file\n' | run 1 "${chat[@]}"
err_has "warning: /set temp abc: must be a number from 0 to 100"
err_has "warning: /set top-q: no such setting; there are temp, top-k,"
err_has "warning: /set think: must be on or off"
err_has "error: cannot open no/such/file: "

# ---- options
run 0 "${chat[@]}" -st -p x -n 1 --jinja # which is so without it
err_lacks "without effect"
run 2 "${chat[@]}" -p a -f b
err_has "-p and -f exclude each other"
run 2 run "$small" -sys x
err_has "hearth chat"
run 0 "${chat[@]}" -cnv --jinja -ngl 99 -st -p "It was a dark night."
same out one

# ---- a terminal: an answer is stopped, and the chat goes on; Ctrl-C twice leaves
play() {
    local status=0
    "$PLAY_TERMINAL" "$@" >raw 2>err || status=$?
    [ $status -eq 77 ] && skip "no terminals here"
    [ $status -eq 0 ] || { cp raw out; fail "exit status $status"; }
}
export TERM=dumb HOME=$tmp
endless=(chat "$small" --chat-template vicuna --ignore-eos --temp 0 -t 1 -c 32768) # minutes of text
word=$(tr -c 'A-Za-z' '\n' <one | grep -E '^.{3,}$' | grep -vxE 'was|dark|night|It' | head -n 1)
[ -n "$word" ] || fail "no word to wait for"
play -a "/help=It was a dark night." -c "$word" -a "stopped=/exit" "$hearth" "${endless[@]}"
grep -q "stopped; /regen answers anew" raw || fail "nothing says that the answer was stopped"
play -c "/help" -c "again leaves" "$hearth" "${endless[@]}"
play -a "/help=/set temp 0" -a "temp 0=/exit" "$hearth" "${endless[@]}"
play -a "/help=/help" -a "begins a message=/exit" "$hearth" "${endless[@]}"
grep -qx "0 wrapped" err || fail "/help does not fit 80 columns"

# What cannot be answered leaves the chat as it was, forgotten messages included.
[ -f saved.json ] || fail "no saved chat"
longer=$(tr '\n' ' ' <long)
play -a "/help=/load $tmp/saved.json" -a "saved.json=/edit $longer" -a "makes it larger=/save $tmp/kept.json" -a "kept.json=/exit" \
    "$hearth" "${chat[@]}" -c 64 --context-shift
cmp -s saved.json kept.json || fail "a message without an answer changes the chat"

# Where there is nothing more to say, or nobody types, Ctrl-C ends the program.
status=0
mkfifo talk.fifo
exec 9<>talk.fifo # nobody writes
timeout --preserve-status -s INT 2 "$hearth" "${chat[@]}" <&9 >/dev/null 2>err || status=$?
exec 9<&-
[ $status -eq 130 ] || fail "a chat from a pipe that is stopped ends with $status"
status=0
"$PLAY_TERMINAL" -c "$word" "$hearth" "${endless[@]}" -st -p "It was a dark night." >raw 2>err || status=$?
[ $status -eq 130 ] || fail "-st that is stopped ends with $status"
grep -q "hearth: stopped" raw || fail "nothing says that -st was stopped"
grep -q "/regen" raw && fail "/regen is named where there is nothing to type"

# Thoughts are dimmed there, until they end.
printf 'It was{%% if add_generation_prompt %%}<think>\n{%% endif %%}' >think.jinja
play "$hearth" chat "$small" --chat-template-file think.jinja -st -p x -n 5 -t 1 -q
grep -qF '^[[2m' raw || fail "thoughts are not dimmed"
grep -qF '^[[22m' raw || fail "what follows thoughts is dimmed, too"
play "$hearth" chat "$small" --chat-template vicuna -st -p x -n 5 -t 1 -q
grep -qF '^[[2m' raw && fail "an answer is dimmed"

# killed ARGUMENT...: SIGTERM comes while a line is edited; the terminal is then what it was before.
killed() {
    rm -f before after
    # shellcheck disable=SC2016,SC1003 # they are the inner shell's; a line that ends with \ goes on
    "$PLAY_TERMINAL" -a '/help=a line that goes on \' -k "..." sh -c 'trap "" TERM; stty -g >before; "$@"; status=$?; stty -g >after; exit $status' \
        sh "$hearth" "$@" >raw 2>err
    [ $? -eq 143 ] || { cp raw out; fail "SIGTERM in $*: $(cat err)"; }
    same before after
}
if command -v stty >/dev/null; then
    TERM=vt100 killed "${endless[@]}"
    TERM=dumb killed "${endless[@]}"
    "$PLAY_TERMINAL" -a "/help=x" -k "[2m" "$hearth" chat "$small" --chat-template-file think.jinja --ignore-eos -t 1 -c 32768 >raw 2>err
    grep -q '^status 143' err || fail "SIGTERM in an answer: $(cat err)"
    grep -qF '^[[22m' raw || fail "SIGTERM leaves thoughts dimmed"
fi

# Lines are edited where the terminal can do it: a character is deleted, an earlier line comes back. The history's file
# may be a link, also to what is not there yet.
rm -f .hearth_history
ln -s typed .hearth_history
if TERM=vt100 play -a "/help=/set temp 12"$'\x7f' -a "temp 1,=/set min-p 0.5" -a "min-p 0.5="$'\x10' -c "> /set min-p 0.5" -a "again=/exit" \
    "$hearth" "${endless[@]}" && [ -s .hearth_history ]; then
    grep -q "temp 1," raw || fail "a key that deletes does not"
    [ -L .hearth_history ] || fail "the link that was the history is gone"
    [ "$(stat -c %a typed)" = 600 ] || fail "others can read the history"
    ln -sf nowhere/typed .hearth_history
    TERM=vt100 play -a "/help=/exit" "$hearth" "${endless[@]}" || fail "a chat whose history cannot be kept"
    grep -q "what was typed is not kept" raw || fail "nothing says that the history is not kept"
fi
