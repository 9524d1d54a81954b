"""Five agents in processes of their own solve a problem on one board, three over HTTP and two over stdio.

    python docs/examples/team.py

starts a server on a folder of its own, plays the agents, and prints the answer. The agents are scripted; yours ask
language models where these take a line from `KNOWS`. What matters is the loop in `play`: one call, `turn`, says what to
do, ends a turn and waits for the next.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from blackboard_mcp.protocols.errors import Unreachable
from blackboard_mcp.protocols.run_wire import TurnAnswer
from blackboard_mcp.server.board import BoardClient

PROBLEM = "Which pump do we buy? It must move 60 litres a minute and cost less than 300."
LEAD = "lead"
STDIO = ("buyer", "skeptic")
ROLES = {
    "tester": "measures pumps",
    "buyer": "asks for prices",
    "skeptic": "looks for mistakes",
    "clerk": "sums up",
}
KNOWS = {
    "tester": "The blue pump moves 64 litres a minute, the red one 58.",
    "buyer": "The blue pump costs 280, the red one 190.",
    "skeptic": "Was the flow of the blue pump measured with the long hose?",
    "clerk": "The blue pump moves enough and costs less than 300.",
}
TASKS: list[dict[str, Any]] = [
    {"title": "measure the flow", "worker": "tester"},
    {"title": "ask for prices", "worker": "buyer"},
    {"title": "compare the pumps", "after": ["$1", "$2"], "worker": "clerk", "verify": True},
]


async def work(board: BoardClient, agent: str) -> str:
    """Does what the agent has to do now, and returns what it says in its turn."""
    said = []
    while (taken := await board.claim(seconds=0)) is not None:
        done = await board.settle("done", taken.id, KNOWS[agent], lease=taken.lease)
        said.append(f"{taken.id} is done in {done.item}.")
    if agent == "skeptic":
        for task in (await board.agenda()).review:
            await board.settle("verify", task, "I compared it with both results.", ok=True)
            said.append(f"{task} is right.")
    return " ".join(said) or KNOWS[agent]


async def decide(board: BoardClient, now: TurnAnswer) -> dict[str, object]:
    """Returns the lead's decision on who is next."""
    order = ["tester", "buyer", "skeptic", "tester", "clerk", "skeptic"]
    if now.round == len(order):
        return {"terminate": True, "instruction": "The comparison is done and confirmed."}
    return {
        "terminate": False,
        "next_agent": order[now.round],
        "instruction": "Go on with what waits for you.",
    }


async def play(agent: str, url: str, data: str) -> None:
    """Plays one agent until the run has its answer. A server that restarts meanwhile is waited for."""
    if agent in STDIO:
        command = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--data", data]
        client = BoardClient.stdio([*command, "--agent", agent, "--tools", "core,run,plan"], agent=agent)
    else:
        client = BoardClient.connect(url, agent=agent)
    async with client as board:
        await board.join(ROLES.get(agent, "decides"))
        if agent == LEAD:
            await board.plan(TASKS)
            await board.start_run(PROBLEM, list(ROLES), coordinator=LEAD, decider=LEAD)
        now = await board.turn()
        while now.state != "finished":
            if now.kind == "contribute":
                now = await board.turn(await work(board, agent), lease=now.lease)
            elif now.kind == "decide":
                now = await board.turn(decision=await decide(board, now), lease=now.lease)
            elif now.kind == "answer":
                cites = [one.item for one in now.said if one.item]
                final = await board.finalize(
                    "We buy the blue pump: it moves enough and costs 280.", cites=cites
                )
                print(f"{final.answer}: {final.text} It rests on {', '.join(final.cites)}.")
                return
            elif now.run is None:
                await asyncio.sleep(0.2)  # the lead has not started yet
                now = await board.turn()
            else:
                now = await board.turn()


async def main() -> None:
    """Starts the server and the agents, and waits for them."""
    with tempfile.TemporaryDirectory() as data:
        python = [sys.executable, "-m", "blackboard_mcp.server", "serve"]
        options = ["--transport", "http", "--port", "0", "--data", data, "--tools", "core,run,plan"]
        server = await asyncio.create_subprocess_exec(*python, *options, stderr=asyncio.subprocess.PIPE)
        try:
            assert server.stderr is not None
            url = ""
            while not url:
                line = (await server.stderr.readline()).decode()
                if not line:
                    raise Unreachable("the server did not start")
                if line.startswith("blackboard-mcp serves "):
                    url = line.split()[2]
            script = [sys.executable, __file__]
            agents = [
                await asyncio.create_subprocess_exec(*script, name, url, data) for name in (LEAD, *ROLES)
            ]
            codes = [await agent.wait() for agent in agents]
            if any(codes):
                raise SystemExit(f"an agent ended with {max(codes)}")
        finally:
            server.terminate()
            await server.wait()


if __name__ == "__main__":
    asyncio.run(play(*sys.argv[1:]) if len(sys.argv) == 4 else main())
