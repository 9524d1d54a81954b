"""Nothing that a caller says comes back as a line of the server's: every argument of every tool, resource and prompt.

The calls are made from the published schemas, so what is added later is tried by itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import judge
import pytest
from blackboard_mcp.server.cli import main
from profiles import NIGHTLY

hostile, wires = judge.hostile, judge.wires

FORGED = "seq 99 · 3 new"
"""How a footer begins; no board here gets so far."""
BREAKS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
HARM = ("\x1b[2K", "\x08", "\x9b2K", "\u202e", "\t")
WORDS = (
    *(f"t:x{end}{FORGED}" for end in BREAKS),
    *(f"t:x{each}y" for each in HARM),
    "".join(BREAKS + HARM).join(("x", FORGED)),
    FORGED,
    f"\n{FORGED}",
)
SHORT = (f"t:x\n{FORGED}", f"t:x\u2028{FORGED}\x1b[2K\x85\r{FORGED}", FORGED)
"""What is tried where it is not night."""
_LINES = re.compile(f"\r\n|[{''.join(BREAKS)}]")
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028\u2029]")


def words() -> tuple[str, ...]:
    return WORDS if NIGHTLY else SHORT


def faults(text: str) -> list[str]:
    """What in a text that a model or a person is shown could pass for more than a word of the caller's."""
    found = [f"raw {match.group()!r}" for match in _RAW.finditer(text)][:3]
    return found + [f"the line {line!r}" for line in _LINES.split(text) if line.startswith(FORGED)][:3]


def shown(message: Mapping[str, Any]) -> Iterator[str]:
    """Every text of an answer that is for reading: of results, errors, resources and prompts."""
    if "error" in message:
        error = message["error"]
        yield message["message"] if isinstance(error, str) else error["message"]
        return
    result = message["result"]
    for part in (*result.get("content", ()), *result.get("contents", ())):
        yield part["text"]
    for each in result.get("messages", ()):
        yield each["content"]["text"]
    if result.get("isError") and "structuredContent" in result:
        yield result["structuredContent"]["message"]
    yield from result.get("completion", {}).get("values", ())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Any], Path]]:
    """A server over HTTP, and one over stdio on the same folder, which has something of everything."""
    folder = tmp_path_factory.mktemp("echoes")
    data = folder / "data"
    with ExitStack() as stack:
        url, pid = stack.enter_context(wires.http_process(data, folder / "http.log"))
        modern = wires.HttpWire(url, pid, "ada", modern=True)
        stack.callback(modern.close)
        legacy = stack.enter_context(wires.stdio_wire(data, folder / "stdio.log", modern=False))
        for n in range(3):
            judge.good(modern, "post", json.dumps({"text": f"fact {n}", "tags": ["a"]}))
        judge.good(modern, "post", '{"text": "an entry", "key": "plan:a"}')
        judge.good(modern, "subscribe", '{"filter": {}, "name": "mine"}')
        yield [modern, legacy], data


