"""`consume` through real clients of both generations: workers that share events, F19."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.server.usecases import groups as consuming
from patience import PATIENCE, WOKEN

mode, both = boards.mode, boards.both

JOBS = {"type": "PLAN", "event": "item.posted"}
KEY = "blackboard/idempotency_key"


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=("core", "messages", "admin")) as opened:
        yield opened


async def crew(board: Any, jobs: int) -> list[Any]:
    """Ada posts jobs for the group `crew`, which ben and cyd work in."""
    ada, *workers = await board.join("ada", "ben", "cyd")
    await ada.post("start")
    await workers[0].do("consume", group="crew", filter=JOBS, limit=0)
    for n in range(jobs):
        await ada.post(f"job {n}", "PLAN")
    return [ada, *workers]


async def handles(agent: Any, **arguments: Any) -> list[str]:
    answer = await agent.do("consume", group="crew", **{"seconds": 0, **arguments})
    return [d["handle"] for d in answer["deliveries"]]


async def until_parked(board: Any, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when somebody waits for a change."""
    waiting, parked = board.opened.store.wait_for_change, asyncio.Event()

    async def tell(*args: Any, **more: Any) -> int:
        parked.set()
        return int(await waiting(*args, **more))

    monkeypatch.setattr(board.opened.store, "wait_for_change", tell)
    return parked


@both
async def test_a_delivery_has_type_tags_and_metadata_of_its_item(board: Any, mode: str) -> None:
    ada, ben, _ = await crew(board, 0)
    await ada.post("job", "PLAN", tags=["t"], metadata={"ticket": 7})
    (delivery,) = (await ben.do("consume", group="crew", seconds=0))["deliveries"]
    event = delivery["event"]
    assert (event["type"], event["tags"], event["metadata"]) == ("PLAN", ["t"], {"ticket": 7})


@both
async def test_one_call_acknowledges_the_last_and_takes_the_next(board: Any, mode: str) -> None:
    ada, ben, cyd = await crew(board, 3)
    text = await ben.say("consume", group="crew")
    lines = text.splitlines()
    assert re.fullmatch(r"4\.1 item\.posted P-2 by ada: job 0", lines[0]), text
    called = re.fullmatch(
        r'yours until 09:01:00Z; then consume\(group="crew", ack=\["4\.1"\]\) · 2 left to hand out, 1 in flight',
        lines[1],
    )
    assert called, text
    assert await handles(cyd) == ["5.1"]
    assert await handles(ben, ack=["4.1"]) == ["6.1"]
    assert await handles(ben, ack=["6.1"]) == []
    answer = await cyd.do("consume", group="crew", ack=["5.1"], seconds=0)
    assert answer == {
        "group": "crew",
        "deliveries": [],
        "in_flight": 0,
        "waiting": 0,
        "dead": 0,
        "backlog": 0,
        "more": False,
        "stalled": "",
        "made_after": None,
        "seq": 6,
    }
    assert (await ada.say("consume")).startswith(
        'crew by ben: 0 left to hand out, 0 in flight; {"event": "item.posted", "type": "PLAN"}'
    )


