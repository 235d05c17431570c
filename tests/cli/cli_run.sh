#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth run: what is on stdout, reproducibility, several continuations, statistics, stopping, failures.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf
n_vocab=288
prompt=$(head -n 1 "${model%.gguf}.greedy")
n_prompt=$(sed -n 2p "${model%.gguf}.greedy" | wc -w)

# ---- the text of the reference's greedy ids, and nothing else
sed -n 3p "${model%.gguf}.greedy" >"$tmp/ids"
n=$(wc -w <"$tmp/ids")
# Ids of the prompt first, so that the text continues one; its own text is then cut off.
sed -n 2p "${model%.gguf}.greedy" | "$hearth" detokenize "$model" >"$tmp/prompt.txt"
sed -n 2,3p "${model%.gguf}.greedy" | tr '\n' ' ' | "$hearth" detokenize "$model" >"$tmp/all.txt"
tail -c "+$(($(count_bytes "$tmp/prompt.txt") + 1))" "$tmp/all.txt" >"$tmp/want"
end_line "$tmp/want"
run 0 run "$model" -p "$prompt" --temp 0 -n "$n" --ignore-eos
same "$tmp/out" "$tmp/want"
cp "$tmp/out" "$tmp/greedy"
err_has "tok/s"
run 0 run "$model" -p "$prompt" --temp 0 -n "$n" --ignore-eos -q
same "$tmp/out" "$tmp/want"
[ -s "$tmp/err" ] && fail "--quiet is not quiet"

# ---- the text depends neither on threads nor on the micro-batch
for options in "-t 1" "-t 3 -ub 1" "-ub 7" "--cpu c"; do
    # shellcheck disable=SC2086
    run 0 run "$model" -p "$prompt" --temp 0 -n "$n" --ignore-eos $options --logits-out "$tmp/logits.${options// /}"
    same "$tmp/out" "$tmp/want"
done
same "$tmp/logits.-t1" "$tmp/logits.-ub7"
same "$tmp/logits.-t1" "$tmp/logits.-t3-ub1"
same "$tmp/logits.-t1" "$tmp/logits.--cpuc"
# A row for each token of the prompt and for each generated one that was evaluated, which the last is not.
[ "$(count_bytes "$tmp/logits.-t1")" -eq $(((n_prompt + n - 1) * n_vocab * 4)) ] || fail "size of --logits-out"

# ---- where the prompt comes from
printf '%s' "$prompt" >"$tmp/prompt"
run 0 run "$model" -p "$prompt" --temp 0 -n 8
cp "$tmp/out" "$tmp/eight"
head -c "$(($(count_bytes "$tmp/out") - 1))" "$tmp/greedy" | cmp - <(head -c -1 "$tmp/out") || fail "another text with a smaller -n"
run 0 run "$model" -f "$tmp/prompt" --temp 0 -n 8
same "$tmp/out" "$tmp/eight"
printf '%s\n' "$prompt" >"$tmp/prompt"
run 0 run "$model" -f - --temp 0 -n 8 <"$tmp/prompt"
same "$tmp/out" "$tmp/eight"
escaped=$(printf '%s' "$prompt" | sed 's/a/\\x61/g')
run 0 run -m "$model" -e --prompt="$escaped" --temp 0 --n-predict 8
same "$tmp/out" "$tmp/eight"
run 0 run "$model" "$escaped" --temp 0 -n 8 # as in llama.cpp, without being asked to
same "$tmp/out" "$tmp/eight"
run 0 run "$model" "$escaped" --temp 0 -n 8 --no-escape --logits-out "$tmp/unescaped"
[ "$(count_bytes "$tmp/unescaped")" -gt $(((n_prompt + 7) * n_vocab * 4)) ] || fail "--no-escape takes escapes"
printf '%s' "$escaped" >"$tmp/prompt"
run 0 run "$model" -f "$tmp/prompt" -e --temp 0 -n 8
same "$tmp/out" "$tmp/eight"
run 0 run "$model" -f "$tmp/prompt" --temp 0 -n 8 --logits-out "$tmp/file"
same "$tmp/file" "$tmp/unescaped"
run 0 run "$model" -n 3 --temp 0 </dev/null
cp "$tmp/out" "$tmp/bos"
run 0 run "$model" -p "" -n 3 --temp 0
same "$tmp/out" "$tmp/bos"
run 0 run "$model" -p "$prompt" -n 0
out_is_empty

