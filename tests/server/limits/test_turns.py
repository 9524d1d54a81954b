"""Callers take turns by the time that their calls take, counted here in seconds that the tests make up."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.server.limits.turns import ALL_SECONDS, BESIDES_SECONDS, EACH_SECONDS, FEW, Turns, resting
from patience import PATIENCE

DEAR, CHEAP = 0.03, 0.001


class Room:
    """Calls that take as long as they are told to; who began one and who ended one, in order."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.begun: list[str] = []
        self.at_work: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def call(self, who: str, seconds: float, *, steps: int = 3) -> None:
        async with self.turns.taking(who, f"costs {seconds}") as turn:
            await turn.of(self._work(who, seconds, steps))

    async def _work(self, who: str, seconds: float, steps: int) -> None:
        self.begun.append(who)
        self.at_work[who] += 1
        self.most[who] = max(self.most[who], self.at_work[who])
        for _ in range(steps):
            await asyncio.sleep(0)
            meter = METER.get()
            assert meter is not None
            meter.seconds += seconds / steps
        self.at_work[who] -= 1


@pytest.fixture
async def room() -> Room:
    room = Room()
    for seconds in (DEAR, CHEAP):
        for _ in range(20):  # by now it is known what they cost
            await room.call("before", seconds)
    room.begun.clear()
    return room


async def test_whoever_comes_beside_hundreds_of_dear_calls_begins_at_once(room: Room) -> None:
    calls = [asyncio.create_task(room.call("many", DEAR)) for _ in range(300)]
    await asyncio.sleep(0)
    for n in range(10):
        await asyncio.create_task(room.call("one", CHEAP))
        assert room.begun.count("one") == n + 1
    assert room.begun.count("many") < 30
    assert room.most["many"] == 1
    await asyncio.gather(*calls)
    assert room.begun.count("many") == 300


async def test_dear_calls_of_a_kind_that_nobody_made_yet_go_one_by_one() -> None:
    room = Room()
    await asyncio.gather(*(room.call("many", DEAR) for _ in range(50)))
    assert room.most["many"] == 1


async def test_calls_that_waited_are_taken_to_cost_what_is_known_when_they_begin(room: Room) -> None:
    kind, done = "now cheap, now dear", 0

    async def call(seconds: float) -> None:
        nonlocal done
        async with room.turns.taking("many", kind) as turn:
            await turn.of(room._work("many", seconds, 3))
        done += 1
        if done == 60:
            room.most.clear()

    await asyncio.gather(*(call(CHEAP) for _ in range(30)))
    await asyncio.gather(*(call(DEAR) for _ in range(100)))
    assert done == 130
    assert room.most["many"] == 1


async def test_a_dear_call_of_one_caller_makes_no_other_wait_for_the_same_kind(room: Room) -> None:
    async def call(who: str, seconds: float) -> None:
        async with room.turns.taking(who, "of any size") as turn:
            await turn.of(room._work(who, seconds, 3))

    for _ in range(20):
        await call("before", CHEAP)
    await call("dear", 3 * ALL_SECONDS)
    together = [asyncio.create_task(room.call(f"caller {n}", CHEAP, steps=50)) for n in range(FEW)]
    await asyncio.sleep(0)
    await asyncio.create_task(call("new", CHEAP))
    assert not any(task.done() for task in together)
    await asyncio.gather(*together)


async def test_cheap_calls_of_one_caller_are_worked_on_together(room: Room) -> None:
    await asyncio.gather(*(room.call("one", CHEAP) for _ in range(200)))
    assert EACH_SECONDS / CHEAP / 2 < room.most["one"] <= EACH_SECONDS / CHEAP * 2


async def test_two_who_always_want_more_get_time_alike_however_dear_their_calls_are(room: Room) -> None:
    calls = [asyncio.create_task(room.call("dear", DEAR)) for _ in range(60)]
    calls += [asyncio.create_task(room.call("cheap", CHEAP)) for _ in range(2_000)]
    await asyncio.gather(*calls)
    first = room.begun[:500]  # by then neither has come to an end
    spent = {
        who: first.count(who) * (cost + BESIDES_SECONDS) for who, cost in (("dear", DEAR), ("cheap", CHEAP))
    }
    # One call of the dear kind runs beside as many cheap ones as may be under way.
    assert 0.5 < spent["dear"] / spent["cheap"] < 1.2 * DEAR / EACH_SECONDS, spent


async def test_callers_beyond_a_few_wait_while_dear_calls_of_others_are_worked_on(room: Room) -> None:
    calls = [room.call(f"caller {n}", DEAR) for n in range(40)]
    together = 0

    async def look() -> None:
        nonlocal together
        while len(room.begun) < len(calls):
            together = max(together, room.at_work.total())
            await asyncio.sleep(0)

    await asyncio.gather(look(), *calls)
    assert together <= max(FEW, ALL_SECONDS / DEAR + 1)
    assert sorted(room.begun) == sorted(f"caller {n}" for n in range(40))


async def test_a_call_that_rests_holds_up_nobody_and_takes_its_turn_when_woken(room: Room) -> None:
    woken = asyncio.Event()
    seen: list[int] = []

    async def work() -> None:
        async with resting():
            await woken.wait()
        await room._work("waiting", DEAR, 3)
        seen.append(room.at_work["waiting"])

    async def wait() -> None:
        async with room.turns.taking("waiting", f"costs {DEAR}") as turn:
            await turn.of(work())

    waiting = [asyncio.create_task(wait()) for _ in range(100)]
    for _ in range(200):
        await asyncio.sleep(0)
    await room.call("waiting", CHEAP)
    woken.set()
    await room.call("one", CHEAP)
    assert room.begun.count("waiting") < 5
    await asyncio.gather(*waiting)
    assert room.most["waiting"] == 1


