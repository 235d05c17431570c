#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# zsh and fish complete sub-commands, options and their values, arguments and files, and say nothing else. Skipped where
# there is neither; bash: cli_usage.sh.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"

# What is typed, and what it becomes.
typed=("hearth tok" "hearth run m --top-n" "hearth run m -ctk q" "hearth run m --throttle nv" "hearth synth tiny-d"
    "hearth quantize a b Q8" "hearth help det" "hearth run $tmp/mod" "hearth plan --simulate $tmp/tra")
wanted=("hearth tokenize" "hearth run m --top-nsigma" "hearth run m -ctk q8_0" "hearth run m --throttle nvme"
    "hearth synth tiny-dense" "hearth quantize a b Q8_0" "hearth help detokenize" "hearth run $tmp/model.gguf"
    "hearth plan --simulate $tmp/trace.htrace")
touch "$tmp/model.gguf" "$tmp/trace.htrace"
mkdir "$tmp/empty" # files of the folder are completed, too
cd "$tmp/empty" || exit 1
export HOME=$tmp
tried=0

# A line as the shell has it after the Tab key.
check() { # SHELL NUMBER LINE
    [ "$3" = "${wanted[$2]}" ] || fail "$1 completes ${typed[$2]} to: $3"
}

if command -v fish >/dev/null; then
    tried=1
    "$hearth" --generate fish >"$tmp/hearth.fish" || fail "no fish completion"
    for i in "${!typed[@]}"; do
        # shellcheck disable=SC2016 # fish's variables
        fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$tmp/hearth.fish" "${typed[i]}" \
            >"$tmp/out" 2>"$tmp/err" || fail "fish: ${typed[i]}"
        [ -s "$tmp/err" ] && fail "fish has something to say"
        check fish "$i" "${typed[i]% *} $(cut -f 1 "$tmp/out")"
    done
fi

if command -v zsh >/dev/null; then
    tried=1
    mkdir "$tmp/functions"
    "$hearth" --generate zsh >"$tmp/functions/_hearth" || fail "no zsh completion"
    # Completing is for terminals: a second zsh has one, shows its line at Ctrl-G, and begins a new one.
    cat >"$tmp/play.zsh" <<'TEXT'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= RPS1=; fpath=($1 \$fpath); autoload -U compinit && compinit -D -u
    show() { print -r -- \"<<\$BUFFER>>\"; BUFFER= }; zle -N show; bindkey '^G' show; print rea''dy"
zpty -r shell out '*ready*'
for line in "${@[2,-1]}"; do
    zpty -n -w shell "$line"$'\t\C-g'
    zpty -r shell out '*>>*'
    print -r -- "$out"
done
zpty -d shell
TEXT
    timeout 300 zsh -f "$tmp/play.zsh" "$tmp/functions" "${typed[@]}" >"$tmp/out" 2>"$tmp/err" || fail "zsh"
    [ -s "$tmp/err" ] && fail "zsh has something to say"
    grep -qE '_arguments|_hearth|not found|rror' "$tmp/out" && fail "zsh has something to say"
    mapfile -t lines < <(sed -n 's/.*<<\(.*\)>>.*/\1/p' "$tmp/out")
    for i in "${!typed[@]}"; do
        check zsh "$i" "${lines[i]% }"
    done
fi

[ $tried = 1 ] || skip "there is neither zsh nor fish"
