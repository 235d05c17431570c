#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a person sees on a terminal: progress that is gone when it should be, text and messages that do not mix, tables
# that fit; and how soon Ctrl-C ends things. play_terminal plays the commands and interprets what they write.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
cd "$tmp" || exit 1
cp "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" m.gguf
model=m.gguf # in messages, where lines wrap depends on its name

# plays STATUS ARGUMENT...: plays hearth or another command with play_terminal's options before it; numbers become N, bars
# [=], and $ms the time from the last key to the end. False: it ended otherwise, or some of the options had no turn.
plays() {
    local wanted=$1
    shift
    status=0
    "$PLAY_TERMINAL" "$@" >"$tmp/raw" 2>"$tmp/err" || status=$?
    [ $status -eq 77 ] && skip "no terminals here"
    sed -E 's/\[[# ]*\]/[=]/; s/[0-9][0-9.]*/N/g; s/ +/ /g; s/N [KMG]?i?B\b/N B/g' "$tmp/raw" >"$tmp/out"
    ms=$(sed -n 's/^status .*, \([0-9]*\) ms$/\1/p' "$tmp/err")
    [ "$status" -eq "$wanted" ]
}
play() { plays "$@" || fail "$*: exit status $status"; }

# screen NAME: the screen of that name is what standard input says. Lines may be regular expressions.
screen() {
    sed -n "/^--- $1\$/,/^--- /{/^--- /!p}" "$tmp/out" >"$tmp/seen"
    local line=0
    while IFS= read -r want; do
        line=$((line + 1))
        sed -n "${line}p" "$tmp/seen" | grep -qxE -- "$want" || fail "screen $1, line $line is not: $want"
    done
    [ "$(wc -l <"$tmp/seen")" -eq $line ] || fail "screen $1 has more than $line lines"
}

# fits: no line of what was played went over the last column.
fits() {
    grep -qx "0 wrapped" "$tmp/err" || fail "a line is longer than the terminal is wide"
}

# text TOKENS: a text of about so many.
text() {
    yes "It was a dark and stormy night, and the old man said so." | head -n $(($1 / 14))
    echo "It was"
}

# shows OPTIONS COMMAND: plays a command that lasts $lasting tokens, as long as it takes until there is time to show how it
# goes on: how fast a busy machine will be the next moment nobody knows.
shows() {
    for ((lasting = 1000; lasting <= 16000; lasting *= 2)); do
        text $lasting >"$tmp/lasting"
        "$@" && return
    done
    fail "no progress is to be seen"
}

# What ends by a key is to last much longer than anybody may take to press it.
text 20000 >"$tmp/long"
whole=(run "$model" -f "$tmp/lasting" -c 32768 --temp 0 -ub 16 -t 1)
long=(run "$model" -f "$tmp/long" -c 32768 --temp 0 -ub 16 -t 1)

# ---- a long prompt: progress, then text, then statistics
shows plays 0 -s "s left" "$hearth" "${whole[@]}" -n 3
screen "s left" <<'END'
hearth: warning: the model was trained for .*
.*
hearth: prompt N of N tokens \[=\] N %, N tok/s, N s left
END
screen end <<'END'
hearth: warning: the model was trained for .*
.*
[^:]*
hearth: prompt N tokens, N tok/s; generated N tokens, N tok/s
END
fits

# It fits other widths, and shows no trace of itself after Ctrl-C (which the terminal shows as ^C) and Ctrl-Z.
for columns in 36 52 120; do
    play 130 -w $columns -s "prompt " -c "prompt " "$hearth" "${long[@]}" -n 3
    fits
    grep -q '\^C' "$tmp/out" && fail "Ctrl-C left something on the terminal of $columns columns"
    grep -q "hearth: stopped in the prompt" "$tmp/raw" || fail "nothing says that the prompt was stopped"
    [ $columns -lt 120 ] || grep -q "stopped in the prompt, after [0-9]* of [0-9]* tokens and [0-9.]* s" "$tmp/raw" ||
        fail "how much of the prompt was evaluated, and in what time"
