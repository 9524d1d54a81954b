"""Queries by a glob of keys: the same answers as a plain matcher gives, by an index, whatever else is there."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Status, Zone
from blackboard_mcp.storage.operations.reading import globs as globbing
from blackboard_mcp.storage.operations.reading import items as reading
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.walk.inline import inline_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

segments = st.sampled_from(["a", "b", "ab", "ba", "é", "a.b", "3"])
keys = st.lists(segments, min_size=1, max_size=4).map(":".join)
pieces = st.sampled_from(["*", "**", "a*", "*b", "a**", "**b", "a*b", "*a*"])
globs = st.lists(segments | pieces, min_size=1, max_size=4).map(":".join) | st.text(
    "ab:*", min_size=1, max_size=8
)


def naive(glob: str) -> Callable[[str], bool]:
    """A matcher that shares nothing with the product's: a regular expression, piece by piece."""
    parts = [
        ".*" if len(piece) > 1 and set(piece) == {"*"} else "[^:]*" if piece == "*" else re.escape(piece)
        for piece in re.findall(r"\*+|[^*]+", glob)
    ]
    return lambda key: re.fullmatch("".join(parts), key, re.DOTALL) is not None


def run(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("an inline store waited")


def pages(at: Table, agent: str, limit: int, **wanted: Any) -> list[int]:
    """Numbers of all pages, each of which is full but the last."""
    found: list[int] = []
    cursor = None
    while True:
        query = ItemQuery(limit=limit, cursor=cursor, **wanted)
        page = run(at.store.query(at.board, agent, query))
        found += [item.number for item in page.items]
        cursor = page.cursor
        if cursor is None:
            return found
        assert len(page.items) == limit
        assert cursor == found[-1]


@pytest.mark.parametrize("few", [1, 3, 2_000])
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    posted=st.lists(
        st.tuples(keys, st.sampled_from(["", "", "alice", "bob"]), st.integers(0, 5)), max_size=25
    ),
    asked=st.lists(globs, min_size=1, max_size=6),
    limit=st.integers(1, 5),
)
def test_a_query_by_glob_answers_as_a_plain_matcher_does(
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    posted: list[tuple[str, str, int]],
    asked: list[str],
    limit: int,
) -> None:
    monkeypatch.setattr(globbing, "_FEW", few)
    at = Table(inline_store(HandClock()))
    run(at.store.ensure_board(at.board, "alice", CONFIG))
    known: dict[tuple[str, str], tuple[int, int]] = {}
    for key, owner, fate in posted:
        agent = owner or "carol"
        item = run(at.post(agent, f"word{fate}", key=key, private=bool(owner)))
        if fate == 0:
            run(at.delete(agent, key, private=bool(owner)))
        elif fate == 1:
            run(at.gone(item))
        known[owner, key] = (item.number, fate)
        run(at.post(agent, "no key", private=bool(owner)))
    for glob in [*asked, *(key for key, *_ in posted[:2])]:
        matches = naive(glob)
        for agent in ("alice", "carol"):
            for zone, fates in (
                (Zone.WORKING, {2, 3, 4, 5}),
                (Zone.ARCHIVE, {1}),
                (None, {1, 2, 3, 4, 5}),
            ):
                expected = [
                    number
                    for (owner, key), (number, fate) in known.items()
                    if owner in ("", agent) and fate in fates and matches(key)
                ]
                assert pages(at, agent, limit, key=glob, zone=zone) == sorted(expected, reverse=True), glob
        words = [n for (o, k), (n, fate) in known.items() if o == "" and fate == 4 and matches(k)]
        assert pages(at, "carol", limit, key=glob, zone=None, text="word4") == sorted(words, reverse=True)
        gone = [n for (o, k), (n, fate) in known.items() if o == "" and fate == 0 and matches(k)]
        assert pages(at, "carol", limit, key=glob, zone=None, deleted=True) == sorted(gone, reverse=True)
    run(at.store.close())


@pytest.fixture
def at() -> Iterator[Table]:
    table = Table(inline_store(HandClock()))
    run(table.store.ensure_board(table.board, "alice", CONFIG))
    yield table
    run(table.store.close())


def fill(at: Table, count: int, key: Callable[[int], str]) -> None:
    for start in range(0, count, 100):
        drafts = [draft("x", "LOG", key=key(n)) for n in range(start, min(start + 100, count))]
        run(at.batch("alice", *drafts))


