"""Texts of settings files before an entry is added: any JSON with comments, and difficult TOML and YAML."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from hypothesis import strategies as st
from ruamel.yaml import YAML as Yaml

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
    """Draws a JSON document in any layout, with comments and trailing commas, and with or without servers."""
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


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """Draws a TOML document of values, tables and lists of tables with comments, perhaps with other servers."""
    noise = st.sampled_from(["", "", "\n", "# [mcp_servers.blackboard]\n", "  # c\n\n"])
    values = st.booleans() | st.integers(-9, 9) | st.lists(words, max_size=2) | words

    def written(value: Any) -> str:
        if draw(st.booleans()) and isinstance(value, str):
            return '"""\n[mcp_servers.blackboard]\n' + json.dumps(value)[1:-1].replace("\x7f", "") + '"""'
        return json.dumps(value, ensure_ascii=True).replace("\x7f", "") if not _astral(value) else '"astral"'

    def body() -> str:
        held = draw(st.dictionaries(words, values, max_size=2))
        return "".join(f"{key(name)} = {written(one)}\n" + draw(noise) for name, one in held.items())

    def key(name: str) -> str:
        return '"astral"' if _astral(name) else json.dumps(name, ensure_ascii=True).replace("\x7f", "")

    names = draw(
        st.lists(
            st.sampled_from(["a", "b.c", "mcp_servers", "mcp_servers.x", "mcp_servers.'y z'"]), unique=True
        )
    )
    lists = draw(st.integers(0, 2))
    parts = [f"[{name}]\n{body()}" for name in names] + [f"[[z]]\n{body()}" for _ in range(lists)]
    return draw(noise) + body() + "".join(part + draw(noise) for part in parts)


def _astral(value: Any) -> bool:
    """Tells whether JSON writes the value with escapes that TOML does not have."""
    return any(ord(letter) > 0xFFFF for letter in json.dumps(value, ensure_ascii=False))


@st.composite
def yaml_texts(draw: st.DrawFn) -> str:
    """Draws a YAML document of block mappings with comments, perhaps with other extensions."""
    whole = draw(objects)
    whole.pop("extensions", None)
    held = draw(servers)
    writer = Yaml(typ="safe", pure=True)
    writer.default_flow_style = draw(st.sampled_from([False, None]))
    if held is not None:
        whole["extensions"] = held
    parts = []
    for name in draw(st.permutations(list(whole))):
        stream = StringIO()
        writer.dump({name: whole[name]}, stream)
        parts.append(stream.getvalue())
    noise = st.sampled_from(["", "", "\n", "# extensions:\n", "   # c\n"])
    return "".join(draw(noise) + part for part in parts) + draw(noise)
