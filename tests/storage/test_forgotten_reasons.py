"""The reasons that agents gave about items that an operator had forgotten: gone with them, to the last byte."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.storage.history.transfer import export_board, verify_board
from blackboard_mcp.storage.sqlite import compacting
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.asking import Asking
from blackboard_mcp.storage.testing.kit.forgetting import DAY, due, forget
from blackboard_mcp.storage.testing.walk.rebuilding import rebuilt
from wiping import wipes

WORDS = (
    *("voted", "decided", "overruled", "conceded", "withdrew", "acknowledged", "agreed"),
    *("cancelled", "declined", "handed", "failed"),
)


def secret(word: str) -> str:
    return f"lemur{word} because of Mr Smith"


async def everything(at: Table) -> str:
    """All events and the whole export."""
    events = [str(asdict(event)) for agent in ("alice", "zoe") for event in await at.events(agent)]
    pages = [page.decode() async for page in export_board(at.store, "main")]
    return "".join([*events, *pages])


async def reasoned(store: SqlBoardStore, clock: HandClock) -> Table:
    """A board on which each kind of reason was given, and whose items were all forgotten."""
    at = Table(store)
    await at.configure(quorum=0, idempotency_seconds=90 * 86_400)
    claim = await at.post("alice", "a claim", "HYPOTHESIS")
    await at.post("bob", "no", "CRITIQUE", critiques=claim)
    vote = {"approve": False, "reason": secret("voted")}
    await store.debate_vote("main", "bob", claim.number, once=Once("vote", "digest"), **vote)  # type: ignore[arg-type]
    await at.decide("bob", claim, secret("overruled"), "carol", outcome="stands")
    await at.decide("carol", claim, secret("decided"), outcome="falls")
    given_up = await at.post("alice", "given up", "HYPOTHESIS")
    await at.post("bob", "no", "CRITIQUE", critiques=given_up)
    await at.concede("alice", given_up, secret("conceded"))
    upheld = await at.post("alice", "upheld", "HYPOTHESIS")
    critique = await at.post("bob", "no", "CRITIQUE", critiques=upheld)
    await at.withdraw("bob", critique, secret("withdrew"))
    seen = await at.post("alice", "seen", "FACT")
    await at.watch("bob", seen)
    await at.acknowledge("bob", seen, secret("acknowledged"))
    asked = await at.batch("carol", replace(draft("we stay", "PLAN"), agree=Ask(("alice",))))
    await at.acknowledge("alice", asked.items[0], secret("agreed"))
    asking = Asking(at)
    await store.cancel_request("main", "alice", await asking.ask(to="bob"), secret("cancelled"))
    await asking.decline("bob", await asking.ask(to="bob"), secret("declined"))
    await asking.offer("bob", "proof")
    handed = await asking.ask(skill="proof")
    await asking.decline("bob", handed, secret("handed"))
    await asking.cancel("alice", handed)
    await at.post("alice", "a log", "LOG")
    await store.create_group("main", "alice", "workers", {"type": "LOG"}, since=0, max_attempts=1)
    taken = await store.consume("main", "bob", "workers", Turn(limit=1))
    why = secret("failed")
    await store.consume("main", "bob", "workers", Turn(fail={taken.deliveries[0].handle: why}))
    clock.advance(DAY)
    await at.prune()
    clock.advance(40 * DAY)
    listed = await due(at, limit=50)
    assert claim.id in listed
    assert (await at.standing()).archived_items == len(listed)
    told = await everything(at)
    assert [word for word in WORDS if secret(word) not in told] == [], "nothing to forget"
    assert await forget(at, *(int(id_.partition("-")[2]) for id_ in listed)) == tuple(listed)
    assert (await at.standing()).archived_items == 0
    return at


def holding(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.is_file() and b"lemur" in file.read_bytes()]


async def test_every_reason_goes_with_the_item_and_the_board_stays_the_fold_of_its_history(
    tmp_path: Path,
) -> None:
    clock, folder = HandClock(), tmp_path / "data"
    folder.mkdir()
    store = await SqlBoardStore.open(folder / "board.db", clock=clock, synchronous="NORMAL")
    try:
        at = await reasoned(store, clock)
        assert "lemur" not in await everything(at)
        closed = [event.data for event in await at.events() if event.event == "debate.closed"]
        assert closed[0] == {"state": "DECIDED", "outcome": "falls"}, "what happened stays"
        made = await rebuilt(store, "main")
        assert made.differences == []
        assert made.lines == made.again
        assert await verify_board(store, "main", folder=tmp_path) == []
        told = str([asdict((await at.debate(number)).debate) for number in (1, 3, 5)])
        assert "lemur" not in told
        assert "'reason': 'conceded'" in told, "it says who ended the debate"
    finally:
        await store.close()
    assert holding(folder) or wipes(), "a delete leaves what was there in pages that are free"
    compacting.compact(folder / "board.db")
    assert holding(folder) == []


async def test_reasons_about_an_item_that_stays_are_kept(tmp_path: Path) -> None:
    clock = HandClock()
    store = await SqlBoardStore.open(None, clock=clock)
    try:
        at = Table(store)
        claim, other = [await at.post("alice", f"claim {n}", "HYPOTHESIS") for n in range(2)]
        for item in (claim, other):
            await at.post("bob", f"no: {item.id}", "CRITIQUE", critiques=item)
            await at.decide("bob", item, f"reason of {item.id}", "carol", outcome="falls")
            await at.concede("alice", item, f"word on {item.id}")
        await at.prune()
        clock.advance(40 * DAY)
        assert await forget(at, claim) == (claim.id,)
        assert (await at.debate(claim)).debate.reason == "conceded"
        assert (await at.debate(other)).debate.reason == f"conceded: word on {other.id}"
        told = await everything(at)
        assert f"reason of {other.id}" in told
        assert f"reason of {claim.id}" not in told
    finally:
        await store.close()
