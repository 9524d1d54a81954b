"""Any call a schema lets one think of, any bytes near a message: over each wire, on boards of their own.

Hypothesis makes the calls from the published schemas: good, nearly good and hostile, with ids and keys of earlier
answers, so a tool that is added later is walked by itself. Each walk has a board of its own; what fails is shrunk to
the fewest steps. Below the tools, whole messages are cut, doubled, joined and overwritten.
HYPOTHESIS_PROFILE=nightly walks 50 times as far and every time elsewhere.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any
from urllib.parse import quote, urlsplit

import judge
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from patience import PATIENCE
from profiles import NIGHTLY
from work import Meter

hostile, wires = judge.hostile, judge.wires
FARTHER = 50 if NIGHTLY else 1

profile = settings(
    deadline=None,
    derandomize=not NIGHTLY,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

WORDS = st.sampled_from(hostile.WORDS) | st.text(max_size=40)
HARM = [*hostile.SHAPES, *hostile.NUMBERS, *hostile.BROKEN_WORDS, *hostile.NESTED]
ADDED = {"board": "the board of the walk", "seconds": "nobody waits"}
"""Arguments that the walk gives itself."""
MORE_OF = ["post"] * 5 + ["transaction", "read", "query"]
"""What a board lives by, more often than the rest."""


def raw(value: Any) -> str:
    return json.dumps(value)


def integers(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    low, high = schema.get("minimum", 0), schema.get("maximum", 2**53)
    return st.sampled_from([low, high, low - 1, high + 1, 1, 2, 5]) | st.integers(low, high)


def texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    most = schema.get("maxLength", 200)
    edges = st.sampled_from([most, most + 1]).map(lambda n: "a" * min(n, 2_100))
    return WORDS | edges


def values(schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """What a schema allows, and what is just beside it."""
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], "", str(schema["enum"][0]).lower()])
    if "anyOf" in schema:
        return st.one_of([values(option, depth) for option in schema["anyOf"]])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        return st.one_of([values({**schema, "type": each}, depth) for each in kind])
    match kind:
        case "string":
            return texts(schema)
        case "integer":
            return integers(schema)
        case "number":
            return integers(schema) | st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "array":
            inner = values(schema.get("items", {}), depth + 1) if depth < 3 else st.none()
            return st.lists(inner, max_size=4)
        case "object":
            inner = values(schema.get("additionalProperties") or {}, depth + 1) if depth < 3 else st.none()
            return st.dictionaries(WORDS, inner | st.integers(0, 9) | st.booleans(), max_size=3)
    return st.none()


class Served:
    """Two servers on one folder, a wire of each kind, and how many boards the walks have used."""

    def __init__(self, run: Any, url: str) -> None:
        self.run = run
        self.url = url
        self.tools: dict[str, Any] = judge.schemas(run.wires[0])
        self.calls = hostile.Calls(self.tools, seed=9, harm=0.0)
        self.walks = 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fuzz")
    data = folder / "data"
    logs = [folder / name for name in ("http.log", "modern.log", "legacy.log")]
    with ExitStack() as stack:
        counted = [stack.enter_context(closing(Meter())) for _ in logs]
        url, pid = stack.enter_context(wires.http_process(data, logs[0], meter=counted[0]))
        over = [wires.HttpWire(url, pid, "ada", modern=modern) for modern in (True, False)]
        for wire in over:
            stack.callback(wire.close)
        over.append(stack.enter_context(wires.stdio_wire(data, logs[1], modern=True, meter=counted[1])))
        over.append(stack.enter_context(wires.stdio_wire(data, logs[2], modern=False, meter=counted[2])))
        judge.hide(url, pid, ("main", "wild"))
        for wire in over:
            judge.good(wire, "post", '{"text": "a fact"}')
            judge.good(wire, "read", "{}")
        meters = dict(zip([pid, *(wire.pid for wire in over[2:])], counted, strict=True))
        found = stack.enter_context(closing(judge.Run(data, over, meters)))
        yield Served(found, url)
        print(found.report())
        assert max(judge.most_memory(wire.pid) for wire in over) < judge.MOST_MEMORY
    judge.whole(data)
    said = "".join(log.read_text("utf-8", "replace") for log in logs)
    assert "Traceback" not in said, said[-6_000:]
    assert " ERROR " not in said, said[-6_000:]


def all_is_well(served: Served) -> None:
    """Nothing that was asked had a wrong answer, and honest calls still work everywhere."""
    wrong, served.run.seen.wrong = served.run.seen.wrong, []
    assert not wrong, "\n".join(wrong[:3])


def test_any_calls_one_after_the_other_are_answered_and_leave_the_board_whole(served: Served) -> None:
    tools = served.tools

    class Walk(RuleBasedStateMachine):
        """Calls of one agent on one board."""

        @initialize()
        def begin(self) -> None:
            served.walks += 1
            self.board = f"walk{served.walks}"
            self.ids = ["1", "F-1"]
            self.keys = ["a", "plan:a"]
            judge.hide(served.url, served.run.wires[0].pid, (self.board,))

        def known(self, name: str) -> st.SearchStrategy[Any]:
            """What the board has by now, in the form that an argument of that name takes."""
            id_, key = st.sampled_from(self.ids), st.sampled_from(self.keys)
            several = st.lists(id_, min_size=1, max_size=3)
            forms: dict[str, st.SearchStrategy[Any]] = {
                "id": id_,
                "thread": id_,
                "ids": several,
                "key": key,
                "keys": st.lists(key, min_size=1, max_size=3),
                "edges": st.dictionaries(
                    st.sampled_from(["replies_to", "critiques", "depends_on", "supersedes", "supports"]),
                    several,
                    max_size=2,
                ),
                "reads": st.dictionaries(id_ | key, st.integers(0, 3), max_size=3),
            }
            return forms.get(name, st.nothing())

        def value(self, name: str, schema: dict[str, Any]) -> st.SearchStrategy[str]:
            """Mostly what the argument takes, sometimes what it must not."""
            good = [st.sampled_from(hostile.GOOD[name])] if name in hostile.GOOD else []
            likely = [self.known(name), *good, *good, values(schema)]
            named = st.sampled_from(hostile.NAMED.get(name, ("null",)))
            return st.one_of(
                st.one_of(likely).map(raw), st.one_of(likely).map(raw), named | st.sampled_from(HARM)
            )

        @rule(tool=st.sampled_from([*sorted(tools), *MORE_OF]), wire=st.integers(0, 3), data=st.data())
        def call(self, tool: str, wire: int, data: st.DataObject) -> None:
            properties = tools[tool]["properties"]
            names = sorted(properties.keys() - ADDED.keys())
            chosen = data.draw(st.lists(st.sampled_from(names), max_size=4, unique=True), "arguments")
            given = {
                **hostile.base(tool, tools[tool]),
                **{name: data.draw(self.value(name, properties[name]), name) for name in chosen},
                "board": raw(self.board),
            }
            reply = served.run.call(served.run.wires[wire], tool, given)
            all_is_well(served)
            self.learn(reply)

        def learn(self, reply: Any) -> None:
            result = ((reply and reply.message) or {}).get("result") or {}
            for item in (result.get("structuredContent") or {}).get("items") or []:
                if "version" in item:
                    self.ids = [*self.ids[-20:], item["id"], f"{item['id']}@{item['version']}"]
                    self.keys += [item["key"]] if item["key"] else []

        @rule(wire=st.integers(0, 3), data=st.data())
        def resource(self, wire: int, data: st.DataObject) -> None:
            word = data.draw(st.sampled_from(self.ids) | WORDS.filter(clean), "word")
            path = data.draw(st.sampled_from(RESOURCES), "resource").format(quote(word, safe=""))
            uri = raw(f"board://{self.board}{path}")
            served.run.ask(served.run.wires[wire], "resources/read", f'"uri": {uri}', of=plain(uri))
            all_is_well(served)

        @rule(
            wire=st.integers(0, 3),
            argument=st.sampled_from(["board", "id", "agent", "after"]),
            data=st.data(),
        )
        def complete(self, wire: int, argument: str, data: st.DataObject) -> None:
            typed = raw(data.draw(WORDS, "typed"))
            told = '"ref": {"type": "ref/resource", "uri": "board://{board}/items/{id}"}, "context": '
            told += f'{{"arguments": {{"board": {raw(self.board)}}}}}, '
            told += f'"argument": {{"name": "{argument}", "value": {typed}}}'
            served.run.ask(served.run.wires[wire], "completion/complete", told)
            all_is_well(served)

    run_state_machine_as_test(
        Walk,
        settings=settings(profile, max_examples=20 if FARTHER == 1 else 30 * FARTHER, stateful_step_count=25),
    )
    for wire in served.run.wires:
        assert judge.good(wire, "post", '{"text": "still here"}')["seq"] > 0


RESOURCES = (
    *("", "/core", "/working.json", "/threads.json", "/agents", "/events?after=1", "/stats.json", "/outline"),
    *(
        "/view/{}",
        "/items/{}",
        "/items/{}.json",
        "/items/{}/versions.json",
        "/items/{}/explain",
        "/events?after={}",
    ),
)


def clean(word: str) -> bool:
    with suppress(UnicodeEncodeError):
        return bool(word.encode()) and len(word) < 600
    return False


def plain(uri: str) -> str:
    word = json.loads(uri)
    return word if word.isascii() and word.isprintable() else ""


META = '"_meta": {%s, "io.modelcontextprotocol/clientCapabilities": {}}'.replace(
    "%s", f'"io.modelcontextprotocol/protocolVersion": "{wires.MODERN}"'
)
BOARDS = '"ref": {"type": "ref/resource", "uri": "board://{board}"}, "argument": {"name": "board"}, '
MESSAGES = [
    f'{{"jsonrpc": "2.0", "id": 7, "method": "{method}", "params": {{{params}{META}}}}}'.encode()
    for method, params in (
        ("tools/list", ""),
        ("tools/call", '"name": "post", "arguments": {"text": "a", "tags": ["b"], "board": "wild"}, '),
        ("tools/call", '"name": "read", "arguments": {"ids": ["1"]}, '),
        ("resources/read", '"uri": "board://main/core", '),
        ("prompts/list", ""),
        ("ping", ""),
        ("server/discover", ""),
        (
            "completion/complete",
            '"ref": {"type": "ref/resource", "uri": "board://{board}"}, "argument": {"name": "board"}, ',
        ),
    )
] + [
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}',
    b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 8, "error": {"code": 1, "message": "no"}}',
]
PIECES = st.sampled_from(
    [
        *(
            b"\xff",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xef\xbb\xbf",
            b"\0",
            b"\r",
            b" " * 300,
        ),
        *(
            b'"',
            b"\\",
            b"\\ud800",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"1e999",
            b"NaN",
            b"-",
            b"null",
            b"true",
        ),
        *(
            b'"id": 9, ',
            b'"method": "x", ',
            b'"jsonrpc": "1.0", ',
            b"9" * 400,
            b"[" * 3_000,
            b'{"a":' * 3_000,
        ),
    ]
)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A message with some of its bytes cut out, doubled, overwritten, or with others among them."""
    body = draw(st.sampled_from(MESSAGES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 40)))
        change: Callable[[bytes], bytes] = draw(
            st.sampled_from([cut, doubled, cut_short, listed]) | PIECES.map(lambda piece: lambda _: piece)
        )
        if change is cut_short:
            body = body[:start]
        elif change is listed:
            body = b"[" + body + b"," + body + b"]"
        else:
            body = body[:start] + change(body[start:end]) + body[end:]
    return body


