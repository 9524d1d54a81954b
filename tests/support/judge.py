"""Judgement of everything that is asked of servers: each answer by itself, and in the end the data that they leave.

An answer must be a result or an error that teaches, have at most 1 MiB, and reveal nothing of the server's
code or of data hidden from the agent. It may take no more work than a request is allowed. A failed call must
change nothing, and a successful one only the board that it names.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hostile
import wires
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.demo.process import command, environment
from unlisted import whole as whole_schema
from work import Meter

MOST_BYTES = 1 << 20
LONGEST_ERROR = 900
MOST_MEMORY = 1_500_000_000
CANARY = "Zq7canary"
"""A word in everything that is private to another agent; no test asks for it."""

LEAKS = re.compile(
    rb"Traceback|File \\\\?\"|site-packages|\.py\b|blackboard_mcp\.|sqlite|SQLITE|no such (?:table|column)|"
    rb"syntax error|unrecognized token|fts5|lancedb|pydantic|ValidationError|(?:Type|Key|Value|Attribute|Index|"
    rb"Recursion|Unicode\w*|Overflow|Assertion|Runtime)Error| object at 0x|<class |<function |Errno|datafusion|"
    rb"Internal error|NoneType|<\w+Exception"
)
"""Matches texts that only a fault of the server sends; nothing in the corpus contains them."""


NOTHING = (b"Nothing was changed", b"No line of this hand-over was written")


def codes() -> set[str]:
    """Returns the stable codes of errors, without those that mean a fault of the server."""
    pending, found = [BlackboardError], set()
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        found.add(kind.code)
    return found - {"error", "damaged", "unavailable", "closed", "too_new", "internal"}


@dataclass
class Seen:
    """The observations of a run: numbers of requests and outcomes, the most expensive calls, and faults."""

    requests: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    by_tool: dict[str, Counter[str]] = field(default_factory=dict)
    largest: tuple[int, str] = (0, "")
    dearest: list[tuple[int, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def dear(self, calls: int, what: str) -> None:
        """Records a request with its number of calls, if it is among the eight most expensive."""
        self.dearest = sorted([*self.dearest, (calls, what)], reverse=True)[:8]


READING = frozenset({"read", "query", "wait"})
"""The tools that must not change a board."""


def _board(given: dict[str, str]) -> str | None:
    """Returns the board that raw arguments name, the last if there are several; `None` if it is not JSON."""
    try:
        named = json.loads(given.get("board", '"main"'))
    except ValueError:
        return None
    return "main" if named is None else str(named)


class Run:
    """Wires to servers on one data folder; everything that is asked over them is judged.

    `meters` count the work of the servers, by process id.
    """

    def __init__(self, data: Path, wires_: list[Any], meters: Mapping[int, Meter]) -> None:
        self.wires = wires_
        self._meters = meters
        self.seen = Seen()
        self.codes = codes()
        self._database = sqlite3.connect(f"file:{data / 'board.sqlite3'}?mode=ro", uri=True)
        self._own = str(data).encode()
        self._names: dict[int, str] = {}

    def close(self) -> None:
        self._database.close()

    def sequences(self) -> dict[int, int]:
        """Returns each board's sequence by the board's number."""
        rows = self._database.execute("SELECT no, seq, id FROM board").fetchall()
        self._names = {no: id_ for no, _, id_ in rows}
        return {no: seq for no, seq, _ in rows}

    def changed(self, before: dict[int, int], after: dict[int, int]) -> list[tuple[Any, ...]]:
        """Returns the events since `before` that callers caused; the server's own are left out."""
        found: list[tuple[Any, ...]] = []
        for board in after:
            found += self._database.execute(
                "SELECT board, seq, event, agent FROM event WHERE board = ? AND seq > ? AND agent IN ('ada', 'ben')",
                (board, before.get(board, 0)),
            )
        return found

    def call(self, wire: Any, tool: str, given: dict[str, str], extra: str = "") -> Any:
        """Calls a tool, judges the answer and what it changed, and returns the answer."""
        arguments = hostile.arguments(given)
        shown = f"{wire.name} {tool} {arguments[:300]}{'…' if len(arguments) > 300 else ''}{extra[:200]}"
        before = self.sequences()
        answer = self._timed(wire, shown, lambda: wires.call(wire, tool, arguments, extra=extra))
        if answer is None:
            return None
        self._effects(wire, tool, given, shown, before, answer)
        return answer

    def _effects(
        self, wire: Any, tool: str, given: dict[str, str], shown: str, before: dict[int, int], answer: Any
    ) -> None:
        outcome = self.judge(shown, answer)
        self.seen.by_tool.setdefault(tool, Counter())[outcome] += 1
        after = self.sequences()
        if after == before:
            return
        events = self.changed(before, after)
        if outcome != "result":
            if events:
                self.seen.wrong.append(f"{shown}\n  failed ({outcome}), but changed: {events[:4]}")
            return
        named = _board(given)
        elsewhere = [event for event in events if self._names.get(event[0], named) != named]
        if elsewhere:
            self.seen.wrong.append(f"{shown}\n  changed another board than '{named}': {elsewhere[:4]}")
        if tool in READING and events:
            self.seen.wrong.append(f"{shown}\n  only reads, but changed: {events[:4]}")

    def ask(self, wire: Any, method: str, params: str, **more: Any) -> None:
        """Sends a request, and judges the answer."""
        shown = f"{wire.name} {method} {params[:300]}{str(more)[:300]}"
        answer = self._timed(wire, shown, lambda: wires.ask(wire, method, params, **more))
        if answer is not None:
            self.judge(shown, answer, structured="meta" not in more)

    def send(self, wire: Any, body: bytes) -> None:
        """Sends raw bytes, and judges the answer if there is one."""
        shown = f"{wire.name} raw {body[:300]!r}"
        answer = self._timed(wire, shown, lambda: wire.send_perhaps(body))
        if answer is not None:
            self.judge(shown, answer, structured=_asks_for_structure(body))

    def hand_over(self, wire: Any, body: bytes, query: str = "") -> Any:
        """Posts to the intake, and judges the answer; one that says that nothing was changed is held to it."""
        shown = f"{wire.name} POST /intake{query[:100]} {body[:300]!r}"
        before = self.sequences()
        answer = self._timed(wire, shown, lambda: wire.hand_over(body, query))
        if answer is not None:
            self.judge(shown, answer)
            events = self.changed(before, self.sequences())
            if any(word in answer.raw for word in NOTHING) and events:
                self.seen.wrong.append(f"{shown}\n  says that nothing was changed, but changed: {events[:4]}")
        return answer

    def _timed(self, wire: Any, shown: str, asking: Any) -> Any:
        meter = self._meters[wire.pid]
        try:
            meter.work()
            answer = asking()
            work = meter.work()
            for _ in range(3):
                if not work.dear:
                    break
                # The count may include the server's own work, so measure again before judging.
                asking()
                work = meter.work()
            else:
                self.seen.wrong.append(f"{shown}\n  took {work}")
        except (ConnectionError, TimeoutError, json.JSONDecodeError) as error:
            self.seen.wrong.append(f"{shown}\n  no answer: {error!r}")
            if isinstance(error, json.JSONDecodeError):
                return None
            raise
        self.seen.dear(work.calls, shown)
        self.seen.requests[wire.name] += 1
        return answer

    def judge(self, shown: str, reply: Any, *, structured: bool = True) -> str:
        """Judges an answer, notes its faults, and returns how the request ended.

        With `structured` the request asked for structured content.
        """
        raw, message = reply.raw, reply.message
        self.seen.largest = max(self.seen.largest, (len(raw), shown))
        outcome, faults = self._outcome(reply.status, message, structured)
        if len(raw) > MOST_BYTES:
            faults.append(f"{len(raw):,} bytes")
        if found := LEAKS.search(raw):
            faults.append(f"has {found.group()!r}")
        if self._own in raw:
            faults.append("has the path of the data")
        if CANARY.encode() in raw and CANARY not in shown:
            faults.append("has what another agent keeps private")
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
        """Returns the observations as text."""
        seen = self.seen
        tools = "\n".join(f"  {tool}: {dict(counts)}" for tool, counts in sorted(seen.by_tool.items()))
        dear = "\n".join(f"  {calls:,}: {what[:160]}" for calls, what in seen.dearest)
        return (
            f"{dict(seen.requests)}\n{dict(seen.outcomes)}\n{tools}\nlargest answer {seen.largest[0]:,} bytes: "
            f"{seen.largest[1][:160]}\ndearest by the calls of functions in its server:\n{dear}"
        )


