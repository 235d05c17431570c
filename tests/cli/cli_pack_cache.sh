#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --pack: a model that does not fit and that a pack makes faster is packed once, into a cache folder, if the options or
# the person at the terminal want it; the pack is found again, and thrown away when it is of no use; texts are the same.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

model=$tmp/model.gguf
cache=$XDG_CACHE_HOME/hearth
run 0 synth small-turbosparse "$model"
usual=(-p w12 -n 4 -ub 8 -t 1 --io pread --ignore-eos --temp 0)
run 0 run "$model" "${usual[@]}" --logits-out "$tmp/want"
run 1 run "$model" "${usual[@]}" --ram 1M
least=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$tmp/err")
ram=$((least + 30 * 1024 * 1024))
tight=("${usual[@]}" --ram "$ram" --logits-out "$tmp/logits")
err_lacks "pack"

packs() { # how many packs are in the cache, and nothing else
    local n
    n=$(find "$cache" -name '*.hearth.gguf' 2>/dev/null | wc -l)
    [ "$(find "$cache" -type f 2>/dev/null | wc -l)" -eq "$n" ] || fail "there are other files than packs in the cache"
    echo "$n"
}
logits_are_the_same() {
    same "$tmp/logits" "$tmp/want"
    rm "$tmp/logits"
}

# ---- not asked for: neither in a pipe nor with "never"; but a hint, once
run 0 run "$model" "${tight[@]}" -q </dev/null
err_lacks "pack"
run 0 run "$model" "${tight[@]}" </dev/null
hint="this model has predictors: --pack auto makes a pack of it in $cache ("
grep -qF "$hint" "$tmp/err" || skip "a pack of so small neurons is not better on this file system"
[ "$(grep -c -e --pack "$tmp/err")" -eq 1 ] || fail "the hint is not there once"
err_has "once, that reads about"
err_has "; --pack-dir DIR: elsewhere), once"
run 0 run "$model" "${tight[@]}" -v --pack never
err_lacks "this model has predictors"
run 0 run "$model" "${usual[@]}" --pack auto
[ "$(packs)" -eq 0 ] || fail "a pack without being asked for"
run 2 run "$model" "${usual[@]}" --pack maybe
err_has "one of auto, ask, never"

# ---- hearth plan tells what a pack would bring, and plans for it with "auto" though it is not there
plan() { run 0 plan "$model" -c 64 -ub 8 --machine oneplus-12 "$@"; }
plan --json
budget=$((($(json "$tmp/out" least_bytes) + 3 * $(json "$tmp/out" whole_bytes)) / 4))
plan --ram $budget --json
[ "$(json "$tmp/out" pack)" = null ] || fail "a plan for a pack that is not there"
unpacked=$(json "$tmp/out" tokens_per_second)
packed=$(json "$tmp/out" packed/tokens_per_second)
awk -v p="$packed" -v u="$unpacked" 'BEGIN { exit !(p > u) }' || fail "a pack brings nothing: $packed against $unpacked"
plan --ram $budget
tr -s '\n ' ' ' <"$tmp/out" >"$tmp/line"
grep -qF " hearth run offers to make the pack in $cache, and makes it with --pack auto (" "$tmp/line" || fail "plan does not tell of packs"
[ "$(grep -A 3 "packed, with" "$tmp/out" | awk "{ print length }" | sort -n | tail -1)" -le 80 ] || fail "more than 80 columns"
plan --ram $budget --pack never
grep -q "packed, with" "$tmp/out" && fail "plan --pack never tells of packs"
plan --ram all
grep -q "packed, with" "$tmp/out" && fail "a pack of a model that fits"
plan --min-speed "$packed" --json
[ "$(json "$tmp/out" packed/ram_bytes)" -lt "$(json "$tmp/out" ram_bytes)" ] || fail "a pack needs more memory"
plan --min-speed 0.001 # the model itself does with less
grep -q "packed, with" "$tmp/out" && fail "a pack that needs more memory"
plan --ram $budget --json --pack auto
err_has "planned for a pack of the model that is not there yet: hearth run --pack auto writes it to $cache, once ("
[ "$sanitized" -ne 0 ] || [ "$(json "$tmp/out" tokens_per_second)" = "$packed" ] || fail "the plan for a pack is not what was said of it"
[ "$(packs)" -eq 0 ] || fail "plan writes packs"
# A budget in which only the pack runs.
plan --ram min --json
least=$(json "$tmp/out" least_bytes)
plan --ram min --json --pack auto
if [ "$(json "$tmp/out" least_bytes)" -lt "$least" ]; then
    run 1 plan "$model" -c 64 -ub 8 --machine oneplus-12 --ram "$(json "$tmp/out" least_bytes)"
    err_has "packed, with "
fi

