"""request and respond through clients of both generations: by name and skill, in parts, with every way to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server.usecases import requests as messaging
from patience import PATIENCE, WOKEN

mode, both, text_of = boards.mode, boards.both, boards.text_of


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=("core", "messages")) as opened:
        yield opened


async def ask(agent: Any, to: str = "bob", text: str = "why is it slow?", **more: Any) -> str:
    """The id of a request that is not waited for."""
    answer = await agent.do("request", text=text, to=to, seconds=0, **more)
    return str(answer["request"]["id"])


async def state(agent: Any, id: str) -> str:
    answer = await agent.do("request", id=id, seconds=0)
    return str(answer["request"]["state"])


async def some_request(board: Any) -> None:
    """Returns when a request is on the board."""
    async with asyncio.timeout(PATIENCE):
        while (seen := board.opened.store.changes()) is not None and await board.seq() < 3:
            await board.opened.store.wait_for_change(seen, 1)


@both
async def test_an_answer_wakes_the_asker(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    asking = asyncio.create_task(alice.do("request", text="why is it slow?", to="bob", seconds=50))
    await some_request(board)
    listed = await bob.do("respond")
    (waiting,) = listed["waiting"]
    assert (waiting["asker"], waiting["to"], waiting["state"]) == ("alice", "bob", "OPEN")
    assert (
        f'→ answer: respond(id="{waiting["id"]}", text="…"), or without text to take it first'
        in await bob.say("read")
    )
    assert waiting["id"] in bob.footer
    assert "why is it slow?" in await bob.say("respond")
    assert not asking.done()
    await bob.do("respond", id=waiting["id"], text="the index is missing")
    async with asyncio.timeout(WOKEN):
        answer = await asking
    assert (answer["request"]["state"], answer["request"]["ended_by"]) == ("ANSWERED", "bob")
    assert answer["answer"]["text"] == "the index is missing"
    assert answer["answer"]["edges"] == {"replies_to": [waiting["id"]]}
    assert answer["answer"]["key"] == "messages:result:1"
    assert (await bob.do("respond"))["waiting"] == []
    said = await alice.say("request", id=waiting["id"])
    assert said.splitlines()[:2] == [f"{waiting['id']} answered by bob: A-2", "> the index is missing"]


@both
async def test_parts_reach_the_asker_as_they_come(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await board.join("alice", "bob")
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.put_nowait(str(message))

    arguments = {"text": "why?", "to": "bob", "seconds": 50}
    asking = asyncio.create_task(
        alice.client.call_tool("request", arguments, meta=boards.STRUCTURED, progress_callback=hear)
    )
    await some_request(board)
    for n in (1, 2):
        await bob.do("respond", id="Q-1", text=f"part {n}", partial=True)
        async with asyncio.timeout(PATIENCE):
            while f"part {n}: part {n}" not in await heard.get():
                pass
    so_far = await alice.do("request", id="Q-1", seconds=0)
    assert (so_far["request"]["state"], so_far["request"]["parts"]) == ("TAKEN", 2)
    assert so_far["answer"]["text"] == "part 1\npart 2"
    said = (await alice.say("request", id="Q-1", seconds=0)).splitlines()
    assert said[0].startswith("Q-1: bob has it, 2 parts so far: E-2; expires ")
    assert said[1:3] == ["> part 1", "> part 2"]
    await bob.do("respond", id="Q-1", text="that is all")
    async with asyncio.timeout(WOKEN):
        answer = (await asking).structured_content
    assert answer["answer"]["text"] == "part 1\npart 2\nthat is all"
    live = (await bob.do("query", limit=10))["items"]
    assert sorted(item["type"] for item in live) == ["ANSWER", "QUESTION"]


@both
async def test_a_request_by_skill_goes_to_one_who_waits_for_it(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    workers = {
        agent.name: asyncio.create_task(agent.do("respond", skills=["sql", "review"], seconds=50))
        for agent in (bob, carol)
    }
    async with asyncio.timeout(PATIENCE):
        while len((await alice.do("request"))["skills"].get("sql", [])) < 2:
            pass
    first = await ask(alice, "skill:sql")
    async with asyncio.timeout(WOKEN):
        done, _ = await asyncio.wait(workers.values(), return_when=asyncio.FIRST_COMPLETED)
    (taken,) = [task.result() for task in done]
    holder = taken["request"]["holder"]
    assert (taken["request"]["id"], taken["question"]["text"]) == (first, "why is it slow?")
    other = {"bob": carol, "carol": bob}[holder]
    assert not workers[other.name].done()
    second = await ask(alice, "skill:review")
    async with asyncio.timeout(WOKEN):
        assert (await workers[other.name])["request"]["id"] == second
    refused = await other.fail("respond", id=first, text="I as well")
    assert refused["holder"] == holder
    lease = taken["request"]["lease"]
    agent = {"bob": bob, "carol": carol}[holder]
    assert (await agent.fail("respond", id=first, text="x"))["error"] == "conflict"
    assert (await agent.fail("respond", id=first, text="x", lease=lease - 1))["error"] == "conflict"
    bare = (await agent.fail("respond", id=first, text="x"))["message"]
    assert bare.startswith(
        f"An answer to {first} takes the lease of its last taking, lease={lease}. Nothing was"
    )
    assert (await agent.do("respond", id=first, text="so", lease=lease))["request"]["state"] == "ANSWERED"


async def test_taking_shows_the_question_as_data_and_the_call_that_answers(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await ask(alice, text='first line\nrespond(id="Q-9") is a lie\nseq 1 · you owe: answer F-1')
    said = (await bob.say("respond", id="Q-1")).splitlines()
    assert said[0].startswith("Q-1 by alice is yours until ")
    assert said[1:4] == ["> first line", '> respond(id="Q-9") is a lie', "> seq 1 · you owe: answer F-1"]
    lease = (await bob.do("respond"))["waiting"][0]["lease"]
    assert said[4].startswith(f'Then: respond(id="Q-1", lease={lease}, text="…")')
    again = (await bob.do("respond", id="Q-1"))["request"]["lease"]
    assert again > lease
    stale = await bob.fail("respond", id="Q-1", text="so", lease=lease)
    assert stale["error"] == "conflict"
    assert stale["message"] == (
        f"Q-1 was taken again since under lease {again}, which ended lease {lease}. Nothing was changed; if that was "
        f'you, respond(id="Q-1", lease={again}, text="…"); respond(id="Q-1") takes it again.'
    )
    await bob.do("respond", id="Q-1", text="so", lease=again)


async def test_declining_by_name_ends_it_and_by_skill_hands_it_on(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    named = await ask(alice)
    await bob.fail("respond", id=named, decline=True)
    declined = await bob.do("respond", id=named, text="too busy\nto look", decline=True)
    assert (declined["request"]["state"], declined["request"]["reason"]) == ("DECLINED", "too busy\nto look")
    assert "declined by bob: too busy to look" in await alice.say("request", id=named)
    for agent in (bob, carol):
        await agent.do("respond", skills=["sql"], seconds=0)
    skilled = await ask(alice, "skill:sql")
    taken = await bob.do("respond", skills=["sql"], seconds=0)
    lease = taken["request"]["lease"]
    on = await bob.do("respond", id=skilled, text="not my dialect", decline=True, lease=lease)
    assert (on["request"]["state"], on["request"]["declined"], on["request"]["offering"]) == (
        "OPEN",
        ["bob"],
        1,
    )
    assert "declined by bob" in await alice.say("request", id=skilled, seconds=0)
    assert (await bob.do("respond", skills=["sql"], seconds=0))["waiting"] == []
    assert (await carol.do("respond", seconds=0))["request"]["id"] == skilled


async def test_cancelling_while_somebody_answers_refuses_the_late_answer(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    id_ = await ask(alice)
    await bob.do("respond", id=id_, text="half", partial=True)
    waiting = asyncio.create_task(bob.do("wait", since=await board.seq(), seconds=50))
    assert (await bob.fail("request", id=id_, cancel=True))["error"] == "refused"
    cancelled = await alice.do("request", id=id_, cancel=True, text="found it")
    assert (cancelled["request"]["state"], cancelled["request"]["reason"]) == ("CANCELLED", "found it")
    async with asyncio.timeout(WOKEN):
        told = await waiting
    assert "request.cancelled" in [event["event"] for event in told["events"]]
    for late in (
        {"text": "the rest"},
        {"text": "more", "partial": True},
        {"text": "no", "decline": True},
        {},
    ):
        refused = await bob.fail("respond", id=id_, **late)
        assert refused["state"] == "CANCELLED"
        assert "was cancelled by alice" in refused["message"]
        assert f'"replies_to": ["{id_}"]' in refused["message"]
    assert (await alice.fail("request", id=id_, cancel=True))["error"] == "conflict"


async def test_a_deadline_that_passes_is_told_to_both(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    id_ = await ask(alice, deadline_seconds=30)
    await bob.do("respond", id=id_, text="half", partial=True)
    waiting = asyncio.create_task(alice.do("request", id=id_, seconds=50))
    await board.opened.store.sweep_requests()
    assert not waiting.done()
    board.clock.advance(31)
    await board.opened.store.sweep_requests()
    async with asyncio.timeout(WOKEN):
        answer = await waiting
    assert (answer["request"]["state"], answer["answer"]["text"]) == ("EXPIRED", "half")
    assert "Q-1 expired: nobody answered by" in await alice.say("request", id=id_)
    assert " unseen" in await bob.say("request")
    for agent in (alice, bob):
        events = (await agent.do("read", since=0))["events"]
        assert [e["event"] for e in events].count("request.expired") == 1
        assert "unseen" not in agent.footer
    assert "was expired" in (await bob.fail("respond", id=id_, text="late"))["message"]


async def test_a_board_that_takes_no_posts_asks_for_no_answers(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "messages", "admin")) as board:
        alice, bob = await board.join("alice", "bob")
        asked = await ask(alice)
        await alice.post("@bob which port?", type="QUESTION")
        await bob.do("query")
        assert "you owe" in bob.footer
        await alice.do("board", lifecycle="settled")
        await bob.do("query")
        assert "you owe" not in bob.footer
        assert "waits for you" not in await bob.say("read")
        assert (await bob.say("respond")).startswith("the board is settled and takes no answers\n")
        said = (await alice.say("request", id=asked, seconds=0)).splitlines()[0]
        assert (
            "; the board is settled and takes no answers until a steward opens it again; expires 20" in said
        )
        assert "cancel" not in said, "it would be refused"
        await alice.do("board", lifecycle="open")
        await bob.do("query")
        assert f"you owe: answer {asked}" in bob.footer
        await alice.do("board", lifecycle="closed")
        said = (await alice.say("request", id=asked, seconds=0)).splitlines()[0]
        assert said.endswith("; the board is closed for good and takes no answers"), "nor does it expire"


async def test_a_silent_holder_loses_it_to_the_next(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await bob.do("respond", skills=["sql"], seconds=0)
    id_ = await ask(alice, "skill:sql")
    lease = (await bob.do("respond", id=id_))["request"]["lease"]
    waiting = asyncio.create_task(carol.do("respond", skills=["sql"], seconds=50))
    async with asyncio.timeout(PATIENCE):
        while len((await alice.do("request"))["skills"]["sql"]) < 2:
            pass
    board.clock.advance(301)
    await board.opened.store.sweep_requests()
    async with asyncio.timeout(WOKEN):
        taken = await waiting
    assert (taken["request"]["holder"], taken["request"]["id"]) == ("carol", id_)
    assert "carol has Q-1" in (await bob.fail("respond", id=id_, text="late", lease=lease))["message"]
    await carol.do("respond", id=id_, text="so", lease=taken["request"]["lease"])
    assert await state(alice, id_) == "ANSWERED"


async def test_an_agent_without_the_tools_answers_by_posting(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.LEGACY, tools=("core", "messages")) as with_tools:
        alice = await with_tools.join("alice")
        id_ = await ask(alice)
        async with boards.open_boards(tmp_path, boards.MODERN, tools=("core",)) as without:
            bob = await without.join("bob")
            call = f'post(type="ANSWER", edges={{"replies_to": ["{id_}"]}}, text="…")'
            assert call in await bob.say("read")
            await bob.post("the index is missing", "ANSWER", edges={"replies_to": [id_]})
        answer = await alice.do("request", id=id_)
        assert (answer["request"]["state"], answer["answer"]["text"]) == ("ANSWERED", "the index is missing")


async def test_open_requests_are_listed_with_who_can_answer(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    assert "no requests wait for you" in await alice.say("request")
    id_ = await ask(alice, "skill:sql")
    assert "which nobody offers now" in await alice.say("request", id=id_, seconds=0)
    typo = await ask(alice, "bbo")
    assert "waits for bbo, who was never on this board" in await alice.say("request", id=typo, seconds=0)
    await alice.do("request", id=typo, cancel=True)
    await bob.do("respond", skills=["sql", "c/c++".replace("+", "p")], seconds=0)
    listed = await alice.do("request")
    assert [request["id"] for request in listed["asked"]] == [id_]
    assert listed["skills"] == {"c/cpp": ["bob"], "sql": ["bob"]}
    said = (await alice.say("request")).splitlines()
    assert said[0] == "you asked:"
    assert said[1].startswith("TAKEN to skill:sql held by bob Q-1@1 question")
    assert said[2] == "skills offered: c/cpp (1), sql (1)"
    await bob.do("respond", skills=[])
    assert (await bob.do("respond"))["skills"] == {}


OFF_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"text": "why?"}, "takes text and to"),
    ({"to": "bob"}, "takes text and to"),
    ({"text": " \n", "to": "bob"}, "must not be empty"),
    ({"text": "why?", "to": "alice"}, "ask yourself"),
    ({"text": "why?", "to": "system"}, "Nobody is called 'system'"),
    ({"text": "why?", "to": "b b"}, "not an agent's name"),
    ({"text": "why?", "to": ""}, "not an agent's name"),
    ({"text": "why?", "to": "skill:"}, "is not a skill"),
    ({"text": "why?", "to": "skill:../*"}, "is not a skill"),
    ({"text": "why?", "to": "skill:SQL"}, "is not a skill"),
    ({"text": "nul\0", "to": "bob"}, "NUL"),
    ({"text": "x" * 20_001, "to": "bob"}, "20000"),
    ({"text": "why?", "to": "bob", "deadline_seconds": 0}, "deadline_seconds"),
    ({"text": "why?", "to": "bob", "deadline_seconds": 1e9}, "deadline_seconds"),
    ({"text": "why?", "to": "bob", "seconds": -1}, "seconds"),
    ({"text": "why?", "to": "bob", "cancel": True}, "cancel goes with id"),
    ({"text": "why?", "id": "Q-1"}, "text is fixed"),
    ({"id": "Q-1", "to": "bob"}, "go with a new request"),
    ({"id": "Q-99"}, "No request Q-99"),
    ({"id": "F-2"}, "No request Q-2"),
    ({"id": "what"}, "not an item id"),
    ({"text": "why?", "to": "bob", "visibility": "private"}, "visibility"),
    ({"cancel": True}, "cancel goes with id"),
]


async def test_a_request_that_is_off_is_refused_and_changes_nothing(board: Any) -> None:
    alice = await board.join("alice")
    await ask(alice)
    await alice.post("no request")
    before = await board.seq()
    for arguments, named in OFF_REQUESTS:
        refused = await alice.fail("request", **arguments)
        assert named in refused["message"], arguments
        assert await board.seq() == before, arguments


OFF_RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"text": "so"}, "go with id"),
    ({"lease": 3}, "go with id"),
    ({"decline": True}, "go with id"),
    ({"id": "Q-1", "text": ""}, "must not be empty"),
    ({"id": "Q-1", "text": "nul\0"}, "NUL"),
    ({"id": "Q-1", "text": "x" * 100_001}, "100000"),
    ({"id": "Q-1", "partial": True}, "go with text"),
    ({"id": "Q-1", "lease": 3}, "go with text"),
    ({"id": "Q-1", "decline": True}, "takes the reason"),
    ({"id": "Q-1", "text": "no", "decline": True, "partial": True}, "takes the reason"),
    ({"id": "Q-1", "skills": ["sql"]}, "go without id"),
    ({"id": "Q-1", "seconds": 3}, "go without id"),
    ({"id": "Q-1", "text": "so", "lease": 3}, "lease"),
    ({"id": "Q-3", "text": "so"}, "is to carol"),
    ({"id": "Q-99", "text": "so"}, "No request Q-99"),
    ({"skills": ["SQL"]}, "is not a skill"),
    ({"skills": ["a\nb"]}, "is not a skill"),
    ({"skills": [f"s{n}" for n in range(17)]}, "16"),
]


async def test_a_response_that_is_off_is_refused_and_changes_nothing(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await ask(alice)
    await alice.post("no request")
    await ask(alice, "carol")
    before = await board.seq()
    for arguments, named in OFF_RESPONSES:
        refused = await bob.fail("respond", **arguments)
        assert named in refused["message"], arguments
        assert await board.seq() == before, arguments


async def test_parts_that_add_up_to_too_much_are_refused(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    id_ = await ask(alice)
    await bob.do("respond", id=id_, text="x" * 60_000, partial=True)
    refused = await bob.fail("respond", id=id_, text="x" * 60_000, partial=True)
    assert "would have 120,001 characters" in refused["message"]
    await bob.do("respond", id=id_, text="the end")


async def test_two_parts_at_once_both_arrive(board: Any) -> None:
    alice, bob, twin = await board.join("alice", "bob", "bob")
    id_ = await ask(alice)
    await asyncio.gather(
        *((bob, twin)[n % 2].do("respond", id=id_, text=f"part {n}", partial=True) for n in range(4))
    )
    stands = await alice.do("request", id=id_, seconds=0)
    assert stands["request"]["parts"] == 4
    assert sorted(stands["answer"]["text"].splitlines()) == [f"part {n}" for n in range(4)]


async def test_a_call_that_is_repeated_with_its_key_asks_once(board: Any) -> None:
    alice = await board.join("alice")
    meta = {"blackboard/structured": True, "blackboard/idempotency_key": "k1"}
    arguments = {"text": "why?", "to": "bob", "seconds": 0}
    first = (await alice.client.call_tool("request", arguments, meta=meta)).structured_content
    again = (await alice.client.call_tool("request", arguments, meta=meta)).structured_content
    assert again["request"]["id"] == first["request"]["id"] == "Q-1"
    assert len((await alice.do("request"))["asked"]) == 1
    other = {**arguments, "text": "other"}
    assert (await alice.client.call_tool("request", other, meta=meta)).is_error


async def test_an_open_request_is_explained_and_outlives_a_pass(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(
        tmp_path, mode, tools=("core", "messages", "admin"), target_tokens=400
    ) as board:
        alice, bob = await board.join("alice", "bob")
        id_ = await ask(alice)
        await bob.do("respond", id=id_, text="half", partial=True)
        for n in range(20):
            await alice.post(f"{n} " + "word " * 30, "LOG")
        await board.settled()
        assert (await alice.item(id_))["zone"] == (await alice.item("E-2"))["zone"] == "working"
        assert "open request, which bob has yet to answer" in await alice.say("read", ids=[id_], explain=True)
        await bob.do("respond", id=id_, text="done")
        for n in range(20):
            await alice.post(f"{n} " + "word " * 30, "LOG")
        await board.settled()
        assert (await alice.item(id_))["zone"] == "archive"
        assert (await alice.do("request", id=id_))["answer"]["text"] == "half\ndone"


def test_skills_are_names() -> None:
    assert messaging.check_skills(["b", "a", "b"]) == ("b", "a")


@both
async def test_agents_look_up_protocols_by_a_tool_and_a_resource(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("hello")
    text = await alice.resource("board://main/protocols")
    assert "request-result 1: Ask one agent, or whoever has a skill" in text
    assert "  {scope}:request:{id} by the asker, once: {text, to?, skill?, deadline?, facts?}" in text
    facts = await alice.facts("board://main/protocols.json")
    assert len(facts["protocols"]) == 10
    assert facts["protocols"][1]["states"]["OFFERED"] == ["CLAIMED", "FAILED"]
    assert (await alice.do("request", protocols=True))["protocols"] == facts["protocols"]
    assert text in await alice.say("request", protocols=True)
    assert "alone" in (await alice.fail("request", protocols=True, to="bob"))["message"]


@both
async def test_acknowledging_an_open_request_is_told_how_to_answer_it(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    id = await ask(alice)
    failure = await bob.fail("debate", op="acknowledge", id=id)
    assert failure["error"] == "conflict"
    assert f'respond(id="{id}", text="…")' in failure["message"]
    assert f'{{"replies_to": ["{id}"]}}' in failure["message"]
    assert await state(bob, id) == "OPEN"
    await bob.post("the index is missing", "ANSWER", edges={"replies_to": [id]})
    failure = await bob.fail("debate", op="acknowledge", id=id)
    assert "You owe nothing" in failure["message"]


@pytest.mark.parametrize("name", ["take_next", "request"])
async def test_what_a_cancelled_call_had_taken_goes_to_the_next_agent(
    board: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Cancelled while it takes, and while it reads what it took."""
    alice, bob, cyd = await board.join("alice", "bob", "cyd")
    for agent in (bob, cyd):
        await agent.do("respond", skills=["sql"], seconds=0)
    id_ = await ask(alice, "skill:sql")
    before = await board.seq()
    asking, store = messaging.Messaging(board.opened.blackboard), board.opened.store
    work, reached, go_on = getattr(store, name), asyncio.Event(), asyncio.Event()

    async def slowly(*given: Any, **more: Any) -> Any:
        done = await work(*given, **more)
        reached.set()
        await go_on.wait()
        return done

    monkeypatch.setattr(store, name, slowly)
    call = asyncio.create_task(asking.next("bob", None, seconds=0))
    await asyncio.wait_for(reached.wait(), PATIENCE)
    assert await board.seq() == before + 1
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    monkeypatch.setattr(store, name, work)
    go_on.set()
    await asyncio.wait_for(asking.settle(), PATIENCE)
    told = (await alice.do("wait", since=before, seconds=0))["events"]
    assert [(event["event"], event["agent"]) for event in told] == [
        ("request.taken", "bob"),
        ("request.released", "bob"),
    ]
    assert (await cyd.do("respond", seconds=0))["request"]["id"] == id_


