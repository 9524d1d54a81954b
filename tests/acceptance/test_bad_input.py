"""Whatever a client sends, it is told what is wrong, nothing is changed, and the server goes on.

The cases come from the published schemas, so an argument that is added later is covered by itself; only
what its words mean (`WORDS`) has to be said here.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as types
import pytest
from blackboard_mcp.server.access.needs import TOOLS
from blackboard_mcp.server.demo.process import (
    Serving,
    command,
    environment,
    http_clients,
    http_server,
    stdio_clients,
)
from blackboard_mcp.server.demo.replay import STRUCTURED, call, events, resource
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from patience import PATIENCE
from unlisted import whole

MODERN = "2026-07-28"
CODES = {"cursor_expired", "invalid", "not_found", "conflict", "refused"}
LONGEST_ERROR = 700
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "blackboard/structured": True,
}

OF_TYPE: dict[str, list[Any]] = {
    "string": ["words"],
    "integer": [1],
    "number": [1, 1.5],
    "boolean": [True],
    "array": [["words"]],
    "object": [{"a": 1}],
}
LISTS = {"tags", "any_tags", "no_tags", "ids", "keys", "agree"}
"""Arguments that take one string for a list of one."""
FREE = {
    *("text", "author", "name", "reason", "objective", "title", "idempotency_key", "metadata", "flags"),
    *("query", "path", "content", "append", "diff", "outline", "tag"),
}
"""Arguments that take any words."""
WORDS: dict[str, list[Any]] = {
    "type": ["FAKT", "fact ", ""],
    "status": ["DONE", ""],
    "visibility": ["secret", "Private", "team:acme", ""],
    "zone": ["attic", ""],
    "latest": ["day", ""],
    "op": ["close", ""],
    "lifecycle": ["shut", ""],
    "importance": [0, 6],
    "replace": [{"a": 1}, {"old": "x"}, {"old": "x", "new": "y", "every": True}],
    "delete": [True],  # there is no such file
    "binary": [True],  # without content
    "expected": [-1],
    "revision": [-1],
    "end": [0],
    "depth": [0, 21],
    "expected_version": [-1],
    "budget": [0],
    "since": [2**40],
    "limit": [0, 100_000],
    "seconds": [-0.1, 51, 3600],
    "ttl_seconds": [0, -1, 1e12],
    "id": ["", "H", "H-", "X-999999", "1e3", "H-1@x", "999999", "-1", "１"],
    "of": ["", "H", "everything", "F-1..", "F-1..x", "999999"],
    "thread": ["", "H", "999999999999999999"],
    "ids": [["H"], [""], ["1@"], ["x" * 41]],
    "keys": [["a b"], [":a"], ["a*"], [""]],
    "key": ["a b", ":a", "a:", "a::b", "a*", ""],
    "tags": [[""], ["a,b"], [" a"], ["a\nb"], ["x" * 65]],
    "any_tags": [[""], ["x" * 65]],
    "no_tags": [[""], ["x" * 65]],
    "edges": [{"likes": ["1"]}, {"critiques": ["999999"]}, {"depends_on": ["x"]}, {"replies_to": 1}],
    "cursor": ["next", "-1", "1.5", ""],
    "after": ["yesterday", "2026-13-01", ""],
    "before": ["tomorrow", "12:00", ""],
    "filter": [{"sort": 1}, {"type": "FAKT"}, {"not": 1}, {"key": "a b"}, {"all": {}}],
    "unsubscribe": ["s-none"],
    "subscription": ["s-none"],
    "watchers": [["a b"], [""]],
    "agree": [
        [""],
        ["a b"],
        ["ben", "x" * 65],
        ["0"],
        ["100000"],
        ["1", "2"],
        ["ada"],
        ["system"],
        ["ben", "2"],
        ["all"],
    ],
    "items": [[{"txt": "x"}], [{"text": "good"}, {}], [{"text": "a", "edges": {"critiques": ["$2"]}}], [[]]],
    "define": [
        {"titel": "x"},
        [{"title": ""}],
        {"title": "x", "entry": "soon"},
        {"title": "x", "parent": "G-9"},
        [[]],
    ],
    "constraints": [["x" * 200_001]],
    "restore": [],
    "lease": [],
    "explain": [],
    "neighbours": [],
    "approve": [True, False],  # for votes alone
    "outcome": ["accepted", "Falls!", ""],
    "dry_run": [],
    "parent": ["no such board!"],
    "members": [{"ada": "king"}, {"a b": "observer"}, {"": "observer"}, {"x" * 65: "admin"}, {"ada": True}],
    "settings": [{"no_such_setting": 1}, {"target_tokens": -1}],
    "expected_settings": [{"no_such_setting": 1}, {"target_tokens": -1}],
    "board": ["a b", "", "x" * 65, "../main", "nowhere"],
    "group": ["", "a b", "x" * 65, ".g"],
    "ack": [["1"], [""], ["1.0"], ["1.1"], ["1.1", "1.1"]],
    "fail": [{"1": "why"}, {"1.1": "why"}, {"1.1": "x" * 501}],
    "lease_seconds": [0, 0.5, 3_601],
    "role": ["two\nlines", "x" * 161],
    "interests": [[{"sort": 1}], [{"type": "FAKT"}], [{}] * 11],
    "leave": ["x" * 301],
    "decision": [{}, {"next_agent": 7}, {"terminate": "perhaps"}],  # in a run alone
    "usage": [{"tokens": -1}, {"dollars": 1}],
    "offer": [-0.1, 1.1],
    "start": [{}, {"problem": ""}, {"problem": "x", "strategy": "guess"}, {"problem": "x", "max_rounds": 0}],
    "run": ["", "1e3", "run-", "run-0", "T-1", "run-999999"],
    "strength": ["firm", "Strict", ""],
    "scope": ["", "everyone", "agent:", "agent:a b", "key:a b", "path:../x", "path:a//b", "x" * 201],
    "confirm": [["H"], ["F-1"], ["999999"], ["1"] * 21],
    "retire": ["", "x" * 301],
    "message": ["x" * 20_001],
    "check": ["", " ", "x" * 201],
    "subject": ["x" * 201],
    "why": ["", "F-1", "T-0", "x" * 2_001],
    "ok": [True, False],  # for op="verify" alone
    "cites": [["H"], ["F-1", "F-1"]],  # for op="done" and others alone
    "paths": [["src"], ["file:"], ["file:../x"], ["key:a::b"], ["x" * 201]],
    "reads": [{"999999": "1"}, {"a b": 1}, {"entry": -1}, {"entry": 7}],
    "writes": [
        [{"txt": "x"}],
        [{"text": "good"}, {}],
        [[]],
        *(
            [{"text": "good"}, {"key": "sum", "add": add}]
            for add in ("45", True, [45], {"by": 45}, "", 1e300, 2**70)
        ),
        *(
            [{"text": "good"}, {"add": 1, **more}]
            for more in ({}, {"key": "entry"}, {"key": "none"}, {"id": "F-1"})
        ),
        [{"text": "good"}, {"key": "sum", "add": 1, "text": "5"}],
        [{"text": "good"}, {"key": "sum", "add": 1, "expected_version": 7}],
        [{"text": "good"}, {"key": "sum", "add": 1, "status": "DELETED"}],
    ],
    "debates": [[{"op": "close"}], [{"op": "vote", "id": "999999"}], [[]]],
    "to": ["a b", "", "x" * 201],
    "deadline_seconds": [0, -1, 1e12],
    "cancel": ["999999", "H-", ""],
    "protocols": [],
    "partial": [],
    "decline": [],
    "skills": [[""], ["a b"], ["x" * 201]],
}
"""Values of the right type that are wrong for the argument of that name, whichever tool has it."""
NO_TAGS = [[""], ["x" * 65]]
TAKEN: dict[tuple[str, str], list[Any]] = {
    ("join", "protocols"): [["esperanto"], [""], ["grounding"] * 33],
    **{
        (tool, "seconds"): [51, 3600, 2**62, 1e300]
        for tool in ("wait", "turn", "claim", "consume", "request")
    },
}
"""What is taken though it is too much: as much as there may be."""
OTHERWISE: dict[tuple[str, str], list[Any]] = {
    ("query", "key"): ["", "a b"],
    ("query", "tags"): NO_TAGS,
    ("query_archive", "key"): ["", "a b"],
    ("query_archive", "tags"): NO_TAGS,
    ("consume", "limit"): [51],
    ("artifact_list", "after"): ["x" * 801],
}
"""Where a tool takes what others refuse: the values instead."""
ALONE = {"items", "board", "idempotency_key"}
"""Arguments of post that an item of a batch does not have."""
BASE: dict[str, dict[str, Any]] = {
    "post": {"text": "a post"},
    "wait": {"since": 0, "seconds": 0},
    "debate": {"op": "status", "id": "1"},
    "core": {"objective": "o"},
    "board": {},
    "prune": {"dry_run": True},
    "consume": {"group": "g", "filter": {}, "seconds": 0},
    "transaction": {"writes": [{"text": "a write"}]},
    "artifact_write": {"path": "a.md", "expected": 9},  # which no file has: nothing is written
    "artifact_read": {"path": "a.md"},
    "artifact_search": {"text": "pump"},
    "report_result": {"ok": True},  # without check, as ok and cites of any kind are good with it
    "request": {"to": "bob", "text": "a question"},
    "respond": {"id": "1", "text": "an answer"},
}
"""A good call of each tool, to which one wrong argument is added."""
MAKES = {"post", "transaction"}
"""Tools that make the board they name."""
WITH = {"watchers": {"op": "open"}}
"""What an argument goes with, where the good call of its tool leaves it unread."""


def kinds(schema: dict[str, Any]) -> set[str]:
    """The JSON types that a schema allows; an enum's words are strings."""
    if "enum" in schema:
        return {"string"}
    listed = schema.get("anyOf") or [schema]
    named = {part["type"] for part in listed if "type" in part}
    return named | ({"integer"} if "number" in named else set())


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def wrong_values(tool: str, name: str, schema: dict[str, Any]) -> Iterator[Any]:
    """What an argument must refuse: by its type, then by its meaning."""
    allowed = kinds(schema)
    for kind, values in OF_TYPE.items():
        if kind not in allowed and not (kind == "string" and name in LISTS):
            # 1 and 1.0 are the same number in JSON.
            yield from (
                v for v in values if not (allowed & {"integer", "number"} and kind == "number" and v == 1)
            )
    if "string" in allowed:
        yield from ("x" * 200_001, "nul \0 inside")
    if allowed & {"integer", "number"}:
        yield from (-1, 2**62, -(2**63), 2**64, 1e300)
    if "array" in allowed:
        yield from (["x"] * 20_001, [1], [None], [["x"]], ["nul \0"], nested(101))
    if "object" in allowed:
        yield from ({f"k{n}": 1 for n in range(20_001)}, {"nul \0": 1}, {"a": "nul \0"}, {"a": nested(100)})
        yield {"k" * 300: 1}
    yield from OTHERWISE.get((tool, name), WORDS.get(name, []))