done
play 130 -z "prompt " -s "prompt " -c "tok/s" "$hearth" "${long[@]}" -n 3
grep -qxF "[stopped]" "$tmp/raw" || fail "Ctrl-Z left something on the terminal"

# Half a second; where the smallest thing takes long, that is what the machine does.
patience=500
fastest=100000
for _ in 1 2 3; do
    start=$(date +%s%N)
    run 0 run "$model" -p a -n 1 -t 1
    took=$((($(date +%s%N) - start) / 1000000))
    fastest=$((took < fastest ? took : fastest))
done
[ $((4 * fastest)) -le $patience ] || patience=$((4 * fastest))

# soon WHAT STATUS ARGUMENT...: Ctrl-C ends it that soon; on a busy machine not the first time, but at three of twelve.
soon() {
    local what=$1 times=0 try
    shift
    for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
        play "$@"
        [ "$ms" -gt $patience ] || times=$((times + 1))
        [ $times -lt $((try == 1 ? 1 : 3)) ] || return 0
    done
    fail "$what: Ctrl-C took $ms ms"
}
# A second Ctrl-C ends what the first cannot: here nobody reads what is to be written.
mkfifo "$tmp/fifo"
stuck=("$hearth" run "$model" -p a -n 1 -t 1 --io pread --logits-out "$tmp/fifo")
play 137 -t 2000 -c "without effect" "${stuck[@]}"
soon "a second Ctrl-C" 130 -c "without effect" -c "^C" "${stuck[@]}"
soon "a long prompt" 130 -s "prompt " -c "prompt " "$hearth" "${long[@]}" -n 3 -ub 512

# ---- wherever text goes, nothing mixes with it
short=(run "$model" -p "It was" -n 12 -s 1)
"$hearth" "${short[@]}" -q >"$tmp/text" || fail "a short run"
text=$(cat "$tmp/text")
for way in '"$@"' '"$@" | cat' '"$@" 2>&1 | cat'; do
    play 0 -w 120 bash -c "$way" bash "$hearth" "${short[@]}"
    screen end <<END
$(sed -E 's/[0-9][0-9.]*/N/g; s/ +/ /g' <<<"$text")
hearth: prompt N tokens, N tok/s; generated N tokens, N tok/s.*; seed N
END
    play 0 bash -c "$way" bash "$hearth" "${short[@]}" -q
    grep -qF "$text" "$tmp/raw" || fail "$way -q does not show the text"
done
# Text that is not seen: progress while it is generated.
# shellcheck disable=SC2016 # the inner shell expands them
# shellcheck disable=SC2317 # shows calls it
to_file() { plays 0 -w 120 -s "s left" bash -c '"$@" >"$0"' "$tmp/file" "$hearth" run "$model" -p "It was" -n "$lasting" --ignore-eos \
    -c 32768 -t 1 -s 1; }
shows to_file
grep -q '^hearth: generating N of N tokens' "$tmp/out" || fail "no progress while text goes to a file"
screen end <<'END'
hearth: warning: the model was trained for .*
hearth: prompt N tokens, N tok/s; generated N tokens, N tok/s.*; seed N
END
# An error in the middle of it all.
play 1 "$hearth" run "$tmp/none.gguf" -p a
grep -q '^hearth: error: ' "$tmp/raw" || fail "an error does not begin a line"

