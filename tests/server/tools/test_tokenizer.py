"""The tokenizer of a board through clients: every count follows it, at once and in every process."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import boards
import pytest
from blackboard_mcp.server.text.tokens import load_tokenizer

board, mode = boards.board, boards.mode

OWN = "own_words:Words"
ALL = ("core", "memory", "messages", "admin")


class Words:
    """A token for each word: many times fewer than a vocabulary finds in long ones."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


WORDS = Words().count
LONG = "Donaudampfschifffahrtsgesellschaftskapitän " * 10


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = types.ModuleType("own_words")
    module.Words = Words  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_words", module)
    yield
    load_tokenizer.cache_clear()


async def test_every_count_of_a_board_is_by_its_own_tokenizer(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tokenizer=OWN, tools=ALL) as at:
        alice, bob = await at.join("alice", "bob")
        assert (await alice.post("By words here."))["tokens"] == 3
        await alice.do("board", settings={"tokenizer": "o200k_base"})
        assert (await alice.item("F-1"))["tokens"] == boards.TOKENIZER.count("By words here.")
        long = await bob.post(LONG, "FACT", key="k")
        assert long["tokens"] == boards.TOKENIZER.count(LONG)
        answer = await alice.do("board", settings={"tokenizer": OWN})
        assert answer["settings"]["tokenizer"] == OWN
        assert answer["working_tokens"] == 3 + WORDS(LONG)
        assert [(await bob.item(id_))["tokens"] for id_ in ("F-1", "F-2")] == [3, WORDS(LONG)]
        entry = await alice.post("1", "FACT", key="n")
        done = await bob.do("transaction", writes=[{"key": "n", "add": 2}, {"text": LONG, "type": "LOG"}])
        assert [item["tokens"] for item in done["items"]] == [1, WORDS(LONG)]
        assert entry["tokens"] == 1
        asked = await alice.do("request", text=LONG, to="bob", seconds=0)
        await bob.do("respond", id=asked["request"]["id"], text=LONG)
        listed = (await alice.do("query", text="Donaudampfschifffahrtsgesellschaftskapitän"))["items"]
        assert {item["tokens"] for item in listed} == {WORDS(LONG)}
        view = await bob.do("read", budget=200)
        assert view["tokens"] == WORDS(view["view"]) <= 200
        assert boards.TOKENIZER.count(view["view"]) > 200
        shown = await bob.say("read", ids=["F-2"], budget=200)
        assert "the first" not in shown, "ten words fit"
        figures = await alice.facts("board://main/stats.json")
        assert (figures["tokenizer"], figures["working_tokens"]) == (OWN, 3 + 1 + 4 * WORDS(LONG))


async def test_a_post_that_the_tokenizer_does_not_count_is_made_and_counted_by_the_default(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(self: Words, text: str) -> int:
        if "raises" in text:
            raise ValueError(text)
        return -5_000 if "owes" in text else len(text.split())

    monkeypatch.setattr(Words, "count", count)
    async with boards.open_boards(tmp_path, mode, tokenizer=OWN) as at:
        alice = await at.join("alice")
        texts = [f"this one {what} {LONG}" for what in ("raises", "owes", "counts")]
        counts = [(await alice.post(text))["tokens"] for text in texts]
        assert counts == [*map(boards.TOKENIZER.count, texts[:2]), len(texts[2].split())]
        assert (await alice.do("board"))["working_tokens"] == sum(counts)
        assert "raises" in await alice.say("read")


async def test_boards_of_one_server_count_apart(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tokenizer=OWN) as at:
        alice = await at.join("alice")
        await alice.post(LONG, board="one")
        await alice.do("board", board="one", settings={"tokenizer": "cl100k_base"})
        assert (await alice.post(LONG, board="two"))["tokens"] == WORDS(LONG)
        assert (await alice.post(f"{LONG}.", board="one"))["tokens"] > 10 * WORDS(LONG)
        assert (await alice.do("board", board="two"))["settings"]["tokenizer"] == OWN


async def test_passes_go_by_the_board_s_tokenizer(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tokenizer=OWN, target_tokens=400) as at:
        alice = await at.join("alice")
        await alice.do("post", items=[{"text": f"{place} {LONG}", "type": "LOG"} for place in range(20)])
        await at.settled()
        assert (await alice.do("board"))["archived_items"] == 0
        await alice.do("board", settings={"tokenizer": "o200k_base"})
        await at.settled()
        after = await alice.do("board")
        assert after["archived_items"] > 0
        assert after["working_tokens"] <= 240


async def test_processes_with_and_without_a_tokenizer_share_a_board(tmp_path: Path, mode: str) -> None:
    async with (
        boards.open_boards(tmp_path, mode, tokenizer=OWN, tools=ALL) as one,
        boards.open_boards(tmp_path, mode, tools=ALL) as two,
    ):
        alice, bob = await one.join("alice"), await two.join("bob")
        first = await bob.post(LONG)
        await alice.do("board", settings={"tokenizer": OWN})
        assert (await alice.post("two words"))["tokens"] == 2
        for call in (
            ("post", {"text": "three", "idempotency_key": "k"}),
            ("transaction", {"writes": [{"text": "three"}]}),
            ("request", {"text": "Why?", "to": "alice"}),
        ):
            failure = await bob.fail(call[0], **call[1])
            assert (failure["error"], failure["tokenizer"]) == ("refused", OWN)
            assert f"--tokenizer {OWN}" in failure["message"]
            assert 'settings={"tokenizer": "o200k_base"}' in failure["message"]
        assert (await bob.item(first["id"]))["tokens"] == WORDS(LONG)
        assert LONG.split()[0] in await bob.say("read")
        await bob.do("post", id=first["id"], importance=4)
        failure = await bob.fail("board", settings={"tokenizer": OWN})
        assert "tokenizer is one of o200k_base, cl100k_base on this server" in failure["message"]
        await bob.do("board", settings={"tokenizer": "o200k_base"})
        again = await bob.post("three", idempotency_key="k")
        assert again["tokens"] == 1
        assert (await alice.post(f"{LONG}!"))["tokens"] == boards.TOKENIZER.count(f"{LONG}!")
        assert (await alice.item(first["id"]))["tokens"] == boards.TOKENIZER.count(LONG)
        said = await alice.say("read", since=0)
        assert f"board.changed by bob settings tokenizer tokenizer {OWN} → o200k_base" in said
