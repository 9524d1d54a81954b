"""Two agents of one process that race with other processes: `racer.py ADDRESS NAME CALLS SEED`."""

from __future__ import annotations

import asyncio
import random
import sys

from blackboard_mcp.storage.testing.walk.racing import AGENTS, Racer, opened


async def race(address: str, name: str, calls: int, seed: str) -> None:
    store = await opened(address)
    racers = [Racer(store, agent, random.Random(f"{seed} {name} {agent}")) for agent in (*AGENTS, "eve")]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(racer.run(calls) for racer in racers))
    await store.close()
    print(sum(racer.done for racer in racers))


if __name__ == "__main__":
    _, place, process, count, chance = sys.argv
    asyncio.run(race(place, process, int(count), chance))
