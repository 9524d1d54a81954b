"""Retention as an operator sets it: refused where it is unclear, run by servers and by hand, traceless in the end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable, InvalidInput, StoreError
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server import compose
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.retention import retention_of
from blackboard_mcp.server.settings.server import Settings, load
from blackboard_mcp.server.usecases.retention import Keeper
from blackboard_mcp.storage.testing.harness import HandClock, Table
from click.testing import CliRunner, Result
from patience import PATIENCE

SECRET = "quetzalcoatlus"
GOOD: dict[str, Any] = {"decided_by": "Ada", "reason": "a month is enough", "after_days": {"LOG": 30}}
MONTH = Retention({ItemType.LOG: timedelta(days=30)}, "Ada", "a month is enough")
CONFIG = '[retention]\ndecided_by = "Ada"\nreason = "a month is enough"\nafter_days = { LOG = 30 }\n'


def test_a_table_says_kinds_days_who_and_why() -> None:
    assert retention_of(GOOD, "retention") == MONTH
    some = retention_of({**GOOD, "boards": ["a", "b"]}, "retention")
    assert [some.covers(board) for board in ("a", "c")] == [True, False]
    assert MONTH.covers("any")
    assert load({}, {}).retention is None, "nothing is forgotten unless somebody says so"


def test_what_is_missing_is_asked_for_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        retention_of({**GOOD, "decided_by": ""}, "retention")
    assert str(refused.value).count("100") == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"decided_by": None}, "needs 'decided_by'"),
        ({"decided_by": " "}, "needs 'decided_by'"),
        ({"reason": "x" * 301}, "needs 'reason'"),
        ({"reason": "two\nlines"}, "needs 'reason'"),
        ({"after_days": {}}, "needs 'after_days'"),
        ({"after_days": 30}, "needs 'after_days'"),
        ({"after_days": {"log": 30}}, "names 'log'; kinds are FACT"),
        ({"after_days": {"LOG": 0}}, "LOG in retention is 0"),
        ({"after_days": {"LOG": 0.5}}, "LOG in retention is 0.5"),
        ({"after_days": {"LOG": True}}, "LOG in retention is True"),
        ({"after_days": {"LOG": 40_000}}, "from 1 to 36,500"),
        ({"after_days": {"LOG": "3"}}, "is '3'; it must be a whole number of days"),
        ({"boards": "main"}, "must be a list"),
        ({"boards": []}, "is empty"),
        ({"after": 30}, "Unknown setting 'after'"),
    ],
)
def test_what_is_unclear_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        retention_of({**GOOD, **changed}, "retention")


async def filled(folder: Path, *, ago: timedelta = timedelta(days=40)) -> None:
    """A folder with an archived log and an archived fact, both of that age, in the index as well."""
    clock = HandClock(datetime.now(UTC) - ago)
    settings = Settings(data=folder, embedder="none")
    async with compose.installation(settings, eager_index=False, clock=clock, background=False) as opened:
        log = PostFields(text=f"{SECRET} was seen", type="LOG", tags=[SECRET], metadata={"n": SECRET})
        for fields in (log, PostFields(text="the station is closed")):
            await opened.blackboard.post("ana", None, [fields])
        await Table(opened.store).prune()
        await opened.archive.drain()


async def told(folder: Path) -> tuple[list[str], list[str]]:
    """The texts of the items, and the ids that a search finds."""
    settings = Settings(data=folder, embedder="none")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        at = Table(opened.store)
        await opened.archive.drain()
        texts = [(await at.item(number)).text for number in (1, 2)]
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await opened.archive.search(ArchiveQuery("main", f"{SECRET} station"))
                    return texts, [str(hit.number) for hit in answer.hits]
                except ArchiveUnavailable:  # it is being built
                    await asyncio.sleep(0.05)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "blackboard.toml"
    path.write_text(CONFIG, "utf-8")
    return path


def test_a_dry_run_says_what_would_be_forgotten_and_forgets_nothing(tmp_path: Path, config: Path) -> None:
    folder = tmp_path / "data"
    asyncio.run(filled(folder))
    for _ in range(2):
        done = run("forget", "--config", config, "--data", folder, "--dry-run")
        assert done.exit_code == 0, done.output
        first, board, total = done.output.splitlines()
        assert first.startswith("main L-1 by ana, 20")
        assert board.startswith("main: would forget 1 items, ")
        assert total == "would forget 1 items in all"
    texts, hits = asyncio.run(told(folder))
    assert texts == [f"{SECRET} was seen", "the station is closed"]
    assert sorted(hits) == ["1", "2"]


def test_boards_that_are_not_there_are_named(tmp_path: Path, config: Path) -> None:
    folder = tmp_path / "data"
    asyncio.run(filled(folder))
    config.write_text(CONFIG + 'boards = ["main", "nope", "mian"]\n', "utf-8")
    done = run("forget", "--config", config, "--data", folder, "--dry-run")
    assert done.exit_code == 0, "they may be made later"
    assert "not there yet: nope, mian;" in done.stderr
    assert done.stdout.splitlines()[-1] == "would forget 1 items in all"


def test_without_a_decision_the_command_forgets_nothing_and_says_what_it_needs(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    asyncio.run(filled(folder))
    done = run("forget", "--data", folder)
    assert done.exit_code == 1
    assert "[retention] with decided_by, reason and after_days" in done.output
    assert asyncio.run(told(folder))[0][0] == f"{SECRET} was seen"


def holding(folder: Path) -> list[str]:
    words = (SECRET.encode(), SECRET.encode().hex().encode())
    return [
        file.name
        for file in folder.rglob("*")
        if file.is_file() and any(word in file.read_bytes() for word in words)
    ]


def test_after_compacting_no_file_of_the_folder_holds_what_was_forgotten(
    tmp_path: Path, config: Path
) -> None:
    folder = tmp_path / "data"
    asyncio.run(filled(folder))
    done = run("forget", "--config", config, "--data", folder)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "forgot 1 items in all")
    texts, hits = asyncio.run(told(folder))
    assert (texts, hits) == (["", "the station is closed"], ["2"])
    assert holding(folder), "deleting leaves bytes behind"
    done = run("compact", "--data", folder)
    assert done.exit_code == 0, done.output
    assert holding(folder) == []
    assert asyncio.run(told(folder)) == (["", "the station is closed"], ["2"]), "the index comes back"
    assert holding(folder) == []
    exported = run("export", "--data", folder)
    assert exported.exit_code == 0
    assert SECRET not in exported.output
    assert run("verify", "--data", folder).exit_code == 0


async def test_a_server_keeps_to_it_by_itself(tmp_path: Path) -> None:
    await filled(tmp_path)
    settings = Settings(data=tmp_path, embedder="none", retention=MONTH)
    async with compose.installation(settings, eager_index=False) as opened:
        at = Table(opened.store)
        async with asyncio.timeout(PATIENCE):
            seen = opened.store.changes()
            while (await at.item(1)).text:
                seen = await opened.store.wait_for_change(seen, 1.0)
        gone = (await at.item(1)).forgotten
        assert gone is not None
        assert (gone.by, gone.why) == ("Ada", "a month is enough")
        assert (await at.item(2)).text


async def test_a_server_without_it_forgets_nothing_and_boards_it_is_not_for_stay(tmp_path: Path) -> None:
    await filled(tmp_path)
    elsewhere = Retention(MONTH.after, "Ada", "why", ("elsewhere",))
    async with compose.installation(
        Settings(data=tmp_path, embedder="none"), eager_index=False, background=False
    ) as opened:
        assert await Keeper(opened.store, elsewhere, "here").round("main") == ()
        assert len(await Keeper(opened.store, MONTH, "here").round("main")) == 1
        assert await Keeper(opened.store, MONTH, "here").round("main") == ()


async def test_a_round_that_another_process_began_within_the_hour_is_not_begun_again(tmp_path: Path) -> None:
    await filled(tmp_path)
    settings = Settings(data=tmp_path, embedder="none", retention=MONTH)
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        assert await opened.store.lease("forget:main", "another", 60)
        keeper = Keeper(opened.store, MONTH, "here")
        assert not await keeper.look()
        assert (await Table(opened.store).item(1)).text
        await opened.store.release("forget:main", "another")
        assert await keeper.look() == ["main"]
        assert not await keeper.look()
        assert not (await Table(opened.store).item(1)).text


async def test_a_round_that_fails_midway_is_due_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    settings = Settings(data=tmp_path, embedder="none")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        keeper = Keeper(opened.store, MONTH, "here")
        with monkeypatch.context() as broken:

            async def full(board: str, numbers: Any, retention: Retention) -> frozenset[str]:
                raise StoreError("the disk is full")

            broken.setattr(opened.store, "forget", full)
            with pytest.raises(StoreError):
                await keeper.look()
        assert await keeper.look() == ["main"]


async def test_a_round_that_fails_again_and_again_keeps_no_other_board_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    settings = Settings(data=tmp_path, embedder="none")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        await opened.blackboard.post("ana", "zoo", [PostFields(text="the zoo is open")])
        keeper, begun = Keeper(opened.store, MONTH, "here"), list[str]()

        async def damaged(board: str, retention: Retention, place: int) -> Any:
            begun.append(board)
            if board == "main":
                raise StoreError("a page of main is damaged")
            return None, ()

        monkeypatch.setattr(opened.store, "forgettable", damaged)
        for _ in range(2):
            with pytest.raises(StoreError, match="main"):
                await keeper.look()
        assert begun == ["main", "zoo", "main"], "zoo's round is due within the hour"
