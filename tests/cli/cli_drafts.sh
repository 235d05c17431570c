#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Drafted tokens (--draft-max): no text, and no row of logits, depends on them, in run, chat and serve.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
novels=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
dense=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf
again="the door opened and the door closed and the door opened and the door closed and"

# both MODEL OPTION...: the same text and logits with drafts as without; $drafted and $accepted are what the former counted.
both() { texts_and "$tmp/logits" "$@"; }
# The same without logits, as of several texts at once.
both_texts() { texts_and "" "$@"; }
texts_and() {
    local logits=$1
    shift
    run 0 run "$@" --draft-max 0 ${logits:+--logits-out "$tmp/plain.logits"} --stats json
    cp "$tmp/out" "$tmp/plain"
    tail -n 1 "$tmp/err" >"$tmp/stats"
    [ "$(json "$tmp/stats" draft_tokens)" = 0 ] || fail "drafts with --draft-max 0"
    local stop generated
    stop=$(json "$tmp/stats" stop)
    generated=$(json "$tmp/stats" generated_tokens)
    run 0 run "$@" ${logits:+--logits-out "$logits"} --stats json
    same "$tmp/out" "$tmp/plain"
    [ -z "$logits" ] || same "$logits" "$tmp/plain.logits"
    tail -n 1 "$tmp/err" >"$tmp/stats"
    [ "$(json "$tmp/stats" stop)" = "$stop" ] || fail "another end"
    [ "$(json "$tmp/stats" generated_tokens)" = "$generated" ] || fail "another number of tokens"
    drafted=$(json "$tmp/stats" draft_tokens)
    accepted=$(json "$tmp/stats" draft_tokens_accepted)
    [ "$accepted" -le "$drafted" ] || fail "more came true than were guessed"
}

# ---- models of several kinds; texts of tiny models repeat themselves
all=0
for name in llama-mha.Q8_0 gemma3.Q4_0 mixtral.Q4_0 drelu.Q4_0 gpt-oss.MXFP4 deepseek-v3.Q8_0 qwen35.Q8_0; do
    for temp in 0 0.7; do
        both "$golden/$name.gguf" -p "$again" --temp $temp -s 3 -n 60 --ignore-eos -t 1
        all=$((all + accepted))
    done
done
[ "$all" -gt 0 ] || fail "no guess came true in all these texts"
[ "$drafted" -gt 0 ] || fail "no drafts of a model with recurrent layers"

# ---- the layer for guesses of a model's own file: with weights in memory and from the file, several texts, without memory
# for it, with -md, with a device
for name in qwen35-next.Q8_0 glm-lite-next.Q8_0; do
    model=$golden/$name.gguf
    for temp in 0 0.7; do
        both "$model" -p "$again" --temp $temp -s 3 -n 60 --ignore-eos -t 1
    done
    both_texts "$model" -p "$again" --temp 0.9 -s 4 -n 40 -np 3 --ignore-eos -t 2
    run 0 run "$model" -p "$again" -n 4 -v
    err_has "the layer for guesses drafts"
    # However little memory there is, the model runs if it did without the layer.
    run 0 run "$model" -p "$again" -n 20 --temp 0 --ignore-eos --draft-max 0
    cp "$tmp/out" "$tmp/plain"
    for ram in 6800K 7M 7500K 8M 9M 12M 16M 24M 40M 64M; do
        "$hearth" run "$model" -p "$again" -n 1 --draft-max 0 --ram $ram >"$tmp/out" 2>&1 || continue
        run 0 run "$model" -p "$again" -n 20 --temp 0 --ignore-eos --ram $ram -v
        same "$tmp/out" "$tmp/plain"
    done
    err_has "the layer for guesses drafts"
    for options in "--draft-max 0" "--ram min"; do
        # shellcheck disable=SC2086
        run 0 run "$model" -p "$again" -n 4 -v $options
        err_lacks "the layer for guesses drafts"
    done
done
run 0 run "$golden/qwen35-next.Q8_0.gguf" -p "$again" -n 4 -v -md "$golden/llama-mha.Q8_0.gguf"
err_lacks "the layer for guesses drafts"

# ---- ends: the model's own, -n, the context, a grammar
model=$golden/llama-mha.Q8_0.gguf
for n in 1 2 3 17; do both "$model" -p "$again" --temp 0 -n $n -t 1; done
both "$model" -p "$again" --temp 0 -c 64 -t 1
both "$novels" -p "$again" --temp 0 -n 100 -t 1
both "$novels" -p "$again" --temp 0.8 -s 1 -n 60 --grammar 'root ::= ("a" | "b" | " " | ".")*' -t 1

# ---- several texts at once; fewer guesses; weights from the file
both "$novels" -p "$again" --temp 0.8 -s 5 -np 4 -n 40 -t 2
[ "$drafted" = 0 ] || fail "drafts where rows of logits go by steps of all texts"
both_texts "$novels" -p "$again" --temp 0.8 -s 5 -np 4 -n 40 -t 2
run 0 run "$novels" -p "$again" --temp 0 -n 60 --draft-max 0 -q
cp "$tmp/out" "$tmp/plain"
for options in "--draft-max 1" "--draft 3" "--draft-n 64" "--ram min"; do
    # shellcheck disable=SC2086
    run 0 run "$novels" -p "$again" --temp 0 -n 60 -q $options
    same "$tmp/out" "$tmp/plain"
