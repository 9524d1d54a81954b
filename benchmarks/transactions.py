"""Measures transactions per second against single posts, with 1, 8 and 32 callers in one process.

    python benchmarks/transactions.py [--seconds 3] [--rounds 2] [--counts 1,8,32]

All through the use cases of an open installation (synchronous=FULL, as a server runs); the best of the rounds
counts. CPU is that of the whole process, which tells more than rates on a machine that does something else.
Each caller writes two entries of its own:

- two posts: one call after the other, each with the expected version; what a caller without transactions does
- transaction: both in one, with four versions read
- with a glob: the same, with a glob of keys read as well
- contended: all callers count up one entry, and try again where they came too late; what was committed counts
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path

from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.transactions import Transactions
from http_posts import TEXT
from throughput import Call, ask

versions: dict[int, int] = {}


def entries(caller: int) -> list[str]:
    """Returns the keys of the caller's two entries."""
    return [f"of:{caller}:{side}" for side in ("left", "right")]


def writes(caller: int) -> list[PostFields]:
    """Returns a new version of both entries, each with the version that it follows."""
    return [
        PostFields(key=key, text=f"{TEXT} {versions[caller]}", type="LOG", expected_version=versions[caller])
        for key in entries(caller)
    ]


async def begin(board: Blackboard, caller: int) -> None:
    """Writes the first version of the caller's entries, if it has none yet."""
    if caller not in versions:
        versions[caller] = 1
        await board.post(
            f"agent-{caller}", None, [PostFields(key=k, text=TEXT, type="LOG") for k in entries(caller)]
        )


async def two_posts(board: Blackboard, caller: int) -> None:
    """Writes both entries by two calls."""
    for fields in writes(caller):
        await board.post(f"agent-{caller}", None, [fields])
    versions[caller] += 1


async def transaction(board: Blackboard, caller: int, *globs: str) -> None:
    """Writes both entries in one transaction, which also reads the globs."""
    read = dict.fromkeys(entries(caller), versions[caller])
    read |= dict.fromkeys((f"free:{caller}:a", f"free:{caller}:b"), 0)
    if globs:
        found = await board.store.find_board(board.default_board)
        assert found is not None
        read |= dict.fromkeys(globs, found.seq)
    await Transactions(board).transact(f"agent-{caller}", None, read, writes(caller))
    versions[caller] += 1


async def contended(board: Blackboard, caller: int) -> None:
    """Adds one to an entry that all callers count up, again until it commits."""
    agent = f"agent-{caller}"
    while True:
        found = (await board.read(agent, None, [], ["counter"])).found
        version, value = (found.items[0].version, int(found.items[0].text)) if found.items else (0, 0)
        wanted = [PostFields(key="counter", text=str(value + 1), type="LOG")]
        try:
            await Transactions(board).transact(agent, None, {"counter": version}, wanted)
        except Conflict:
            continue
        return


async def measured(call: Call, callers: int, seconds: float) -> tuple[float, float, float, float]:
    """Returns the figures of `ask`, and the CPU microseconds of this process for each call."""
    begun = time.process_time()
    rate, p50, p99 = await ask(call, callers, seconds)
    return rate, p50, p99, 1e6 * (time.process_time() - begun) / (rate * seconds)


async def compare(folder: Path, counts: list[int], seconds: float, rounds: int) -> None:
    async with installation(Settings(data=folder, target_tokens=10_000_000), eager_index=False) as opened:
        board = opened.blackboard
        for caller in range(max(counts)):
            await begin(board, caller)
        kinds = {
            "two posts": partial(two_posts, board),
            "transaction": partial(transaction, board),
            "with a glob": lambda caller: transaction(board, caller, "frozen:*"),
            "contended": partial(contended, board),
        }
        for name, call in kinds.items():
            for count in counts:
                runs = [await measured(call, count, seconds) for _ in range(rounds)]
                rate, p50, p99, cpu = max(runs)
                print(
                    f"{name:12} {count:3} callers {rate:7,.0f}/s  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  "
                    f"CPU {cpu:6.0f} µs each",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--counts", default="1,8,32")
    asked = parser.parse_args()
    counts = [int(count) for count in asked.counts.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), counts, asked.seconds, asked.rounds))


if __name__ == "__main__":
    main()
