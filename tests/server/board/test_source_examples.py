"""The documented examples of the blackboard library that boards for programs come from, done with ours.

Each comment names the idea of an example there; where ours differs on purpose, the test says how.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    Refused,
    UnknownReference,
)
from blackboard_mcp.protocols.items import Visibility
from blackboard_mcp.protocols.keys import check_key, compile_glob
from blackboard_mcp.protocols.messages.base import (
    AGENT,
    ID,
    Address,
    Body,
    KeyShape,
    MessageProtocol,
    Words,
)
from blackboard_mcp.protocols.messages.lifecycle import Heartbeat, Lifecycle, Phase, Signal
from blackboard_mcp.protocols.messages.request_result import Request, RequestResult, Result
from blackboard_mcp.protocols.messages.work_assignment import Claim, Done, Offer, WorkAssignment
from blackboard_mcp.protocols.policy import Deny, Verdict
from blackboard_mcp.protocols.pruning import Candidate
from blackboard_mcp.protocols.wire import WireEvent
from blackboard_mcp.server.board import Board, ProtocolHandlers, Transaction
from patience import PATIENCE
from pydantic import BaseModel

HERE = Path(__file__).stem


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    async with Board.open("team-1", agent="agent-123") as opened:
        yield opened


@pytest.fixture
def by_path(monkeypatch: pytest.MonkeyPatch) -> str:
    """The import path of this file, for classes that are named at launch."""
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])
    return HERE


async def got(waited: Any) -> Any:
    return await asyncio.wait_for(waited, PATIENCE)


# Reading and writing


# A value is written with tags, metadata and a time to live, and read back alone or with all that is known of it.
async def test_entries_are_written_read_queried_and_deleted(board: Board) -> None:
    told = {"text": json.dumps({"score": 1}), "tags": ["analysis", "final"], "metadata": {"run": 7}}
    written = await board.post(**told, key="analysis_results", ttl_seconds=3_600)
    entry = await board.get("analysis_results")
    assert entry == written
    assert (json.loads(entry.text), entry.version, entry.tags) == ({"score": 1}, 1, ["analysis", "final"])
    assert (entry.metadata, entry.author, entry.updated_by) == ({"run": 7}, "agent-123", "agent-123")
    assert entry.expires_at is not None
    assert (entry.expires_at - entry.updated_at).total_seconds() == 3_600
    await board.as_agent("agent-9").post("{}", key="analysis_results", ttl_seconds=60)
    again = await board.get("analysis_results")
    assert (again.version, again.author, again.updated_by) == (2, "agent-123", "agent-9")
    assert again.created_at == entry.created_at < again.updated_at
    # Here a former version stays readable.
    assert (await board.item(f"{entry.id}@1")).text == told["text"]
    assert await board.find("nothing") is None
    await board.delete("analysis_results")
    assert await board.find("analysis_results") is None


# Several are read and written at a time, under shared tags; a query goes by pattern of keys, tags and limit.
async def test_entries_are_written_read_and_queried_together(board: Board) -> None:
    batch = [{"key": f"agent:{n}:results", "text": str(n)} for n in range(5)]
    assert [i.author for i in (await board.post_all(batch, tags=["batch"])).items] == ["agent-123"] * 5
    await board.post("5", key="agent:5:results", tags=["other"])
    found = await board.read(keys=["agent:0:results", "agent:9:results", "agent:1:results"])
    assert ([i.text for i in found.items], found.missing) == (["0", "1"], ["agent:9:results"])
    asked = board.query(key="agent:*:results", tags=["batch"], page=2)
    assert [i.text for i in (await asked.page()).items] == ["4", "3"]
    # `*` stays within a segment here: there it crosses colons.
    assert await board.query(key="*").all() == []
    assert len(await board.query(key="**").all()) == 6
    taken = await board.clear("agent:*:results", expected=6)
    assert len(taken) == 6
    assert await board.query(key="**").all() == []


# What is one agent's, a team's, the application's or lasts beyond it has a scope of its own.
async def test_scopes_keep_apart_what_agents_teams_and_boards_write(board: Board, tmp_path: Path) -> None:
    bob, other = board.as_agent("bob"), board.as_agent("agent-123", name="team-2")
    for visibility in ("private", "team", "board"):
        await board.post("mine", key=f"state:{visibility}", visibility=visibility)
    await other.post("elsewhere", key="state:board")
    assert [i.key for i in await bob.query(key="state:*").all()] == ["state:board"]
    assert len(await board.query(key="state:*").all()) == 3
    assert [i.text for i in await other.query(key="**").all()] == ["elsewhere"]
    for wanted in (None, "kept"):
        async with Board.open(agent="agent-123", data=tmp_path) as kept:
            found = await kept.find("state:board")
            assert (found and found.text) == wanted
            await kept.post("kept", key="state:board")


# Keys are parts joined by colons, relative to their board; what is none is refused with what to write instead.
@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("request:run:req_abc", ""),
        ("agent:abc123:working:record:action-success:a1b2c3d4", ""),
        ("game:hypothesis-42:state:current", ""),
        ("task:analysis-7:result:summary", ""),
        ("result:*", "result"),
        ("", "plan:step:3"),
        ("board://team-1/result:123", "result:123"),
        ("/result:123", "result:123"),
        # Plus signs are for no key here.
        ("agent:abc123:record:action+success", "agent:abc123:record:action-success"),
    ],
)
async def test_keys_are_relative_and_checked(key: str, instead: str) -> None:
    if not instead:
        assert check_key(key) == key
        return
    with pytest.raises(InvalidInput) as caught:
        check_key(key)
    assert caught.value.facts["instead"] == instead


# Policies


class KeepsAuditLog:
    """Whoever is not an auditor changes nothing under `audit:`, and deletes nothing at all."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        if change.kind is ChangeKind.DELETE:
            return Deny("nothing is deleted here")
        if change.key is not None and change.key.startswith("audit:") and principal.agent != "auditor":
            return Deny("the auditor alone writes under audit:")
        return Verdict.ALLOW


