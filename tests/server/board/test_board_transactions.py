"""Transactions from Python, the same in-process and over MCP: F16, F63, I23."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput


async def test_writes_take_effect_with_the_end_of_the_block(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    async with board.transaction() as tx:
        assert await tx.get("sum") is None
        fact = tx.post("two and two", tags=["maths"])
        tx.put("sum", "4", edges={"depends_on": [fact]})
        tx.change("F-1", importance=2)
        assert await bob.find("sum") is None
    assert [item.text for item in tx.committed.items] == ["two and two", "4", "the first item"]
    assert tx.committed.items[1].edges == {"depends_on": [tx.committed.items[0].id]}
    assert (await bob.get("sum")).text == "4"
    assert (await bob.item("F-1")).importance == 2


async def test_I23_what_was_read_must_still_be_so(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    await board.post("1", key="n:a")

    async def race(read: Any, meanwhile: Any) -> dict[str, Any]:
        tx = board.transaction()
        await read(tx)
        await meanwhile()
        tx.put("out", "done")
        with pytest.raises(Conflict) as conflict:
            await tx.commit()
        assert await board.find("out") is None
        return conflict.value.facts["moved"]

    moved = await race(lambda tx: tx.get("n:a"), lambda: bob.post("2", key="n:a"))
    assert any("n:a" in name for name in moved)
    moved = await race(lambda tx: tx.get("n:b"), lambda: bob.post("1", key="n:b"))
    assert any("n:b" in name for name in moved)
    moved = await race(lambda tx: tx.matching("n:*"), lambda: bob.post("1", key="n:c"))
    assert any("n:" in name for name in moved)
    await race(lambda tx: tx.item("F-1"), lambda: board.post(id="F-1", tags=["seen"]))


async def test_I23_increments_by_many_tasks_are_all_counted(place: Any, board: Any) -> None:
    agents = [board, await place.join("bob"), await place.join("carol")]

    async def increment(tx: Any) -> int:
        found = await tx.get("counter")
        value = 1 + (0 if found is None else int(found.text))
        tx.put("counter", str(value))
        return value

    values = await asyncio.gather(
        *(agent.transact(increment, attempts=60) for agent in agents for _ in range(4))
    )
    assert sorted(values) == list(range(1, 13))
    counter = await board.get("counter")
    assert (counter.text, counter.version) == ("12", 12)


async def test_an_exception_in_the_block_or_a_spent_transaction_changes_nothing(board: Any) -> None:
    async def fail(tx: Any) -> None:
        tx.put("k", "v")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await board.transact(fail)
    assert await board.find("k") is None
    async with board.transaction() as tx:
        pass
    assert tx.committed is None
    with pytest.raises(InvalidInput):
        tx.put("k", "v")
    with pytest.raises(InvalidInput):
        await board.transact(fail, attempts=0)
    async with board.transaction() as tx:
        tx.put("k", "v")
        with pytest.raises(InvalidInput):
            await tx.get("k")


async def test_a_conflict_in_every_attempt_is_raised_after_the_last(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    runs = []

    async def outrun(tx: Any) -> None:
        runs.append(await tx.get("k"))
        await bob.post(f"bob {len(runs)}", key="k")
        tx.put("k", "mine")

    with pytest.raises(Conflict):
        await board.transact(outrun, attempts=3)
    assert len(runs) == 3
    assert (await board.get("k")).text == "bob 3"


async def test_debates_are_part_of_a_transaction(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    await bob.post("not so", type="CRITIQUE", edges={"critiques": ["F-1"]})
    async with bob.transaction() as tx:
        item = await tx.item("F-1")
        assert item is not None
        tx.debate("withdraw", "C-2", reason="it is")
        tx.post("settled", edges={"replies_to": ["C-2"]})
    assert (await board.debate("F-1")).state == "WITHDRAWN"


async def test_what_was_consumed_is_booked_with_its_acknowledgement(place: Any, board: Any) -> None:
    await board.post("100", key="total")
    async with board.worker("bills", {"type": "LOG"}) as bills:
        await (await place.join("bob")).post("bill of 45", type="LOG")
        handle = (await anext(bills)).handle
        async with board.transaction() as tx:
            tx.add("total", 45)
            tx.acknowledge("bills", handle)
            with pytest.raises(InvalidInput, match="one group"):
                tx.acknowledge("others", handle)
        bills.settled()
    assert (tx.committed.items[0].text, tx.committed.acknowledged) == ("145", [handle])
    for wrong in (float("nan"), float("inf"), True, "45"):
        late = board.transaction()
        late.add("total", wrong)
        with pytest.raises(InvalidInput):
            await late.commit()
    late = board.transaction()
    late.add("total", 0.5)
    late.acknowledge("bills", handle)
    with pytest.raises(Conflict, match="nothing acknowledged"):
        await late.commit()
    assert (await board.get("total")).text == "145"