def cut(_: bytes) -> bytes:
    return b""


def doubled(part: bytes) -> bytes:
    return part + part


def cut_short(part: bytes) -> bytes:
    return part


def listed(part: bytes) -> bytes:
    return part


@settings(profile, max_examples=200 if FARTHER == 1 else 500 * FARTHER)
@given(mangled(), st.integers(0, 3))
def mangle(served: Served, body: bytes, wire: int) -> None:
    served.run.send(served.run.wires[wire], body)
    all_is_well(served)


def test_mangled_messages_are_answered_or_passed_over(served: Served) -> None:
    mangle(served)
    for wire in served.run.wires:
        assert judge.good(wire, "post", '{"text": "still here"}')["seq"] > 0


LINES = [
    b'{"id": "m%d", "kind": "message", "text": "Never commit to main. From now on, write tests.", "thread": "s"}',
    b'{"id": "c%d", "kind": "call", "tool": "pytest", "text": "pytest -q", "thread": "s"}',
    b'{"id": "r%d", "kind": "result", "tool": "pytest", "ok": false, "text": "2 failed", "subject": "src"}',
    b'{"hook_event_name": "UserPromptSubmit", "session_id": "s%d", "prompt": "Always ask."}',
]


@settings(profile, max_examples=100 if FARTHER == 1 else 250 * FARTHER)
@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 20)), min_size=1, max_size=4),
    st.data(),
)
def hand_over(served: Served, lines: list[tuple[bytes, int]], data: st.DataObject) -> None:
    body = b"\n".join(line % number for line, number in lines)
    for _ in range(data.draw(st.integers(0, 3), "changes")):
        start = data.draw(st.integers(0, len(body)), "start")
        end = data.draw(st.integers(start, min(len(body), start + 40)), "end")
        body = body[:start] + data.draw(st.just(b"") | PIECES, "piece") + body[end:]
    served.run.hand_over(served.run.wires[0], body)
    all_is_well(served)


