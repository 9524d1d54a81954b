"""The authorisation matrix: every kind of call × role × own or another's × scopes, by real calls (F36).

And boards out of reach, which answer everywhere as those that are not there (I25).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import access_rows as rows
import boards
import httpx2
import mcp.types as types
import pytest
from blackboard_mcp.protocols.access import (
    ALL_SCOPES,
    EVERY_BOARD,
    POWERS,
    SCOPED,
    Action,
    Principal,
    Role,
    Scope,
)
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.server import compose
from blackboard_mcp.server.access import rights
from blackboard_mcp.server.access.door import Door
from blackboard_mcp.server.access.needs import TOOLS, Needs
from blackboard_mcp.server.http.application import build_application
from blackboard_mcp.server.http.events import EventStreams
from blackboard_mcp.server.mcp.server import ConnectionInfo
from mcp.shared.exceptions import MCPError

pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

SETS = ("core", "run", "plan", "admin", "memory", "workspace", "messages")
OTHER = "other"
ABSENT, HIDDEN = "nowhere", "vault"
FEW = 6
"""Rows to an installation: the more debates are open on a board, the dearer is each call."""


class Gate:
    """A server whose callers are who the test says, one client a role, of both generations in turn."""

    def __init__(self, there: Any) -> None:
        self.there = there
        self.opened = there.opened
        self.stage = rows.Stage(there.opened)
        self.who: dict[str, Principal] = {}
        self.clients: dict[str, Any] = {}
        self.server = there.server = compose.build_server(there.opened, identify=self._identify)

    def _identify(self, info: ConnectionInfo) -> Principal:
        name = info.headers.get("x-blackboard-agent") or info.client_name or ""
        return self.who[name]

    def be(
        self, agent: str, role: Role | None, scopes: Iterable[Scope] = ALL_SCOPES, **on: Role
    ) -> Principal:
        """From now on the agent has this role on every board (`None`: on those alone that are named)."""
        everywhere = {} if role is None else {EVERY_BOARD: role}
        who = self.who[agent] = Principal(agent, agent, {**everywhere, **on}, frozenset(scopes), via="token")
        return who

    async def client(self, agent: str) -> Any:
        if agent not in self.clients:
            mode = (boards.LEGACY, boards.MODERN)[len(self.clients) % 2]
            self.clients[agent] = (await self.there.join(agent, mode=mode)).client
        return self.clients[agent]

    async def call(self, agent: str, tool: str, arguments: dict[str, Any]) -> tuple[str, Any]:
        """What came of a call: `ok` or its error's code, and the answer."""
        result = await (await self.client(agent)).call_tool(tool, arguments, meta=boards.STRUCTURED)
        said = result.structured_content
        return (said["error"] if result.is_error else "ok"), said

    async def state(self, agent: str) -> tuple[Any, ...]:
        """What changes with any call that changes something: the boards' logs, and what leaves no event."""
        store = self.opened.store
        seqs = [(await store.find_board(name)).seq for name in ("main", HIDDEN)]
        held = await store.subscriptions("main", agent)
        return *seqs, held, await store.skills("main"), await store.groups("main")


@asynccontextmanager
async def gate(folder: Path) -> AsyncIterator[Gate]:
    given = {"tools": SETS, "target_tokens": 10_000_000, "board_settings": {"panels": ["nest"]}}
    async with boards.open_boards(folder, boards.LEGACY, **given) as there:
        made = Gate(there)
        await made.stage.claim("somebody")
        await made.stage.claim("somebody", HIDDEN)
        await there.settled()
        yield made


def cells(some: Iterable[Any]) -> Iterable[tuple[Any, Role, str, frozenset[Scope], bool]]:
    """Row, role, whose it is about, scopes, and whether that is allowed."""
    for row in some:
        main = row.scopes if len(row.scopes) == 1 else row.scopes - {Scope.READ}
        for role in Role:
            for author in (str(role), OTHER):
                allowed = role in row.roles
                yield row, role, author, row.scopes, allowed
                yield row, role, author, ALL_SCOPES - main, False


async def walk(gate: Gate, some: Iterable[Any]) -> int:
    """Makes the call of every cell of some rows; how many there were."""
    made = 0
    for row, role, author, scopes, allowed in cells(some):
        agent, made = str(role), made + 1
        cell = f"{row.tool}({row.case}) by {role} on {author}'s with {sorted(scopes)}"
        arguments = await row.prepare(gate.stage, agent, author)
        needs = TOOLS[row.tool]
        assert row.case in [case.name for case in needs.cases if case.holds(arguments)], cell
        gate.be(agent, role, scopes)
        before = await gate.state(agent)
        code, said = await gate.call(agent, row.tool, arguments)
        if allowed:
            assert code == (row.own if author == agent else row.others), (cell, said)
        else:
            assert code == "forbidden", (cell, said)
            assert await gate.state(agent) == before, cell
            assert Action(said["action"]) in needs.of(arguments), cell
            assured = 0 if needs.only_reads(arguments) else 1
            assert said["message"].count("Nothing was changed") == assured, cell
            lacks = Scope(said["scope"]) not in scopes
            assert (said["scope"] in said["message"]) == lacks, cell
            assert lacks or set(said["roles"]) == {str(r) for r in row.roles}, cell
    return made


