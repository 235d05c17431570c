#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make studies: writes docs/studies.md and its charts, all by hearth plan: on described machines, with the shapes of
# models (hearth synth --shape), so that it takes a minute and gives the same everywhere. studies.sh HEARTH [FOLDER]
set -eu
hearth=$(realpath "$1")
cd "$(dirname "$0")/.."
docs=${2:-docs}
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT

shape() { # preset -> file
    [ -e "$models/$1" ] || "$hearth" synth --shape "$1" "$models/$1" -q
    echo "$models/$1"
}

plan() { # preset, device, options...
    local model device=$2
    model=$(shape "$1")
    shift 2
    "$hearth" plan "$model" --machine "$device" -c 1024 --json -q "$@"
}

value() { # the first value of this key in a plan's JSON
    sed -n "s/^ *\"$1\": *\\([^,]*\\),*\$/\\1/p" | head -n 1
}

# Speed against memory, a line for each of 24 budgets: MiB, share in memory, tok/s, bytes a token, hit rate.
curve() { # preset, device
    local file=$models/$1.$2.curve
    [ -e "$file" ] || plan "$1" "$2" --ram all --explain | awk '
        { gsub(/[",]/, "") }
        $1 == "budgets:" { inside = 1 }
        inside && NF == 2 { v[$1] = $2 }
        inside && /^ *}/ && v["ram_bytes:"] {
            print int(v["ram_bytes:"] / 1048576), v["in_memory:"], v["tokens_per_second:"],
                v["read_bytes_per_token:"], v["hit_rate:"]
            delete v
        }' >"$file"
    cat "$file"
}

# Where the curve has this share in memory: "MiB tok/s"; "- -" where the smallest budget has more.
at_share() { # preset, device, share
    curve "$1" "$2" | awk -v share="$3" '
        NR == 1 && $2 > 1.1 * share { print "- -"; found = 1 }
        $2 >= share && !found {
            part = NR > 1 && $2 > kept ? (share - kept) / ($2 - kept) : 1
            printf "%d %.3f\n", ram + part * ($1 - ram), speed + part * ($3 - speed)
            found = 1
        }
        { ram = $1; kept = $2; speed = $3 }'
}

row() { # one plan: preset, device, MiB, options... -> "tok/s MB/token reads hits%"
    local json
    json=$(plan "$1" "$2" --ram "$3M" "${@:4}") || { echo "- - - -"; return; }
    echo "$(echo "$json" | value tokens_per_second) $(echo "$json" | value read_bytes_per_token)" \
        "$(echo "$json" | value reads_per_token) $(echo "$json" | value hit_rate)"
}

tidy() { awk -v t="$1" 'BEGIN { if (t == "-") printf t; else printf t < 10 ? "%.2f" : "%.1f", t }'; }

speed() { # preset, device, MiB, options...
    local out
    out=$(row "$@")
    awk -v t="${out%% *}" 'BEGIN { if (t == "-") printf "-"; else printf t < 10 ? "%.2f" : "%.1f", t }'
}

gib() { awk -v m="$1" 'BEGIN { printf "%.1f GiB", m / 1024 }'; }

papers() {
    cat <<'END'
## Beside the papers' phones

PowerInfer-2 (arXiv 2406.06282, figures 7 and 10) measured two phones with half of the feed-forward
weights of a model on flash. The forecast is of Hearth on the phone's CPU, with the shape of the
same model in Q4_0; PowerInfer-2 uses the NPU, too, which brings it 15 % in decode. Its figures for
LLMFlash, without an NPU, are the nearer comparison.

| device | model | in memory | budget | forecast, tok/s | PowerInfer-2 | LLMFlash | llama.cpp |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
END
    local preset device share label paper budget fast
    while read -r device preset share label paper; do
        read -r budget fast < <(at_share "$preset" "$device" "$share")
        echo "| $device | $label | $(awk -v s="$share" 'BEGIN { print 100 * s }') % | $(gib "$budget") |" \
            "$(tidy "$fast") | $paper |"
    done <<'END'
oneplus-12 turbosparse-mistral-7b 0.5 Bamboo-7B 11.1 | 2.4 | 0.4
oneplus-12 turbosparse-mixtral-47b 0.5 TurboSparse-Mixtral-47B 9.96 | 2.8 | 0.5
oneplus-ace-2 turbosparse-mistral-7b 0.5 Bamboo-7B 7.0 | 1.5 to 2.1 | 0.5
oneplus-ace-2 turbosparse-mixtral-47b 0.25 TurboSparse-Mixtral-47B 4.7 | 1.5 to 2.1 | 0.5
END
    cat <<'END'

The 47B model on the OnePlus 12, by memory (figure 10 has the ends, and says that the line between
them is straight):

| memory | forecast, tok/s | hits | MB read a token | PowerInfer-2 | LLMFlash |
| ---: | ---: | ---: | ---: | ---: | ---: |
END
    local gb out
    for gb in 7 9 11 13 15 17 19; do
        out=$(row turbosparse-mixtral-47b oneplus-12 $((gb * 1024)))
        # shellcheck disable=SC2086 # four words
        set -- $out
        awk -v gb=$gb -v t="$1" -v b="$2" -v h="$4" 'BEGIN {
            printf "| %d GiB | %.2f | %.1f %% | %.0f | %s | %s |\n", gb, t, 100 * h, b / 1e6,
                gb == 7 ? "2.13" : gb == 19 ? "11.68" : "", gb == 7 ? "1.16" : gb == 19 ? "3.74" : "" }'
    done
}

papers_say() {
    cat <<'END'

- The 47B model at 7 GiB comes out as fast as PowerInfer-2 measured, and at 19 GiB a quarter below,
  where computing counts most: there is no NPU. Its neurons are read ahead, which hides six tenths
  of the shorter one of computing and reading; on two Zen 5 cores that is 5 to 18 % below what was
  measured ([speed.md](speed.md#forecasts)).
- The 7B model comes out half as fast again as PowerInfer-2 on both phones. The forecast has all of
  the memory's speed for products, and a storage whose random reads cost the same over the whole
  file; the paper says that a range of 512 MB is slower than one of 128, and nothing beyond. It is
  an upper bound.
- The paper's line between 7 and 19 GiB is straight. So is the forecast's, nearly: what hits gain
  less and less with each gigabyte, the falling number of reads makes up for.
END
}

sizes() {
    cat <<'END'

## Cache size over models

Tokens a second on the machine of [speed.md](speed.md), by the share of the neurons (of the experts,
in qwen3-30b-a3b) that are in memory; "-" is below the smallest budget. The budget of a half stands
beside it.

| model | 10 % | 20 % | 30 % | 50 % | 70 % | all | budget of 50 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
END
    local preset share budget line half fast
    for preset in turbosparse-mistral-7b relullama-7b falcon-40b-relu turbosparse-mixtral-47b qwen3-30b-a3b; do
        line="| $preset |"
        for share in 0.1 0.2 0.3 0.5 0.7; do
            read -r budget fast < <(at_share "$preset" zen5-2-cores "$share")
            [ "$share" != 0.5 ] || half=$budget
            line="$line $(tidy "$fast") |"
        done
        read -r budget fast < <(at_share "$preset" zen5-2-cores 1)
        echo "$line $(tidy "$fast") | $(gib "$half") |"
    done
    cat <<'END'

- Sparse activity decides what half of the memory is worth: with 5 % active neurons (falcon) four
  fifths of the speed in memory, with 11 % (turbosparse-mistral-7b) two thirds, with 30 %
  (relullama) a fifth.
- Experts whose neurons stream (turbosparse-mixtral-47b) gain from memory to the end, because their
  reads take longer than computing until two thirds are in memory, and show in part after that.
  Whole experts (qwen3) are long reads, and lose less.
END
    for preset in turbosparse-mistral-7b turbosparse-mixtral-47b; do
        plan "$preset" zen5-2-cores --ram all --svg "$docs/speed-$preset.svg" >/dev/null
        echo
        echo "![Speed against memory, $preset](speed-$preset.svg)"
    done
}

batches() {
    cat <<'END'

## Batch sizes

Sequences that are generated together, with half of the neurons in memory: tokens a second of all
together, and megabytes that each token reads. The budget stays that of one sequence, and each
further one takes 128 MiB of it for its context of 1,024 tokens. The sequences have nothing to do
with each other, so the neurons of a step unite.

| model | machine | 1 | 2 | 4 | 8 |
| --- | --- | ---: | ---: | ---: | ---: |
END
    local preset device budget fast line n out
    for preset in turbosparse-mistral-7b turbosparse-mixtral-47b; do
        for device in zen5-2-cores oneplus-12; do
            read -r budget fast < <(at_share "$preset" "$device" 0.5)
            line="| $preset | $device |"
            for n in 1 2 4 8; do
                out=$(row "$preset" "$device" "$budget" -np "$n")
                # shellcheck disable=SC2086
                set -- $out
                line="$line $(awk -v t="$1" -v b="$2" 'BEGIN { if (t == "-") printf "-"; else printf "%.1f (%.0f)", t, b / 1e6 }') |"
            done
            echo "$line"
        done
    done
}

batches_say() {
    cat <<'END'

Sequences of a step share its dense weights, and the neurons that several of them use. Two or four
of the 7B model gain by it; then the union of their neurons and their contexts cost more reads than
that saves. Those of the 47B model gain little where reads are the longer part already. A faster
storage moves that border up.
END
}

machines() {
    cat <<'END'

## Larger models, other machines

Tokens a second with 8 GiB of memory:

| model | weights | zen5-2-cores | oneplus-12 | oneplus-ace-2 | pc-high |
| --- | ---: | ---: | ---: | ---: | ---: |
END
    local preset device line
    for preset in mistral-7b-dense turbosparse-mistral-7b relullama-7b falcon-40b-relu turbosparse-mixtral-47b qwen3-30b-a3b; do
        line="| $preset | $(gib $(($(stat -c %s "$(shape "$preset")") / 1048576))) |"
        for device in zen5-2-cores oneplus-12 oneplus-ace-2 pc-high; do
            line="$line $(speed "$preset" "$device" 8192) |"
        done
        echo "$line"
    done
}

{
    cat <<'END'
# Studies

What the papers leave open: how fast models are with how much memory, on machines and in sizes that
nobody here has. All figures are forecasts ([streaming.md](streaming.md#the-forecast)) for the
machines in `devices/`, which say what of them was measured and what is assumed. `make studies`
writes this page again.

END
    papers
    papers_say
    sizes
    batches
    batches_say
    machines
} >"$docs/studies.md.new"
mv "$docs/studies.md.new" "$docs/studies.md"