# ---- text ends with one newline, its own or one that is added; no text has none
run 0 run "$model" -p "$prompt" --grammar 'root ::= "a\nb"'
printf 'a\nb\n' | cmp - "$tmp/out" || fail "no newline at the end of the text"
run 0 run "$model" -p "$prompt" --grammar 'root ::= "a\nb\n"'
printf 'a\nb\n' | cmp - "$tmp/out" || fail "a newline behind that of the text"
[ "$("$hearth" run "$model" -p "$prompt" --grammar 'root ::= "a"' 2>/dev/null | od -An -c | tr -d ' ')" = 'a\n' ] ||
    fail "no newline at the end of a pipe"
run 0 run "$model" -p "$prompt" -n 0
out_is_empty

# ---- biases: one token always, one token never, and what is no bias
echo 260 260 260 | "$hearth" detokenize "$model" >"$tmp/want"
run 0 run "$model" -p "$prompt" -n 3 --ignore-eos -l 260+1e6
sed 's/^ //' "$tmp/want" >"$tmp/want1"
end_line "$tmp/want1"
same "$tmp/out" "$tmp/want1"
run 0 run "$model" -p "$prompt" -n 3 --ignore-eos -l 260+2e6 --logit-bias=261+1e6 -l 260-inf
grep -qF -f "$tmp/want1" "$tmp/out" && fail "a token with a bias of -inf was drawn"
for bias in x 260 260+ 260x1 260+nan 260+1x -1+1 4294967296+1 "$n_vocab+1e"; do
    run 2 run "$model" -p x -n 1 "--logit-bias=$bias"
    err_has "--logit-bias wants TOKEN+BIAS"
    err_has "not $bias"
done
run 1 run "$model" -p x -n 1 -l "$n_vocab+1"
err_has "$n_vocab"

# ---- what the file says is never to be chosen
never=(run "$golden/minimax-text.Q8_0.gguf" -p a -n 5 --temp 0)
run 0 "${never[@]}" -l 100+1e6
echo aaaaa >"$tmp/want"
same "$tmp/out" "$tmp/want"
run 0 "${never[@]}"
cp "$tmp/out" "$tmp/want"
run 0 "${never[@]}" -l 270+1e6
same "$tmp/out" "$tmp/want"

# ---- seeds
run 0 run "$model" -p "$prompt" -n 20 -s 7 --temp 1.5
cp "$tmp/out" "$tmp/seven"
run 0 run "$model" -p "$prompt" -n 20 --seed 7 --temperature 1.5
same "$tmp/out" "$tmp/seven"
run 0 run "$model" -p "$prompt" -n 20 -s 8 --temp 1.5
cmp -s "$tmp/out" "$tmp/seven" && fail "seeds 7 and 8 give the same text"

# ---- several continuations: each is what its seed gives alone
run 0 run "$model" -p "$prompt" -n 20 -s 7 --temp 1.5 -np 3 --ignore-eos
[ "$(grep -c '^=== [123] of 3, seed [789] ===$' "$tmp/out")" -eq 3 ] || fail "separators of -np 3"
err_has "best: "
cp "$tmp/out" "$tmp/three"
for i in 1 2 3; do
    run 0 run "$model" -p "$prompt" -n 20 -s $((6 + i)) --temp 1.5 --ignore-eos
    printf '=== %d of 3, seed %d ===\n' $i $((6 + i))
    cat "$tmp/out"
    [ "$(tail -c 1 "$tmp/out" | od -An -tx1 | tr -d ' ')" = 0a ] || echo
done >"$tmp/want"
same "$tmp/three" "$tmp/want"

