#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Usage errors and their hints, help, man pages, completion.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$golden/llama-mha.F32.gguf

# ---- exit status 2 and a hint
run 2
err_has "a command is missing"
out_has "talk with a model"
run 2 rnu "$model"
err_has "unknown command rnu; did you mean run?"
run 2 xyzzyx
err_has "unknown command xyzzyx"
err_lacks "did you mean"
run 2 "$model"
err_has "$model is no command but a file: hearth run FILE or hearth chat FILE"
run 2 run
err_has "MODEL is missing"
run 2 run "$model" --tmep 0
err_has "unknown option --tmep; did you mean --temp?"
run 2 run "$model" --n-pedict 3
err_has "did you mean --n-predict?"
run 2 run "$model" --qqqqqq
err_has "unknown option --qqqqqq"
err_lacks "did you mean"
run 2 chat "$model" --system x
err_has "did you mean one of --system-prompt (-sys), --system-prompt-file (-sysf)?"
for command in run chat; do
    run 2 $command "$model" --tools tools.json
    err_has "--tools: hearth chat and run have no tools; hearth serve takes them in requests, in the field tools"
done
run 0 run "$model" -p a -n 1 -t 0
run 2 run "$model" -npl 4
err_has "-npl is an option of hearth bench, not of hearth run"
run 2 run "$model" --top-p 3
err_has "--top-p 3: must be a number from 0 to 1"
run 2 run "$model" --top-p=nan
err_has "must be a number"
run 2 run "$model" -n -2
err_has "-n -2: must be a whole number from -1"
run 2 run "$model" -n 99999999999999999999
run 2 run "$model" -n 5x
err_has "-n 5x"
run 2 run "$model" -n
err_has "-n needs a whole number"
run 2 run "$model" -n ""
run 2 run "$model" -np 0
err_has "from 1 to 256"
run 2 run "$model" -ctk q3
err_has "must be one of f16, f32, q8_0"
run 2 run "$model" --cpu avx1024
err_has "must be one of auto, c"
levels=$(cat "$tmp/err")
level=$("$hearth" --version | sed -n 's/.*(\(.*\))$/\1/p')
run 0 run "$model" -p a -n 1 --cpu "$level"
case $level,$levels in
c,*amx* | avx2,* | avxvnni,* | avx512,*)
    run 2 run "$model" --cpu amx
    err_has "--cpu amx: this CPU does not have these instructions; its level is $level"
    ;;
amx,*) run 0 run "$model" -p a -n 1 --cpu avx512 ;;
dotprod,* | i8mm,*) run 0 run "$model" -p a -n 1 --cpu neon ;;
esac
run 2 run "$model" --ignore-eos=1
err_has "--ignore-eos takes no value"
run 2 run "$model" -p a -f b
err_has "exclude each other"
run 2 bench "$model" -npl 1,2,x
run 2 bench "$model" -npl 1,0
run 2 bench "$model" --roof 3X
err_has "a size such as"
run 2 bench "$model" -p 0 -n 0
err_has "nothing to measure"
run 2 perplexity "$model"
err_has "-f is missing"
run 2 quantize in.gguf out.gguf q9_9
err_has "cannot write type q9_9; one of"
run 2 quantize in.gguf Q8_0
err_has "OUT is missing: hearth quantize in.gguf OUT Q8_0"
run 2 perplexity in.gguf text.txt
err_has "-f text.txt gives the text"
run 2 detokenize in.gguf 1 2
err_has "ids come from standard input"
run 2 -m in.gguf -p x
err_has "a command is missing before -m; did you mean hearth run?"
run 0 --help all
out_has "Usage: hearth COMMAND"
run 2 quantize in.gguf
err_has "OUT is missing"
run 2 --generate nonsense
out_is_empty

# ---- samplers by llama.cpp's letters
run 0 run "$model" -p a -n 4 --seed 3 --top-k 3 --sampler-seq kt
cp "$tmp/out" "$tmp/letters"
run 0 run "$model" -p a -n 4 --seed 3 --top-k 3 --samplers "top_k;temperature"
same "$tmp/out" "$tmp/letters"
run 2 run "$model" -p a -n 1 --sampling-seq kq
err_has "letters of edskypmxt, not kq"

# ---- help
commands="run chat serve bench perplexity embed tokenize detokenize inspect quantize convert synth profile sparsify train-predictors pack plan"
run 0 --help
for command in $commands; do
    out_has "  $command "
    "$hearth" "$command" --help >"$tmp/first" 2>"$tmp/err" || fail "hearth $command --help"
    [ "$(wc -l <"$tmp/first")" -le 23 ] || fail "hearth $command --help does not fit 24 lines and a prompt"
    LC_ALL=C awk '{ gsub(/[\200-\277]/, "") } length > 80 { exit 1 }' "$tmp/first" || fail "hearth $command --help does not fit 80 columns"
    "$hearth" help "$command" | cmp - "$tmp/first" || fail "hearth help $command differs from --help"
    "$hearth" "$command" --help all >"$tmp/help" 2>"$tmp/err" || fail "hearth $command --help all"
    # What is on the first screen is in the other, too.
    while read -r option; do
        grep -qE -- "^  ([^ ]+, )?${option}[ ,]" "$tmp/help" || grep -qxE -- " .*$option" "$tmp/help" || fail "hearth $command has no $option"
    done < <(sed -nE 's/^  (--?[a-z-]+).*/\1/p' "$tmp/first")
    [ -s "$tmp/err" ] && fail "hearth $command --help writes to standard error"
    "$hearth" help "$command" all | cmp - "$tmp/help" || fail "hearth help $command all differs from --help all"
    LC_ALL=C awk '{ gsub(/[\200-\277]/, "") } length > 80 { exit 1 }' "$tmp/help" || fail "hearth $command --help all has lines over 80 columns"
    # No text is cut off, in help or in the man page: each parenthesis is closed.
    "$hearth" --generate man "$command" >"$tmp/man" || fail "no man page of hearth $command"
    for text in "$tmp/help" "$tmp/man"; do
        [ "$(tr -cd '(' <"$text" | wc -c)" = "$(tr -cd ')' <"$text" | wc -c)" ] || fail "a text of hearth $command is cut off"
    done
    # Every option must be in the documentation.
    while read -r option; do
        grep -qF -- "\`$option" "$source_dir"/docs/{cli,chat,serve}.md || fail "docs/ does not have $option of hearth $command"
    done < <(sed -nE 's/^  (-[^ ]+ )?(--?[a-z-]+).*/\2/p' "$tmp/help")