class ScratchFirst:
    """What is tagged `scratch`, or stands under `scratch:`, goes first."""

    def key(self, candidate: Candidate) -> tuple[bool, int]:
        scratch = "scratch" in candidate.tags or (candidate.key or "").startswith("scratch:")
        return not scratch, candidate.seq


# An access policy says who may write, who may delete, and who may read which keys.
async def test_an_access_policy_decides_writes_and_deletes_and_a_read_rule_reads(by_path: str) -> None:
    settings: dict[str, Any] = {
        "access": [{"name": "audit", "class": f"{by_path}:KeepsAuditLog", "boards": ["*"]}],
        "read": [{"name": "audit", "key": "audit:**", "readers": ["auditor"]}],
    }
    async with Board.open(agent="agent-123", settings=settings) as board:
        auditor = board.as_agent("auditor")
        with pytest.raises(Forbidden, match="the auditor alone writes"):
            await board.post("x", key="audit:1")
        await auditor.post("all is well", key="audit:1")
        assert (await auditor.get("audit:1")).text == "all is well"
        # What may not be read is absent here, where the library raises.
        assert await board.find("audit:1") is None
        assert await board.query(key="**").all() == []
        await board.post("1", key="count")
        for agent in (board, auditor):
            with pytest.raises(Forbidden, match="nothing is deleted here"):
                await agent.delete("count")
        tx = board.transaction()
        tx.put("count", "2")
        tx.put("audit:2", "x")
        with pytest.raises(Forbidden):
            await tx.commit()
        assert (await board.get("count")).text == "1"


# Without policies everything is allowed, accepted, and kept while there is room.
async def test_the_policies_that_do_nothing_are_those_of_a_plain_board(board: Board) -> None:
    await board.as_agent("bob").post("not JSON", key="config:a", metadata={"any": [1, {"x": None}]})
    await board.post("over it", key="config:a")
    await board.as_agent("carol").delete("config:a")
    assert (await board.prune()).moved == []


