"""Texts of settings as they may be before anything is added to them: any JSON with comments, hard TOML and YAML."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=4)
servers = st.none() | st.dictionaries(words, st.dictionaries(words, values, max_size=3), max_size=3)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """A document in any layout, with comments, trailing commas, and servers or none."""
    whole = draw(objects)
    held = draw(servers)
    if held is not None:
        whole["mcpServers"] = held
    whole = {key: whole[key] for key in draw(st.permutations(list(whole)))}
    trivia = st.sampled_from(["", "", " ", "\n", "\n  ", "\t", "/* , } */", '// ] "\n', "\n// c\n\n", "\r\n"])

    def written(value: Any) -> str:
        if isinstance(value, dict):
            parts = [
                gap() + json.dumps(key) + gap() + ":" + gap() + written(one) for key, one in value.items()
            ]
            opened, closed = "{", "}"
        elif isinstance(value, list):
            parts, opened, closed = [gap() + written(one) for one in value], "[", "]"
        else:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        ending = "," if parts and draw(st.booleans()) else ""
        return opened + (gap() + ",").join(parts) + gap() + ending + gap() + closed

    def gap() -> str:
        return draw(trivia)

    plain = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    if draw(st.booleans()):
        return json.dumps(whole, indent=plain) + draw(st.sampled_from(["", "\n", "\r\n"]))
    return gap() + written(whole) + gap()


TOML = [
    "",
    "# nothing yet\n",
    'model = "gpt"',
    'model = "gpt"\r\n\r\n[profiles.a]\r\nx = 1\r\n',
    '[mcp_servers.other]\ncommand = "x" # c\n\n# next\n[tools]\nweb = true\n',
    '[mcp_servers]\n[mcp_servers."a b"]\nurl = "x"\n',
    'text = """\n[mcp_servers.blackboard]\n"""\n[mcp_servers.z.env]\nA = "1"\n',
    'mcp_servers.dotted.command = "x"\nwhen = 2026-01-01T00:00:00Z\nn = nan\n',
    "[[list]]\na = 1\n[[list]]\na = 2\n\n\n",
]


YAML = [
    "",
    "# nothing yet\n",
    "GOOSE_MODEL: x",
    "GOOSE_MODEL: x\r\nextensions:\r\n  developer:\r\n    enabled: true\r\n",
    "extensions:\n    # mine\n    developer: {enabled: true} # on\n\n    b:\n        envs:\n        - a\n\n# end\n"
    "last: |\n  extensions:\n    x: 1\n",
    "extensions: {}\nlast: 1\n",
    "extensions:   # none\nlast: 1\n",
    "extensions: {a: {b: 1}}\n",
    "extensions:\n  a: &a {x: 1}\n  b: *a\n",
    '# c\n---\na: yes\nwhen: 2026-01-01\nlong: "a\n  b"\n',
]
