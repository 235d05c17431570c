#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples say what `hearth run` says, on both shipped models; Ctrl-C ends a generation; errors are told.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
examples=$(dirname "$hearth")/examples
[ -x "$examples/complete" ] || skip "built without HEARTH_EXAMPLES"
prompt="It was a dark and stormy night, and"
ram=0 # MiB for the first model: no budget; the second one has one

# from_python ARGUMENTS...: with the shared library, where both are there.
from_python() { HEARTH_LIBRARY=$(dirname "$hearth")/libhearth.so python3 "$source_dir/examples/hearth.py" "$@"; }
python=
if command -v python3 >/dev/null 2>&1 && [ -e "$(dirname "$hearth")/libhearth.so" ] && [ "$sanitized" = 0 ]; then
    python=yes
fi

for model in "$source_dir"/models/hearth-novels-*.gguf; do
    "$examples/complete" "$model" "$prompt" 12 7 >"$tmp/got" || fail "complete: exit status $?"
    end_line "$tmp/got"
    "$hearth" run "$model" -p "$prompt" -n 12 -s 7 >"$tmp/want" 2>"$tmp/err" || fail "run"
    cmp "$tmp/got" "$tmp/want" || fail "complete says something else than hearth run"

    "$examples/batch" "$model" "$prompt" 8 3 4 >"$tmp/got" || fail "batch: exit status $?"
    "$hearth" run "$model" -p "$prompt" -n 8 -s 3 -np 4 >"$tmp/want" 2>"$tmp/err" || fail "run -np"
    cmp "$tmp/got" "$tmp/want" || fail "batch says something else than hearth run"

    "$hearth" run "$model" -p "$prompt" --temp 0 -n 20 >"$tmp/want" 2>"$tmp/err" || fail "run --temp 0"
    "$examples/hello" "$model" "$prompt" >"$tmp/got" || fail "hello: exit status $?"
    end_line "$tmp/got"
    cmp "$tmp/got" "$tmp/want" || fail "hello says something else than hearth run"
    "$examples/stream" "$model" "$prompt" $ram 20 >"$tmp/all" 2>"$tmp/err" || fail "stream: exit status $?"
    if [ $python ]; then
        from_python "$model" "$prompt" 20 "" $ram >"$tmp/got" || fail "hearth.py: exit status $?"
        end_line "$tmp/got"
        cmp "$tmp/got" "$tmp/want" || fail "hearth.py says something else than hearth run"
    fi
    cmp "$tmp/all" "$tmp/want" || fail "stream says something else than hearth run"
    ram=1000
done

# Ctrl-C: what was said until then stays, and the exit status tells.
rm -f "$tmp/got"
set -m # in a script, background jobs ignore SIGINT otherwise
"$examples/stream" "$model" "$prompt" >"$tmp/got" 2>"$tmp/err" &
pid=$!
until [ -s "$tmp/got" ] || ! kill -0 $pid 2>/dev/null; do :; done
kill -INT $pid 2>/dev/null
status=0
wait $pid || status=$?
set +m
case $status in
0) ;; # it was at its end already
130)
    said=$(count_bytes "$tmp/got") known=$(count_bytes "$tmp/all") # each with a newline behind the text
    cmp -n $(((said < known ? said : known) - 1)) "$tmp/got" "$tmp/all" || fail "text after SIGINT"
    ;;
*) fail "stream after SIGINT: exit status $status" ;;
esac

# Errors come with their message.
for example in hello complete stream; do
    "$examples/$example" "$tmp/none.gguf" x >"$tmp/got" 2>"$tmp/err" && fail "$example takes a model that is not there"
    grep -q "none.gguf" "$tmp/err" || fail "$example: $(cat "$tmp/err")"
done
if [ $python ]; then
    from_python "$tmp/none.gguf" x >"$tmp/got" 2>"$tmp/err" && fail "hearth.py takes a model that is not there"
    grep -q "none.gguf" "$tmp/err" || fail "hearth.py: $(cat "$tmp/err")"
fi
"$examples/stream" "$model" x 1 >"$tmp/got" 2>"$tmp/err" && fail "stream runs in 1 MiB"
grep -q "must be at least" "$tmp/err" || fail "stream with 1 MiB: $(cat "$tmp/err")"
exit 0
