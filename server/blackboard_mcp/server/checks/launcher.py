"""The program that runs one check within its limits: `python -I -S launcher.py`, with an order on standard input.

The order is a line of JSON. The check runs in a session of its own; 64 KiB of its output are kept. It is ended with all
that it started as soon as it breaks a limit, or as standard input ends, which it does when the server dies. Then the
outcome is printed as JSON.
On Linux it adopts what the check leaves behind, so nothing outlives it. There the system itself bounds what the user
starts in the moments in which nobody looks. It does not bound root, so the launcher of root goes before all that the
check started. It imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any

KEPT = 65_536
"""Bytes of output that are kept: the first quarter, and the last three."""
_MOST = 64 * 1024 * 1024
"""Bytes of output after which a check is ended."""
_TICK = 0.05
_SUBREAPER, _DEATH_SIGNAL = 36, 1
_NICENESS = 10
_NUMBERS = 2**22
"""The numbers that Linux has for processes and threads."""
_OF_OTHERS = 1_000
"""Processes and threads that the user may start elsewhere while a check runs, before its own are refused."""
_LINUX = sys.platform == "linux"
_PAGE = resource.getpagesize()
_GRACE = 10.0
"""Seconds for which all that a check started is sought and killed."""


class Output:
    """The beginning and the end of what a check wrote."""

    def __init__(self) -> None:
        self.size = 0
        self._first = b""
        self._last = b""

    def add(self, part: bytes) -> None:
        """Adds what was read."""
        self.size += len(part)
        room = KEPT // 4 - len(self._first)
        self._first += part[:room]
        self._last = (self._last + part[room:])[-3 * KEPT // 4 :]

    def text(self) -> str:
        """Returns what is kept, with a line on what is not."""
        left = self.size - len(self._first) - len(self._last)
        gap = f"\n… {left:,} bytes left out …\n".encode() if left else b""
        return (self._first + gap + self._last).decode("utf-8", "replace")


def processes() -> dict[int, int]:
    """Returns the bytes of memory of each process that descends from this one, by number."""
    parents: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b") ")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(name))
            pages[int(name)] = int(fields[21])
    found, left = {}, [os.getpid()]
    while left:
        for child in parents.get(left.pop(), []):
            found[child] = pages.get(child, 0) * _PAGE
            left.append(child)
    return found


def end_all(group: int) -> None:
    """Kills the group of the check, and on Linux whatever descends from this process, until nothing is left."""
    until = time.monotonic() + _GRACE
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        if not _LINUX:
            return
        seen: set[int] = set()
        # Stopped first: what is stopped starts nothing while the others are sought.
        while (new := processes().keys() - seen) and time.monotonic() < until:
            for process in new:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGSTOP)
            seen |= new
        for process in seen:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _reap()
        if not seen:
            return
        time.sleep(0.005)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _go_first() -> None:
    """Has this process, but none that it starts, go before others where it may, so that it is never starved."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def _started() -> int:
    """Returns a number above that of the user's processes and threads, and at most twice it or 512.

    Nobody can count them: those in other containers are counted by the system too, and seen by nobody. So it is
    tried with which limit the system still lets one be started.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most, highest = 512, _NUMBERS if hard == resource.RLIM_INFINITY else min(hard, _NUMBERS)
    while most < highest:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
        try:
            tried = os.fork()
        except OSError:
            most *= 2
            continue
        if tried == 0:
            os._exit(0)
        os.waitpid(tried, 0)
        return most
    return most


def _bound(order: dict[str, Any]) -> None:
    """Sets the limits of the check, in its own process."""
    for kind, most in (
        (resource.RLIMIT_NPROC, _started() + order["processes"] + _OF_OTHERS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, order["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, order["file_bytes"]),
        (resource.RLIMIT_DATA, order["memory_bytes"]),
    ):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    if _LINUX:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _broken(order: dict[str, Any], folder: int, began: float, output: Output) -> str:
    """Returns the limit that the check breaks, in words; empty if it keeps them.

    `folder` is open: the check may have removed it.
    """
    if time.monotonic() - began > order["seconds"]:
        return f"it ran longer than {order['seconds']} s"
    if output.size > _MOST:
        return f"it wrote more than {_MOST:,} bytes of output"
    if _LINUX:
        running = processes()
        if len(running) > order["processes"]:
            return f"it had more than {order['processes']} processes"
        if sum(running.values()) > order["memory_bytes"]:
            return f"it took more than {order['memory_bytes']:,} bytes of memory"
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < order["free_bytes"]:
        return f"it left less than {order['free_bytes']:,} bytes free on the disk"
    return ""


def _run(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    began = time.monotonic()
    try:
        folder = os.open(order["folder"], os.O_RDONLY)
        check = subprocess.Popen(
            order["run"],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            cwd=order["folder"],
            env=order["environment"],
            start_new_session=True,
            preexec_fn=lambda: _bound(order),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"broken": f"it could not be started: {error}", "exit": None, "seconds": 0.0, "output": ""}
    os.close(writing)
    output, broken, status = Output(), "", None
    watched, look = [reading, 0], began
    try:
        while not broken and (status := check.poll()) is None:
            ready, _, _ = select.select(watched, [], [], _TICK)
            if reading in ready and not _drain(reading, output):
                watched.remove(reading)
            if 0 in ready and not os.read(0, 4_096):
                broken = "the server ended"
            elif (now := time.monotonic()) >= look:
                broken = _broken(order, folder, began, output)
                # Looking takes a tenth of the time at most, however many processes there are.
                look = time.monotonic() + max(_TICK, 10 * (time.monotonic() - now))
        seconds = time.monotonic() - began
    finally:
        end_all(check.pid)
    _drain(reading, output)
    if status is not None and status < 0:
        broken = _ended_by(-status, order)
    return {"broken": broken, "exit": status, "seconds": round(seconds, 2), "output": output.text()}


def _ended_by(number: int, order: dict[str, Any]) -> str:
    """Returns why a signal ended the check, in words."""
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return f"it was killed, perhaps as it took more than {order['cpu_seconds']} s of CPU"
    if number == signal.SIGXFSZ:
        return f"it wrote a file of more than {order['file_bytes']:,} bytes"
    return f"signal {number} ended it"


def _drain(reading: int, output: Output) -> bool:
    """Reads what is there to be read, but no more than a megabyte; returns whether more may come."""
    for _ in range(16):
        try:
            part = os.read(reading, 65_536)
        except OSError:
            return True
        if not part:
            return False
        output.add(part)
    return True


def main() -> None:
    """Runs the check of the order on standard input."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        _go_first()
    with open(0, "rb", buffering=0, closefd=False) as order:
        print(json.dumps(_run(json.loads(order.readline()))))


if __name__ == "__main__":
    main()
