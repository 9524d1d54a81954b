"""Measures what limits cost: the CPU of a post with and without them, in turns, and of each check alone.

    python benchmarks/limits.py [--rounds 12] [--posts 250]

Times are the least of the rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
import timeit
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from blackboard_mcp.protocols.errors import RateLimited
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.limits.rates import Quotas
from blackboard_mcp.server.mcp.admission import Admission
from blackboard_mcp.server.settings.server import Settings

WIDE = Limits(
    posts_per_second=1e6, posts_burst=10_000_000, board_posts_per_second=1e6, board_posts_burst=10_000_000
)
TIMES = 50_000


def least(call: Callable[[], object], times: int = TIMES) -> float:
    """Returns the least microseconds of a call over seven runs."""
    return min(timeit.repeat(call, number=times, repeat=7)) / times * 1e6


def checks() -> dict[str, float]:
    """Returns the microseconds of each check, by its description."""
    quotas, names = Quotas(WIDE), cycle([f"agent-{n}" for n in range(1_000)])
    admission = Admission(cast(Any, None), Limits())
    caller = cast(Any, SimpleNamespace(principal=SimpleNamespace(owner="a")))
    contested = Quotas(Limits(posts_burst=10_000_000, board_posts_per_second=0.01, board_posts_burst=200))
    for number in range(100):
        contested.charge(f"agent-{number}", "main")

    def admitted() -> None:
        with admission.of_call(caller, waits=False):
            pass

    def refused() -> None:
        with contextlib.suppress(RateLimited):
            contested.charge("agent-1", "main", 50)

    return {
        "a write counted, one principal": least(lambda: quotas.charge("a", "main")),
        "a write counted, 1,000 principals": least(lambda: quotas.charge(next(names), "main")),
        "a write refused on a board of 100 writers": least(refused),
        "a call admitted": least(admitted),
    }


async def posts(rounds: int, each: int) -> tuple[float, float]:
    """Returns the least CPU microseconds of a post without limits, and with them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data=Path(folder), synchronous="NORMAL", embedder="none", target_tokens=10_000_000
        )
        async with installation(settings, eager_index=False, background=False) as opened:
            board, number = opened.blackboard, 0

            async def spent() -> float:
                nonlocal number
                began = time.process_time()
                for _ in range(each):
                    number += 1
                    await board.post("a", "main", [PostFields(text=f"fact number {number}", type="LOG")])
                return (time.process_time() - began) / each * 1e6

            await spent()
            without, limited = [], []
            for _ in range(rounds):
                board.quotas = Quotas()
                without.append(await spent())
                board.limit(WIDE)
                limited.append(await spent())
            return min(without), min(limited)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--posts", type=int, default=250)
    options = parser.parse_args()
    for what, micros in checks().items():
        print(f"{what:<45} {micros:7.2f}")
    without, limited = asyncio.run(posts(options.rounds, options.posts))
    print(f"{'a post without limits':<45} {without:7.0f}\n{'a post with limits':<45} {limited:7.0f}")


if __name__ == "__main__":
    main()