# An eviction policy picks what leaves under pressure: what was used longest ago, least often, or as one says.
@pytest.mark.parametrize(
    ("policy", "left"),
    [("lru", [3, 4, 5, 6]), ("lfu", [3, 4, 5, 6]), ("scratch-first", [8, 9, 0, 1]), ("", [0, 1, 2, 3])],
)
async def test_an_eviction_policy_picks_what_leaves(policy: str, left: list[int], by_path: str) -> None:
    settings: dict[str, Any] = {
        "policy": f"scratch-first={by_path}:ScratchFirst",
        "target_tokens": 400,
        "board_settings": {"owner_held": 1, **({"policy": policy} if policy else {})},
    }
    async with Board.open(agent="agent-123", settings=settings) as board:
        posts: Any = [{"text": f"{n} {'word ' * 30}", "type": "LOG"} for n in range(10)]
        posts[8]["key"], posts[9]["tags"] = "scratch:8", ["scratch"]
        ids = [item.id for item in (await board.post_all(posts)).items]
        for _ in range(3):
            await board.as_agent("bob").read(ids[:3])
        await board._opening.opened.activity.flush()
        await board.post("the last " + "word " * 30, type="LOG")
        await board._opening.opened.pruner.settle()
        # What leaves is archived, not lost.
        assert [id_ for id_ in ids if (await board.item(id_)).zone == "archive"] == [
            ids[n] for n in sorted(left)
        ]


# A validation policy says which type the values under a pattern have, or goes by the schema of a model.
async def test_a_validation_policy_refuses_values_of_another_type(board: Board) -> None:
    rules = [
        {"name": "config", "key": "config:**", "schema": {"type": "object"}},
        {"name": "count", "key": "count:**", "schema": {"type": "integer"}},
    ]
    await board.change(settings={"validation": rules})
    await board.post('{"depth": 2}', key="config:search")
    await board.post("3", key="count:pages")
    for key, text, rule in (("config:search", "[2]", "config"), ("count:pages", '"3"', "count")):
        with pytest.raises(Refused, match=f"rule '{rule}'"):
            await board.post(text, key=key)
    assert [(await board.get(key)).version for key in ("config:search", "count:pages")] == [1, 1]


# Transactions


async def count_up(tx: Transaction) -> int:
    """Reads a counter and writes the next number."""
    found = await tx.get("counter")
    number = 1 + (0 if found is None else int(found.text))
    tx.put("counter", str(number))
    return number


# A counter is read and written in one block, which commits at its end, also if `return` ends it early.
async def test_a_block_commits_at_its_end_however_it_ends(board: Board) -> None:
    async def early() -> str:
        async with board.transaction() as tx:
            await count_up(tx)
            return "left"

    assert await early() == "left"
    for number in range(3):
        async with board.transaction() as tx:
            await count_up(tx)
            if number:
                continue
    assert (await board.get("counter")).text == "4"


# Of two that read the same version one is told of the conflict, and nothing of its block was written.
@pytest.mark.parametrize("meanwhile", ["write", "create", "delete", "deleted and written again"])
async def test_what_was_read_and_changed_meanwhile_is_a_conflict(board: Board, meanwhile: str) -> None:
    """The library overlooks a key that both create, and one that is deleted meanwhile."""
    if meanwhile != "create":
        await board.post("1", key="counter")
    bob = board.as_agent("bob")
    tx = board.transaction()
    await count_up(tx)
    tx.put("log", "counted")
    match meanwhile:
        case "write" | "create":
            await bob.transact(count_up)
        case _:
            await bob.delete("counter")
    if meanwhile == "deleted and written again":
        await bob.post("1", key="counter")
    with pytest.raises(Conflict) as conflict:
        await tx.commit()
    assert "counter" in str(conflict.value.facts["moved"])
    assert await board.find("log") is None
    assert await board.transact(count_up) == {"write": 3, "create": 2, "delete": 1}.get(meanwhile, 2)


# Others learn of a block's writes and deletes by events after its commit, with values as they were before.
async def test_a_block_tells_its_events_after_the_commit(board: Board) -> None:
    await board.post("old", key="a", tags=["t"], metadata={"n": 1})
    await board.post("old", key="b")
    async with board.as_agent("bob").events() as events:
        async with board.transaction() as tx:
            tx.put("a", "new", metadata={"n": 2})
            tx.delete("b")
            assert (await board.wait(since=board.seq, seconds=0)).events == []
        told = [await got(anext(events)) for _ in range(2)]
    assert [(e.event, e.key, e.version, e.agent) for e in told] == [
        ("item.versioned", "a", 2, "agent-123"),
        ("item.deleted", "b", 2, "agent-123"),
    ]
    assert (told[0].tags, told[0].metadata, told[0].data["was"]) == (["t"], {"n": 2}, {"metadata": {"n": 1}})
    assert (await board.item(f"{told[0].item}@1")).text == "old"


