#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth serve --prefix-cache: prompts that are kept on disk give the same bytes as those that are evaluated, also with a
# budget, after kill -9 at any time, from damaged files, with two servers in one folder; folders and disks that do not serve.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
cd "$tmp" || exit 1
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
repeats=60
kills=12
if [ "$sanitized" = 1 ]; then
    model=$golden/qwen3.Q8_0.gguf
    repeats=8
    kills=3
fi
cache=$tmp/new/cache
usual=("$model" -np 2 -t 1 -c 1024)

# Prompts that begin alike, and one that does not.
for i in 1 2 3; do
    {
        printf '{"temperature": 0.9, "seed": 5, "n_predict": 12, "ignore_eos": true, "prompt": "'
        [ $i = 3 ] && printf 'Otherwise. '
        for _ in $(seq $repeats); do printf 'It was a dark night. '; done
        printf 'Number %d was"}' $i
    } >"request$i"
done

# get I NAME: what request I gets goes to NAME, and how many tokens were there to $cached.
get() {
    curl -sS -m 600 -o "$2.json" "$base/completion" -d "@request$1" || fail "request $1"
    "$JSON_GET" "$2.json" content >"$2" || fail "request $1: $(head -c 300 "$2.json")"
    cached=$("$JSON_GET" "$2.json" tokens_cached)
}

# saved N: waits until N blocks were written.
# shellcheck disable=SC2317 # until_true calls it
has_written() { [ "$(number hearth:written_blocks_total)" -ge "$1" ]; }
saved() {
    until_true has_written "$1" || fail "$(number hearth:written_blocks_total) blocks were written instead of $1"
}

# all_saved: waits until no more blocks are written.
all_saved() {
    local before='' now
    while now=$(number hearth:written_blocks_total) && [ "$now" != "$before" ]; do
        before=$now
        sleep 1
    done
}

# from_disk I LEAST OPTION...: starts a server that has at least so many tokens of request I there. Who reads more slowly
# than he computes reads no further: on a busy machine it is one of several servers.
from_disk() {
    local request=$1 least=$2
    shift 2
    for _ in 1 2 3 4 5 6 7 8; do
        rm -r "$cache"
        cp -a kept "$cache"
        start "${usual[@]}" --prefix-cache "$cache" "$@"
        get "$request" again
        same again "want$request"
        [ "$cached" -lt "$least" ] || return 0
        stop
    done
    fail "only $cached tokens were there"
}

count_files() {
    find "$1" -type f | wc -l
}

# ---- without
start "${usual[@]}"
for i in 1 2 3; do get $i want$i; done
n_prompt=$(json want1.json tokens_evaluated)
stop
blocks=$(((n_prompt - 1) / 64))
[ $blocks -ge 2 ] || fail "a prompt of $n_prompt tokens"

# ---- to disk, for this user alone
start "${usual[@]}" --prefix-cache "$cache"
get 1 first
[ "$cached" = 0 ] || fail "$cached tokens were there"
same first want1
saved $blocks
stop
[ "$(stat -c %a "$cache")" = 700 ] || fail "a folder that others can read"
[ -z "$(find "$cache" -type f ! -perm 600)" ] || fail "files that others can read"
[ "$(count_files "$cache")" = "$(find "$cache" -name '*.hearthkv' | wc -l)" ] || fail "other files in the cache: $(ls "$cache")"

cp -a "$cache" kept

# ---- from disk, alone and with another that begins alike; a prompt that does not has nothing of it
start "${usual[@]}" --prefix-cache "$cache"
get 3 third
[ "$cached" = 0 ] || fail "$cached tokens of another prompt were there"
same third want3
stop
from_disk 2 $(((blocks - 1) * 64))
[ "$(number hearth:restored_tokens_total)" -ge $(((blocks - 1) * 64)) ] || fail "nothing came from disk"
get 1 first
same first want1
stop

# ---- with a budget, and another micro-batch
from_disk 1 $((blocks * 64)) --ram min -ub 32
stop

# ---- what the KV cache's format changes is not the same
start "${usual[@]}" --prefix-cache "$cache" -ctk f32
get 1 other
[ "$cached" = 0 ] || fail "keys of another format were taken"
stop

