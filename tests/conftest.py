"""What holds for all tests: how far they go, which files start first, and what a run says at its end."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import hanging
import postgres_server
import pytest
import rewritten
import template
import warmed
from closing import LINES, skips
from profiles import NIGHTLY, load_profile
from s3_server import location, s3  # noqa: F401 - fixtures

HERE = Path(__file__).parent
LONGEST = (
    "storage/postgres/test_kit.py",
    "storage/test_invariants.py",
    "storage/test_mutants.py",
    "storage/test_stores.py",
    "acceptance/test_shared_index.py",
    "storage/lance/test_shared.py",
    "acceptance/test_heavy_calls.py",
    "acceptance/test_hostile_calls.py",
    "server/test_invariants.py",
    "server/tools/test_hidden.py",
    "storage/test_serialising.py",
    "test_doc_commands.py",
    "test_docs.py",
    "test_packaging.py",
)
"""Files that take long start first, so that at the end no core waits for one of them."""
PATIENCE = 7_200 if NIGHTLY else 1_500
"""Seconds that a test may take: far beyond what any takes, as machines may be slow and busy; at night it goes far."""

if sys.flags.dont_write_bytecode:  # each of hundreds of processes would compile the whole product again
    COMPILED = tempfile.TemporaryDirectory(prefix="blackboard-bytecode-", ignore_cleanup_errors=True)
    sys.dont_write_bytecode = False
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = COMPILED.name
template.install()
warmed.install()
load_profile()
for name in [name for name in os.environ if name.startswith("BLACKBOARD_")]:
    del os.environ[name]  # settings of whoever runs the tests


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: tests wait for servers, sockets and disks a quarter of their time."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 2


FOLDERS = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the path of an empty folder. Pytest's own looks through all folders before it for a name."""
    folder = tmp_path_factory.getbasetemp() / f"at-{next(FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def hangups() -> Iterator[None]:
    """Lets programs that a test starts hear SIGHUP, also where the tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


TOLD = pytest.StashKey[TextIO]()
"""The standard error that the process was given; pytest takes its place later."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = os.fdopen(os.dup(2), "w")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    with hanging.ended_after(PATIENCE, item.nodeid, item.config.stash[TOLD]):
        return (yield)


gc.disable()  # until the tests are collected: nothing of them is garbage


def pytest_sessionstart(session: pytest.Session) -> None:
    rewritten.share(session.config)


def pytest_collection_finish() -> None:
    """Lets the collector of garbage look seldom, and pass over the tests, which stay to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest = {HERE / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: longest.get(item.path, len(longest)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    postgres_server.close()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["lines"] = sorted(LINES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    LINES.update(getattr(node, "workeroutput", {}).get("lines", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in [*sorted(LINES), *skips(terminalreporter.stats.get("skipped", ()))]:
        terminalreporter.write_line(line)
