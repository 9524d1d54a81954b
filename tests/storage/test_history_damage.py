"""Files of history that are wrong are refused by their line, and leave nothing behind."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.storage.history import lines as format_
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.transfer import export_board, import_board, verify_board
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.filling import filled

Line = dict[str, Any]


async def written(store: SqlBoardStore, board: str = "main", *, public: bool = False) -> bytes:
    return b"".join([page async for page in export_board(store, board, public=public)])


def reading(history: bytes) -> Callable[[int], bytes]:
    return io.BytesIO(history).readline


def parsed(history: bytes) -> list[Line]:
    return [json.loads(line) for line in history.splitlines()]


def signed(told: list[Line]) -> bytes:
    """The lines as a file whose last one says the right sha256."""
    body = b"".join(map(format_.write, told[:-1]))
    if "end" not in told[-1]:
        return body + format_.write(told[-1])
    told[-1]["end"]["sha256"] = ""
    return body + format_.seal(hashlib.sha256(body), format_.write(told[-1]))


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
    return await filled(store, clock)


Spoil = Callable[[list[Line]], Any]


def raw(change: Callable[[bytes], bytes]) -> Callable[[list[Line]], bytes]:
    return lambda told: change(signed(told))


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def revision(told: list[Line], number: int) -> Line:
    rows = (one for line in told for one in line.get("rows", {}).get("artifact_revision", ()))
    return next(one for one in rows if one["revision"] == number)


def file_row(**changed: Any) -> Spoil:
    """Changes the first revision of a file."""
    return lambda told: revision(told, 1).update(changed)


def packed(body: bytes) -> str:
    return base64.b64encode(zlib.compress(body)).decode()


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


def unasked(told: list[Line]) -> None:
    """A request, and who declined it, with the number of an item that is no question."""
    number = row(told, "request")["number"]
    for line in told:
        for table in ("request", "request_declined"):
            for one in line.get("rows", {}).get(table, ()):
                if one["number"] == number:
                    one["number"] = 1


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
    "a file outside": (file_row(path="../../a.md"), "'../../a.md' is no path of the workspace"),
    "a file in another spelling": (file_row(path="docs/e\u0301.md"), "not in composed characters"),
    "a file in a file": (
        lambda told: revision(told, 3).update(path="docs/a.md/b", folded="docs/a.md/b"),
        "docs/a.md is in the way of docs/a.md/b",
    ),
    "a folder in another case": (
        lambda told: revision(told, 3).update(path="Docs/b", folded="docs/b"),
        "docs is in the way of Docs/b",
    ),
    "a file of other content": (file_row(body=packed(b"two")), "revision 1 of the files: its number"),
    "a file that cannot be unpacked": (file_row(body="AAAA"), "revision 1 of the files: Error -"),
    "a file that is cut": (file_row(body=packed(b"one")[:8]), "is not what it says"),
    "a file beyond all": (file_row(body=packed(bytes(10**7))), "more than 1,000,000 bytes"),
    "a file by nobody": (file_row(agent="a\nparent b"), "is not an agent's name"),
    "a file that was there before": (file_row(before=1), "what was before it"),
    "a deleted file that was not there": (
        file_row(op="deleted", body="", size=0, lines=0, blob=""),
        "there is no file docs/a.md to delete",
    ),
    "no instant": (lambda told: told[3].update(at="yesterday"), "at must be an instant"),
    "no zone of time": (lambda told: told[3].update(at="2026-01-01T00:00:00"), "at must be an instant"),
    "other text": (
        lambda told: with_content(told)["content"].update(text="other"),
        "the sha256 of version 1",
    ),
    "more tokens than can be summed": (
        lambda told: with_content(told)["content"].update(tokens=(1 << 63) - 1),
        "9,223,372,036,854,775,807 tokens in one text",
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
    "a refusal of no request": (
        lambda told: [line.get("rows", {}).pop("request", None) for line in told],
        "a row is of something that is not there",
    ),
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
    "a group's filter that is one agent's": (
        lambda told: row(told, "consumer_group").update(filter={"mentions": True}),
        "a row of consumer_group: A group's filter cannot",
    ),
    "a group ahead of the log": (
        lambda told: row(told, "consumer_group").update(cursor=10_000),
        "the row 10000 of consumer_group",
    ),
    "work that is no event": (
        lambda told: row(told, "delivery").update(seq=10_000),
        "the row 10000 of delivery",
    ),
    "a request about no question": (unasked, "the row 1 of request"),
    "a part that is not there": (
        lambda told: row(told, "request").update(partial=999),
        "of request is denied",
    ),
    "an answer that is not there": (
        lambda told: row(told, "request").update(answer=999),
        "of request is denied",
    ),
    "a request that ended and lives": (
        lambda told: row(told, "request").update(live=not row(told, "request")["live"]),
        "of request is denied",
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
    "a changed setting": (
        raw(lambda h: h.replace(b'_lease_seconds":60', b'_lease_seconds":61', 1)),
        "was changed or damaged",
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
        await filled(store, clock, resting=0)
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


def by_words(name: str) -> Callable[[str], int] | None:
    return (lambda text: len(text.split())) if name == "o200k_base" else None


@pytest.mark.parametrize("claimed", [0, 1 << 32], ids=["empty", "overfull"])
async def test_texts_have_the_tokens_that_are_counted_here_whatever_a_file_says(
    claimed: int, good: bytes, other: SqlBoardStore, clock: HandClock
) -> None:
    honest = await open_memory_store(clock=clock)
    await import_board(honest, reading(good), counting=by_words)
    told = parsed(good)
    contents = [line["content"] for line in told if "content" in line]
    for content in contents:
        content["tokens"] = claimed
    done = await import_board(other, reading(signed(told)), counting=by_words)
    assert done.recounted == sum(claimed != len(content["text"].split()) for content in contents) > 0
    assert await written(other) == await written(honest)
    assert await Table(other).standing() == await Table(honest).standing()
    assert await verify_board(other, "main") == []
    await honest.close()


async def test_a_board_that_counts_by_what_is_not_here_is_not_read_in(
    good: bytes, other: SqlBoardStore
) -> None:
    told = parsed(good)
    last(told)["board"]["config"]["tokenizer"] = "somewhere.else:tokenizer"
    with pytest.raises(
        BadLine, match=r"counts tokens by somewhere.else:tokenizer, which is not to be had here"
    ):
        await import_board(other, reading(signed(told)), counting=by_words)
    assert await other.boards() == []


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