# ---- slow storage: the session loads, with progress; steps can be stopped
find_budget() {
    "$hearth" run "$model" -p "It was" -n 1 -c 256 -t 1 --ram 1M 2>"$tmp/err" >"$tmp/out"
    least=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err")
    [ -n "$least" ] || return 1
    least=$((least + 2048 * 1024)) # room for drafts, and for some layers to be loaded
    "$hearth" run "$model" -p "It was" -n 1 -c 256 -t 1 --ram $least --stats json 2>"$tmp/err" >"$tmp/out" &&
        tail -n 1 "$tmp/err" | grep -q '"streaming":{'
}
# Whether the text is the second line, but for that about a machine that was not measured.
text_is_second() { grep -v -e '^hearth: no forecast' -e '^ measures it' "$tmp/out" | sed -n '2p' | grep -qv '^hearth:'; }
if find_budget; then
    slow=(run "$model" -p "It was" -c 256 -t 1 --ram "$least" --throttle "4000,8" -s 1)
    play 0 "$hearth" "${slow[@]}" -n 2
    grep -q '^hearth: .*\[=\]' "$tmp/out" && fail "progress stays on the terminal: --ram"
    text_is_second || fail "no text with --ram"
    play 0 bash -c '"$@" | cat' bash "$hearth" "${slow[@]}" -n 2
    text_is_second || fail "no text with --ram in a pipe"
    # A layer takes longer than half a second.
    soon "a prompt on slow storage" 130 -s "prompt " -c "prompt " "$hearth" "${slow[@]}" -n 2 --throttle 4000,0.5
    soon "streaming" 130 -c " a" "$hearth" "${slow[@]}" -n 500 --ignore-eos
    grep -q '^hearth: prompt' "$tmp/raw" || fail "no statistics after Ctrl-C"
    for _ in 1 2 3 4; do # what stood still while storage was slow may go on with all of it read
        plays 130 -s "loading" -c "loading" "$hearth" "${slow[@]}" -n 500 --throttle 4000,0.5 && break
    done
    [ "$status" -eq 130 ] || fail "loading: exit status $status"
    screen loading <<'END'
hearth: no forecast: this machine was not measured yet; hearth plan MODEL
 measures it
hearth: loading \[=\] N %.*
END
else
    echo "no budget at which the model streams"
fi

# ---- tables, and what else takes long
play 0 "$hearth" bench "$model" -p 64 -n 8 -npl 1,2 -r 2 -t 1 --roof 1M
screen end <<'END'
llama N[MK]? QN_N, N B, N M parameters, CPU, N threads?

\| test \| t/s \| GB/s \| of roof \|
\| -*: \| -*: \| -*: \| -*: \|
\| ppN \| N ± N \| \| \|
\| tgN \| N ± N \| N \| N % \|
\| tgN xN \| N ± N \| N \| N % \|

Memory roof(: N|, measured beside each row: N to N) B/s with N threads?\.
END
fits
play 0 "$hearth" bench "$model" -p 8 -n 0 -pg 8,4 -r 1 -t 1,2 -d 0,8 --roof 0
one_table=$(cat <<'END'
llama N[MK]? QN_N, N B, N M parameters, CPU, N threads?

\| test \| t/s \| GB/s \|
\| -*: \| -*: \| -*: \|
\| ppN \| N ± N \| \|
\| ppN\+tgN \| N ± N \| \|
\| ppN @ dN \| N ± N \| \|
\| ppN\+tgN @ dN \| N ± N \| \|
END
)
screen end <<<"$one_table"$'\n\n'"$one_table" # a table for each number of threads
fits
play 0 -w 160 "$hearth" bench "$model" -p 64 -n 0 -r 1 -t 1 --roof 0
grep -q '^| model | size | params | backend | threads | test |' "$tmp/out" || fail "no wide table on a wide terminal"
play 130 -s "run" -c "pp" "$hearth" bench "$model" -p 500 -n 0 -r 1000 -t 1 --roof 0
grep -q '^hearth: ppN, run N of N \[=\] N %' "$tmp/out" || fail "bench shows no progress"
play 0 "$hearth" inspect "$model"
fits
for command in run chat serve bench perplexity embed tokenize detokenize inspect quantize convert synth profile sparsify train-predictors pack plan devices; do
    play 0 "$hearth" $command --help
    fits
    head -n 2 "$tmp/out" | tail -n 1 | grep -q "^Usage: hearth $command" || fail "hearth $command --help scrolls off 24 lines"
    play 0 "$hearth" $command --help all
    fits
