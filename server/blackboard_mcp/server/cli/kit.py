"""The command `kit`: runs the conformance kit on a board store or an archive index of the operator's own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from blackboard_mcp.protocols.archive import ArchiveIndex
from blackboard_mcp.protocols.clock import SystemClock
from blackboard_mcp.protocols.store import BoardStore

from ..plugins.engines import lacking, missing, open_archive, open_store
from ..plugins.loading import CLASS
from .output import GOOD, Part, as_json, line, table
from .progress import Step, progress

METHODS: Final = "methods"
_LISTED: Final = 3
"""The most failures of a capability that are listed."""
_WIDTH: Final = 200
_NEEDED = ("pytest", "pytest_asyncio")
_STORE: Final = """\
from blackboard_mcp.server.plugins.engines import open_store
from blackboard_mcp.storage.testing.kit import BoardStoreKit


class TestStore(BoardStoreKit):
    async def open_store(self, folder, clock):
        return await open_store({path!r}, folder, clock, whole=False)
"""
_INDEX: Final = """\
from blackboard_mcp.server.plugins.engines import open_archive
from blackboard_mcp.storage.testing.kit import ArchiveIndexKit


class TestIndex(ArchiveIndexKit):
    async def open_index(self, folder):
        return await open_archive({path!r}, folder, whole=False)