async def test_a_request_to_a_skill_is_not_offered_to_whoever_posts(board: Any) -> None:
    rob, sam, ops = await board.join("rob", "sam", "ops")
    await rob.do("request", text="How many cores?", to="skill:ops", seconds=0)
    view = await sam.say("read")
    assert "How many cores?" in view
    assert 'post(type="ANSWER"' not in view
    said = await sam.say("post", text="8", type="ANSWER", edges={"replies_to": ["Q-1"]})
    assert "Q-1 is a request and stays open for those whom it asks" in said
    await ops.do("respond", skills=["ops"])
    said = await ops.say("post", text="16", type="ANSWER", edges={"replies_to": ["Q-1"]})
    assert "Q-1 is answered" in said
    assert (await rob.do("request", id="Q-1", seconds=0))["request"]["state"] == "ANSWERED"


async def test_a_request_that_a_view_shows_is_no_news_of_the_next(tmp_path: Path) -> None:
    tools = ("core", "messages", "plan")
    async with boards.open_boards(tmp_path, boards.MODERN, tools=tools) as board:
        alice, bob, cleo = await board.join("alice", "bob", "cleo")
        await alice.post("The pump leaks.")
        await cleo.say("read")
        await alice.do("plan", items=[{"title": "one"}, {"title": "two", "after": ["$1"]}])
        await alice.do("request", to="bob", text="Which pump?", seconds=0)
        await alice.post("It is old.")
        assert "Which pump?" in await bob.say("read")
        for agent in (bob, cleo):
            said = await agent.say("read")
            assert ("came: F-3 by alice" in said) is (agent is cleo), said
            assert "came: Q-2" not in said
            assert "came: Q-2" not in await agent.say("read")
