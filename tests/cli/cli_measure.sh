#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth bench and hearth perplexity.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf

# ---- bench: a row for each test
run 0 bench "$model" -p 16 -n 4 -npl 1,3 -r 2 --roof 1M
for name in pp16 "tg4" "tg4 x3" "Memory roof"; do
    out_has "$name"
done
[ "$(grep -c '^| llama' "$tmp/out")" -eq 3 ] || fail "rows of the table"
[ "$(grep -c ' ± ' "$tmp/out")" -eq 3 ] || fail "deviations in the table"
columns=$(head -n 1 "$tmp/out" | tr -cd '|' | wc -c)
while IFS= read -r line; do
    [ "$(printf '%s' "$line" | tr -cd '|' | wc -c)" -eq "$columns" ] || fail "columns of: $line"
done < <(grep '^|' "$tmp/out")

run 0 bench "$model" -p 16,8 -n 4 -npl 2 -r 2 --roof 0 -o json
[ "$(json "$tmp/out" .)" = 3 ] || fail "results in JSON"
[ "$(json "$tmp/out" 0/n_prompt)" = 16 ] || fail "n_prompt"
[ "$(json "$tmp/out" 2/n_gen)" = 4 ] || fail "n_gen"
[ "$(json "$tmp/out" 2/n_sequences)" = 2 ] || fail "n_sequences"
[ "$(json "$tmp/out" 2/samples_ts)" = 2 ] || fail "samples"
[ "$(json "$tmp/out" 2/roof_gb_per_second)" = null ] || fail "a roof that was not measured"
awk -v v="$(json "$tmp/out" 2/avg_ts)" 'BEGIN { exit !(v > 0) }' || fail "avg_ts"
# Lists are tried in all combinations, models too; a prompt and what follows it is one test.
run 0 bench "$model" "$golden/qwen2.Q8_0.gguf" -p 0 -n 2 -npl 1 -r 1 --roof 0 -t 1,2 -ctk f16,f32 -pg 8,2 -o jsonl
[ "$(wc -l <"$tmp/out")" -eq 16 ] || fail "combinations"
head -n 1 "$tmp/out" >"$tmp/line"
[ "$(json "$tmp/line" n_threads)" = 1 ] || fail "n_threads of the first combination"
tail -n 1 "$tmp/out" >"$tmp/line"
[ "$(json "$tmp/line" n_threads)" = 2 ] || fail "n_threads of the last combination"
[ "$(json "$tmp/line" type_k)" = f32 ] || fail "type_k of the last combination"
[ "$(json "$tmp/line" n_prompt),$(json "$tmp/line" n_gen)" = 8,2 ] || fail "-pg"
run 0 bench -m "$model" -m "$model" -p 8 -n 0 -r 1 --roof 0 -d 0,16 -o csv
[ "$(wc -l <"$tmp/out")" -eq 5 ] || fail "lines of CSV"
awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' "$tmp/out" || fail "columns of CSV"
out_has ",n_depth"
run 0 bench "$model" -p 8 -n 2 -npl 1 -r 1 --roof 0 -o sql
[ "$(grep -c '^INSERT INTO hearth_bench (build,cpu_info,' "$tmp/out")" -eq 2 ] || fail "rows of SQL"
if command -v sqlite3 >/dev/null; then
    [ "$(sqlite3 :memory: <<<"$(cat "$tmp/out"; echo 'SELECT count(*) FROM hearth_bench;')")" = 2 ] || fail "SQL"
fi
# Lists that are given again grow; what varies is told; what is measured is kept when a later model fails.
run 0 bench "$model" -p 8 -p 16 -n 0 -r 1 --roof 0 -ub 8,16 -ctk f16 -ctk f32
out_has "| n_ubatch |   type_k |            test |"
[ "$(grep -c "|       16 |      f32 | *pp" "$tmp/out")" -eq 2 ] || fail "columns of what varies"
[ "$(grep -cE " (pp8|pp16) " "$tmp/out")" -eq 8 ] || fail "lists"
run 0 bench "$model" -p 0 -n 2 -npl 1 -r 1 -t 1,2 --roof 1M
grep -q '^Memory roof.*: .* with 1 thread\.$' "$tmp/out" || fail "no roof of one thread"
grep -q '^Memory roof.*: .* with 2 threads\.$' "$tmp/out" || fail "no roof of two threads"
# Each share is of what was measured beside it, and the line below the table has all of them.
run 0 bench "$model" -p 8 -n 8 -npl 1,2,3,4 -r 1 -t 1 --roof 1M
awk -F '|' '/^Memory roof/ { sub(/^Memory roof[^:]*: /, ""); least = $0 + 0; most = / to / ? $0 : least
                             sub(/^[0-9.]+ to /, "", most); most += 0 }
            $10 ~ / %/ { n++; gbs[n] = $9 + 0; share[n] = $10 + 0 }
            END { for (i = 1; i <= n; i++) # both are rounded
                      if ((gbs[i] + 0.006) / least * 100 < share[i] - 0.6 || (gbs[i] - 0.006) / most * 100 > share[i] + 0.6)
                          exit 1
                  exit n != 4 }' "$tmp/out" || fail "shares that no roof of the table gives"