done
play 0 "$hearth" --help
fits
play 0 -w 60 "$hearth" run --help all
# ---- what each command prints
play 0 "$hearth" embed "$model" -p 'One\nTwo\nThree' -q
fits
play 0 "$hearth" embed "$model" -p 'One' -q
fits
run 0 synth tiny-turbosparse "$tmp/sparse.gguf" -q
text 3000 >"$tmp/short"
run 0 profile "$tmp/sparse.gguf" -f "$tmp/short" -o "$tmp/sparse.profile" -c 64 -q
run 0 pack "$tmp/sparse.gguf" "$tmp/sparse.hearth.gguf" --profile "$tmp/sparse.profile" -q
# A prompt that was stopped before any of it was evaluated has been read for all the same. 1 MB/s takes seconds for it.
play 130 -w 120 -s "prompt " -c "prompt " "$hearth" run "$tmp/sparse.hearth.gguf" -p a -n 3 --ram min --throttle 1000,1
grep -qE "stopped in the prompt, after 0 of [0-9]+ tokens? and [0-9.]+ s" "$tmp/raw" || fail "the time of a prompt stopped at once"
grep -qE "read by [a-z_]+: [0-9.]+ [KM]iB; waited for storage [0-9]+ % of the time; [0-9.]+ MiB of memory" "$tmp/raw" ||
    fail "what was read for a prompt stopped at once"
play 0 -h 100 "$hearth" inspect "$tmp/sparse.hearth.gguf"
fits
play 0 "$hearth" plan "$tmp/sparse.hearth.gguf" --machine oneplus-12 -c 256 --ram min
fits
# The neurons of a large one are read by themselves whatever blocks storage has.
run 0 synth --shape turbosparse-mistral-7b "$tmp/shape.gguf" -q
play 0 "$hearth" plan "$tmp/shape.gguf" --machine oneplus-12 -c 256 --ram 3G
rm "$tmp/shape.gguf"
grep -q "in the cache: N % of the neurons asked for" "$tmp/out" || fail "the pack does not stream"
fits
play 0 "$hearth" tokenize "$model" "It was a dark and stormy night" --pieces
fits
play 0 "$hearth" synth list
fits
play 0 "$hearth" plan "$model" --machine oneplus-12 -c 256 --explain
fits
play 0 "$hearth" plan --machine list
fits
play 0 "$hearth" plan --simulate "$source_dir/tests/fuzz/corpus/trace/good"
fits
# Messages of several lines end them between words, and never in a word.
play 2 -w 60 "$hearth" quantize "$model" "$tmp/no.gguf" Q9
fits
screen end <<'END'
hearth: error: cannot write type QN; one of FN, FN, BFN,
 QN_N, .*
 QN_K_L, .*
 QN_N, .*
hearth: see hearth quantize --help
END
play 1 "$hearth" run "$model" -p a -n 1 --ram 1M -c 256
fits
play 2 "$hearth" run "$model" -p a -hf user/repo
fits
play 0 "$hearth" quantize "$model" out.gguf Q4_0 # how lines wrap depends on the name
screen end <<'END'
hearth: warning: .*
.*
hearth: out.gguf: N B, from N B: .*
.*kept
hearth: next: hearth run out.gguf -p "Once upon a time"
END
shows plays 0 -s "profiling" "$hearth" profile "$model" -f "$tmp/lasting" -o "$tmp/p" -t 1
# There is no bar where the tokens of a fast machine leave no room for it.
grep -qE '^hearth: profiling N of N tokens( \[=\])? N %' "$tmp/out" || fail "profile shows no progress"
soon "profile" 130 -c "profiling" "$hearth" profile "$model" -f "$tmp/long" -o "$tmp/stopped" -t 1
[ -e "$tmp/stopped" ] && fail "a stopped profile left a file"
play 130 -s "perplexity" -c "perplexity" "$hearth" perplexity "$model" -f "$tmp/long" -c 32 -t 1
grep -qE '^hearth: perplexity .*N of N tokens( \[=\])? N %' "$tmp/out" || fail "perplexity shows no progress"
play 0 "$hearth" pack "$model" pack.gguf
screen end <<'END'
hearth: warning: m.gguf has no predictors, .*
.*
.*
.*
hearth: N B -> N B: .*
hearth: ffn_down was .*
.*
hearth: next: hearth plan pack.gguf --explain
END
exit 0
