#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth plan: forecasts for a model on a machine that is described; --simulate: table, JSON, chart, refusals.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
traces=$source_dir/tests/fuzz/corpus/trace

run 0 plan --simulate "$traces/good" --cache-sizes 50,100
out_has "303 tokens, 3 spaces, 114 neurons"
sed -i "s/  */ /g" "$tmp/out" # columns are padded
out_has "| hit rate, cache of | 50 % | 100 % |"
out_has "| decayed frequency per space |"
out_has "| two speeds per space |"
out_has "| Belady's optimum, all spaces |"
run 0 plan --simulate "$traces/good" --json --svg "$tmp/chart.svg"
[ "$(json "$tmp/out" model)" = "a model" ] || fail "the model's name"
[ "$(json "$tmp/out" sets)" = active ] || fail "sets"
[ "$(json "$tmp/out" policies/0/name)" = lru-global ] || fail "policies"
json "$tmp/out" policies/0/hit_rate/9 >/dev/null
json "$tmp/out" cache_neurons/9 >/dev/null
grep -q "</svg>" "$tmp/chart.svg" || fail "no chart"
run 0 plan --simulate "$traces/cut-off"
err_has "the trace ends early; its 2 complete steps are used"

run 2 plan
err_has "give a MODEL to plan for"
run 2 plan "$golden/llama-mha.F32.gguf" --simulate "$traces/good"
err_has "takes no MODEL"
run 2 plan --simulate "$traces/good" --cache-sizes 0
run 1 plan --simulate "$traces/no-steps"
err_has "trace more tokens"
run 1 plan --simulate "$traces/bytes-after-end"
err_has "the trace is damaged"
run 1 plan --simulate "$golden/llama-mha.F32.gguf"
err_has "not a trace"
run 1 plan --simulate "$traces/good" --svg "$tmp/none/chart.svg"
out_is_empty

# Planning for a model on a machine that is described.
cat >"$tmp/phone.txt" <<'END'
name = a phone   # and a comment
cores = 2
ram_bytes = 8000000000
memory_gb_s = 20
core_gb_s = 12
request_us = 14
byte_ns = 0.25
sequential_gb_s = 2
kernel.any.gb_s = 20
kernel.any.gmac_s = 50
kernel.any.prompt_gmac_s = 50
END
run 0 synth tiny-turbosparse-pack "$tmp/pack.gguf"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --json --explain --svg "$tmp/speed.svg" -c 256
grep -q "</svg>" "$tmp/speed.svg" || fail "no chart of speed against memory"
err_has "$tmp/speed.svg: a chart"
[ "$(json "$tmp/out" machine)" = "a phone" ] || fail "the machine's name"
least=$(json "$tmp/out" least_bytes)
whole=$(json "$tmp/out" whole_bytes)
[ "$least" -lt "$whole" ] || fail "least $least, whole $whole"
last=0
for i in 0 1 2 3; do
    ram=$(json "$tmp/out" "budgets/$i/ram_bytes")
    [ "$ram" -gt "$last" ] || fail "budgets do not rise"
    last=$ram
