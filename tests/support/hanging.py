"""Ends the process of a test that hangs, and tells where.

An error raised in the test would not do: what hangs there may hang again in what cleans up, and then for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
from collections.abc import Iterator
from typing import Any, TextIO


@contextlib.contextmanager
def ended_after(seconds: float, test: str, told: TextIO) -> Iterator[None]:
    """Ends this process if the block takes longer, and tells where all threads and tasks are; needs the main thread.

    On Windows, which has no timers that interrupt, tasks are not told.
    """
    if not hasattr(signal, "setitimer"):
        faulthandler.dump_traceback_later(seconds, exit=True, file=told)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
        return

    def end(*given: object) -> None:
        print(f"\n{test} hangs: no end after {seconds:g} seconds", file=told, flush=True)
        faulthandler.dump_traceback(told)
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            for task in asyncio.all_tasks():
                print(f"\n{task!r}, which awaits:", file=told)
                awaited: Any = task.get_coro()
                while (frame := getattr(awaited, "cr_frame", None)) is not None:
                    print(
                        f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}", file=told
                    )
                    awaited = awaited.cr_await
        told.flush()
        os._exit(1)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
