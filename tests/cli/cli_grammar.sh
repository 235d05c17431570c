#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hearth run with grammars and JSON schemas.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
model=$source_dir/models/hearth-novels-drelu-Q8_0.gguf
usual=(-p "It was" -n 40 --seed 3)

run 0 run "$model" "${usual[@]}" --grammar 'root ::= "never" | "always"' --stats json
grep -qxE 'never|always' "$tmp/out" || fail "a choice of two"
tail -n 1 "$tmp/err" >"$tmp/stats"
[ "$(json "$tmp/stats" stop)" = eos ] || fail "the end of a grammar"
cp "$tmp/out" "$tmp/want"
echo 'root ::= "never" | "always" # from a file' >"$tmp/grammar"
run 0 run "$model" "${usual[@]}" --grammar-file "$tmp/grammar"
same "$tmp/out" "$tmp/want"
run 0 run "$model" "${usual[@]}" --grammar-file "$tmp/grammar" --ignore-eos
same "$tmp/out" "$tmp/want"
err_lacks "cut off"

schema='{"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":5},"b":{"enum":["x","y"]}},"required":["a","b"]}'
for options in "--temp 0" "--temp 1.5 --top-k 0" "--mirostat 2"; do
    # shellcheck disable=SC2086
    run 0 run "$model" "${usual[@]}" -n 200 -j "$schema" $options
    case $(json "$tmp/out" a) in [345]) ;; *) fail "a of $(cat "$tmp/out")" ;; esac
    case $(json "$tmp/out" b) in x | y) ;; *) fail "b of $(cat "$tmp/out")" ;; esac
done
printf '%s' "$schema" >"$tmp/schema"
run 0 run "$model" "${usual[@]}" -n 200 -jf "$tmp/schema" --temp 0
json "$tmp/out" a >/dev/null

# Several texts, each at a place of its own in the grammar.
run 0 run "$model" "${usual[@]}" -np 3 --grammar 'root ::= [a-z]{3} "-" [0-9]{2}'
[ "$(grep -cxE '[a-z]{3}-[0-9]{2}' "$tmp/out")" = 3 ] || fail "three texts: $(cat "$tmp/out")"

# What ends too early says so.
run 0 run "$model" "${usual[@]}" -n 2 --grammar 'root ::= [a-z ]{100}'
err_has "the text was cut off before the grammar let it end; -n makes it longer"

# ---- refusals
run 1 run "$model" "${usual[@]}" --grammar 'root ::= "a'
err_has "the grammar, line 1, column 10: this text has no closing quote"
run 1 run "$model" "${usual[@]}" -j '{"not": {}}'
err_has "the schema, at #: not is not supported"
run 2 run "$model" "${usual[@]}" -j '{}' --grammar 'root ::= "a"'
err_has "exclude each other"
run 1 run "$model" "${usual[@]}" -jf "$tmp/none"
run 2 perplexity "$model" --grammar x
err_has "error: --grammar: "
run 2 chat "$model" --grammar x
err_has "no form can be given for the texts of a chat; hearth run has it"
run 2 serve "$model" --json-schema '{}'
err_has "requests say it, in grammar, json_schema and response_format"