done
# The same again, to the byte: the search is deterministic.
mv "$tmp/out" "$tmp/first"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --json --explain -c 256
same "$tmp/first" "$tmp/out"
run 2 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram 2G,3G
err_has "min, all, or auto; --explain shows the speed with all sizes"
run 2 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram 2X
err_lacks "--explain"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$(((least + whole) / 2))" --explain -c 256
out_has "a phone: 2 cores"
out_has "in memory:"
out_has "|  --ram |  tok/s |"
out_has "the first is the least that the model runs with, for a context of 256 tokens"
awk -F'|' '/^\|  *[0-9.]*[MG] /{ more = $4 } END { exit !(more ~ /^ *0(\.0+)? *$/) }' "$tmp/out" || fail "a gain of nothing has a sign"
out_has "kept%: neurons in memory, of all; hits%: of those asked for, in memory already"
out_has "prompt: a prompt's tokens a second, -ub of them at a time"
out_has "context and prompts, weights use "
[ "$(awk '{ print length }' "$tmp/out" | sort -n | tail -1)" -le 80 ] || fail "more than 80 columns: $(cat "$tmp/out")"
# Numbers of a column have the same digits behind the point.
[ "$(awk -F'|' '/^\|  *[0-9.]*[MG] /{ sub(/[^.]*/, "", $3); print length($3) }' "$tmp/out" | sort -u | wc -l)" = 1 ] || fail "digits of tok/s"
out_has " tok/s, prompts of "
grep -q "reads for a token: [0-9.]* [KMi]*B" "$tmp/out" || fail "units of plan"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$(((least + whole) / 2))" -c 256 --json
slow=$(json "$tmp/out" tokens_per_second)
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed "$slow" -c 256 --json
[ "$(json "$tmp/out" ram_bytes)" -le $(((least + whole) / 2 + 1048576)) ] || fail "--min-speed asks for too much"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --sim-ram 900M
out_has "with 900M of memory"
run 0 pack "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" "$tmp/apart.gguf" --gates-apart
run 0 plan "$tmp/apart.gguf" --machine "$tmp/phone.txt" --ram min
out_has "this pack has no profile: with one"
# Neurons that a threshold leaves out need no reads: what a run with one reads is what a plan with it says.
silu=$source_dir/models/hearth-novels-swiglu-Q8_0.gguf
head -c 4000 "$source_dir/docs/sparse.md" >"$tmp/text"
run 0 profile "$silu" -f "$tmp/text" -o "$tmp/silu.profile" --sparsity-threshold 40%
run 0 pack "$silu" "$tmp/silu.gguf" --profile "$tmp/silu.profile" --gates-apart
thresholds=(plan "$tmp/silu.gguf" --machine "$tmp/phone.txt" -c 128)
run 0 "${thresholds[@]}" --sparsity-threshold 40% --ram min --json
thresholds+=(--ram "$(($(json "$tmp/out" ram_bytes) / 1024 + 1))K")
run 0 "${thresholds[@]}"
out_has "streams whole layers: its gates say which neurons to read with"
[ "$(awk '{ print length }' "$tmp/out" | sort -n | tail -1)" -le 80 ] || fail "a hint of plan has more than 80 columns"
run 0 "${thresholds[@]}" --json
reads=$(json "$tmp/out" read_bytes_per_token)
run 0 "${thresholds[@]}" --sparsity-threshold 40%
grep -q "streams whole layers" "$tmp/out" && fail "whole layers with a threshold"
run 0 "${thresholds[@]}" --sparsity-threshold 40% --json
awk -v all="$reads" -v some="$(json "$tmp/out" read_bytes_per_token)" 'BEGIN { exit !(some < 0.7 * all) }' ||
    fail "--sparsity-threshold changes no forecast"
run 1 plan "$silu" --machine "$tmp/phone.txt" --sparsity-threshold 40%
err_has "does not say how large its activations are"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" -c 256 --sparsity-threshold 0.1
err_has "with --sparsity-threshold the model's predictors are not used"
run 0 inspect "$tmp/apart.gguf"
out_has "predictors    none"
out_has "order         the model's own: no profile"
run 0 inspect "$tmp/pack.gguf"
out_has "predictors    "
out_has "order         the model's own; shares of activity, from a profile of 1000000 tokens"
run 1 plan "$tmp/pack.gguf" --machine "$tmp/no-such-phone.txt"
[ "$(grep -c "no-such-phone.txt" "$tmp/err")" = 1 ] || fail "the device's file is missing twice"
# What is out of reach says the most, and the budget it takes: that budget gives it.
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed 1e8
err_has "out of reach here: "
err_has " tok/s is the most, with --ram "
most=$(sed -n 's/.*out of reach here: \([0-9.]*\) tok.*/\1/p' "$tmp/err")
ram=$(sed -n 's/.*with --ram \([0-9.]*[MG]\).*/\1/p' "$tmp/err")
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$ram" --json
awk -v s="$(json "$tmp/out" tokens_per_second)" -v m="$most" 'BEGIN { exit !(s > 0.99 * m) }' ||
    fail "the most is not what --ram gives"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed "$(awk -v m="$most" 'BEGIN { print m * 0.9 }')"
