"""Members through clients: roles that a board gives, and what happens to calls under way when one is taken (F36)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.server.access import door, rights
from blackboard_mcp.server.access.tables import access_tables
from patience import PATIENCE

board, mode, both = boards.board, boards.mode, boards.both
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lasts is looked at again at once, not within five seconds."""
    assert door.RECHECK_SECONDS <= 2.5
    monkeypatch.setattr(door, "RECHECK_SECONDS", 0.02)


@both
async def test_an_admin_gives_roles_and_takes_them_away(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("x", "LOG")
    given = await alice.do("board", members={"bob": "observer", "eve": "steward"})
    assert given["members"] == {"bob": "observer", "eve": "steward"}
    assert "members: bob observer, eve steward" in await bob.say("board")
    failure = await bob.fail("post", text="y")
    assert (failure["error"], failure["action"], failure["can"]) == ("forbidden", "post", ["eve"])
    assert (await bob.do("read", ids=["L-1"]))["items"]
    after = await alice.do("board", members={"bob": None, "eve": "admin"})
    assert after["members"] == {"eve": "admin"}
    await bob.post("y", "LOG")
    told = await bob.do("read", since=0)
    assert [e["data"] for e in told["events"] if e["event"] == "member.changed"] == [
        {"member": "bob", "role": "observer", "was": None},
        {"member": "eve", "role": "steward", "was": None},
        {"member": "bob", "role": None, "was": "observer"},
        {"member": "eve", "role": "admin", "was": "steward"},
    ]


async def test_what_is_no_role_or_no_agent_is_refused(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", "LOG")
    before = await board.seq()
    for members, word in (
        ({"bob": "king"}, "observer"),
        ({"bob": 1}, "members.bob"),
        ({"two words": "observer"}, "two words"),
        ({"": "observer"}, "name"),
        ({"system": "admin"}, "system"),
        (["bob"], "members"),
        ({f"a{n}": "observer" for n in range(65)}, "members"),
    ):
        failure = await alice.fail("board", members=members)
        assert (failure["error"], word in failure["message"]) == ("invalid", True), failure
    assert await board.seq() == before


async def test_members_changes_apply_once_under_an_idempotency_key(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", "LOG")
    meta = {"blackboard/structured": True, "blackboard/idempotency_key": "k"}
    for _ in range(2):
        done = await alice.client.call_tool("board", {"members": {"bob": "observer"}}, meta=meta)
        assert not done.is_error
    assert [e.event for e in (await board.opened.store.log("main", "alice", 0, 50)).events].count(
        "member.changed"
    ) == 1


async def test_a_role_given_a_moment_ago_counts_at_once(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("x", "LOG")
    for role, works in (("observer", False), ("contributor", True), ("summariser", False), (None, True)) * 3:
        await alice.do("board", members={"bob": role})
        if works:
            await bob.post("y", "LOG")
        else:
            assert (await bob.fail("post", text="z"))["error"] == "forbidden"


async def test_f36_a_role_taken_away_between_check_and_commit_lets_no_post_through(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("x", "LOG")
    await alice.do("board", members={"bob": "contributor"})
    blackboard, let_in, taken = board.opened.blackboard, asyncio.Event(), asyncio.Event()
    drafts = blackboard.drafts

    async def late(name: str, posts: Any) -> Any:
        let_in.set()
        await taken.wait()
        return await drafts(name, posts)

    monkeypatch.setattr(blackboard, "drafts", late)
    posting = asyncio.create_task(bob.fail("post", text="too late"))
    await let_in.wait()
    await alice.do("board", members={"bob": "observer"})
    before = await board.seq()
    taken.set()
    failure = await posting
    assert (failure["error"], failure["role"]) == ("forbidden", "observer")
    assert "While this call was made" in failure["message"]
    assert await board.seq() == before


@pytest.mark.usefixtures("soon")
@both
async def test_a_waiting_call_ends_when_its_role_is_taken_away(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, mode, tools=("core", "admin", "messages")) as board:
        alice, bob = await board.join("alice", "bob")
        await alice.post("x", "LOG")
        await bob.do("consume", group="g", filter={"type": "FACT"}, seconds=0)
        waits, begun = door.Watch._wind, asyncio.Semaphore(0)
        wound: list[Any] = []

        def winding(watch: Any) -> None:
            waits(watch)
            if watch not in wound:  # it winds again and again
                wound.append(watch)
                begun.release()

        monkeypatch.setattr(door.Watch, "_wind", winding)
        waiting = [
            asyncio.create_task(bob.fail("consume", group="g", seconds=50)),
            asyncio.create_task(bob.fail("respond", skills=["sql"], seconds=50)),
        ]
        for _ in waiting:
            await begun.acquire()
        await alice.do("board", members={"bob": "observer"})
        async with asyncio.timeout(PATIENCE):
            for failure in await asyncio.gather(*waiting):
                assert failure["error"] == "forbidden"
                assert failure["message"].startswith(
                    "This call was ended; what it did before stands. You may not"
                )
                assert "Nothing was changed" not in failure["message"]
                assert ". An admin of the board gives roles" in failure["message"]
        await alice.post("news", "FACT")
        (state,) = (await alice.do("consume"))["groups"]
        assert (state["in_flight"], state["backlog"]) == (0, 1)


async def test_an_observer_brings_no_board_into_being(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode) as there:
        observers = {"olga": Principal("olga", "olga", {EVERY_BOARD: Role.OBSERVER}, via="token")}
        there.server.identify = lambda info: observers.get(info.client_name or "", info.client_name or "")
        olga, alice = await there.join("olga", "alice")
        assert (await olga.fail("read"))["error"] == "not_found"
        assert await there.opened.store.find_board("main") is None
        await alice.do("read")
        assert (await olga.do("read"))["seq"] == 1


async def test_an_admins_token_administers_whatever_the_board_says_of_it(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode) as there:
        for via, kept in (("token", True), ("header", False)):
            who = Principal("ada", "ada", {EVERY_BOARD: Role.ADMIN}, via=via)  # type: ignore[arg-type]
            powers = there.opened.blackboard.rights.powers(who, "main")
            assert (rights.Action.ADMINISTER in powers[Role.OBSERVER]) == kept
            assert rights.Action.POST not in powers[Role.OBSERVER]


async def test_a_call_without_a_board_goes_to_the_only_one_that_the_credential_reaches(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode) as there:
        who = Principal("ann", "ann", {"side": Role.CONTRIBUTOR}, via="token")
        there.server.identify = lambda info: who
        ann = await there.join("ann")
        await ann.post("here", "LOG")
        assert (await ann.do("board"))["board"] == "side"
        assert "here" in await ann.say("read", ids=["L-1"])
        assert await there.opened.store.find_board("main") is None
        (waited,) = (await ann.do("wait", since=1, seconds=0))["events"]
        assert waited["item"] == "L-1"


async def test_access_policies_go_by_the_role_that_the_board_gives(tmp_path: Path, mode: str) -> None:
    rules = [{"types": ["DECISION"], "roles": ["decider"]}]
    table = {"name": "table", "policy": "roles", "boards": ["main"], "rules": rules}
    async with boards.open_boards(tmp_path, mode, access=access_tables([table], "access")) as there:
        alice, bob = await there.join("alice", "bob")
        await alice.post("x", "LOG")
        assert (await bob.fail("post", text="so", type="DECISION"))["policy"] == "table"
        await alice.do("board", members={"bob": "decider"})
        await bob.post("so", "DECISION")


async def test_who_may_only_read_owes_nothing_and_whoever_asks_is_told(board: Any) -> None:
    boss, con, obs = await board.join("boss", "con", "obs")
    await obs.post("I was here.")
    await con.post("No.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await obs.do("query")
    assert obs.footer.endswith("you owe: answer C-2")
    await boss.do("board", members={"obs": "observer"})
    said = await con.say("post", text="We go.", type="DECISION", agree=["obs", "ghost"])
    assert "obs observes only and cannot answer" in said
    assert "ghost was never on this board" in said
    said = await con.say("post", text="@obs what do you see?", type="QUESTION")
    assert "obs observes only and cannot answer" in said
    view = await obs.say("read")
    assert "waits for you:\n" not in view
    assert "waits for you, who may only read: answer C-2" in view
    for tool, given in (("read", {}), ("query", {}), ("wait", {"seconds": 0})):
        await obs.do(tool, **given)
        assert "you owe" not in obs.footer
    await boss.do("board", members={"obs": "contributor"})
    await obs.do("query")
    assert "you owe: answer C-2, Q-4, agree or object to D-3" in obs.footer


@pytest.mark.parametrize("by", ["board", "token"])
async def test_nobody_waits_for_whom_a_new_role_lets_only_read_however_often_it_reads(
    tmp_path: Path, mode: str, by: str
) -> None:
    tools = ("core", "admin", "plan", "run")
    async with boards.open_boards(tmp_path, mode, tools=tools) as board:
        ben = Principal("ben", "ben", {EVERY_BOARD: Role.CONTRIBUTOR}, via="token")
        shown = {"ben": ben}
        board.server.identify = lambda info: shown.get(info.client_name or "", info.client_name or "")
        ann, ben, boss = await board.join("ann", "ben", "boss")
        await boss.do("plan", items=[{"title": "draw the map"}])
        held = await ben.do("claim", seconds=0)
        paths = await ben.do("claim", op="take", paths=["file:src/**"])
        await ann.post("The lag is 3 s.")
        await ben.post("It is 300 ms.", "CRITIQUE", edges={"critiques": ["F-1"]})
        await ann.post("I measured it.", "REPLY", edges={"replies_to": ["C-2"]})
        await ann.post("We go.", "DECISION", agree=["ben"])
        await boss.do("turn", start={"problem": "why", "agents": ["ben", "ann"], "max_rounds": 2}, seconds=0)
        assert (await ben.do("turn", seconds=0))["yours"]
        if by == "board":
            await boss.do("board", members={"ben": "observer"})
        else:
            shown["ben"] = Principal("ben", "ben", {EVERY_BOARD: Role.OBSERVER}, via="token")
        for _ in range(20):
            board.clock.advance(60)
            for agent in (ann, ben, boss):
                await agent.do("read")
            await board.opened.activity.flush()
        store = board.opened.store
        await store.sweep_tasks()
        await store.sweep_runs()
        await store.sweep_debates()
        ended = [
            (e["event"], e["data"].get("lease"), e["item"])
            for e in (await boss.do("read", since=0))["events"]
            if e["event"] in ("claim.lapsed", "turn.lapsed", "obligation.waived")
        ]
        turn = next(e for e in ended if e[0] == "turn.lapsed")
        assert sorted(ended, key=str) == sorted(
            [
                ("claim.lapsed", held["lease"], None),
                ("claim.lapsed", paths["lease"], None),
                ("obligation.waived", None, "F-1"),
                ("obligation.waived", None, "D-4"),
                turn,
            ],
            key=str,
        )
        assert (await ann.do("turn", seconds=0))["yours"]
        assert (await ann.do("claim", seconds=0))["id"] == "T-1"


async def test_a_member_whose_token_only_reads_is_there_while_it_reads(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=("core", "admin", "plan")) as board:
        observers = {"ben": Principal("ben", "ben", {EVERY_BOARD: Role.OBSERVER}, via="token")}
        board.server.identify = lambda info: observers.get(info.client_name or "", info.client_name or "")
        boss, ben = await board.join("boss", "ben")
        await boss.do("plan", items=[{"title": "draw the map"}])
        await boss.do("board", members={"ben": "contributor"})
        await ben.do("claim", seconds=0)
        for _ in range(20):
            board.clock.advance(60)
            await ben.do("read")
            await board.opened.activity.flush()
        await board.opened.store.sweep_tasks()
        (task,) = (await boss.do("plan"))["items"]
        assert (task["state"], task["holder"]) == ("RUNNING", "ben")


async def test_a_request_to_who_may_only_read_says_so(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=("core", "admin", "messages")) as board:
        con, obs = await board.join("con", "obs")
        await obs.post("I was here.")
        await con.do("board", members={"obs": "observer"})
        said = await con.say("request", text="What do you see?", to="obs", seconds=0)
        assert "obs observes only and cannot answer" in said.splitlines()
        await obs.do("read")
        assert "you owe" not in obs.footer


async def test_a_name_that_was_never_here_is_pointed_out(board: Any) -> None:
    ann, _ = await board.join("ann", "ben")
    await _.post("I am here.")
    said = await ann.say("post", text="@Ben, is it so?", type="QUESTION")
    assert "Ben was never on this board, ben was" in said
    assert "never on" not in await ann.say("post", text="@ben, is it so?", type="QUESTION")
    answer = await ann.do("post", text="Go.", type="DECISION", agree=["Ben"])
    assert [(r["kind"], r["fields"]) for r in answer["remarks"]] == [("unknown", ["Ben", "ben"])]


RULES = [
    {"types": ["DECISION"], "roles": ["decider", "admin"]},
    {"key": "plan:**", "what": ["delete"], "roles": ["steward", "admin"]},
    {"types": ["FACT"], "roles": ["steward"]},
]


@pytest.mark.parametrize(
    ("lists", "denied"),
    [
        ({}, {"ann": "F", "dan": "F", "eve": "F"}),
        ({"stewards": ("ann",)}, {"ann": "", "dan": "FP", "eve": "FP"}),
        ({"deciders": ("dan",)}, {"ann": "D", "dan": "F", "eve": "D"}),
        ({"stewards": ("ann",), "deciders": ("dan",)}, {"ann": "D", "dan": "FP", "eve": "DFP"}),
    ],
    ids=["none", "stewards", "deciders", "both"],
)
async def test_access_policies_go_by_the_stewards_and_deciders_of_the_launch(
    tmp_path: Path, mode: str, lists: dict[str, tuple[str, ...]], denied: dict[str, str]
) -> None:
    table = {"name": "table", "policy": "roles", "boards": ["main"], "rules": RULES}
    tables = access_tables([table], "access")
    async with boards.open_boards(tmp_path, mode, access=tables, **lists) as there:
        for name in ("ann", "dan", "eve"):
            agent = await there.join(name)
            await agent.post("x", "PLAN", key=f"plan:{name}")
            calls = {
                "D": {"text": "so be it", "type": "DECISION"},
                "F": {"text": f"{name} saw it", "type": "FACT"},
                "P": {"key": f"plan:{name}", "status": "DELETED"},
            }
            said = ""
            for letter, arguments in calls.items():
                done = await agent.call("post", **arguments)
                if done.is_error:
                    assert "The access policy 'table' denies this" in boards.text_of(done)
                    said += letter
            assert (name, said) == (name, denied[name])