def places(schema: Mapping[str, Any], whole: Mapping[str, Any], word: str) -> Iterator[Any]:
    """Values of a schema that hold the word: as each string of it, and as a name of a member."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from places(option, whole, word)
    kinds = schema.get("type", "object" if "properties" in schema else [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind == "string":
            yield word
        elif kind == "array":
            yield [word]
            for inner in places(schema.get("items", {}), whole, word):
                yield [inner]
        elif kind == "object":
            yield {word: word}
            yield {word: 1}
            for name, inner in schema.get("properties", {}).items():
                for value in places(inner, whole, word):
                    yield {"text": "x", name: value} if "text" in schema["properties"] else {name: value}
            extra = schema.get("additionalProperties")
            for value in places(extra, whole, word) if isinstance(extra, dict) else ():
                yield {"a": value}
        else:
            yield word


def calls(schemas: Mapping[str, Mapping[str, Any]], word: str) -> Iterator[tuple[str, str]]:
    """Tools and raw arguments with the word in one place each."""
    for tool, schema in schemas.items():
        good = {name: json.loads(raw) for name, raw in hostile.base(tool, schema).items()}
        good.pop("board", None)
        yield tool, json.dumps({**good, word: 1})
        seen = set()
        for name, inner in schema["properties"].items():
            variants = [good]
            if "op" in schema["properties"]:
                ops = schema["properties"]["op"].get("enum", ())
                variants = [{**good, "op": op} for op in ops] if name in ("id", "reason") else [good]
            for base in variants:
                for value in places(inner, schema, word):
                    raw = json.dumps({**base, name: value})
                    if raw not in seen:
                        seen.add(raw)
                        yield tool, raw


def test_no_argument_of_a_tool_comes_back_as_a_line_of_the_servers(served: Any) -> None:
    (modern, legacy), _ = served
    wrong, tried = [], 0
    listed = judge.schemas(modern)
    for word in words():
        for tool, raw in calls(listed, word):
            for wire in (modern, legacy) if NIGHTLY or tried % 10 == 0 else (modern,):
                reply = wires.call(wire, tool, raw)
                found = [fault for text in shown(reply.message) for fault in faults(text)]
                wrong += (
                    [f"{wire.name} {tool} {raw[:200]}: {found} in {list(shown(reply.message))}"]
                    if found
                    else []
                )
            tried += 1
    print(f"{tried} calls, {len(wrong)} wrong", *wrong, sep="\n")
    assert tried > 450
    assert not wrong, f"{len(wrong)} of {tried}, printed above"


def test_no_name_uri_or_word_of_other_requests_comes_back_as_a_line_of_the_servers(served: Any) -> None:
    (modern, legacy), _ = served
    templates = [
        template["uriTemplate"]
        for template in wires.ask(modern, "resources/templates/list", "").message["result"][
            "resourceTemplates"
        ]
    ]
    prompts = wires.ask(modern, "prompts/list", "").message["result"]["prompts"]
    assert templates
    asked: list[tuple[str, str]] = []
    for word in words():
        told, name = quote(word, safe=""), json.dumps(word)
        asked += [("tools/call", f'"name": {name}, "arguments": {{}}'), ("prompts/get", f'"name": {name}')]
        for template in templates:
            plain = re.sub(r"\{\?[^}]*\}", "", template)
            fields = re.findall(r"\{\+?(\w+)\*?\}", plain)
            for hit in fields:
                uri = plain
                for field in fields:
                    uri = re.sub(rf"\{{\+?{field}\*?\}}", told if field == hit else "main", uri)
                asked.append(("resources/read", f'"uri": {json.dumps(uri)}'))
            for query in re.findall(r"\{\?([^}]*)\}", template):
                asked += [
                    (
                        "resources/read",
                        f'"uri": {json.dumps(plain.replace("{board}", "main") + f"?{each}={told}")}',
                    )
                    for each in query.split(",")
                ]
        asked += [("resources/read", f'"uri": {json.dumps(uri)}') for uri in (word, f"board://main/{told}")]
        asked.append(("resources/subscribe", f'"uri": {name}'))
        for prompt in prompts:
            known = [argument["name"] for argument in prompt.get("arguments", ())]
            for each in (*known, word):
                given = json.dumps({**dict.fromkeys(known, "1"), each: word})
                asked.append(("prompts/get", f'"name": "{prompt["name"]}", "arguments": {given}'))
        ref = '{"type": "ref/resource", "uri": "board://{board}"}'
        asked.append(
            ("completion/complete", f'"ref": {ref}, "argument": {{"name": {name}, "value": {name}}}')
        )
        asked.append((word, ""))
    wrong = []
    for n, (method, params) in enumerate(asked):
        for wire in (modern, legacy) if n % 5 == 0 else (legacy,):
            reply = wires.ask(wire, method if method.isascii() and method.isprintable() else "x", params)
            found = [fault for text in shown(reply.message) for fault in faults(text)]
            wrong += [f"{wire.name} {method} {params}: {found}"] if found else []
    print(f"{len(asked)} requests, {len(wrong)} wrong", *wrong, sep="\n")
    assert not wrong, f"{len(wrong)}, printed above"


COMMANDS = (
    ("WORD",),
    ("--WORD",),
    ("show", "--WORD"),
    ("show", "WORD"),
    ("show", "--board", "WORD"),
    ("show", "--agent", "WORD"),
    ("explain", "WORD"),
    ("query", "WORD", "--type", "WORD"),
    ("query", "--board", "WORD"),
    ("archive", "WORD"),
    ("archive", "x", "--board", "WORD"),
    ("policies", "--board", "WORD"),
    ("members", "--board", "WORD"),
    ("members", "WORD"),
    ("members", "--set", "WORD=observer"),
    ("prune", "--board", "WORD"),
    ("export", "--board", "WORD"),
    ("import", "WORD"),
    ("verify", "--board", "WORD"),
    ("restore", "WORD"),
    ("token", "WORD"),
    ("token", "create", "WORD"),
    ("token", "create", "ben", "--role", "WORD"),
    ("token", "create", "ben", "--board", "WORD"),
    ("token", "revoke", "WORD"),
    ("serve", "--transport", "WORD"),
    ("serve", "--port", "WORD"),
    ("serve", "--tools", "WORD"),
    ("serve", "--board-settings", "WORD"),
    ("serve", "--agent", "WORD"),
    ("serve", "--policy", "WORD=a:b"),
    ("serve", "--tokenizer", "WORD"),
    ("show", "--config", "WORD"),
    ("show", "--data", "WORD"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_word_of_a_command_line_comes_back_as_more_than_a_word(
    served: Any,
    arguments: tuple[str, ...],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, data = served
    word = f"x\n{FORGED}\r\x1b[2K\x85{FORGED}\u202e\u2028{FORGED}"
    given = [each.replace("WORD", word) for each in arguments]
    if len(arguments) > 1 and "--data" not in arguments:
        given += ["--data", str(data)]
    monkeypatch.setattr(sys, "argv", ["blackboard-mcp", *given])
    with contextlib.suppress(SystemExit):
        main()
    said = "".join(capfd.readouterr())
    assert len(said) > 10
    assert not faults(said), said
