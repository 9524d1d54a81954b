"""The index of what debates hold is at every moment what the definition says, whatever was done before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.guard import closure_of
from blackboard_mcp.protocols.items import Edge, EdgeKind
from blackboard_mcp.storage.operations.ledger.rows import Steps, sql
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.walk.inline import inline_store
from blackboard_mcp.storage.testing.walk.walking import grouped
from hypothesis import given, settings
from hypothesis import strategies as st

AGENTS = ("alice", "bob", "carol")
KINDS = [str(kind) for kind in EdgeKind]

back = st.integers(0, 11)
agent = st.sampled_from(AGENTS)
edges = st.lists(st.tuples(st.sampled_from(KINDS), back), max_size=3)
step = st.one_of(
    st.tuples(st.just("post"), agent, edges),
    st.tuples(st.just("amend"), back, edges),
    st.tuples(st.just("critique"), agent, back),
    st.tuples(st.just("open"), agent, back),
    st.tuples(st.just("decide"), agent, back),
    st.tuples(st.just("withdraw"), agent, back),
)


def dump() -> Steps[tuple[list[Any], list[Any], list[Any], list[Any]]]:
    """All edges, what open debates are about, what the index holds, and its opinion of every item."""
    connected = yield "SELECT source, kind, target FROM edge", ()
    about = yield sql("debated_anywhere"), ()
    held = yield "SELECT number, source, kind, target, depth FROM held", ()
    protected = yield "SELECT number FROM protected", ()
    return connected, about, held, protected


async def check(store: SqlBoardStore) -> None:
    connected, about, held, protected = await store.engine.read(dump)
    known = {Edge(s, EdgeKind(k), t) for s, k, t in connected}
    expected = closure_of({number: "" for _, number, _ in about}, known)
    assert {row[0] for row in held} == set(expected)
    assert {row[0] for row in held} <= {row[0] for row in protected}
    rows = {row[0]: row[1:] for row in held}
    for number, (source, kind, target, depth) in rows.items():
        if not kind:
            assert (number in {n for _, n, _ in about}, depth) == (True, 0)
            continue
        assert Edge(source, EdgeKind(kind), target) in known
        origin = target if source == number else source
        assert rows[origin][3] == depth - 1


async def play(steps: list[tuple[Any, ...]]) -> None:
    store = inline_store(HandClock())
    at = Table(store)
    count = 0
    try:
        for name in AGENTS:
            count = (await at.post(name, name)).number
        for what, who, given_ in steps:
            pick = max(1, count - given_) if isinstance(given_, int) else 0
            try:
                match what:
                    case "post":
                        pairs = [(kind, max(1, count - n)) for kind, n in given_]
                        count = (await at.batch(who, draft("x", "REPLY", **grouped(pairs)))).items[0].number
                    case "amend":
                        item = await at.item(max(1, count - who))
                        pairs = [(kind, max(1, count - n)) for kind, n in given_]
                        await at.batch(item.author, draft(None, on=item, **grouped(pairs)))
                    case "critique":
                        count = (await at.post(who, "no", "CRITIQUE", critiques=pick)).number
                    case "open":
                        await at.open(who, pick)
                    case "decide":
                        await at.decide(who, pick, "so")
                    case "withdraw":
                        await at.withdraw(who, pick)
            except BlackboardError:
                pass
            await check(store)
    finally:
        await store.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(step, min_size=8, max_size=40))
def test_the_index_is_the_closure_after_every_step(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(steps))


def copied(tables: dict[str, list[str]]) -> Steps[dict[str, list[tuple[Any, ...]]]]:
    """All rows of some columns."""
    found = {}
    for table, columns in tables.items():
        found[table] = yield f"SELECT {', '.join(columns)} FROM {table}", ()  # noqa: S608 - names of ours
    return found


def columns() -> Steps[dict[str, list[str]]]:
    """The tables of a file with their columns."""
    tables = yield "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", ()
    found = {}
    for (table,) in tables:
        rows = yield f"SELECT name FROM pragma_table_info('{table}')", ()  # noqa: S608 - names of ours
        found[table] = [row[0] for row in rows]
    return found


def pasted(tables: dict[str, list[str]], rows: dict[str, list[tuple[Any, ...]]]) -> Steps[None]:
    for table, names in tables.items():
        marks = ", ".join("?" * len(names))
        for row in rows[table]:
            yield f"INSERT INTO {table}({', '.join(names)}) VALUES ({marks})", row  # noqa: S608 - names of ours


async def test_a_file_from_before_the_index_has_it_filled_when_it_is_opened(tmp_path: Path) -> None:
    store = inline_store(HandClock())
    at = Table(store)
    root = await at.post("alice", "root")
    reply = await at.post("carol", "reply", "REPLY", replies_to=root)
    await at.post("bob", "no", "CRITIQUE", critiques=root)
    note = await at.post("bob", "one two", private=True, depends_on=reply)
    await at.watch("bob", note)
    settled = await at.post("alice", "settled", derived_from=root)
    await at.open("bob", settled)
    await at.decide("carol", settled)
    await at.post("carol", "newer", supersedes=settled)

    scripts = migrations()
    number = next(n for n, script in enumerate(scripts) if "CREATE TABLE held" in script)
    path = tmp_path / "board.db"
    old = await SqliteEngine.open(path, migrations=scripts[:number], application_id=APPLICATION_ID)
    tables = await old.read(columns)
    rows = await store.engine.read(lambda: copied(tables))
    await old.write(lambda: pasted(tables, rows))
    await old.close()
    everything = await store.engine.read(columns)
    for figures in ("held", "item", "board"):
        assert everything[figures] != tables.get(figures)

    opened = await SqlBoardStore.open(path)
    await check(opened)
    wanted = {name: everything[name] for name in ("item", "board")}
    expected = await store.engine.read(lambda: copied(wanted))
    assert await opened.engine.read(lambda: copied(wanted)) == expected
    assert (await Table(opened).held(root, reply, settled)) == {root.number, reply.number}
    await opened.close()
    await store.close()
