#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth tokenize and detokenize as filters.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf

round_trip() { # model; text in $tmp/text
    "$hearth" tokenize "$1" <"$tmp/text" >"$tmp/ids" || fail "tokenize $1"
    [ "$(wc -l <"$tmp/ids")" -eq 1 ] || fail "ids are not on one line"
    "$hearth" detokenize "$1" <"$tmp/ids" >"$tmp/back" || fail "detokenize $1"
    same "$tmp/text" "$tmp/back"
}

# ---- the golden prompts give the golden ids, with and without BOS
for greedy in "$golden"/*.greedy; do
    file=${greedy%.greedy}.gguf
    printf '%s' "$(head -n 1 "$greedy")" >"$tmp/text"
    run 0 tokenize "$file" <"$tmp/text"
    sed -n 2p "$greedy" >"$tmp/want"
    same "$tmp/out" "$tmp/want"
    run 0 tokenize "$file" --no-bos <"$tmp/text"
    sed -n 2p "$greedy" | sed -E 's/^[0-9]+ //' >"$tmp/want"
    same "$tmp/out" "$tmp/want"
    round_trip "$file"
done

# ---- standard input is taken as it is: newlines, zero bytes, bytes that are not UTF-8
printf 'two\nlines\n\n' >"$tmp/text"
round_trip "$model"
printf 'a\0b\377\376c\303' >"$tmp/text"
round_trip "$model"
printf '' >"$tmp/text"
run 0 tokenize "$model" --no-bos <"$tmp/text"
printf '\n' | cmp - "$tmp/out" || fail "no text gives ids"

# ---- where the text comes from, and what is printed of the ids
printf 'Once\tupon\n' >"$tmp/text"
run 0 tokenize "$model" <"$tmp/text"
cp "$tmp/out" "$tmp/want"
run 0 tokenize "$model" -f "$tmp/text"
same "$tmp/out" "$tmp/want"
run 0 tokenize "$model" -e -p 'Once\tupon\n'
same "$tmp/out" "$tmp/want"
run 0 tokenize "$model" $'Once\tupon\n' --show-count
head -n 1 "$tmp/out" | cmp - "$tmp/want" || fail "tokenize MODEL TEXT"
n=$(wc -w <"$tmp/want")
out_has "Total number of tokens: $n"
run 0 tokenize "$model" -f "$tmp/text" --ids
[ "$(tr -d '[],' <"$tmp/out")" = "$(cat "$tmp/want")" ] || fail "--ids"
out_has "[1, "
run 0 tokenize "$model" -f "$tmp/text" --pieces
[ "$(wc -l <"$tmp/out")" -eq "$n" ] || fail "a line for each token"
[ "$(sed -E 's/^ *([0-9]+) -> .*/\1/' "$tmp/out" | tr '\n' ' ')" = "$(cat "$tmp/want") " ] || fail "ids of --pieces"
out_has "1 -> '<s>'"
out_has "'\\x0A'"
run 0 tokenize "$model" -f "$tmp/text" --json
[ "$(json "$tmp/out" n_tokens)" = "$n" ] || fail "n_tokens"
[ "$(json "$tmp/out" tokens/0/piece)" = "<s>" ] || fail "pieces in JSON"
[ "$(json "$tmp/out" tokens/0/id)" = 1 ] || fail "ids in JSON"
run 2 tokenize "$model" -p a -f b
err_has "exclude each other"

# ---- names of control tokens are those tokens, as in a prompt, unless told not to
printf '</s>' >"$tmp/text"
for options in "-f $tmp/text" "-p </s>" "--special -f $tmp/text" "--parse-special -f $tmp/text"; do
    # shellcheck disable=SC2086
    run 0 tokenize "$model" --no-bos $options
    [ "$(cat "$tmp/out")" = 2 ] || fail "</s> is no control token with $options"
    [ -s "$tmp/err" ] && fail "tokenize $options is not quiet"
done
run 0 run "$model" -p '</s>a' -n 1 --temp 0 --logits-out "$tmp/logits"
run 0 tokenize "$model" -p '</s>a'
[ "$(count_bytes "$tmp/logits")" -eq $(($(wc -w <"$tmp/out") * 288 * 4)) ] || fail "a prompt has other tokens than tokenize tells"
run 0 tokenize "$model" --no-bos --no-parse-special <"$tmp/text"
[ "$(wc -w <"$tmp/out")" -gt 1 ] || fail "--no-parse-special makes </s> a control token"
run 2 tokenize "$model" --special --no-parse-special <"$tmp/text"
err_has "--parse-special and --no-parse-special exclude each other"
echo 2 | "$hearth" detokenize "$model" >"$tmp/out" || fail "detokenize 2"
out_is_empty
echo 2 | "$hearth" detokenize "$model" --special >"$tmp/out" || fail "detokenize --special 2"
[ "$(cat "$tmp/out")" = "</s>" ] || fail "detokenize --special does not print </s>"

# ---- ids that are none
for ids in x 1x -1 288 99999999999999999999 1.5; do
    printf '%s' "$ids" >"$tmp/text"
    run 1 detokenize "$model" <"$tmp/text"
    err_has "hearth: error: "
done
printf '[1, 280]\n' >"$tmp/text"
run 0 detokenize "$model" <"$tmp/text"

# ---- files that hold only a vocabulary
file=${HEARTH_TEST_DATA:-}/tokenizers/ggml-vocab-llama-spm.gguf
if [ -f "$file" ]; then
    printf 'Hello wörld, 你好' >"$tmp/text"
    round_trip "$file"
    run 1 run "$file" -p x
    err_has "vocabulary but no weights"
fi
exit 0
