"""A statement that forgets who may see is noticed: with each predicate of read rules opened, a named check fails.

`test_visibility` holds that no statement is without one; this holds that none could lose it and nobody would know.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.answers import Once, Snapshot
from blackboard_mcp.protocols.board import BoardChange, Core
from blackboard_mcp.protocols.errors import Conflict, QuotaExceeded
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.items import Item, Ref
from blackboard_mcp.protocols.panels import Panel, panels_json
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.remarks import RemarkKind
from blackboard_mcp.protocols.stages import NewStage
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.protocols.transactions import Since, Transaction
from blackboard_mcp.storage import operations
from blackboard_mcp.storage.history import exporting
from blackboard_mcp.storage.operations.access.visibility import expanded
from blackboard_mcp.storage.operations.ledger import ledger, read_set, rows
from blackboard_mcp.storage.operations.reading import globs, kept_events, snapshots
from blackboard_mcp.storage.operations.reading import items as reading
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.leaving import seen
from blackboard_mcp.storage.testing.kit.leaving import thread as talk
from blackboard_mcp.storage.testing.kit.pressing import pressed
from blackboard_mcp.storage.testing.kit.running import choose, contribute, start
from blackboard_mcp.storage.testing.walk.inline import inline_store

NEST = "nest"
PREDICATE = re.compile(r"(GLOB 'read:\*' AND \()|\b((?:\w+\.)?owner) = ''")
"""What begins the part of VISIBLE and FOUND that asks for read rules; and PUBLIC."""
WRITTEN = re.compile(r"\b(?:VISIBLE|FOUND|PUBLIC)\(([a-z.]+)(?:, \?)?\)")
"""The same in statements that Python puts together."""
Check = Callable[[Table, pytest.MonkeyPatch], Awaitable[None]]


def rule(*readers: str) -> ReadRule:
    """A rule by which only some see what has the tag `NEST`."""
    return ReadRule(NEST, readers, tags=(NEST,))


@pytest.fixture(scope="module")
def store() -> Iterator[SqlBoardStore]:
    opened = inline_store(HandClock())
    yield opened
    opened.engine._raw.close()  # type: ignore[attr-defined]


@pytest.fixture
async def at(store: SqlBoardStore, request: pytest.FixtureRequest) -> Table:
    """A board of its own, where alice and bob read what the rule keeps, and eve does not."""
    table = Table(store, re.sub(r"\W+", "-", request.node.name)[-60:])
    await store.set_read_rules([rule("alice", "bob")])
    await store.ensure_board(table.board, "alice", CONFIG)
    return table


async def keep(at: Table, text: str, type: str | None = None, agent: str = "alice", **said: Any) -> Item:
    """Posts something that the rule keeps."""
    made = draft(text, type, **{**said, "tags": (NEST, *said.get("tags", ()))})
    return (await at.batch(agent, replace(made, visibility=None))).items[0]


def hide(at: Table, item: Item) -> None:
    """Hides an item that the product would not hide, so that only the statement that is asked keeps it from eve."""
    at.store.engine._raw.execute(  # type: ignore[attr-defined]
        "UPDATE item SET owner = ? WHERE number = ? AND board = (SELECT no FROM board WHERE id = ?)",
        (rule().mark, item.number, at.board),
    )


async def view(at: Table, look: int = 0) -> Snapshot:
    """What eve's view is made of."""
    return await at.store.snapshot(at.board, "eve", look=look)


# One check for each statement, or for some that one answer is made of. With eve's eyes each of them says what she is
# told where something is hidden from her.


async def entries_changed(at: Table, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_set, "_SCAN", 3)
    for n in range(3):
        await at.post("alice", "shared", key=f"other:{n}")
    since = await at.seq()
    for n in range(4):
        await keep(at, "hidden", key=f"plan:{n}")
    for _ in range(4):
        await at.post("alice", "noise", "LOG")
    await at.store.transact(at.board, "eve", Transaction({"plan:*": Since(since)}, (), ()), config=CONFIG)


async def items_around(at: Table, patch: pytest.MonkeyPatch) -> None:
    first = await at.post("alice", "first")
    before = await keep(at, "before", thread=first)
    middle = await at.post("bob", "middle", thread=first)
    await keep(at, "after", thread=first)
    last = await at.post("bob", "last", thread=first)
    found = await at.store.around(at.board, "eve", [middle.number, before.number])
    assert found.get(before.number) is None, "itself"
    assert found[middle.number][0] == first.number, "the one before"
    assert found[middle.number][1] == last.number, "the one after"