def cases(tools: Sequence[types.Tool]) -> Iterator[tuple[types.Tool, str, Any]]:
    for tool in tools:
        for name, schema in whole(tool.name, tool.input_schema)["properties"].items():
            for value in wrong_values(tool.name, name, schema):
                if value in TAKEN.get((tool.name, name), ()):
                    continue
                if not (tool.name in MAKES and (name, value) == ("board", "nowhere")):
                    yield tool, name, value
        yield tool, "no_such_argument", 1


@asynccontextmanager
async def board_of(served: Serving) -> AsyncIterator[tuple[Client, list[types.Tool]]]:
    """A client of a server with every tool, on a board with something on it."""
    async with http_clients(served.url)("ada") as ada:
        tools = (await ada.list_tools()).tools
        await call(ada, "post", items=[{"text": "a fact", "key": "entry"}, {"text": "100", "key": "sum"}])
        yield ada, tools


async def complaint(client: Client, tool: str, arguments: dict[str, Any], name: str) -> list[str]:
    """What is wrong with the answer to a wrong call; nothing when it is an error that teaches."""
    shown = f"{tool}({name}={str(arguments.get(name))[:80]})"
    result = await client.call_tool(tool, arguments, meta=STRUCTURED)
    text = "".join(part.text for part in result.content if isinstance(part, types.TextContent))
    if not result.is_error:
        return [f"{shown} was taken: {text[:200]}"]
    code = (result.structured_content or {}).get("error")
    if code not in CODES or not 10 < len(text) <= LONGEST_ERROR or "Traceback" in text:
        return [f"{shown}: {code} {text[:900]}"]
    if "othing was changed" in text and TOOLS[tool].only_reads(arguments):
        return [f"{shown} asks for no change, and is told of it: {text[:200]}"]
    return []


