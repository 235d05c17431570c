#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Options: those of llama.cpp, suggestions, environment variables, sizes, prompts without -p.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.Q8_0.gguf
prompt="Once upon a time"

# ---- every option of llama.cpp is taken with its value, or refused with a reason
while read -r command kind names; do
    [ "$command" = '#' ] && continue
    for name in $names; do
        status=0
        said=$("$hearth" "$command" "$name" --next --last 2>&1 </dev/null) || status=$?
        case $kind:$status:$said in
        *:2:*"unknown option $name"* | *:2:*"is an option of"*) fail "hearth $command does not know $name" ;;
        *:2:*"error: $name: "*) ;; # refused
        flag:0:* | flag:2:*"unknown option --next"*) ;;
        maybe:2:*"unknown option --next"*) ;;
        value:2:*"unknown option --last"* | value:2:*"$name --next: "*) ;;
        *) fail "hearth $command $name, a $kind: $said" ;;
        esac
    done
done <"$(dirname "$0")/llama_options.txt"

# ---- those that change nothing are named in one line, and are not mistaken for prompts
run 0 run "$model" -p "$prompt" -n 6 --temp 0 -q
cp "$tmp/out" "$tmp/want"
run 0 run -fa -m "$model" -p "$prompt" -n 6 --temp 0 -no-cnv -sm none -b 2048 --mlock --prio 2 -lm mmap --jinja -td 2
same "$tmp/out" "$tmp/want"
err_has "without effect here: -fa, -no-cnv, -sm, -b, --mlock, --prio, -lm, --jinja, -td"
run 0 run "$model" -p "$prompt" -n 6 --temp 0 -ngl 99 -q
[ -s "$tmp/err" ] && fail "--quiet tells of options without effect"
for option in --no-perf --no-show-timings; do # that has an effect: no statistics, and the same text
    run 0 run "$model" -p "$prompt" -n 6 --temp 0 $option
    same "$tmp/out" "$tmp/want"
    err_lacks "tok/s"
    err_lacks "without effect"
    run 0 chat "$model" --chat-template vicuna -st -p x -n 2 -t 1 $option
    err_lacks "tok/s"
    err_lacks "without effect"
done
run 0 chat "$model" --chat-template vicuna -st -p x -n 2 -t 1
err_has "tok/s"
for option in "-hf user/repo" "-cnv" "--control-vector a.gguf" "--port 80" "--rope-scale 2" "--mmproj x" "-sys x"; do
    # shellcheck disable=SC2086
    run 2 run "$model" $option
    err_has "error: ${option%% *}: "
    err_lacks "did you mean"
done
run 2 run "$model" -hf user/repo
err_has "-hf: there is no download; give a GGUF file"
run 2 quantize "$model" "$tmp/new.gguf" Q4_0 --imatrix x
err_has "cannot use an importance matrix"
run 2 quantize "$model" "$tmp/new.gguf" Q4_0 8
err_has "-t 8 sets the number of threads"
for command in server pull list; do
    run 2 $command
    err_has "error: $command: "
done

# ---- those that change nothing because of others are named with the reason
run 0 run "$model" -p "$prompt" -n 6 --temp 0 --top-k 5 --top-p 0.5 --xtc-threshold 0.2 --dry-base 2 --repeat-last-n 9
same "$tmp/out" "$tmp/want"
err_has "without effect here: --top-k, --top-p (--temp 0 always takes the likeliest token)"
err_has "without effect here: --xtc-threshold (--xtc-probability is 0)"
err_has "without effect here: --dry-base (--dry-multiplier is 0)"
err_has "without effect here: --repeat-last-n (no penalty is given"
run 0 run "$model" -p "$prompt" -n 6 -s 1 --mirostat 2 --top-k 5 --min-p 0.1 --mirostat-ent 3
err_has "without effect here: --top-k, --min-p (--mirostat takes the place of all samplers)"
err_lacks "--mirostat-ent"
run 0 run "$model" -p "$prompt" -n 6 -s 1 --mirostat-lr 0.3 --predict-threshold 2
err_has "without effect here: --mirostat-lr (--mirostat is 0)"
err_has "without effect here: --predict-threshold (the model has no predictors)"
run 0 run "$model" -p "$prompt" -n 6 -s 1 --top-k 5 --xtc-threshold 0.2 --xtc-probability 0.1 --repeat-penalty 1.1 --repeat-last-n 9
err_lacks "without effect"
run 0 run "$model" -p "$prompt" -n 6 --temp 0 --top-k 5 --typical 0.9
err_lacks "without effect" # typical sampling may drop the likeliest token, and top-k decides what it sees
HEARTH_TOP_K=5 run 0 run "$model" -p "$prompt" -n 6 --temp 0 # set for good
err_lacks "without effect"
run 0 run "$model" -p "$prompt" -n 6 --temp 0 --top-k 5 -q
[ -s "$tmp/err" ] && fail "--quiet tells of options without effect"
run 0 plan "$model" --machine oneplus-12 --measure --cache-sizes 5 -c 64
err_has "without effect here: --measure (--machine says what the other machine can do)"
err_has "without effect here: --cache-sizes (--simulate TRACE is not given)"