async def newest_archived(at: Table, patch: pytest.MonkeyPatch) -> None:
    listed = [await at.post("alice", "shown", "LOG", tags=("a",)) for _ in range(2)]
    for n in range(2):
        listed.append(await keep(at, f"hidden {n}", "PLAN", tags=("canary",)))
    await at.gone(*listed)
    archived = (await view(at)).archived
    assert archived.last == listed[1].id
    assert (archived.tags, archived.starts) == (("a",), ("shown", "shown"))


async def news_stamps(at: Table, patch: pytest.MonkeyPatch) -> None:
    """A reader who may see the event had it kept."""
    patch.setattr(kept_events, "FEW", 0)
    await at.post("eve", "here I am")
    look = await at.seq()
    await keep(at, "hidden")
    shown = await at.post("alice", "shown")
    assert len((await at.store.snapshot(at.board, "bob", look=look)).news.events) == 2
    assert [event.item for event in (await view(at, look)).news.events] == [shown.id]


async def log_stamps(at: Table, patch: pytest.MonkeyPatch) -> None:
    """A reader who may see the event had it kept."""
    patch.setattr(kept_events, "FEW", 0)
    await at.post("eve", "here I am")
    look = await at.seq()
    hidden = await keep(at, "hidden")
    shown = await at.post("alice", "shown")
    for agent, items in (("bob", [hidden.id, shown.id]), ("eve", [shown.id])):
        log = await at.store.log(at.board, agent, look, 9)
        assert [event.item for event in log.events] == items