async def fingerprint(client: Client) -> tuple[int, int]:
    """The sequence of the board, and how many boards there are."""
    template = types.ResourceTemplateReference(uri="board://{board}")
    boards = await client.complete(template, {"name": "board", "value": ""})
    return (await resource(client, "board://main/stats.json"))["seq"], boards.completion.total or 0


async def test_every_argument_of_every_tool_refuses_what_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path, "--tools", "all") as served, board_of(served) as (ada, tools):
        before = await fingerprint(ada)
        unknown = [
            f"{tool.name}.{name}"
            for tool in tools
            for name in whole(tool.name, tool.input_schema)["properties"]
            if name not in WORDS.keys() | FREE
        ]
        assert not unknown, f"say in WORDS or FREE what these mean: {unknown}"
        count, wrong = 0, []
        for (tool_name, name), values in itertools.groupby(
            cases(tools), lambda case: (case[0].name, case[1])
        ):
            for _, _, value in values:
                arguments = {**BASE.get(tool_name, {}), **WITH.get(name, {}), name: value}
                wrong += await complaint(ada, tool_name, arguments, name)
                count += 1
            after = await fingerprint(ada)  # a sequence and a number of boards that grew stay so
            if after != before:
                wrong.append(f"{tool_name}({name}=…) changed {before} to {after}")
                before = after
        for tool in tools:
            for name in tool.input_schema.get("required", []):
                arguments = {k: v for k, v in BASE[tool.name].items() if k != name}
                wrong += await complaint(ada, tool.name, arguments, name)
        print(f"{count} wrong values")
        assert not wrong, "\n".join(wrong)
        assert count > 400
        assert await fingerprint(ada) == before
        assert (await call(ada, "post", text="still here"))["seq"] == before[0] + 1