# Filters and streams of events


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"key": "agent:*:results"}, "1:results 2:results 2:results 2:results"),
    ({"event": ["item.posted", "item.versioned"]}, "1:results 2:results 2:results 1:state -"),
    ({"event": "item.deleted"}, "2:results"),
    ({"agent": "bob"}, "2:results 2:results 2:results"),
    ({"agent": ["bob", "agent-123"], "key": "agent:1:*"}, "1:results 1:state"),
    ({"tags": ["analysis", "final"]}, "1:results"),
    ({"key": "agent:**", "event": "item.posted", "not": {"agent": "me"}}, "2:results"),
    ({"any": [{"key": "*:1:state"}, {"event": "item.deleted"}]}, "1:state 2:results"),
    ({}, "1:results 2:results 2:results 1:state - 2:results"),
]


# Events are filtered by pattern of keys, kind, agent, tags, or some of these together.
async def test_filters_choose_events(board: Board) -> None:
    bob = board.as_agent("bob")
    await board.post("1", key="agent:1:results", tags=["analysis", "final"])
    await bob.post("2", key="agent:2:results", tags=["analysis"])
    await bob.post("22", key="agent:2:results")
    await board.post("x", key="agent:1:state")
    await board.post("no key")
    await bob.delete("agent:2:results")
    for filter_, wanted in FILTERS:
        found = []
        async for event in board.events(filter_, since=1):
            found.append(event.key.removeprefix("agent:") if event.key else "-")
            if event.seq == board.seq or len(found) == len(wanted.split()):
                break
        assert found == wanted.split(), filter_


# A callback is called for each event; a stream ends when one says so; a queue feeds an agent's own loop.
async def test_events_come_to_callbacks_streams_and_queues(board: Board) -> None:
    called: list[tuple[str, str | None]] = []
    full, stopped = asyncio.Event(), asyncio.Event()

    async def updated(event: WireEvent) -> None:
        called.append((event.agent, event.key))
        full.set()

    async def watch() -> list[str | None]:
        seen = []
        async for event in stream:
            seen.append(event.key)
            if len(seen) == 2:
                stopped.set()
        return seen

    hook = await board.on({"key": "**:results:**"}, updated)
    stream = board.events({"key": "scope:*:analysis:*"})
    async with stream, await board.queue({"key": "agent:*:result:*", "event": "item.posted"}) as queue:
        watching = asyncio.create_task(watch())
        await board.post("1", key="a:results:1")
        await board.post("2", key="scope:1:analysis:a")
        await board.post("3", key="scope:1:other:a")
        await board.post("4", key="scope:1:analysis:b")
        await board.post("5", key="agent:9:result:x")
        await got(full.wait())
        await got(stopped.wait())
        assert (await got(queue.get())).key == "agent:9:result:x"
        await stream.aclose()
        assert await got(watching) == ["scope:1:analysis:a", "scope:1:analysis:b"]
    await hook.aclose()
    await board.post("6", key="a:results:2")
    assert (called, hook.running) == ([("agent-123", "a:results:1")], False)


# A slow reader with a bounded queue: the library drops events when it is full; here none is lost.
async def test_a_full_queue_drops_nothing(board: Board) -> None:
    async with await board.queue({"type": "LOG"}, maxsize=2) as queue:
        posts: Any = [{"text": str(n), "type": "LOG"} for n in range(7)]
        wanted = [item.seq for item in (await board.post_all(posts)).items]
        assert [(await got(queue.get())).seq for _ in wanted] == wanted


# Protocols


class Task(Body):
    """What is to be analysed."""

    text: Words


class Outcome(Body):
    """What the analysis found."""

    text: Words


class Analysis(MessageProtocol):
    """Analyse texts for others."""

    name = "analysis"
    level = Visibility.TEAM
    shapes = (
        KeyShape("analysis-task", (ID,), Task, "whoever has a text"),
        KeyShape("analysis-result", (ID, AGENT), Outcome, "whoever analysed it"),
    )