# Files that call themselves alike have their names in the table; else it has types, as llama-bench's.
cp "$model" "$tmp/twin.gguf"
run 0 bench "$model" "$tmp/twin.gguf" -p 8 -n 0 -r 1 --roof 0
out_has "| llama-mha.Q8_0.gguf "
out_has "| twin.gguf "
run 0 bench "$model" "$golden/llama-mha.F32.gguf" -p 8 -n 0 -r 1 --roof 0
grep -qE '^\| llama [0-9.]+[KM] Q8_0 ' "$tmp/out" || fail "the first model's type"
grep -qE '^\| llama [0-9.]+[KM] all F32 ' "$tmp/out" || fail "the second model's type"
mkdir "$tmp/other"
cp "$model" "$tmp/other/twin.gguf"
run 0 bench "$tmp/twin.gguf" "$tmp/other/twin.gguf" -p 8 -n 0 -r 1 --roof 0
out_has "| $tmp/other/twin.gguf "
# A file's type is what it calls itself, a mixture too.
run 0 quantize "$golden/llama-mha.F32.gguf" "$tmp/mixed.gguf" Q4_K_M
run 0 bench "$tmp/mixed.gguf" -p 8 -n 0 -r 1 --roof 0 -o json
[[ $(json "$tmp/out" 0/model_type) == "llama "*" Q4_K - Medium" ]] || fail "the type of a mixture"
run 0 inspect "$tmp/mixed.gguf"
out_has "file type     Q4_K - Medium"
run 1 bench "$model" "$tmp/none.gguf" -p 8 -n 0 -r 1 --roof 0 -o json
[ "$(json "$tmp/out" 0/n_prompt)" = 8 ] || fail "the first model's result is lost"
run 2 bench "$model" -pg 8 --roof 0
err_has "must be two numbers such as 512,128"
run 1 bench "$tmp/none.gguf" --roof 0
err_has "none.gguf"
# What is refused is refused before the roof is measured: so much memory there is nowhere.
run 1 bench "$model" --ram 64K --roof 1000G
err_has "--ram must be at least"

# ---- a long prompt can be stopped
status=0
timeout -s INT -k 600 1 "$hearth" bench "$model" -p 1048576 -n 0 -r 1 --roof 0 >/dev/null 2>"$tmp/err" || status=$?
[ $status -eq 124 ] || fail "SIGINT during a long prompt: exit status $status"

# ---- perplexity: what was scored is told when it is stopped, in a text that is longer than anybody looks away
seq -f 'Once upon a time there was a cat number %.0f.' 40000 | tr '\n' ' ' >"$tmp/long"
: >"$tmp/err" # which is looked at before the program has begun
"$hearth" perplexity "$model" -f "$tmp/long" -c 64 -t 1 >"$tmp/out" 2>"$tmp/err" &
pid=$!
until grep -q '\[2\]' "$tmp/err" || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid
status=0
wait $pid || status=$?
[ $status -eq 130 ] || fail "perplexity that is stopped ends with $status"
out_has "Estimate so far, after "

# ---- perplexity: threads, micro-batches and chunks
for i in $(seq 40); do
    printf 'Once upon a time there was a cat number %d. ' "$i"
