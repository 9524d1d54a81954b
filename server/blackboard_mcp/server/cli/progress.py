"""Progress bars for long commands, shown on a terminal only and removed at the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

Step = Callable[[int], object]


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Step]:
    """Shows a progress bar, and yields a function to call with the size of each step.

    Without a `total` the bar only shows that work goes on.
    """
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


@asynccontextmanager
async def growing(what: str, file: Path, total: int) -> AsyncIterator[None]:
    """Shows a progress bar of a file that others write, until the context is left.

    `total` is the expected size in bytes.
    """

    async def look(step: Step) -> None:
        seen = 0
        while True:
            await asyncio.sleep(0.2)
            size = min(size_of(file), total)
            step(size - seen)
            seen = size

    with progress(what, total) as step:
        looking = asyncio.create_task(look(step))
        try:
            yield
        finally:
            looking.cancel()


def size_of(file: Path) -> int:
    """Returns the size of a file in bytes; 0 if it does not exist."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
