"""Rules of a board on what is written, through clients: set live, told of, and got past by nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.input.validation import checking
from blackboard_mcp.server.plugins import bounded

board, mode = boards.board, boards.mode

PLANS = {
    "name": "plans",
    "key": "plan:**",
    "schema": {"type": "object", "properties": {"state": {"enum": ["todo", "done"]}}, "required": ["state"]},
}


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name by which the validators of an operator can be imported."""
    path = Path(__file__).parents[1] / "input" / "validation" / "samples.py"
    spec = importlib.util.spec_from_file_location("validation_samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "validation_samples", module)
    spec.loader.exec_module(module)
    yield "validation_samples"
    module.RELEASE.set()


async def ruled(board: Any, *rules: dict[str, Any]) -> Any:
    """Two agents on a board with these rules."""
    ada, ben = await board.join("ada", "ben")
    await ada.do("board", settings={"validation": list(rules)})
    return ada, ben


async def refused(agent: Any, tool: str = "post", /, **arguments: Any) -> str:
    """Why a call was refused by a rule, and that it changed nothing."""
    failure = await agent.fail(tool, **arguments)
    assert failure["error"] == "refused", failure
    assert failure["faults"], failure
    assert failure["message"].endswith("Nothing was changed.")
    return str(failure["message"])


async def test_f56_an_entry_that_does_not_meet_its_schema_is_refused_with_rule_place_and_what_may_be(
    board: Any,
) -> None:
    _, ben = await ruled(board, PLANS)
    before = await board.seq()
    said = await refused(ben, key="plan:a", text='{"state": "later"}')
    assert 'rule \'plans\': $.state must be one of ["todo","done"], and is "later"' in said
    assert "text must be JSON: Expecting value at line 1 column 1" in await refused(
        ben, key="plan:a", text="a"
    )
    failure = await ben.fail("post", key="plan:a:b", text="[]")
    assert failure["faults"] == [
        {"item": 1, "rule": "rule 'plans'", "path": "$", "why": 'must be of type "object", and is []'}
    ]
    assert await board.seq() == before
    await ben.post('{"state": "todo"}', key="plan:a")
    await ben.post("not a plan", key="planning")
    await ben.post("no key at all")


@pytest.mark.parametrize(
    ("rule", "good", "bad", "why"),
    [
        (
            {"types": ["DECISION"]},
            {"type": "DECISION"},
            {"type": "LOG"},
            "type must be one of DECISION, and is LOG",
        ),
        ({"types": ["DECISION"]}, {"type": "DECISION"}, {}, "and is FACT"),
        ({"max_bytes": 4}, {"text": "äö"}, {"text": "äöü"}, "text may have 4 bytes, and has 6"),
        ({"max_tokens": 3}, {"text": "a b c"}, {"text": "a b c d"}, "text may have 3 tokens, and has 4"),
        (
            {"max_metadata_bytes": 8},
            {"metadata": {"a": 1}},
            {"metadata": {"a": 100}},
            "metadata may have 8 bytes as JSON, and has 10",
        ),
        ({"max_depth": 2}, {"metadata": {"a": [1]}}, {"metadata": {"a": [[]]}}, "metadata may be 2 deep"),
        (
            {"metadata_schema": {"required": ["run"]}},
            {"metadata": {"run": 1}},
            {"metadata": {}},
            'metadata must have ["run"]',
        ),
        (
            {"metadata_schema": {"required": ["run"]}},
            {"metadata": {"run": 1}},
            {},
            'metadata must have ["run"]',
        ),
        (
            {"schema": {"maximum": 9}, "max_depth": 1},
            {"text": "[1]"},
            {"text": "[[1]]"},
            "text may be 1 deep",
        ),
    ],
)
async def test_f56_each_kind_of_rule_lets_pass_and_refuses(
    board: Any, rule: dict[str, Any], good: dict[str, Any], bad: dict[str, Any], why: str
) -> None:
    _, ben = await ruled(board, {"key": "k:*", **rule})
    assert why in await refused(ben, **{"key": "k:a", "text": "x", **bad})
    await ben.do("post", **{"key": "k:a", "text": "x", **good})
    await ben.do("post", **{"key": "other", "text": "x", **bad})


async def test_a_rule_without_key_is_for_every_item_and_one_that_requires_keys_for_new_ones(
    board: Any,
) -> None:
    ada, ben = await board.join("ada", "ben")
    old = await ben.post("an old plan", "PLAN")
    await ada.do(
        "board",
        settings={
            "validation": [
                {"max_bytes": 20},
                {"require_key": True, "types": ["PLAN"], "key": "plan:*"},
            ]
        },
    )
    assert "rule 1: text may have 20 bytes" in await refused(ben, text="x" * 21)
    said = await refused(ben, text="a plan", type="PLAN")
    assert "rule 2 (plan:*): key must be given like plan:*: a PLAN is an entry here" in said
    await refused(ben, text="a plan", type="PLAN", key="plans:a")
    await ben.post("a plan", "PLAN", key="plan:a")
    await ben.post("a fact")
    await ben.do("post", id=old["id"], metadata={"seen": True})
    await ben.do("post", id=old["id"], status="RESOLVED")


async def test_all_rules_that_match_apply_and_all_that_is_wrong_is_told(board: Any) -> None:
    _, ben = await ruled(board, PLANS, {"key": "plan:*", "max_bytes": 5}, {"types": ["PLAN"]})
    failure = await ben.fail("post", key="plan:a", text='{"a": 1}')
    assert [(f["rule"], f["path"]) for f in failure["faults"]] == [
        ("rule 'plans'", "$"),
        ("rule 2 (plan:*)", "text"),
        ("rule 3", "type"),
    ]
    await refused(ben, text="x")


async def test_entries_that_break_a_new_rule_stay_and_their_next_versions_must_comply(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ben.post("free text", key="plan:a", metadata={"a": 1})
    await ada.do(
        "board", settings={"validation": [PLANS, {"key": "plan:*", "metadata_schema": {"maxProperties": 0}}]}
    )
    assert (await ben.do("read", keys=["plan:a"]))["items"][0]["text"] == "free text"
    await ben.do("post", id="F-1", status="RESOLVED")
    await ben.do("post", id="F-1", tags=["old"])
    assert "must be JSON" in await refused(ben, key="plan:a", text="more free text")
    assert "metadata must meet maxProperties" in await refused(ben, key="plan:a", text='{"state": "todo"}')
    await ben.do("post", key="plan:a", text='{"state": "todo"}', metadata={})
    assert "plan:a" in await ben.say("post", key="plan:a", status="DELETED")


async def test_a_batch_is_refused_whole_and_names_the_item(board: Any) -> None:
    _, ben = await ruled(board, PLANS)
    before = await board.seq()
    said = await refused(
        ben,
        items=[
            {"text": "fine"},
            {"key": "plan:a", "text": '{"state": "done"}'},
            {"key": "plan:b", "text": "x"},
        ],
    )
    assert "item 3, rule 'plans': text must be JSON" in said
    assert await board.seq() == before


async def test_a_version_of_what_the_same_batch_began_is_of_its_type(board: Any) -> None:
    _, ben = await ruled(board, {"key": "k", "types": ["PLAN"]})
    await ben.do("post", items=[{"text": "a", "type": "PLAN", "key": "k"}, {"text": "b", "key": "k"}])
    await ben.post("c", key="k")


async def test_a_transaction_is_checked_like_a_post(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=("core", "admin")) as at:
        _, ben = await ruled(at, PLANS)
        before = await at.seq()
        said = await refused(ben, "transaction", writes=[{"text": "x"}, {"key": "plan:a", "text": "x"}])
        assert "item 2, rule 'plans'" in said
        assert await at.seq() == before
        await ben.do("transaction", writes=[{"key": "plan:a", "text": '{"state": "done"}'}])


async def test_private_entries_are_checked_too_and_are_not_taken_for_the_shared_one(board: Any) -> None:
    _, ben = await ruled(board, {"key": "k", "types": ["PLAN", "LOG"]})
    await refused(ben, key="k", text="x", visibility="private")
    await ben.post("x", "PLAN", key="k", visibility="private")
    await refused(ben, key="k", text="x", visibility="board")
    await ben.post("y", "LOG", key="k", visibility="board")
    await ben.post("y2", key="k", visibility="board")
    await ben.post("x2", key="k")


async def test_rules_are_shown_and_ended_live(board: Any) -> None:
    ada, ben = await ruled(board, PLANS)
    state = await ben.do("board")
    assert state["settings"]["validation"] == [PLANS]
    assert 'rule {"name": "plans", "key": "plan:**"' in await ben.say("board")
    await refused(ben, key="plan:a", text="x")
    await ada.do("board", settings={"validation": []})
    assert (await ben.do("board"))["settings"]["validation"] == []
    await ben.post("x", key="plan:a")


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("max", "a list of rules"),
        ({"key": "a"}, "a list of at most 32 rules"),
        ([{"max_bytes": 1}] * 33, "at most 32 rules"),
        (["x"], r"validation\[0\] is a rule"),
        ([{}], "checks nothing"),
        ([{"key": "a"}], "checks nothing"),
        ([{"max_byte": 1}], "has 'max_byte'; a rule has name, key"),
        ([{"max_bytes": 0}], "whole number from 1"),
        ([{"max_bytes": True}], "whole number from 1"),
        ([{"max_depth": 65}], "whole number from 1 to 64"),
        ([{"types": []}], "a list of types"),
        ([{"types": ["SUMMARY"]}], "a list of types"),
        ([{"types": [["FACT"]]}], "a list of types"),
        ([{"key": "a b", "max_bytes": 1}], "not a key pattern"),
        ([{"key": 7, "max_bytes": 1}], "is a text"),
        ([{"name": "a\nb", "max_bytes": 1}], "on one line"),
        ([{"require_key": False}], "is true, or left out"),
        ([{"require_key": True, "max_bytes": 1}], "make two rules of it"),
        ([{"schema": {"$ref": "http://127.0.0.1:9/x"}}], "nothing outside is fetched"),
        ([{"schema": {"pattern": "(?=x)"}}], "look-around"),
        ([{"schema": {"enum": ["x" * 17_000]}}], "16,000 are allowed"),
        ([{"validator": "none"}], "there is no validator 'none'"),
    ],
)
async def test_what_is_no_rule_is_refused_when_it_is_set(board: Any, rules: Any, why: str) -> None:
    ada = await board.join("ada")
    failure = await ada.fail("board", settings={"validation": rules})
    assert failure["error"] == "invalid"
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(failure["message"])
    assert (await ada.do("board"))["settings"]["validation"] == []


