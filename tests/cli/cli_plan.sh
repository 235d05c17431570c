#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth plan --simulate: table, JSON, chart, refusals.
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
err_has "--simulate TRACE is missing"
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
exit 0
