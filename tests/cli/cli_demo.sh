#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What make demo runs: the texts are those of hearth run, the figures are there, and a text that differs is noticed.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
know_machine
demo=$source_dir/scripts/demo.sh
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
chatty=$source_dir/models/smollm2-135m-sparse.gguf
prompt="It was a dark and stormy night, and"

# check_demo MODEL PROMPT TOKENS END WAY...: both ways of two models; what is printed below a command of the first is what
# hearth WAY prints, and then comes the pattern END.
check_demo() {
    local model=$1 prompt=$2 tokens=$3 end=$4
    shift 4
    "$demo" "$hearth" "$model" "$prompt" "$tokens" >"$tmp/out" 2>"$tmp/err" || fail "the demo: exit status $?"
    [ -s "$tmp/err" ] && fail "messages"
    "$hearth" "$@" "$model" -p "$prompt" -n "$tokens" -c 512 --temp 0.8 -s 7 -q >"$tmp/text" || fail "$1"
    for option in "all" "[0-9]*K"; do
        # shellcheck disable=SC2053
        [[ $(<"$tmp/out") == *" -n $tokens --ram "$option$'\n'"$(<"$tmp/text")"$end* ]] || fail "--ram $option: not the text of $1"
    done
    [ "$(grep -c "same, byte for byte" "$tmp/out")" -eq 2 ] || fail "texts were not compared"
}
check_demo "$chatty" "Why is the sky blue?" 8 $'\n[$T]' chat -st # the next command, or "The texts"
out_has "asks the model a question"
check_demo "$model" "$prompt" 12 $'\n\n' run
out_has "the prompt itself is not printed again"
# row NAME PATTERN...: both tables have such a row.
row() {
    local name=$1
    shift
    [ "$(grep -cE "^  $name +$*\$" "$tmp/out")" -eq 2 ] || fail "no two rows of $name"
}
number="[0-9]+(\.[0-9])?"
row "tokens a second" "$number +$number +$number"
row "memory, at most" "$number MiB +$number MiB +$number MiB"
row "read from the file for a token" "- +$number MiB +$number MiB"
grep -qE "in the cache or on its way +- +$number % +$number %" "$tmp/out" || fail "no hit rate"
# The budget holds, as the table shows it.
awk '/memory, at most/ { if ($6 > $8) exit 1 }' "$tmp/out" || [ "$sanitized" -gt 0 ] || fail "more memory than --ram"
out_has "$hearth chat model.gguf"
out_has "$hearth serve model.gguf"

# A program whose text depends on the budget.
cat >"$tmp/wrong" <<END
#!/bin/sh
"$hearth" "\$@" || exit
case "\$*" in
run*--ram\ [0-9]* | chat*--ram\ [0-9]*) printf x ;;
esac
END
chmod +x "$tmp/wrong"
for file in "$model" "$chatty"; do
    "$demo" "$tmp/wrong" "$file" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "texts that differ"
    err_has "the texts differ"
done

# Programs that fail, or give no statistics: no texts that could be the same.
cat >"$tmp/failing" <<END
#!/bin/sh
case "\$1" in run | chat) echo "error: no answer today" >&2; exit 1 ;; esac
exec "$hearth" "\$@"
END
cat >"$tmp/silent" <<END
#!/bin/sh
case "\$1" in run | chat) exit 0 ;; esac
exec "$hearth" "\$@"
END
chmod +x "$tmp/failing" "$tmp/silent"
for file in "$model" "$chatty"; do
    "$demo" "$tmp/failing" "$file" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "a run that fails"
    err_has "failed: error: no answer today"
    grep -q "The texts are the same" "$tmp/out" && fail "texts of runs that failed are the same"
    "$demo" "$tmp/silent" "$file" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "a run without statistics"
    err_has "gave no statistics"
done

# A machine that was busy when it was measured: its forecast may be wrong, and that is said beside it.
cat >"$tmp/busy" <<END
#!/bin/sh
case "\$*" in
synth*) echo "error: enough seen" >&2; exit 1 ;;
plan*-q*) ;;
plan*) echo "hearth: others were using the processors while this machine was measured" >&2 ;;
esac
exec "$hearth" "\$@"
END
chmod +x "$tmp/busy"
"$demo" "$tmp/busy" "$model" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "synth failed"
out_has "  others were using the processors while this machine was measured"

# A machine whose memory the first model does not fit into: it is not forced. The demo ends at the second model.
cat >"$tmp/small" <<END
#!/bin/sh
case "\$*" in
synth*) echo "error: enough seen" >&2; exit 1 ;;
plan*--ram*) ;;
plan*) "$hearth" "\$@" | sed 's/"in_memory": *1\.0/"in_memory": 0.4/'; exit ;;
esac
exec "$hearth" "\$@"
END
chmod +x "$tmp/small"
"$demo" "$tmp/small" "$model" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "synth failed"
err_has "enough seen"
out_has "same, byte for byte"
grep -qE "file +without --ram +with --ram +forecast" "$tmp/out" || fail "a model larger than memory is not said to be"
grep -qF -- "--ram all" "$tmp/out" && fail "a model larger than memory is forced into it"
"$demo" "$hearth" "$tmp/none.gguf" "$prompt" 2 >"$tmp/out" 2>"$tmp/err" && fail "a model that is not there"
err_has "none.gguf"
exit 0