async def test_boards_to_come_begin_with_the_rules_of_the_launch(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, board_settings={"validation": [PLANS]}) as at:
        ben = await at.join("ben")
        await refused(ben, key="plan:a", text="x", board="fresh")
        assert await at.opened.store.find_board("fresh") is None
        await ben.do("post", key="plan:a", text='{"state": "todo"}', board="fresh")


async def test_rules_set_by_another_process_hold_at_once(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode) as one, boards.open_boards(tmp_path, mode) as two:
        ada, ben = await one.join("ada"), await two.join("ben")
        await ben.post("x", key="plan:a")
        await ada.do("board", settings={"validation": [PLANS]})
        await refused(ben, key="plan:a", text="y")
        await ada.do("board", settings={"validation": [{"key": "plan:*", "max_bytes": 3}]})
        await ben.post("y", key="plan:a")
        await ada.do("board", settings={"validation": []})
        await ben.post("longer", key="plan:a")


async def test_rules_that_change_while_a_post_is_checked_hold_for_it(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben = await ruled(board, {"key": "plan:*", "max_bytes": 30})
    checked, go_on = asyncio.Event(), asyncio.Event()
    honest = checking.Validation._checked

    async def slowly(self: Any, *given: Any) -> Any:
        drafts = await honest(self, *given)
        checked.set()
        await go_on.wait()
        return drafts

    monkeypatch.setattr(checking.Validation, "_checked", slowly)
    posting = asyncio.create_task(ben.client.call_tool("post", {"key": "plan:a", "text": "free text"}))
    await checked.wait()
    await ada.do("board", settings={"validation": [PLANS]})
    go_on.set()
    result = await posting
    assert result.is_error
    assert "rule 'plans'" in boards.text_of(result)


async def test_a_call_repeated_with_its_key_is_answered_whatever_the_rules_are_now(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    first = await ben.do("post", key="plan:a", text="x", idempotency_key="k")
    await ada.do("board", settings={"validation": [PLANS]})
    assert (await ben.do("post", key="plan:a", text="x", idempotency_key="k"))["items"] == first["items"]
    await refused(ben, key="plan:a", text="x", idempotency_key="k2")


async def test_f56_a_class_of_the_operators_denies_and_tells(
    tmp_path: Path, mode: str, samples: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.2)
    classes = ("NoShouting", "Raises", "Hangs", "Babbles", "Mumbles")
    named = tuple(f"{name.lower()}={samples}:{name}" for name in classes)
    async with boards.open_boards(tmp_path, mode, validator=named) as at:
        ada, ben, editor = await at.join("ada", "ben", "editor")
        rules = [{"key": f"{name.lower()}:*", "validator": name.lower()} for name in classes]
        await ada.do("board", settings={"validation": rules})
        said = await refused(ben, key="noshouting:a", text="LOUD")
        assert "$ must not shout in noshouting:a on main: write in small letters" in said
        await ben.post("quiet", key="noshouting:a")
        await editor.post("LOUD", key="noshouting:a")
        await asyncio.gather(*(ben.do("post", key=f"noshouting:{n}", text="x") for n in range(8)))
        said = await refused(ben, key="raises:a", text="x")
        assert "raised RuntimeError" in said
        assert "secret" not in said
        assert "took longer than 0.2 s" in await refused(ben, key="hangs:a", text="x")
        assert "still thinks" in await refused(ben, key="hangs:a", text="x")
        assert "neither a text nor None" in await refused(ben, key="babbles:a", text="x")
        said = await refused(ben, key="mumbles:a", text="x")
        assert "$ was refused by the validator 'mumbles' without a reason: ask the operator" in said
        await ben.post("of no rule", key="other")


async def test_a_call_that_is_cancelled_while_a_class_thinks_denies_nobody_else_theirs(
    tmp_path: Path, mode: str, samples: str
) -> None:
    module = sys.modules[samples]
    async with boards.open_boards(tmp_path, mode, validator=(f"pauses={samples}:Pauses",)) as at:
        ada, ben = await ruled(at, {"key": "k:*", "validator": "pauses"})
        board = at.opened.blackboard
        gone = asyncio.create_task(board.post("ada", None, [PostFields(text="gone", key="k:ada")]))
        await asyncio.to_thread(module.REACHED.wait, 10)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        waits = asyncio.create_task(ben.post("his", key="k:ben"))
        await ada.post("of no rule")
        module.RELEASE.set()
        assert (await waits)["key"] == "k:ben"
        assert (await ben.do("query", key="k:ada"))["items"] == []


async def test_a_class_is_not_asked_about_calls_that_were_cancelled_before_their_turn(
    tmp_path: Path, mode: str, samples: str
) -> None:
    module = sys.modules[samples]
    async with boards.open_boards(tmp_path, mode, validator=(f"pauses={samples}:Pauses",)) as at:
        ada, ben = await ruled(at, {"key": "k:*", "validator": "pauses"})
        first = asyncio.create_task(ada.post("first", key="k:ada"))
        await asyncio.to_thread(module.REACHED.wait, 10)
        board = at.opened.blackboard
        gone = asyncio.create_task(board.post("ada", None, [PostFields(text="gone", key="k:gone")]))
        await ben.post("of no rule")
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        module.RELEASE.set()
        await first
        await ben.post("his", key="k:ben")
        assert module.ASKED == ["first", "his"]


async def test_a_class_that_changes_what_it_is_shown_changes_nothing_that_is_written(
    tmp_path: Path, mode: str, samples: str
) -> None:
    async with boards.open_boards(tmp_path, mode, validator=(f"meddles={samples}:Meddles",)) as at:
        _, ben = await ruled(at, {"validator": "meddles"})
        posted = await ben.post("new", metadata={"list": [1]})
        assert (await ben.item(posted["id"]))["metadata"] == {"list": [1]}


async def test_a_server_without_the_class_denies(tmp_path: Path, mode: str, samples: str) -> None:
    named = (f"quiet={samples}:NoShouting",)
    async with boards.open_boards(tmp_path, mode, validator=named) as at:
        await ruled(at, {"key": "k", "validator": "quiet"})
    async with boards.open_boards(tmp_path, mode) as at:
        ben = await at.join("ben")
        said = await refused(ben, key="k", text="quiet")
        assert "needs the validator 'quiet', which this server was not launched with" in said


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("validation_samples:NoShouting", "not of the form"),
        ("A=validation_samples:NoShouting", "not of the form"),
        ("a=validation_samples:Missing", "has no 'Missing'"),
        ("a=no_such_module:X", "importing 'no_such_module' failed"),
        ("a=validation_samples:Nothing", "needs a method check"),
        ("a=validation_samples:RELEASE", "is no class"),
    ],
)
def test_what_is_no_validator_is_refused_at_launch(samples: str, named: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        checking.Validators([named])
    with pytest.raises(InvalidInput, match="already"):
        checking.Validators([f"a={samples}:NoShouting"] * 2)


async def test_f56_an_entry_that_is_begun_anew_is_checked_as_what_it_will_be(board: Any) -> None:
    owned = {"type": "object", "required": ["owner"]}
    ada, ben = await ruled(board, {"key": "plan:*", "types": ["PLAN"], "metadata_schema": owned})
    given: dict[str, Any] = {"key": "plan:a", "metadata": {"owner": "ada"}}
    gone: dict[str, Any] = {"key": "plan:a", "status": "DELETED"}
    await ada.post("one", "PLAN", **given)
    said = await refused(ben, items=[gone, {"key": "plan:a", "text": "two"}])
    assert "item 2, rule 1 (plan:*): metadata must have" in said
    done = await ben.do("post", items=[gone, {"text": "two", **given}, {"key": "plan:a", "text": "three"}])
    assert done["items"][-1]["metadata"] == {"owner": "ada"}
    await ben.do("post", **gone)
    assert "metadata must have" in await refused(ben, key="plan:a", text="five")
    again = await ben.post("five", **given)
    assert (again["type"], again["version"]) == ("PLAN", 6)
    await ada.do("board", settings={"validation": [{"key": "plan:*", "types": ["LOG"]}]})
    await ben.do("post", **gone)
    assert "must be one of LOG, and is PLAN" in await refused(ben, text="eight", **given)
