#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Commands that write models end with the command that comes next, which does: each is run as it was printed.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
cd "$tmp" || exit 1
mkdir "it's here"
model="it's here/a model.gguf"
cp "$golden/llama-mha.F32.gguf" "$model"
export HEARTH_MACHINE=oneplus-12 # which needs no measuring
head -c 15000 "$source_dir/docs/cli.md" >text.txt
export HEARTH_PREDICT=8 HEARTH_STEPS=2 # no more of a text, or of training

# next COMMAND: runs what the last command said, which begins so.
next() {
    local line
    line=$(sed -n 's/^hearth: next: hearth //p' "$tmp/err")
    case $line in
    "$1 "*) ;;
    *) fail "the next command is not hearth $1: $line" ;;
    esac
    eval "run 0 $line"
}

# From a model of the SiLU family to a pack that streams by neuron.
run 0 profile "$model" -f text.txt -o "${model%.gguf}.profile" --sparsity-threshold 37.5%
err_has " -f text.txt "
err_has "--sparsity-threshold 37.5%"
next train-predictors
next pack
[ -s "${model%.gguf}.hearth.gguf" ] || fail "no pack at the end"
next plan
# A text that is too short to train with says enough for a pack with its gates apart.
head -c 4000 text.txt >short.txt
run 0 profile "$model" -f short.txt -o short.profile --sparsity-threshold 40%
err_has "a model.hearth.gguf' --profile short.profile --gates-apart"
next pack
err_has "such as hearth run 'a model.hearth.gguf' --sparsity-threshold 40%"
next plan
rm "a model.hearth.gguf" short.profile
# A model with predictors and no profile beside it gets one.
rm "${model%.gguf}.profile"
run 0 profile "$model" -f - -o "p.profile" --sparsity-threshold 0.25 -c 64 <text.txt
err_has " -f TEXT "
err_has " -c 64 --sparsity-threshold 0.25"
mv p.profile kept
run 0 train-predictors "$model" -f text.txt -o "p q.gguf" --sparsity-threshold 0.01
err_has "--sparsity-threshold 0.01"
next profile
[ -s "a model.profile" ] || fail "the profile is not in the folder of the model with predictors"
next pack
[ -s "p q.hearth.gguf" ] || fail "the pack is not in the folder of the profile"
# One that there is already is not made again, whatever it is called; one of another model is no profile.
rm "a model.profile"
run 0 profile "$golden/qwen3.Q8_0.gguf" -f text.txt -o another.profile --sparsity-threshold 0.25
run 0 train-predictors "$model" -f text.txt -o "p q.gguf" --sparsity-threshold 0.01
err_has "next: hearth profile "
mv kept another.profile
run 0 train-predictors "$model" -f text.txt -o "p q.gguf" --sparsity-threshold 0.01
err_has "next: hearth pack 'p q.gguf' 'a model.hearth.gguf' --profile another.profile"
next pack

# Of the ReLU family, gates say which neurons are active. What comes next goes where the profile went.
mkdir profiles
run 0 profile "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" -f text.txt -o profiles/n.profile
err_has "profiles/hearth-novels-drelu-Q8_0.hearth.gguf --profile profiles/n.profile --gates-apart"
next pack
next plan
run 0 pack "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" plain.gguf
err_has "--gates-apart lets the gates say it"

run 0 quantize "$model" "$tmp/-q8.gguf" Q8_0
next run
[ -s "$tmp/out" ] || fail "no text"
run 0 quantize "$model" q8.gguf Q8_0 -q
[ -s "$tmp/err" ] && fail "-q is not quiet"
run 0 synth tiny-dense d.gguf
next run
run 0 synth --shape tiny-turbosparse s.gguf
next plan
exit 0
