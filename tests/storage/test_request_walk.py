"""Requests against a plain model that shares no code with the store: random calls of three agents, and time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table
from blackboard_mcp.storage.testing.kit.asking import Asking
from profiles import NIGHTLY

AGENTS = ("alice", "bob", "carol")
WHOM = (*AGENTS, "skill:sql", "skill:sql", "skill:review")
LEASE = 300


class Nope(Exception):
    """The model refuses."""


@dataclass
class Wanted:
    """A request as the model has it; `leases` counts its takings."""

    asker: str
    whom: str
    deadline: float
    state: str = "OPEN"
    holder: str = ""
    until: float = 0.0
    leases: int = 0
    parts: int = 0
    writer: str = ""
    declined: set[str] = field(default_factory=set)


class Model:
    def __init__(self) -> None:
        self.now = 0.0
        self.wanted: dict[int, Wanted] = {}
        self.skills: dict[str, set[str]] = {agent: set() for agent in AGENTS}

    def live(self, n: int) -> Wanted:
        if n not in self.wanted or self.wanted[n].state not in ("OPEN", "TAKEN"):
            raise Nope
        return self.wanted[n]

    def for_(self, agent: str, w: Wanted) -> bool:
        if w.asker == agent:
            return False
        if w.whom.startswith("skill:"):
            return w.whom[6:] in self.skills[agent]
        return w.whom == agent

    def held_by_other(self, agent: str, w: Wanted) -> bool:
        return w.holder not in ("", agent) and w.until > self.now

    def hold(self, agent: str, w: Wanted) -> None:
        if w.writer not in ("", agent):
            w.parts, w.writer = 0, ""
        w.holder, w.until, w.state, w.leases = agent, self.now + LEASE, "TAKEN", w.leases + 1

    def take(self, agent: str, n: int) -> None:
        w = self.live(n)
        if w.holder != agent and (self.held_by_other(agent, w) or not self.for_(agent, w)):
            raise Nope
        self.hold(agent, w)

    def may(self, agent: str, w: Wanted, fence: str) -> None:
        """`fence` is the lease the agent gives: none, that of the last taking, or an older one."""
        if w.holder == agent:
            if fence == "old" or (fence == "none" and w.whom.startswith("skill:")):
                raise Nope
        elif self.held_by_other(agent, w) or fence == "old" or not self.for_(agent, w):
            raise Nope

    def answer(self, agent: str, n: int, fence: str, part: bool, text: int) -> None:
        w = self.live(n)
        self.may(agent, w, fence)
        if text != (w.parts if w.writer in ("", agent) else 0):
            raise Nope
        if w.holder != agent:
            self.hold(agent, w)
        if part:
            w.parts, w.writer, w.until = w.parts + 1, agent, self.now + LEASE
        else:
            w.state = "ANSWERED"

    def decline(self, agent: str, n: int, fence: str) -> None:
        w = self.live(n)
        self.may(agent, w, fence)
        w.declined.add(agent)
        if w.whom.startswith("skill:"):
            w.holder, w.state, w.parts, w.writer = "", "OPEN", 0, ""
        else:
            w.state = "DECLINED"

    def cancel(self, agent: str, n: int) -> None:
        if n in self.wanted and self.wanted[n].asker != agent:
            raise Nope
        self.live(n).state = "CANCELLED"

    def sweep(self) -> None:
        for w in self.wanted.values():
            if w.state in ("OPEN", "TAKEN"):
                if w.deadline <= self.now:
                    w.state = "EXPIRED"
                elif w.holder and w.until <= self.now:
                    w.state, w.holder = "OPEN", ""

    def next(self, agent: str) -> int | None:
        for n, w in sorted(self.wanted.items()):
            if w.state not in ("OPEN", "TAKEN") or not self.for_(agent, w) or w.holder == agent:
                continue
            by_skill = w.whom.startswith("skill:")
            if by_skill and (self.held_by_other(agent, w) or agent in w.declined):
                continue
            return n
        return None


Step = tuple[Any, ...]


def steps(seed: int, count: int) -> Iterator[Step]:
    """Calls that mostly make sense, near the newest requests, with the mistakes that agents make."""
    draw = random.Random(seed)
    for _ in range(count):
        agent, place = draw.choice(AGENTS), draw.choice([0, 0, 1, 1, 2, 3, 4])
        fence = draw.choice(["none", "last", "last", "last", "last", "old"])
        match draw.choices(
            ["ask", "offer", "take", "next", "answer", "decline", "cancel", "sleep", "sweep", "prune"],
            [10, 5, 14, 12, 36, 5, 2, 8, 5, 3],
        )[0]:
            case "ask":
                yield "ask", agent, draw.choice(WHOM), draw.choice([400, 2_000, 9_000])
            case "offer":
                yield "offer", agent, draw.choice([{"sql"}, {"sql", "review"}, {"sql", "review"}, set()])
            case "answer":
                yield "answer", agent, place, fence, draw.random() < 0.7, draw.random() < 0.9
            case "decline":
                yield "decline", agent, place, fence
            case "sleep":
                yield "sleep", draw.choice([1, 100, 299, 301])
            case "next":
                yield "next", agent
            case op:
                yield (op, agent, place) if op in ("take", "cancel") else (op,)


async def walk(listed: Iterable[Step]) -> None:
    clock, model = HandClock(), Model()
    store = await open_memory_store(clock=clock)
    asking = Asking(Table(store))
    await store.ensure_board("main", "alice", CONFIG)
    numbers: list[int] = []
    leases: dict[int, list[int]] = {}

    def lease_of(n: int, fence: str) -> int | None:
        taken = leases.get(n, [])
        if fence == "none":
            return None
        return (taken[-1] if taken else 1) if fence == "last" else (taken[-1] if taken else 1) - 1

    async def both(call: Awaitable[object], told: Callable[[], None]) -> None:
        """The store and the model do it, or both refuse."""
        before = await asking.at.standing()
        try:
            told()
        except Nope:
            with pytest.raises(BlackboardError):
                await call
            assert await asking.at.standing() == before
        else:
            await call

    try:
        for op, *said in listed:
            n = (
                numbers[-1 - said[1] % len(numbers)]
                if op in ("take", "answer", "decline", "cancel") and numbers
                else 99
            )
            if op == "ask":
                agent, whom, seconds = said
                if whom == agent:
                    continue
                to = {"skill": whom[6:]} if whom.startswith("skill:") else {"to": whom}
                number = await asking.ask(agent, f"question {len(numbers)}", seconds=seconds, **to)
                numbers.append(number)
                model.wanted[number] = Wanted(agent, whom, model.now + seconds)
            elif op == "offer":
                await asking.offer(said[0], *sorted(said[1]))
                model.skills[said[0]] = set(said[1])
            elif op == "take":
                await both(asking.take(said[0], n), partial(model.take, said[0], n))
            elif op == "next":
                expected = model.next(said[0])
                assert await asking.take_next(said[0]) == expected
                if expected is not None:
                    model.take(said[0], expected)
            elif op == "answer":
                agent, _, fence, part, right = said
                w = model.wanted.get(n)
                mine = 0 if w is None or w.writer not in ("", agent) else w.parts
                seen = mine if right else mine + 1
                # A lease that was never given is an old one to both, unless nobody took it yet.
                if fence == "last" and not leases.get(n):
                    fence = "none"
                lease = lease_of(n, fence)
                await both(
                    asking.answer(agent, n, f"{seen}", partial=part, seen=seen, lease=lease),
                    partial(model.answer, agent, n, fence, part, seen),
                )
            elif op == "decline":
                agent, _, fence = said
                if fence == "last" and not leases.get(n):
                    fence = "none"
                lease = lease_of(n, fence)
                await both(asking.decline(agent, n, "no", lease), partial(model.decline, agent, n, fence))
            elif op == "cancel":
                await both(asking.cancel(said[0], n), partial(model.cancel, said[0], n))
            elif op == "sleep":
                clock.advance(said[0])
                model.now += said[0]
            elif op == "sweep":
                await store.sweep_requests()
                model.sweep()
            else:
                moved = {int(id_.split("-")[1]) for id_, _, _ in (await asking.at.prune()).moved}
                live = {n for n, w in model.wanted.items() if w.state in ("OPEN", "TAKEN")}
                assert not moved & live, "an open request left"
            for number in numbers[-7:]:
                w = model.wanted[number]
                stands = await asking.standing(number)
                if stands.lease and stands.lease not in leases.setdefault(number, []):
                    assert stands.lease > max(leases[number], default=0), "a token that does not rise"
                    leases[number].append(stands.lease)
                assert (stands.state, stands.holder or "", stands.parts) == (
                    w.state,
                    w.holder,
                    w.parts,
                ), number
                assert set(stands.declined) == w.declined
                assert len(leases.get(number, [])) == w.leases
        events = await asking.at.events()
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        ended = [
            e.item for e in events if e.event in ("request.answered", "request.declined", "request.cancelled")
        ]
        assert len(ended) == len(set(ended)), "a request ended twice"
    finally:
        await store.close()


SEEDS = range(400) if NIGHTLY else range(6)


@pytest.mark.parametrize("seed", SEEDS)
async def test_I29_requests_do_what_the_model_does(seed: int) -> None:
    await walk([("offer", "bob", {"sql"}), ("ask", "alice", "skill:sql", 2_000), *steps(seed, 150)])