# A protocol makes keys, patterns, and reads keys again; keys name their writer where several share the board.
@pytest.mark.parametrize(
    ("speaks", "kind", "parts", "key", "pattern"),
    [
        (RequestResult, "request", {"id": "req_abc123"}, "ns:request:req_abc123", "ns:request:*"),
        (RequestResult, "part", {"id": "r", "number": 2}, "ns:part:r:2", "ns:part:*:*"),
        (RequestResult, "result", {"id": "req_abc123"}, "ns:result:req_abc123", "ns:result:*"),
        (WorkAssignment, "task", {"id": "task-42"}, "ns:task:task-42", "ns:task:*"),
        (Lifecycle, "signal", {"agent": "agent-xyz"}, "ns:signal:agent-xyz", "ns:signal:*"),
        (Analysis, "analysis-task", {"id": "t1"}, "ns:analysis-task:t1", "ns:analysis-task:*"),
        (
            Analysis,
            "analysis-result",
            {"id": "t1", "agent": "bob"},
            "ns:analysis-result:t1:bob",
            "ns:analysis-result:*:*",
        ),
    ],
)
def test_protocols_make_keys_and_patterns_and_read_keys_again(
    speaks: type[MessageProtocol], kind: str, parts: dict[str, str | int], key: str, pattern: str
) -> None:
    talk = speaks("ns")
    assert (talk.key(kind, **parts), talk.pattern(kind)) == (key, pattern)
    address = talk.parse(key)
    assert address is not None
    assert (address.kind, dict(address.parts)) == (kind, parts)
    assert compile_glob(pattern).matches(key)
    # Another capability with the same protocol on the same board hears none of it.
    assert speaks("other").parse(key) is None
    assert not compile_glob(speaks("other").pattern()).matches(key)


# A parent asks, a child's handler answers, and the parent waits for that one result.
async def test_a_request_is_handled_and_its_result_awaited(board: Board) -> None:
    child, talk = board.as_agent("child"), RequestResult("compliance")

    class Compliance(ProtocolHandlers):
        protocol = RequestResult

        async def on_request(self, event: WireEvent, address: Address) -> None:
            key = event.key or ""
            _, body = talk.decode(key, (await child.get(key)).text)
            assert isinstance(body, Request)
            done = Result(text=f"{body.text} is fine").to_text()
            await child.post(done, key=talk.result_key(str(address.parts["id"])))

    handlers = child.handlers("compliance")
    handlers.add(Compliance("compliance"))
    async with handlers.running(), board.events({"key": talk.result_key("req_1")}) as results:
        await board.post("{}", key=RequestResult("other").request_key("req_1"))
        await board.post(Request(text="The file", to="child").to_text(), key=talk.request_key("req_1"))
        event = await got(anext(results))
        _, body = talk.decode(event.key, (await board.get(event.key)).text)
        assert isinstance(body, Result)
        assert body.text == "The file is fine"


# A coordinator hands work to many; of two workers one gets it, and the result comes back under the task's key.
async def test_work_is_taken_by_one_and_its_result_heard(board: Board) -> None:
    talk, workers = WorkAssignment("pool"), [board.as_agent(f"worker-{n}") for n in (1, 2)]
    async with board.events({"key": talk.pattern("done")}) as done:
        await board.post(Offer(text="Scan it").to_text(), key=talk.task_key("task-42"))

        async def work(worker: Board) -> bool:
            claim = Claim(holder=worker.agent).to_text()
            try:
                await worker.post(claim, key=talk.claim_key("task-42"), expected_version=0)
            except Conflict:
                return False
            await worker.post(Done(text=f"by {worker.agent}").to_text(), key=talk.done_key("task-42"))
            return True

        taken = await asyncio.gather(*map(work, workers))
        event = await got(anext(done))
    assert sorted(taken) == [False, True]
    assert (event.key, event.agent) == ("pool:done:task-42:1", workers[taken.index(True)].agent)


# Agents tell that they end, each under its own key, so that none overwrites another's signal.
async def test_signals_of_many_agents_are_heard_each(board: Board) -> None:
    talk, agents = Lifecycle("crew"), [board.as_agent(f"agent-{n}") for n in range(4)]
    async with board.events({"key": talk.pattern("signal")}) as signals:
        said = Signal(phase=Phase.STOPPED).to_text()
        await asyncio.gather(*(agent.post(said, key=talk.signal_key(agent.agent)) for agent in agents))
        heard = [(await got(anext(signals))).key for _ in agents]
    assert sorted(heard) == [f"crew:signal:agent-{n}" for n in range(4)]
    beat = await board.post(Heartbeat(beat=1).to_text(), key=talk.heartbeat_key("agent-0"), ttl_seconds=30)
    assert beat.expires_at is not None


