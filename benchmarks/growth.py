"""Measures the bytes that a post of 165 characters takes on disk, by the parts of the data folder.

    python benchmarks/growth.py [FOLDER-OF-LOGS] [--posts 20000] [--characters 165] [--keep FOLDER]

Posts pieces of recorded sessions (without a folder: those that come with the package) to one board of an open
installation, one post a call, by eight agents. Some rest on or answer another. The board keeps its budget, so nearly
all leave for the archive and its index. Then it settles as a server does in time: passes end, the index takes what
waits and deletes its former versions, the log goes into the file. The table is what each part holds then, in bytes per
post. Pieces of one session overlap where there are fewer than posts, so compression looks a little better than it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from importlib import resources
from itertools import islice
from pathlib import Path

from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.storage.lance import upkeep

AGENTS = 8
CALLERS = 16
TYPES = ("FACT", "LOG", "LOG", "HYPOTHESIS", "PLAN", "RESULT", "DECISION", "FACT")


def pieces(folder: Path | None, characters: int) -> Iterator[tuple[str, str]]:
    """Yields pieces of the sessions, each `characters` long, with their speakers.

    There are four rounds, which cut the texts at different places.
    """
    shipped = resources.files("blackboard_mcp.server.demo") / "logs"
    files = sorted(
        (p for p in (folder or shipped).iterdir() if p.name.endswith(".json")), key=lambda p: p.name
    )
    steps = [s for f in files for s in json.loads(f.read_text(encoding="utf-8"))["history"]]
    said = [(str(s.get("name") or s["role"]), re.sub(r"\s+", " ", s["content"])) for s in steps]
    for start in (0, characters // 2, characters // 4, 3 * characters // 4):
        found = [
            (name, text[at : at + characters])
            for name, text in said
            for at in range(start, len(text) - characters + 1, characters)
        ]
        random.Random(start).shuffle(found)
        yield from found


async def fill(settings: Settings, texts: list[tuple[str, str]]) -> float:
    """Posts all texts, waits until everything has settled, and returns the CPU seconds that posting took."""
    chance = random.Random(1)
    made: list[str] = []
    async with installation(settings, eager_index=True) as open_:
        taken = iter(enumerate(texts, 1))
        begun = time.process_time()

        async def caller() -> None:
            for number, (_, text) in taken:
                edges = (
                    {chance.choice(("derived_from", "replies_to")): [made[-40]]}
                    if len(made) > 40 and number % 4 == 0
                    else None
                )
                fields = PostFields(
                    text=text, type=chance.choice(TYPES), tags=[f"part-{number % 50}"], edges=edges
                )
                posted = await open_.blackboard.post(f"agent-{number % AGENTS}", None, [fields])
                made.append(posted.items[0].id)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        posting = time.process_time() - begun
        await open_.pruner.settle()
    async with installation(settings, eager_index=False, background=False) as open_:
        await open_.archive.drain()
        upkeep._KEEP_VERSIONS = timedelta(0)  # as half an hour later; nobody else reads the index here
        await open_.archive._parts()[0].maintain()
    return posting


def of_database(path: Path) -> dict[str, int]:
    """Returns the bytes of each table and index of a closed database, and of its free pages, by name."""
    # The product's driver is not used here, because its preferred library lacks dbstat.
    with closing(sqlite3.connect(path)) as raw:
        found = dict(raw.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall())
        page, free = (raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "freelist_count"))
    return {**found, "(free pages)": page * free}


def of_folder(path: Path) -> dict[str, int]:
    """Returns the bytes of files below a folder, by the folder that they are in; ids in paths are left out."""
    found: dict[str, int] = {}
    for file in path.rglob("*"):
        if file.is_file():
            parts = file.relative_to(path).parts
            name = "/".join(p for p in parts[1:-1] if not re.fullmatch(r"[0-9a-f-]{36}", p)) or "(folder)"
            if "_indices" in parts:
                name += "/" + re.sub(r"\d+", "N", parts[-1])
            found[name] = found.get(name, 0) + file.stat().st_size
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="?", type=Path)
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--characters", type=int, default=165)
    parser.add_argument("--keep", type=Path, help="a new folder that the data stay in")
    arguments = parser.parse_args()
    texts = list(islice(pieces(arguments.logs, arguments.characters), arguments.posts))
    with tempfile.TemporaryDirectory() as passing:
        settings = Settings(data=arguments.keep or Path(passing))
        posting = asyncio.run(fill(settings, texts))
        wal = sum(f.stat().st_size for f in settings.data.glob("*-wal"))
        parts = {
            **{f"sqlite {name}": size for name, size in of_database(settings.database).items()},
            **{f"index {name}": size for name, size in of_folder(settings.index).items()},
            "write-ahead log": wal,
        }
    count = len(texts)
    print(f"{count} posts of {arguments.characters} characters, {1e6 * posting / count:.0f} µs of CPU a post")
    for name, size in sorted(parts.items(), key=lambda part: -part[1]):
        if size >= count:
            print(f"{size / count:8.0f}  {name}")
    for part in ("sqlite", "index"):
        print(f"{sum(s for n, s in parts.items() if n.startswith(part)) / count:8.0f}  all of {part}")
    print(f"{sum(parts.values()) / count:8.0f}  all")


if __name__ == "__main__":
    main()
