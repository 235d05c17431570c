#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A model that does not fit into memory runs without any option, in a budget that hearth chooses and names; --ram all and
# --ram SIZE override it; the text does not depend on it; a context takes no more memory than it needs.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
usual=(-p "It was" -n 12 --temp 0 -ub 8 -t 1 --io pread)

# ---- with room
run 0 run "$model" "${usual[@]}" --ram all
cp "$tmp/out" "$tmp/want"
[ -s "$tmp/want" ] || fail "no text"
for ram in auto 4G 30M; do
    run 0 run "$model" "${usual[@]}" --ram $ram
    same "$tmp/out" "$tmp/want"
    err_lacks "running with"
done
run 0 run "$model" "${usual[@]}" -v
same "$tmp/out" "$tmp/want"
err_lacks "running with"
run 2 run "$model" "${usual[@]}" --ram most
err_has "a size such as 900M or 4G, a share of this machine's memory such as 80%, min, all, or auto"

# ---- the context: no more than -n needs, one prompt for all, and the model's at most
kv_bytes() { # OPTION...
    run 0 run "$model" -p "It was" --temp 0 --ignore-eos --stats json "$@"
    tail -n 1 "$tmp/err" >"$tmp/stats"
    json "$tmp/stats" kv_bytes
}
short=$(kv_bytes -n 12) page=$(kv_bytes -n 12 -c 64)
[ "$short" -eq "$page" ] || fail "a short text has $short bytes of KV cache, a page has $page"
[ "$(kv_bytes -n 100)" -eq $((2 * page)) ] || fail "the context of -n 100"
[ "$(kv_bytes -n 12 -c 128)" -eq $((2 * page)) ] || fail "-c 128"
[ "$(kv_bytes -n 5 -np 3)" -eq $((3 * page)) ] || fail "-np 3"
[ "$(kv_bytes -n 200 -np 3)" -eq $((12 * page)) ] || fail "-np 3 -n 200"
# More than there is memory for is cut to what there is.
if [ "$sanitized" = 0 ]; then
    (
        ulimit -v 3000000
        run 0 chat "$model" -st -p "It was" -n 3 --chat-template chatml -c 4m -t 1 --io pread
        err_has "memory has room for"
        err_has " tokens of context"
    ) || exit 1
fi
run 0 run "$model" -p "It was" -n 100000 --temp 0 --ignore-eos -q --stats json
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" stop)" = context ] || fail "a context longer than the model's"

# With sanitizers a process holds memory that no plan knows of, now more, now less: budgets are not so exact.
exactly() {
    [ "$sanitized" -gt 0 ] || "$@"
}

# ---- hints at what is faster, with -v and on terminals
run 0 pack "$model" "$tmp/pack.gguf"
# least MODEL OPTION...: the smallest budget, as the message names it.
least() {
    run 1 run "$@" --ram 1M
    sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err"
}
tight=(-p "w12" -ub 8 -t 1 --io pread --ignore-eos)
budget=$(least "$tmp/pack.gguf" "${tight[@]}" -n 4)
exactly run 0 run "$tmp/pack.gguf" "${tight[@]}" -n 4 --ram "$budget" -v
exactly err_has "this pack has no predictors"
err_lacks "a smaller -c"
exactly run 0 run "$tmp/pack.gguf" "${tight[@]}" -n 4 --ram "$budget"
err_lacks "predictors"
yes "It was a dark and stormy night, and the rain fell." | head -n 32 >"$tmp/text" # nearly all of the context
context=(-f "$tmp/text" -np 12 -ub 64 -t 1 --io pread)
budget=$(least "$model" "${context[@]}")
exactly run 0 run "$model" "${context[@]}" --ram "$budget" -v
exactly err_has "from the weights: a smaller -c bounds that"

# ---- chat: its micro-batch becomes smaller before it refuses, and what it reads is told
talk=(-st -p "w12" -n 3 -t 1 --io pread --ignore-eos -c 512 --chat-template chatml)
run 1 chat "$tmp/pack.gguf" "${talk[@]}" -ub 8 --ram 1M
budget=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err")
exactly run 0 chat "$tmp/pack.gguf" "${talk[@]}" --ram "$budget"
exactly err_has "hearth: read by pread: "
exactly err_has "for a token; waited for storage "
exactly err_has " of memory at most"
exactly run 0 chat "$tmp/pack.gguf" "${talk[@]}" --ram min

# ---- without: limits of addresses stand for memory. Sanitizers take more addresses than there are.
[ "$sanitized" -gt 0 ] && exit 0

# limited KIB STATUSES ARGUMENT...: hearth with so many KiB of data, small stacks.
limited() {
    local kib=$1 statuses=$2 status=0
    shift 2
    (ulimit -s 512 && ulimit -d "$kib" && exec "$hearth" "$@") >"$tmp/out" 2>"$tmp/err" || status=$?
    case " $statuses " in *" $status "*) ;; *) fail "hearth $* with $kib KiB: exit status $status" ;; esac
    return $status
}

# From too little to plenty: refused, then in a budget, then as a whole.
seen=
kib=16000 first=
while [ $kib -le 80000 ]; do
    if limited $kib "0 1" run "$model" "${usual[@]}"; then
        same "$tmp/out" "$tmp/want"
        if grep -q "running with --ram [0-9]*M, which reads .* for a token (--ram all: load everything)" "$tmp/err"; then
            seen="$seen budget"
            little=$kib first=${first:-$kib}
        else
            seen="$seen whole"
        fi
    else
        out_is_empty
        err_has "there is too little memory: it needs at least"
        seen="$seen none"
    fi
    kib=$((kib + 2000))
done
case $(tr ' ' '\n' <<<"$seen" | uniq | tr '\n' ' ') in
*" none budget whole "*) ;;
*) fail "with growing memory:$seen" ;;
esac

limited "$little" 0 run "$model" "${usual[@]}" -q
same "$tmp/out" "$tmp/want"
err_lacks "running with"
limited "$first" 0 run "$model" "${usual[@]}" --ram 4G --sparsity off
err_has "a memory budget of 4096 MiB is more than there is"
err_lacks "running with"
# A context that is too long for memory gets what there is.
limited "$little" 0 run "$model" "${usual[@]}" -c 2000000
same "$tmp/out" "$tmp/want"
err_has "tokens of context"
err_has "running with --ram"

# All commands that load weights.
small=(-ub 8 -t 1 --io pread)
limited "$little" 0 bench "$model" "${small[@]}" -p 8 -n 4 -npl 1 -r 1 --roof 0
err_has "running with --ram"
run 0 perplexity "$model" -f "$source_dir/README.md" -c 32 --chunks 2 "${small[@]}"
cp "$tmp/out" "$tmp/want"
limited "$little" 0 perplexity "$model" -f "$source_dir/README.md" -c 32 --chunks 2 "${small[@]}"
err_has "running with --ram"
same "$tmp/out" "$tmp/want"
# Its 32 sequences take more.
run 0 profile "$model" -f "$tmp/text" -o "$tmp/profile" -c 16 -t 1
limited $((little + 12000)) 0 profile "$model" -f "$tmp/text" -o "$tmp/again" -c 16 -t 1
err_has "running with --ram"
same "$tmp/profile" "$tmp/again"
