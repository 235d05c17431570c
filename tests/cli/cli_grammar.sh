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
run 1 run "$model" -p x -j "$tmp/schema"
err_has "$tmp/schema is a file: -jf reads the schema from one"

# Several texts, each at a place of its own in the grammar.
run 0 run "$model" "${usual[@]}" -np 3 --grammar 'root ::= [a-z]{3} "-" [0-9]{2}'
[ "$(grep -cxE '[a-z]{3}-[0-9]{2}' "$tmp/out")" = 3 ] || fail "three texts: $(cat "$tmp/out")"

# What ends too early says so, also to who wants warnings only: it is no JSON.
run 0 run "$model" "${usual[@]}" -q -n 2 --grammar 'root ::= [a-z ]{100}'
err_has "the text was cut off before the grammar let it end; -n makes it longer"

# Each answer of a chat; the templates' thoughts are none of it.
run 0 chat "$model" --chat-template chatml -st -p "Yes?" --seed 3 --grammar 'root ::= "never" | "always"'
grep -qxE 'never|always' "$tmp/out" || fail "a chat's grammar"
printf 'One?\nTwo?\n' >"$tmp/questions"
"$hearth" chat "$model" --chat-template chatml --temp 0 -jf "$tmp/schema" <"$tmp/questions" >"$tmp/out" 2>"$tmp/err" ||
    fail "a chat with a schema: $(cat "$tmp/err")"
tr -d ' \n' <"$tmp/out" | grep -qxE '(\{"a":[345],"b":"[xy]"\}){2}' || fail "two answers of a form: $(cat "$tmp/out")"
run 0 chat "$model" --chat-template chatml -st -q -p "Yes?" -n 2 --grammar 'root ::= [a-z ]{100}'
err_has "the answer was cut off before the grammar let it end"
run 2 chat "$model" -j '{}' --grammar 'root ::= "a"'
err_has "exclude each other"
err_has "hearth chat --help"

# ---- refusals
run 1 run "$model" "${usual[@]}" --grammar 'yes|no'
err_has 'the grammar, line 1, column 4: ::= was to come after the rule'"'"'s name, as in root ::= "yes" | "no"'
run 1 run "$model" "${usual[@]}" --grammar 'root ::= "a'
err_has "the grammar, line 1, column 10: this text has no closing quote"
run 1 run "$model" "${usual[@]}" -j '{"not": {}}'
err_has "the schema, at #: not is not supported"
run 2 run "$model" "${usual[@]}" -j '{}' --grammar 'root ::= "a"'
err_has "exclude each other"
run 1 run "$model" "${usual[@]}" -jf "$tmp/none"
run 2 perplexity "$model" --grammar x
err_has "error: --grammar: "
run 1 run "$model" "${usual[@]}" -j '{"properties": {"a/b": {"type": "text"}}}'
err_has 'the schema, at #/properties/a~1b: there is no type "text": string, number'
run 2 serve "$model" --json-schema '{}'
err_has "requests say it, in grammar, json_schema and response_format"