async def test_a_wrong_item_in_a_batch_posts_none_of_it(tmp_path: Path) -> None:
    async with http_server(tmp_path) as served, board_of(served) as (ada, tools):
        post = next(tool for tool in tools if tool.name == "post")
        before = await fingerprint(ada)
        batches: list[Any] = [[{"text": "x"}] * 101]
        for name, schema in whole("post", post.input_schema)["properties"].items():
            values = ["x"] if name in ALONE else wrong_values("post", name, schema)
            batches += [[{"text": "good"}, {"text": "bad", name: value}] for value in values]
        wrong = [w for items in batches for w in await complaint(ada, "post", {"items": items}, "items")]
        assert not wrong, "\n".join(wrong)
        assert await complaint(ada, "post", {"items": [{"text": "x"}], "text": "both"}, "items") == []
        assert await fingerprint(ada) == before
        assert len(await events(ada, "main")) == before[0]


def message(id_: int, tool: str, arguments: str) -> str:
    """A call as it goes over the wire, with arguments as they were written."""
    params = f'{{"name": "{tool}", "arguments": {arguments}, "_meta": {json.dumps(META)}}}'
    return f'{{"jsonrpc": "2.0", "id": {id_}, "method": "tools/call", "params": {params}}}'


RAW = {
    "a lone surrogate": '{"text": "half \\ud800 of one"}',
    "a lone surrogate in a key": '{"text": "x", "metadata": {"\\udfff": 1}}',
    "a lone surrogate in a tag": '{"text": "x", "tags": ["\\ud83d"]}',
    "NUL": '{"text": "nul \\u0000 inside"}',
    "not a number": '{"text": "x", "ttl_seconds": NaN}',
    "an endless number": '{"text": "x", "ttl_seconds": Infinity}',
    "a number of 5,000 digits": '{"text": "x", "expected_version": ' + "9" * 5_000 + "}",
    "nesting of 100 levels": '{"text": "x", "metadata": ' + '{"a": ' * 100 + "1" + "}" * 100 + "}",
    "nesting of 100,000 levels": '{"text": "x", "metadata": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "arguments that are a list": "[1]",
    "arguments that are words": '"text"',
    "half a message": '{"text": "x"',
    "a post of 5 MB": '{"text": "' + "x" * 5_000_000 + '"}',
}


