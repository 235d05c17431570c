#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Links and targets of make in all pages are there, and every test is in tests/README.md. Every command of README.md and
# docs/howto.md runs as it is printed: what is indented by four spaces there is run line by line in one shell, in a folder with
# the files that these pages speak of. Servers get a port of their own, and are asked; make install installs.
#
# Left out: what make itself would do, but for make install. `make demo` installs packages (cli_demo has what it shows), `make
# test` would run this test. Both are looked at by make -n. Where there is no Python, or no shared library, the line that needs
# both.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
build=$(dirname "$hearth")
[ "$sanitized" -gt 0 ] && skip "not for sanitizer builds"
[ -x "$build/examples/hello" ] || skip "built without HEARTH_EXAMPLES"
for tool in curl pkg-config make cc; do
    command -v $tool >/dev/null || skip "$tool is not there"
done

# ---- every page that is linked is there, and so is every target of make that a page names
for page in "$source_dir"/*.md "$source_dir"/*/*.md "$source_dir"/tests/*/*.md; do
    grep -oE '\]\([^)#: ]+' "$page" | cut -c 3- | while IFS= read -r link; do
        [ -e "$(dirname "$page")/$link" ] || fail "${page#"$source_dir"/} links to $link"
    done || exit 1
    grep -oE '`make [a-z][a-z0-9-]*' "$page" | cut -d ' ' -f 2 | sort -u | while IFS= read -r target; do
        grep -q "^$target:" "$source_dir/Makefile" || fail "${page#"$source_dir"/}: make $target"
    done || exit 1
done

# ---- every test is in the table of tests
sed -n '/^## What each promises/,/^## Support/p' "$source_dir/tests/README.md" >"$tmp/promises"
for test in "$source_dir"/tests/*/test_*.c "$source_dir"/tests/cli/cli_*.sh; do
    name=$(basename "$test")
    grep -qE "[\`/]${name%.*}\`" "$tmp/promises" || fail "tests/README.md does not say what ${name%.*} promises"
done

# ---- what README.md and docs/howto.md say within a line: commands and options that there are
for page in README.md docs/howto.md; do
    # shellcheck disable=SC2016 # Markdown's
    awk '/^```/ { fenced = !fenced; next } !fenced && !/^    /' "$source_dir/$page" | tr '\n' ' ' | grep -oE '`[^`]+`' | tr -d '`' >"$tmp/spans"
    sed -n 's/^\(build\/\)*hearth \([a-z-][a-z-]*\).*/\2/p' "$tmp/spans" | sort -u | while IFS= read -r name; do
        "$hearth" "$name" --help >"$tmp/out" 2>&1 || fail "$page: hearth $name"
    done || exit 1
    # Those of the compiler and of other programs apart.
    grep -vE '^-Iinclude|DESTDIR|CURL' "$tmp/spans" | grep -oE '(^| )--?[a-z][a-z0-9-]*' | tr -d ' ' | sort -u | while IFS= read -r option; do
        grep -qE -- "(^|[^a-z-])$option([^a-z-]|\$)" "$source_dir/docs/cli.md" "$source_dir/docs/serve.md" || fail "$page: there is no $option"
    done || exit 1
    awk '/^```/ { fenced = !fenced } fenced && /^ *(build\/hearth|hearth|make|curl|cc|export|sudo) /' "$source_dir/$page" >"$tmp/out"
    [ -s "$tmp/out" ] && fail "$page: a command in a fence is run by nobody"
done

# ---- README.md's picture: its measured figures are those of docs/speed.md, and all of them are drawn
sed -n 's/.*"tokens_per_second": \[\([^]]*\)\].*/\1/p' "$source_dir/bench/speed-memory.json" | tr -s ', ' '\n' >"$tmp/figures"
[ -s "$tmp/figures" ] || fail "bench/speed-memory.json has no figures"
while IFS= read -r figure; do
    grep -qF -- "$figure" "$source_dir/docs/speed.md" || fail "docs/speed.md has no $figure, which bench/speed-memory.json has"
done <"$tmp/figures"
if command -v node >/dev/null && [ -x "$build/tests/draw_chart" ]; then
    # Its lines are forecasts, of which four say that there are lines. The last one ends the picture, so it is among them.
    node "$source_dir/bench/speed-memory.mjs" --hearth "$hearth" --every 8 --svg "$tmp/drawn.svg" >"$tmp/out" 2>"$tmp/err" || fail "bench/speed-memory.mjs"
    for picture in "$tmp/drawn.svg" "$source_dir/docs/speed-memory.svg"; do
        grep -o '<circle cx="[^"]*" cy="[^"]*"' "$picture" | wc -l
        grep -oE '<text [^>]*class="(legend|strong)"[^<]*' "$picture"
    done >"$tmp/out"
    n=$(($(wc -l <"$tmp/out") / 2))
    cmp <(head -n $n "$tmp/out") <(tail -n $n "$tmp/out") || fail "docs/speed-memory.svg is old: make speed-memory"
    points=$(grep -o '"tokens_per_second"' "$source_dir/bench/speed-memory.json" | wc -l) lines=$(grep -c ', measured<\|llama.cpp, ' "$tmp/drawn.svg")
    [ "$(head -n 1 "$tmp/out")" -eq $((points + lines)) ] || fail "the picture lacks figures"
fi

# ---- the folder
mkdir -p "$tmp/work/build" "$tmp/bin" "$tmp/home"
cd "$tmp/work" || exit 1
for name in models devices examples include docs; do
    ln -s "$source_dir/$name" .