"""
_OPTIONS: Final = {
    "asyncio_mode": "auto",
    "asyncio_default_fixture_loop_scope": "function",
    "tmp_path_retention_policy": "none",
}


class Report:
    """A plugin of pytest: chooses the tests, and collects their results by capability."""

    def __init__(self, archive: bool, only: Sequence[str], stack: ExitStack) -> None:
        self._archive = archive
        self.only = only
        self._stack = stack
        self._step: Step = lambda step: None
        self._capability_of: dict[str, str] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self.failures: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        self.broken = ""
        """The reason why the tests could not be collected."""

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken = str(report.longrepr)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        tests_of = _tests_of(self._archive)
        named = {tests: name for name, classes in tests_of.items() for tests in classes.split()}
        self.counts = {
            name: {"passed": 0, "failed": 0, "skipped": 0}
            for name in tests_of
            if not self.only or name in self.only
        }
        for item in items:
            owner = next(c for c in item.cls.__mro__ if item.originalname in vars(c))
            if (name := named.get(owner.__name__)) in self.counts and name is not None:
                self._capability_of[item.nodeid] = name
        items[:] = [item for item in items if item.nodeid in self._capability_of]
        self._step = self._stack.enter_context(progress("kit", len(items)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = self._capability_of[report.nodeid]
        counts = self.counts[name]
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = crash.message if crash is not None else str(report.longrepr)
            test = report.nodeid.rpartition("::")[2]
            place = f" ({Path(crash.path).name}:{crash.lineno})" if crash is not None else ""
            self.failures[name].append({"test": test + place, "error": said.strip()})
            counts["failed"] += 1
        elif report.skipped:
            counts["skipped"] += 1
        elif report.when == "call":
            counts["passed"] += 1
        if report.when == "teardown":
            self._step(1)

    def pytest_keyboard_interrupt(self) -> None:
        """Ends the process, because pytest cannot close a store in the middle of a call."""
        self._stack.close()
        os._exit(130)


@click.command()
@click.option(
    "--only", metavar="NAME", multiple=True, help="Check this capability alone; may be given several times."
)
@click.option("--archive", is_flag=True, help="Check an archive index in place of a board store.")
@click.option("--json", "json_", is_flag=True, help="JSON instead of a table, with all failures.")
@click.argument("path", metavar="module:Class")
def kit(path: str, only: tuple[str, ...], archive: bool, json_: bool) -> None:
    """Check a board store of your own: say of each capability whether the store keeps its contract.

    The class is imported and run, as `serve --store` does it, in a folder of its own. All of it takes some minutes,
    and of an archive index some seconds. Exit code 0: the class keeps the contract; 1: it does not. A capability that
    it may leave out, and leaves out, is told as not offered.
    """
    if not CLASS.match(path):
        raise click.BadParameter("must be of the form package.module:Class", param_hint="module:Class")
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise click.ClickException(
            "the kit needs pytest and pytest-asyncio: pip install 'blackboard-mcp[kit]'. `serve` needs neither"
        )
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(TemporaryDirectory(prefix="blackboard-kit-", ignore_cleanup_errors=True))
        )
        (first := folder / "first").mkdir()
        lacks = asyncio.run(_lacks(path, first, archive))
        report = Report(archive, only, stack)
        _run(path, folder, archive, report)
    facts = list(_facts(report, lacks))
    sound = all(fact["result"] != "failed" for fact in facts)
    if json_:
        as_json({"archive" if archive else "store": path, "conforms": sound, "capabilities": facts})
    else:
        table(("capability", "result", "tests"), [_row(fact) for fact in facts])
        for fact in facts:
            for failure in fact["failures"][:_LISTED]:
                line(f"{fact['capability']}: {failure['test']}: {_brief(failure['error'])}")
            if (more := len(fact["failures"]) - _LISTED) > 0:
                line(f"{fact['capability']}: {more} more; --json tells all")
    if not sound:
        raise SystemExit(1)


def _tests_of(archive: bool) -> dict[str, str]:
    """Returns the names of test classes by capability."""
    from blackboard_mcp.storage.testing.kit.capabilities import INDEX_TESTS_OF, TESTS_OF

    return INDEX_TESTS_OF if archive else TESTS_OF


async def _lacks(path: str, folder: Path, archive: bool) -> list[str]:
    """Opens the class once, and returns the methods that it lacks.

    Raises:
        InvalidInput: it cannot be loaded or opened.
    """
    opened: BoardStore | ArchiveIndex
    if archive:
        opened = await open_archive(path, folder, whole=False)
        lacks = missing(opened, ArchiveIndex)
    else:
        opened = await open_store(path, folder, SystemClock(), whole=False)
        lacks = lacking(opened)
    if "close" not in lacks:
        await opened.close()
    return lacks


def _run(path: str, folder: Path, archive: bool, report: Report) -> None:
    """Runs the kit's tests in a folder, without any setting, plugin or conftest.py of the caller's.

    Raises:
        click.ClickException: `only` names no capability, or the tests could not be collected.
    """
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    for name, text in (
        ("test_it.py", (_INDEX if archive else _STORE).format(path=path)),
        ("pytest.ini", "[pytest]\n"),
    ):
        (folder / name).write_text(text, "utf-8")
    words = ["-c", folder / "pytest.ini", "--rootdir", folder, "--basetemp", folder / "tests"]
    words += ["--noconftest", "--import-mode=importlib", "-p", "pytest_asyncio.plugin"]
    words += [word for plugin in ("terminal", "cacheprovider") for word in ("-p", f"no:{plugin}")]
    words += [word for option in _OPTIONS.items() for word in ("-o", "=".join(option))]
    pytest.main([*map(str, words), str(folder / "test_it.py")], plugins=[report])
    if unknown := set(report.only) - report.counts.keys():
        there = ", ".join(_tests_of(archive))
        raise click.ClickException(f"no capability '{min(unknown)}'; there are: {there}")
    if report.broken or not report.counts:
        raise click.ClickException(f"the kit did not run: {_brief(report.broken)}")


def _facts(report: Report, lacks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the result of each capability, the methods first."""
    failures = [{"test": METHODS, "error": f"it lacks {', '.join(lacks)}"}] if lacks else []
    yield _fact(METHODS, {"passed": int(not lacks), "failed": int(bool(lacks)), "skipped": 0}, failures)
    for name, counts in report.counts.items():
        yield _fact(name, counts, report.failures[name])


def _fact(name: str, counts: Mapping[str, int], failures: list[dict[str, str]]) -> dict[str, Any]:
    result = "failed" if counts["failed"] else "passed" if counts["passed"] else "not offered"
    return {"capability": name, "result": result, **counts, "failures": failures}


def _row(fact: Mapping[str, Any]) -> Sequence[Part]:
    result = fact["result"]
    if result == "failed":
        tests = f"{fact['failed']} of {fact['failed'] + fact['passed']}"
    else:
        tests = str(fact["passed"] or "")
    return fact["capability"], (result, {"failed": "red", "passed": GOOD}.get(result, "")), tests


def _brief(error: str) -> str:
    """Returns the first line of an error, cut."""
    first = error.strip().partition("\n")[0]
    return first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…"