# ---- statistics: the last line of standard error is JSON
run 0 run "$model" -p "$prompt" -n 12 --temp 0 --ignore-eos --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" prompt_tokens)" = "$n_prompt" ] || fail "prompt_tokens"
[ "$(json "$tmp/stats" generated_tokens)" = 12 ] || fail "generated_tokens"
[ "$(json "$tmp/stats" stop)" = length ] || fail "stop"
for key in prompt_tokens_per_second tokens_per_second ms_per_token_p50 ms_per_token_p90 ms_per_token_p99 \
    memory_peak_bytes memory_program_bytes gb_per_second load_ms weight_bytes_per_step; do
    value=$(json "$tmp/stats" $key)
    awk -v v="$value" 'BEGIN { exit !(v > 0) }' || fail "$key is $value"
    grep -qF "\`$key\`" "$source_dir/docs/cli.md" || fail "docs/cli.md does not explain $key"
done
run 0 run "$model" -p "$prompt" -n 4 -np 2 --stats json -q
[ "$(wc -l <"$tmp/err")" -eq 1 ] || fail "--quiet --stats json writes more than one line"
[ "$(json "$tmp/err" sequences)" = 2 ] || fail "sequences"
json "$tmp/err" best_sequence >/dev/null

# ---- a text that is over at once
run 0 run "$model" -p "$prompt" -n 9 -l 2+1e6
out_is_empty
err_has "the model ended its text at once; --ignore-eos makes it go on"
novels=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
run 0 run "$novels" -p "It was" -n 400 --temp 0 -l 0+6
[ "$(tail -n 1 "$tmp/err")" = "hearth: the model ended its text before the 400 tokens of -n; --ignore-eos goes on" ] || fail "an early end"
run 0 run "$novels" -p "It was" -n 400 --temp 0 -l 0+6 -np 2
err_has "the model ended 2 of 2 texts before the 400 tokens of -n"
run 0 run "$novels" -p "It was" -n -1 --temp 0 -l 0+6
err_lacks "ended its text"

# ---- the context ends the generation, and is too small for a prompt
run 0 run "$model" -p "$prompt" -n -1 -c 32 --ignore-eos --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" stop)" = context ] || fail "stop at the end of the context"
err_has "the context of 32 tokens is full"
run 0 run "$model" -p "$prompt" -n 100 -c 32 --ignore-eos
err_has "the context of 32 tokens is full; -c makes it larger"
run 0 run "$model" -p "$prompt" -n 100 -c 32 --ignore-eos -np 3
err_has "the context of 32 tokens is full and cut off 3 of 3 texts; -c makes it larger"
run 0 run "$model" -p "$prompt" -n 2 -c 32 --ignore-eos
err_lacks "is full"

# ---- the line at the end: on a line of its own, with the seed of what is random, without speeds of nothing
run 0 run "$model" -p "$prompt" -n 6 --ignore-eos
seed=$(sed -n 's/.*; seed \([0-9]*\)$/\1/p' "$tmp/err")
cp "$tmp/out" "$tmp/want"
run 0 run "$model" -p "$prompt" -n 6 --ignore-eos -s "$seed"
same "$tmp/out" "$tmp/want"
run 0 run "$model" -p "$prompt" -n 1 --temp 0
err_has "generated 1 token"
err_lacks "generated 1 token,"
err_lacks "seed"
err_lacks "0.00 tok/s"
run 0 run "$model" -p "$prompt" -n 6 --ignore-eos -s 7 # a text of one line
seed=7
cp "$tmp/out" "$tmp/want"
for stats in none json; do
    "$hearth" run "$model" -p "$prompt" -n 6 --ignore-eos -s "$seed" --stats $stats >"$tmp/both" 2>&1 || fail "both streams in one file"
    head -n 1 "$tmp/both" | cmp - "$tmp/want" || fail "statistics stick to the text"
    "$hearth" run "$model" -p "$prompt" -n 6 --ignore-eos -s "$seed" --stats $stats 2>&1 | cat >"$tmp/both"
    head -n 1 "$tmp/both" | cmp - "$tmp/want" || fail "statistics stick to the text in a pipe"
done
run 1 run "$model" -p "$prompt" -c $((n_prompt - 1))
err_has "use a larger -c"