def plans(at: Table, **wanted: Any) -> tuple[list[str], list[str]]:
    """The ways of all statements of a query, as SQLite says it goes, and the statements."""
    raw: sqlite3.Connection = at.store.engine._raw  # type: ignore[attr-defined]
    steps = reading.query(at.board, "alice", ItemQuery(**wanted))
    told: list[str] = []
    said: list[str] = []
    try:
        statement, bound = next(steps)
        while True:
            said.append(statement)
            told += [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
            statement, bound = steps.send(raw.execute(statement, bound).fetchall())
    except StopIteration:
        return told, said


@pytest.mark.parametrize(
    ("key", "zone", "way"),
    [
        ("plan:*", Zone.WORKING, "item_live_key (board=? AND key>? AND key<?"),
        ("plan:*", None, "item_key (board=? AND owner=? AND key>? AND key<?"),
        ("plan:step:3", Zone.WORKING, "item_live_key (board=? AND key=?"),
        ("plan:step:3", Zone.ARCHIVE, "item_key (board=? AND owner=? AND key=?"),
        ("**:x", Zone.WORKING, "USING PRIMARY KEY (board=? AND part=? AND number<?"),
        ("a:*:c", Zone.WORKING, "USING PRIMARY KEY (board=? AND part=? AND number<?"),
        ("*", Zone.WORKING, "USING PRIMARY KEY (board=? AND part=? AND number<?"),
        ("**", Zone.WORKING, "item_keyed (board=? AND number<?"),
        ("b*:**", Zone.WORKING, "item_live_key (board=? AND key>? AND key<?"),
    ],
)
def test_a_glob_is_looked_up_in_an_index_and_nothing_is_scanned(
    at: Table, monkeypatch: pytest.MonkeyPatch, key: str, zone: Zone | None, way: str
) -> None:
    monkeypatch.setattr(globbing, "_FEW", 50)
    fill(at, 200, lambda n: f"a:{n}:d")
    fill(at, 5, lambda n: f"plan:{n}")
    fill(at, 2, lambda n: f"b{n}:x")
    fill(at, 60, lambda n: f"b:{n}")
    told, _ = plans(at, key=key, zone=zone)
    assert any(way in step for step in told), told
    tables = ("item", "key_part", "i", "p")
    assert not [step for step in told if re.fullmatch(rf"SCAN ({'|'.join(tables)})\b.*", step)], told


def steps_of(at: Table, **wanted: Any) -> int:
    """Thousands of instructions of SQLite's machine that a query takes."""
    raw: Any = at.store.engine._raw  # type: ignore[attr-defined]
    count = [0]

    def tick() -> int:
        count[0] += 1
        return 0

    raw.set_progress_handler(tick, 1_000)
    try:
        run(at.store.query(at.board, "alice", ItemQuery(**wanted)))
    finally:
        raw.set_progress_handler(None, 0)
    return count[0]


ASKED = [
    (key, zone)
    for key in ("plan:*", "plan:**", "**:x", "*:x", "a:*:c", "plan:3", "p*n:4", "**")
    for zone in (Zone.WORKING, None)
]


def test_what_a_glob_costs_does_not_grow_with_the_board(at: Table) -> None:
    fill(at, 40, lambda n: f"plan:{n}")
    fill(at, 5, lambda n: f"q{n}:x")
    fill(at, 5, lambda n: f"a:{n}:c")
    before = {(key, zone): steps_of(at, key=key, zone=zone) for key, zone in ASKED}
    fill(at, 6_000, lambda n: f"r:{n}:s" if n % 2 else f"a:{n}:d{n}")
    assert run(at.store.find_board(at.board)).working_items == 6_050
    for (key, zone), cost in before.items():
        assert steps_of(at, key=key, zone=zone) <= cost + 80, (key, zone)
    assert len(pages(at, "alice", 50, key="a:*:c")) == 5


def test_I25_the_pages_of_a_glob_do_not_tell_of_what_others_keep_private(at: Table) -> None:
    run(at.post("alice", "a", key="k:1"))
    for n in range(30):
        run(at.post("bob", "b", key=f"k:{n}", private=True))
    run(at.post("alice", "c", key="k:2"))
    page = run(at.store.query(at.board, "alice", ItemQuery(key="k:*", limit=1)))
    assert ([i.number for i in page.items], page.cursor) == ([32], 32)
    page = run(at.store.query(at.board, "alice", ItemQuery(key="k:*", limit=1, cursor=32)))
    assert ([i.number for i in page.items], page.cursor) == ([1], None)
    assert len(pages(at, "bob", 7, key="k:*")) == 32
    assert run(at.status(1)) == Status.ACTIVE