done >"$tmp/text"
estimate() { # of what `perplexity` printed
    [ "$(wc -l <"$tmp/out")" -eq 1 ] || fail "more than the result on standard output"
    sed -nE 's/^Final estimate: PPL = ([0-9.]+) \+\/- [0-9.]+$/\1/p' "$tmp/out" | grep . || fail "no estimate"
}
ppl() {
    run 0 perplexity "$model" -f "$tmp/text" -c 64 "$@"
    estimate
}
all=$(ppl) || exit 1
threads=$(ppl -t 1 -ub 5) || exit 1
[ "$all" = "$threads" ] || fail "perplexity depends on threads or micro-batch: $all, $threads"
two=$(ppl --chunks 2) || exit 1
err_has "[2]"
err_lacks "[3]"
[ "$two" != "$all" ] || fail "--chunks 2 scores all chunks"
run 0 perplexity "$model" -f - -c 64 <"$tmp/text"
out_has "PPL = $all "
run 0 perplexity "$model" -f "$tmp/text" -c 64 --json
awk -v a="$(json "$tmp/out" ppl)" -v b="$all" 'BEGIN { exit !(a > 0.999999 * b && a < 1.000001 * b) }' || fail "ppl in JSON"
[ "$(json "$tmp/out" n_ctx)" = 64 ] || fail "n_ctx in JSON"
json "$tmp/out" ppl_stderr >/dev/null
printf 'short' >"$tmp/short"
run 1 perplexity "$model" -f "$tmp/short" -c 64
err_has "need at least 128"

# ---- prompts compute all neurons, so nothing is left out there, which is said
silu=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf
novel=$source_dir/tests/golden/text/novel.txt
run 0 perplexity "$silu" -f "$novel" -c 64 --chunks 1
dense=$(estimate) || exit 1
err_lacks "without effect"
run 0 perplexity "$silu" -f "$novel" -c 64 --chunks 1 --sparsity-threshold 0.5
[ "$(estimate)" = "$dense" ] || fail "a threshold changes prompts"
err_has "without effect here: --sparsity-threshold (--phase prompt computes all neurons; --phase step scores as when generating)"
run 0 perplexity "$silu" -f "$novel" -c 64 --chunks 1 --sparsity-threshold 0.5 --phase step
[ "$(estimate)" != "$dense" ] || fail "a threshold of 0.5 changes nothing"
err_lacks "without effect"
predicting=$tmp/predicting.gguf
run 0 synth tiny-turbosparse "$predicting" -q
run 0 perplexity "$predicting" -f "$novel" -c 64 --chunks 1
err_has "--phase step leaves out those that predictors do not name"
run 0 perplexity "$predicting" -f "$novel" -c 64 --chunks 1 -q
[ -s "$tmp/err" ] && fail "--quiet tells of predictors"
run 0 perplexity "$predicting" -f "$novel" -c 64 --chunks 1 --phase step
err_lacks "predictors"

# ---- divergence: from itself, from a coarser model; what the base may be
trained=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
run 0 perplexity "$trained" -f "$source_dir/tests/golden/text/novel.txt" -c 64 --chunks 3 --kl-divergence-base "$tmp/base"
all=$(estimate) || exit 1
run 0 perplexity "$trained" --kl-divergence-base "$tmp/base" --kl-divergence
out_has "Same top p: 100.000"
[ "$(sed -nE 's/^Mean PPL\(Q\) +: +([0-9.]+) .*/\1/p' "$tmp/out" | cut -c -6)" = "${all:0:6}" ] || fail "PPL(Q) is not $all"
grep -qE "^Mean    KLD: +-?0\.0000[0-9]+ ± " "$tmp/out" || fail "a model differs from itself"
err_lacks "without effect"
run 0 perplexity "$trained" --kl-divergence-base "$tmp/base" --kl-divergence -f "$tmp/none.txt" -c 32 --chunks 1
err_has "without effect here: --file, --ctx-size (--kl-divergence scores the text of its base"
run 0 perplexity "$trained" --kl-divergence-base "$tmp/base" --kl-divergence --phase step -ctk q8_0 --chunks 2 --json
[ "$(json "$tmp/out" chunks)" = 2 ] || fail "--chunks 2 with a base"
awk -v k="$(json "$tmp/out" divergence/kld/0)" 'BEGIN { exit !(k > 1e-7 && k < 0.01) }' || fail "divergence of a q8_0 cache"
json "$tmp/out" divergence/kld_percentiles/10/value >/dev/null
json "$tmp/out" divergence/delta_p_percentiles/12/value >/dev/null
run 2 perplexity "$model" --kl-divergence
err_has "--kl-divergence-base FILE, which is missing"
run 1 perplexity "$model" --kl-divergence-base "$tmp/base" --kl-divergence
err_has "only models of one vocabulary can be compared"
head -c 5000 "$tmp/base" >"$tmp/cut"
run 1 perplexity "$trained" --kl-divergence-base "$tmp/cut" --kl-divergence
err_has "ends too early"
run 1 perplexity "$model" --kl-divergence-base "$model" --kl-divergence
err_has "is no file of log-probabilities"
# A base takes the place of an older one or of an empty file, never that of the model, the text or another file.
cp "$model" "$tmp/model.gguf"
cp "$tmp/text" "$tmp/prose"
printf 'a letter' >"$tmp/letter"
printf '_logit' >"$tmp/start"
for file in model.gguf prose letter start; do
    cp "$tmp/$file" "$tmp/before"
    run 1 perplexity "$tmp/model.gguf" -f "$tmp/prose" -c 64 --chunks 1 --kl-divergence-base "$tmp/$file"
    err_has "$tmp/$file is"
    err_has "give another name"
    same "$tmp/$file" "$tmp/before"
