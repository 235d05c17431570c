# SPDX-License-Identifier: MIT
"""Renders templates with Hearth and with Jinja2, and says how many texts are the same, byte by byte.

    python check_templates.py build/tests/render_template FOLDER|FILE...

Folders hold files *.jinja, of whatever source; *.gguf files there are asked for their templates. Each template is
rendered with the conversations of tests/golden/chat. Templates of others are no part of the project: their licences
are theirs.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from jinja_reference import render

CHAT = pathlib.Path(__file__).parents[2] / "tests/golden/chat"


def of_gguf(path):
    """The texts of the keys tokenizer.chat_template*, found without knowing the file's other keys."""
    with open(path, "rb") as f:
        head = f.read(64 << 20)
    at = 0
    while (at := head.find(b"tokenizer.chat_template", at)) >= 0:
        n, = struct.unpack_from("<Q", head, at - 8)
        key, at = head[at:at + n].decode("utf-8", "replace"), at + n
        kind, = struct.unpack_from("<I", head, at)
        if kind == 8:
            length, = struct.unpack_from("<Q", head, at + 4)
            yield f"{path}:{key}", head[at + 12:at + 12 + length].decode("utf-8")


def templates(paths):
    for path in paths:
        path = pathlib.Path(path)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix == ".gguf":
                yield from of_gguf(file)
            elif file.suffix == ".jinja" or (file == path and file.is_file()):
                yield str(file), file.read_bytes().decode("utf-8")


def hearth(program, template, variables):
    """The text or None, what was said, and whether the program ended as it should."""
    with tempfile.TemporaryDirectory() as folder:
        t, v = f"{folder}/template", f"{folder}/variables"
        pathlib.Path(t).write_bytes(template.encode())
        pathlib.Path(v).write_text(json.dumps(variables))
        ran = subprocess.run([program, t, v], capture_output=True, env={**os.environ, "TZ": "UTC"}, check=False)
    return (None if ran.returncode else ran.stdout.decode()), ran.stderr.decode(), ran.returncode in (0, 1)


def main():
    program, *paths = sys.argv[1:]
    conversations = json.loads((CHAT / "conversations.json").read_text())
    n = same = refused = alike = 0
    seen = set()
    for name, template in templates(paths):
        if template in seen:
            continue
        seen.add(template)
        different = 0
        for title, variables in conversations.items():
            want, why = render(template, variables)
            got, said, sound = hearth(program, template, variables)
            n += 1
            same += got == want
            refused += got is None and want is None
            if got != want or not sound:
                different += 1
                print(f"{name}, {title}:\n    Jinja2: {want!r} {why}\n    Hearth: {got!r} {said}")
        alike += not different
    print(f"{len(seen)} templates, {alike} of them alike in all of {len(conversations)} conversations")
    print(f"{same} of {n} renderings are the same, of which both refuse {refused}")
    sys.exit(same != n)


main()
