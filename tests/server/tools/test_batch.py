"""Many posts, or many reads, in one call: all or none, in the order asked, within bounds."""

from __future__ import annotations

from typing import Any

import boards
import pytest
from blackboard_mcp.server.input import arguments
from counting import PROPORTION, Lines

board, mode, both = boards.board, boards.mode, boards.both


@both
async def test_f15_a_hundred_posts_are_one_call_and_a_hundred_reads_another(board: Any, mode: str) -> None:
    ada, ben = await board.join("ada", "ben")
    items: list[dict[str, Any]] = [{"text": "first", "key": "run:0"}]
    items += [
        {"text": f"step {n}", "key": f"run:{n}", "edges": {"replies_to": [f"${n}"]}} for n in range(1, 100)
    ]
    posted = (await ada.do("post", items=items, idempotency_key="all"))["items"]
    assert [item["key"] for item in posted] == [f"run:{n}" for n in range(100)]
    assert posted[-1]["edges"] == {"replies_to": [posted[-2]["id"]]}
    assert {item["thread"] for item in posted} == {posted[0]["id"]}
    before = await board.seq()
    again = await ada.do("post", items=items, idempotency_key="all")
    assert (again["repeated"], [i["id"] for i in again["items"]]) == (True, [i["id"] for i in posted])
    assert await board.seq() == before

    asked = [posted[n]["id"] for n in range(98, -1, -2)]
    keys = [f"run:{n}" for n in range(1, 100, 2)]
    found = await ben.do("read", ids=["F-999", *asked], keys=["none:a", *keys[:20], "none:b", *keys[20:]])
    assert [item["id"] for item in found["items"]][: len(asked)] == asked
    assert [item["key"] for item in found["items"]][len(asked) :] == keys
    assert set(found["missing"]) == {"F-999", "none:a", "none:b"}


async def test_a_call_is_looked_through_once_with_all_that_it_holds(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    refuse = arguments.refuse_monsters

    def refuse_monsters(name: str, raw: object) -> None:
        looked.append(name)
        refuse(name, raw)

    monkeypatch.setattr(arguments, "refuse_monsters", refuse_monsters)
    ada = await board.join("ada")
    looked.clear()
    await ada.do("post", items=[{"text": f"step {n}"} for n in range(3)])
    writes = [{"key": f"sum:{part}", "text": part} for part in "abc"]
    await ada.do("transaction", writes=writes, debates=[{"op": "watch", "id": "$1"}])
    assert looked == ["post", "transaction"]
    told = await ada.fail("transaction", writes=[*writes, {"text": "b", "metadata": {"c": ["a\0"]}}])
    assert "NUL" in told["message"]


async def test_a_batch_takes_work_in_proportion_to_its_posts(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("first", key="run:0")
    writer = board.opened.store.engine._writer

    async def taken(run_: str, count: int) -> tuple[int, int]:
        """Lines of the server, and instructions of SQLite's machine by the hundred."""
        instructions = 0

        def tick() -> int:
            nonlocal instructions
            instructions += 1
            return 0

        items = [{"text": f"step {n} of {run_}", "edges": {"replies_to": ["F-1"]}} for n in range(count)]
        await writer.run(lambda raw: raw.set_progress_handler(tick, 100))
        with Lines() as run:
            await ada.do("post", items=items)
        await writer.run(lambda raw: raw.set_progress_handler(None, 0))
        return run.lines, instructions

    await taken("the first", 25)
    few, many = await taken("the second", 25), await taken("the third", 100)
    assert [more < PROPORTION * less for less, more in zip(few, many, strict=True)] == [True, True], (
        few,
        many,
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("post", {"items": [{"text": "x"}] * 101}, "items"),
        (
            "post",
            {"items": [{"text": "x" * 150_000, "key": f"k{n}"} for n in range(7)]},
            "1,000,000 characters in all",
        ),
        ("post", {"items": [{"text": "a"}, {"text": "x" * 200_001}]}, "Item 2 of items"),
        ("read", {"ids": ["F-1"] * 101}, "ids"),
        ("read", {"keys": ["k"] * 101}, "keys"),
    ],
)
async def test_more_than_fits_into_one_call_is_refused(
    board: Any, tool: str, arguments: dict[str, Any], why: str
) -> None:
    ada = await board.join("ada")
    await ada.post("before")
    before = await board.seq()
    failure = await ada.fail(tool, **arguments)
    assert failure["error"] == "invalid"
    assert why in failure["message"]
    assert await board.seq() == before


@pytest.mark.parametrize(
    ("bad", "error", "why"),
    [
        ({"text": " "}, "invalid", "The text of a post must not be empty"),
        ({"txt": "x"}, "invalid", "txt"),
        ({"text": "x", "key": "a:"}, "invalid", "begins or ends with ':'"),
        ({"text": "x", "edges": {"supports": ["F-99"]}}, "not_found", "No item F-99"),
        ({"text": "x", "edges": {"supports": ["$2"]}}, "invalid", "$1"),
        ({"text": "x", "key": "k", "expected_version": 7}, "conflict", "does not exist"),
        ({"id": "F-1", "status": "WITHDRAWN"}, "refused", "Only ben"),
    ],
)
async def test_an_error_in_a_batch_names_its_place(
    board: Any, bad: dict[str, Any], error: str, why: str
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ben.post("Ben's own.")
    before = await board.seq()
    failure = await ada.fail("post", items=[{"text": "a", "key": "fresh"}, bad, {"text": "c"}])
    assert failure["error"] == error
    assert failure["message"].startswith("Item 2 of ")
    assert why in failure["message"]
    assert await board.seq() == before