# ---- tokens may be counted in thousands
run 0 run "$model" -p "$prompt" -n 6 --temp 0 -c 0k -q
same "$tmp/out" "$tmp/want"
run 0 plan "$model" --machine oneplus-12 --json -c 2k
cp "$tmp/out" "$tmp/k"
run 0 plan "$model" --machine oneplus-12 --json -c 2048
cp "$tmp/out" "$tmp/plain"
same "$tmp/plain" "$tmp/k"
[ -s "$tmp/k" ] || fail "a plan without figures"
for wrong in 1.5k k 4kb 8kk 99999999m 1g; do
    run 2 run "$model" -p "$prompt" -c $wrong
    err_has "-c $wrong: must be a whole number from 0"
    err_has ", such as 4096 or 8k"
done
run 2 run "$model" -p "$prompt" -s 1k
err_has "-s 1k: must be a whole number from -1"

# Values that may be missing are words, and a text is none; _ stands for - in long options; the line is never cut.
for value in on off auto enabled true 0 1 -1 on,off; do
    run 0 run -fa $value -m "$model" -p "$prompt" -n 6 --temp 0
    same "$tmp/out" "$tmp/want"
done
run 0 run "$model" -fa "$prompt" -n 6 --temp 0
same "$tmp/out" "$tmp/want"
run 0 run "$model" --n_predict 6 --temp=0 --no_mmap --prompt "$prompt"
same "$tmp/out" "$tmp/want"
err_has "without effect here: --no-mmap"
every=(--override-tensor exps=CPU --split-mode none --tensor-split 1 --main-gpu 0 --threads-batch 2 --cpu-mask 1 --cpu-range 0-1 --cpu-strict 1
    --cpu-mask-batch 1 --cpu-range-batch 0-1 --cpu-strict-batch 1 --prio-batch 0 --poll-batch 0 --numa isolate)
run 0 run "$model" -p "$prompt" -n 1 "${every[@]}"
err_has "--poll-batch, --numa"
run 2 run "$model" "$prompt" again.gguf
err_has "the model is $model (is it the prompt? use -p)"
run 2 perplexity "$model" again.gguf -f "$tmp/want"
err_has "unexpected argument \"again.gguf\": the model is $model"
err_lacks "-p"
run 2 run -f "$tmp/want" "$model" again
err_has "the prompt is in $tmp/want"

# ---- variables that are slips
HEARTH_CTX_SZE=100 run 0 run "$model" -p "$prompt" -n 1
err_has "the environment has HEARTH_CTX_SZE, which is no option's; did you mean HEARTH_CTX_SIZE?"
HEARTH_CTX_SIZE=100 HEARTH_GARDEN=1 HEARTH_REPETITIONS=2 run 0 run "$model" -p "$prompt" -n 1
err_lacks "the environment has"

# ---- folders and files in each other's place
run 1 run "$tmp" -p x
err_has "$tmp is a folder, in which there is no GGUF file (of a Hugging Face folder, hearth convert $tmp OUT.gguf makes one)"
mkdir "$tmp/models"
echo '{}' >"$tmp/models/config.json"
run 1 run "$tmp/models" -p x
err_has "$tmp/models is a folder as on Hugging Face: make a GGUF file of it: hearth convert $tmp/models OUT.gguf"
for name in b.gguf a-00002-of-00002.gguf d.gguf notes.txt a-00001-of-00002.gguf c.gguf; do
    : >"$tmp/models/$name"
