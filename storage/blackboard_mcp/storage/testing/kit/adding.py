"""Tests of adding to entries and of acknowledging in transactions: both in one commit, whoever else writes."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, UnknownReference
from blackboard_mcp.protocols.groups import Handle, Turn

from ..harness import HandClock, Table, draft
from .transacting import transact

ADDED = {"event": "item.posted", "type": "LOG"}


async def works(at: Table, *texts: str) -> list[Handle]:
    """Creates a group `g` for logs, hands one log for each text to bob, and returns the handles."""
    await at.configure()
    await at.store.create_group(at.board, "alice", "g", ADDED)
    await at.batch("alice", *(draft(text, "LOG") for text in texts))
    taken = await at.store.consume(at.board, "bob", "g", Turn(limit=len(texts)))
    return [delivery.handle for delivery in taken.deliveries]


async def left(at: Table) -> tuple[int, int]:
    """Returns how many events of the group a worker holds, and how many wait for another attempt."""
    ((state,), _) = await at.store.groups(at.board)
    return state.in_flight, state.waiting


class AddingTests:
    @pytest.mark.parametrize(
        ("text", "amounts", "total"),
        [
            ("100", [45], "145"),
            ("0", [0.1, 0.2], "0.3"),
            (" -7.50\n", [2.5, 5], "0.00"),
            ("+1", [-3], "-2"),
            ("9007199254740993", [1], "9007199254740994"),
            ("1", [1e20, 2**62], "104611686018427387905"),
            ("5", [0], "5"),
        ],
    )
    async def test_a_sum_is_exact_and_takes_a_version_for_each_addition(
        self, at: Table, text: str, amounts: list[int | float], total: str
    ) -> None:
        await at.post("alice", text, key="total")
        done = await transact(at, "bob", {}, *(draft(None, key="total", add=amount) for amount in amounts))
        assert {item.text for item in done.items} == {total}
        kept = await at.item(1)
        assert (kept.text, kept.version, kept.tokens, kept.author) == (total, 1 + len(amounts), 1, "alice")
        assert (await at.item(1, version=1)).text == text
        assert [event.agent for event in await at.events(after=2)] == ["bob"] * len(amounts)

    async def test_an_addition_goes_with_other_writes_and_sees_those_before_it(self, at: Table) -> None:
        await at.post("alice", "100", key="total")
        done = await transact(
            at,
            "bob",
            {"total": 1},
            draft("booked 45", "LOG"),
            draft("7", key="new", expected=0),
            draft(None, key="new", add=3, expected=1, derived_from=-1),
            draft(None, key="total", add=45, expected=1),
            draft(None, on=1, add=5, expected=2),
        )
        assert [item.text for item in done.items] == ["booked 45", "10", "10", "150", "150"]
        with pytest.raises(Conflict):
            await transact(at, "bob", {}, draft(None, key="total", add=1, expected=1))
        mine = await at.post("bob", "1", key="total", private=True)
        assert (await transact(at, "bob", {}, draft(None, on=mine, add=1))).items[0].text == "2"
        assert (await at.item(1)).text == "150"

    @pytest.mark.parametrize(
        "text",
        ["", "abc", "1e3", "NaN", "Infinity", "1,234", "45 €", "1 2", "0x10", ".5", "5.", "٣", "1" * 31],
    )
    async def test_what_is_no_plain_number_is_not_added_to(self, at: Table, text: str) -> None:
        await at.post("alice", text or "x", key="k")
        before = await at.seq()
        with pytest.raises(InvalidInput, match="holds no plain number"):
            await transact(at, "bob", {}, draft("said", "LOG"), draft(None, key="k", add=1))
        assert (await at.seq(), (await at.item(1)).version) == (before, 1)

    @pytest.mark.parametrize("amount", [1, 1e300, 1e-300, 1e30])
    async def test_a_sum_of_too_many_digits_is_refused(self, at: Table, amount: float) -> None:
        await at.post("alice", "9" * 30, key="k")
        with pytest.raises(InvalidInput, match="more than 30 digits"):
            await transact(at, "bob", {}, draft(None, key="k", add=amount))
        assert (await at.item(1)).version == 1

    async def test_what_is_not_there_or_deleted_or_no_entry_is_not_added_to(self, at: Table) -> None:
        fact = await at.post("alice", "5")
        with pytest.raises(UnknownReference, match="to add to"):
            await transact(at, "bob", {}, draft(None, key="k", add=1))
        with pytest.raises(InvalidInput, match="fixed"):
            await transact(at, "alice", {}, draft(None, on=fact, add=1))
        await transact(at, "alice", {}, draft("5", key="k"), draft(None, key="k", delete=True))
        with pytest.raises(UnknownReference, match="to add to"):
            await transact(at, "bob", {}, draft(None, key="k", add=1))
        assert (await at.item(fact)).text == "5"

    async def test_of_many_who_add_at_once_nobody_conflicts_and_nothing_is_lost(
        self, handles: tuple[Table, Table]
    ) -> None:
        await handles[0].post("alice", "0", key="total")
        done = await asyncio.gather(
            *(
                transact(at, f"agent{n}", {}, draft(None, key="total", add=n))
                for n in range(10)
                for at in handles
            )
        )
        kept = await handles[1].item(1)
        assert (kept.text, kept.version) == ("90", 21)
        assert sorted(one.items[0].version for one in done) == list(range(2, 22))

    async def test_I24_a_repeated_key_adds_once_and_answers_with_the_sum_of_then(self, at: Table) -> None:
        held = await works(at, "book 45")
        total = await at.post("alice", "100", key="total")
        once = Once("key", "digest")
        said = draft(None, key="total", add=45)
        first = await transact(at, "bob", {}, said, once=once, ack=held)
        await transact(at, "alice", {}, draft(None, key="total", add=1))
        again = await transact(at, "bob", {}, said, once=once, ack=held)
        assert (again.repeated, again.seq, again.items[0].text) == (True, first.seq, "145")
        assert (await at.item(total)).text == "146"


class AcknowledgingTests:
    async def test_what_was_consumed_is_acknowledged_with_what_came_of_it(self, at: Table) -> None:
        one, two, three = await works(at, "one", "two", "three")
        await at.post("alice", "100", key="total")
        done = await transact(at, "bob", {"total": 1}, draft(None, key="total", add=45), ack=[one, three])
        assert (done.items[0].text, await left(at)) == ("145", (1, 0))
        alone = await transact(at, "bob", {"total": 2}, ack=[two])
        assert (alone.items, alone.seq, await left(at)) == ((), done.seq, (0, 0))
        assert (await at.store.consume(at.board, "carol", "g", Turn())).deliveries == ()

    async def test_I24_a_refused_transaction_acknowledges_nothing(self, at: Table) -> None:
        held = await works(at, "one")
        await at.post("alice", "much", key="total")
        for wrong, error in (
            (draft(None, key="total", add=45), InvalidInput),
            (draft("x", key="total", expected=7), Conflict),
            (draft("x", supports=99), UnknownReference),
        ):
            with pytest.raises(error):
                await transact(at, "bob", {}, draft("booked", "LOG"), wrong, ack=held)
        with pytest.raises(Conflict):
            await transact(at, "bob", {"total": 2}, ack=held)
        assert await left(at) == (1, 0)
        assert (await at.store.consume(at.board, "bob", "g", Turn(ack=tuple(held), limit=0))).in_flight == 0

    async def test_who_lost_an_event_books_nothing_for_it(self, at: Table, clock: HandClock) -> None:
        one, two = await works(at, "one", "two")
        total = await at.post("alice", "100", key="total")
        clock.advance(61)
        before = await at.seq()
        (again,) = (await at.store.consume(at.board, "carol", "g", Turn())).deliveries
        for handle, why in (
            (one, "is carol's now, as"),
            (two, "is not yours any more: its lease ended"),
            (Handle(99, 1), "was never handed out"),
        ):
            with pytest.raises(Conflict, match=why) as told:
                await transact(at, "bob", {}, draft(None, key="total", add=45), ack=[handle])
            assert told.value.facts["late"].keys() == {str(handle)}
        assert (await at.seq(), (await at.item(total)).text) == (before, "100")
        await transact(at, "carol", {}, draft(None, key="total", add=45), ack=[again.handle])
        assert (await at.item(total)).text == "145"

    async def test_I27_only_events_of_a_group_that_is_there_are_acknowledged(self, at: Table) -> None:
        held = await works(at, "one")
        with pytest.raises(InvalidInput, match="named twice"):
            await transact(at, "bob", {}, ack=[*held, *held])
        with pytest.raises(InvalidInput, match="at most 50"):
            await transact(at, "bob", {}, ack=[Handle(n, 1) for n in range(1, 52)])
        await at.store.end_group(at.board, "alice", "g")
        with pytest.raises(UnknownReference, match="No group"):
            await transact(at, "bob", {}, draft("x"), ack=held)
