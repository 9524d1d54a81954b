"""Tests of names: no new agent writes under a name that looks like another's, or under a reserved word."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.names import RESERVED

from ..harness import HandClock, Table, draft


class NamingTests:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("alice", "Alice"),
            ("alice", "\u0430lice"),
            ("j\u00fcrgen", "J\u00dcRGEN"),
            ("bill", "biIl"),
            ("\u0430\u043d\u043d\u0430", "\u0410\u043d\u043d\u0430"),
            ("agent-1", "agent-l"),
            ("modem", "modern"),
        ],
    )
    async def test_two_names_that_look_alike_do_not_write_on_one_board(
        self, at: Table, first: str, second: str
    ) -> None:
        fact = await at.post(first, "here")
        before = await at.seq(), await at.store.agents(at.board)
        with pytest.raises(Refused, match="looks like") as told:
            await at.post(second, "here too")
        assert told.value.facts["taken"] == first
        for act in (at.watch(second, fact), at.vote(second, fact), at.open(second, fact)):
            with pytest.raises(Refused, match="looks like"):
                await act
        assert (await at.seq(), await at.store.agents(at.board)) == before
        await at.post(first, "and again")
        await Table(at.store, "elsewhere").post(second, "here")
        with pytest.raises(Refused, match="looks like"):
            await Table(at.store, "elsewhere").post(first, "here")

    @pytest.mark.parametrize("name", [*RESERVED[:-1], "Me", "m\u0435", "EveryOne", "aII"])
    async def test_nobody_is_called_by_a_word_for_somebody_else(self, at: Table, name: str) -> None:
        with pytest.raises(Refused, match="no names of agents"):
            await at.post(name, "here")
        assert await at.store.find_board(at.board) is None
        await at.post("alice", "here")
        with pytest.raises(Refused, match="no names of agents"):
            await at.post(name, "here")
        assert await at.seq() == 2

    async def test_of_two_who_come_at_once_one_writes(self, handles: tuple[Table, Table]) -> None:
        await handles[0].post("carol", "here")
        came = await asyncio.gather(
            *(at.post(name, "here") for at, name in zip(handles, ("bob", "Bob"), strict=True)),
            return_exceptions=True,
        )
        assert sorted(isinstance(one, Refused) for one in came) == [False, True]

    async def test_who_only_was_named_or_looked_on_takes_no_name_away(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "@Bob which port?", "QUESTION")
        await at.here("Bob", clock.now())
        await at.post("bob", "here")
        with pytest.raises(Refused, match="looks like 'bob'"):
            await at.post("Bob", "here")

    async def test_names_of_any_script_are_asked_and_answer(self, at: Table) -> None:
        names = ("j\u00fcrgen", "\u0430\u043d\u043d\u0430", "\u5c0f\u660e")
        for name in names:
            await at.post(name, f"{name} is here")
        question = await at.post("alice", f"@{names[0]}, @{names[1]}: @{names[2]} \u8bf7\u770b", "QUESTION")
        for name in names:
            assert await at.owed(name) == {(question.number, Duty.RESPOND)}
            (answer,) = (await at.batch(name, draft(f"{name} too", "ANSWER", replies_to=question))).items
            assert (answer.author, await at.owed(name)) == (name, set())
        await at.post("bob", f"{names[0]}, {names[1]}: and now?", "QUESTION")
        assert len(await at.owed(names[0])) == len(await at.owed(names[1])) == 1
