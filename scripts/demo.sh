#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What make demo shows: a model answers a question in memory (where it fits), then with a budget (--ram) near the smallest
# one; the texts are compared, and what came of both runs stands beside what hearth plan forecast. A model without a chat
# template goes on with a text instead. Where whole layers are read, as of those in models/, one of the shape of larger
# models follows, of which neurons are; its text means nothing.
#
#   scripts/demo.sh HEARTH MODEL PROMPT TOKENS
set -eu
export LC_ALL=C

hearth=$1 model=$2 prompt=$3 tokens=$4
preset=small-turbosparse
context=512 # positions, more than the prompt and its continuation take
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT

stop() {
    echo "make demo: $*" >&2
    exit 1
}

# of FILE KEY: the first number of that name in a line of JSON, or nothing where it is null.
of() {
    sed -nE 's/^[^{]*\{(.*)$/\1/; s/^(.*[{,])?[[:blank:]]*"'"$2"'":[[:blank:]]*([0-9.e+-]+).*/\2/p' "$1" | head -n 1
}

# mib BYTES, speed NUMBER, percent SHARE: as people read them; "-" for nothing.
mib() {
    awk -v n="$1" 'BEGIN { printf n == "" ? "-" : "%.1f MiB", n / 1048576 }'
}
speed() {
    awk -v n="$1" 'BEGIN { printf n == "" ? "-" : n < 100 ? "%.1f" : "%.0f", n }'
}
percent() { # SHARE WORDS
    awk -v n="$1" -v words="${2:-}" 'BEGIN { if (n == "") printf "-"; else printf "%.0f %%%s", 100 * n, words }'
}

# say NAME OPTION...: generates with these options, showing the command and what it prints as it comes, and keeps text and
# statistics in NAME.
say() {
    local name=$1 status
    shift
    echo "\$ $hearth ${way[*]} $file -p \"$words\" -n $tokens $*"
    "$hearth" "${way[@]}" "$file" -p "$words" -n "$tokens" "${usual[@]}" "$@" --stats json -q 2>"$tmp/$name.err" | tee "$tmp/$name"
    status=${PIPESTATUS[0]}
    [ "${way[0]}" = chat ] || echo # which ends its answer with a newline
    [ "$status" -eq 0 ] || stop "hearth ${way[0]} failed: $(tail -n 1 "$tmp/$name.err")"
    tail -n 1 "$tmp/$name.err" >"$tmp/json"
    sed 's/"streaming":.*//' "$tmp/json" >"$tmp/$name.stats"
    sed 's/.*"streaming"://; s/"forecast":.*//' "$tmp/json" >"$tmp/$name.streaming"
    [ -n "$(of "$tmp/$name.stats" generated_tokens)" ] || stop "hearth ${way[0]} gave no statistics"
}

# What the process held of its own, its program's pages left out, which --ram does not count; "-" where the system does not tell.
held() {
    local peak program
    peak=$(of "$1" memory_peak_bytes)
    program=$(of "$1" memory_program_bytes)
    mib "${peak:+${program:+$((peak - program))}}"
}

row() {
    printf '  %-34s %14s %14s %15s\n' "$@"
}

# show: the open model $file in both ways, with the words $words. A model that is larger than this machine's memory is not
# forced into it: Hearth takes what there is.
show() {
    local size least ram title="in memory" freely=(--ram all)
    size=$(wc -c <"$file")
    "$hearth" plan "$file" -c $context --json -q >"$tmp/freely" || stop "hearth plan failed"
    if awk -v share="$(of "$tmp/freely" in_memory)" 'BEGIN { exit !(share < 1) }'; then
        title="without --ram" freely=()
    fi
    "$hearth" plan "$file" -c $context --ram min --json -q >"$tmp/least" || stop "hearth plan failed"
    least=$(of "$tmp/least" least_bytes)
    ram=$(((least + size / 16) / 1024))K
    "$hearth" plan "$file" -c $context --ram "$ram" --json >"$tmp/plan" 2>"$tmp/plan.err" || stop "hearth plan failed"

    say whole ${freely[@]+"${freely[@]}"}
    say part --ram "$ram"
    cmp -s "$tmp/whole" "$tmp/part" || stop "the texts differ: this is a bug, please report it"
    echo "The texts are the same, byte for byte."
    echo
    row "$(mib "$size") file" "$title" "with --ram" "forecast"
    row "tokens a second" "$(speed "$(of "$tmp/whole.stats" tokens_per_second)")" \
        "$(speed "$(of "$tmp/part.stats" tokens_per_second)")" "$(speed "$(of "$tmp/plan" tokens_per_second)")"
    row "memory, at most" "$(held "$tmp/whole.stats")" "$(held "$tmp/part.stats")" "$(mib "$(of "$tmp/plan" ram_bytes)")"
    row "read from the file for a token" "$(mib "$(of "$tmp/whole.streaming" read_bytes_per_token)")" \
        "$(mib "$(of "$tmp/part.streaming" read_bytes_per_token)")" "$(mib "$(of "$tmp/plan" read_bytes_per_token)")"
    [ -z "$(of "$tmp/plan" hit_rate)" ] || row "in the cache or on its way" "$(percent "$(of "$tmp/whole.streaming" hit_rate)")" \
        "$(percent "$(of "$tmp/part.streaming" hit_rate)")" "$(percent "$(of "$tmp/plan" hit_rate)" " cached")"
    # A forecast of a machine that was busy when it was measured.
    sed -n 's/^hearth: \(others were using the processors.*\)/  \1/p' "$tmp/plan.err"
    echo
}

usual=(-c "$context" --temp 0.8 -s 7)
file=$model words=$prompt way=(run)
if "$hearth" inspect "$file" --json -q 2>/dev/null | grep -q '"tokenizer.chat_template": "'; then
    way=(chat -st)
    echo "hearth chat asks the model a question (-p) and prints its answer; -st: one answer, and it ends."
else
    echo "hearth run goes on with the prompt (-p) and prints what it adds; the prompt itself is not printed again."
fi
echo
show
if [ -z "$(of "$tmp/plan" hit_rate)" ]; then
    echo "With this little memory, all layers of this model are read for each token. Now one of the shape of larger models, in a"
    echo "pack, whose neurons are read one by one. Its weights are made up ($hearth synth $preset), so its text means nothing:"
    echo
    file=$tmp/$preset.hearth.gguf words="The" tokens=$((tokens < 48 ? tokens : 48)) way=(run)
    usual+=(--ignore-eos)
    head -c 6000 "$(dirname "$0")/../docs/sparse.md" >"$tmp/text"
    { "$hearth" synth "$preset" "$tmp/source" && "$hearth" profile "$tmp/source" -f "$tmp/text" -o "$tmp/profile" &&
        "$hearth" pack "$tmp/source" "$file" --profile "$tmp/profile"; } >/dev/null 2>"$tmp/err" || stop "$(tail -n 1 "$tmp/err")"
    rm "$tmp/source"
    show
fi
cat <<END
Your own GGUF:  $hearth run model.gguf -p "Once upon a time" -n 100     (--ram 4G: in at most 4 GiB)
Talk with it:   $hearth chat model.gguf
For programs:   $hearth serve model.gguf      (http://127.0.0.1:8080; a page to chat, OpenAI's and Anthropic's APIs)
END
