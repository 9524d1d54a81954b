"""Measures the CPU of a view in-process: of a board that nothing changed, and of one with a new post before each view.

    python benchmarks/view_cost.py [--rounds 100]

Both boards got 300 posts of a sentence. One has room for all of them, the other keeps the default budget and archived
some. CPU is that of all threads of the process. Before each view of a changed board stands a post, whose CPU does not
count; the counts of items are those after the last view.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.blackboard import Blackboard

ITEMS = 300
AT_ONCE = 50
ROOMY = 1_000_000


async def fill(board: Blackboard, name: str, target: int | None) -> None:
    """Posts the items; with a target, to a board with that many tokens."""
    if target is not None:
        await board.store.ensure_board(name, "alice", BoardConfig(target_tokens=target))
    for first in range(0, ITEMS, AT_ONCE):
        posts = [
            PostFields(text=f"Finding {n}: module {n % 17} fails under a load of {n * 7} calls.", type="FACT")
            for n in range(first, first + AT_ONCE)
        ]
        await board.post("alice", name, posts)


async def measure(rounds: int) -> None:
    """Prints one line for each board and kind of view."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), synchronous="NORMAL")
        async with installation(settings, eager_index=False, background=False) as opened:
            board = opened.blackboard
            for name, target in (("roomy", ROOMY), ("pruned", None)):
                await fill(board, name, target)
                for changed in (False, True):
                    taken = []
                    for turn in range(-5, rounds):
                        if changed:
                            await board.post("bob", name, [PostFields(text=f"Note {turn}.", type="LOG")])
                        begun = time.process_time()
                        _, snapshot = await board.view("erin", name)
                        if turn >= 0:
                            taken.append(1_000 * (time.process_time() - begun))
                    kind = "changed" if changed else "unchanged"
                    live, gone = snapshot.board.working_items, snapshot.board.archived_items
                    print(
                        f"{name:7} {live:4} live {gone:4} archived  view, {kind:9}  median {median(taken):6.2f} ms"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    asyncio.run(measure(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
