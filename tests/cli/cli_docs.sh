#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Links and targets of make in all pages are there. Every command of README.md and docs/howto.md runs as it is printed: what is indented by four spaces there is run line by line
# in one shell, in a folder with the files that these pages speak of. Servers get a port of their own, and make only tells
# what it would do; make install installs.
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

# ---- the folder
mkdir -p "$tmp/work/build" "$tmp/bin" "$tmp/home"
cd "$tmp/work" || exit 1
for name in models devices examples include docs; do
    ln -s "$source_dir/$name" .
done
ln -s "$build/examples" build/examples
ln -s models/hearth-novels-drelu-Q8_0.gguf model.gguf
mkdir HF_FOLDER
cp "$golden"/../hf/llama/* "$golden"/../hf/tokenizers/llama3/* HF_FOLDER
printf 'It was a dark and stormy night, and' >prompt.txt
# The models are of novels; any prose will do.
cat "$source_dir"/docs/[a-f]*.md | tr -d '|#`' | head -c 40000 >text.txt
tr -d '|#`' <"$source_dir/docs/refuted.md" >heldout.txt

# ---- programs: hearth ends its servers by itself when the next one begins, and has no standard input
cat >build/hearth <<'END'
#!/usr/bin/env bash
if [ "$1" != serve ]; then
    exec "$HEARTH_TESTED" "$@" </dev/null
fi
[ -f server ] && { kill "$(cat server)"; while kill -0 "$(cat server)" 2>/dev/null; do sleep 0.1; done; }
"$HEARTH_TESTED" "$@" --port 0 >log 2>&1 </dev/null &
echo $! >server
for _ in $(seq 600); do
    sed -n 's/.* is served at http:.*:\([0-9]*\)$/\1/p' log >port
    [ -s port ] && exit 0
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
for file in model.hearth.gguf silu.hearth.gguf smaller.gguf converted.gguf; do
    "$hearth" inspect "$file" >"$tmp/out" || fail "$file"
done
grep -q '\\"red\\"\|\\"green\\"\|\\"blue\\"' out || fail "no colour"
exit 0