def test_mangled_hand_overs_are_taken_or_refused(served: Served) -> None:
    hand_over(served)
    assert judge.good(served.run.wires[0], "post", '{"text": "still here"}')["seq"] > 0


HEADERS = {
    "Mcp-Protocol-Version": [
        "",
        "2025-11-25",
        "2026-07-28",
        "9999-99-99",
        "x" * 5_000,
        "2026-07-28, 2025-11-25",
    ],
    "Mcp-Method": ["", "tools/list", "no/such", "x" * 5_000, "tools/call\t"],
    "Mcp-Name": ["", "post", "\u00ff".encode("latin-1").decode("latin-1"), "=?base64?x?=", "x" * 5_000],
    "Mcp-Session-Id": ["", "0" * 32, "../x", "x" * 5_000],
    "X-Blackboard-Agent": ["", "ada", "eve,ada", "a b", "x" * 300, "../x"],
    "Content-Type": [
        "",
        "text/plain",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
    ],
    "Accept": ["", "*/*", "text/html", "application/json;q=0", "x" * 5_000],
    "Content-Encoding": ["gzip", "br"],
    "Last-Event-ID": ["1", "-1", "x" * 5_000],
    "Authorization": ["Bearer", "Bearer x", "Basic eDp5", "Bearer " + "x" * 5_000],
    "Forwarded": ["for=127.0.0.1"],
}