def is_refusal(answer: dict[str, Any]) -> bool:
    """Whether a JSON-RPC answer says no: as the tool's result, or as a protocol error; with words."""
    if "error" in answer:
        words = answer["error"]["message"]
    else:
        assert answer["result"]["isError"], answer
        words = answer["result"]["content"][0]["text"]
    assert 10 < len(words) <= LONGEST_ERROR, words
    assert "Traceback" not in words
    return True


async def test_monsters_over_http_are_refused_and_change_nothing(tmp_path: Path) -> None:
    headers = {
        "x-blackboard-agent": "ada",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "post",
    }
    async with (
        http_server(tmp_path) as served,
        board_of(served) as (ada, _),
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False, verify=False) as http,
    ):
        before = await fingerprint(ada)
        for name, arguments in RAW.items():
            reply = await http.post(served.url, content=message(1, "post", arguments).encode())
            assert reply.status_code < 500, (name, reply.text[:300])
            assert is_refusal(json.loads(reply.text.removeprefix("event: message\r\ndata: "))), name
            assert await fingerprint(ada) == before, name
        with pytest.raises((MCPError, ExceptionGroup)):
            async with http_clients(served.url)("ben") as ben:
                await call(ben, "post", text="x" * 5_000_000)
        assert await fingerprint(ada) == before


async def test_monsters_over_stdio_are_answered_and_change_nothing(tmp_path: Path) -> None:
    words = command("serve", "--transport", "stdio", "--data", str(tmp_path), "--agent", "ada")
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
        limit=2**24,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    numbers = itertools.count(1)

    async def ask(text: str) -> dict[str, Any]:
        stdin.write(text.encode() + b"\n")
        await stdin.drain()
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(stdout.readline(), PATIENCE))
        return answer

    first = await ask(message(next(numbers), "post", '{"text": "a fact"}'))
    assert not first["result"]["isError"]
    for name, arguments in RAW.items():
        assert is_refusal(await ask(message(next(numbers), "post", arguments))), name
    for garbage in ("garbage", "[]", '{"jsonrpc": "2.0"}', '{"jsonrpc": "1.0", "id": 1, "method": 7}'):
        assert "error" in await ask(garbage), garbage
    last = await ask(message(next(numbers), "post", '{"text": "another"}'))
    assert last["result"]["structuredContent"]["seq"] == first["result"]["structuredContent"]["seq"] + 1
    stdin.close()
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert process.stderr is not None
    assert b"Traceback" not in await process.stderr.read()


async def test_a_real_stdio_client_outlives_its_own_monsters(tmp_path: Path) -> None:
    async with stdio_clients(tmp_path)("ada") as ada:
        seq = (await call(ada, "post", text="a fact"))["seq"]
        for text in ("x" * 250_000, "nul \0", " \n "):
            result = await ada.call_tool("post", {"text": text})
            assert result.is_error
        deep = await ada.call_tool("post", {"text": "x", "metadata": {"a": nested(100)}})
        assert deep.is_error
        with pytest.raises(MCPError):
            await ada.call_tool("post", {"text": "x" * 5_000_000})
        assert (await call(ada, "post", text="another"))["seq"] == seq + 1
