"""Hostile input over every tool, wire and generation: whatever is sent, the answer teaches and the board stays whole.

The calls are made from the published schemas, so a tool or an argument that is added later is tried by itself.
Every request is raw JSON, so that what a typed client refuses to send is sent. A seed gives the same calls
again; HYPOTHESIS_PROFILE=nightly sends all of the corpus over every wire and goes on at random for minutes.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import re
import secrets
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.demo.process import command, environment


def _beside(name: str) -> Any:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


hostile: Any = _beside("hostile")
wires: Any = _beside("wires")

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SECONDS = 300.0 if NIGHTLY else 0.0
MIXED = 0 if NIGHTLY else 350
ALONE = 450
"""Calls of a run that is not nightly, drawn from all there are."""
DEAR = 8
MOST_BYTES = 1 << 20
MOST_CPU = 5.0
"""Seconds of CPU for one request: far above what is promised, so that only a runaway fails on a busy machine."""
LONGEST_ERROR = 900
TICK = os.sysconf("SC_CLK_TCK")
BOARDS = ("main", "side", "wild")

pytestmark = pytest.mark.timeout(3_600 if NIGHTLY else 300)

LEAKS = re.compile(
    rb"Traceback|File \\\\?\"|site-packages|\.py\b|blackboard_mcp\.|sqlite|SQLITE|no such (?:table|column)|"
    rb"syntax error|unrecognized token|fts5|lancedb|pydantic|ValidationError|(?:Type|Key|Value|Attribute|Index|"
    rb"Recursion|Unicode\w*|Overflow|Assertion|Runtime)Error| object at 0x|<class |<function |Errno|datafusion|"
    rb"Internal error|NoneType|<\w+Exception"
)
"""What only a fault of ours puts on the wire; nothing in the corpus has it."""


def codes() -> set[str]:
    """The stable codes of errors, without those that say that something is wrong with the server."""
    pending, found = [BlackboardError], set()
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        found.add(kind.code)
    return found - {"error", "damaged", "unavailable", "closed", "too_new", "internal"}


@dataclass
class Seen:
    """What a run saw: how much of what, what was dear, and what was wrong."""

    requests: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    by_tool: dict[str, Counter[str]] = field(default_factory=dict)
    largest: tuple[int, str] = (0, "")
    dearest: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def dear(self, seconds: float, what: str) -> None:
        self.dearest = sorted([*self.dearest, (seconds, what)], reverse=True)[:8]


class Run:
    """Wires on one data folder, and everything that is asked over them judged."""

    def __init__(self, data: Path, wires_: list[Any]) -> None:
        self.wires = wires_
        self.seen = Seen()
        self.codes = codes()
        self._database = sqlite3.connect(f"file:{data / 'board.sqlite3'}?mode=ro", uri=True)
        self._own = str(data).encode()

    def close(self) -> None:
        self._database.close()

    def sequences(self) -> dict[int, int]:
        return dict(self._database.execute("SELECT no, seq FROM board").fetchall())

    def changed(self, before: dict[int, int], after: dict[int, int]) -> list[tuple[Any, ...]]:
        """The events since `before` that callers made; what the server does by itself goes on meanwhile."""
        found: list[tuple[Any, ...]] = []
        for board in after:
            found += self._database.execute(
                "SELECT board, seq, event, agent FROM event WHERE board = ? AND seq > ? AND agent IN ('ada', 'ben')",
                (board, before.get(board, 0)),
            )
        return found

    def call(self, wire: Any, tool: str, given: dict[str, str], extra: str = "") -> None:
        arguments = hostile.arguments(given)
        shown = f"{wire.name} {tool} {arguments[:300]}{'…' if len(arguments) > 300 else ''}{extra[:200]}"
        before = self.sequences()
        answer = self._timed(wire, shown, lambda: wires.call(wire, tool, arguments, extra=extra))
        if answer is None:
            return
        outcome = self.judge(shown, answer)
        self.seen.by_tool.setdefault(tool, Counter())[outcome] += 1
        if outcome != "result":
            after = self.sequences()
            if after != before and (events := self.changed(before, after)):
                self.seen.wrong.append(f"{shown}\n  failed ({outcome}), but changed: {events[:4]}")

    def ask(self, wire: Any, method: str, params: str, **more: Any) -> None:
        shown = f"{wire.name} {method} {params[:300]}{str(more)[:300]}"
        answer = self._timed(wire, shown, lambda: wires.ask(wire, method, params, **more))
        if answer is not None:
            self.judge(shown, answer, structured="meta" not in more)

    def send(self, wire: Any, body: bytes) -> None:
        shown = f"{wire.name} raw {body[:300]!r}"
        answer = self._timed(wire, shown, lambda: wire.send_perhaps(body))
        if answer is not None:
            self.judge(shown, answer)

    def _timed(self, wire: Any, shown: str, asking: Any) -> Any:
        started = cpu(wire.pid)
        try:
            answer = asking()
        except (ConnectionError, TimeoutError, json.JSONDecodeError) as error:
            self.seen.wrong.append(f"{shown}\n  no answer: {error!r}")
            if isinstance(error, json.JSONDecodeError):
                return None
            raise
        self.seen.dear(cpu(wire.pid) - started, shown)
        self.seen.requests[wire.name] += 1
        return answer

    def judge(self, shown: str, reply: Any, *, structured: bool = True) -> str:
        """How a request ended; what is wrong with the answer is noted. It may have asked for no structure."""
        raw, message = reply.raw, reply.message
        self.seen.largest = max(self.seen.largest, (len(raw), shown))
        outcome, faults = self._outcome(reply.status, message, structured)
        if len(raw) > MOST_BYTES:
            faults.append(f"{len(raw):,} bytes")
        if found := LEAKS.search(raw):
            faults.append(f"has {found.group()!r}")
        if self._own in raw:
            faults.append("has the path of the data")
        if faults:
            self.seen.wrong.append(f"{shown}\n  {', '.join(faults)}: {raw[:600]!r}")
        self.seen.outcomes[outcome] += 1
        return outcome

    def _outcome(self, status: int, message: dict[str, Any] | None, asked: bool) -> tuple[str, list[str]]:
        if status >= 500:
            return f"HTTP {status}", ["a fault of the server"]
        if message is None:
            return f"HTTP {status}", [] if status == 202 else ["no answer"]
        if "error" in message:
            error = message["error"]
            words = error["message"] if isinstance(error, dict) else message["message"]
            code = error["code"] if isinstance(error, dict) else error
            faults = [] if 10 < len(words) <= LONGEST_ERROR else [f"an error of {len(words)} characters"]
            return f"protocol {code}", faults
        result = message.get("result")
        if not isinstance(result, dict):
            return "nonsense", ["neither result nor error"]
        if not result.get("isError"):
            return "result", []
        words = "".join(part["text"] for part in result["content"])
        structured = result.get("structuredContent") or {}
        if not asked:
            return "error", []
        faults = []
        if structured.get("error") not in self.codes:
            faults.append(f"code {structured.get('error')!r}")
        if not words.startswith(str(structured.get("message"))):
            faults.append("the text is not the message")
        if not 10 < len(words) <= LONGEST_ERROR:
            faults.append(f"a text of {len(words)} characters")
        return str(structured.get("error")), faults

    def report(self) -> str:
        seen = self.seen
        tools = "\n".join(f"  {tool}: {dict(counts)}" for tool, counts in sorted(seen.by_tool.items()))
        dear = "\n".join(f"  {seconds:.2f} s: {what[:160]}" for seconds, what in seen.dearest)
        return (
            f"{dict(seen.requests)}\n{dict(seen.outcomes)}\n{tools}\nlargest answer {seen.largest[0]:,} bytes: "
            f"{seen.largest[1][:160]}\ndearest by the CPU of its server:\n{dear}"
        )


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used, in steps of a clock tick (10 ms)."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A server over HTTP and one over stdio, both generations, on one folder; in the end everything is whole."""
    folder = tmp_path_factory.mktemp("hostile")
    data = folder / "data"
    logs = [folder / name for name in ("http.log", "modern.log", "legacy.log")]
    with ExitStack() as stack:
        url, pid = stack.enter_context(wires.http_process(data, logs[0]))
        modern = wires.HttpWire(url, pid, "ada", modern=True)
        legacy = wires.HttpWire(url, pid, "ada", modern=False)
        stack.callback(modern.close)
        stack.callback(legacy.close)
        over = [modern, legacy, stack.enter_context(wires.stdio_wire(data, logs[1], modern=True))]
        if NIGHTLY:
            over.append(stack.enter_context(wires.stdio_wire(data, logs[2], modern=False)))
        for board in BOARDS:
            for n in range(8):
                kind = "" if n % 3 else f', "key": "plan:{n}"'
                good(modern, "post", f'{{"text": "fact {n}", "tags": ["a"], "board": "{board}"{kind}}}')
        good(modern, "board", '{"settings": {"target_tokens": 10000000}}')
        for wire in over:
            good(wire, "read", "{}")
        found = stack.enter_context(closing(Run(data, over)))
        yield found
        print(found.report())
    whole(data)
    said = "".join(log.read_text("utf-8", "replace") for log in logs if log.exists())
    assert "Traceback" not in said, said[-6_000:]


