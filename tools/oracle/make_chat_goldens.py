# SPDX-License-Identifier: MIT
"""Makes tests/golden/chat/expected.json: what Jinja2, set up as transformers does it, makes of each template with each
conversation; null where it fails. Run with TZ=UTC, after edits of templates or conversations."""
import json
import pathlib

from jinja_reference import render

ROOT = pathlib.Path(__file__).parents[2]
CHAT = ROOT / "tests/golden/chat"

conversations = json.loads((CHAT / "conversations.json").read_text())
expected = {}
for folder in (ROOT / "src/text/templates", CHAT / "templates"):
    for path in sorted(folder.glob("*.jinja")):
        template = path.read_bytes().decode()
        expected[path.stem] = {title: render(template, variables)[0] for title, variables in conversations.items()}
(CHAT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
failures = sum(text is None for texts in expected.values() for text in texts.values())
print(f"{len(expected)} templates, {len(conversations)} conversations, {failures} refused")