done
run 1 run "$tmp/models" -p x
err_has "$tmp/models is a folder: give a GGUF file in it: a-00001-of-00002.gguf, b.gguf, c.gguf and 1 more"
run 1 convert "$tmp/want" "$tmp/new.gguf"
err_has "$tmp/want is a file: convert wants a folder as on Hugging Face, with config.json"
run 1 convert "$tmp/nowhere" "$tmp/new.gguf"
err_has "$tmp/nowhere: No such file"
echo "no model" >"$tmp/text.gguf"
run 1 run "$tmp/text.gguf" -p a
err_has "not a GGUF file: its first bytes are something else, whatever its name says"
mkdir "$tmp/folder"
run 1 convert "$tmp/folder" "$tmp/new.gguf"
err_has "$tmp/folder has no config.json: convert wants all files of a model as on Hugging Face"
cp "$model" "$tmp/folder/a.gguf"
run 1 convert "$tmp/folder" "$tmp/new.gguf"
err_has "needs no converting: hearth run $tmp/folder/a.gguf"

# ---- suggestions: what the text begins, then what is near, and nothing else
suggests() { # OPTION WORDS
    run 2 run "$model" "$1" 3
    err_has "unknown option $1; did you mean $2?"
}
suggests --ctx "--ctx-size (-c)"
suggests --top "one of --top-k, --top-p, --top-nsigma"
suggests --rep-penalty --repeat-penalty
suggests --paralel --parallel
for option in --zz -zq --qqqqqq -xx; do
    run 2 run "$model" $option 3
    err_has "unknown option $option"
    err_lacks "did you mean"
done

# ---- environment: any option, and the command line wins
run 0 run "$model" -p "$prompt" -n 3 --temp 0
cp "$tmp/out" "$tmp/three"
HEARTH_PREDICT=3 HEARTH_TEMP=0 run 0 run "$model" -p "$prompt"
same "$tmp/out" "$tmp/three"
HEARTH_MODEL=$model HEARTH_PROMPT=$prompt HEARTH_PREDICT=9 HEARTH_TEMP=0 HEARTH_QUIET=1 run 0 run -n 3
same "$tmp/out" "$tmp/three"
[ -s "$tmp/err" ] && fail "HEARTH_QUIET is not quiet"
HEARTH_MODEL=$tmp/none.gguf HEARTH_FILE=$tmp/none.txt run 0 run "$model" "$prompt" -n 3 --temp 0
same "$tmp/out" "$tmp/three"
HEARTH_TEMP='' HEARTH_QUIET=0 run 0 run "$model" -p "$prompt" -n 3 --temp 0
err_has "tok/s"
HEARTH_PROMPT=$prompt HEARTH_FILE=$tmp/none.txt run 0 run "$model" -n 3 --temp 0
same "$tmp/out" "$tmp/three"
HEARTH_OUTPUT=$tmp/variable run 2 profile "$model" -f "$tmp/three"
[ -e "$tmp/variable" ] && fail "a variable named a file to write"
HEARTH_TOP_P=3 run 2 run "$model" -p x
err_has "HEARTH_TOP_P=3: must be a number from 0 to 1"
HEARTH_VERBOSE=maybe run 2 run "$model" -p x
err_has "HEARTH_VERBOSE=maybe: must be 1 or 0"
LLAMA_ARG_N_PREDICT=x run 0 run "$model" -p x -n 1

# ---- sizes
for size in 2G 2g 2GB 2GiB 2gib 2147483648 "2 GB" 0.002T 90% auto min all; do
    run 0 run "$model" -p "$prompt" -n 3 --temp 0 --ram "$size"
    same "$tmp/out" "$tmp/three"
done
for size in 4X 4GiBs ALL 80%% x -1G 0% 101% 1e400 0x10; do
    run 2 run "$model" -p x --ram "$size"
    err_has "--ram $size: must be a size such as 900M or 4G, a share of this machine's memory such as 80%, min, all, or auto"
done
run 0 run "$model" -p "$prompt" -n 3 --temp 0 --ram 90%
grep -q '^hearth: --ram 90% is [0-9][0-9.]*[MG]$' "$tmp/err" || fail "what 90 % are is not said"
run 0 run "$model" -p "$prompt" -n 3 --temp 0 --ram 90% -q
err_lacks "90%"
run 2 run "$model" -p x --ram 5
err_has "--ram 5: that would be bytes; did you mean 5G or 5M?"
run 2 bench "$model" --roof 512
err_has "--roof 512: that would be bytes"
run 2 bench "$model" --roof 50%
err_has "--roof 50%: must be a size"