done
: >"$tmp/new"
for chunks in 1 2; do
    run 0 perplexity "$model" -f "$tmp/prose" -c 64 --chunks $chunks --kl-divergence-base "$tmp/new"
done
run 0 perplexity "$model" --kl-divergence-base "$tmp/new" --kl-divergence --json
[ "$(json "$tmp/out" chunks)" = 2 ] || fail "a base did not take the place of an older one"
: >"$tmp/err"
"$hearth" perplexity "$model" -f "$tmp/long" -c 64 -t 1 --kl-divergence-base "$tmp/stopped" >"$tmp/out" 2>"$tmp/err" &
pid=$!
until grep -q '\[2\]' "$tmp/err" || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid
status=0
wait $pid || status=$?
[ $status -eq 130 ] || fail "writing a base that is stopped ends with $status"
[ -e "$tmp/stopped" ] && fail "a base that is not complete is left"

# ---- perplexity of trained models on prose: the same with every level that this CPU has, and in both classes as close
# as their activations are. Formats of at most five bits take one plane of them in prompts, whose rounding only a longer
# text averages out (cli_stories.sh).
# Minutes with sanitizers, which have seen all there is to see above.
grep -q '^HEARTH_SANITIZE:.*=.' "$(dirname "$hearth")/CMakeCache.txt" 2>/dev/null && exit 0
prose=$source_dir/tests/golden/text/novel.txt
of_level() { # LEVEL MODEL OPTION...: nothing when this CPU does not have the level
    local level=$1 status=0
    shift
    "$hearth" perplexity "$@" -f "$prose" -c 64 --chunks 2 --cpu "$level" >"$tmp/out" 2>"$tmp/err" || status=$?
    if [ $status -eq 2 ] && [ "$level" != c ]; then
        err_has "this CPU does not have these instructions"
        return
    fi
    [ $status -eq 0 ] || fail "perplexity $* --cpu $level: exit status $status"
    estimate
}
levels=$("$hearth" run x --cpu none 2>&1 | sed -n 's/.*must be one of auto, c//p' | tr -d ,)
compare() { # MODEL FORMAT TOLERANCE
    local phase level value reference steps=
    run 0 quantize "$source_dir/models/$1-Q8_0.gguf" "$tmp/$2.gguf" "$2" --pure
    for phase in step prompt; do
        reference=$(of_level c "$tmp/$2.gguf" --phase $phase) || exit 1
        for level in $levels; do
            value=$(of_level "$level" "$tmp/$2.gguf" --phase $phase) || exit 1
            [ -z "$value" ] || echo "$1 in $2, $phase class, $level: $value"
            [ -z "$value" ] || [ "$value" = "$reference" ] || fail "$phase class: $level gives $value, c $reference"
        done
        steps=${steps:-$reference}
    done
    awk -v p="$reference" -v s="$steps" -v within="$3" 'BEGIN {
        exit !(p > 5 && p < 40 && s / p > 1 - within && s / p < 1 + within)
    }' || fail "$1 in $2: $steps in steps, $reference in prompts"
}
compare hearth-novels-drelu Q8_0 0.001
compare hearth-novels-swiglu Q6_K 0.001
compare hearth-novels-drelu Q4_K 0.01
compare hearth-novels-swiglu Q4_0 0.01
exit 0
