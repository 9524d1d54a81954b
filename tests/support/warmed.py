"""A process that starts the product's command and test scripts with their modules already imported.

What is started is a real process, a child of the test process with its own id, streams, environment and
folder. It is forked from one that has imported the product, which saves most of the time of a start. After
`install`, `subprocess` starts such commands in this way on Linux on x86-64 and ARM64. Other programs start as
usual, and so do commands with settings that only a new interpreter reads: other values of `PYTHON…` in the
environment, other users.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import fcntl
import gc
import inspect
import io
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_path
from typing import Any, Final

import template
from pydantic import BaseModel, TypeAdapter

MODULE: Final = "blackboard_mcp.server"
MAIN: Final = str(find_spec(f"{MODULE}.__main__").origin)
STARTERS: Final = frozenset({"demo", "doctor", "--workers"})
"""Words of commands that start processes themselves: each gets another warmed process to start them."""
FURTHER: Final = ("anyio._backends._asyncio", "httpcore2", "lance_namespace")
"""Modules that the product imports late and slowly; of the index only those that start no thread."""
TESTS: Final = Path(__file__).parents[1]
BESIDE: Final = "starter"
"""The name of a process that starts those of a command, and is a child of that command as they are."""
_CLONE_PARENT: Final = 0x8000
_SYS_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
"""The kernel's number of the call that forks, where it is known."""
_CLONE: Final = ctypes.PyDLL(None).syscall
_NAME: Final = Path("/proc/self/comm")
_PLAIN: Final = {
    "executable": None,
    "preexec_fn": None,
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "process_group": -1,
}
_HEEDED: Final = ("PYTHON", "LC_", "LANG", "LD_")
_LENGTH: Final = 8
_MOST_FILES: Final = 8
_HIGH: Final = 200
"""No file that a command is given has this number or a higher one."""