# Where any budget is fast enough, that is said of the smallest.
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed 0.001 -c 256
out_has "  any memory that the model runs in gives 0.001 tok/s or more: "
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed "$slow" -c 256
grep -q "any memory" "$tmp/out" && fail "any memory does for $slow tok/s"
# With both, --ram is the most.
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed "$slow" -c 256 --ram all --json
[ "$(json "$tmp/out" ram_bytes)" -le $(((least + whole) / 2 + 1048576)) ] || fail "--min-speed with --ram asks for too much"
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --min-speed "$slow" -c 256 --ram min
err_has " tok/s take --ram "
err_has ": with --ram "
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram min --json -c 256
[ "$(json "$tmp/out" ram_bytes)" = "$(json "$tmp/out" least_bytes)" ] || fail "--ram min is not the smallest budget"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram min -c 256
out_has "  this is the least for a context of 256 tokens (-c)"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" -c 64k
err_has "tokens of context; beyond that its text degrades"
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram 1M
err_has "$tmp/pack.gguf needs "
err_has " of memory at least with a context of 2048 tokens: --ram "
err_has " (a smaller context is not enough)"
# The context that an error names is the largest in whole pages that does: 64 tokens more are too many.
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram min -c 2048 --json
mid=$(((least + $(json "$tmp/out" least_bytes)) / 2))
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$mid"
does=$(sed -n 's/.*, or a context of \([0-9]*\) tokens (-c \([0-9]*\))$/\2/p' "$tmp/err")
[ "${does:-0}" -ge 256 ] || fail "no smaller context is named for --ram $mid"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$mid" -c "$does"
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram "$mid" -c $((does + 64))
run 1 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --ram 1M -c 300 -np 4
err_has "with a context of 300 tokens for each of 4 sequences (-np): --ram "
does=$(sed -n 's/.*: --ram \([0-9]*\)M[, ].*(.*)$/\1/p' "$tmp/err")
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" -c 300 -np 4 --ram "${does:-0}M"
# Threads are as many as the cores of the machine that is described, for memory as for speed.
sed 's/^cores = .*/cores = 48/' "$tmp/phone.txt" >"$tmp/server.txt"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/server.txt" -c 256 --json
many=$(json "$tmp/out" least_bytes)
run 0 plan "$tmp/pack.gguf" --machine "$tmp/server.txt" -c 256 --json -t 48
[ "$(json "$tmp/out" least_bytes)" = "$many" ] || fail "--machine: not the memory of 48 threads"
[ "$many" -gt "$least" ] || fail "--machine: memory does not depend on its cores"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" -c 256 --json -t 48
[ "$(json "$tmp/out" least_bytes)" = "$many" ] || fail "--machine: -t does not decide"
run 1 plan "$tmp/pack.gguf" --machine "$golden/llama-mha.F32.gguf"
err_has "too large for a probe"
printf 'cores = 2\ncores = 3\n' >"$tmp/twice.txt"
run 1 plan "$tmp/pack.gguf" --machine "$tmp/twice.txt"
err_has "twice.txt: line 2 of the probe: cores is there twice"

# Machines that are known by name.
run 0 plan --machine list
[ "$(wc -l <"$tmp/out")" = "$(find "$source_dir/devices" -name '*.txt' | wc -l)" ] || fail "not all known machines are listed"
out_has "oneplus-12       OnePlus 12: 6 cores, 19.00 GiB of memory, UFS 4.0"
run 0 plan "$tmp/pack.gguf" --machine oneplus-12 --json -c 256
[ "$(json "$tmp/out" machine)" = "OnePlus 12" ] || fail "a known machine"
HEARTH_MACHINE=pc-high run 0 plan "$tmp/pack.gguf" -c 256
out_has "PC-High: 8 cores"
run 1 plan "$tmp/pack.gguf" --machine oneplus-13
err_has "there is no machine oneplus-13: hearth plan --machine list shows"
run 2 plan "$tmp/pack.gguf" --device phone
err_has "--machine NAME"

# Another machine may have more memory than this one: a KV cache of 9 GiB where 2 GiB can be had.
if [ "$sanitized" = 0 ]; then
    (
        ulimit -v 2000000
        run 0 plan "$tmp/pack.gguf" --machine pc-high -c 20000000 --json
        [ "$(json "$tmp/out" ram_bytes)" -gt 60000000000 ] || fail "the memory of a known machine"
        [ "$(json "$tmp/out" whole_bytes)" -gt 4000000000 ] || fail "a long context takes no memory"
    ) || exit 1
fi