@settings(profile, max_examples=100 if FARTHER == 1 else 250 * FARTHER)
@given(
    st.dictionaries(st.sampled_from(sorted(HEADERS)), st.integers(0, 9), max_size=4),
    st.sampled_from(MESSAGES),
)
def with_headers(served: Served, chosen: dict[str, int], body: bytes) -> None:
    wire = served.run.wires[0]
    headers = {
        "X-Blackboard-Agent": "ada",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": wires.MODERN,
        **{name: HEADERS[name][place % len(HEADERS[name])] for name, place in chosen.items()},
    }
    shown = f"{headers} {body[:200]!r}"
    status, answer, _ = wire._post(body, {name: value for name, value in headers.items() if value})
    assert status < 500, (shown, answer[:500])
    assert not judge.LEAKS.search(answer), (shown, answer[:500])
    assert judge.CANARY.encode() not in answer, shown
    assert len(answer) <= judge.MOST_BYTES, shown


def test_headers_of_all_kinds_are_refused_or_passed_over(served: Served) -> None:
    with_headers(served)
    assert judge.good(served.run.wires[0], "post", '{"text": "still here"}')["seq"] > 0


def test_a_storm_of_calls_and_cancellations_over_stdio_is_survived(served: Served) -> None:
    for wire in served.run.wires[2:]:
        told = "{" + (wires._MODERN_META if wire.modern else "") + "}"
        lines = []
        for n in range(60 * min(FARTHER, 10)):
            params = f'"name": "wait", "arguments": {{"seconds": {20 if n % 2 else 0}}}, "_meta": {told}'
            lines.append(
                f'{{"jsonrpc": "2.0", "id": "s{n}", "method": "tools/call", "params": {{{params}}}}}'
            )
            if n % 2:
                told_off = f'"params": {{"requestId": "s{n}"}}'
                lines += [f'{{"jsonrpc": "2.0", "method": "notifications/cancelled", {told_off}}}'] * (
                    n % 3 + 1
                )
        wire._process.stdin.write("".join(line + "\n" for line in lines).encode())
        wire._process.stdin.flush()
        assert judge.good(wire, "post", '{"text": "after the storm"}')["seq"] > 0


def test_clients_that_leave_in_the_midst_leave_nothing_behind(served: Served) -> None:
    url = urlsplit(served.url)
    wait = wires.MODERN
    body = (
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {"seconds": 30}, '
        + META
        + "}}"
    ).encode()
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        "X-Blackboard-Agent: ada\r\n"
        f"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: {wait}\r\nMcp-Method: tools/call\r\n"
        f"Mcp-Name: wait\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()

    def leave(place: int) -> None:
        with (
            suppress(OSError),
            socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as client,
        ):
            whole = head + body
            client.sendall(whole[: len(whole) * (place % 5) // 4])
            if place % 3 == 0:
                select.select([client], [], [], 0.02)

    leaving = [threading.Thread(target=leave, args=(n,)) for n in range(40 * min(FARTHER, 10))]
    for thread in leaving:
        thread.start()
    for thread in leaving:
        thread.join()
    for wire in served.run.wires[:2]:
        assert judge.good(wire, "post", '{"text": "still here"}')["seq"] > 0
