"""The tool `transaction`: reads, writes and debates of one board, all or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import boards
import pytest

board, mode, LEGACY, MODERN = boards.board, boards.mode, boards.LEGACY, boards.MODERN


async def test_what_was_read_stands_and_everything_is_written_at_once(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("100", key="account:ada")
    await ben.post("100", key="account:ben")
    claim = await ben.post("the pump leaks", "HYPOTHESIS")
    done = await ada.do(
        "transaction",
        reads={"account:ada": 1, "account:ben": 1, "frozen:*": 4, claim["id"]: {"seq": 4}},
        writes=[
            {"key": "account:ada", "text": "95"},
            {"key": "account:ben", "text": "105", "expected_version": 1},
            {"text": "moved 5", "type": "LOG", "edges": {"derived_from": ["$1", "$2"]}},
            {"text": "it does not", "type": "CRITIQUE", "edges": {"critiques": [claim["id"]]}},
        ],
        debates=[{"op": "withdraw", "id": "$4", "reason": "it does"}, {"op": "watch", "id": "$3"}],
    )
    assert [item["version"] for item in done["items"]] == [2, 2, 1, 1]
    assert done["items"][2]["edges"] == {"derived_from": ["F-1", "F-2"]}
    assert done["debates"] == [
        {"id": "C-5", "state": "WITHDRAWN", "outcome": ""},
        {"id": "L-4", "state": None, "outcome": ""},
    ]
    assert done["seq"] == await board.seq()
    said = await ada.say("transaction", reads={"account:ada": 2}, writes=[{"key": "k", "text": "v"}])
    assert said.startswith("F-6 key k\nseq ")
    assert (await ada.say("transaction", reads={"k": 1})).startswith("nothing moved")


async def test_the_answer_says_what_became_of_each_debated_item(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    for text in ("the pump leaks", "the valve sticks", "the pipe is cold"):
        claim = await ada.post(text, "HYPOTHESIS")
        await ben.post(f"no: {text}?", "CRITIQUE", edges={"critiques": [claim["id"]]})
    calls = [{"op": "concede", "id": "H-1"}, {"op": "watch", "id": "H-3"}]
    said = (await ada.say("transaction", debates=calls, idempotency_key="once")).splitlines()
    assert said[:-1] == ["H-1 falls: debate CONSENSUS", "H-3: debate OPEN"]
    assert (await ada.say("transaction", debates=calls, idempotency_key="once")).splitlines()[:2] == said[:2]
    told = await ben.do("transaction", debates=[{"op": "withdraw", "id": "H-3"}])
    assert told["debates"] == [{"id": "H-3", "state": "WITHDRAWN", "outcome": "stands"}]


async def test_a_conflict_names_all_that_moved_and_says_how_to_go_on(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    for key in ("a", "b"):
        await ada.post(key, key=key)
    await ben.post("b again", key="b")
    failure = await ada.fail(
        "transaction",
        reads={"a": 1, "b": 1, "c": 2, "*": 3},
        writes=[{"key": "a", "text": "x", "expected_version": 3}],
    )
    assert (failure["error"], failure["seq"]) == ("conflict", 4)
    assert failure["moved"] == {"a": 1, "b": 2, "c": 0, "*": 4}
    assert "b is at version 2, not 1" in failure["message"]
    assert "Nothing was changed; read these again" in failure["message"]
    assert await board.seq() == 4


async def test_fifty_things_that_moved_are_all_in_moved_and_the_text_stays_short(board: Any) -> None:
    ada = await board.join("ada")
    names = {f"key:{'x' * 60}:{n}": n + 1 for n in range(50)}
    failure = await ada.fail("transaction", reads=names)
    assert failure["moved"] == dict.fromkeys(names, 0)
    assert "; and " in failure["message"]
    for n in range(5):
        await ada.post("long", key=f"{'y' * 190}:{n}")
    assert "…" in (await ada.fail("transaction", reads={"y*:*": 1}))["message"]


async def test_of_two_clients_that_create_the_same_one_does(board: Any) -> None:
    agents = await board.join("ada", "ben", mode=LEGACY), await board.join("cat", "dan", mode=MODERN)
    for n in range(5):
        call: dict[str, Any] = {
            "reads": {f"lock:{n}": 0, f"lock:{n}*": await board.seq()},
            "writes": [{"key": f"lock:{n}", "text": "mine", "expected_version": 0}],
        }
        results = await asyncio.gather(*(a.call("transaction", **call) for pair in agents for a in pair))
        lost = [r.structured_content for r in results if r.is_error]
        assert len(lost) == 3
        assert all(r is not None and r["error"] == "conflict" and r["moved"][f"lock:{n}"] == 1 for r in lost)
        assert (await agents[0][0].do("read", keys=[f"lock:{n}"]))["items"][0]["version"] == 1


async def test_the_same_idempotency_key_applies_once(board: Any) -> None:
    ada = await board.join("ada")
    call: dict[str, Any] = {"reads": {"k": 0}, "writes": [{"key": "k", "text": "v"}], "idempotency_key": "i"}
    first = await ada.do("transaction", **call)
    again = await ada.do("transaction", **call)
    assert (again["repeated"], again["seq"], again["items"]) == (True, first["seq"], first["items"])
    assert "posted before" in await ada.say("transaction", **call)
    assert (await ada.fail("transaction", **{**call, "reads": {}}))["error"] == "invalid"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "needs reads, writes, debates or ack"),
        ({"writes": [{"key": "k", "add": "45"}]}, 'transaction.writes: add must be a number, not "45"'),
        ({"writes": [{"key": "k", "add": True}]}, "transaction.writes: add must be a number, not true"),
        ({"writes": [{"key": "k", "add": 1, "text": "1"}]}, "add stands in place of text"),
        ({"writes": [{"add": 1}]}, "add stands in place of text"),
        ({"writes": [{"key": "k", "add": 1}]}, 'begin it with its first value: {"key": "k", "text": "0"'),
        ({"writes": [{"key": "entry", "add": 1}]}, "'entry' holds no plain number to add to: 'there'"),
        ({"ack": ["1.1"]}, "ack and group go together"),
        ({"group": "g"}, "ack and group go together"),
        ({"group": "g", "ack": ["1"]}, "is not a handle"),
        ({"group": "no group", "ack": ["1.1"]}, "is not a group's name"),
        ({"group": "g", "ack": ["1.1"]}, "No group 'g'"),
        ({"read": {"k": 1}}, "did you mean 'reads'"),
        ({"reads": {"k": "1"}}, "reads.k is the version"),
        ({"reads": {"k": True}}, "reads.k is the version"),
        ({"reads": {"k": 1.5}}, "reads.k is the version"),
        ({"reads": {"k": {"seq": 1, "version": 2}}}, "reads.k is the version"),
        ({"reads": {"k": -1}}, "reads.k is the version"),
        ({"reads": {"k@2": 2}}, '{"k": 2}'),
        ({"reads": {"a b": 1}}, "not a key"),
        ({"reads": {"x" * 202: 1}}, "reads"),
        ({"reads": {"F-1": 1, "1": 1}}, "the same twice"),
        ({"reads": {"*": 99}}, "the board is at"),
        ({"reads": {f"k{n}": 0 for n in range(101)}}, "at most 100"),
        ({"reads": {f"k{n}*": 0 for n in range(11)}}, "at most 10 globs"),
        ({"reads": ["k"]}, "must be an object"),
        ({"writes": [{"txt": "x"}]}, "Write 1: unknown argument 'txt' (did you mean 'text'?)"),
        ({"writes": [{"text": "x"}, {"text": ""}]}, "must not be empty"),
        ({"writes": [{"text": "x"}] * 101}, "at most 100"),
        ({"writes": {"text": "x"}}, "must be an array"),
        ({"writes": [{"text": "x", "board": "other"}]}, "unknown argument 'board'"),
        ({"writes": [{"text": "x", "edges": {"supports": ["$1"]}}]}, "earlier in the same batch"),
        ({"writes": [{"text": "x", "edges": {"supports": ["F-77"]}}]}, "No item F-77"),
        ({"writes": [{"text": "x"}], "debates": [{"op": "watch", "id": "$2"}]}, "must be $1"),
        ({"debates": [{"op": "watch", "id": "$1"}]}, "a write of this transaction"),
        ({"debates": [{"op": "status", "id": "F-1"}]}, "Debate 1: "),
        ({"debates": [{"op": "watch", "id": "tag:db"}]}, "not an item id"),
        ({"debates": [{"op": "watch", "id": "F-1", "approve": True}]}, 'approve goes with op="vote"'),
        ({"debates": [{"op": "decide", "outcome": "stands", "id": "F-1"}]}, "needs a reason"),
        ({"debates": [{"op": "watch", "id": "F-1"}] * 21}, "at most 20"),
        ({"writes": [{"text": "x"}], "debates": [{"op": "vote", "id": "F-1"}]}, "Debate 1, vote: No debate"),
    ],
)
async def test_bad_input_is_named_and_changes_nothing(board: Any, said: Any, told: str) -> None:
    ada = await board.join("ada")
    await ada.post("there", key="entry")
    assert told in (await ada.fail("transaction", **said))["message"]
    assert await board.seq() == 2


async def test_of_many_clients_who_add_at_once_each_gets_on_under_rules_too(board: Any) -> None:
    ada, ben = await board.join("ada", "ben", mode=LEGACY)
    await ada.do(
        "board", settings={"validation": [{"key": "sum", "schema": {"type": "integer", "maximum": 40}}]}
    )
    await ada.post("0", key="sum")
    call: dict[str, Any] = {"writes": [{"key": "sum", "add": 2}]}
    done = await asyncio.gather(*(agent.do("transaction", **call) for agent in (ada, ben) for _ in range(10)))
    assert sorted(int(one["items"][0]["text"]) for one in done) == list(range(2, 41, 2))
    assert (await ada.fail("transaction", **call))["error"] == "refused"
    assert (await ben.do("read", keys=["sum"]))["items"][0]["text"] == "40"
