"""Members for programs: a board in the process gives roles as a server does, and holds its agents to them."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.errors import Forbidden
from blackboard_mcp.server.board import Board


async def test_a_board_in_the_process_holds_its_agents_to_their_roles() -> None:
    async with Board.open(agent="alice") as alice:
        bob = alice.as_agent("bob")
        await bob.post("before", type="LOG")
        assert (await alice.change(members={"bob": "observer"})).members == {"bob": "observer"}
        with pytest.raises(Forbidden, match="you are its observer"):
            await bob.post("after", type="LOG")
        assert (await bob.read(["L-1"])).items
        assert (await alice.change(members={"bob": None})).members == {}
        await bob.post("after", type="LOG")


async def test_launch_settings_hold_in_the_process() -> None:
    async with Board.open(agent="alice", settings={"stewards": ["lead"]}) as alice:
        await alice.post("x", type="LOG")
        with pytest.raises(Forbidden, match="stewards are lead"):
            await alice.change(title="mine")
        assert (await alice.as_agent("lead").change(title="ours")).title == "ours"