done
ln -s "$build/examples" "$build/libhearth.so" build
ln -s models/hearth-novels-drelu-Q8_0.gguf model.gguf
ln -s models/hearth-novels-swiglu-Q8_0.gguf small.gguf
ln -s "$golden/qwen3.Q8_0.gguf" base.gguf
ln -s "$golden/../adapters/qwen3-all.gguf" adapter.gguf
mkdir HF_FOLDER
cp "$golden"/../hf/llama/* "$golden"/../hf/tokenizers/llama3/* HF_FOLDER
printf 'It was a dark and stormy night, and' >prompt.txt
# The models are of novels; any prose will do.
cat "$source_dir"/docs/[a-f]*.md | tr -d '|#`' | head -c 29000 >text.txt
tr -d '|#`' <"$source_dir/docs/refuted.md" | head -c 3000 >heldout.txt

# ---- programs: hearth ends its servers by itself when the next one begins, asks each for a token, and has no standard input
cat >build/hearth <<'END'
#!/usr/bin/env bash
if [ "$1" != serve ]; then
    exec "$HEARTH_TESTED" "$@" </dev/null
fi
[ -f server ] && { kill "$(cat server)"; while kill -0 "$(cat server)" 2>/dev/null; do sleep 0.1; done; }
"$HEARTH_TESTED" "$@" --port 0 >log 2>&1 </dev/null &
echo $! >server
options="$*" key=none
[[ $options = *" --api-key "* ]] && key=${options#* --api-key }
for _ in $(seq 600); do
    sed -n 's/.* is served at http:.*:\([0-9]*\)$/\1/p' log >port
    [ -s port ] && exec curl http://127.0.0.1:8080/v1/completions -H "Authorization: Bearer ${key%% *}" \
        -d '{"prompt": "It was", "max_tokens": 1}'
    kill -0 "$(cat server)" 2>/dev/null || break
    sleep 0.1
done
cat log >&2
exit 1
END
cat >"$tmp/bin/curl" <<END
#!/usr/bin/env bash
exec $(command -v curl) -sSf -m 100 "\${@/:8080/:\$(cat port)}"
END
cat >"$tmp/bin/make" <<END
#!/usr/bin/env bash
case "\$1 \$2" in
"install PREFIX="*) exec cmake --install "$build" --prefix "\${2#PREFIX=}" ;;
*) exec $(command -v make) -n -C "$source_dir" BUILD="$tmp/none" "\$@" ;;
esac
END
printf '#!/bin/sh\nexit 0\n' >"$tmp/bin/sudo"
ln -s "$PWD/build/hearth" "$tmp/bin/hearth"
chmod +x build/hearth "$tmp"/bin/*
# The list of what make install has put somewhere is make uninstall's: it stays what it was. A server has ended before its
# folder goes.
list=$build/install_manifest.txt
[ -e "$list" ] && cp "$list" "$tmp/list"
# shellcheck disable=SC2317 # the trap calls it
tidy_up() {
    local server
    server=$(cat "$tmp/work/server" 2>/dev/null)
    if [ -n "$server" ] && kill "$server" 2>/dev/null; then
        for _ in $(seq 300); do
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
    fi
    if [ -e "$tmp/list" ]; then cp "$tmp/list" "$list"; else rm -f "$list"; fi
    rm -rf "$tmp"
}
trap tidy_up EXIT

# What is long or endless where nobody says how much: fewer steps of training, short texts, one repetition.
unset MAKEFLAGS
export no_proxy='*' NO_PROXY='*' CURL_HOME=$tmp
export HEARTH_TESTED=$hearth HOME=$tmp/home PATH=$tmp/bin:$PATH HEARTH_STEPS=2 HEARTH_PREDICT=8 HEARTH_REPETITIONS=1 \
    HEARTH_ROOF=8M HEARTH_THREADS=2

# Measured by now: each plan would do it again while other tests are at work.
know_machine

# The indented lines of a page.
indented() {
    awk '/^```/ { fenced = !fenced } !fenced && /^    / && !/^ *#/ { print substr($0, 5) }' "$1"
}

for page in README.md docs/howto.md; do
    indented "$source_dir/$page" >commands
    [ "$(wc -l <commands)" -gt 9 ] || fail "$page has no commands"
    : >script
    pending="" # a line that ends within quotes or with a backslash goes on in the next one
    while IFS= read -r line; do
        pending+=$line
        if bash -n <<<"$pending" 2>/dev/null && [[ $pending != *\\ ]]; then
            if [[ $pending = *python3* ]] && ! { command -v python3 >/dev/null && [ -e build/libhearth.so ]; }; then
                pending=""
                continue
            fi
            printf '%s >>out 2>err || { printf "%%s\\n" %q >&2; cat err >&2; exit 1; }\n' "{ $pending"$'\n}' "$pending" >>script
            pending=""
        else
            pending+=$'\n'
        fi
    done <commands
    [ -z "$pending" ] || fail "$page: $pending"
    : >out
    bash script 2>"$tmp/err" || fail "a command of $page"
done

# They did what they are there for.
[ -s answer.txt ] || fail "no answer.txt"
for file in model.hearth.gguf sparse.gguf smaller.gguf converted.gguf; do
    "$hearth" inspect "$file" >"$tmp/out" || fail "$file"
done
grep -q '\\"red\\"\|\\"green\\"\|\\"blue\\"' out || fail "no colour"
exit 0
