"""Access policies through clients: every way of changing something, composition, and policies that fail."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.protocols.policy import Deny, Verdict
from blackboard_mcp.server import compose
from blackboard_mcp.server.access import judging
from blackboard_mcp.server.access.acting import acting
from blackboard_mcp.server.access.registry import AccessPolicies
from blackboard_mcp.server.access.tables import access_tables
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.mcp.server import ConnectionInfo
from blackboard_mcp.server.plugins import bounded
from patience import PATIENCE

board, mode = boards.board, boards.mode

ROLES = {"ada": Role.ADMIN, "dee": Role.DECIDER, "sam": Role.STEWARD}
"""Everybody else is a contributor."""
ALL = ("core", "run", "plan", "admin", "memory", "workspace", "messages")


def principal(connection: ConnectionInfo) -> Principal:
    name = connection.client_name or "nobody"
    return Principal(name, name, {EVERY_BOARD: ROLES.get(name, Role.CONTRIBUTOR)})


@pytest.fixture(autouse=True)
def samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The operator's classes, to be imported as `access_samples`."""
    path = Path(__file__).parents[1] / "access" / "samples.py"
    spec = importlib.util.spec_from_file_location("access_samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "access_samples", module)
    spec.loader.exec_module(module)
    yield module
    module.RELEASE.set()


def own(name: str, class_: str, *held_on: str) -> dict[str, Any]:
    return {"name": name, "class": f"access_samples:{class_}", "boards": list(held_on)}


@asynccontextmanager
async def opened(folder: Path, mode: str, *tables: dict[str, Any], **settings: Any) -> AsyncIterator[Any]:
    given = {"tools": ALL, "access": access_tables(list(tables), "access"), **settings}
    async with boards.open_boards(folder, mode, **given) as there:
        there.server = compose.build_server(there.opened, identify=principal)
        yield there


async def denied(agent: Any, tool: str, /, **arguments: Any) -> Any:
    """Why a call was denied by a policy."""
    failure = await agent.fail(tool, **arguments)
    assert failure["error"] == "forbidden", failure
    assert failure["message"].endswith("Nothing was changed.")
    assert failure["policy"] in failure["message"]
    return failure


async def test_f56_prefixes_are_written_by_their_owners_alone(tmp_path: Path, mode: str) -> None:
    table = {"name": "prefixes", "policy": "owner-prefixes", "free": ["shared:**"], "boards": ["*"]}
    async with opened(tmp_path, mode, table) as there:
        ann, bob = await there.join("ann", "bob")
        await ann.post("hers", key="ann:notes")
        before = await there.seq()
        failure = await denied(bob, "post", key="ann:notes", text="his")
        assert failure["message"] == (
            "The access policy 'prefixes' denies this (version F-1): The key 'ann:notes' is written by those whose "
            "name its prefix has alone; you may write bob:**. Nothing was changed."
        )
        assert (failure["change"], failure["action"], failure["item"]) == ("version", "post", "F-1")
        for arguments in (
            {"key": "ann:more", "text": "his"},
            {"key": "ann:more", "text": "his", "visibility": "private"},
            {"id": "F-1", "tags": ["his"]},
            {"id": "F-1", "status": "RESOLVED"},
            {"key": "ann:notes", "status": "DELETED"},
            {"items": [{"text": "free"}, {"key": "ann:notes", "text": "his"}]},
        ):
            failure = await denied(bob, "post", **arguments)
        assert failure["message"].startswith("Item 2: The access policy")
        assert failure["place"] == 2
        assert await there.seq() == before
        await bob.post("his", key="bob:notes")
        await bob.post("anybody's", key="shared:notes")
        await bob.post("nobody's", key="notes")
        await bob.post("of hers", "CRITIQUE", edges={"critiques": ["F-1"]})
        await ann.post("hers, second", key="ann:notes")


async def test_f56_a_table_says_which_roles_may(tmp_path: Path, mode: str) -> None:
    table = {
        "name": "table",
        "policy": "roles",
        "boards": ["main"],
        "rules": [
            {"types": ["DECISION"], "roles": ["decider", "admin"]},
            {"key": "plan:**", "what": ["delete"], "roles": ["steward"]},
            {"what": ["board", "core"], "roles": ["admin"]},
            {"types": ["FACT"], "what": ["edge"], "boards": ["other"], "roles": ["admin"]},
        ],
    }
    async with opened(tmp_path, mode, table) as there:
        ada, bob, dee, sam = await there.join("ada", "bob", "dee", "sam")
        failure = await denied(bob, "post", text="so be it", type="DECISION")
        assert "takes the role decider or admin on 'main', and yours is contributor" in failure["message"]
        made = await dee.post("so be it", "DECISION")
        await ada.post("so be it as well", "DECISION")
        await denied(sam, "post", id=made["id"], status="INVALIDATED")
        await bob.post("not so", "CRITIQUE", edges={"critiques": [made["id"]]})
        await bob.post("a plan", "PLAN", key="plan:a")
        await denied(bob, "post", key="plan:a", status="DELETED")
        await denied(ada, "post", key="plan:a", status="DELETED")
        await sam.do("post", key="plan:a", status="DELETED")
        await denied(sam, "board", title="Ours")
        await denied(sam, "core", objective="win")
        await ada.do("core", objective="win")
        await bob.do("post", text="there", type="FACT", board="other")
        await bob.do("post", text="of it", type="DECISION", board="other")


async def test_f56_the_role_that_a_board_gives_counts_in_the_table(tmp_path: Path, mode: str) -> None:
    table = {
        "name": "table",
        "policy": "roles",
        "boards": ["*"],
        "rules": [
            {"types": ["DECISION"], "roles": ["decider"]},
            {"what": ["members"], "roles": ["admin"]},
        ],
    }
    async with opened(tmp_path, mode, table) as there:
        ada, bob = await there.join("ada", "bob")
        await denied(bob, "post", text="so be it", type="DECISION")
        await ada.do("board", members={"bob": "decider"})
        await bob.post("so be it", "DECISION")
        await ada.do("board", members={"bob": "admin"})
        failure = await denied(bob, "post", text="so be it again", type="DECISION")
        assert "and yours is admin" in failure["message"]
        await bob.do("board", members={"cid": "observer"})


async def test_every_way_of_changing_something_is_asked_about(tmp_path: Path, mode: str) -> None:
    """With a policy that denies all, on every board: nothing gets through, whoever asks and whatever for."""
    async with opened(tmp_path, mode) as there:
        ada, bob, sam = await there.join("ada", "bob", "sam")
        claim = await ada.post("a claim", "HYPOTHESIS", key="k")
        await sam.post("not so", "CRITIQUE", edges={"critiques": [claim["id"]]})
        await ada.post("old", "LOG")
        await bob.do("consume", group="g", filter={"type": "FACT"}, seconds=0)
        asked = await ada.do("request", to="bob", text="why?", seconds=0)
        await ada.post("because", "REPLY", edges={"replies_to": ["C-2"]})
    nothing = {"name": "nothing", "policy": "deny-rest", "boards": ["*"]}
    async with opened(tmp_path, mode, nothing) as there:
        ada, bob, dee, sam = await there.join("ada", "bob", "dee", "sam")
        before = await there.seq()
        request = asked["request"]["id"]
        tried: list[tuple[Any, str, dict[str, Any]]] = [
            (bob, "post", {"text": "new"}),
            (bob, "post", {"items": [{"text": "new"}, {"text": "newer"}]}),
            (bob, "post", {"text": "elsewhere", "board": "other"}),
            (bob, "transaction", {"reads": {"k": 1}, "writes": [{"key": "k", "text": "next"}]}),
            (bob, "transaction", {"debates": [{"op": "acknowledge", "id": claim["id"]}]}),
            (bob, "request", {"to": "ada", "text": "why?", "seconds": 0}),
            (ada, "request", {"id": request, "cancel": True}),
            (bob, "respond", {"skills": ["sql"], "seconds": 0}),
            (bob, "respond", {"id": request}),
            (bob, "respond", {"id": request, "text": "so"}),
            (bob, "respond", {"id": request, "text": "no", "decline": True}),
            (bob, "consume", {"group": "h", "filter": {}, "seconds": 0}),
            (bob, "consume", {"group": "g", "op": "end"}),
            (ada, "core", {"objective": "win"}),
            (ada, "board", {"title": "Ours"}),
            (ada, "board", {"settings": {"quorum": 2}}),
            (ada, "board", {"members": {"bob": "observer"}}),
            (ada, "prune", {}),
            *((bob, "debate", {"op": op, "id": claim["id"]}) for op in ("acknowledge", "vote", "watch")),
            (bob, "debate", {"op": "watch", "id": "tag:x"}),
            (sam, "debate", {"op": "withdraw", "id": "C-2"}),
            (dee, "debate", {"op": "decide", "outcome": "stands", "id": claim["id"], "reason": "so"}),
            (bob, "debate", {"op": "open", "id": "L-3"}),
        ]
        for agent, tool, arguments in tried:
            failure = await denied(agent, tool, **arguments)
            assert failure["policy"] == "nothing", tool
        assert await there.seq() == before
        assert await there.opened.store.find_board("other") is None
        for tool, arguments in (
            ("read", {}),
            ("query", {}),
            ("query_archive", {"text": "old"}),
            ("subscribe", {"filter": {"type": "FACT"}}),
            ("wait", {"seconds": 0}),
            ("debate", {"op": "status", "id": claim["id"]}),
            ("prune", {"dry_run": True}),
            ("board", {}),
            ("core", {}),
            ("request", {}),
            ("respond", {}),
            ("consume", {}),
        ):
            await bob.do(tool, **arguments)


async def test_restoring_and_summarising_are_asked_about(tmp_path: Path, mode: str) -> None:
    table = {
        "name": "keepers",
        "policy": "roles",
        "boards": ["*"],
        "rules": [{"what": ["restore", "summarise", "prune"], "roles": ["steward"]}],
    }
    async with opened(tmp_path, mode, table, target_tokens=200, summariser="agent") as there:
        ada, sam, bob = await there.join("ada", "sam", "bob")
        first = await bob.post("first " + "word " * 30, "QUESTION")
        for n in range(5):
            await bob.post(f"again {n} " + "word " * 30, "REPLY", edges={"replies_to": [first["id"]]})
        await denied(ada, "prune")
        gone = await bob.post("gone " + "word " * 30, "LOG")
        await bob.do("post", id=gone["id"], status="WITHDRAWN")
        await there.settled()
        await sam.do("prune")
        await bob.do("post", id=first["id"], status="RESOLVED")
        assert (await bob.item(gone["id"]))["zone"] == "archive"
        await denied(bob, "query_archive", text="gone", restore=True)
        assert (await bob.item(gone["id"]))["zone"] == "archive"
        assert (await sam.do("query_archive", text="gone", restore=True))["items"]
        assert (await sam.item(gone["id"]))["zone"] == "working"


async def test_what_a_status_does_besides_is_asked_about(tmp_path: Path, mode: str) -> None:
    """Debates are opened, critiques taken back and items brought back by a post's status as by calls of their own."""
    rules = [{"what": ["open", "withdraw", "restore"], "roles": ["steward"]}]
    table = {"name": "keepers", "policy": "roles", "boards": ["*"], "rules": rules}
    async with opened(tmp_path, mode, table, target_tokens=200) as there:
        bob, sam = await there.join("bob", "sam")
        claim = await sam.post("a claim", "HYPOTHESIS")
        argued = await sam.post("another claim", "HYPOTHESIS")
        critique = await bob.post("not so", "CRITIQUE", edges={"critiques": [argued["id"]]})
        old = await bob.post("old " + "word " * 190, "LOG")
        await bob.do("post", id=old["id"], status="RESOLVED")
        await sam.do("prune")
        assert (await bob.item(old["id"]))["zone"] == "archive"
        before = await there.seq()
        for change, arguments in (
            ("open", {"id": claim["id"], "status": "DEBATED"}),
            ("open", {"text": "mine", "status": "DEBATED"}),
            ("withdraw", {"id": critique["id"], "status": "WITHDRAWN"}),
            ("restore", {"id": old["id"], "status": "ACTIVE"}),
        ):
            assert (await denied(bob, "post", **arguments))["change"] == change
            assert (await denied(bob, "transaction", writes=[arguments]))["change"] == change
        assert await there.seq() == before
        await sam.do("post", id=claim["id"], status="DEBATED")
        await sam.do("post", id=old["id"], status="ACTIVE")
        await bob.do("post", id=old["id"], status="RESOLVED")


async def test_a_transaction_with_one_denied_part_changes_nothing(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, mode, own("quiet", "Quiet", "*")) as there:
        bob = await there.join("bob")
        for key in ("a", "b"):
            await bob.post(key, key=key)
        before = await there.seq(), await bob.do("read", keys=["a", "b"])
        failure = await denied(
            bob,
            "transaction",
            reads={"a": 1, "b": 1},
            writes=[{"key": "a", "text": "next"}, {"key": "b", "status": "DELETED"}, {"text": "new"}],
            debates=[{"op": "watch", "id": "$1"}],
        )
        assert failure["message"].startswith("Item 2: The access policy 'quiet' denies this (delete F-2)")
        assert "post a new version that says so" in failure["message"]
        assert (await there.seq(), await bob.do("read", keys=["a", "b"])) == before
        await bob.do("transaction", reads={"a": 1}, writes=[{"key": "a", "text": "next"}])


async def test_policies_are_asked_in_order_and_the_first_denial_decides(
    tmp_path: Path, mode: str, samples: Any
) -> None:
    tables = [own("quiet", "Quiet", "main"), own("facts", "FactsOnly"), own("second", "Quiet")]
    async with opened(tmp_path, mode, *tables) as there:
        ada, bob = await there.join("ada", "bob")
        shown = await ada.do("board", settings={"access": ["facts", "deny-rest", "second"]})
        assert shown["access"] == ["quiet", "facts", "deny-rest", "second"]
        assert shown["settings"]["access"] == ["facts", "deny-rest", "second"]
        assert "access policies, as they are asked: quiet, facts, deny-rest, second" in await bob.say("board")
        samples.ASKED.clear()
        await bob.post("allowed by one", "FACT", key="k")
        assert samples.ASKED == [("bob", "post")] * 2
        samples.ASKED.clear()
        failure = await denied(bob, "post", text="allowed by none", type="LOG")
        assert failure["policy"] == "deny-rest"
        assert samples.ASKED == [("bob", "post")]
        failure = await denied(bob, "post", key="k", status="DELETED")
        assert failure["policy"] == "quiet", "an allowance of a later policy lifts no denial"
        await denied(ada, "board", settings={"access": []})


async def test_a_board_chooses_among_the_policies_of_the_launch_at_once(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, mode, own("quiet", "Quiet")) as there:
        ada, bob = await there.join("ada", "bob")
        await bob.post("one", key="k")
        await bob.do("post", key="k", status="DELETED")
        await ada.do("board", settings={"access": ["quiet"]})
        await bob.post("two", key="k")
        await denied(bob, "post", key="k", status="DELETED")
        await ada.do("board", settings={"access": []})
        await bob.do("post", key="k", status="DELETED")
        for wrong, why in (
            (
                ["none-such"],
                "Unknown access policy 'none-such'; there are: allow-all, owner-prefixes, deny-rest, quiet",
            ),
            ("quiet", "access is a list of policies"),
            (["quiet", "quiet"], "each once"),
            ([1], "access is a list of policies"),
            ({"quiet": 1}, "access is a list of policies"),
            (["access_samples:Quiet"], "Unknown access policy"),
        ):
            failure = await ada.fail("board", settings={"access": wrong})
            assert failure["error"] == "invalid"
            assert why in failure["message"]


async def test_a_policy_that_this_server_does_not_know_denies(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, mode, own("quiet", "Quiet")) as there:
        ada = await there.join("ada")
        await ada.do("board", settings={"access": ["quiet"]})
    async with opened(tmp_path, mode) as there:
        bob = await there.join("bob")
        before = await there.seq()
        failure = await denied(bob, "post", text="new")
        assert "'quiet' denies this: it is not known to this server: ask its operator" in failure["message"]
        assert await there.seq() == before


@pytest.mark.parametrize(
    ("class_", "why"),
    [
        ("Raises", "it could not be asked: it raised KeyError"),
        ("Leaves", "it could not be asked: it raised SystemExit"),
        ("Recurses", "it could not be asked: it raised RecursionError"),
        ("Greedy", "it could not be asked: it raised"),
        ("Wordless", "answered with neither a verdict nor a denial"),
    ],
)
async def test_a_policy_that_fails_denies_and_its_words_stay_in_the_log(
    tmp_path: Path, mode: str, samples: Any, caplog: pytest.LogCaptureFixture, class_: str, why: str
) -> None:
    async with opened(tmp_path, mode, own("mine", class_, "*")) as there:
        bob = await there.join("bob")
        with caplog.at_level(logging.WARNING):
            failure = await denied(bob, "post", text="new")
        assert why in failure["message"]
        assert samples.SECRET not in str(failure)
        assert (samples.SECRET in caplog.text) == (class_ in ("Raises", "Leaves"))
        assert await there.seq() == 0


async def test_what_is_no_verdict_denies_however_true_it_is(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, mode, own("babbles", "Babbles", "*")) as there:
        bob = await there.join("bob")
        for _ in range(8):
            failure = await denied(bob, "post", text="new")
            assert "neither a verdict nor a denial" in failure["message"]
        assert await there.seq() == 0


async def test_a_long_and_rude_reason_is_cut_and_made_plain(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, mode, own("wordy", "Wordy", "*")) as there:
        bob = await there.join("bob")
        said = (await denied(bob, "post", text="new"))["message"]
        assert len(said) < 450
        assert said.isprintable()
        assert "\u202e" not in said


async def test_what_a_policy_does_to_what_it_is_given_changes_nothing(tmp_path: Path, mode: str) -> None:
    tables = [own("tampers", "Tampers", "*"), own("again", "Tampers", "*"), own("quiet", "Quiet", "*")]
    async with opened(tmp_path, mode, *tables) as there:
        ann, bob = await there.join("ann", "bob")
        item = await ann.post("hers", key="k")
        after = await bob.post("his", key="k")
        assert (item["author"], after["author"], after["version"]) == ("ann", "ann", 2)
        failure = await denied(bob, "post", key="k", status="DELETED")
        assert (failure["policy"], failure["change"]) == ("quiet", "delete")


async def test_a_policy_that_hangs_denies_at_once_from_then_on_and_nobody_else_waits(
    tmp_path: Path, mode: str, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.2)
    async with opened(tmp_path, mode, own("hangs", "Hangs", "main")) as there:
        ann, bob = await there.join("ann", "bob")
        waiting = asyncio.create_task(bob.fail("post", text="new"))
        async with asyncio.timeout(PATIENCE):
            await ann.do("post", text="elsewhere", board="other")
            await ann.do("read")
        failure = await waiting
        assert "it could not be asked: it took longer than 0.2 s" in failure["message"]
        failure = await denied(ann, "post", text="new")
        assert "still thinks about an earlier call" in failure["message"]
        samples.RELEASE.set()
        async with asyncio.timeout(PATIENCE):
            while "still thinks" in boards.text_of(await ann.call("post", text="new")):
                pass


async def test_a_call_that_is_cancelled_while_a_policy_thinks_denies_nobody_else_theirs(
    tmp_path: Path, mode: str, samples: Any
) -> None:
    async with opened(tmp_path, mode, own("pauses", "Pauses", "*")) as there:
        ann, bob = await there.join("ann", "bob")
        board = there.opened.blackboard
        for _ in range(3):
            samples.REACHED.clear()
            samples.RELEASE.clear()
            with acting(Principal("cid", "cid", {EVERY_BOARD: Role.ADMIN})):
                gone = asyncio.create_task(board.post("cid", None, [PostFields(text="gone")]))
            await asyncio.to_thread(samples.REACHED.wait, 10)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            samples.RELEASE.set()
            await asyncio.gather(ann.post("hers"), bob.post("his"))
        assert [i["author"] for i in (await ann.do("query", author="cid"))["items"]] == []


async def test_calls_that_would_wait_too_long_for_their_turn_are_denied(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(bounded, "SECONDS", 1.0)
    async with opened(tmp_path, mode, own("hangs", "Hangs", "main")) as there:
        ann, bob = await there.join("ann", "bob")
        # Either may come first, and a slow machine may bring one when the other has ended.
        for _ in range(20):
            failures = await asyncio.gather(ann.fail("post", text="new"), bob.fail("post", text="new"))
            if any("too slow for the calls that come" in failure["message"] for failure in failures):
                return
        pytest.fail(f"neither was told to come again: {failures}")


async def test_an_answer_in_time_is_not_asked_for_again_by_its_key(
    tmp_path: Path, mode: str, samples: Any
) -> None:
    async with opened(tmp_path, mode, own("quiet", "Quiet", "*")) as there:
        bob = await there.join("bob")
        first = await bob.do("post", text="new", idempotency_key="once")
        samples.ASKED.clear()
        again = await bob.do("post", text="new", idempotency_key="once")
        assert again["repeated"]
        assert [item["id"] for item in again["items"]] == [item["id"] for item in first["items"]]
        assert samples.ASKED == []


def _failing_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = bounded.Bounded.ask

    async def ask(self: bounded.Bounded, question: Any) -> Any:
        try:
            return await asked(self, question)
        except bounded.PolicyFailed:
            return [Verdict.ALLOW]

    monkeypatch.setattr(bounded.Bounded, "ask", ask)


def _truth_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdicts(policy: Any, principal: Any, changes: Any) -> list[Any]:
        said = [policy.decide(principal, change) for change in changes]
        return [one if isinstance(one, Deny) else Verdict.ALLOW if one else Deny("no") for one in said]

    monkeypatch.setattr(judging, "_verdicts", verdicts)


def _unknown_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    on = AccessPolicies.on

    def known(self: AccessPolicies, board: str, chosen: Any) -> Any:
        return [policy for policy in on(self, board, chosen) if not isinstance(policy, str)]

    monkeypatch.setattr(AccessPolicies, "on", known)


@pytest.mark.parametrize(
    ("mutate", "check"),
    [
        (
            _failing_allows,
            lambda folder, mode, samples, log: test_a_policy_that_fails_denies_and_its_words_stay_in_the_log(
                folder, mode, samples, log, "Raises", "it raised KeyError"
            ),
        ),
        (
            _truth_allows,
            lambda folder, mode, *_: test_what_is_no_verdict_denies_however_true_it_is(folder, mode),
        ),
        (
            _unknown_allows,
            lambda folder, mode, *_: test_a_policy_that_this_server_does_not_know_denies(folder, mode),
        ),
    ],
)
async def test_mutants_that_let_a_change_pass_are_caught(
    tmp_path: Path,
    mode: str,
    samples: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mutate: Any,
    check: Any,
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        await check(tmp_path, mode, samples, caplog)