done
# A trace has the text's tokens and no others.
run 0 run "$novels" -p "$again" --temp 0 -n 60 --trace "$tmp/trace" --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" draft_tokens)" = 0 ] || fail "drafts in a trace"

# ---- a small model that drafts: the same one, which guesses right, one that knows nothing, one of another vocabulary
both "$novels" -p "$again" --temp 0 -n 60 -md "$novels" -t 1
both_texts "$novels" -p "$again" --temp 0.9 -s 4 -n 60 -np 2 -md "$source_dir/models/hearth-novels-swiglu-Q8_0.gguf" -t 1
[ "$drafted" -gt 0 ] || fail "nothing was drafted by a small model"
both "$golden/qwen3.Q8_0.gguf" -p "$again" --temp 0 -n 50 --ignore-eos -md "$golden/qwen3.Q4_0.gguf" -t 1 -c 100
# A grammar; a model in another format; more options of the large model than the small one has.
both "$dense" -p "$again" --temp 0.8 -s 1 -n 60 --grammar 'root ::= ("a" | "b" | " " | ".")*' -md "$dense" -t 1
both "$golden/llama-mha.Q8_0.gguf" -p "$again" --temp 0 -n 60 --ignore-eos -md "$golden/llama-mha.F32.gguf" -t 1
both "$novels" -p "$again" --temp 0 -n 40 --sparsity exact -ctk q8_0 -md "$dense" -t 1
both_texts "$dense" -p "$again" --temp 0.8 -s 5 -np 3 -n -1 -c 400 --kv-size 192 --ignore-eos -t 1
[ "$drafted" = 0 ] || fail "drafts of texts that may fill the KV cache"
run 1 run "$novels" -p "$again" -n 4 -md "$model"
err_has "cannot draft for"
run 1 run "$golden/qwen35.Q8_0.gguf" -p "$again" -n 4 -md "$golden/qwen35.Q8_0.gguf"
err_has "recurrent"
run 1 run "$novels" -p "$again" -n 4 -md "$tmp/missing.gguf"
err_has "missing.gguf"

# ---- chats: answers, and what they go on from
printf '%s\n' "$again" "and then" "$again" >"$tmp/talk"
talk=(--temp 0 -n 50 -c 512 -t 1 --chat-template vicuna --ignore-eos)
run 0 chat "$novels" "${talk[@]}" --draft-max 0 <"$tmp/talk"
cp "$tmp/out" "$tmp/plain"
run 0 chat "$novels" "${talk[@]}" --stats json <"$tmp/talk"
same "$tmp/out" "$tmp/plain"
run 0 chat "$novels" "${talk[@]}" -md "$dense" <"$tmp/talk"
same "$tmp/out" "$tmp/plain"
run 0 chat "$novels" "${talk[@]}" --stats json <"$tmp/talk"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" draft_tokens)" -ge "$(json "$tmp/stats" draft_tokens_accepted)" ] || fail "statistics of a chat"

# ---- the server: alone and beside others
need_server
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
texts() { # FILE: what the server answers, a line for each request
    for i in 1 2 3 4 5; do
        ask 200 /completion -d "{\"prompt\": \"$again\", \"n_predict\": 80, \"temperature\": 0.$i, \"seed\": $i, \"ignore_eos\": true}"
        json out content >"$1.$i"
        cat "$1.$i"
        echo
    done >"$1"
    for i in 1 2 3 4 5; do
        curl -s "$base/completion" -o "$1.answer.$i" \
            -d "{\"prompt\": \"$again\", \"n_predict\": 80, \"temperature\": 0.$i, \"seed\": $i, \"ignore_eos\": true}" &
        requests[i]=$!
    done
    for i in 1 2 3 4 5; do
        wait "${requests[$i]}" || fail "a request beside others"
        json "$1.answer.$i" content >"$1.beside"
        same "$1.beside" "$1.$i"
    done
}
requests=()
start "$dense" -np 3 -t 2 -c 256 --draft-max 0
texts without
ask 200 /completion -d "{\"prompt\": \"$again\", \"n_predict\": 80, \"temperature\": 0}"
grep -q draft_n out && fail "the server drafts with --draft-max 0"
full="{\"prompt\": \"$again\", \"n_predict\": -1, \"temperature\": 0, \"ignore_eos\": true}"
ask 200 /completion -d "$full" # until the context is full
json out content >full
ends="{\"prompt\": \"$again\", \"n_predict\": 100, \"temperature\": 0, \"stop\": [\"opened and the\"]}"
ask 200 /completion -d "$ends"
json out content >ends
stop
for options in "" "-md $dense"; do
    # shellcheck disable=SC2086
    start "$dense" -np 3 -t 2 -c 256 $options
    texts with
    same with without
    grep -q draft_n with.answer.* || fail "the server does not draft"
    ask 200 /completion -d "$full"
    json out content >full.with
    same full.with full
    ask 200 /completion -d "$ends"
    json out content >ends.with
    same ends.with ends
    stop
done
# Texts that make room for one another.
start "$dense" -np 3 -t 2 -c 256 --kv-size 320
texts with
same with without
stop