# ---- damage: files that are cut short, have other bytes, or are not ours. They go, it is said once, and the text is the same
damage() {
    start "${usual[@]}" --prefix-cache "$cache"
    get 1 first
    same first want1
    saved 1 # in the place of a damaged one
    stop
    [ "$(grep -c 'block is damaged' "$tmp/log")" = 1 ] || fail "damage ($1): $(cat "$tmp/log")"
}
mapfile -t files < <(find "$cache" -name '*.hearthkv')
for file in "${files[@]}"; do truncate -s 1000 "$file"; done
damage "cut short"
if [ "$sanitized" = 0 ]; then # test_kv_block has these and more
mapfile -t files < <(find "$cache" -name '*.hearthkv')
for file in "${files[@]}"; do printf 'x' | dd of="$file" bs=1 seek=2000 conv=notrunc 2>/dev/null; done
damage "other bytes"
mapfile -t files < <(find "$cache" -name '*.hearthkv')
for file in "${files[@]}"; do cp "$model" "$file"; done
damage "foreign"
mapfile -t files < <(find "$cache" -name '*.hearthkv')
cp "${files[0]}" first_block # each in the next one's place, as nobody knows which is a prompt's first
for i in "${!files[@]}"; do cp "${files[$((i + 1))]:-first_block}" "${files[$i]}"; done
damage "exchanged"
fi
echo mine >"$cache/notes.txt"

# ---- killed while it writes, at any time: the next one gives the same bytes
for i in $(seq $kills); do
    [ $((i % 3)) = 1 ] && find "$cache" -name '*.hearthkv' -delete
    start "${usual[@]}" --prefix-cache "$cache"
    get $((i % 3 + 1)) killed
    same killed want$((i % 3 + 1))
    sleep "0.00$((RANDOM % 10))"
    kill -KILL "$server"
    { wait "$server"; } 2>/dev/null
done
start "${usual[@]}" --prefix-cache "$cache"
for i in 1 2 3; do
    get $i after
    same after want$i
done
stop
grep -q damaged "$tmp/log" && fail "a killed server left a damaged file"

# ---- two servers at once
find "$cache" -name '*.hearthkv' -delete
start "${usual[@]}" --prefix-cache "$cache"
one=$base one_server=$server
start "${usual[@]}" --prefix-cache "$cache"
two=$base
base=$one
get 3 third
saved $blocks
base=$two
get 3 third
[ "$cached" -ge 64 ] || fail "what another server wrote is not found"
same third want3
base=$one get 1 first &
client=$!
base=$two get 1 second
wait "$client" || fail "a client"
same first want1
same second want1
stop
server=$one_server
stop

# ---- a bound: what was used last stays
size=$(stat -c %s "$(find "$cache" -name '*.hearthkv' | head -n 1)")
start "${usual[@]}" --prefix-cache "$cache" --prefix-cache-size $((size * 3))
for i in 1 3 2; do
    get $i bound
    same bound want$i
done
all_saved
stop
[ "$(find "$cache" -name '*.hearthkv' | wc -l)" -le 3 ] || fail "more than the bound: $(ls -l "$cache")"
start "${usual[@]}" --prefix-cache "$cache" --prefix-cache-size $((size * 3))
get 2 bound
same bound want2
[ "$cached" -ge 64 ] || fail "the beginning of the prompt that was used last is gone"
stop
[ -f "$cache/notes.txt" ] || fail "a file of somebody else was removed"

# ---- folders that do not serve: one warning, and all goes on
# refuses FOLDER
refuses() {
    start "${usual[@]}" --prefix-cache "$1" "${@:2}"
    for i in 1 2; do
        get $i without
        same without want$i
    done
    stop
    [ "$(grep -c 'not kept on disk' "$tmp/log")" = 1 ] || fail "--prefix-cache $1: $(cat "$tmp/log")"
}
echo >file
refuses "$tmp/file/cache"
mkdir open && chmod 777 open
refuses "$tmp/open"
refuses "$cache" --prefix-cache-size 1K

# ---- a full disk
mkdir full
# shellcheck disable=SC2016
if unshare --mount --map-root-user sh -c 'mount -t tmpfs -o size=64k none "$1"' sh "$tmp/full" 2>/dev/null; then
    hearth_itself=$hearth
    printf '#!/bin/sh\nexec unshare --mount --map-root-user sh -c '\''mount -t tmpfs -o size=64k,mode=700 none "%s" && exec "%s" "$@"'\'' sh "$@"\n' \
        "$tmp/full" "$hearth" >"$tmp/hearth_full"
    chmod +x "$tmp/hearth_full"
    hearth=$tmp/hearth_full
    refuses "$tmp/full"
    hearth=$hearth_itself
fi
exit 0
