"""The command `kit`: what it says of a store that keeps the contract, of a broken one, and of none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.cli.kit import METHODS
from blackboard_mcp.server.demo.process import environment
from blackboard_mcp.storage.testing.kit import ArchiveIndexKit, BoardStoreKit
from blackboard_mcp.storage.testing.kit.archive_index import IndexFixtures
from blackboard_mcp.storage.testing.kit.capabilities import INDEX_TESTS_OF, TESTS_OF
from blackboard_mcp.storage.testing.kit.fixtures import StoreFixtures
from commands import PROGRAM, refused, run
from patience import PATIENCE, until

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLE = (EXAMPLES / "mirrored_store.py").read_text("utf-8")
MEMORY = "blackboard_mcp.storage.memory:MemoryStore"
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

FORGETFUL = EXAMPLE + (
    "\n\nclass Forgetful(MirroredStore):"
    '\n    """Finds no rules of a board that has some."""'
    "\n\n    async def rules(self, board, agent, path=''):"
    "\n        return await super().rules('another', agent, path)\n"
)
OTHERS = """
import os
from dataclasses import replace
from pathlib import Path

from blackboard_mcp.storage.fts.index import FtsArchiveIndex
from blackboard_mcp.storage.memory import open_memory_store


class Words(FtsArchiveIndex):
    @classmethod
    async def open(cls, folder):
        return cls(folder / "words")


class Unfiltered(Words):
    # Forgets who the author has to be.
    async def search(self, query, *waiting):
        return await super().search(replace(query, author=None), *waiting)


class Telling:
    @classmethod
    async def open(cls, folder, *, clock):
        if folder.name != "first":
            Path(os.environ["TOLD"]).touch()
        return await open_memory_store(clock=clock)


class Nothing:
    pass


class Raising:
    @classmethod
    async def open(cls, folder, *, clock):
        raise OSError("no route to the database")


class Plain:
    @classmethod
    def open(cls, folder):
        return cls()


class Empty:
    @classmethod
    def open(cls, folder, *, clock):
        return cls()