def _asks_for_structure(body: bytes) -> bool:
    try:
        return json.loads(body)["params"]["_meta"]["blackboard/structured"] is True
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def most_memory(pid: int) -> int:
    """Returns the most memory that a process ever had, in bytes."""
    told = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in told.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def good(wire: Any, tool: str, arguments: str) -> dict[str, Any]:
    """Makes a valid call, and returns its structured answer."""
    reply = wires.call(wire, tool, arguments)
    assert reply.message is not None, reply
    assert not reply.message["result"].get("isError"), reply.message
    answer: dict[str, Any] = reply.message["result"]["structuredContent"]
    return answer


def whole(data: Path) -> None:
    """Checks that the database is sound, every log is gapless, and boards are what their logs say."""
    with closing(sqlite3.connect(f"file:{data / 'board.sqlite3'}?mode=ro", uri=True)) as database:
        told = database.execute("PRAGMA integrity_check").fetchall()
        assert told == [("ok",)], told
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
    """Returns the whole schema of each tool, by name."""
    reply = wires.ask(wire, "tools/list", "")
    assert reply.message is not None
    tools = reply.message["result"]["tools"]
    return {tool["name"]: whole_schema(tool["name"], tool["inputSchema"]) for tool in tools}


def hide(url: str, pid: int, boards: tuple[str, ...]) -> None:
    """Posts private items of another agent to the boards: an entry, a log and a question."""
    eve = wires.HttpWire(url, pid, "eve", modern=True)
    try:
        for board in boards:
            for more in ('"key": "plan:hidden"', '"type": "LOG"', '"type": "QUESTION", "tags": ["a"]'):
                text = f'"text": "{CANARY} is known to eve alone", "visibility": "private"'
                good(
                    eve, "post", f'{{{text}, {more}, "board": "{board}", "metadata": {{"said": "{CANARY}"}}}}'
                )
    finally:
        eve.close()