async def test_what_is_left_of_a_call_after_a_rest_is_not_taken_to_cost_what_its_beginning_did(
    room: Room,
) -> None:
    async def wait(all_rest: asyncio.Barrier) -> None:
        async def work() -> None:
            await room._work("beginning", CHEAP / 2, 1)
            async with resting():
                await all_rest.wait()
            await room._work("waiting", DEAR, 3)

        async with room.turns.taking("many", "wait") as turn:
            await turn.of(work())

    for most in (None, 1):  # by the second time it is known what the rest of a wait costs
        all_rest = asyncio.Barrier(100)
        await asyncio.gather(*(wait(all_rest) for _ in range(100)))
        assert most is None or room.most["waiting"] == most
        room.most.clear()


async def test_calls_with_next_to_no_work_are_bounded_by_what_a_turn_takes_besides(room: Room) -> None:
    await asyncio.gather(*(room.call("one", 1e-6) for _ in range(100)))
    room.most.clear()
    await asyncio.gather(*(room.call("one", 1e-6, steps=30) for _ in range(1_000)))
    assert room.most["one"] < 50


async def test_calls_that_wait_for_something_outside_hold_up_nobody_for_long(room: Room) -> None:
    answered = asyncio.Event()

    async def ask(who: str) -> None:
        async with room.turns.taking(who, f"costs {DEAR}") as turn:
            await turn.of(answered.wait())

    asking = [asyncio.create_task(ask(f"asks {n}")) for n in range(FEW + int(ALL_SECONDS / DEAR))]
    await asyncio.sleep(0)
    await asyncio.wait_for(room.call("one", DEAR), PATIENCE)
    answered.set()
    await asyncio.gather(*asking)


async def test_calls_that_are_cancelled_leave_their_place_to_others(room: Room) -> None:
    calls = [asyncio.create_task(room.call("many", DEAR, steps=50)) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for call in calls[:19]:  # the one at work among them
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert room.begun.count("many") == 2
    room.at_work.clear()
    await asyncio.gather(*(room.call("many", CHEAP) for _ in range(50)))
    assert room.most["many"] > 1


async def test_what_is_taken_to_cost_much_is_marked_for_whoever_works_on_it(room: Room) -> None:
    marked: dict[float, bool] = {}

    async def work(seconds: float) -> None:
        meter = METER.get()
        assert meter is not None
        marked[seconds] = meter.dear

    for seconds in (DEAR, CHEAP):
        async with room.turns.taking("one", f"costs {seconds}") as turn:
            await turn.of(work(seconds))
    assert marked == {DEAR: True, CHEAP: False}


async def test_a_call_that_took_long_once_does_not_make_the_next_ones_dear(room: Room) -> None:
    marked: list[bool] = []

    async def call(who: str, seconds: float) -> None:
        async with room.turns.taking(who, "of any size") as turn:
            marked.append(turn.meter.dear)
            await turn.of(room._work(who, seconds, 1))

    for seconds in (*[CHEAP] * 20, 2 * EACH_SECONDS / 3, *[CHEAP] * 10):
        await call("steady", seconds)
    assert marked == [True] + 30 * [False]
    marked.clear()
    for _ in range(20):
        await call("steady", DEAR)
    assert marked[2:] == 18 * [True]


async def test_what_fails_is_told_and_ends_the_turn(room: Room) -> None:
    async def work() -> None:
        raise ValueError("no")

    for _ in range(50):
        with pytest.raises(ValueError, match="no"):
            async with room.turns.taking("one", "failing") as turn:
                await turn.of(work())
    await room.call("one", DEAR)


async def test_thousands_of_callers_are_forgotten_once_they_have_what_they_asked_for(room: Room) -> None:
    for n in range(5_000):
        await room.call(f"caller {n}", CHEAP)
    assert len(room.turns._callers) <= 1_001


async def test_a_call_too_dear_to_fit_beside_others_is_not_overtaken_for_ever(room: Room) -> None:
    """There is always room for one more cheap call, never for the dear one, unless the others wait for it."""
    for _ in range(20):
        await room.call("before", 2 * ALL_SECONDS)
    room.begun.clear()
    over = asyncio.Event()

    async def come_again_and_again(who: str) -> None:
        for n in range(300):
            if over.is_set():
                return
            await room.call(f"{who} {n}" if who.startswith("new") else who, CHEAP)

    others = [*(f"new {n}" for n in range(2 * FEW)), *(f"old {n}" for n in range(2 * FEW))]
    coming = [asyncio.create_task(come_again_and_again(who)) for who in others]
    await asyncio.sleep(0)
    await room.call("dear", 2 * ALL_SECONDS)
    over.set()
    await asyncio.gather(*coming)
    assert room.begun.index("dear") <= 2 * len(others)


async def test_who_waits_behind_a_call_that_is_cancelled_goes_on(room: Room) -> None:
    for _ in range(20):
        await room.call("before", 2 * ALL_SECONDS)
    held = asyncio.Event()

    async def hold(who: str) -> None:
        async with room.turns.taking(who, f"costs {CHEAP}") as turn:
            await turn.of(held.wait())

    holding = [asyncio.create_task(hold(f"holds {n}")) for n in range(FEW)]
    await asyncio.sleep(0)
    dear = asyncio.create_task(room.call("dear", 2 * ALL_SECONDS))
    await asyncio.sleep(0)
    behind = asyncio.create_task(room.call("behind", CHEAP))
    await asyncio.sleep(0)
    assert "behind" not in room.begun
    dear.cancel()
    await asyncio.wait_for(behind, PATIENCE)
    assert not held.is_set()
    held.set()
    await asyncio.gather(*holding)
