#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth embed: what it prints, what it depends on, what it refuses.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.F32.gguf
texts='Once upon a time\nthere was\na fire'

# ---- formats
run 0 embed "$model" -p "$texts" -q
[ "$(grep -c '^embedding [012]: ' "$tmp/out")" -eq 3 ] || fail "three texts are not three embeddings"
[ "$(sed -n 1p "$tmp/out" | wc -w)" -eq 18 ] || fail "of several texts not 16 numbers are shown"
out_has "cosine similarity matrix:"
[ "$(grep -c '1\.000 ' "$tmp/out")" -eq 3 ] || fail "texts are not like themselves"
run 0 embed "$model" "Once upon a time" -q
[ "$(wc -w <"$tmp/out")" -eq 66 ] || fail "one text has not all of its numbers"
run 0 embed "$model" "Once upon a time" -q --pooling none
[ "$(sed -n 1p "$tmp/out" | wc -w)" -eq 9 ] || fail "a token has not three numbers at each end"
run 0 embed "$model" -p "$texts" -q --embd-output-format json+
[ "$(json "$tmp/out" object)" = list ] || fail "object is no list"
[ "$(json "$tmp/out" data/2/index)" = 2 ] || fail "indices are wrong"
[ "$(json "$tmp/out" data/2/object)" = embedding ] || fail "objects are no embeddings"
json "$tmp/out" data/0/embedding/63 >/dev/null
[ "$(json "$tmp/out" cosineSimilarity/1/1 | cut -c1)" = 1 ] || fail "a text is not like itself"
run 0 embed "$model" -p "$texts" -q --embd-output-format json
grep -q cosine "$tmp/out" && fail "json has cosines"
run 0 embed "$model" -p "$texts" -q --embd-output-format array
json "$tmp/out" 2/63 >/dev/null
run 0 embed "$model" -p "$texts" -q --embd-output-format raw
cp "$tmp/out" "$tmp/raw"
[ "$(wc -l <"$tmp/raw")" -eq 3 ] || fail "raw has not a line for each text"

# ---- a model that predicts tokens is said to be no model for embeddings
run 0 embed "$model" -p "$texts"
err_has "was not trained for embeddings"
run 0 embed "$model" -p "$texts" --override-kv llama.pooling_type=int:1
err_lacks "was not trained for embeddings"
run 0 embed "$model" -p "$texts" -q
[ -s "$tmp/err" ] && fail "--quiet is not quiet"

# ---- norms: sums of squares, of magnitudes, and the largest magnitude
norm() { # N AWK
    run 0 embed "$model" "Once upon a time" -q --embd-output-format raw --embd-normalize "$1"
    awk "$2" "$tmp/out" || fail "--embd-normalize $1 is not that norm"
}
# shellcheck disable=SC2016
norm 2 '{ for (i = 1; i <= NF; i++) s += $i * $i; exit !(s > 0.99999 && s < 1.00001) }'
# shellcheck disable=SC2016
norm 1 '{ for (i = 1; i <= NF; i++) s += $i < 0 ? -$i : $i; exit !(s > 0.99999 && s < 1.00001) }'
# shellcheck disable=SC2016
norm 0 '{ for (i = 1; i <= NF; i++) if ($i == 32760 || $i == -32760) n++; exit n != 1 }'
# shellcheck disable=SC2016
norm -1 '{ for (i = 1; i <= NF; i++) s += $i * $i; exit !(s > 1.1) }'

# ---- where the texts come from; nothing depends on the others, threads, micro-batches, instructions
printf '%b\n' "$texts" >"$tmp/lines"
for way in "-f $tmp/lines" "-f - -ub 3" "-t 2" "-ub 2 --cpu c"; do
    # shellcheck disable=SC2086
    run 0 embed "$model" -q --embd-output-format raw $way <"$tmp/lines"
    same "$tmp/out" "$tmp/raw"
done
run 0 embed "$model" -p "$(printf '%b' "$texts" | tr '\n' '|')" --embd-separator '|' -q --embd-output-format raw
same "$tmp/out" "$tmp/raw"
run 0 embed "$model" -p "there was" -q --embd-output-format raw
sed -n 2p "$tmp/raw" | cmp - "$tmp/out" || fail "an embedding depends on the texts beside it"
run 0 embed "$model" -p "a fire" -q --embd-output-format raw --pooling mean
sed -n 3p "$tmp/raw" | cmp - "$tmp/out" || fail "auto is not mean where the file does not say"
run 0 embed "$model" -p "a fire" -q --embd-output-format raw --pooling none
tail -n 1 "$tmp/out" >"$tmp/last"
run 0 embed "$model" -p "a fire" -q --embd-output-format raw --pooling last
same "$tmp/out" "$tmp/last"
run 0 embed "$model" -p 'a\nb' --no-escape -q --embd-output-format raw
[ "$(wc -l <"$tmp/out")" -eq 1 ] || fail "--no-escape cuts at an escape"

# ---- from the file, with as little memory as it takes
run 0 synth tiny-dense "$tmp/model.gguf" -q
run 0 embed "$tmp/model.gguf" -f "$tmp/lines" --embd-output-format raw -q --ram all
cp "$tmp/out" "$tmp/raw"
run 0 embed "$tmp/model.gguf" -f "$tmp/lines" --embd-output-format raw -q --ram min
same "$tmp/out" "$tmp/raw"

# ---- many short texts: groups, and contexts that the model does not have
for i in $(seq 70); do echo "text $i"; done >"$tmp/many"
run 0 embed "$model" -f "$tmp/many" -q --embd-output-format raw
[ "$(wc -l <"$tmp/out")" -eq 70 ] || fail "70 texts are not 70 embeddings"
sed -n 70p "$tmp/out" >"$tmp/want"
run 0 embed "$model" "text 70" -q --embd-output-format raw
same "$tmp/out" "$tmp/want"
run 0 embed "$golden/opt.Q8_0.gguf" -f "$tmp/many" -q --embd-output-format raw

# ---- refusals
run 2 embed "$model" -p a -f "$tmp/lines"
err_has "-p and -f exclude each other"
run 2 embed "$model" -p a --pooling rank
err_has "must be one of auto, none, mean, cls, last"
run 1 embed "$model" -p "$texts" -c 3
err_has "text 1 has"
err_has "use a larger -c"
run 1 embed "$golden/../text/bpe.gguf" -p a
out_is_empty
run 0 embed "$model" -p a -q --embedding -ngl 9 -b 512
run 2 embed "$model" -p a --attention causal
err_has "the model decides"
exit 0