done
run 0 run --help all
tr -s ' \n' '  ' <"$tmp/out" | grep -qF "threads; -1 or 0: one per physical core" || fail "-t 0 is not told"
for command in run serve bench; do
    run 0 $command --help all
    tr -s ' \n' '  ' <"$tmp/out" | grep -qF "not counted are the program's own pages, about 9 MiB" ||
        fail "hearth $command does not tell what --ram does not count"
done
run 0 plan --help
out_has "memory to plan for: 4G, 80%, min (default: what is free)"
run 0 run --help
out_has "memory to use: 4G, 80%, min; the model may be larger"
out_has "  --pack WHEN "
out_has "in --pack-dir DIR"
out_has "  --sparsity-threshold X "
run 0 perplexity --help
out_has "  --sparsity-threshold X "
run 0 chat --help
out_has "-n, --predict N "
out_has "  -j SCHEMA "
out_has "/save, /load"
out_has "  --load FILE "
out_has "  --save FILE "
run 0 serve --help
for path in /v1/chat/completions /v1/messages /metrics; do
    out_has $path
done
run 0 --version
out_has "hearth "

# ---- generated files
for command in '' $commands; do
    # shellcheck disable=SC2086
    "$hearth" --generate man $command >"$tmp/page.1" || fail "no man page of '$command'"
    if command -v man >/dev/null 2>&1 && command -v groff >/dev/null 2>&1; then
        warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$tmp/page.1" 2>&1 >/dev/null)
        [ -z "$warnings" ] || fail "man page of '$command': $warnings"
    fi
done
"$hearth" --generate bash >"$tmp/hearth.bash" || fail "no bash completion"
complete_words() {
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hearth 2>/dev/null; echo "${COMPREPLY[@]}"' \
        bash "$tmp/hearth.bash" "$@"
}
[ "$(complete_words hearth tok)" = tokenize ] || fail "bash completes hearth tok to: $(complete_words hearth tok)"
[ "$(complete_words hearth run m --top-)" = "--top-k --top-p --top-nsigma" ] || fail "bash completion of --top-"
[ "$(complete_words hearth run m -ctk q)" = q8_0 ] || fail "bash completion of -ctk"
case $(complete_words hearth synth tiny-t) in "tiny-turbosparse "*) ;; *) fail "bash completion of presets" ;; esac
[ "$(complete_words hearth quantize a b Q5_K)" = "Q5_K_S Q5_K_M" ] || fail "bash completion of types"
[ "$(complete_words hearth convert a b Q5_K)" = "Q5_K_S Q5_K_M" ] || fail "bash completion of convert's types"
[ "$(complete_words hearth help to)" = tokenize ] || fail "bash completion of help"
[ "$(complete_words hearth run m --throttle ufs)" = "ufs4 ufs3" ] || fail "bash completion of --throttle"
mkdir "$tmp/models" && touch "$tmp/models/a.gguf" "$tmp/models/a.md" "$tmp/models/a.htrace"
[ "$(complete_words hearth run "$tmp/models/a")" = "$tmp/models/a.gguf" ] || fail "bash completion of models"
[ "$(complete_words hearth plan --simulate "$tmp/models/a.h")" = "$tmp/models/a.htrace" ] || fail "bash completion of traces"
[ "$(complete_words hearth pack m.gguf "$tmp/models/a.m")" = "$tmp/models/a.md" ] || fail "bash completion of other files"
if command -v zsh >/dev/null 2>&1; then
    "$hearth" --generate zsh >"$tmp/_hearth" || fail "no zsh completion"
    zsh -n "$tmp/_hearth" || fail "zsh completion"
fi
if command -v fish >/dev/null 2>&1; then
    "$hearth" --generate fish >"$tmp/hearth.fish" || fail "no fish completion"
    fish -n "$tmp/hearth.fish" || fail "fish completion"
fi

# ---- make demo builds the program alone, make test everything
if command -v make >/dev/null; then
    env -u MAKEFLAGS make -n -C "$source_dir" demo BUILD="$tmp/build" >"$tmp/out" 2>&1
    out_has "--target hearth-cli"
    env -u MAKEFLAGS make -n -C "$source_dir" test BUILD="$tmp/build" >"$tmp/out" 2>&1
    grep -q -- "--target" "$tmp/out" && fail "make test builds a part"
fi
exit 0
