"""Any order of posts, moves and changes of owners: each agent sees by every path what a plain rule says, no more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.items import ItemType, Ref, Visibility
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import Table, draft
from hypothesis import given, settings
from hypothesis import strategies as st

AGENTS = ("alice", "bob", "carol")
OWNERS = (*AGENTS, "acme")
KEYS = ("k:a", "k:b")
NEST = "nest:a"
RULE = ReadRule("nest", ("alice", "team:acme"), tags=("nest",))


@dataclass
class Note:
    """What the rule knows of an item: for whom it was meant when it was posted."""

    author: str
    visibility: str
    owner: str
    key: str | None
    tag: str
    archived: bool = False
    moves: int = 0

    def move(self, archived: bool) -> None:
        self.moves += archived != self.archived
        self.archived = archived


class Rule:
    """Who sees what, said once more and in other words."""

    def __init__(self) -> None:
        self.notes: dict[int, Note] = {}
        self.owners = {agent: agent for agent in AGENTS}
        self.known: dict[str, set[int]] = {agent: set() for agent in AGENTS}
        """What each agent has seen at some time: its own notes may stand in a thread that it sees no more."""

    def sees(self, agent: str, number: int) -> bool:
        note = self.notes[number]
        if note.visibility == "private":
            return note.author == agent
        if note.visibility == "readers":
            return self.reads(agent) or note.owner == agent
        return note.visibility == "board" or note.owner == self.owners[agent]

    def reads(self, agent: str) -> bool:
        """Tells whether the agent is a reader of the read rule."""
        return agent == "alice" or self.owners[agent] == "acme"

    def seen(self, agent: str) -> set[int]:
        return {number for number in self.notes if self.sees(agent, number)}

    def named(self, agent: str, key: str) -> int | None:
        """Returns the item at a key: the agent's own before its team's before what a rule keeps before the board's.

        Last comes what others, who are no readers, wrote under the rule.
        """
        order = ("private", "team", "own", "readers", "board", "others")

        def place(number: int) -> tuple[int, str]:
            note = self.notes[number]
            alone = note.visibility == "readers" and note.owner
            stands = "own" if alone == agent else "others" if alone else note.visibility
            return -order.index(stands), note.owner

        return max((n for n in self.seen(agent) if self.notes[n].key == key), key=place, default=None)


agents = st.sampled_from(AGENTS)
sights = st.sampled_from(["board", "team", "team", "private", "readers", "readers"])
back = st.integers(0, 6)
steps = st.one_of(
    st.tuples(st.just("post"), agents, sights, st.sampled_from([None, *KEYS]), back),
    st.tuples(st.just("post"), agents, sights, st.none(), back),
    st.tuples(st.just("own"), agents, st.sampled_from(OWNERS)),
    st.tuples(st.just("archive"), back),
    st.tuples(st.just("restore"), agents, back),
)


async def check(at: Table, rule: Rule) -> None:
    everything = [Ref(number) for number in range(1, len(rule.notes) + 2)]
    whole = (await at.store.stretches({at.board: 0}, 1_000))[at.board].events
    for agent in AGENTS:
        seen = rule.seen(agent)
        working = {n for n in seen if not rule.notes[n].archived}
        found = await at.store.read(at.board, agent, everything, [])
        assert {item.number for item in found.items} == seen, agent
        assert {
            n for item in found.items for e in (*item.edges, *item.incoming) for n in (e.source, e.target)
        } <= seen
        rule.known[agent] |= seen
        assert {item.thread for item in found.items} <= rule.known[agent]
        assert set(await at.query(agent, zone=None, limit=200)) == seen
        assert set(await at.query(agent, key="**", zone=None, limit=200)) == {
            n for n in seen if rule.notes[n].key
        }
        assert set(await at.store.tags(at.board, agent)) == {
            tag
            for n in working
            for tag in (rule.notes[n].tag, *(["nest"] if rule.notes[n].visibility == "readers" else ()))
        }
        figures = await at.store.statistics(at.board, agent)
        assert sum(count for count, _ in figures.counts.values()) == len(seen)
        assert figures.waiting_for_index == sum(rule.notes[n].moves for n in seen)
        snapshot = await at.store.snapshot(at.board, agent)
        assert {item.number for item in snapshot.items} == working
        assert snapshot.hidden == 0
        log = (await at.store.log(at.board, agent, 0, 1_000)).events
        viewer = Viewer(agent, rule.owners[agent], [RULE.mark] if rule.reads(agent) else ())
        assert [event.seq for event in whole if event.visible_to(viewer)] == [event.seq for event in log]
        assert {int(event.item.split("-")[1]) for event in log if event.item is not None} == seen
        for number in rule.notes:
            assert bool(await at.store.history(at.board, agent, number)) == (number in seen)
        for key in (*KEYS, NEST):
            entry = (await at.store.read(at.board, agent, [], [key])).items
            named = rule.named(agent, key)
            assert [item.number for item in entry] == ([] if named is None else [named])


async def play(listed: list[tuple[object, ...]]) -> None:
    store, rule = await open_memory_store(), Rule()
    at = Table(store)
    try:
        # A pass takes what was restored just now as well: here items come and go.
        await store.ensure_board(at.board, "alice", BoardConfig(restored_seconds=0))
        await store.set_read_rules([RULE])
        await at.post("alice", "begin", tags=["t0"])
        rule.notes[1] = Note("alice", "board", "alice", None, "t0")
        for turn, step in enumerate(listed, 1):
            match step:
                case ("post", str(agent), str(sight), key, int(ago)):
                    visible = sorted(rule.seen(agent))
                    target = visible[-1 - min(ago, len(visible) - 1)]
                    kept = sight == "readers"
                    sent = draft(
                        f"note {turn}",
                        "REPLY" if ago % 2 else "FACT",
                        private=sight == "private",
                        team=sight == "team",
                        key=None
                        if key is None
                        else NEST
                        if kept and ago % 2
                        else f"{key}{'r' if ago % 2 else ''}",
                        tags=[f"t{turn}", "nest"] if kept else [f"t{turn}"],
                        replies_to=target,
                    )
                    if kept:
                        sent = replace(sent, visibility=None, type=ItemType.FACT)
                    item = (await at.batch(agent, sent)).items[0]
                    assert item.visibility is Visibility(sight)
                    owner = ("" if rule.reads(agent) else agent) if kept else rule.owners[agent]
                    note = Note(agent, sight, owner, item.key, f"t{turn}")
                    if item.version > 1:
                        before = rule.notes[item.number]
                        assert (before.visibility, before.key) == (sight, item.key)
                        note.author, note.owner = before.author, before.owner
                        note.archived, note.moves = before.archived, before.moves
                        note.move(archived=False)
                    rule.notes[item.number] = note
                case ("own", str(agent), str(owner)):
                    await store.set_owner(agent, owner)
                    rule.owners[agent] = owner
                case ("archive", int(ago)):
                    number = max(1, len(rule.notes) - ago)
                    await at.gone(number)
                    rule.notes[number].move(archived=True)
                case ("restore", str(agent), int(ago)):
                    number = max(1, len(rule.notes) - ago)
                    try:
                        await store.restore(at.board, agent, [number])
                        assert rule.sees(agent, number)
                        rule.notes[number].move(archived=False)
                    except BlackboardError:
                        assert not rule.sees(agent, number)
            await check(at, rule)
    finally:
        await store.close()


@settings(max_examples=15, deadline=None)
@given(st.lists(steps, min_size=4, max_size=14))
def test_I25_each_agent_sees_what_the_rule_says_by_every_path(listed: list[tuple[object, ...]]) -> None:
    asyncio.run(play(listed))
