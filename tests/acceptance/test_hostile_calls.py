"""Hostile input over every tool, wire and generation: whatever is sent, the answer teaches and the board stays whole.

The calls are made from the published schemas, so a tool or an argument that is added later is tried by itself.
Every request is raw JSON, so that what a typed client refuses to send is sent. A seed gives the same calls
again; HYPOTHESIS_PROFILE=nightly sends all of the corpus over every wire and goes on at random for long.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import quote

import judge
import pytest
from profiles import NIGHTLY
from work import Meter

hostile, wires = judge.hostile, judge.wires
Run, good, whole, schemas = judge.Run, judge.good, judge.whole, judge.schemas
MIXED = 15_000 if NIGHTLY else 150
ALONE, DEAR = (20_000, 400) if NIGHTLY else (180, 8)
"""Calls with one hostile argument, drawn from 280,000 that there are, and with one that is as large as it may be."""
BOARDS = ("main", "side", "wild")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server over HTTP and one over stdio, both generations, on one folder; in the end everything is whole."""
    folder = tmp_path_factory.mktemp("hostile")
    data = folder / "data"
    logs = [folder / name for name in ("http.log", "modern.log", "legacy.log")]
    with ExitStack() as stack:
        counted = [stack.enter_context(closing(Meter())) for _ in logs]
        url, pid = stack.enter_context(wires.http_process(data, logs[0], meter=counted[0]))
        modern = wires.HttpWire(url, pid, "ada", modern=True)
        legacy = wires.HttpWire(url, pid, "ada", modern=False)
        stack.callback(modern.close)
        stack.callback(legacy.close)
        over = [
            modern,
            legacy,
            stack.enter_context(wires.stdio_wire(data, logs[1], modern=True, meter=counted[1])),
        ]
        if NIGHTLY:
            over.append(stack.enter_context(wires.stdio_wire(data, logs[2], modern=False, meter=counted[2])))
        for board in BOARDS:
            for n in range(8):
                kind = "" if n % 3 else f', "key": "plan:{n}"'
                good(modern, "post", f'{{"text": "fact {n}", "tags": ["a"], "board": "{board}"{kind}}}')
        judge.hide(url, pid, BOARDS)
        good(modern, "board", '{"settings": {"target_tokens": 10000000}}')
        for wire in over:
            good(wire, "read", "{}")
        meters = dict(zip([pid, *(wire.pid for wire in over[2:])], counted, strict=False))
        found = stack.enter_context(closing(Run(data, over, meters)))
        yield found
        print(found.report())
    whole(data)
    said = "".join(log.read_text("utf-8", "replace") for log in logs if log.exists())
    assert "Traceback" not in said, said[-6_000:]


def nothing_broke(run: Any) -> None:
    """Every answer was right, none was a runaway, and honest calls still work over every wire."""
    wrong, run.seen.wrong = run.seen.wrong, []
    print(run.report())
    print("\n".join(wrong[:60]))
    for wire in run.wires:
        assert good(wire, "post", '{"text": "still here"}')["seq"] > 0
        assert good(wire, "read", '{"ids": ["1"]}')["items"][0]["number"] == 1
    assert not wrong, f"{len(wrong)} wrong answers, printed above"
    assert max(judge.most_memory(wire.pid) for wire in run.wires) < judge.MOST_MEMORY


def some(cases: Iterable[Any], number: int, seed: int) -> list[Any]:
    """So many of the cases, or all of them at night."""
    return list(cases) if NIGHTLY else drawn(cases, number, seed)


def drawn(cases: Iterable[Any], number: int, seed: int) -> list[Any]:
    """So many of the cases, in any order."""
    listed = list(cases)
    return random.Random(seed).sample(listed, min(number, len(listed)))


def test_hostile_values_of_every_argument_are_refused_or_kept_as_data(run: Any) -> None:
    calls = hostile.Calls(schemas(run.wires[0]), seed=1)
    seed = secrets.randbelow(1 << 32) if NIGHTLY else 2
    print("seed", seed)
    chosen = drawn(calls.alone(), ALONE, seed) + drawn(calls.dear(), DEAR, seed + 1)
    for n, (tool, given) in enumerate(chosen):
        run.call(run.wires[n % len(run.wires)], tool, given)
    nothing_broke(run)