# ---- prompts: the second argument, standard input when nothing else is there
run 0 run "$model" "$prompt" -n 3 --temp 0 </dev/null
same "$tmp/out" "$tmp/three"
printf '%s\n' "$prompt" >"$tmp/prompt"
run 0 run "$model" -n 3 --temp 0 <"$tmp/prompt"
same "$tmp/out" "$tmp/three"
# Who waits for it says so.
mkfifo "$tmp/fifo"
: >"$tmp/err"
"$hearth" run "$model" -n 3 --temp 0 2>"$tmp/err" <"$tmp/fifo" >"$tmp/out" &
pid=$!
exec 5>"$tmp/fifo"
# shellcheck disable=SC2317 # until_true calls it
has_said() { grep -qF "the prompt is read from standard input" "$tmp/err" || ! kill -0 "$pid" 2>/dev/null; }
until_true has_said || fail "nothing says that standard input is waited for"
cat "$tmp/prompt" >&5
exec 5>&-
wait $pid || fail "a prompt that comes late"
same "$tmp/out" "$tmp/three"
err_has "the prompt is read from standard input"
# What else is there is not read: that is said, but for an empty prompt, which loops of a shell give.
printf 'another' >"$tmp/another"
run 0 run "$model" -p "$prompt" -n 3 --temp 0 <"$tmp/another"
same "$tmp/out" "$tmp/three"
err_has "standard input is not read, as there is a prompt"
run 0 run "$model" -p "" -n 3 --temp 0 <"$tmp/another"
err_lacks "is not read"
exec 5<>"$tmp/fifo" # with something in it, and no end
printf 'another' >&5
run 0 run "$model" -f "$tmp/prompt" -n 3 --temp 0 <"$tmp/fifo"
exec 5>&-
same "$tmp/out" "$tmp/three"
err_has "standard input is not read, as there is a prompt (-f - reads it in place of a file)"
run 0 run "$model" -p "$prompt" -n 3 --temp 0 </dev/null
err_lacks "is not read"
run 0 run "$model" -n 3 --temp 0 </dev/null
err_has "no prompt is given"
run 2 run "$model" Once upon
err_has 'unexpected argument "upon": the prompt is one argument, in quotes'
run 2 chat "$model" Once
err_has 'unexpected argument "Once": -p gives the first message'
run 2 run "$model" other.gguf
err_has "the model is $model"
run 2 run -m "$model" -m other.gguf
err_has "two models are given"

# ---- what is wrong is said before anything is loaded, what changes nothing is said
run 2 run "$tmp/none.gguf" -p x --samplers "top_k;foo"
err_has 'there is no sampler "foo"'
run 2 run "$tmp/none.gguf" -p x -l xyz
err_has "--logit-bias wants TOKEN+BIAS"
run 2 run "$model" -p x -n "$(printf '\t1')"
run 2 run "$model" -p x --repeat-penalty 0x1p1
err_has "must be a number from 0.01 to 100"
run 2 run "$tmp/none.gguf" -p x --logits-out -
err_has "give a file"
run 2 run "$tmp/none.gguf" -p x --throttle foo
err_has '"foo" is no kind of storage'
run 0 run "$model" -p x -n 1 --io pread
err_has "without effect here: --io"
run 0 run "$model" -p x -n 1 --io pread --throttle nvme --ram all
err_has "without effect here: --io, --throttle"
run 0 run "$model" -p "<s>Once" -n 1
err_has "the BOS token twice"
run 0 run "$model" -p "Once" -n 1
err_lacks "twice"
run 0 synth list
out_has "mistral-7b-dense "
cp "$tmp/out" "$tmp/presets"
[ "$(awk '{ print length }' "$tmp/out" | sort -n | tail -1)" -le 80 ] || fail "synth list is wide"
while read -r preset _; do # whether it says which have predictors
    rm -f "$tmp/preset.gguf"
    run 0 synth "$preset" "$tmp/preset.gguf"
    run 0 inspect "$tmp/preset.gguf"
    listed=$(grep "^$preset " "$tmp/presets" | grep -c "predictors")
    [ "$listed" = "$(grep -cm 1 -E 'fc1|predictors  +look' "$tmp/out")" ] || fail "synth list about predictors of $preset"
done < <(grep ^tiny "$tmp/presets")
mkdir "$tmp/here"
cd "$tmp/here" || exit 1
run 0 synth tiny-dense
err_has "tiny-dense.gguf: "
err_has "hearth run tiny-dense.gguf"
run 1 synth tiny-dense # what nobody named is not written over
err_has "tiny-dense.gguf is there: to write it anew, hearth synth tiny-dense tiny-dense.gguf"
run 0 synth tiny-dense tiny-dense.gguf
cd "$OLDPWD" || exit 1
run 1 synth tiny-dense "$tmp/new.gguf" --early-predictors
err_has "tiny-dense has no predictors"
run 0 run "$model" --version
out_has "hearth "
for option in -v -V --version version; do
    run 0 "$option"
    out_has "hearth "
done
exit 0