# ---- a KV cache of its own size: enough for what sequences share, full for all of them, too small for a prompt
run 0 run "$model" -p "$prompt" -n 8 -s 7 -np 3 --ignore-eos
cp "$tmp/out" "$tmp/want"
run 0 run "$model" -p "$prompt" -n 8 -s 7 -np 3 --ignore-eos --kv-size 192 --stats json
same "$tmp/out" "$tmp/want"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" kv_pages)" = 3 ] || fail "kv_pages"
[ "$(json "$tmp/stats" kv_pages_used)" = 3 ] || fail "kv_pages_used"
run 0 run "$model" -p "$prompt" -n -1 -c 200 --kv-size 64 --ignore-eos --stats json
err_has "the KV cache is full; --kv-size makes it larger"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" stop)" = cache ] || fail "stop at the end of the cache"
[ "$(json "$tmp/stats" generated_tokens)" = $((64 - n_prompt + 1)) ] || fail "tokens until the cache is full"
run 1 run "$model" -p "$(printf '%0.s'"$prompt " {1..9})" -c 400 --kv-size 64
err_has "use a larger kv_tokens (option --kv-size)"
run 1 run "$model" -p x -n 1 --ram 1K
err_has "or --ram min: --ram must be at least "
err_has ", not 1.00 KiB: "
out_is_empty

# ---- failures: status 1, one line that names the file, nothing on standard output
run 1 run "$tmp/none.gguf" -p x
err_has "hearth: error: "
err_has "none.gguf"
run 1 run llama3 "Why is the sky blue?"
err_has "hearth: error: there is no file llama3 here: give the path of a GGUF file"
run 1 run "$tmp" -p x
err_has "hearth: error: "
for size in 0 3 24 100 5000 60000; do
    head -c $size "$model" >"$tmp/short.gguf"
    run 1 run "$tmp/short.gguf" -p x
    err_has "hearth: error: "
    err_has "short.gguf"
    out_is_empty
done
printf 'not a model at all, just some text that is long enough' >"$tmp/text.gguf"
run 1 run "$tmp/text.gguf" -p x
err_has "text.gguf"
run 1 run "$model" -f "$tmp/none.txt"
err_has "none.txt"
run 1 run "$model" -p x -n 2 --logits-out "$tmp/no/such/folder"
err_has "no/such/folder"
if [ -c /dev/full ]; then
    status=0
    "$hearth" run "$model" -p x -n 40 --ignore-eos >/dev/full 2>"$tmp/err" || status=$?
    [ $status -eq 1 ] || fail "a full disk under standard output: exit status $status"
    err_has "cannot write to standard output"
    run 1 run "$model" -p x -n 400 --ignore-eos --logits-out /dev/full
    err_has "cannot write /dev/full"
fi

# ---- standard files that are closed: errors, and no other file gets into their place
status=0
"$hearth" tokenize "$model" <&- >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status -eq 1 ] || fail "standard input closed: exit status $status"
err_has "cannot read standard input"
"$hearth" run "$model" -p x -n 2 --temp 0 --logits-out "$tmp/want" >/dev/null 2>&1 || fail "run"
"$hearth" run "$model" -p x -n 2 --temp 0 --logits-out "$tmp/got" <&- 2>&- >/dev/null || fail "run without files 0 and 2"
same "$tmp/want" "$tmp/got"
status=0
"$hearth" run "$model" -p x -n 2 --temp 0 >&- 2>"$tmp/err" || status=$?
[ $status -eq 1 ] || fail "standard output closed: exit status $status"
err_has "cannot write to standard output"

# ---- Ctrl-C ends cleanly: the text so far, the statistics, status 130
mkfifo "$tmp/pipe"
"$hearth" run "$model" -p "$prompt" -n -1 -c 1000000 --ignore-eos --stats json >"$tmp/pipe" 2>"$tmp/err" &
pid=$!
exec 3<"$tmp/pipe"
head -c 200 <&3 >/dev/null # it is generating now
kill -INT $pid
cat <&3 >/dev/null
status=0
wait $pid || status=$?
exec 3<&-
[ $status -eq 130 ] || fail "after SIGINT: exit status $status"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" stop)" = interrupted ] || fail "stop after SIGINT"
exit 0
