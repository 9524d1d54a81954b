"""A board with rows in every table, for tests of whatever must carry all of them."""

from __future__ import annotations

from dataclasses import replace

from blackboard_mcp.protocols.access import Role, Trust
from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.answers import Look, Once
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.runs import Budget, Chosen, NewRun
from blackboard_mcp.protocols.sightings import Sighting
from blackboard_mcp.protocols.stages import NewStage
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.sub_boards import SubBoard
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.protocols.workspace import Edit

from ..harness import HandClock, Table, draft
from .asking import Asking
from .leaving import summary

DISTURBING = 'two\nlines, "quotes", \u2028 and \u2029, \U0001f600, tab\t, \\u0041 <b>\x7f'


async def filled(store: BoardStore, clock: HandClock, *, resting: int = 3) -> Table:
    """Fills a board so that every table has rows, and returns it.

    At the end an item is withdrawn on which `resting` hundred others rest. By default that is more than one
    transaction can notify, so some notices are still due.
    """
    at = Table(store)
    await store.set_owner("bob", "acme")
    await store.set_trust("bob", Trust.LOW)
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
    await at.post("bob", "looked into", "LOG", analyzed_by=old)
    argued = await at.post("alice", "argued", "HYPOTHESIS")
    await at.post("dora", "not so", "CRITIQUE", critiques=argued)
    await at.decide("dora", argued, "so it is", "dora")
    thread = await at.post("alice", "a thread", "QUESTION")
    await at.post("bob", "its answer", "ANSWER", replies_to=thread)
    items = [await at.item(n) for n in (thread.number, thread.number + 1)]
    await store.apply_summary("main", summary(thread.number, {i.number: i.seq for i in items}, "both"))
    open_ = await at.post("alice", "another thread", "QUESTION")
    await store.request_summary("main", open_.number, {open_.number: open_.seq}, wait_seconds=60)
    kept = await store.subscribe("main", "dora", "news", {"type": "CRITIQUE", "not": {"agent": "bob"}})
    await at.post("bob", "news")
    await store.move_cursor("main", "dora", kept.id, await at.seq())
    await store.record_activity(
        "main",
        {"bob": clock.now()},
        {rests.number: (2, clock.now())},
        {"bob": Look(7, [9], [11])},
        [Sighting(rests.number, "bob", clock.now(), "view", clock.now(), "read")],
    )
    await at.post("alice", "to go", "FACT", key="gone")
    await at.delete("bob", "gone")
    ours = await at.post("bob", "the team's own", "PLAN", key="plan:a", team=True, tags=["ours"])
    await at.post("bob", "the team's newer", "PLAN", key="plan:a", team=True)
    await at.post("bob", "the team's log", "LOG", team=True, analyzed_by=ours)
    asking = Asking(at)
    await asking.offer("bob", "proof")
    await asking.offer("carol", "proof")
    asked = await asking.ask(skill="proof")
    await asking.decline("carol", asked)
    await asking.take("bob", asked)
    await store.join("main", "carol", role="checks proofs", interests=[{"type": "CRITIQUE"}])
    await store.change_board(
        "main", "alice", BoardChange(members={"bob": Role.DECIDER, "eve": Role.OBSERVER})
    )
    await store.create_group("main", "alice", "workers", {"type": "LOG"}, since=0)
    await store.consume("main", "bob", "workers", Turn(limit=2))
    figure = await at.post("alice", "a figure")
    newer = await at.post("bob", "a newer figure", supersedes=figure)
    await at.post("alice", "so it is", "REPLY", supports=newer)
    await at.batch_of("carol", draft("we go", "DECISION"), undecided=True)
    await at.batch("carol", replace(draft("we stay", "PLAN"), agree=Ask(("alice", "bob"))))
    doubtful = await at.post("alice", "doubtful", "HYPOTHESIS")
    await at.post("dora", "why?", "CRITIQUE", critiques=doubtful)
    await at.decide("dora", doubtful, "no reason given", outcome="falls")
    tasks = [
        NewTask(title="first", paths=("key:theirs:*",), cost=0.25),
        NewTask(title="second", after=(-1,), verify="owner"),
        NewTask(title="third"),
        NewTask(title="fourth", sub=SubBoard("below", {"seen": "plan:a"})),
    ]
    await store.plan("main", "alice", tasks, budget=Budget(steps=100, cost=12.5))
    await store.plan("main", "alice", [], cancel=[3], why="no need")
    await store.take_task("main", "bob", number=1)
    await store.settle_task("main", "bob", Settle("fail", 1, text=CountedText("no way", 2)))
    await store.take_task("main", "carol", number=1)
    await store.settle_task("main", "carol", Settle("extend", 1, text=CountedText("a person", 2), cites=(1,)))
    await store.take_task("main", "bob", paths=["file:docs/**?shared"])
    sealed = NewRun(CountedText("How many?", 3), ("bob", "carol"), sealed=True, decider="bob")
    run = await store.start_run("main", "alice", sealed)
    await store.choose_turns(
        "main", run.number, run.stamp, Chosen({"bob": "go", "carol": "go"}, "choreography")
    )
    await store.end_turn("main", "bob", 0, 0, CountedText("not seen yet", 3))
    await store.offer_turn("main", "carol", 0, 0.25)
    await at.post("alice", "a rule", "CONSTRAINT")
    await store.saw_rules("main", "bob", 1)
    await store.write_artifact("main", "bob", "docs/a.md", Edit(content=b"one"))
    await store.write_artifact("main", "carol", "docs/a.md", Edit(append=b"two"), message="more")
    await store.write_artifact("main", "carol", "b.bin", Edit(content=bytes(range(256))))
    await store.write_artifact("main", "bob", "docs/a.md", Edit(delete=True))
    ground = await at.post("bob", "the ground")
    for n in range(resting):
        await at.batch("bob", *[draft(f"{n} {m}", "LOG", derived_from=ground) for m in range(100)])
    await at.change("bob", ground, status="WITHDRAWN")
    chain = [
        NewStage(f"step {n}", entry=f'milestone("step {n - 1}")', kind="milestone") for n in range(11, 0, -1)
    ]
    phases = [NewStage("build", exit="exists(k)"), NewStage("step 0", entry="true", kind="milestone")]
    await store.define_stages("main", "alice", [NewStage("part", entry="flag(go)"), *chain, *phases])
    return at