def nothing_broke(run: Run) -> None:
    """Every answer was right, none was a runaway, and honest calls still work over every wire."""
    wrong, run.seen.wrong = run.seen.wrong, []
    print(run.report())
    print("\n".join(wrong[:60]))
    for wire in run.wires:
        assert good(wire, "post", '{"text": "still here"}')["seq"] > 0
        assert good(wire, "read", '{"ids": ["1"]}')["items"][0]["number"] == 1
    assert not wrong, f"{len(wrong)} wrong answers, printed above"
    assert run.seen.dearest[0][0] < MOST_CPU, run.seen.dearest


def good(wire: Any, tool: str, arguments: str) -> dict[str, Any]:
    """The structured answer of an honest call."""
    reply = wires.call(wire, tool, arguments)
    assert reply.message is not None, reply
    assert not reply.message["result"].get("isError"), reply.message
    answer: dict[str, Any] = reply.message["result"]["structuredContent"]
    return answer


def whole(data: Path) -> None:
    """Every log is gapless, and every board is what its log says."""
    with closing(sqlite3.connect(f"file:{data / 'board.sqlite3'}?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        gaps = database.execute(
            "SELECT id, b.seq, count(e.seq), max(e.seq) FROM board AS b LEFT JOIN event AS e ON e.board = b.no "
            "GROUP BY b.no HAVING count(e.seq) <> b.seq OR max(e.seq) <> b.seq"
        ).fetchall()
        assert not gaps, gaps
        boards = [id_ for (id_,) in database.execute("SELECT id FROM board ORDER BY seq DESC")]
    for board in boards[:3]:
        words = command("verify", "--data", str(data), "--board", board)
        done = subprocess.run(
            words, env=environment(), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (board, done.stdout[-2_000:], done.stderr[-2_000:])


def schemas(wire: Any) -> dict[str, Any]:
    reply = wires.ask(wire, "tools/list", "")
    assert reply.message is not None
    return {tool["name"]: tool["inputSchema"] for tool in reply.message["result"]["tools"]}


def some(cases: Iterable[Any], number: int, seed: int) -> list[Any]:
    """So many of the cases, or all of them at night."""
    listed = list(cases)
    return listed if NIGHTLY else random.Random(seed).sample(listed, min(number, len(listed)))


def test_hostile_values_of_every_argument_are_refused_or_kept_as_data(run: Run) -> None:
    calls = hostile.Calls(schemas(run.wires[0]), seed=1)
    chosen = some(calls.alone(), ALONE, 2) + some(calls.dear(), DEAR, 3)
    for n, (tool, given) in enumerate(chosen):
        for wire in run.wires if NIGHTLY else [run.wires[n % len(run.wires)]]:
            run.call(wire, tool, given)
    nothing_broke(run)


def test_hostile_calls_at_random_leave_the_board_whole(run: Run) -> None:
    seed = secrets.randbelow(1 << 32) if NIGHTLY else 4
    print("seed", seed)
    calls = hostile.Calls(schemas(run.wires[0]), seed)
    chance = random.Random(seed)
    until = time.monotonic() + SECONDS
    for n, (tool, given) in enumerate(calls.mixed()):
        if n >= MIXED and time.monotonic() > until:
            break
        extra = ""
        if chance.random() < 0.1:
            extra = f', "blackboard/idempotency_key": "k{chance.randrange(20)}"'
        run.call(run.wires[n % len(run.wires)], tool, given, extra)
    nothing_broke(run)


def test_hostile_names_uris_and_messages_are_refused(run: Run) -> None:
    words = [json.dumps(word) for word in hostile.WORDS] + [*hostile.BROKEN_WORDS, *hostile.SHAPES]
    for n, raw in enumerate(some(words, 25, 5)):
        for wire in run.wires if NIGHTLY else [run.wires[n % len(run.wires)]]:
            for method, params, of in requests(raw):
                run.ask(wire, method, params, of=header(of))
    for n, (meta, wire) in enumerate(itertools.product(hostile.META, run.wires)):
        if NIGHTLY or n % 2:
            run.ask(wire, "tools/call", '"name": "post", "arguments": {"text": "x"}', of="post", meta=meta)
    for body, wire in itertools.product(ENVELOPES, run.wires):
        run.send(wire, body)
    nothing_broke(run)


def test_hostile_filters_of_streams_are_refused(run: Run) -> None:
    words = [json.dumps(word) for word in hostile.WORDS]
    http = run.wires[0]
    for raw in [*hostile.FILTERS, *some([*words, *hostile.NESTED, *hostile.SHAPES], 25, 6)]:
        for query in (f"filter={quote(raw)}", f"subscription={quote(raw)}", f"after={quote(raw)}"):
            reply = http.get(f"/boards/main/events?{query[:10_000]}")
            if reply.status != 200:
                run.judge(f"GET {query[:300]}", reply)
    for word in some(hostile.WORDS, 30, 7):
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
