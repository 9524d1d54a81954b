"""The intake over a real socket: what clients hand over becomes items, proposals and hot issues, each line once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boards
import httpx2
import pytest
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tables import access_tables
from blackboard_mcp.server.http.intake import IntakeRoute
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.input.intake import Line
from blackboard_mcp.server.input.secrets import Secrets
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.usecases.intake import Intake
from fakemodel import FakeModel, fake_model
from patience import PATIENCE

board, mode = boards.board, boards.mode

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
MESSAGE = {"id": "m1", "kind": "message", "text": "Never commit to main. How are you?", "thread": "s1"}
CALL = {"id": "c1", "kind": "call", "tool": "pytest", "text": "pytest -q", "thread": "s1"}
HOOKED = '{"hook_event_name":"PostToolUse","session_id":"s1","tool_name":"T","tool_response":%s}'
FAILED = {"id": "r1", "kind": "result", "tool": "pytest", "ok": False, "text": "2 failed", "subject": "src"}


class Site:
    def __init__(self, http: httpx2.AsyncClient, there: Any) -> None:
        self.http, self.boards = http, there

    async def send(self, *lines: Any, agent: str = "ben", **more: Any) -> httpx2.Response:
        body = more.pop("body", "\n".join(json.dumps(line) for line in lines))
        headers = {"X-Blackboard-Agent": agent} if agent else {}
        return await self.http.post("/intake", content=body, headers=headers, params=more)

    async def hand_over(self, *lines: Any, **more: Any) -> Any:
        answer = await self.send(*lines, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, *lines: Any, **more: Any) -> tuple[int, str, str]:
        answer = await self.send(*lines, **more)
        told = answer.json()
        return answer.status_code, told["error"], told["message"]


@asynccontextmanager
async def serve(
    there: Any, secrets: Secrets | None = None, limits: Limits | None = None
) -> AsyncIterator[Site]:
    server = compose.build_server(there.opened)
    if limits is not None:
        server.limits = limits
        there.opened.blackboard.limit(limits)
    intake = IntakeRoute(
        there.opened.blackboard, secrets or Secrets(), there.opened.reader, admission=server.admission
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(
        serve_http(server, port=0, routes=[intake.route()], on_ready=ready.set_result, stop=stop)
    )
    url = await asyncio.wait_for(ready, PATIENCE)
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
        try:
            yield Site(http, there)
        finally:
            stop.set()
            await asyncio.wait_for(task, PATIENCE)


@pytest.fixture
def site(board: Any) -> Callable[..., AbstractAsyncContextManager[Site]]:
    return partial(serve, board)


Open = Callable[..., AbstractAsyncContextManager[Site]]


async def test_lines_become_items_proposals_and_hot_issues_of_the_agent(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("hello")
        told = await there.hand_over(MESSAGE, CALL, FAILED)
        items = [await alice.item(id_) for id_ in told["items"]]
        assert [item["text"] for item in items] == [
            "user: Never commit to main. How are you?",
            "calls pytest: pytest -q",
            "pytest failed for src: 2 failed",
        ]
        assert {(item["type"], item["author"]) for item in items} == {("LOG", "ben")}
        assert items[0]["thread"] == items[1]["thread"] != items[2]["thread"]
        (proposed,) = [await alice.item(id_) for id_ in told["proposed"]]
        assert (proposed["type"], proposed["text"]) == ("PLAN", "Proposed rule: Never commit to main.")
        (issue,) = [await alice.item(id_) for id_ in told["issues"]]
        assert (issue["type"], issue["status"]) == ("HOT_ISSUE", "ACTIVE")
        assert issue["text"] == "pytest fails for src: 2 failed"
        assert (told["board"], told["repeated"], told["masked"]) == ("main", 0, 0)
        passed = {**FAILED, "id": "r2", "ok": True, "text": "all passed"}
        assert (await there.hand_over(passed))["issues"] == told["issues"]
        assert (await alice.item(issue["id"]))["status"] == "RESOLVED"
        # What the server checks itself nobody else reports.
        own = {**FAILED, "id": "r3", "tool": "absent:*.log", "ok": True}
        assert (await there.hand_over(own))["issues"] == []


async def test_rules_too_many_for_one_message_are_counted(site: Open) -> None:
    async with site() as there:
        await there.boards.join("alice")
        text = " ".join(f"Never use port {n}." for n in range(13))
        told = await there.hand_over(
            {**MESSAGE, "text": text}, {**MESSAGE, "id": "m2", "text": "Never use port 13."}
        )
        assert (len(told["proposed"]), told["unproposed"]) == (11, 3)


async def test_lines_handed_over_again_add_nothing(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        first = await there.hand_over(MESSAGE, CALL, FAILED)
        await alice.do("post", id=first["proposed"][0], status="RESOLVED")
        seq = await there.boards.seq()
        again = await there.hand_over(MESSAGE, CALL, FAILED)
        assert (again["items"], again["proposed"], again["issues"], again["repeated"]) == ([], [], [], 3)
        assert await there.boards.seq() == seq
        both = await asyncio.gather(*(there.hand_over({**CALL, "id": "c2"}) for _ in range(4)))
        assert sorted(one["repeated"] for one in both) == [0, 1, 1, 1]
        assert (await there.hand_over(CALL, agent="eve"))["repeated"] == 0, "lines are an agent's own"
        status, code, said = await there.refused({**CALL, "text": "another"})
        assert (status, code) == (400, "invalid")
        assert said.startswith(
            "Line 1 (c1): Another line was handed over under this id before. This line was not "
        )
        seq = await there.boards.seq()
        await there.refused({**CALL, "thread": "a new one"})
        assert await there.boards.seq() == seq, "no item for the thread either"
        assert (await there.hand_over({**CALL, "id": "c9", "thread": "a new one"}))["repeated"] == 0
        assert (await there.hand_over({**CALL, "id": "c9", "thread": "a new one"}))["repeated"] == 1


async def test_the_rest_of_a_hand_over_that_failed_is_taken_by_the_next(site: Open) -> None:
    async with site() as there:
        await there.boards.join("alice")
        await there.hand_over(CALL)
        status, _, said = await there.refused({**CALL, "id": "c0"}, {**CALL, "text": "other"})
        assert status == 400
        assert said.startswith(
            "Line 2 (c1): Another line was handed over under this id before. This line was not written;"
        )
        assert "othing was changed" not in said, "a line before it was taken"
        assert said.endswith("The 1 before it were taken. Handing all over again adds nothing twice.")
        assert (await there.hand_over({**CALL, "id": "c0"}, {**CALL, "id": "c3"}))["repeated"] == 1


async def test_secrets_are_masked_or_refused_and_never_repeated(site: Open) -> None:
    secret = {**CALL, "text": f"export KEY={KEY} and hush-77"}
    async with site() as there:
        alice = await there.boards.join("alice")
        told = await there.hand_over(secret)
        assert told["masked"] == 1
        assert (await alice.item(told["items"][0]))["text"] == "calls pytest: export KEY=[secret] and hush-77"
        told = await there.hand_over({**CALL, "id": KEY}, {**CALL, "id": f"{KEY[:-1]}Z"})
        assert (len(told["items"]), told["masked"]) == (2, 2)
        assert KEY not in str([await alice.item(id_) for id_ in told["items"]])
    async with site(secrets=Secrets("refuse", ["hush-[0-9]+"])) as there:
        seq = await there.boards.seq()
        for text in (KEY, "hush-12", "password=hunter22"):
            status, code, said = await there.refused({**CALL, "id": "c7"}, {**CALL, "id": "c8", "text": text})
            assert (status, code) == (400, "refused")
            assert said.startswith("Line 2: It holds what looks like a password")
            assert text not in said
        assert await there.boards.seq() == seq
        assert (await there.hand_over({**CALL, "id": "c9", "text": "reset the password: please"}))[
            "masked"
        ] == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "1 to 200 lines of JSON, not 0"),
        ("\n".join(["{}"] * 201), "1 to 200 lines of JSON, not 201"),
        ("no json", "Line 1 is no JSON object"),
        ("[1]", "Line 1 is no JSON object"),
        ("[" * 100_000, "at most 50,000 JSON values"),
        ('{"id":' + "[" * 5_000, "Line 1 is no JSON object"),
        (json.dumps({**CALL, "more": 1}), "'more'"),
        (json.dumps({**CALL, "kind": "thought"}), "message"),
        (json.dumps({**CALL, "text": "x" * 20_001}), "20000"),
        (json.dumps({**CALL, "text": " "}), "id and text must not be blank"),
        (json.dumps({**CALL, "text": "a\0b"}), "NUL"),
        (json.dumps({**MESSAGE, "tool": "x"}), "tool goes with kind call and result"),
        (json.dumps({**FAILED, "ok": None}), "ok (true or false) goes with kind result"),
        (json.dumps({**CALL, "subject": "x"}), "subject goes with kind result"),
        (json.dumps({"hook_event_name": "Stop"}), "PostToolUseFailure or AfterTool"),
        (HOOKED % ("[" * 700 + "]" * 700), "nested too deeply"),
        (HOOKED % ('{"content":' * 700 + "1" + "}" * 700), "nested too deeply"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
async def test_a_wrong_line_is_explained_and_nothing_is_written(site: Open, body: Any, words: str) -> None:
    async with site() as there:
        status, code, said = await there.refused(body=body)
        assert (status, code) == (400, "invalid")
        assert words in said
        assert "othing was changed" in said
        assert await there.boards.seq() == 0


async def test_what_hooks_report_is_a_line(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "From now on use tabs."}
        used = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "t1"}
        told = await there.hand_over(prompt, {**used, "tool_input": {"command": "ls"}})
        texts = [(await alice.item(id_))["text"] for id_ in told["items"]]
        assert texts == ["user: From now on use tabs.", 'calls Bash: {"command": "ls"}']
        assert len(told["proposed"]) == 1
        assert (await there.hand_over(prompt))["repeated"] == 1


USED = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "t1"}
BASH = {"stdout": "2 passed", "stderr": "", "interrupted": False, "isImage": False}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"tool_response": BASH}, "Bash ok for pytest -q: 2 passed"),
        ({"tool_response": {**BASH, "stderr": "a warning"}}, "Bash ok for pytest -q: 2 passed\na warning"),
        ({"tool_response": {**BASH, "stdout": ""}}, "Bash ok for pytest -q: (no output)"),
        ({"tool_response": "2 passed"}, "Bash ok for pytest -q: 2 passed"),
        ({"tool_response": [{"type": "text", "text": "a"}, "b", {"type": "image", "data": "00"}]},
         "Bash ok for pytest -q: a\nb\n[image]"),
        ({"tool_response": {"content": [{"type": "text", "text": "a"}]}}, "Bash ok for pytest -q: a"),
        ({"tool_response": {"filePath": "x", "success": True}},
         'Bash ok for pytest -q: {"filePath": "x", "success": true}'),
        ({"tool_response": {"success": False}}, 'Bash failed for pytest -q: {"success": false}'),
        ({"tool_response": {"is_error": True, "content": "no"}}, "Bash failed for pytest -q: no"),
        ({"tool_response": {**BASH, "exit_code": 2}}, "Bash failed for pytest -q: 2 passed"),
        ({"tool_response": [{"type": "text", "text": "no", "isError": True}]}, "Bash failed for pytest -q: no"),
        ({"tool_response": "<tool_use_error>no</tool_use_error>"},
         "Bash failed for pytest -q: <tool_use_error>no</tool_use_error>"),
        ({"hook_event_name": "PostToolUseFailure", "error": "Exit code 1\n2 failed", "is_interrupt": False},
         "Bash failed for pytest -q: Exit code 1\n2 failed"),
        ({"hook_event_name": "AfterTool", "tool_response": {"llmContent": "no", "error": {"message": "gone"}}},
         'Bash failed for pytest -q: {"message": "gone"}\nno'),
        ({"tool_response": "a\0b\ud800"}, "Bash ok for pytest -q: a\ufffdb?"),
    ],
)  # fmt: skip
async def test_what_a_tool_gave_is_a_result(site: Open, said: Any, text: str) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        told = await there.hand_over({**USED, "tool_input": {"command": "pytest -q"}, **said})
        (item,) = [await alice.item(id_) for id_ in told["items"]]
        assert item["text"] == f'{text}\ncalled with {{"command": "pytest -q"}}'
        assert (item["type"], item["author"]) == ("LOG", "ben")
        assert len(told["issues"]) == ("failed" in text.split()[1])


async def test_a_failing_tool_is_a_hot_issue_until_it_passes_for_the_same(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        long = f"pytest {'x' * 300}"
        failed = {
            **USED,
            "hook_event_name": "PostToolUseFailure",
            "error": "Exit code 1",
            "tool_input": {"command": f"{long}a"},
        }
        told = await there.hand_over(failed)
        (issue,) = [await alice.item(id_) for id_ in told["issues"]]
        assert (issue["type"], issue["status"]) == ("HOT_ISSUE", "ACTIVE")
        passed = {**USED, "tool_response": BASH}
        other = await there.hand_over({**passed, "tool_use_id": "t2", "tool_input": {"command": f"{long}b"}})
        assert other["issues"] == [], "another command of the same beginning"
        # An interrupted call neither passed nor failed.
        for n, said in enumerate(
            ({**failed, "is_interrupt": True}, {**passed, "tool_response": {"interrupted": True}})
        ):
            stopped = await there.hand_over({**said, "tool_use_id": f"i{n}"})
            assert stopped["issues"] == []
            assert (await alice.item(stopped["items"][0]))["text"].startswith("calls Bash: ")
        same = {**passed, "tool_use_id": "t3", "tool_input": failed["tool_input"]}
        assert (await there.hand_over(same))["issues"] == told["issues"]
        assert (await alice.item(issue["id"]))["status"] == "RESOLVED"


@pytest.mark.parametrize("place", range(2_990, 3_010, 3))
async def test_what_a_tool_gave_is_bounded_and_secrets_are_found_before_it_is_cut(
    site: Open, place: int
) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        output = f"{'o' * place} {KEY} {'p' * 300_000} {KEY} the end"
        asked = {"command": f"echo {'i' * (place - 2_815)} {KEY} {'j' * 200_000}"}
        told = await there.hand_over({**USED, "tool_input": asked, "tool_response": {"stdout": output}})
        text = (await alice.item(told["items"][0]))["text"]
        assert told["masked"] == 4, "twice in the output, in the input and in the subject"
        assert KEY[:8] not in text
        assert "[secret] the end\ncalled with" in text
        assert len(text) < 8_500


async def test_a_long_prompt_of_a_hook_is_bounded(site: Open) -> None:
    async with site() as there:
        await there.boards.join("alice")
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "s",
            "prompt": f"Never push. {'x ' * 30_000}",
        }
        told = await there.hand_over(prompt)
        assert (len(told["items"]), len(told["proposed"])) == (1, 1)


async def test_only_those_who_may_post_hand_over_and_only_as_themselves(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("a")
        assert (await there.refused(CALL, agent="no name"))[:2] == (400, "invalid")
        assert (await there.refused(CALL, board="none"))[:2] == (404, "not_found")
        await alice.do("board", members={"eve": "observer"})
        assert (await there.refused(CALL, agent="eve"))[:2] == (403, "forbidden")
        read_first = await there.refused(body=b"\xff", agent="eve")
        assert read_first[:2] == (403, "forbidden"), "who may not hand over is not read"
        assert (await there.http.get("/intake", headers={"X-Blackboard-Agent": "ben"})).status_code == 405


async def test_access_policies_judge_a_hand_over_by_the_role_of_who_makes_it(
    tmp_path: Path, mode: str
) -> None:
    rules = [{"types": ["LOG"], "roles": ["contributor", "admin"]}]
    table = {"name": "logs", "policy": "roles", "rules": rules, "boards": ["*"]}
    policies = access_tables([table], "access")
    async with boards.open_boards(tmp_path, mode, access=policies) as opened, serve(opened) as there:
        assert (await there.hand_over(CALL, agent="alice"))["items"], "without members everybody is admin"
        alice = await opened.join("alice")
        await alice.do("board", members={"ben": "contributor", "eve": "decider"})
        assert (await there.hand_over(CALL, agent="ben"))["items"]
        status, error, words = await there.refused(CALL, agent="eve")
        assert (status, error) == (403, "forbidden")
        assert "and yours is decider" in words


async def test_a_hand_over_keeps_to_the_limits_of_posts(site: Open) -> None:
    async with site(limits=Limits(posts_per_second=0.01, posts_burst=100)) as there:
        lines = [{"id": f"c{n}", "kind": "call", "tool": "ls", "text": "ls"} for n in range(110)]
        answer = await there.send(*lines)
        assert (answer.status_code, answer.json()["line"]) == (429, 101)
        assert int(answer.headers["Retry-After"]) >= 1
        assert (await there.hand_over(*lines[:100]))["repeated"] == 100, "what was taken is not charged again"


async def test_handing_over_shows_the_agent_no_rules(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("Never push on Fridays.", "CONSTRAINT")
        await there.hand_over(MESSAGE)
        assert [rule.text for rule in (await there.boards.opened.store.rules("main", "ben")).unseen]


# A model that reads messages, too


@pytest.fixture
async def read_by_a_model(tmp_path: Path, mode: str) -> AsyncIterator[tuple[Site, FakeModel]]:
    async with fake_model() as model:
        named = {"summariser": "ollama", "summary_url": model.url, "summary_model": "small"}
        async with (
            boards.open_boards(tmp_path, mode, capture="model", summary_timeout_seconds=1, **named) as opened,
            serve(opened) as there,
        ):
            yield there, model


def message(place: int, text: str, **more: Any) -> dict[str, Any]:
    return {"id": f"m{place}", "kind": "message", "text": text, **more}


async def test_a_hand_over_asks_the_model_once_for_all_messages_that_are_new(
    read_by_a_model: tuple[Site, FakeModel],
) -> None:
    there, model = read_by_a_model
    tabs = "Tabs drive me mad."
    model.says(json.dumps({"rules": [{"text": tabs, "strength": "prefer"}]}))
    lines = [message(1, f"Hello. {tabs}", thread="s1"), MESSAGE | {"id": "m2"}, CALL, message(3, tabs)]
    told = await there.hand_over(*lines)
    ann = await there.boards.join("ann")
    texts = [(await ann.item(id_))["text"] for id_ in told["proposed"]]
    assert texts == [f"Rule proposed by a model: {tabs}", "Proposed rule: Never commit to main."]
    assert (told["model"], len(model.asked)) == (None, 1)
    assert CALL["text"] not in model.asked[0].prompt
    # What was handed over before is not sent again.
    again = await there.hand_over(*lines, message(4, "Green buttons look cheap."))
    assert (again["proposed"], again["repeated"]) == ([], 4)
    assert len(model.asked) == 2
    assert tabs not in model.asked[1].prompt
    assert (await there.hand_over(*lines))["repeated"] == 4
    assert len(model.asked) == 2


async def test_one_hand_over_sends_the_model_a_bounded_number_of_messages_and_says_so(
    read_by_a_model: tuple[Site, FakeModel],
) -> None:
    there, model = read_by_a_model
    model.says('{"rules": []}')
    told = await there.hand_over(*(message(n, f"Colour {n} drives me mad.") for n in range(50)))
    assert (told["model"], len(model.asked)) == ("the model read only the first 20 messages", 1)
    assert "Colour 19 " in model.asked[0].prompt
    assert "Colour 20 " not in model.asked[0].prompt
    long = "It drives me mad. " * 1_000
    told = await there.hand_over(*(message(100 + n, long) for n in range(3)))
    assert told["model"] == "the model read only the first message"
    assert len(model.asked[1].prompt) < 80_000


async def test_a_hand_over_to_a_model_that_hangs_is_taken_with_what_the_patterns_find(
    read_by_a_model: tuple[Site, FakeModel],
) -> None:
    there, model = read_by_a_model

    async def hang(asked: Any, reply: Any) -> None:
        await reply.hang()

    model.behave = hang
    async with asyncio.timeout(PATIENCE):
        told = await there.hand_over(MESSAGE, CALL, FAILED)
    assert (len(told["items"]), len(told["proposed"]), len(told["issues"])) == (3, 1, 1)
    assert told["model"] == "the model did not answer"
    assert len(model.asked) == 1


async def test_hand_overs_count_as_calls_under_way(tmp_path: Path, mode: str) -> None:
    async with fake_model() as model:
        over = asyncio.Event()

        async def answer_later(asked: Any, reply: Any) -> None:
            await over.wait()
            await reply.completion(asked, "[]")

        model.behave = answer_later
        named = {
            "summariser": "ollama",
            "summary_url": model.url,
            "summary_model": "small",
            "capture": "model",
        }
        limits = Limits(calls_per_principal=1)
        async with (
            boards.open_boards(tmp_path, mode, limits=limits, **named) as opened,
            serve(opened) as there,
        ):
            first = asyncio.create_task(there.hand_over(MESSAGE))
            await asyncio.wait_for(model.came.wait(), PATIENCE)
            refused = await there.send(CALL)
            assert (refused.status_code, refused.json()["limit"]) == (429, "calls_per_principal")
            assert refused.headers["Retry-After"] == "1"
            assert (await there.hand_over(CALL, agent="ann"))["items"], "others go on"
            over.set()
            assert (await first)["items"]
            assert (await there.hand_over(CALL))["items"]


async def test_lines_that_are_handed_over_again_after_a_cut_do_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "memory", "admin")) as board:
        await cut_and_again(board, monkeypatch)


async def cut_and_again(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.post("hello")
    blackboard = board.opened.blackboard
    intake = Intake(blackboard, Secrets())
    lines = [
        Line(id="r1", kind="result", tool="pytest", subject="s", ok=False, text="2 failed"),
        Line(id="m1", kind="message", text="Never commit to main."),
    ]
    honest = type(blackboard).post

    async def cut(self: Any, agent: str, name: str, posts: Any, *given: Any, **more: Any) -> Any:
        if posts[0].type == "LOG":
            raise asyncio.CancelledError
        return await honest(self, agent, name, posts, *given, **more)

    for line in lines:
        with monkeypatch.context() as cutting:
            cutting.setattr(type(blackboard), "post", cut)
            with pytest.raises(asyncio.CancelledError):
                await intake.hand_over("ann", "main", [line])
    issue = (await ben.do("query", type="HOT_ISSUE"))["items"][0]["id"]
    await ben.do("report_result", check="pytest", subject="s", ok=True)
    proposal = (await ben.do("constraint"))["proposals"][0]["id"]
    await ben.do("constraint", id=proposal, retire="not meant as a rule")
    assert len((await intake.hand_over("ann", "main", lines)).items) == 2
    assert (await ben.item(issue))["status"] == "RESOLVED"
    assert (await ben.do("constraint"))["proposals"] == []