def test_hostile_calls_at_random_leave_the_board_whole(run: Any) -> None:
    seed = secrets.randbelow(1 << 32) if NIGHTLY else 4
    print("seed", seed)
    calls = hostile.Calls(schemas(run.wires[0]), seed)
    chance = random.Random(seed)
    for n, (tool, given) in enumerate(itertools.islice(calls.mixed(), MIXED)):
        extra = ""
        if chance.random() < 0.1:
            extra = f', "blackboard/idempotency_key": "k{chance.randrange(20)}"'
        run.call(run.wires[n % len(run.wires)], tool, given, extra)
    nothing_broke(run)


def test_hostile_names_uris_and_messages_are_refused(run: Any) -> None:
    words = [json.dumps(word) for word in hostile.WORDS] + [*hostile.BROKEN_WORDS, *hostile.SHAPES]
    for n, raw in enumerate(some(words, 10, 5)):
        for wire in run.wires if NIGHTLY else [run.wires[n % len(run.wires)]]:
            for method, params, of in requests(raw):
                run.ask(wire, method, params, of=header(of))
    for n, (meta, wire) in enumerate(itertools.product(hostile.META, run.wires)):
        if NIGHTLY or n % 2:
            run.ask(wire, "tools/call", '"name": "post", "arguments": {"text": "x"}', of="post", meta=meta)
    for body, wire in itertools.product(ENVELOPES, run.wires):
        run.send(wire, body)
    nothing_broke(run)


LINE = {
    "id": '"m1"',
    "kind": '"result"',
    "text": '"a"',
    "thread": '"s"',
    "tool": '"t"',
    "ok": "true",
    "subject": '"x"',
}
"""A good line of a hand-over, each field in raw JSON."""
HOOKS = ("hook_event_name", "session_id", "prompt", "tool_name", "tool_input", "tool_response", "cwd")


def test_hostile_hand_overs_are_refused_or_kept_as_data(run: Any) -> None:
    raws = [json.dumps(word) for word in hostile.WORDS]
    raws += [*hostile.BROKEN_WORDS, *hostile.SHAPES, *hostile.NUMBERS, *hostile.NESTED]
    http = run.wires[0]
    for n, (field, raw) in enumerate(some(itertools.product([*LINE, "nosuch"], raws), 90, 8)):
        line = {**LINE, "id": f'"h{n}"', field: raw}
        run.hand_over(http, hostile.arguments(line).encode("utf-8", "surrogatepass"))
    for field, raw in some(itertools.product(HOOKS, raws), 40, 9):
        line = {"hook_event_name": '"UserPromptSubmit"', "prompt": '"Never do it."', field: raw}
        run.hand_over(http, hostile.arguments(line).encode("utf-8", "surrogatepass"))
    for raw in some([*hostile.HUGE, *hostile.NESTED], 6, 10):
        run.hand_over(http, raw.encode())
    whole_line = hostile.arguments(LINE)
    bodies = [
        *(b"", b"\n\n", b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"[]", b"null", b'"x"'),
        *("\n".join([whole_line] * count).encode() for count in (2, 201)),
        (whole_line[:-1] + ', "id": "twice"}').encode(),
        whole_line.encode("utf-16"),
        b"\xef\xbb\xbf" + whole_line.encode(),
        (whole_line + "\r\n" + whole_line.replace("m1", "m2") + "\r\n").encode(),
    ]
    for body in bodies:
        run.hand_over(http, body)
    for word in some(hostile.WORDS, 15, 11):
        run.hand_over(http, whole_line.encode(), f"?board={quote(word, safe='')}"[:8_000])
    nothing_broke(run)
    # A line of each kind is taken after all that.
    reply = http.hand_over(b'{"id": "last", "kind": "message", "text": "still here"}')
    assert (reply.status, len(reply.message["result"]["items"])) == (200, 1)