"""


@pytest.fixture
def there(tmp_path: Path) -> dict[str, str]:
    """Returns an environment in which the example, a broken copy and classes that are no stores can be imported."""
    (tmp_path / "broken_store.py").write_text(FORGETFUL, "utf-8")
    (tmp_path / "no_stores.py").write_text(OTHERS, "utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(tmp_path)])}


def checked(there: dict[str, str], path: str, *only: str, status: int = 0) -> dict[str, dict[str, Any]]:
    """Runs the kit, and returns what it says, by capability."""
    words = [word for name in only for word in (("--only", name) if name in TESTS_OF else (name,))]
    done = run(there, "kit", "--json", *words, path)
    assert (done.returncode, done.stderr) == (status, ""), done
    answer = json.loads(done.stdout)
    assert answer["conforms"] == (status == 0)
    return {each["capability"]: each for each in answer["capabilities"]}


def test_the_example_keeps_the_contract(there: dict[str, str]) -> None:
    some = ("events", "rules", "access-tokens", "archive-sums", "durability", "two-handles")
    found = checked(there, "mirrored_store:MirroredStore", *(() if NIGHTLY else some))
    assert {each["result"] for each in found.values()} == {"passed"}
    assert found.keys() == {METHODS, *(TESTS_OF if NIGHTLY else some)}


def test_a_store_that_loses_its_boards_offers_no_durability(there: dict[str, str]) -> None:
    found = checked(there, MEMORY, "durability", "two-handles", "rules")
    assert {name: each["result"] for name, each in found.items()} == {
        METHODS: "passed",
        "rules": "passed",
        "durability": "not offered",
        "two-handles": "not offered",
    }
    done = run(there, "kit", "--only", "durability", "--only", "rules", MEMORY)
    assert (done.returncode, done.stdout) == (
        0,
        f"methods\tpassed\t1\nrules\tpassed\t{found['rules']['passed']}\ndurability\tnot offered\t\n",
    )


def test_a_broken_copy_fails_and_the_capability_is_named(there: dict[str, str]) -> None:
    done = run(there, "kit", "--only", "events", "--only", "rules", "broken_store:Forgetful")
    assert done.returncode == 1, done
    rows = [line.split("\t")[:2] for line in done.stdout.splitlines()[:3]]
    assert rows == [["methods", "passed"], ["events", "passed"], ["rules", "failed"]]
    assert re.search(r"^rules: test_\w+ \(ruling\.py:\d+\): .*assert", done.stdout, re.MULTILINE)
    assert "\nrules: 3 more; --json tells all\n" in done.stdout


def test_missing_methods_are_named_and_the_rest_is_run(there: dict[str, str]) -> None:
    found = checked(there, "no_stores:Empty", "rules", status=1)
    assert {name: each["result"] for name, each in found.items()} == {METHODS: "failed", "rules": "failed"}
    assert "post, " in found[METHODS]["failures"][0]["error"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module:Store", "importing 'no_such_module' failed: ModuleNotFoundError"),
        ("mirrored_store:Missing", "'mirrored_store' has no 'Missing'"),
        ("no_stores:Nothing", "it has no method open; give the class a class method `async def open("),
        ("no_stores:Raising", "opening it failed: OSError: no route to the database"),
        ("no_stores:Plain", "opening it failed: TypeError"),
    ],
)
def test_what_cannot_be_opened_is_told_in_one_line(there: dict[str, str], path: str, words: str) -> None:
    assert words in refused(there, "kit", path)


def test_a_path_of_another_form_and_an_unknown_capability_are_refused(there: dict[str, str]) -> None:
    done = run(there, "kit", "mirrored_store.MirroredStore")
    assert done.returncode == 2
    assert "must be of the form package.module:Class" in done.stderr
    done = run(there, "kit", "--only", "nope", MEMORY)
    assert done.returncode == 1
    assert "no capability 'nope'; there are: posting, versions" in done.stderr


def test_an_interrupt_ends_it_without_a_word_and_without_a_trace(
    there: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    there |= {"TOLD": str(tmp_path / "told"), "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen(
        [*PROGRAM, "kit", "no_stores:Telling"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | there,
        preexec_fn=partial(
            signal.signal, signal.SIGINT, signal.SIG_DFL
        ),  # a shell in the background ignores it
    )
    until((tmp_path / "told").exists)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE)[0] == ""
    assert process.returncode == 130
    assert list((tmp_path / "tmp").glob("blackboard-kit-*")) == []


def test_without_pytest_the_command_says_what_to_install(
    there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import click
    from blackboard_mcp.server.cli import cli

    monkeypatch.setitem(sys.modules, "pytest_asyncio", None)
    with pytest.raises(click.ClickException) as caught:
        cli.main(["kit", MEMORY], standalone_mode=False)
    assert "pip install 'blackboard-mcp[kit]'" in caught.value.message


def test_every_class_of_the_kit_shows_one_capability() -> None:
    for tests_of, kit in ((TESTS_OF, BoardStoreKit), (INDEX_TESTS_OF, ArchiveIndexKit)):
        named = [name for classes in tests_of.values() for name in classes.split()]
        shown = {c.__name__ for c in kit.__bases__} - {StoreFixtures.__name__, IndexFixtures.__name__}
        assert sorted(named) == sorted(shown)


def test_the_example_of_an_index_keeps_the_contract(there: dict[str, str]) -> None:
    found = checked(there, "dict_index:DictIndex", "--archive")
    not_offered = {name for name, each in found.items() if each["result"] != "passed"}
    assert not_offered == {"sums", "durability"}
    assert {found[name]["result"] for name in not_offered} == {"not offered"}


def test_an_index_is_checked_too_and_a_broken_one_is_told(there: dict[str, str]) -> None:
    found = checked(there, "no_stores:Words", "--archive")
    assert {name: each["result"] for name, each in found.items()} == dict.fromkeys(
        (METHODS, *INDEX_TESTS_OF), "passed"
    )
    done = run(there, "kit", "--archive", "no_stores:Unfiltered")
    assert done.returncode == 1
    results = dict(line.split("\t")[:2] for line in done.stdout.splitlines() if "\t" in line)
    assert {name for name, result in results.items() if result == "failed"} == {"filters", "waiting"}
    assert "\nfilters: test_filters_apply (archive_index.py:" in done.stdout