# The shape of a model that is larger than this disk may be.
run 0 synth --shape turbosparse-mixtral-47b "$tmp/shape.gguf"
[ "$(stat -c %s "$tmp/shape.gguf")" -gt 28000000000 ] || fail "a shape is not as large as its model"
[ "$(du -k "$tmp/shape.gguf" | cut -f 1)" -lt 100000 ] || fail "a shape takes room on disk"
run 0 plan "$tmp/shape.gguf" --machine "$tmp/phone.txt" --ram 12G -c 1024 --json
awk -v h="$(json "$tmp/out" hit_rate)" 'BEGIN { exit !(h > 0.5 && h < 1) }' || fail "hit rate of a shape"
run 0 synth --shape falcon-40b-relu "$tmp/shape.gguf"
run 0 plan "$tmp/shape.gguf" --machine "$tmp/phone.txt" --ram 12G -c 1024 -np 4
out_has "% of the neurons asked for"

# What a run reads is what was forecast for its budget, once the machine was measured.
export XDG_CACHE_HOME=$tmp/runs
text="one two three four five six seven eight nine ten"
streams=$((least + (whole - least) / 8))
run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -c 256 -t 1 --ram "$streams" --stats json --ignore-eos
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" forecast)" = null ] || fail "a forecast for a machine that nobody measured"
err_has "no forecast: this machine was not measured yet; hearth plan MODEL measures it"
know_machine
sed -i 's/^cpu_share = .*/cpu_share = 0.2/' "$XDG_CACHE_HOME"/hearth/probe-*.txt
run 0 run "$tmp/pack.gguf" -p "$text" -n 2 -c 256 -t 1 --ram "$streams" --ignore-eos
err_has "no forecast: this machine was busy when it was measured; hearth plan MODEL measures it"
run 0 run "$tmp/pack.gguf" -p "$text" -n 2 -c 256 -t 1 --ram all --ignore-eos
err_lacks "forecast"
settle
run 0 run "$tmp/pack.gguf" -p "$text" -n 2 -c 256 -t 1 --ram "$streams" --ignore-eos
err_lacks "no forecast"
# Nor will a run be much faster than forecast by what was measured while others were busy: that would measure again.
probe=$(echo "$XDG_CACHE_HOME"/hearth/probe-*.txt)
awk '$1 ~ /g(b|mac)_s$/ { $3 *= 100 } $1 ~ /^(request_us|byte_ns|request_cpu_us)$/ { $3 /= 100 } { print }' "$probe" >"$tmp/faster"
cp "$tmp/faster" "$probe"
run 0 plan "$tmp/pack.gguf" -c 256 --ram 900T
err_has "this machine, or its control group, has "
err_has "less than the 900.00 TiB of this plan"
run 0 plan "$tmp/pack.gguf" -c 256 --ram "$(((least + whole) / 2))"
err_lacks "its control group"
run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -c 256 -t 1 --ram "$streams" --stats json --ignore-eos --seed 1
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$sanitized" -gt 0 ] || awk -v f="$(json "$tmp/stats" forecast/read_bytes_per_token)" \
    -v m="$(json "$tmp/stats" streaming/read_bytes_per_token)" \
    'BEGIN { exit !(f > 0 && f < 3 * m && m < 3 * f) }' || fail "bytes of a token are not what was forecast"
# It is what a plan tells that knows the same, whatever of it was said.
for options in "-c 256" "" "-np 3" "-ub 4"; do
    # shellcheck disable=SC2086
    run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -t 1 --ram "$streams" --stats json --ignore-eos $options
    tail -n 1 "$tmp/err" >"$tmp/stats"
    # shellcheck disable=SC2086
    run 0 plan "$tmp/pack.gguf" -p "$text" -n 20 -t 1 --ram "$streams" --json $options
    [ "$sanitized" -gt 0 ] || awk -v run="$(json "$tmp/stats" forecast/tokens_per_second)" -v plan="$(json "$tmp/out" tokens_per_second)" \
        'BEGIN { exit !(run > 0.999 * plan && run < 1.001 * plan) }' || fail "plan and run forecast different speeds with $options"