# ---- auto: once
run 0 run "$model" "${tight[@]}" --pack auto
err_has "writing a pack of the model to $cache, once ("
err_has "; --pack-dir DIR: elsewhere)"
err_has "using a pack of the model, $cache/"
[ "$(packs)" -eq 1 ] || fail "no pack"
logits_are_the_same
pack=$(echo "$cache"/*.hearth.gguf)
before=$(stat -c %Y.%i "$pack")
run 0 run "$model" "${tight[@]}" --stats json --pack auto
err_lacks "writing a pack"
err_has "using a pack of the model"
logits_are_the_same
[ "$(stat -c %Y.%i "$pack")" = "$before" ] || fail "packed twice"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" streaming/neurons_cached)" -gt 0 ] || fail "the pack does not stream by neuron"
run 0 run "$model" "${tight[@]}" --pack never
err_lacks "using a pack"
logits_are_the_same
run 0 run "$model" "${usual[@]}"
err_lacks "using a pack"
run 0 chat "$model" --chat-template chatml -st -p w12 -n 4 -ub 8 -t 1 --io pread --temp 0 --ram "$ram" --pack auto
err_has "using a pack of the model"
# Where it is of no use, the model is.
run 0 run "$model" "${tight[@]}" --sparsity off
err_lacks "using a pack"
run 0 run "$pack" "${tight[@]}" --sparsity off -v
err_has "--sparsity off reads whole layers of this pack; auto reads single neurons"
run 0 inspect "$pack" --verify
out_has "hearth.pack.source.fingerprint"
# It is the model's wherever that lies, whatever it is called and whenever it was written.
cp "$model" "$tmp/moved.gguf"
touch "$model"
for file in "$model" "$tmp/moved.gguf"; do
    run 0 run "$file" "${tight[@]}" </dev/null
    err_has "using a pack of the model, $pack"
    logits_are_the_same
done
[ "$(stat -c %Y.%i "$pack")" = "$before" ] || fail "packed twice"

# ---- a plan is for the pack that run uses
plan --ram $budget --json
err_has "planned for a pack of the model, $pack"
[ "$(json "$tmp/out" pack)" = "$pack" ] || fail "the pack's name"
[ "$sanitized" -ne 0 ] || [ "$(json "$tmp/out" tokens_per_second)" = "$packed" ] || fail "the pack is not what was planned"
plan --ram $budget --json --pack never
[ "$(json "$tmp/out" tokens_per_second)" = "$unpacked" ] || fail "--pack never"
plan --ram $budget --json --pack-dir "$tmp/no-such-folder"
[ "$(json "$tmp/out" tokens_per_second)" = "$unpacked" ] || fail "--pack-dir"
rm -rf "$tmp/no-such-folder"
plan --ram all --json
[ "$(json "$tmp/out" pack)" = null ] || fail "a pack of a model that fits"

# ---- the other commands that have it, and the environment
run 0 bench "$model" -p 8 -n 4 -npl 1 -r 1 --roof 0 -ub 8 -t 1 --io pread --ram "$ram"
err_has "using a pack of the model"
run 0 perplexity "$model" -f "$source_dir/README.md" -c 32 --chunks 1 -ub 8 -t 1 --io pread --ram "$ram"
err_has "using a pack of the model"
HEARTH_PACK=auto HEARTH_PACK_DIR=$tmp/elsewhere run 0 run "$model" "${tight[@]}"
err_has "using a pack of the model, $tmp/elsewhere/"
rm -r "$tmp/elsewhere"

# ---- what is there may be no pack of the model: what is damaged is removed, other things give way to a pack
replaced() { # COMMAND...: what becomes of the pack; then it is made anew
    "$@"
    run 0 run "$model" "${tight[@]}" --pack auto
    err_has "using a pack of the model"
    logits_are_the_same
    [ "$(packs)" -eq 1 ] || fail "after $*: $(packs) packs"
    run 0 inspect "$pack" --verify
}
for size in 1000000 10; do
    replaced truncate -s $size "$pack"
    run 0 inspect "$pack" --verify
    truncate -s $size "$pack"
    run 0 run "$model" "${tight[@]}" </dev/null
    err_has "the pack is damaged; it is removed"
    logits_are_the_same
    [ "$(packs)" -eq 0 ] || fail "a damaged pack stays"
    run 0 run "$model" "${tight[@]}" --pack auto
    logits_are_the_same
done
replaced cp "$model" "$pack"
run 0 pack "$model" "$tmp/plain.hearth.gguf"
replaced cp "$tmp/plain.hearth.gguf" "$pack"
cp "$tmp/plain.hearth.gguf" "$pack"
run 0 run "$model" "${tight[@]}" </dev/null
err_lacks "using a pack"
same "$tmp/plain.hearth.gguf" "$pack" # it may be somebody's
rm "$tmp/logits"
replaced rm "$pack"
chmod g+w "$pack"
run 0 run "$model" "${tight[@]}" </dev/null
err_has "is not used: others may write to it"
err_lacks "using a pack"
logits_are_the_same
chmod g-w "$pack"
# One that is damaged where only checksums see it.
cp "$pack" "$tmp/good"
printf 'damage' | dd of="$pack" bs=1 seek=20000000 conv=notrunc status=none
run 0 run "$model" "${tight[@]}" --verify
err_has "the pack is damaged"
err_lacks "using a pack"
logits_are_the_same
[ "$(packs)" -eq 0 ] || fail "a damaged pack stays"

# ---- what goes wrong: the model itself will do
(
    trap '' XFSZ
    ulimit -f 20000
    run 0 run "$model" "${tight[@]}" --pack auto
) || exit 1
err_has "the model is not packed: "
logits_are_the_same
[ "$(packs)" -eq 0 ] || fail "a full disk leaves a pack"
if unshare -rm true 2>/dev/null; then # a disk without room
    mkdir "$tmp/disk"
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare -rm bash -c 'mount -t tmpfs -o size=20M none "$1" && shift && "$@"' bash "$tmp/disk" \
        "$hearth" pack "$model" "$tmp/disk/out" >"$tmp/out" 2>"$tmp/err" && fail "a pack on a small disk"
    err_has "No space left on the disk: the pack takes"
fi
echo >"$tmp/file"
run 0 run "$model" "${tight[@]}" --pack auto --pack-dir "$tmp/file/folder"
logits_are_the_same
(
    unset XDG_CACHE_HOME HOME
    run 0 run "$model" "${tight[@]}" --pack auto
) || exit 1
logits_are_the_same

# ---- questions
play() { # STATUS ARGUMENT...
    local wanted=$1 status=0
    shift
    "$PLAY_TERMINAL" -w 800 "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status -eq 77 ] && exit 0
    [ "$status" -eq "$wanted" ] || fail "$*: exit status $status instead of $wanted"
}
question="Write it to"
play 0 "$hearth" run "$model" "${usual[@]}"
grep -qF "$question" "$tmp/out" && fail "a question although the model fits"
play 0 bash -c '"$@" </dev/null' bash "$hearth" run "$model" "${tight[@]}"
play 0 bash -c '"$@" | cat' bash "$hearth" run "$model" "${tight[@]}"
# shellcheck disable=SC2016
play 0 bash -c '"$@" 2>"$0"' "$tmp/file" "$hearth" run "$model" "${tight[@]}"
play 0 "$hearth" run "$model" "${tight[@]}" -q
play 0 "$hearth" run "$model" "${tight[@]}" --pack never
out_lacks_question() { grep -qF "$question" "$tmp/out" && fail "a question in a pipe"; }
out_lacks_question
[ "$(packs)" -eq 0 ] || fail "a pack without an answer"

# Ctrl-C, the end of input, an answer that is none, no.
play 130 -c "[Y/n]" "$hearth" run "$model" "${tight[@]}"
[ "$(packs)" -eq 0 ] || fail "a pack after Ctrl-C"
play 0 -a "[Y/n]=perhaps" -s "[Y/n] perhaps" -a "yes or no?=y" "$hearth" run "$model" "${tight[@]}"
out_has "using a pack of the model"
[ "$(grep -cF "$question" <(sed '/^--- end/,$!d' "$tmp/out"))" -eq 2 ] || fail "it is not asked again"
[ "$(packs)" -eq 1 ] || fail "no pack after yes"
# What one decides on is said before, not after.
out_has "It has no profile"
out_has "the model's file stays, and is still needed"
tr -s '\n ' '  ' <"$tmp/out" | grep -qF "Write it to $cache, once (" || fail "the question does not name the folder"
tr -s '\n ' '  ' <"$tmp/out" | grep -qF -- "--pack-dir DIR: elsewhere)?" || fail "the question does not say how to choose another folder"
play 0 "$hearth" run "$model" "${tight[@]}"
grep -qF "$question" "$tmp/out" && fail "it is asked although there is a pack"
rm "$pack"
play 0 -a "[Y/n]=" "$hearth" run "$model" "${tight[@]}"
out_has "using a pack of the model"
rm "$pack"
play 0 -a "[Y/n]=n" "$hearth" run "$model" "${tight[@]}"
out_has "this is not asked again for this model"
play 0 "$hearth" run "$model" "${tight[@]}"
grep -qF "$question" "$tmp/out" && fail "it is asked again after no"
out_has "--pack auto"
rm "$cache"/*.declined

# Where this machine was measured, the question has speeds.
know_machine
play 0 -a "[Y/n]=n" "$hearth" run "$model" "${tight[@]}"
grep -qE "a pack of this model runs at about [0-9.]+ tok/s in place of [0-9.]+ and reads " "$tmp/out" || fail "a question without speeds"
rm "$cache"/*.declined
run 0 run "$model" "${tight[@]}" </dev/null
grep -qE "that runs at about [0-9.]+ tok/s in place of [0-9.]+ and reads [0-9.]+ [KMG]iB for a token in place of " "$tmp/err" || fail "a hint without speeds"
rm "$cache"/probe-*.txt

# While it is packed: Ctrl-C leaves nothing. On a busy machine all may be over before the key is pressed: then once more.
for try in 1 2 3 4 5 6 7 8; do
    status=0
    "$PLAY_TERMINAL" -w 800 -a "[Y/n]=" -c "Write it to" "$hearth" run "$model" "${tight[@]}" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status -eq 0 ] || break
    rm "$pack"
done
[ "$status" -eq 130 ] || fail "a packer that is stopped: exit status $status at the ${try}th time"
[ "$(packs)" -eq 0 ] || fail "a stopped packer left something"
exit 0