async def news(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.post("eve", "here I am")
    look = await at.seq()
    await keep(at, "hidden")
    shown = await at.post("alice", "shown")
    assert [event.item for event in (await view(at, look)).news.events] == [shown.id]


async def news_departures(at: Table, patch: pytest.MonkeyPatch) -> None:
    """Eve wrote both, and they left before the last news."""
    patch.setattr(snapshots, "MOST_NEWS", 2)
    patch.setattr(snapshots, "_EARLIER", 1)
    shown, hidden = await at.post("eve", "shown"), await at.post("eve", "hidden")
    hide(at, hidden)
    look = await at.seq()
    await at.gone(shown, hidden)
    posted = [(await at.post("alice", f"noise {n}")).id for n in range(3)]
    assert [event.item for event in (await view(at, look)).news.events] == [shown.id, *posted[1:]]


async def waiting_for_index(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.gone(await at.post("alice", "shown"), await keep(at, "hidden"))
    assert (await at.store.statistics(at.board, "eve")).waiting_for_index == 1


async def retractions(at: Table, patch: pytest.MonkeyPatch) -> None:
    """Eve's own notes rest on what she could read once."""
    await at.store.set_read_rules([rule("alice", "bob", "eve")])
    shown = await at.post("alice", "shown")
    hidden = await keep(at, "hidden")
    between = await keep(at, "rests on what is shown", derived_from=shown)
    notes = [
        await at.post("eve", "of what is hidden", private=True, derived_from=hidden),
        await at.post("eve", "by way of what is hidden", private=True, derived_from=between),
    ]
    notes.append(await at.post("eve", "by way of a note", private=True, derived_from=notes[0]))
    await at.change("alice", hidden, status="WITHDRAWN")
    await at.change("alice", shown, status="WITHDRAWN")
    while await at.store.spread_retractions():
        pass
    assert all([(await at.item(note, "eve")).retracted for note in notes])
    await at.store.set_read_rules([rule("alice", "bob")])
    for note in notes:
        assert (await at.item(note, "eve")).retracted == (), note.text


async def results_before(at: Table, patch: pytest.MonkeyPatch) -> None:
    tasks = [NewTask(title="first"), NewTask(title="then", after=(-1,))]
    first, then = (task.number for task in (await at.store.plan(at.board, "alice", tasks)).tasks)
    await at.store.take_task(at.board, "alice", number=first)
    done = Settle("done", first, text=CountedText("hidden", 1))  # type: ignore[arg-type]
    result = (await at.store.settle_task(at.board, "alice", done)).item
    assert result is not None
    hide(at, result)
    taken = await at.store.take_task(at.board, "eve", number=then)
    assert taken is not None
    assert [(one.item, one.text) for one in taken.inputs] == [(None, "")]


async def lists(at: Table, patch: pytest.MonkeyPatch) -> None:
    """What is asked for by number, key or place in the log, and is there for nobody but readers."""
    hidden = await keep(at, "hidden", key="plan:x", tags=("canary",))
    store, eve = at.store, "eve"
    found = await store.read(at.board, eve, [Ref(hidden.number)], ["plan:x"])
    assert found.items == ()
    assert await store.beginnings(at.board, eve, [(hidden.number, 1)]) == {}
    assert await store.history(at.board, eve, hidden.number) == ()
    assert await store.readers(at.board, eve, [hidden.number]) == {}
    assert await store.tags(at.board, eve) == []
    assert [event.item for event in await at.events(eve)] == [None], "the board's beginning"
    assert (await store.explain(at.board, eve, [])).tokens == 0
    assert (await store.statistics(at.board, eve)).counts == {}


async def unseen(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.post("eve", "here I am")
    look = await at.seq()
    await keep(at, "hidden")
    shown = await at.post("alice", "shown")
    told = (await at.store.log(at.board, "eve", 1 << 62, 1, look=look)).attention
    assert [item for _, item in told.fresh] == [shown.number]


async def unseen_of_many(at: Table, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "FEW", 0)
    await unseen(at, patch)


async def crossing(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.post("eve", "here I am")
    hide(at, await at.post("alice", "Who?", "QUESTION"))
    assert (await at.batch("eve", draft("Which?", "QUESTION"))).remarks == ()


async def crossing_talk(at: Table, patch: pytest.MonkeyPatch) -> None:
    # Twenty are compared, so hidden ones must not take the place of the one that is shown.
    asked = await at.post("eve", "Who?", "QUESTION")
    shown = await at.post("alice", "I.", "REPLY", replies_to=asked)
    for n in range(20):
        hide(at, await at.post("alice", f"hidden {n}", "REPLY", replies_to=asked))
    remarks = (await at.batch("eve", draft("Or you?", "REPLY", replies_to=asked))).remarks
    crossed = [remark.about for remark in remarks if remark.kind is RemarkKind.UNSEEN]
    assert [[item.number for item in about] for about in crossed] == [[shown.number]]


async def last_acts(at: Table, patch: pytest.MonkeyPatch) -> None:
    await keep(at, "hidden", agent="dora")
    assert [name for name, _ in (await view(at)).here] == ["alice"]


async def agents_known(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown = await at.post("alice", "shown")
    await keep(at, "hidden", agent="dora")
    assert (await at.store.readers(at.board, "eve", [shown.number]))[shown.number].never == ()


async def archived(at: Table, patch: pytest.MonkeyPatch) -> None:
    hidden = await keep(at, "hidden")
    await at.change("alice", hidden, status="WITHDRAWN")
    await at.gone(hidden)
    assert await at.store.unindexed(at.board, "eve", 10) == []
    assert await at.store.fallen(at.board, "eve", 10) == ()


async def law(at: Table, patch: pytest.MonkeyPatch) -> None:
    await keep(at, "hidden", "CONSTRAINT")
    assert (await at.store.rules(at.board, "eve")).rules == ()
    assert (await at.store.statistics(at.board, "eve")).protected_items == 0


async def panels(at: Table, patch: pytest.MonkeyPatch) -> None:
    named = {"panels": panels_json([Panel("free", "", ("*",))])}
    await at.store.change_board(at.board, SYSTEM, BoardChange(settings=named))
    await keep(at, "hidden", tags=("panel:free",))
    free = next(one for one in await at.store.panels(at.board, "eve") if one.panel.name == "free")
    assert (free.items, free.version) == (0, 0)


async def top(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown = await at.post("alice", "shown")
    await keep(at, "hidden", importance=4)
    assert [item.number for item in (await at.store.snapshot(at.board, "eve", most=1)).items] == [
        shown.number
    ]


async def top_of_type(at: Table, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshots, "_OF_TYPE", 1)
    shown = await at.post("alice", "shown", "PLAN")
    await keep(at, "hidden", "PLAN", importance=4)
    assert [item.number for item in (await at.store.snapshot(at.board, "eve", most=1)).items] == [
        shown.number
    ]


async def edges(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.store.set_read_rules([rule("alice", "bob", "eve")])
    shown, hidden = await at.post("alice", "shown"), await keep(at, "hidden")
    note = await at.post("eve", "of what is hidden", private=True, derived_from=hidden)
    await keep(at, "rests", derived_from=shown)
    await at.store.set_read_rules([rule("alice", "bob")])
    assert (await at.item(shown, "eve")).cited_by == (), "from what is hidden"
    assert (await at.item(note, "eve")).edges == (), "to what is hidden"


async def thread(at: Table, patch: pytest.MonkeyPatch) -> None:
    """Eve's own note stands in a conversation whose beginning she could read once."""
    await at.store.set_read_rules([rule("alice", "bob", "eve")])
    hidden = await keep(at, "hidden")
    note = await at.post("eve", "of what is hidden", private=True, replies_to=hidden)
    await at.store.set_read_rules([rule("alice", "bob")])
    assert (await at.item(note, "eve")).thread_id != hidden.id


async def query(at: Table, patch: pytest.MonkeyPatch) -> None:
    """Eve's own note stands in a conversation whose beginning she could read once."""
    await at.store.set_read_rules([rule("alice", "bob", "eve")])
    hidden = await keep(at, "hidden")
    note = await at.post("eve", "of what is hidden", private=True, replies_to=hidden)
    await at.store.set_read_rules([rule("alice", "bob")])
    assert await at.query("eve", zone=None) == [note.number]
    assert await at.query("eve", zone=None, thread=hidden.number) == []


async def claims(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown = await at.post("alice", "shown")
    claim = await at.post("bob", "otherwise", refutes=shown)
    await keep(at, "hidden", agent="bob", supersedes=shown)
    assert [one.by for one in (await at.item(shown, "eve")).contested] == [claim.id]


async def replaced_by(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown = await at.post("alice", "shown")
    await keep(at, "hidden", supersedes=shown)
    assert (await view(at)).replaced == {}


async def former(at: Table, patch: pytest.MonkeyPatch) -> None:
    """What eve wrote as a reader she does not see when she is none."""
    await at.store.set_read_rules([rule("alice", "bob", "eve")])
    shown, hidden = await at.post("eve", "shown"), await keep(at, "hidden", agent="eve")
    note = await at.post("eve", "instead of both", private=True, supersedes=[shown, hidden])
    await at.store.set_read_rules([rule("alice", "bob")])
    assert (await at.item(note, "eve")).former == 1


async def adopted(at: Table, patch: pytest.MonkeyPatch) -> None:
    aim = await at.post("alice", "shown", "PLAN")
    reply = await at.post("bob", "do it so", "REPLY", replies_to=aim)
    await at.post("carol", "as bob says", derived_from=reply)
    await keep(at, "hidden", "PLAN", supersedes=aim, derived_from=reply)
    assert (await at.item(reply, "eve")).adopted_in is None


async def answers_to(at: Table, patch: pytest.MonkeyPatch) -> None:
    question = await at.post("carol", "what is shown?", "QUESTION")
    await keep(at, "hidden", "ANSWER", replies_to=question)
    assert (await view(at)).answered == {}


async def ahead(at: Table, patch: pytest.MonkeyPatch) -> None:
    done = await keep(at, "hidden and done")
    await at.change("alice", done, status="WITHDRAWN")
    await keep(at, "hidden why", analyzed_by=await keep(at, "hidden", "LOG"))
    await keep(at, "hidden and large", tokens=CONFIG.low_tokens + 1)
    shown = await at.post("alice", "shown", importance=4)
    turn = (await at.store.explain(at.board, "eve", [shown.number])).explanations[0].turn
    assert turn is not None
    assert (turn.items, turn.tokens) == (0, 0)


async def reads(at: Table, patch: pytest.MonkeyPatch) -> None:
    since = await at.seq()
    hidden = await keep(at, "hidden", key="plan:x")
    for name, read in {
        str(hidden.number): 0,
        "plan:x": 0,
        "plan:*": Since(since),
        "$board": Since(since),
    }.items():
        await at.store.transact(at.board, "eve", Transaction({name: read}, (), ()), config=CONFIG)


async def chosen_on_account(at: Table, patch: pytest.MonkeyPatch) -> None:
    for agent in ("alice", "eve"):
        await at.store.set_owner(agent, "acme")
    most = int(CONFIG.low_tokens * CONFIG.owner_share)
    try:
        await at.post("carol", "there")
        await keep(at, "hidden", importance=5, tokens=most - 10)
        with pytest.raises(QuotaExceeded) as told:
            await at.post("eve", "more", importance=5, tokens=20)
        assert told.value.facts["items"] == []
    finally:
        for agent in ("alice", "eve"):
            await at.store.set_owner(agent, agent)


async def claims_for_all(at: Table, patch: pytest.MonkeyPatch) -> None:
    """What speaks for an item, or in its place, among what everybody sees."""
    shown, other = await at.post("alice", "shown"), await at.post("alice", "shown too")
    await keep(at, "hidden", agent="bob", supports=shown)
    await keep(at, "hidden", supersedes=other)
    rests = await at.post("carol", "rests", depends_on=other)
    assert (await at.item(shown, "eve")).supporters == ()
    assert rests.retracted == ()


async def rules_standing(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.post("alice", "shown", "CONSTRAINT")
    await keep(at, "hidden", "CONSTRAINT")
    await at.store.set_core(at.board, "alice", Core("aim"), expected_version=0)
    assert (await at.store.rules(at.board, "eve")).revision == 1


async def checks_unnamed(at: Table, patch: pytest.MonkeyPatch) -> None:
    check = "absent:**/*.tmp"
    rule = {"rule": {"check": check}}
    issue = await at.post(
        SYSTEM, "it fails", "HOT_ISSUE", key=f"result:{'0' * 16}", metadata={"result": {"check": check}}
    )
    shown = await at.post("alice", "shown", "CONSTRAINT", metadata=rule)
    await keep(at, "hidden", "CONSTRAINT", metadata=rule)
    await at.change("alice", shown, status="RESOLVED")
    assert (await at.item(issue)).status == "RESOLVED"


async def summaries(at: Table, patch: pytest.MonkeyPatch) -> None:
    items = await talk(at)
    await at.store.request_summary(at.board, items[0].thread, seen(items), wait_seconds=60)
    await keep(at, "hidden", thread=items[0])
    assert len((await view(at)).summaries) == 1
    assert at.board not in [due.board for due in await at.store.summaries_due()]


async def conditions(at: Table, patch: pytest.MonkeyPatch) -> None:
    entries = ("exists(plan:x)", "count(type=PLAN) >= 1", "count(tag=canary) >= 2", "count(tag=canary) >= 1")
    stages = [NewStage(title=f"stage {n}", entry=entry) for n, entry in enumerate(entries)]
    await keep(at, "hidden", "PLAN", key="plan:x", tags=("canary",))
    await at.gone(await keep(at, "hidden", tags=("canary",)))
    await at.store.define_stages(at.board, "alice", stages)
    states = [str(one.state) for one in (await at.store.stages(at.board, "eve")).stages]
    assert states == ["AVAILABLE"] * len(entries)


async def answers(at: Table, patch: pytest.MonkeyPatch) -> None:
    await start(at)
    await choose(at, "bob")
    said = (await contribute(at, "bob", "shown")).items[0]
    await keep(at, "hidden", "ANSWER")
    await keep(at, "hidden", refutes=said)
    final = await at.store.preview_answer(at.board, "eve")
    assert (final.text, final.dissent, final.unresolved) == ("shown", (), ())


async def pressure(at: Table, patch: pytest.MonkeyPatch) -> None:
    await keep(at, "hidden", "CONSTRAINT", agent="dora")
    await keep(at, "hidden", agent="dora", importance=5)
    owed = await at.post("alice", "@dora hidden?", "QUESTION")
    hide(at, owed)
    _, _, judge = await pressed(at)
    told = judge.told[-1]
    assert sum(cause.items for cause in told.causes) == told.held_items == 2
    assert {one.agent for one in told.unblockers} == {"alice"}


async def reclassified(at: Table, patch: pytest.MonkeyPatch) -> None:
    """What a rule keeps already is not found to come under it, and a group's answer says no more of what does."""
    await keep(at, "hidden")
    found = await at.store.reclassify(at.board)
    assert (found.kept, found.teams) == ((), ())
    await at.store.set_read_rules([])
    await at.store.create_group(at.board, "alice", "g", {"event": "item.posted"})
    comes = await at.post("alice", "hidden from now on", tags=(NEST,))
    asked, once = Turn(limit=1, lease_seconds=60), Once("turn", "turn")
    taken = await at.store.consume(at.board, "eve", "g", asked, once=once)
    assert [one.event.item for one in taken.deliveries] == [comes.id]
    await at.store.set_read_rules([rule("alice", "bob")])
    await at.store.reclassify(at.board, apply=True)
    assert (await at.store.consume(at.board, "eve", "g", asked, once=once)).deliveries == ()


async def closed(at: Table, patch: pytest.MonkeyPatch) -> None:
    """A group stops handing out events that a rule no longer opens to everybody."""
    await at.store.set_read_rules([rule("*")])
    await at.store.create_group(at.board, "alice", "g", {"event": "item.posted"})
    await keep(at, "hidden from now on")
    assert (
        len((await at.store.consume(at.board, "eve", "g", Turn(limit=1, lease_seconds=60))).deliveries) == 1
    )
    await at.store.set_read_rules([rule("alice", "bob")])
    assert (await at.store.consume(at.board, "eve", "g", Turn(limit=1, lease_seconds=60))).in_flight == 0


async def exported(at: Table, patch: pytest.MonkeyPatch) -> None:
    await keep(at, "hidden")
    shown = await at.post("alice", "shown")
    await keep(at, "hidden too")
    of = await at.store.engine.read(partial(exporting.extent, at.board, public=True))
    lines = await at.store.engine.read(partial(exporting.page, of, 0))
    assert of.last == shown.seq
    assert len(lines) == 1


# What bears a debate or a duty cannot come under a rule. The statements about it ask all the same.


async def duties(at: Table, patch: pytest.MonkeyPatch) -> None:
    asked = await at.post("alice", "@bob @eve hidden?", "QUESTION")
    hide(at, asked)
    assert await at.store.awaited(at.board, "eve", 10) == ()
    assert await at.owed("eve") == set()


async def successions(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown, other = await at.post("alice", "shown"), await at.post("alice", "hidden")
    await at.post("bob", "no", "CRITIQUE", critiques=shown)
    await at.concede("alice", shown, to=other)
    hide(at, other)
    assert (await at.item(shown, "eve")).gave_way_to == ""


async def debates_ended(at: Table, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshots, "_ENDED", 1)
    shown, hidden = await at.post("alice", "shown"), await at.post("alice", "hidden")
    for item in (shown, hidden):
        await at.post("bob", "no", "CRITIQUE", critiques=item)
        await at.concede("alice", item)
    hide(at, hidden)
    assert [view.root for view in (await view(at)).ended] == [shown.number]


async def item_stamps(at: Table, patch: pytest.MonkeyPatch) -> None:
    """A debate brings its item to a view, and readers had it kept."""
    hidden = await at.post("alice", "hidden")
    await at.post("bob", "no", "CRITIQUE", critiques=hidden)
    await at.store.snapshot(at.board, "alice")
    hide(at, hidden)
    assert hidden.number not in [item.number for item in (await view(at)).items]


async def critiques_before(at: Table, patch: pytest.MonkeyPatch) -> None:
    shown = await at.post("alice", "shown")
    hide(at, await at.post("bob", "no", "CRITIQUE", critiques=shown))
    posted = await at.batch("eve", draft("never", "CRITIQUE", critiques=shown))
    assert posted.remarks == ()


async def held_on_account(at: Table, patch: pytest.MonkeyPatch) -> None:
    root = await at.post(SYSTEM, "hidden", key="root")
    await at.post("eve", "no", "CRITIQUE", critiques=root)
    other = await at.post("alice", "shown")
    await at.change(SYSTEM, root, text="hidden", tokens=4 * CONFIG.target_tokens)
    hide(at, root)
    await at.post("eve", "no", "CRITIQUE", critiques=other)


async def authors(at: Table, patch: pytest.MonkeyPatch) -> None:
    await at.post("eve", "here I am")
    look, left = await at.seq(), await at.post("alice", "hidden")
    await at.gone(left)
    hide(at, left)
    assert (await view(at, look)).news.authors == {}


async def same_findings(at: Table, patch: pytest.MonkeyPatch) -> None:
    hidden = await at.post("alice", "The disk is full")
    hide(at, hidden)
    assert (await at.post("eve", "the disk is full.")).number != hidden.number


async def findings_alike(at: Table, patch: pytest.MonkeyPatch) -> None:
    fell = [
        await at.post("alice", "The disk is full"),
        await at.post("alice", "The outage was caused by the connection pool"),
    ]
    for item in fell:
        await at.change("alice", item, status="WITHDRAWN")
    for item in (*fell, await at.post("alice", "The pool holds 10 connections")):
        hide(at, item)
    for place, text in enumerate(
        ("the disk is full.", "The connection pool causes outages", "The pool holds 11 connections")
    ):
        assert (await at.batch("eve", draft(text))).remarks == (), place


async def dead_ends(at: Table, patch: pytest.MonkeyPatch) -> None:
    fell = [
        await at.post("alice", "The disk is full"),
        await at.post("alice", "Orders were lost because the backup job ran out of disk"),
    ]
    for item in fell:
        await at.change("alice", item, status="WITHDRAWN")
        hide(at, item)
    tasks = [
        NewTask(title="The disk is full"),
        NewTask(title="Find orders", text="The backup job ran out of disk and orders were lost"),
    ]
    assert (await at.store.plan(at.board, "eve", tasks)).dead_ends == ()


async def debates_any(at: Table, patch: pytest.MonkeyPatch) -> None:
    root = await at.post("alice", "hidden")
    await at.post("bob", "no", "CRITIQUE", critiques=root)
    hide(at, root)
    await at.store.define_stages(at.board, "alice", [NewStage(title="stage", entry="no_open_debates()")])
    assert [str(one.state) for one in (await at.store.stages(at.board, "eve")).stages] == ["ACTIVE"]


CHECKS: dict[Check, str] = {
    adopted: "adopted",
    answers: "answer_last against",
    agents_known: "agents_known agents_known:1 agents_known:2",
    ahead: "ahead_done ahead_large ahead_logs ahead_least",
    answers_to: "answers_to",
    archived: "findings_fallen_archived outbox_of_board",
    authors: "authors",
    chosen_on_account: "chosen_on_account",
    claims: "contests",
    claims_for_all: "stances successors",
    closed: "deliveries_hide",
    conditions: "key_stands counted_by_kind counted_one_by_one counted_one_by_one:1 counted_one_by_one:2",
    critiques_before: "critiques_before",
    crossing: "crossing",
    crossing_talk: "crossing_talk",
    dead_ends: "findings_fallen findings_fallen_close",
    debates_any: "debates_any",
    debates_ended: "debates_ended",
    duties: "awaited_of_others obligations_of_agent",
    edges: "edges_visible edges_visible:1 edges_visible:2",
    entries_changed: "entries_changed entries_changed:2",
    exported: "history_events history_last_public",
    findings_alike: "findings_alike findings_alike:1 findings_alike:2 findings_alike:3",
    former: "former",
    held_on_account: "held_on_account",
    item_stamps: "item_stamps",
    items_around: "items_around items_around:1 items_around:2 items_around:3",
    last_acts: "last_acts",
    law: "law protected_figures_visible",
    lists: (
        "items_by_number items_by_key beginnings events_of_item events_after sighted tags_of_board own_notes "
        "status_counts"
    ),
    newest_archived: "newest_archived newest_archived:2",
    log_stamps: "log_stamps log_stamps:2",
    news: "news",
    news_departures: "news_departures",
    news_stamps: "news_stamps news_stamps:2",
    panels: "panel_items panel_version",
    pressure: "pressure_causes pressure_owing pressure_law pressure_important",
    query: "items.py/item.owner items.py/t.owner",
    reads: "standing_items standing_entries events_between last_event",
    reclassified: "events_at shared_items",
    replaced_by: "replaced_by",
    results_before: "results_before",
    rules_standing: "rules_standing",
    checks_unnamed: "checks_unnamed",
    same_findings: "same_findings",
    summaries: "summary_requests summaries_due",
    retractions: "retractions retractions:1 retractions:2",
    successions: "successions",
    thread: "types",
    top: "top",
    top_of_type: "top_of_type",
    unseen: "unseen_few",
    unseen_of_many: "unseen",
    waiting_for_index: "waiting_for_index",
}
"""What notices that a statement forgot: all of its predicates, or one of several, counted from 1."""
MUTANTS = [(check, name) for check, names in CHECKS.items() for name in names.split()]
AGAIN: dict[str, set[str]] = {
    "an event bears the mark of its item, and the other predicate of the statement leaves hidden items out": {
        "entries_changed:1",
    },
    "the log of an item that was found for the agent: its events bear the item's mark": {
        *("amendments_of_item", "last_event_of_items"),
    },
    "events that `news_stamps` or `log_stamps` found for the agent": {"news_at"},
    "what tells a kept event from its row: who may not see the event is told neither": {
        *("log_stamps:1", "news_stamps:1"),
    },
    "the agent's own item, with the mark that it would write with now and so sees": {"said_before"},
    "what everybody sees claims only of what everybody sees": {"claims_of"},
    "whether an item that is listed is unfinished for all: a view shows only items that its agent sees": {
        "newest_archived:1",
    },
    "a file that is imported: what does not fit is refused, and nothing of it is shown": {
        *("history_answers", "history_unfit", *(f"history_unfit:{place}" for place in range(1, 9))),
    },
    "which threads a pass looks at: `finished` leaves out what is private, whoever keeps it": {
        *("going_threads", "going_threads:1", "going_threads:2"),
    },
    "to fill the fingerprints of an old file: who looks one up asks whether everybody sees the item": {
        "findings_page"
    },
    "to choose an index: entries that match are asked for with the predicate": {
        *("keys_counted", "globs.py/item.owner"),
    },
    "only an item that everybody sees, or that bears the same mark, supersedes one for good": {
        "retractions:3"
    },
}
"""Predicates that could be lost and nothing would be told, and why not."""


def opened(match: re.Match[str]) -> str:
    """A predicate that lets through whatever a rule keeps."""
    return f"{match[0]}1 OR " if match[1] else f"({match[0]} OR {match[2]} GLOB 'read:*')"


@cache
def predicates() -> dict[str, str]:
    """The statements that ask for whom an item is, opened; those that ask more than once also place by place."""
    found: dict[str, str] = {}
    for name in rows._statements():
        text = rows.sql(name)
        places = [*PREDICATE.finditer(text)]
        if places:
            found[name] = PREDICATE.sub(opened, text)
        if len(places) > 1:
            for place, match in enumerate(places, 1):
                found[f"{name}:{place}"] = text[: match.start()] + opened(match) + text[match.end() :]
    return found


def written() -> set[str]:
    """The predicates of statements that Python puts together, by file and column."""
    folder = Path(operations.__path__[0])
    return {
        f"{file.name}/{match[1]}"
        for file in folder.rglob("*.py")
        if file.parent.name != "access"
        for match in WRITTEN.finditer(file.read_text("utf-8"))
    }


def forget(patch: pytest.MonkeyPatch, name: str) -> None:
    """Opens a predicate to whatever a rule keeps."""
    file, made, column = name.partition("/")
    if not made:
        patch.setitem(rows._statements(), name.partition(":")[0], predicates()[name])
        return

    def opening(text: str) -> str:
        meant = expanded(text)
        return PREDICATE.sub(opened, meant) if f"({column}" in text else meant

    for module in (reading, globs):
        if module.__name__.endswith(file.removesuffix(".py")):
            patch.setattr(module, "expanded", opening)


def test_each_predicate_stands_in_one_list() -> None:
    """A new statement fails here until a check notices that it forgets, or a reason says why it need not."""
    listed = [
        *(name for _, name in MUTANTS),
        *(name for names in AGAIN.values() for name in names),
    ]
    assert sorted(listed) == sorted([*predicates(), *written()])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_what_is_hidden_is_not_told(at: Table, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    await check(at, monkeypatch)


@pytest.mark.parametrize(("check", "name"), MUTANTS, ids=[name for _, name in MUTANTS])
async def test_a_statement_that_forgets_is_noticed(
    at: Table, check: Check, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch, name)
    with pytest.raises((AssertionError, Conflict, KeyError, QuotaExceeded)):
        await check(at, monkeypatch)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_what_may_be_forgotten_is_told_nowhere_else(
    at: Table, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in sorted(name for names in AGAIN.values() for name in names):
        forget(monkeypatch, name)
    await check(at, monkeypatch)