done
run 0 plan "$tmp/pack.gguf" -f <(echo "$text") -n 20 --ram "$streams"
n_ctx=$(sed -n 's/^  .* a context of \([0-9]*\) tokens (-c)$/\1/p' "$tmp/out")
run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -t 1 --ram "$streams" --ignore-eos
err_has "forecast: "
err_has ", with a context of ${n_ctx:-no} tokens (-c)"
[ "$n_ctx" = 64 ] || fail "a context of $n_ctx tokens for a short run"
run 0 plan "$tmp/pack.gguf" -n 20 --machine "$tmp/phone.txt" --json
[ "$(json "$tmp/out" n_ctx)" = 576 ] || fail "-n without a prompt"
run 0 plan "$tmp/pack.gguf" --machine "$tmp/phone.txt" --json
[ "$(json "$tmp/out" n_ctx)" = 2048 ] || fail "the context of a plan without -n"
run 1 plan "$tmp/pack.gguf" -p "$text" -c 8 --machine "$tmp/phone.txt"
err_has "but the context only 8: use a larger -c"
run 2 plan "$tmp/pack.gguf" -p x -f y
err_has "-p and -f exclude each other"
run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -c 256 -t 1 --ram "$streams" --ignore-eos
err_has "forecast (and measured):"

# A machine is measured again when a run was much faster than forecast.
sed -i 's/^request_us = .*/request_us = 1e5/; s/^memory_gb_s = .*/memory_gb_s = 0.001/' "$probe"
run 0 run "$tmp/pack.gguf" -p "$text" -n 20 -c 256 -t 1 --ram "$streams" --ignore-eos
[ "$sanitized" -gt 0 ] || { err_has "times as fast as forecast: this machine is measured again the next time"; [ ! -f "$probe" ] || fail "a wrong probe is kept"; }

# This machine is measured once; a damaged or foreign probe is measured anew.
export XDG_CACHE_HOME=$tmp/cache
run 0 plan "$tmp/pack.gguf" -c 256
err_has "measuring this machine"
probe=$(echo "$tmp"/cache/hearth/probe-*.txt)
[ -f "$probe" ] || fail "nothing was kept"
settle
run 0 plan "$tmp/pack.gguf" -c 256
err_lacks "measuring"
grep -q "^  measured on 20..-..-.. ..:..; --measure measures again" "$tmp/out" || fail "when it was measured"
run 1 plan "$tmp/pack.gguf" -c 256 --min-speed 1e8
err_has "(this machine as measured on 20"
err_has "; --measure measures again)"
# What was measured while the machine was busy is measured again, and the better figures stay.
sed -i 's/^cpu_share = .*/cpu_share = 0.2/; s/^memory_gb_s = .*/memory_gb_s = 123456/' "$probe"
run 0 plan "$tmp/pack.gguf" -c 256
err_has "measuring this machine again"
out_has " 123456.0 GB/s of memory"
run 0 plan --help
out_has "--measure"
# measures: a plan begins to measure, which is all that is asked for.
# shellcheck disable=SC2317 # until_true calls it
begun_or_over() { grep -q "measuring this machine" "$tmp/err" || ! kill -0 "$planner" 2>/dev/null; }
measures() {
    : >"$tmp/err" # which is looked at before the program has begun
    "$hearth" plan "$tmp/pack.gguf" -c 256 >"$tmp/out" 2>"$tmp/err" &
    planner=$!
    until_true begun_or_over
    kill -KILL $planner 2>/dev/null
    { wait $planner; } 2>/dev/null
    err_has "measuring this machine"
}
settle
cp "$probe" "$tmp/good"
echo "cores = many" >>"$probe"
measures
sed 's/^name = .*/name = another machine/' "$tmp/good" >"$probe"
measures
cp "$tmp/good" "$probe"
run 0 plan "$tmp/pack.gguf" -c 256
err_lacks "measuring"

# A run measures by itself where the budget has room for that.
[ "$sanitized" -gt 0 ] && exit 0
free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null)
[ "${free:-8000000}" -ge 6000000 ] || exit 0 # too little, beside other tests
export XDG_CACHE_HOME=$tmp/by-itself
run 0 synth --shape deepseek-v2-lite "$tmp/shape.gguf"
# Computing and reading, less what goes on at the same time, are the headline's time.
run 0 plan "$tmp/shape.gguf" --machine oneplus-12 --ram 2G -c 256
awk '/ tok\/s, prompts/ { for (i = 2; i <= NF; i++) if ($i == "tok/s,") speed = $(i - 1) }
    / a step: .* at once$/ { ms = $3 + $7 - $11 } END { exit !(ms * speed > 990 && ms * speed < 1010) }' "$tmp/out" ||
    fail "the parts of a step are not its time"
large=(run "$tmp/shape.gguf" -p w12 -n 2 --ignore-eos --ram 2500M)
run 0 "${large[@]}"
err_has "measuring this machine"
err_has "forecast (and measured): "
settle
run 0 "${large[@]}"
err_lacks "measuring"
exit 0