class Warmed:
    """A process that forks commands, and ends with the process for which it works.

    With `held`, it runs already and listens at the other end of that socket.
    """

    def __init__(self, held: socket.socket | None = None) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = held

    def start(self, told: dict[str, Any], files: list[int]) -> int:
        """Forks a command with these files as those that `told` numbers; it becomes a child of this process.

        Returns its process id.

        Raises:
            OSError: the forking process ended twice.
        """
        words = json.dumps(told).encode()
        with self._lock:
            try:
                return self._start(self._socket or self._begin(), words, files)
            except OSError:
                self._end()
                return self._start(self._begin(), words, files)

    def _start(self, held: socket.socket, words: bytes, files: list[int]) -> int:
        socket.send_fds(held, [len(words).to_bytes(_LENGTH)], files)
        held.sendall(words)
        return int.from_bytes(_exactly(held, _LENGTH), signed=True)

    def _begin(self) -> socket.socket:
        if self._process is None:
            atexit.register(self._end)
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno()), str(template.template())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                cwd="/",
            )
        return self._socket

    def _end(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            code = self._process.wait()
            if code:
                warnings.warn(
                    f"the process that starts commands for the tests ended with {code}", stacklevel=1
                )
            self._socket = None


def install(warmed: Warmed | None = None) -> None:
    """Makes `subprocess`, and asyncio with it, start the product's command from a warmed process from now on."""
    if sys.platform != "linux" or _SYS_CLONE is None:
        return
    given = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    subprocess.Popen._execute_child = _starting(given, warmed or Warmed())  # type: ignore[attr-defined]


def _starting(given: Callable[..., None], warmed: Warmed) -> Callable[..., None]:
    signature = inspect.signature(given)
    about = heeded(os.environ)

    def execute(self: Any, *args: Any, **more: Any) -> None:
        asked = signature.bind(self, *args, **more).arguments
        words = (
            [os.fsdecode(word) for word in asked["args"]] if isinstance(asked["args"], list | tuple) else []
        )
        env = os.environ if asked["env"] is None else asked["env"]
        settings = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
        folder = os.fsdecode(asked["cwd"] or Path.cwd())
        if (
            (told := _told(words, folder)) is None
            or any(asked[name] != value for name, value in _PLAIN.items())
            or not heeded(settings).items() <= about.items()
            or len(asked["pass_fds"]) > _MOST_FILES - 3
            or not Path(folder).is_dir()
        ):
            given(self, *args, **more)
            return
        told |= {"env": settings, "cwd": folder, "session": bool(asked["start_new_session"]), "words": words}
        told["umask"] = asked["umask"]
        told["deaf"] = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        ends = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        streams = [end if end != -1 else n for n, end in enumerate((ends[0], ends[3], ends[5]))]
        passed = [file for file in asked["pass_fds"] if file > 2]
        self.pid = warmed.start(told | {"files": [0, 1, 2, *passed]}, streams + passed)
        self._child_created = True
        self._close_pipe_fds(*ends)

    return execute


def heeded(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that only a new process reads.

    The variable for the place of bytecode is left out, because it changes nothing, and so are folders of modules,
    which `become` puts on the import path.
    """
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_HEEDED) and name not in ("PYTHONPATH", "PYTHONPYCACHEPREFIX")
    }


def _told(words: list[str], folder: str) -> dict[str, Any] | None:
    """Returns the arguments and first import path that a new interpreter would have; `None` for other programs."""
    if words[1:2] == [__file__]:  # the process that forks is itself no fork
        return None
    command = Path(sys.executable).with_name("blackboard-mcp")
    if words[:3] == [sys.executable, "-m", MODULE]:
        return {"argv": [MAIN, *words[3:]], "path": folder, "package": MODULE}
    if words[:1] == [str(command)]:
        return {"argv": words, "path": str(command.parent), "package": None}
    if len(words) > 1 and words[0] == sys.executable and (script := Path(words[1])).is_relative_to(TESTS):
        return {"argv": words[1:], "path": str(script.parent), "package": None, "script": words[1]}
    return None


def _exactly(held: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = held.recv(size - len(found))
        if not piece:
            raise OSError("the process that starts commands for the tests has ended")
        found += piece
    return found


def _fork_beside() -> int:
    """Forks a child of this process's parent, at half the cost of a child whose parent ends to make it one.

    Returns its process id, and 0 in the child. There is no other thread, so what the C library does about threads
    in a fork of its own is not missed.

    Raises:
        OSError: there can be no further process.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(_CLONE(_SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("there can be no further process")
    return pid


def serve(held: socket.socket) -> dict[str, Any] | None:
    """Forks for each request; returns the request in the new process, and `None` at the end."""
    while True:
        head, files, _, _ = socket.recv_fds(held, _LENGTH, _MOST_FILES)
        if len(head) < _LENGTH:
            return None
        told: dict[str, Any] = json.loads(_exactly(held, int.from_bytes(head)))
        if child := _fork_beside():
            for file in files:
                os.close(file)
            held.sendall(child.to_bytes(_LENGTH, signed=True))
            continue
        held.close()
        if told["umask"] != -1:
            os.umask(told["umask"])
        # Whoever is given more than streams was itself started by one of these.
        if len(files) == 3 and STARTERS & set(told["argv"]):
            told["beside"], other = socket.socketpair()
            if not os.fork():
                _NAME.write_text(BESIDE)
                for end in (told["beside"].detach(), *files):
                    os.close(end)
                return serve(other)
            other.close()
        _NAME.write_text("python")
        held_high = [fcntl.fcntl(file, fcntl.F_DUPFD, _HIGH) for file in files]
        for file in files:
            os.close(file)
        for high, number in zip(held_high, told["files"], strict=True):
            os.dup2(high, number, inheritable=True)
            os.close(high)
        return told


def become(told: dict[str, Any]) -> None:
    """Turns this process into the requested one: its folder, environment, arguments and streams."""
    if told["session"]:
        os.setsid()
    # Whoever starts a process hands on to it what is ignored.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if told["deaf"] else signal.SIG_DFL)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    sys.argv, words = told["argv"], told["words"]
    sys.orig_argv = words if words[0] == sys.executable else [sys.executable, *words]
    named = os.environ.get("PYTHONPATH", "")
    sys.path[:1] = [
        told["path"],
        *(str(Path(folder).absolute()) for folder in named.split(os.pathsep) if folder),
    ]
    sys.modules["__main__"].__package__ = told["package"]
    for n, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, name)
        at_once = n > 0 and bool(os.environ.get("PYTHONUNBUFFERED"))
        binary: Any = os.fdopen(n, "wb" if n else "rb", buffering=0 if at_once else -1, closefd=False)
        stream = io.TextIOWrapper(
            binary,
            encoding=was.encoding,
            errors=was.errors,
            line_buffering=n == 2,
            write_through=at_once,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def leave(code: int) -> None:
    """Ends the process as an interpreter does, but without clearing its modules.

    Clearing them takes longer than many commands.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            sys.exit(code)  # the interpreter reports it in its own words
    os._exit(code & 255)


async def rehearse(folder: Path) -> None:
    """Does what a process does only once: it loads the vocabulary, and makes all tools, schemas and models."""
    compose = import_module(f"{MODULE}.compose")
    client = import_module("mcp.client").Client
    settings = import_module(f"{MODULE}.settings.server")
    chosen = settings.Settings(data=folder, synchronous="NORMAL", tools=settings.TOOL_SETS)
    calls = {"post": {"text": "said", "type": "FACT"}, "query": {"text": "said"}, "read": {}}
    import_module(f"{MODULE}.text.tokens").encoding("o200k_base")
    async with compose.installation(chosen, eager_index=False, background=False) as opened:
        server = compose.build_server(opened)
        for mode in ("legacy", import_module(f"{MODULE}.demo.process").MODERN):
            async with client(server.sdk_server, mode=mode) as agent:
                await agent.list_tools()
                for tool, given in calls.items():
                    assert not (await agent.call_tool(tool, given)).is_error
    build(BaseModel)


def build(model: type[BaseModel]) -> None:
    """Builds all models under a model that wait for their first use."""
    for under in model.__subclasses__():
        under.model_rebuild(raise_errors=False)
        build(under)


if __name__ == "__main__":
    template.take(Path(sys.argv[2]))
    template.install()
    TypeAdapter(int)  # Pydantic looks for its plugins once
    import_module(f"{MODULE}.mcp.models").import_sdk(http=True)  # as `serve` does before it imports the SDK
    for package in (MODULE, "blackboard_mcp.protocols"):
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    for name in FURTHER:
        if find_spec(name) is not None:
            import_module(name)
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(rehearse(Path(place)))
    tempfile.tempdir = None  # each process finds its own again
    assert len(os.listdir("/proc/self/task")) == 1, threading.enumerate()  # no thread outlives a fork
    gc.collect()
    gc.freeze()  # collections in a child would write to pages shared with this process, and so copy them
    frozen = gc.get_freeze_count()
    gc.get_freeze_count = lambda: frozen  # counts them one by one, and the product asks twice in each process
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        task = serve(asking)
    if task is not None:
        become(task)
        if beside := task.get("beside"):
            install(Warmed(beside))
        code: Any = 0
        try:
            if script := task.get("script"):
                run_path(script, run_name="__main__")
            else:
                import_module(f"{MODULE}.cli").main()
        except SystemExit as ending:
            if not isinstance(code := ending.code or 0, int):
                raise
        leave(code)
