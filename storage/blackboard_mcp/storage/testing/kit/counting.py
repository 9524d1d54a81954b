"""Tests of a board's tokenizer: a new one counts every text again, and no write escapes it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import Board, BoardChange
from blackboard_mcp.protocols.errors import InvalidInput, RulesMoved
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import Draft, Zone

from ..harness import Table, draft
from .asking import Asking
from .leaving import seen, summary, thread

LETTERS = "letters"
"""A tokenizer that counts each character as a token; that of the kit's drafts counts words."""


async def count_by_letters(at: Table, **said: Any) -> Board:
    """Makes the board count by letters, and returns it."""
    change = BoardChange(settings={"tokenizer": LETTERS})
    return await at.store.change_board(at.board, "alice", change, count=len, **said)


def by_letters(text: str, **said: Any) -> Draft:
    """Returns a draft that was counted by letters."""
    return replace(draft(text, tokens=len(text), **said), counted_by=LETTERS)


class CountingTests:
    async def test_another_tokenizer_counts_every_version_of_every_item_anew(self, at: Table) -> None:
        await at.post("alice", "one two three", key="k")
        await at.post("alice", "four five", key="k", expected=1)
        await at.post("bob", "a secret", private=True)
        gone = await at.post("alice", "long gone", "LOG", importance=1)
        await at.gone(gone)
        for place in range(270):
            await at.post("carol", f"{place:03}")
        board = await count_by_letters(at)
        assert board.config.tokenizer == LETTERS
        assert (await at.item(1)).tokens == len("four five")
        assert (await at.item(1, version=1)).tokens == len("one two three")
        assert (await at.item(gone)).tokens == len("long gone")
        assert (await at.item(gone)).zone is Zone.ARCHIVE
        assert (await at.item(273)).tokens == 3
        live = len("four five") + len("a secret") + 270 * 3
        assert (await at.standing()).working_tokens == board.working_tokens == live
        figures = await at.store.statistics(at.board, "bob")
        assert sum(tokens for _, tokens in figures.counts.values()) == live + len("long gone")
        figures = await at.store.statistics(at.board, "carol")
        assert sum(tokens for _, tokens in figures.counts.values()) == live + len("long gone") - len(
            "a secret"
        )

    async def test_one_event_tells_of_it_and_items_are_as_they_were(self, at: Table) -> None:
        before = await at.post("alice", "one two")
        seq = await at.seq()
        await count_by_letters(at)
        (event,) = await at.events(after=seq)
        assert event.event is EventType.BOARD_CHANGED
        assert event.data == {
            "settings": ["tokenizer"],
            "tokenizer": [before_name(), LETTERS],
            "was": {"tokenizer": before_name()},
            "now": {"tokenizer": LETTERS},
        }
        assert await at.item(before) == replace(before, tokens=7)

    async def test_the_same_tokenizer_again_changes_nothing_but_wrong_counts(self, at: Table) -> None:
        await at.post("alice", "one two")
        await count_by_letters(at)
        seq = await at.seq()
        await count_by_letters(at)
        assert await at.seq() == seq
        await at.batch("alice", replace(by_letters("three"), tokens=99))
        assert (await count_by_letters(at)).working_tokens == len("one twothree")
        (_, event) = await at.events(after=seq)
        assert event.data == {"settings": ["tokenizer"], "tokenizer": [LETTERS, LETTERS]}

    async def test_what_was_counted_by_another_tokenizer_is_not_written(self, at: Table) -> None:
        entry = await at.post("alice", "5", key="n")
        items = await thread(at)
        asking = Asking(at)
        question = await asking.ask(to="bob")
        await asking.take("bob", question)
        await count_by_letters(at)
        seq = await at.seq()
        for call in (
            lambda: at.post("alice", "words"),
            lambda: at.batch("alice", draft("words", on=entry)),
            lambda: at.batch("alice", draft(None, key="n", add=1)),
            lambda: asking.ask(to="bob"),
            lambda: asking.answer("bob", question),
            lambda: at.store.apply_summary(at.board, summary(items[0].thread, seen(items))),
        ):
            with pytest.raises(RulesMoved):
                await call()
        assert await at.seq() == seq
        made = await at.batch("alice", by_letters("words"))
        assert made.items[0].tokens == 5
        await at.change("alice", entry, importance=2)

    async def test_without_something_that_counts_nothing_is_changed(self, at: Table) -> None:
        await at.post("alice", "one two")
        with pytest.raises(InvalidInput):
            await at.configure(tokenizer=LETTERS, ceiling=1)
        board = await at.standing()
        assert (board.config.tokenizer, board.config.ceiling, board.working_tokens) == (before_name(), 2, 2)

    async def test_what_others_write_while_texts_are_counted_is_counted_too(self, at: Table) -> None:
        await at.post("alice", "one two", key="k")
        counting, written = threading.Event(), threading.Event()

        def slow(text: str) -> int:
            counting.set()
            written.wait(10)
            return len(text)

        change = BoardChange(settings={"tokenizer": LETTERS})
        under_way = asyncio.create_task(at.store.change_board(at.board, "alice", change, count=slow))
        assert await asyncio.to_thread(counting.wait, 10)
        await at.post("bob", "meanwhile")
        await at.batch("alice", draft("three", on=1))
        written.set()
        assert (await under_way).working_tokens == len("threemeanwhile")
        assert {(await at.item(number)).tokens for number in (1, 2)} == {5, 9}

    async def test_a_repeated_call_counts_nothing(self, at: Table) -> None:
        await at.post("alice", "one two")
        once = Once("k", "digest")
        first = await count_by_letters(at, once=once)
        change = BoardChange(settings={"tokenizer": LETTERS})
        again = await at.store.change_board(at.board, "alice", change, count=never, once=once)
        assert again == first

    async def test_two_processes_agree_on_what_counts(self, handles: tuple[Table, Table]) -> None:
        one, two = handles
        await one.post("alice", "one two")
        await count_by_letters(two)
        with pytest.raises(RulesMoved):
            await one.post("alice", "three")
        await one.batch("alice", by_letters("three"))
        assert (await one.standing()).working_tokens == (await two.standing()).working_tokens == 12


def before_name() -> str:
    """Returns the name of the tokenizer that drafts of the kit use."""
    return draft("x").counted_by


def never(text: str) -> int:
    """Fails if it is called to count a text."""
    raise AssertionError(text)
