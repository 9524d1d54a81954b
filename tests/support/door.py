"""A way for programs in other languages to start the product's command from the warmed process.

They start a small interpreter, which passes its streams to this process. This process forks the command with
them, and the small interpreter ends when the command does. Interpreter settings that it does not pass on are
those of this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from warmed import heeded

KNOCK = """
import json, os, signal, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
told = {"words": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
words = json.dumps(told).encode()
socket.send_fds(door, [len(words).to_bytes(8, "big")], [0, 1, 2])
door.sendall(words)
signal.signal(signal.SIGTERM, lambda *_: door.shutdown(socket.SHUT_WR))
for n in (0, 1):
    os.close(n)
sys.exit(int.from_bytes(door.recv(8) or b"\\x01", "big") & 255)
"""


class Door:
    """The socket at which the small interpreters ask for a command."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="blackboard-door-")
        atexit.register(shutil.rmtree, folder)
        self._path = Path(folder) / "door"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._path))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def words(self, command: Sequence[str]) -> list[str]:
        """Returns the command line that starts a command of the product through the door."""
        return [sys.executable, "-I", "-S", "-c", KNOCK, str(self._path), *command]

    def program(self, place: Path, command: Sequence[str]) -> None:
        """Writes an executable file that starts the command through the door with its own arguments."""
        place.write_text(f'#!/bin/sh\nexec {shlex.join(self.words(command))} "$@"\n')
        place.chmod(0o755)

    def _serve(self) -> None:
        while True:
            knocking, _ = self._listening.accept()
            threading.Thread(target=self._start, args=(knocking,), daemon=True).start()

    def _start(self, knocking: socket.socket) -> None:
        with knocking:
            head, streams, _, _ = socket.recv_fds(knocking, 8, 3)
            with knocking.makefile("rb") as rest:
                told = json.loads(rest.read(int.from_bytes(head, "big")))
            # An interpreter without a locale sets one for itself; some clients pass no interpreter settings on.
            given = {name: value for name, value in told["env"].items() if not name.startswith("LC_")}
            with subprocess.Popen(
                told["words"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=heeded(os.environ) | given,
                cwd=told["cwd"],
            ) as process:
                for stream in streams:
                    os.close(stream)
                leaving = threading.Thread(target=self._leave, args=(knocking, process), daemon=True)
                leaving.start()
                with contextlib.suppress(ConnectionError):
                    knocking.sendall((process.wait() & 255).to_bytes(8, "big"))
            leaving.join()

    def _leave(self, knocking: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Ends a command when its small interpreter was told to end, or has ended."""
        with contextlib.suppress(ConnectionError):
            knocking.recv(1)
        process.terminate()
