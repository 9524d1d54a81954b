"""The log of a server: one line for each record whatever callers send, and no flood of lines.

A refused connection, a junk request and a wrong token each cause a line, and cost their sender nothing. So
each place in the code that logs such a line may write a few in a minute; further ones are counted, and the
count is logged once. Many clients never read what a program writes there: a log that finds no room waits, and
nothing else does.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.visible import escape

from ..mcp.lines import write_all

AT_ONCE: Final = 10
"""The number of lines that one place in the code may write within a minute."""
MINUTE: Final = 60.0
MOST_WAITING: Final = 1000
"""The number of records that may wait for a reader of the log; those beyond are counted."""
_LAST_SECONDS: Final = 1.0
_WIRES: Final = ("uvicorn", "mcp", "starlette", "blackboard_mcp.server.http", "blackboard_mcp.server.mcp")
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_to_stderr(level: str) -> None:
    """Sends the log to standard error, from the level of this name on."""
    if sys.stderr is None:  # whoever started us closed it
        logging.basicConfig(level=level, handlers=[logging.NullHandler()])
        return
    handler = Aside(sys.stderr.fileno(), sys.stderr.encoding)
    handler.setFormatter(OneLine(_FORMAT))
    handler.addFilter(Summaries())
    logging.basicConfig(level=level, handlers=[handler])


class OneLine(logging.Formatter):
    """A formatter that escapes control characters in messages; tracebacks keep their line breaks."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escape(record.message)
        return super().formatMessage(record)


class Aside(logging.Handler):
    """A handler that writes to a descriptor in a thread of its own, so that a reader that stalls holds up nobody."""

    def __init__(self, fd: int, encoding: str = "utf-8") -> None:
        super().__init__()
        self._fd = fd
        self._encoding = encoding
        # The collection of garbage logs, too, perhaps while this thread puts a record: a `Queue` would wait for itself.
        self._waiting: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._left_out = 0
        # It writes past Python's buffers, whose lock a thread that stalls would keep from the interpreter's end.
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Lets the thread write a record; one that finds no room is counted."""
        if self._waiting.qsize() >= MOST_WAITING:
            self._left_out += 1
            return
        try:
            self._waiting.put(self.format(record))
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Returns when everything is written, or a second later."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait(_LAST_SECONDS)

    def _run(self) -> None:
        told = lost = 0
        while True:
            waiting = self._waiting.get()
            if isinstance(waiting, threading.Event):
                waiting.set()
                continue
            if left_out := self._left_out - told:
                waiting += f"\n{left_out} lines were left out: nobody read the log"
            try:
                if lost:  # of the first of them a part may be there
                    self._write(f"\n{lost} lines were left out: they could not be written")
                    lost = 0
                self._write(waiting)
            except OSError:  # a log on a full disk changes nothing for anybody
                lost += 1
            else:
                told += left_out

    def _write(self, lines: str) -> None:
        write_all(self._fd, f"{lines}\n".encode(self._encoding, "backslashreplace"))


@dataclass(slots=True)
class _Place:
    since: float
    written: int = 0
    left_out: int = 0


class Summaries(logging.Filter):
    """A filter that limits the lines that callers can cause, to a few in a minute for each place in the code.

    Errors, tracebacks and lines of other modules all pass.

    Args:
        monotonic: returns seconds that only grow.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._places: dict[tuple[str, int, str, int], _Place] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tells whether to write a record; one that is left out is counted."""
        if record.levelno >= logging.ERROR or record.exc_info or not record.name.startswith(_WIRES):
            return True
        now, key = self._monotonic(), (record.name, record.levelno, record.pathname, record.lineno)
        with self._lock:
            place = self._places.setdefault(key, _Place(now))
            left_out = 0
            if now - place.since >= MINUTE:
                left_out, place.since, place.written, place.left_out = place.left_out, now, 0, 0
            if place.written >= AT_ONCE:
                place.left_out += 1
                if place.left_out == 1:
                    self._tell_later(key)
                return False
            place.written += 1
        if left_out:
            self._tell(key, left_out)
        return True

    def _tell_later(self, key: tuple[str, int, str, int]) -> None:
        timer = threading.Timer(MINUTE, self._settle, (key,))
        timer.daemon = True
        timer.start()

    def _settle(self, key: tuple[str, int, str, int]) -> None:
        """Logs how many lines of a place were left out, if no line of it has done so meanwhile."""
        with self._lock:
            place = self._places.get(key)
            left_out = 0
            if place is not None:
                left_out = place.left_out
                del self._places[key]
        if left_out:
            self._tell(key, left_out)

    def _tell(self, key: tuple[str, int, str, int], left_out: int) -> None:
        name, level, path, line = key
        # Logged under this module's name, which the filter lets pass.
        where = f"{path.rpartition('/')[2]}:{line}"
        logger.log(
            level, "%s (%s): %d more lines of this kind within a minute were left out", name, where, left_out
        )


logger = logging.getLogger(__name__)