def of_tool(tool: str) -> list[Any]:
    return [row for row in rows.ROWS if row.tool == tool]


def check_rows(needs: dict[str, Needs]) -> None:
    """Fails where a kind of call has no row, or a row no kind of call."""
    kinds = [(tool, case.name) for tool, of in needs.items() for case in of.cases]
    assert sorted(kinds) == sorted((row.tool, row.case) for row in rows.ROWS)


async def test_f36_every_kind_of_call_is_for_its_roles_and_scopes_alone(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        check_rows(there.server.needs)
    made = 0
    for first in range(0, len(rows.ROWS), FEW):
        async with gate(tmp_path / str(first)) as there:
            made += await walk(there, rows.ROWS[first : first + FEW])
    assert made == len(rows.ROWS) * len(Role) * 4


async def test_a_tool_or_a_case_without_a_row_fails(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        needs = there.server.needs
        for lacking in ({**needs, "new": TOOLS["read"]}, {**needs, "post": TOOLS["core"]}):
            with pytest.raises(AssertionError):
                check_rows(lacking)
        assert all(of.cases for of in needs.values())
        assert all(case.needs for of in needs.values() for case in of.cases)


@pytest.mark.parametrize("row", [r for r in rows.ROWS if r.case in ("", "write", "decide", "members")])
async def test_a_members_role_counts_in_the_place_of_the_credentials(tmp_path: Path, row: Any) -> None:
    async with gate(tmp_path) as there:
        for role in Role:
            for own in (Role.OBSERVER, Role.STEWARD):
                agent = f"{own}.{role}"
                await there.opened.store.change_board("main", "operator", BoardChange(members={agent: role}))
                there.be(agent, own)
                code, said = await there.call(agent, row.tool, await row.prepare(there.stage, agent, OTHER))
                assert (code == row.others) == (role in row.roles), (row, role, own, said)
                assert code in {row.others, "forbidden"}, (row, role, own, said)


async def test_I25_a_hidden_board_answers_as_one_that_is_not_there(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        there.be("outsider", None, main=Role.ADMIN)
        for row in rows.ROWS:
            arguments = await row.prepare(there.stage, "outsider", OTHER)
            before = await there.state("outsider")
            hidden = await there.call("outsider", row.tool, {**arguments, "board": HIDDEN})
            absent = await there.call("outsider", row.tool, {**arguments, "board": ABSENT})
            assert hidden[0] == absent[0] == "not_found", row
            assert str(hidden).replace(HIDDEN, ABSENT) == str(absent), row
            assert await there.state("outsider") == before, row
        told = [await there.call("outsider", "board", {"parent": name}) for name in (HIDDEN, ABSENT)]
        assert told[0][0] == "not_found"
        assert str(told[0]).replace(HIDDEN, ABSENT) == str(told[1])
        await there.opened.store.change_board("main", "operator", BoardChange(parent=HIDDEN))
        _, said = await there.call("outsider", "board", {})
        assert said["parent"] is None
        _, said = await there.call("outsider", "read", {"since": 0})
        assert HIDDEN not in str(said)
        client = await there.client("outsider")
        text = boards.text_of(await client.call_tool("board", {}))
        assert HIDDEN not in text


async def test_I25_hidden_boards_are_in_no_resource_list_or_completion(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        there.be("outsider", None, main=Role.OBSERVER)
        there.be("insider", Role.OBSERVER)
        outsider, insider = await there.client("outsider"), await there.client("insider")
        templates = [t.uri_template for t in there.server.published_templates]
        assert len(templates) == 38
        for template in templates:
            uri = template.replace("{id}", "H-1").replace("{name}", "nest").replace("{?after}", "")
            uri = uri.replace("{agent}", "{{agent}}")
            told = []
            for name in (HIDDEN, ABSENT):
                with pytest.raises(MCPError) as refused:
                    await outsider.read_resource(
                        uri.replace("{board}", name).replace("{{agent}}", "outsider")
                    )
                told.append(str(refused.value.error).replace(name, "*"))
            assert told[0] == told[1], template
            for reader, name in ((outsider, "main"), (insider, HIDDEN)):
                agent = "outsider" if reader is outsider else "insider"
                assert (
                    await reader.read_resource(uri.replace("{board}", name).replace("{{agent}}", agent))
                ).contents
            there.be("insider", Role.ADMIN, ALL_SCOPES - {Scope.READ})
            with pytest.raises(MCPError, match="board:read"):
                await insider.read_resource(uri.replace("{board}", HIDDEN).replace("{{agent}}", "insider"))
            there.be("insider", Role.OBSERVER)
        ref = types.ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}")
        for client, names in ((outsider, ["main"]), (insider, ["main", HIDDEN])):
            done = await client.complete(ref, {"name": "board", "value": ""})
            assert done.completion.values == names
            for name in (HIDDEN, ABSENT):
                done = await client.complete(ref, {"name": "id", "value": ""}, {"board": name})
                assert bool(done.completion.values) == (client is insider and name == HIDDEN)
        listed = {str(one.uri) for one in (await outsider.list_resources()).resources}
        assert listed >= {"boards://all", "board://main/view/outsider"}
        assert not [uri for uri in listed if HIDDEN in uri]
        contents = (await outsider.read_resource("boards://all")).contents
        assert HIDDEN not in contents[0].text
        for prompt in (await outsider.list_prompts()).prompts:
            said = []
            for name in (HIDDEN, ABSENT):
                given = {a.name: "F-1" for a in prompt.arguments or () if a.required}
                with pytest.raises(MCPError) as refused:
                    await outsider.get_prompt(prompt.name, {**given, "board": name})
                said.append(str(refused.value.error).replace(name, "*"))
            assert said[0] == said[1]


async def test_I25_nobody_hears_of_a_hidden_board(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        await there.there.announcing()
        inbox = boards.Inbox()
        there.be("legacy", Role.OBSERVER)
        joined = await there.there.join("legacy", mode=boards.LEGACY, inbox=inbox)
        for name in ("main", HIDDEN):
            await joined.client.subscribe_resource(f"board://{name}/working")
        await there.stage.claim("somebody", HIDDEN)
        await inbox.until(f"board://{HIDDEN}/working")
        there.be("narrow", None, main=Role.OBSERVER)
        narrow = await there.there.join("narrow", mode=boards.LEGACY)
        told = []
        for name in (HIDDEN, ABSENT):
            with pytest.raises(MCPError) as refused:
                await narrow.client.subscribe_resource(f"board://{name}/working")
            told.append(str(refused.value.error).replace(name, "*"))
        assert told[0] == told[1]
        there.be("modern", None, main=Role.OBSERVER)
        modern = await there.there.join("modern", mode=boards.MODERN)
        async with modern.client.listen(
            resource_subscriptions=[f"board://{name}/working" for name in ("main", HIDDEN, ABSENT)]
        ) as listening:
            assert listening.honored.resource_subscriptions == ["board://main/working"]


async def test_f36_event_streams_are_for_readers_of_the_board(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        streams = EventStreams(there.opened.blackboard)
        streams.close()  # those that are let in end at once
        app = build_application(
            there.server, allowed_hosts=["h"], allowed_origins=[], routes=[streams.route()]
        )
        there.be("outsider", None, main=Role.OBSERVER)
        there.be("writer", Role.ADMIN, ALL_SCOPES - {Scope.READ})
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://h", trust_env=False) as http:

            async def get(agent: str, board: str) -> tuple[int, str]:
                answer = await http.get(f"/boards/{board}/events", headers={"x-blackboard-agent": agent})
                return answer.status_code, answer.text.replace(board, "*")

            for role in Role:
                there.be(str(role), role)
                assert (await get(str(role), "main"))[0] == 200
            assert (await get("writer", "main"))[0] == 403
            hidden, absent = await get("outsider", HIDDEN), await get("outsider", ABSENT)
            assert hidden[0] == 404
            assert hidden == absent
            assert (await get("outsider", "main"))[0] == 200


async def test_a_refusal_names_who_may_to_readers_alone(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        change = BoardChange(members={"bob": Role.CONTRIBUTOR, "carol": Role.OBSERVER})
        await there.opened.store.change_board("main", "operator", change)
        there.be("reader", Role.OBSERVER)
        code, said = await there.call("reader", "post", {"text": "x"})
        assert (code, said["can"], said["role"]) == ("forbidden", ["bob"], "observer")
        assert said["message"] == (
            "You may not post there ('main', action post): you are its observer, and that takes the role contributor "
            "or decider or steward or admin. On 'main' bob may. Nothing was changed; an admin of the board gives roles."
        )
        there.be("writer", Role.ADMIN, {Scope.POST})
        code, said = await there.call("writer", "board", {"title": "x"})
        assert code == "forbidden"
        assert "can" not in said
        assert "bob" not in said["message"]


async def test_who_may_post_and_not_read_is_answered_with_nothing_that_others_wrote(tmp_path: Path) -> None:
    async with gate(tmp_path) as there:
        there.be("alice", Role.CONTRIBUTOR)
        there.be("bob", Role.CONTRIBUTOR)
        there.be("writer", Role.ADMIN, {Scope.POST})
        theirs = {"tags": ["canary"], "metadata": {"about": "canary"}}
        await there.call("alice", "post", {"text": "canary: the tower leans", "type": "FACT"} | theirs)
        await there.call("alice", "post", {"text": "canary", "key": "plan:x"} | theirs)
        ids = [i["id"] for i in (await there.call("alice", "query", {"tags": ["canary"]}))[1]["items"]]
        entry, fact = sorted(ids, key=lambda id_: int(id_.partition("-")[2]), reverse=True)
        mine = {"text": "mine", "key": "plan:own", "tags": ["own"]}
        code, fresh = await there.call("writer", "post", mine)
        assert (code, fresh["items"][0]["text"], fresh["items"][0]["tags"]) == ("ok", "mine", ["own"])
        await there.call("bob", "post", {"key": "plan:own", "text": "canary"} | theirs)
        for call in (
            {"text": "canary: the  tower LEANS", "type": "FACT"},
            {"id": fact, "status": "RESOLVED"},
            {"id": entry, "importance": 2},
            {"key": "plan:x", "text": "over it"},
            {"id": fresh["items"][0]["id"], "importance": 2},
            {"items": [{"text": "one"}, {"id": entry, "importance": 3}], "idempotency_key": "k"},
            {"items": [{"text": "one"}, {"id": entry, "importance": 3}], "idempotency_key": "k"},
        ):
            code, said = await there.call("writer", "post", call)
            assert code == "ok", said
            assert "canary" not in str(said).lower(), call
            assert said["items"][-1]["id"]
        for said in ("the tower leans by 4 degrees", "it may stand on sand"):
            await there.call("alice", "post", {"text": said, "type": "HYPOTHESIS"})
        for call in (
            {"text": "the tower leans by 5 degrees", "type": "HYPOTHESIS"},
            {"text": "no", "type": "CRITIQUE", "edges": {"critiques": [fact]}},
        ):
            code, said = await there.call("writer", "post", call)
            assert (code, said["remarks"]) == ("ok", [])
            plain = await (await there.client("writer")).call_tool("post", {**call, "tags": ["again"]})
            assert not any(word in str(plain.content) for word in ("4 degrees", "sand", "alice")), plain
        assert (await there.call("bob", "post", {"id": entry, "importance": 4}))[1]["items"][0]["tags"]


async def test_a_tool_whose_check_is_skipped_fails_the_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in = Door.let_in

    async def lax(self: Door, principal: Principal, needs: frozenset[Action], board: str | None) -> Any:
        return None if needs == {Action.POST} else await let_in(self, principal, needs, board)

    monkeypatch.setattr(Door, "let_in", lax)
    async with gate(tmp_path) as there:
        with pytest.raises(AssertionError, match=r"post\(\) by observer"):
            await walk(there, of_tool("post"))


@pytest.mark.parametrize(
    ("role", "action", "tool"),
    [
        (Role.OBSERVER, Action.ACKNOWLEDGE, "debate"),
        (Role.SUMMARISER, Action.POST, "post"),
        (Role.CONTRIBUTOR, Action.DECIDE, "debate"),
        (Role.DECIDER, Action.MODERATE, "core"),
        (Role.STEWARD, Action.ADMINISTER, "board"),
    ],
)
async def test_a_role_that_may_one_thing_too_much_fails_the_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role, action: Action, tool: str
) -> None:
    monkeypatch.setattr(rights, "POWERS", {**POWERS, role: POWERS[role] | {action}})
    rights._powers.cache_clear()
    try:
        async with gate(tmp_path) as there:
            with pytest.raises(AssertionError, match=str(role)):
                await walk(there, of_tool(tool))
    finally:
        rights._powers.cache_clear()


async def test_a_scope_that_opens_one_thing_too_much_fails_the_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "SCOPED", {**SCOPED, Scope.READ: SCOPED[Scope.READ] | {Action.MODERATE}})
    rights._powers.cache_clear()
    try:
        async with gate(tmp_path) as there:
            with pytest.raises(AssertionError, match=r"core\(write\) by steward"):
                await walk(there, of_tool("core"))
    finally:
        rights._powers.cache_clear()
