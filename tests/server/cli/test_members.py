"""`members` as an operator runs it, in this process: what it says, changes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.cli import cli
from blackboard_mcp.storage.store import SqlBoardStore
from click.testing import CliRunner


async def _store(data: Path) -> SqlBoardStore:
    return await SqlBoardStore.open(data / "board.sqlite3", synchronous="NORMAL")


def said(data: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, ["members", "--data", str(data), *words], catch_exceptions=True)
    if isinstance(done.exception, BlackboardError):
        return done.exception.message
    return done.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    import asyncio

    async def make() -> None:
        store = await _store(tmp_path)
        await store.ensure_board("main", "alice", BoardConfig())
        await store.close()

    asyncio.run(make())
    return tmp_path


def test_an_operator_gives_lists_and_takes_roles(data: Path) -> None:
    assert said(data) == "board main gives nobody a role; credentials say what each agent may\n"
    assert said(data, "bob=observer", "ann=admin") == "ann admin\nbob observer\n"
    assert said(data, "ann=", "bob=steward") == "bob steward\n"
    assert said(data) == "bob steward\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("bob",), "no AGENT=ROLE"),
        (("bob=king",), "roles are observer, summariser"),
        (("two words=observer",), "two words"),
        (("=observer",), "name"),
        (("ann=admin", "bob=king"), "Nothing was changed"),
        (("--board", "absent", "bob=observer"), "absent"),
    ],
)
def test_what_is_no_role_agent_or_board_changes_nothing(data: Path, words: tuple[str, ...], why: str) -> None:
    assert why in said(data, *words)
    assert "nobody" in said(data)


async def test_a_change_by_an_operator_is_the_systems_event(tmp_path: Path) -> None:
    from blackboard_mcp.server.cli.members import _members
    from blackboard_mcp.server.settings.server import Settings

    store = await _store(tmp_path)
    await store.ensure_board("main", "alice", BoardConfig())
    await _members(Settings(data=tmp_path), {"bob": Role.OBSERVER})
    (event,) = (await store.log("main", "alice", 1, 10)).events
    assert (event.event, event.agent, event.data["member"]) == ("member.changed", "system", "bob")
    await store.close()