@both
async def test_work_wakes_the_worker_that_waits_for_it(
    board: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben, cyd = await crew(board, 1)
    assert await handles(ben) == ["4.1"]
    parked = await until_parked(board, monkeypatch)
    waits = asyncio.create_task(handles(cyd, seconds=50))
    await asyncio.wait_for(parked.wait(), PATIENCE)
    await ada.post("no job")
    await ada.post("another", "PLAN")
    assert await asyncio.wait_for(waits, WOKEN) == ["6.1"]

    parked.clear()
    waits = asyncio.create_task(handles(cyd, seconds=50, ack=["6.1"]))
    await asyncio.wait_for(parked.wait(), PATIENCE)
    assert await handles(ben, fail={"4.1": "I am busy"}, limit=0) == []
    text = await asyncio.wait_for(waits, WOKEN)
    assert text == ["4.2"], "failed by one, and taken by the one that waits"


async def test_the_end_of_a_lease_wakes_the_worker_that_waits(tmp_path: Path) -> None:
    settings = boards.Settings(data=tmp_path, synchronous="NORMAL", tools=("core", "messages", "admin"))
    async with boards.compose.installation(settings, eager_index=False, background=False) as opened:
        consumers = consuming.Consumers(opened.blackboard)
        await opened.blackboard.post("ada", None, [boards_post("start")])
        await consumers.create("ada", None, "crew", {})
        await opened.blackboard.post("ada", None, [boards_post("job")])
        short = consuming.Turn(lease_seconds=1)
        first = await consumers.take("ben", None, "crew", short, seconds=0)
        async with asyncio.timeout(WOKEN):
            again = await consumers.take("cyd", None, "crew", short, seconds=50)
    assert [str(d.handle) for d in (*first.taken.deliveries, *again.taken.deliveries)] == ["4.1", "4.2"]
    assert again.taken.deliveries[0].why == "the lease ended"


def boards_post(text: str) -> Any:
    from blackboard_mcp.server.input.posts import PostFields

    return PostFields(text=text)


async def test_of_many_that_wait_one_looks_and_one_takes(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, *_ = await crew(board, 0)
    consumers, store = consuming.Consumers(board.opened.blackboard), board.opened.store
    calls = {"consume": 0, "group_outlook": 0, "wait_for_change": 0}
    parked = asyncio.Event()

    def count(name: str) -> None:
        work = getattr(store, name)

        async def counted(*args: Any, **more: Any) -> Any:
            calls[name] += 1
            if calls["wait_for_change"] == 20:
                parked.set()
            return await work(*args, **more)

        monkeypatch.setattr(store, name, counted)

    for name in calls:
        count(name)
    turn = consuming.Turn()
    waiting = [
        asyncio.create_task(consumers.take(f"w{n}", None, "crew", turn, seconds=50)) for n in range(20)
    ]
    await asyncio.wait_for(parked.wait(), PATIENCE)
    calls.update(consume=0, group_outlook=0)
    await ada.post("job", "PLAN")
    async with asyncio.timeout(WOKEN):
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [str(d.handle) for task in done for d in task.result().taken.deliveries] == ["4.1"]
    for task in rest:
        task.cancel()
    await asyncio.wait(rest)
    assert calls["consume"] == 1
    assert calls["group_outlook"] <= 4, "a look for each change, not for each that waits"


def held_up(monkeypatch: pytest.MonkeyPatch, store: Any, name: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Makes a method of the store answer late: what says that it was done, and what lets it answer."""
    work, reached, go_on = getattr(store, name), asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any, **more: Any) -> Any:
        done = await work(*args, **more)
        reached.set()
        await go_on.wait()
        return done

    monkeypatch.setattr(store, name, slowly)
    return reached, go_on


async def test_what_a_cancelled_call_had_taken_goes_to_the_next_worker(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ben, cyd = await crew(board, 1)
    consumers, store = consuming.Consumers(board.opened.blackboard), board.opened.store
    for name in ("consume", "notice", "beginnings"):
        work = getattr(store, name)
        reached, go_on = held_up(monkeypatch, store, name)
        call = asyncio.create_task(consumers.take("ben", None, "crew", consuming.Turn(), seconds=0))
        await asyncio.wait_for(reached.wait(), PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        monkeypatch.setattr(store, name, work)
        go_on.set()
        await asyncio.wait_for(consumers.settle(), PATIENCE)
        (state,) = (await cyd.do("consume"))["groups"]
        assert (state["in_flight"], state["waiting"]) == (0, 1), name
        assert state["backlog"] == 0
    (delivery,) = (await ben.do("consume", group="crew", seconds=0))["deliveries"]
    assert (delivery["handle"], delivery["why"]) == ("4.4", consuming.CANCELLED)
    await ben.do("consume", group="crew", op="release", ids=["4.4"])
    (delivery,) = (await cyd.do("consume", group="crew", seconds=0))["deliveries"]
    assert (delivery["handle"], delivery["why"]) == ("4.5", consuming.RELEASED)


async def test_what_a_failed_call_had_taken_goes_to_the_next_worker(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crew(board, 1)
    consumers, store = consuming.Consumers(board.opened.blackboard), board.opened.store

    async def fails(*args: Any, **more: Any) -> Any:
        raise StoreBusy("somebody else holds the file")

    monkeypatch.setattr(store, "beginnings", fails)
    with pytest.raises(StoreBusy):
        await consumers.take("ben", None, "crew", consuming.Turn(), seconds=0)
    await asyncio.wait_for(consumers.settle(), PATIENCE)
    monkeypatch.undo()
    work = await consumers.take("cyd", None, "crew", consuming.Turn(), seconds=0)
    assert [str(delivery.handle) for delivery in work.taken.deliveries] == ["4.2"]


async def test_a_long_wait_for_work_reports_its_progress(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "_REPORT_EVERY", 0.02)
    ada, ben, _ = await crew(board, 0)
    heard: list[str | None] = []
    enough = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)
        if len(heard) == 3:
            enough.set()

    arguments = {"group": "crew", "seconds": 50}
    call = asyncio.create_task(ben.client.call_tool("consume", arguments, progress_callback=hear))
    await asyncio.wait_for(enough.wait(), PATIENCE)
    await ada.post("job", "PLAN")
    assert not (await asyncio.wait_for(call, WOKEN)).is_error
    assert set(heard) == {"waiting for work"}


async def test_what_comes_late_is_refused_with_what_to_do(board: Any) -> None:
    _, ben, cyd = await crew(board, 2)
    assert await handles(ben, limit=2, lease_seconds=10) == ["4.1", "5.1"]
    board.clock.advance(10)
    assert await handles(cyd) == ["4.2"]
    failure = await ben.fail("consume", group="crew", ack=["4.1", "5.1"], seconds=0)
    assert failure["error"] == "conflict"
    assert failure["late"] == {
        "4.1": "is cyd's now, as 4.2",
        "5.1": "is not yours any more: its lease ended",
    }
    assert "Nothing was changed" in failure["message"]
    text = await ben.say("consume", group="crew")
    assert text.startswith("5.2 item.posted P-3 by ada: job 1 (attempt 2; before: the lease ended)")
    assert (await ben.do("consume", group="crew", op="extend", ids=["5.2"]))["in_flight"] == 2


async def test_what_fails_too_often_is_looked_at_retried_and_dropped(board: Any) -> None:
    _, ben, cyd = await crew(board, 2)
    for attempt in range(1, 6):
        assert await handles(ben) == [f"4.{attempt}"]
        assert await handles(ben, fail={f"4.{attempt}": "no\nsuch 'pump'"}, limit=0) == []
    text = await cyd.say("consume", group="crew", limit=0)
    assert text.startswith('1 left to hand out, 0 in flight, 1 dead (consume(group="crew", op="dead"))')
    text = await cyd.say("consume", group="crew", op="dead")
    assert text.startswith("4.5 item.posted P-2 by ada: job 0 (ben: no such 'pump')")
    (letter,) = (await cyd.do("consume", group="crew", op="dead"))["dead"]
    assert (letter["handle"], letter["worker"], letter["why"]) == ("4.5", "ben", "no\nsuch 'pump'")
    assert letter["event"]["item"] == "P-2"
    assert (await cyd.do("consume", group="crew", op="dead", ids=["4.5"]))["dead"] == []
    assert (await cyd.fail("consume", group="crew", op="drop", ids=["4.4"]))["missing"] == ["4.4"]
    done = await cyd.do("consume", group="crew", op="retry", ids=["4.5"])
    assert (done["done"], done["handles"]) == ("retry", ["4.5"])
    assert await handles(cyd) == ["4.6"]
    for attempt in range(6, 11):
        await handles(cyd, fail={f"4.{attempt}": ""}, limit=0)
        await handles(cyd)
        if attempt == 10:
            break
    assert [d["handle"] for d in (await ben.do("consume", group="crew", op="dead"))["dead"]] == ["4.10"]
    assert await ben.say("consume", group="crew", op="drop", ids=["4.10"])
    assert (await ben.do("consume", group="crew", op="dead"))["dead"] == []


async def test_who_made_a_group_sets_its_filter_and_ends_it(board: Any) -> None:
    ada, ben, cyd = await crew(board, 1)
    for call in ({"op": "end"}, {"op": "set", "filter": {}}):
        failure = await cyd.fail("consume", group="crew", **call)
        assert (failure["error"], failure["created_by"]) == ("refused", "ben")
    assert (await cyd.fail("consume", group="crew", filter={"type": "LOG"}))["error"] == "conflict"
    assert await handles(cyd, filter=JOBS) == ["4.1"], "the same filter is as good as none"
    await ben.do("consume", group="crew", op="set", filter={"type": "LOG"})
    await ada.post("step", "LOG")
    assert await handles(cyd, ack=["4.1"]) == ["6.1"]
    assert (await ben.do("consume", group="crew", op="end"))["done"] == "end"
    gone = await cyd.fail("consume", group="crew", seconds=0)
    assert (gone["error"], gone["group"]) == ("not_found", "crew")
    assert 'consume(group="crew", filter={…}) makes it' in gone["message"]
    assert (await cyd.say("consume")).startswith("no groups")


async def test_what_is_private_reaches_no_worker_and_no_filter(board: Any) -> None:
    ada, ben, cyd = await crew(board, 0)
    secret = await ada.post("my own", "PLAN", visibility="private")
    assert await handles(ben) == []
    for agent in (ada, ben):
        private = await agent.fail("consume", group="mine", filter={"thread": secret["id"]})
        absent = await agent.fail("consume", group="mine", filter={"thread": "F-99"})
        assert private["message"] == absent["message"].replace("99", str(secret["number"]))
    assert [g["group"] for g in (await cyd.do("consume"))["groups"]] == ["crew"]


async def test_a_repeated_call_gives_the_same_work_again(board: Any) -> None:
    _, ben, cyd = await crew(board, 4)
    meta = {KEY: "turn 1", "blackboard/structured": True}
    arguments = {"group": "crew", "limit": 2, "seconds": 0}
    first, again = [await ben.client.call_tool("consume", arguments, meta=meta) for _ in range(2)]
    assert first.structured_content == again.structured_content
    assert [d["handle"] for d in first.structured_content["deliveries"]] == ["4.1", "5.1"]
    settle = {"group": "crew", "ack": ["4.1"], "seconds": 0, "limit": 0}
    for _ in range(2):
        settled = await ben.client.call_tool("consume", settle, meta={**meta, KEY: "turn 2"})
        assert not settled.is_error
    assert await handles(cyd, limit=9) == ["6.1", "7.1"]
    other = await ben.client.call_tool("consume", settle, meta=meta)
    assert other.is_error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"group": "a b"}, "not a group's name"),
        ({"group": ""}, "not a group's name"),
        ({"group": "x" * 65}, "64"),
        ({"ack": ["4.1"]}, "consume takes ack with group"),
        ({"op": "dead"}, "consume takes op with group"),
        ({"group": "none"}, "there are: crew"),
        ({"group": "crew", "ack": ["4"]}, "look like 214.1"),
        ({"group": "crew", "ack": "4.1"}, "ack"),
        ({"group": "crew", "ack": ["4.1"] * 2}, "4.1 is named twice"),
        ({"group": "crew", "ack": ["4.1"], "fail": {"4.1": "x"}}, "4.1 is named twice"),
        ({"group": "crew", "ack": ["4.1"] * 51}, "50"),
        ({"group": "crew", "fail": ["4.1"]}, "fail"),
        ({"group": "crew", "fail": {"4.1": "x" * 501}}, "500"),
        ({"group": "crew", "fail": {"4.1": "a\0"}}, "NUL"),
        ({"group": "crew", "fail": {"4.1": 5}}, "fail"),
        ({"group": "crew", "limit": 51}, "50"),
        ({"group": "crew", "limit": -1}, "limit"),
        ({"group": "crew", "seconds": -1}, "seconds"),
        ({"group": "crew", "lease_seconds": 0}, "lease_seconds"),
        ({"group": "crew", "lease_seconds": 3_601}, "lease_seconds"),
        ({"group": "crew", "op": "burn"}, "retry"),
        ({"group": "crew", "op": "retry"}, 'op="retry" needs ids'),
        ({"group": "crew", "op": "drop", "ids": []}, 'op="drop" needs ids'),
        ({"group": "crew", "op": "set"}, 'op="set" needs filter'),
        ({"group": "crew", "op": "extend"}, 'op="extend" needs ids'),
        ({"group": "crew", "op": "end", "filter": {}}, 'op="end" takes nothing else, and not filter'),
        ({"group": "crew", "ids": ["4.1"]}, 'op="take" takes ack'),
        ({"group": "new", "filter": {"mentions": True}}, "cannot have mentions"),
        ({"group": "new", "filter": {"agent": "me"}}, "cannot have mentions"),
        ({"group": "new", "filter": {"colour": 1}}, "key, event, agent"),
        ({"group": "new", "filter": JOBS, "ack": ["4.1"]}, "is not in flight"),
        ({"group": "crew", "colour": 1}, "unknown argument 'colour'"),
    ],
)
async def test_wrong_words_to_consume_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    _, ben, cyd = await crew(board, 2)
    assert await handles(cyd) == ["4.1"]
    before = await ben.do("consume")
    assert words in (await cyd.fail("consume", **arguments))["message"]
    assert await ben.do("consume") == before


async def test_what_was_consumed_is_booked_and_acknowledged_in_one_call(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("100.50", key="total:month")
    await ada.do("consume", group="bills", filter={"type": "LOG"}, seconds=0)
    await ben.post("bill of 45", "LOG")
    taken = (await ada.do("consume", group="bills", seconds=0))["deliveries"]
    call: dict[str, Any] = {
        "writes": [{"key": "total:month", "add": 45}, {"text": "booked L-2", "type": "RESULT"}],
        "group": "bills",
        "ack": [taken[0]["handle"]],
    }
    failure = await ada.fail("transaction", **{**call, "reads": {"total:month": 2}})
    assert failure["moved"] == {"total:month": 1}
    assert (await ada.do("consume"))["groups"][0]["in_flight"] == 1
    said = await ada.say("transaction", **call, idempotency_key="bill 45")
    assert said.startswith(f"F-1@2 key total:month = 145.50\nE-3\nacknowledged {taken[0]['handle']}\nseq ")
    again = await ada.do("transaction", **call, idempotency_key="bill 45")
    assert (again["repeated"], again["items"][0]["text"]) == (True, "145.50")
    assert again["acknowledged"] == call["ack"]
    late = await ada.fail("transaction", **call)
    assert (
        "it is done, or was never handed out. Nothing was written and nothing acknowledged" in late["message"]
    )
    assert (await ben.do("read", keys=["total:month"]))["items"][0]["version"] == 2
    assert (await ada.do("consume"))["groups"][0]["in_flight"] == 0


async def test_a_group_says_that_it_was_made_with_which_filter_and_from_where_and_what_is_left(
    board: Any,
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("before", "PLAN")
    made = (await ben.say("consume", group="crew", filter=JOBS, seconds=0)).splitlines()
    assert (
        made[0]
        == 'made group crew: hands out {"type": "PLAN", "event": "item.posted"} after seq 2, nothing before'
    )
    assert made[1] == "nothing to do: 0 left to hand out, 0 in flight"
    for n in range(12):
        await ada.post(f"job {n}", "PLAN")
    taken = await ben.say("consume", group="crew", filter=JOBS, seconds=0)
    assert "made group" not in taken
    assert "11 left to hand out, 1 in flight" in taken
    said = await ben.do("consume", group="crew", limit=0)
    assert (said["backlog"], said["more"], said["made_after"]) == (11, False, None)
    await ada.do("post", items=[{"text": f"more {n}", "type": "PLAN"} for n in range(60)])
    assert (await ben.say("consume", group="crew", limit=0)).startswith("50+ left to hand out, 1 in flight")
    other = await ben.do("consume", group="other", filter=JOBS, seconds=0)
    assert other["made_after"] == await board.seq() - 1


async def test_what_a_call_settled_counts_though_its_group_ends_while_it_waits(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.post("start")
    await ann.do("consume", group="crew", filter={"type": "PLAN"}, limit=0)
    await ann.post("do it", "PLAN")
    (event,) = (await ben.do("consume", group="crew"))["deliveries"]
    waiting = asyncio.create_task(ben.fail("consume", group="crew", ack=[event["handle"]], seconds=30))
    while (await ann.do("consume"))["groups"][0]["in_flight"]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await ann.do("consume", group="crew", op="end")
    assert "What this call settled counts" in (told := (await waiting)["message"])
    assert "Nothing was changed" not in told