def test_hostile_filters_of_streams_are_refused(run: Any) -> None:
    words = [json.dumps(word) for word in hostile.WORDS]
    http = run.wires[0]
    for raw in [*hostile.FILTERS, *some([*words, *hostile.NESTED, *hostile.SHAPES], 10, 6)]:
        for query in (f"filter={quote(raw)}", f"subscription={quote(raw)}", f"after={quote(raw)}"):
            reply = http.get(f"/boards/main/events?{query[:10_000]}")
            if reply.status != 200:
                run.judge(f"GET {query[:300]}", reply)
    for word in some(hostile.WORDS, 15, 7):
        reply = http.get(f"/boards/{quote(word, safe='')}/events")
        # 200: a call before has made a board of that name.
        assert reply.status in (200, 400, 404), (word, reply)
        if reply.status != 200 and "/" not in word:  # no such path then, which the server's own words say
            run.judge(f"GET {word[:300]}", reply)
    nothing_broke(run)


def requests(raw: str) -> Iterator[tuple[str, str, str]]:
    """What else than tools takes words of a caller: method, parameters, and the raw name that a header tells."""
    yield "tools/call", f'"name": {raw}, "arguments": {{}}', raw
    yield "tools/call", f'"name": "read", "arguments": {raw}', '"read"'
    yield "tools/list", f'"cursor": {raw}', '""'
    try:
        word = json.loads(raw)
    except ValueError:
        word = None
    uris = [raw]
    if isinstance(word, str) and len(word) < 3_000 and not re.search("[\ud800-\udfff]", word):
        for template in ("board://{}/core", "board://main/items/{}", "board://main/view/{}.json"):
            uris += [json.dumps(template.format(quote(word, safe=""))), json.dumps(template.format(word))]
        uris.append(json.dumps("board://main/events?after=" + word))
    for uri in uris:
        yield "resources/read", f'"uri": {uri}', uri
    yield "prompts/get", f'"name": {raw}', raw
    yield "prompts/get", f'"name": "x", "arguments": {raw}', '"x"'
    template = '{"type": "ref/resource", "uri": "board://{board}"}'
    yield "completion/complete", f'"ref": {template}, "argument": {{"name": "board", "value": {raw}}}', '""'
    yield "completion/complete", f'"ref": {raw}, "argument": {raw}', '""'
    yield "resources/subscribe", f'"uri": {raw}', raw
    yield "logging/setLevel", f'"level": {raw}', '""'


def header(raw: str) -> str:
    """A word as a header can tell it."""
    try:
        word = json.loads(raw)
    except ValueError:
        return ""
    plain = isinstance(word, str) and word.isascii() and word.isprintable() and len(word) < 2_000
    return word.strip() if plain else ""


ENVELOPES: tuple[bytes, ...] = (
    b"garbage",
    b"[]",
    b"[1]",
    b"null",
    b"7",
    b'""',
    b"{}",
    b"\xff\xfe",
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "1.0", "id": 0, "method": 7}',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": [], "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1e400, "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": []}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": 7}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "no/such", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "__init__", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "\\ud800", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": []}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": 1}}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "subscriptions/listen", "params": {"notifications": 1}}',
    b'{"jsonrpc": "2.0", "id": 0, "result": {}, "error": {}}',
    b'{"jsonrpc": "2.0", "id": 0, "id": 0, "method": "tools/list", "method": "x"}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": '
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}",
    b'{"jsonrpc": "2.0", "id": 0, "method": "' + b"m" * 2_000_000 + b'", "params": {}}',
    b'{"jsonrpc": "2.0", "id": "' + b"i" * 200_000 + b'", "method": "x", "params": {}}',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 99999999999999999999999, "method": "tools/list", "params": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}}}',
    b'{"jsonrpc": "2.0", "method": "notifications/initialized", "params": {"_meta": 1}}',
    b'{"jsonrpc": "2.0", "id": {}, "result": []}',
    b'{"jsonrpc": "2.0", "id": 0, "error": 1}',
    b'{"jsonrpc": "2.0", "id": 0, "method": "tools/list"',
    b'{"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {}, "' + b"k" * 1_000_000 + b'": 1}',
)
"""Messages that are none, or hardly; each is answered."""