# A protocol of one's own, named at launch, says which level its messages live on; agents say what they speak.
async def test_an_own_protocol_is_known_to_all_and_lives_on_its_level(by_path: str) -> None:
    async with Board.open(agent="agent-123", settings={"protocol": f"{by_path}:Analysis"}) as board:
        bob = board.as_agent("bob")
        await bob.join("analyses texts", protocols=["analysis"])
        (other,) = (await board.participants()).others
        assert other.protocols == ["analysis"]
        talk = Analysis("mine")
        task = await board.post(Task(text="A text").to_text(), key=talk.key("analysis-task", id="t1"))
        assert (task.visibility, await bob.find(task.key or "")) == ("team", None)
        with pytest.raises(InvalidInput, match="leave visibility out"):
            await board.post("{}", key=talk.key("analysis-task", id="t2"), visibility="board")


# Handlers


# A capability's patterns follow from its handlers; what only listens names its pattern itself.
async def test_handlers_hear_what_their_protocol_and_patterns_say(board: Board) -> None:
    heard: list[str] = []
    enough = asyncio.Event()

    def hear(what: str) -> None:
        heard.append(what)
        if len(heard) == 2:
            enough.set()

    class Analyst(ProtocolHandlers):
        protocol = Analysis

        async def on_analysis_task(self, event: WireEvent, address: Address) -> None:
            hear(f"task {address.parts['id']}")

    analyst = Analyst("mine")
    assert (analyst.kinds, analyst.pattern("analysis-task")) == (("analysis-task",), "mine:analysis-task:*")
    handlers = board.handlers("analysts", workers=1)
    handlers.add(analyst)

    @handlers.handler(key="working-set:**", when=lambda event: event.metadata.get("level", 0) > 2)
    async def watch(event: WireEvent) -> None:
        hear(f"set {event.key}")

    async with handlers.running():
        await board.post("{}", key="mine:analysis-result:t0:bob")
        await board.post("{}", key="yours:analysis-task:t0")
        await board.post("{}", key="working-set:low", metadata={"level": 1})
        await board.post("{}", key="mine:analysis-task:t1")
        await board.post("{}", key="working-set:high", metadata={"level": 3})
        await got(enough.wait())
    assert heard == ["task t1", "set working-set:high"]


# Publishable models


class Hypothesis(BaseModel):
    """A model that knows the key of its entry."""

    game: str
    claim: str
    confidence: float = 0.5

    def entry_key(self) -> str:
        return f"game:{self.game}:state"


# A model makes its own key, is published, read back as what it is, and followed.
async def test_a_model_is_published_under_its_own_key(board: Board) -> None:
    games = board.models(Hypothesis, Hypothesis.entry_key, pattern="game:*:state", type="HYPOTHESIS")
    async with games.changes() as changes:
        first = Hypothesis(game="h-42", claim="It is the cache.")
        await games.publish(first, expected_version=0, tags=["game"])
        assert (await got(anext(changes))).value == first
        more = first.model_copy(update={"confidence": 0.9})
        await games.publish(more, expected_version=1, metadata={"by": "judge"}, ttl_seconds=60)
        entry = await got(anext(changes))
    assert (entry.key, entry.version, entry.value) == ("game:h-42:state", 2, more)
    assert (entry.item.tags, entry.item.metadata) == (["game"], {"by": "judge"})
    assert entry.item.expires_at is not None
    with pytest.raises(Conflict):
        await games.publish(first, expected_version=1)
    with pytest.raises(UnknownReference):
        await games.get("game:h-43:state")


# Views and levels


# Levels of memory are parts of one board, each by a pattern or panel; what leaves one stays findable in the next.
async def test_levels_of_memory_are_patterns_panels_and_the_archive(board: Board) -> None:
    await board.change(settings={"panels": ["semantic"]})
    await board.post("Look at the cache.", key="agent:1:working:plan", visibility="private")
    learnt = await board.post("Caches are cold after a deploy.", tags=["panel:semantic"])
    event = await board.post("The deploy began.", type="LOG")
    await board.post(id=event.id, status="RESOLVED")
    await board.prune(author="agent-123", tag="panel:semantic", dry_run=True)
    bob = board.as_agent("bob")
    assert [item.id for item in await bob.query(tags=["panel:semantic"]).all()] == [learnt.id]
    assert {panel.name: panel.live for panel in await bob.panels()}["semantic"] == 1
    view = (await bob.view()).view
    assert "Caches are cold" in view
    assert "Look at the cache" not in view
    assert "Look at the cache" in (await board.view()).view
