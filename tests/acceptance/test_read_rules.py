"""Read rules against real servers: a file's rules bind every process on the folder, by name, owner and role."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.demo.process import Serving, command, environment, http_server, plainly
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "read-rules.md"
WHO = {
    "alice": ("alice", Role.CONTRIBUTOR),
    "fin": ("finance", Role.CONTRIBUTOR),
    "sam": ("sam", Role.STEWARD),
    "crawler": ("crawler", Role.CONTRIBUTOR),
    "reviewer": ("reviewer", Role.CONTRIBUTOR),
    "eve": ("eve", Role.CONTRIBUTOR),
}
"""Agents, with their owners and the roles of their tokens; those whom the page's rules name, and eve."""

Calls = dict[str, Any]


def page_rules() -> str:
    """The configuration that the page shows."""
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


async def tokens(data: Path) -> dict[str, str]:
    """A token for each agent."""
    found = {}
    async with compose.credentials(Settings(data=data)) as store:
        for agent, (owner, role) in WHO.items():
            made, found[agent] = new_access_token(
                agent=agent, owner=owner, roles={"*": role}, now=datetime.now(UTC)
            )
            await store.add_token(made)
    return found


async def do(client: Client, tool: str, **arguments: Any) -> Any:
    """A call's answer as data, or its error's text."""
    answer = await client.call_tool(tool, arguments, meta={"blackboard/structured": True})
    if answer.is_error:
        return " ".join(getattr(part, "text", "") for part in answer.content)
    return answer.structured_content or json.loads(getattr(answer.content[0], "text", "{}"))


@asynccontextmanager
async def clients(served: Serving, shown: dict[str, str]) -> AsyncIterator[dict[str, Client]]:
    """A client for each agent, of the one generation and the other in turn."""
    async with AsyncExitStack() as stack:
        found = {}
        for place, (agent, token) in enumerate(shown.items()):
            http = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE, trust_env=False
                )
            )
            client = Client(
                streamable_http_client(served.url, http_client=http), mode=(LEGACY, MODERN)[place % 2]
            )
            found[agent] = await stack.enter_async_context(plainly(client))
        yield found


async def readers(known: dict[str, Client], id_: str) -> set[str]:
    """The agents that find an item by its id."""
    found = set()
    for agent, client in known.items():
        answer = await do(client, "read", ids=[id_])
        if not isinstance(answer, str) and answer.get("items"):
            found.add(agent)
    return found


async def test_a_files_rules_bind_all_servers_of_the_folder_until_they_are_taken_away(tmp_path: Path) -> None:
    config, data = tmp_path / "rules.toml", tmp_path / "data"
    config.write_text(page_rules())
    shown = await tokens(data)
    async with (
        http_server(data, "--config", str(config)) as first,
        http_server(data) as second,
        clients(first, shown) as here,
        clients(second, shown) as there,
    ):
        for client in there.values():  # each has called, so the board and the roles are known
            await do(client, "post", text="here I am")
        for client in here.values():
            await do(client, "read")

        async def posted(agent: str, **said: Any) -> str:
            answer = await do(there[agent], "post", **said)
            assert not isinstance(answer, str), answer
            return str(answer["items"][0]["id"])

        pay = await posted("alice", text="Ann earns 7", key="pay:ann")
        log = await posted("eve", text="the door was open", type="LOG", tags=["incident"])
        raw = await posted("crawler", text="the moon is cheese")
        for known in (here, there):
            assert await readers(known, pay) == {"alice", "fin"}
            assert await readers(known, raw) == {"crawler", "reviewer"}
        # Roles are recorded by servers that begin with rules which name roles.
        assert await readers(here, log) == {"eve", "sam"}

        shown_to = {
            agent: str(await do(known, "read")) for agent, known in here.items() if agent in ("fin", "eve")
        }
        assert (
            "Ann earns 7"
            in shown_to["fin"].partition("seen by few (private: you alone; team; readers of a rule):")[2]
        )
        assert "Ann" not in shown_to["eve"]

        refused = await do(here["eve"], "post", text="x", key="pay:eve", visibility="board")
        assert "read rule 'payroll' keeps this for its readers" in refused
        assert "Nothing was changed" in refused
        mine = await do(here["eve"], "post", text="mine", key="pay:ann", expected_version=0)
        assert mine["items"][0]["version"] == 1, "a key that is hidden is free"
        assert (await do(here["fin"], "read", keys=["pay:ann"]))["items"][0]["text"] == "Ann earns 7"

        waiting = asyncio.create_task(do(here["eve"], "wait", since=mine["seq"], seconds=2))
        await do(there["alice"], "post", text="Bea earns 8", key="pay:bea")
        assert "pay:bea" not in json.dumps(await waiting)

    config.write_text("read = []\n")
    async with (
        http_server(data, "--config", str(config)) as served,
        clients(served, shown) as known,
    ):
        assert await readers(known, pay) == set(), "without its rule nobody reads what it kept"
        assert await readers(known, log) == {"eve"}
        open_ = await do(known["alice"], "post", text="open", key="pay:carl")
        assert await readers(known, str(open_["items"][0]["id"])) == set(WHO)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[read]]\nname = "A"\nreaders = []\nkey = "a"', "needs a name"),
        ('[[read]]\nname = "a"\nkey = "a"', "needs readers"),
        ('[[read]]\nname = "a"\nreaders = ["x"]', "needs at least one of key, types, tags, authors"),
        ('[[read]]\nname = "a"\nreaders = ["role:king"]\nkey = "a"', "is none of"),
        ('[[read]]\nname = "a"\nreaders = ["a:b"]\nkey = "a"', "is none of"),
        ('[[read]]\nname = "a"\nreaders = [1]\nkey = "a"', "is none of"),
        ('[[read]]\nname = "a"\nreaders = ["x"]\nkey = ""', "is not a key pattern"),
        ('[[read]]\nname = "a"\nreaders = ["x"]\ntypes = ["WISH"]', "is none of"),
        ('[[read]]\nname = "a"\nreaders = ["x"]\ntags = []', "a list of 1 to 100 tags"),
        ('[[read]]\nname = "a"\nreaders = ["x"]\nauthors = []', "a list of 1 to 1,000"),
        ('[[read]]\nname = "a"\nreaders = ["x"]\nkey = "a"\nwho = 1', "unknown key 'who'"),
        ('read = "x"', "read"),
        ("read = [1]", "must be a table"),
        (
            '[[read]]\nname="a"\nreaders=[]\nkey="a"\n[[read]]\nname="a"\nreaders=[]\nkey="b"',
            "there is a read rule",
        ),
    ],
)
def test_a_mistake_in_the_file_ends_the_launch_and_says_where(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "rules.toml"
    config.write_text(text)
    done = subprocess.run(
        command("policies", "--config", str(config), "--data", str(tmp_path / "data")),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert said in done.stderr
    assert str(config) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_lists_the_rules_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    config.write_text(page_rules())
    words = command("policies", "--config", str(config), "--data", str(tmp_path / "data"))
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=False
    )
    assert done.stdout.splitlines()[-4:] == [
        "read rules, the first that fits keeps an item:",
        "  1. payroll: key pay:**; for alice team:finance",
        "  2. incident-logs: types LOG, tags incident security; for role:steward role:admin",
        "  3. unvetted: authors team:contractor crawler; for reviewer",
    ]
