"""Changes by other processes on the same data count within a second: owners of agents, and roles for read rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.access import ALL_SCOPES, Action, Principal, Role
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.server.access import rights as rights_module
from blackboard_mcp.server.access.rights import Recent
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.usecases.blackboard import Blackboard

RULES = [{"name": "incident", "readers": ["role:steward"], "tags": ["incident"]}]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the clock of the loop that runs."""
    return lambda now: monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)


async def test_a_value_is_at_most_a_second_old_and_who_asks_often_never_waits(at: Any) -> None:
    reads: list[str] = []

    async def read(key: str) -> int:
        reads.append(key)
        await asyncio.sleep(0)
        return len(reads)

    kept = Recent(read)
    at(10.0)
    assert [await kept.of("a"), await kept.of("a")] == [1, 1]
    at(10.6)
    assert [await kept.of("a"), await kept.of("a")] == [1, 1], "it is read beside the calls, once"
    for _ in range(3):
        await asyncio.sleep(0)
    assert (await kept.of("a"), reads) == (2, ["a", "a"])
    at(11.6)
    assert await kept.of("a") == 3, "too old: read by the call"
    assert await kept.of("a", afresh=True) == 4
    kept.forget(lambda key: key == "a")
    assert await kept.of("a") == 5
    kept.keep("a", 77)
    assert await kept.of("a") == 77


async def test_what_cannot_be_read_beside_the_calls_is_read_by_one(at: Any) -> None:
    fails = False

    async def read(key: str) -> int:
        if fails:
            raise StoreBusy("not now")
        return 1

    kept = Recent(read)
    at(10.0)
    assert await kept.of("a") == 1
    fails = True
    at(10.6)
    assert await kept.of("a") == 1
    await asyncio.sleep(0)
    at(11.0)
    with pytest.raises(StoreBusy):
        await kept.of("a")


@pytest.fixture
async def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Blackboard, Blackboard]]:
    """Two installations on one folder, of which the second brings rules, a second after whatever either did."""
    monkeypatch.setattr(rights_module, "SECONDS", 0.0)
    async with Board.open(agent="zed", data=tmp_path) as one:
        await one.post("begin")
        async with Board.open(agent="zed", data=tmp_path, settings={"read": RULES}) as other:
            yield one._opening.opened.blackboard, other._opening.opened.blackboard


def principal(agent: str, *, owner: str = "", role: Role = Role.CONTRIBUTOR) -> Principal:
    return Principal(
        agent=agent,
        owner=owner or agent,
        roles={"*": role},
        scopes=ALL_SCOPES,
        via="oauth",
        credential=str(role),
    )


async def test_an_agent_acts_for_the_owner_of_its_credential_whatever_another_process_was_shown(
    both: tuple[Blackboard, Blackboard],
) -> None:
    one, other = both
    for board, owner in ((one, "acme"), (other, "other"), (one, "acme"), (one, "acme"), (other, "other")):
        await board.rights.enter(principal("ana", owner=owner), {Action.READ}, "main")
        assert await board.store.owner_of("ana") == owner


async def test_a_server_from_before_the_rules_records_the_roles_that_they_name(
    both: tuple[Blackboard, Blackboard],
) -> None:
    one, other = both
    for board, role in (
        (other, Role.STEWARD),
        (one, Role.OBSERVER),
        (one, Role.STEWARD),
        (other, Role.OBSERVER),
    ):
        await board.rights.enter(principal("ana", role=role), {Action.READ}, "main")
        sees = (await board.store.viewers("main", ["ana"]))["ana"].sees("read:incident")
        assert sees is (role is Role.STEWARD)


async def test_a_role_that_another_process_was_shown_just_before_counts_for_no_other_credential(
    tmp_path: Path,
) -> None:
    async with (
        Board.open(agent="zed", data=tmp_path, settings={"read": RULES}) as one,
        Board.open(agent="zed", data=tmp_path, settings={"read": RULES}) as other,
    ):
        await one.post("begin")
        boards = [program._opening.opened.blackboard for program in (one, other)]
        for board, role in zip(
            [*boards, boards[0]], (Role.OBSERVER, Role.STEWARD, Role.OBSERVER), strict=True
        ):
            await board.rights.enter(principal("ana", role=role), {Action.READ}, "main")
            sees = (await board.store.viewers("main", ["ana"]))["ana"].sees("read:incident")
            assert sees is (role is Role.STEWARD)
