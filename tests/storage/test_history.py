"""Boards written out and read in: through files, between stores, and from files that are wrong."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Conflict, UnknownReference
from blackboard_mcp.protocols.store import Once
from blackboard_mcp.storage.history import lines as format_
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.tables import TABLES, Role
from blackboard_mcp.storage.history.transfer import export_board, import_board, verify_board
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.rows import Steps
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.asking import Asking
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.leaving import summary

Line = dict[str, Any]
DISTURBING = 'two\nlines, "quotes", \u2028 and \u2029, \U0001f600, tab\t, \\u0041 <b>\x7f'


async def rich(store: SqlBoardStore, clock: HandClock, *, resting: int = 3) -> Table:
    """A board that has something in every table, when more rests on an item than one transaction tells."""
    at = Table(store)
    await store.set_owner("bob", "acme")
    await at.configure(quorum=2, subscription_lease_seconds=60)
    await store.subscribe("main", "erin", "forgotten", {})
    clock.advance(3_600)
    assert await store.expire_subscriptions() == ["main"]
    await at.follow("dora", "type:FACT")
    claim = await at.post("alice", "claim", "HYPOTHESIS", tags=["a", "ü"], metadata={"n": 1.5, "é": [None]})
    await at.post("bob", DISTURBING, "FACT", supports=claim)
    await at.batch("carol", draft("same", "FACT"), once=Once("once", "digest"))
    await at.post("dora", "same", "FACT")
    await at.post("bob", "a secret", private=True, depends_on=claim)
    await at.post("alice", "v1", "PLAN", key="plan:a", ttl=60.0)
    clock.advance(2)
    await at.post("bob", "v2", "PLAN", key="plan:a")
    await at.post("carol", "no", "CRITIQUE", critiques=claim)
    await at.vote("bob", claim)
    await at.watch("alice", 3)
    rests = await at.post("bob", "rests on it", derived_from=3)
    old = await at.post("alice", "old", "LOG")
    await at.post("alice", "new", "LOG", supersedes=old)
    await at.gone(old)
    await at.change("carol", 3, status="WITHDRAWN")
    await store.spread_retractions()
    thread = await at.post("alice", "a thread", "QUESTION")
    await at.post("bob", "its answer", "ANSWER", replies_to=thread)
    items = [await at.item(n) for n in (thread.number, thread.number + 1)]
    await store.apply_summary("main", summary("S", {i.number: i.seq for i in items}, "both"))
    open_ = await at.post("alice", "another thread", "QUESTION")
    await store.request_summary("main", open_.number, {open_.number: open_.seq}, wait_seconds=60)
    kept = await store.subscribe("main", "dora", "news", {"type": "CRITIQUE", "not": {"agent": "bob"}})
    await at.post("bob", "news")
    await store.move_cursor("main", "dora", kept.id, await at.seq())
    await store.record_activity("main", {"bob": clock.now()}, {rests.number: (2, clock.now())})
    await at.post("alice", "to go", "FACT", key="gone")
    await at.delete("bob", "gone")
    asking = Asking(at)
    await asking.offer("bob", "proof")
    await asking.offer("carol", "proof")
    asked = await asking.ask(skill="proof")
    await asking.decline("carol", asked)
    await asking.take("bob", asked)
    ground = await at.post("bob", "the ground")
    for n in range(resting):
        await at.batch("bob", *[draft(f"{n} {m}", "LOG", derived_from=ground) for m in range(100)])
    await at.change("bob", ground, status="WITHDRAWN")
    return at


async def written(store: SqlBoardStore, board: str = "main", *, public: bool = False) -> bytes:
    return b"".join([page async for page in export_board(store, board, public=public)])


def reading(history: bytes) -> Callable[[int], bytes]:
    return io.BytesIO(history).readline


def parsed(history: bytes) -> list[Line]:
    return [json.loads(line) for line in history.splitlines()]


def signed(told: list[Line]) -> bytes:
    """The lines as a file whose last one says the right sha256."""
    body = b"".join(map(format_.write, told[:-1]))
    if "end" in told[-1]:
        told[-1]["end"]["sha256"] = hashlib.sha256(body).hexdigest()
    return body + format_.write(told[-1])


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def other(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def at(store: SqlBoardStore, clock: HandClock) -> Table:
    return await rich(store, clock)


async def test_I18_a_board_with_something_in_every_table_is_rebuilt_equal(
    at: Table, store: SqlBoardStore
) -> None:
    def empty() -> Steps[list[str]]:
        found = []
        for table in TABLES:
            if table.role is not Role.INSTALLATION:
                rows = yield f"SELECT count(*) FROM {table.name}", ()  # noqa: S608 - names of ours
                found += [] if rows[0][0] else [table.name]
        return found

    assert await store.engine.read(empty) == []
    assert await verify_board(store, "main") == []


async def test_I39_the_file_has_one_line_an_event_in_order_and_no_text_breaks_one(
    at: Table, store: SqlBoardStore
) -> None:
    history = await written(store)
    told = parsed(history)
    assert history.count(b"\n") == len(told)
    assert [line["seq"] for line in told] == [*range(1, await at.seq() + 1)]
    events = await at.events("bob")
    assert {e.seq: str(e.event) for e in events}.items() <= {
        line["seq"]: line["event"] for line in told
    }.items()


async def test_I1_every_version_of_every_item_is_in_the_file_byte_for_byte(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await import_board(other, reading(await written(store)))
    there = Table(other)
    for number in range(1, (await store.engine.read(last_number)) + 1):
        item = await at.item(number, "bob")
        for version in range(1, item.version + 1):
            was, now = await at.item(number, "bob", version), await there.item(number, "bob", version)
            assert now == was
    assert (await there.item(2)).text == DISTURBING


def last_number() -> Steps[int]:
    return (yield "SELECT max(number) FROM item", ())[0][0]  # type: ignore[no-any-return]


async def test_a_board_goes_from_file_to_memory_and_back_and_is_written_the_same(
    at: Table, store: SqlBoardStore, clock: HandClock, tmp_path: Path
) -> None:
    first = await written(store)
    file = await SqlBoardStore.open(tmp_path / "board.db", clock=clock, synchronous="NORMAL")
    await Table(file, "before").post("alice", "a board that was here before")
    done = await import_board(file, reading(first), folder=tmp_path)
    assert (done.board, done.events, done.parent) == ("main", await at.seq(), None)
    assert await file.owner_of("bob") == "acme"
    assert await written(file) == first
    back = await open_memory_store(clock=clock)
    await import_board(back, reading(await written(file)))
    assert await written(back) == first
    assert await verify_board(back, "main") == []
    assert not any(name.startswith("staging-") for name in os.listdir(tmp_path))
    await back.close()
    await file.close()


async def test_a_board_that_was_read_in_goes_on_where_it_was(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    history = await written(store)
    await import_board(other, reading(history), board="copy")
    there = Table(other, "copy")
    seq, count = await at.seq(), await store.engine.read(last_number)
    kept = await other.find_subscription("copy", "dora", "news")
    assert kept is not None
    assert kept == await store.find_subscription("main", "dora", "news")
    log = await other.log("copy", "dora", kept.cursor, 100)
    assert log.events[0].seq == kept.cursor + 1
    again = await there.batch("carol", draft("same", "FACT"), once=Once("once", "digest"))
    assert again.repeated
    assert await there.state(1) == "OPEN"
    await there.vote("carol", 1)
    assert await there.state(1) == "CONSENSUS"
    fresh = await there.post("zoe", "goes on")
    assert fresh.number == count + 1
    assert fresh.seq == await there.seq() > seq
    entry = await there.post("bob", "v3", "PLAN", key="plan:a", expected=2)
    assert entry.version == 3
    waiting = await other.outbox_batch(1_000)
    assert {d.number for d in waiting.documents} >= {n for n in (await at.query(zone=None)) if n == 10}
    assert await other.find_board("main") is None
    assert await verify_board(other, "copy") == []


async def test_the_first_lines_hold_every_version_that_there_was_then(
    at: Table, store: SqlBoardStore
) -> None:
    known: set[tuple[int, int]] = set()
    for line in parsed(await written(store)):
        if "item" not in line:
            assert "content" not in line
            continue
        version = (line["item"], line["version"])
        assert ("content" in line) == (version not in known)
        known.add(version)
        for edge in line.get("edges", []):
            assert {edge["source"], edge["target"]} <= {item for item, _ in known}
    assert len({item for item, _ in known}) == await store.engine.read(last_number)


async def test_a_public_copy_has_nothing_private_and_rebuilds_nothing(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    history = await written(store, public=True)
    told = parsed(history)
    for hidden in (b"a secret", b"sub-", b"digest", b"owners"):
        assert hidden not in history
        assert hidden in await written(store)
    assert [line["seq"] for line in told] == [e.seq for e in await at.events("nobody")]
    assert told[0]["complete"] is False
    (secret,) = [n for n in range(1, 10) if not await at.sees("alice", n)]
    for line in told:
        for edge in line.get("edges", []):
            assert secret not in (edge["source"], edge["target"])
    with pytest.raises(BadLine, match="public copy"):
        await import_board(other, reading(history))


async def test_an_import_never_touches_a_board_that_is_there(at: Table, store: SqlBoardStore) -> None:
    history = await written(store)
    with pytest.raises(Conflict, match="There is a board 'main' already"):
        await import_board(store, reading(history))
    assert await written(store) == history
    with pytest.raises(UnknownReference):
        await written(store, "none")


async def test_whom_agents_act_for_here_is_not_changed_by_a_file(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await other.set_owner("bob", "other")
    await Table(other, "theirs").post("bob", "here as well")
    done = await import_board(other, reading(await written(store)))
    assert done.owners == ("bob",)
    assert await other.owner_of("bob") == "other"
    unknown = await open_memory_store()
    await Table(unknown, "theirs").post("bob", "for himself")
    assert (await import_board(unknown, reading(await written(store)))).owners == ("bob",)
    assert await unknown.owner_of("bob") == "bob"
    await unknown.close()


async def test_a_parent_that_is_not_here_is_left_out_and_told(
    store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await store.ensure_board("above", "alice", CONFIG)
    below = Table(store)
    await below.post("alice", "x")
    await store.change_board("main", "alice", BoardChange(parent="above"))
    done = await import_board(other, reading(await written(store)))
    assert done.parent == "above"
    assert (await Table(other).standing()).parent is None
    above = await written(store, "above")
    await import_board(other, reading(above))
    done = await import_board(other, reading(await written(store)), board="again")
    assert done.parent is None
    assert (await Table(other, "again").standing()).parent == "above"


async def test_agents_post_on_while_a_board_is_written_and_the_file_is_of_one_moment(
    clock: HandClock, tmp_path: Path
) -> None:
    store = await SqlBoardStore.open(tmp_path / "board.db", clock=clock, synchronous="NORMAL")
    at = Table(store)
    for n in range(5):
        await at.batch("alice", *[draft(f"{n} {m}", "LOG", key=f"k:{n}:{m}") for m in range(60)])
    stop = asyncio.Event()
    posted = 0

    async def go_on() -> None:
        nonlocal posted
        while not stop.is_set():
            await at.post("bob", f"again {posted}", "LOG", key=f"k:{posted % 5}:{posted % 60}")
            posted += 1

    task = asyncio.create_task(go_on())
    histories = [await written(store) for _ in range(3)]
    before = posted
    stop.set()
    await task
    assert before > 10
    lengths = []
    for history in histories:
        done = await open_memory_store()
        lengths.append((await import_board(done, reading(history))).events)
        assert await verify_board(done, "main") == []
        await done.close()
    assert lengths == sorted(set(lengths))
    await store.close()


# Files that are wrong


Spoil = Callable[[list[Line]], Any]


def raw(change: Callable[[bytes], bytes]) -> Callable[[list[Line]], bytes]:
    return lambda told: change(signed(told))


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def last(told: list[Line]) -> Line:
    return told[-1]["end"]  # type: ignore[no-any-return]


def with_content(told: list[Line], nth: int = 0) -> Line:
    return [line for line in told if "content" in line][nth]


def standing(told: list[Line]) -> Line:
    return next(line for line in told if "standing" in line)


def row(told: list[Line], table: str) -> Line:
    for line in told:
        for rows in (line.get("rows", {}), line.get("end", {}).get("rows", {})):
            if table in rows:
                return rows[table][0]  # type: ignore[no-any-return]
    raise AssertionError(table)


def turned(told: list[Line]) -> None:
    """Two edges that lead round."""
    number = max(line.get("item", 0) for line in told)
    line = next(line for line in told if line.get("item") == number)
    line["edges"] = [
        {"source": number, "kind": "depends_on", "target": 1},
        {"source": 1, "kind": "depends_on", "target": number},
    ]


SPOILS: dict[str, tuple[Spoil, str]] = {
    "empty": (raw(lambda h: b""), "Line 1: the file is empty"),
    "one blank line": (raw(lambda h: b"\n"), "Line 1: not JSON"),
    "the last line is cut": (raw(lambda h: h[:-20]), "the file ends in the middle"),
    "the last line is missing": (raw(lambda h: h[: h[:-1].rindex(b"\n") + 1]), "lines are missing"),
    "no history": (raw(lambda h: b'{"seq":1}\n'), "not the history of a board"),
    "a list": (raw(lambda h: b"[]\n" + h), "not a JSON object"),
    "not UTF-8": (raw(lambda h: h.replace(b"claim", b"cla\xffm", 1)), "not UTF-8 at byte"),
    "UTF-16": (raw(lambda h: h.decode().encode("utf-16")), "Line 1: not UTF-8"),
    "a byte order mark": (raw(lambda h: b"\xef\xbb\xbf" + h), "Line 1: begins with a byte order mark"),
    "carriage returns": (raw(lambda h: h.replace(b'{"seq":3', b'\r{"seq":3\x00', 1)), "not JSON"),
    "deep nesting": (
        raw(lambda h: h.replace(b'{"seq":3', b'{"x":' + nested(100_000) + b',"seq":3', 1)),
        "Line 3: nested more than",
    ),
    "a member twice": (
        raw(lambda h: h.replace(b'{"seq":3', b'{"seq":2,"seq":3', 1)),
        "Line 3: the member 'seq'",
    ),
    "NaN": (raw(lambda h: h.replace(b'"n":1.5', b'"n":NaN', 1)), "NaN is no JSON"),
    "a number beyond all": (raw(lambda h: h.replace(b'"n":1.5', b'"n":1e999', 1)), "too large"),
    "a number of many digits": (raw(lambda h: h.replace(b'"n":1.5', b'"n":' + b"9" * 9_000, 1)), "not JSON"),
    "a lone surrogate": (raw(lambda h: h.replace(b'"claim"', b'"\\ud800"', 1)), "lone surrogate"),
    "a NUL": (raw(lambda h: h.replace(b'"claim"', b'"\\u0000"', 1)), "NUL"),
    "a line repeated": (lambda told: told.insert(4, dict(told[3])), "Line 5: seq must be 5, and is 4"),
    "a line missing": (lambda told: told.pop(4), "Line 5: seq must be 5, and is 6"),
    "a sequence of true": (lambda told: told[0].update(seq=True), "Line 1: seq must be 1"),
    "another format": (lambda told: told[0].update(format_version=2), "version 2 of the format"),
    "a strange member": (lambda told: told[3].update(extra=1), "Line 4: a member 'extra'"),
    "an event that there is not": (lambda told: told[3].update(event="item.flown"), "there is no event"),
    "no instant": (lambda told: told[3].update(at="yesterday"), "at must be an instant"),
    "no zone of time": (lambda told: told[3].update(at="2026-01-01T00:00:00"), "at must be an instant"),
    "other text": (
        lambda told: with_content(told)["content"].update(text="other"),
        "the sha256 of version 1",
    ),
    "a missing text": (lambda told: with_content(told)["content"].pop("text"), "content has no text"),
    "content lost": (lambda told: with_content(told, 2).pop("content"), "no content, and it has none"),
    "a version lost": (
        lambda told: next(e for e in told if e["event"] == "item.versioned").pop("content"),
        "with no content, and it is at version 1",
    ),
    "a large text": (
        lambda told: with_content(told)["content"].update(text="x" * 300_000),
        "a text of 300,000 characters",
    ),
    "much metadata": (
        lambda told: with_content(told)["content"].update(metadata={"x": "y" * 10_000_000}),
        "metadata of 10,0",
    ),
    "many tags": (
        lambda told: with_content(told)["content"].update(tags=[str(n) for n in range(99)]),
        "more than 32 tags",
    ),
    "an item that leaps": (lambda told: with_content(told, 3).update(item=99), "item 99 is not there yet"),
    "an item before all": (lambda told: with_content(told, 0).update(item=0), "item 0 is not there yet"),
    "another owner": (
        lambda told: next(e for e in told if e["event"] == "item.versioned").update(owner="eve"),
        "are not what they were",
    ),
    "a dangling edge": (
        lambda told: with_content(told, 1)["edges"][0].update(target=77),
        "the edge 2 supports 77 dangles",
    ),
    "an edge to itself": (lambda told: with_content(told, 1)["edges"][0].update(target=2), "leads back"),
    "an edge of no kind": (
        lambda told: with_content(told, 1)["edges"][0].update(kind="likes"),
        "kind must be",
    ),
    "edges in a circle": (turned, "closes a circle"),
    "a status that there is not": (
        lambda told: standing(told)["standing"].update(status="GONE"),
        "status must be",
    ),
    "an importance of 9": (lambda told: standing(told)["standing"].update(importance=9), "is not 1 to 5"),
    "an item that never stands": (lambda told: standing(told).pop("standing"), "no line says how item"),
    "a debated item archived": (
        lambda told: next(e for e in told if e.get("item") == 1 and "standing" in e)["standing"].update(
            zone="archive"
        ),
        "item 1 is archived and protected",
    ),
    "rows of no table": (lambda told: standing(told).update(rows={"lease": []}), "rows of 'lease'"),
    "a row of another item": (lambda told: row(told, "obligation").update(item=999), "item 999 is no item"),
    "a row short of a member": (lambda told: row(told, "agent").pop("posts"), "a row of agent has no posts"),
    "a vote in no debate": (lambda told: row(told, "vote").update(debate=2), "a row of vote is of debate 2"),
    "a row twice": (
        lambda told: last(told)["rows"]["agent"].append(row(told, "agent")),
        "stands there twice",
    ),
    "a filter that is none": (
        lambda told: row(told, "subscription").update(filter={"x": 1}),
        "Unknown filter",
    ),
    "a cursor beyond the end": (
        lambda told: row(told, "subscription").update(cursor=10_000),
        "beyond the last",
    ),
    "an instant that is a number": (
        lambda told: row(told, "watch").update(since=5),
        "since must be an instant",
    ),
    "a huge number": (lambda told: row(told, "agent").update(posts=1 << 70), "posts must be a whole number"),
    "settings of the wrong kind": (
        lambda told: last(told)["board"]["config"].update(target_tokens="many"),
        "target_tokens is not of the kind of 6000",
    ),
    "settings that clash": (
        lambda told: last(told)["board"]["config"].update(low_water=0.9),
        "must be below high_water",
    ),
    "a core that is none": (lambda told: last(told)["board"].update(core={}), "core must have"),
    "fewer items than it says": (
        lambda told: last(told)["board"].update(last_number=5),
        "the last item is 5",
    ),
    "something after the end": (
        raw(lambda h: h + b'{"seq":1}\n'),
        "follows the line that says it is the last",
    ),
    "a changed word": (
        raw(
            lambda h: h.replace(b'"posts"', b'"posts" ', 1).replace(b'"approve":true', b'"approve":false', 1)
        ),
        "was changed or damaged",
    ),
}


@pytest.fixture(scope="module")
def good() -> bytes:
    async def make() -> bytes:
        clock = HandClock()
        store = await open_memory_store(clock=clock)
        await rich(store, clock, resting=0)
        history = await written(store)
        await store.close()
        return history

    return asyncio.run(make())


@pytest.mark.parametrize("case", SPOILS)
async def test_a_file_that_is_wrong_is_refused_by_its_line_and_leaves_nothing(
    case: str, good: bytes, other: SqlBoardStore
) -> None:
    spoil, told = SPOILS[case]
    lines = parsed(good)
    assert signed(lines) == good
    made = spoil(lines)
    history = made if isinstance(made, bytes) else signed(lines)
    assert history != good
    with pytest.raises(BadLine) as refused:
        await import_board(other, reading(history))
    assert told in refused.value.message
    assert refused.value.message.startswith("Line ")
    assert "Nothing was changed." in refused.value.message
    assert await other.boards() == []
    assert (await other.outbox_batch(1)).documents == ()


async def test_a_line_without_an_end_is_read_up_to_a_limit_and_no_further(
    other: SqlBoardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_, "MAX_LINE", 1 << 20)
    given = 0

    def endless(limit: int) -> bytes:
        nonlocal given
        given += limit
        return b"x" * limit

    with pytest.raises(BadLine, match="Line 1: longer than 1 MiB"):
        await import_board(other, endless)
    assert given < 8 << 20
