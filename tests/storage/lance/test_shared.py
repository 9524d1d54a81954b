"""An index that several machines share: one writes it, and all read the state that the store says is in use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import lancedb
import numpy as np
import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveIndex, ArchiveQuery
from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import rows, upkeep
from blackboard_mcp.storage.lance.shared import IndexState, SharedArchiveIndex, SharedTables
from blackboard_mcp.storage.testing.kit import ArchiveIndexKit
from s3_server import S3Server, s3_server

Make = Callable[..., ArchiveDocument]


class States:
    """The state in use, as a store keeps it."""

    def __init__(self) -> None:
        self.text = ""

    async def index_state(self) -> str:
        return self.text

    async def move_index_state(self, former: str, to: str) -> bool:
        if self.text != former:
            return False
        self.text = to
        return True

    @property
    def state(self) -> IndexState:
        return IndexState.of(self.text)


class Waiting:
    """An embedder whose next call waits until it is told to go on."""

    name, dimension = "waiting", 8

    def __init__(self) -> None:
        self.waits = False
        self.began, self.may = threading.Event(), threading.Event()

    def embed_documents(self, texts: list[str]) -> object:
        if self.waits:
            self.began.set()
            assert self.may.wait(60)
        return np.tile(np.eye(1, 8, dtype=np.float32), (len(texts), 1))

    def embed_query(self, text: str) -> object:
        return np.eye(1, 8, dtype=np.float32)[0]


@pytest.fixture
async def opened(location: str) -> AsyncIterator[Callable[..., SharedArchiveIndex]]:
    """Opens one location's index as often as it is called, each time as another machine does."""
    states = States()
    made: list[SharedArchiveIndex] = []

    def index(embedder: Any = None) -> SharedArchiveIndex:
        made.append(SharedArchiveIndex(SharedTables(location), states, embedder))
        return made[-1]

    index.states = states  # type: ignore[attr-defined]
    yield index
    for each in made:
        await each.close()


Opened = Any


async def hits(index: ArchiveIndex, text: str) -> list[tuple[int, float]]:
    answer = await index.search(ArchiveQuery("main", text, limit=50))
    return [(hit.number, hit.score) for hit in answer.hits]


class TestSharedFolder(ArchiveIndexKit):
    states = States()

    async def open_index(self, folder: Path) -> ArchiveIndex:
        (folder / "index").mkdir(exist_ok=True)
        if not any((folder / "index").iterdir()):
            type(self).states = States()
        index = SharedArchiveIndex(SharedTables(str(folder / "index")), self.states, None)
        await index.claim()
        return index


class TestSharedBucket(ArchiveIndexKit):
    places: ClassVar[dict[Path, tuple[str, States]]] = {}

    @pytest.fixture(autouse=True)
    def _served(self, s3: S3Server) -> None:
        type(self).server = s3  # type: ignore[attr-defined]

    async def open_index(self, folder: Path) -> ArchiveIndex:
        if folder not in self.places:
            self.places[folder] = (self.server.bucket(), States())  # type: ignore[attr-defined]
        place, states = self.places[folder]
        index = SharedArchiveIndex(SharedTables(place), states, None)
        await index.claim()
        return index


async def test_machines_that_read_one_state_give_equal_answers(opened: Opened, document: Make) -> None:
    one, two = opened(), opened()
    await one.claim()
    await one.upsert([document(n, f"the valve number {n} leaks into cellar {n % 3}") for n in range(1, 60)])
    first = await hits(two, "cellar 2 valve")
    assert first
    assert first == await hits(one, "cellar 2 valve")
    await two.claim()
    await two.upsert([document(61, "a pump beside the valve", seq=2)])
    await two.remove([("main", 5)])
    assert await hits(one, "pump valve") == await hits(two, "pump valve")
    assert 61 in dict(await hits(one, "pump"))
    assert 5 not in dict(await hits(one, "valve"))
    assert await one.keys() == await two.keys()
    assert await one.life() == await two.life()


async def test_whoever_lost_the_claim_writes_nothing(opened: Opened, document: Make) -> None:
    one, two = opened(), opened()
    await one.claim()
    await one.upsert([document(1, "alpha"), document(2, "alpha")])
    await two.claim()
    for late in (
        lambda: one.upsert([document(3, "late")]),
        lambda: one.remove([("main", 1)]),
        lambda: one.reset(),
    ):
        with pytest.raises(ArchiveUnavailable) as told:
            await late()
        assert told.value.facts["reason"] == "replaced"
    draft = one.draft()
    with pytest.raises(ArchiveUnavailable):
        await draft.upsert([document(4, "late")])
    await draft.close()
    await two.remove([("main", 2)])
    assert await one.keys() == await two.keys() == {("main", 1): 1}


async def test_a_writer_that_stalled_before_it_added_is_refused_by_the_table(
    opened: Opened, document: Make, location: str
) -> None:
    slow, quick = Waiting(), Waiting()
    one, two = opened(slow), opened(quick)
    await one.claim()
    await one.upsert([document(1, "alpha")])
    slow.waits = True
    adding = asyncio.create_task(one.upsert([document(2, "a secret that is taken back")]))
    assert await asyncio.to_thread(slow.began.wait, 60)
    # Meanwhile the other takes over, learns that the second is gone, and writes the third.
    await two.claim()
    await two.remove([("main", 2)])
    await two.upsert([document(3, "alpha")])
    slow.may.set()
    with pytest.raises(ArchiveUnavailable) as told:
        await adding
    assert told.value.facts["reason"] == "replaced"
    await two.upsert([document(4, "alpha")])
    assert set(await two.keys()) == {("main", 1), ("main", 3), ("main", 4)}
    state: IndexState = opened.states.state
    newest = lancedb.connect(location).open_table(state.table)
    assert newest.version == state.version, "nothing was added beside what the store knows"
    assert "secret" not in str(newest.to_arrow().to_pylist())


async def test_what_a_writer_added_and_could_not_note_is_taken_back(
    opened: Opened, document: Make, location: str
) -> None:
    one, two, states = opened(), opened(), opened.states
    await one.claim()
    await one.upsert([document(1, "alpha")])
    noted = states.text

    async def dies(former: str, to: str) -> bool:
        raise ConnectionError("as if it was killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "move_index_state", dies)
        with pytest.raises(ConnectionError):
            await one.upsert([document(2, "alpha")])
    assert states.text == noted
    newest = lancedb.connect(location).open_table(states.state.table)
    assert newest.count_rows() == 2
    assert set(await two.keys()) == {("main", 1)}, "others read what the store knows"
    await two.claim()
    await two.upsert([document(3, "alpha")])
    assert set(await one.keys()) == {("main", 1), ("main", 3)}


async def test_compaction_leaves_the_version_that_others_read_until_the_store_knows_the_new_one(
    opened: Opened, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_KEEP_VERSIONS", timedelta(0))
    one, two, states = opened(), opened(), opened.states
    await one.claim()
    for n in range(1, 12):
        await one.upsert([document(n, f"alpha {n}")])
    moved = states.move_index_state
    seen: list[int] = []

    async def looked(former: str, to: str) -> bool:
        seen.append(len(await two.keys()))
        return bool(await moved(former, to))

    monkeypatch.setattr(states, "move_index_state", looked)
    with pytest.warns(UserWarning, match="removes every version"):
        await one.maintain()
    assert seen[0] == 11, "before the store knew it"
    assert len(await two.keys()) == 11
    table = one._written
    assert len(table.list_versions()) == 1


async def test_a_replacement_is_put_into_use_for_all_and_the_former_table_goes(
    opened: Opened, document: Make, location: str
) -> None:
    one, two = opened(), opened()
    await one.claim()
    await one.upsert([document(1, "alpha"), document(2, "alpha")])
    assert len(await hits(two, "alpha")) == 2
    life = await two.life()
    draft = one.draft()
    await draft.upsert([document(1, "alpha")])
    assert len(await hits(two, "alpha")) == 2
    assert len(_tables(location)) == 2
    await draft.publish()
    await draft.close()
    assert [number for number, _ in await hits(two, "alpha")] == [1]
    assert await two.life() == await one.life() != life
    assert _tables(location) == [opened.states.state.table]
    await one.upsert([document(5, "alpha")])
    assert len(await hits(two, "alpha")) == 2


async def test_a_replacement_that_nobody_finished_is_deleted_by_the_next_writer(
    opened: Opened, document: Make, location: str
) -> None:
    one, two = opened(), opened()
    await one.claim()
    await one.upsert([document(1, "alpha")])
    draft = one.draft()
    await draft.upsert([document(1, "alpha")])
    assert len(_tables(location)) == 2
    await two.claim()
    await two.upsert([document(2, "alpha")])
    assert _tables(location) == [opened.states.state.table]
    with pytest.raises(ArchiveUnavailable):
        await draft.publish()
    await draft.close()
    assert set(await one.keys()) == {("main", 1), ("main", 2)}


async def test_a_table_of_a_newer_version_is_left_to_it(
    opened: Opened, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(), opened()
    await one.claim()
    with monkeypatch.context() as patch:
        patch.setattr(rows, "SCHEMA_VERSION", rows.SCHEMA_VERSION + 1)
        await one.upsert([document(1, "alpha")])
    with pytest.raises(ArchiveUnavailable, match="newer version") as told:
        await two.keys()
    assert told.value.facts["reason"] == "newer"


async def unmounted(folder: Path, document: Make) -> tuple[Path, States]:
    """Returns where an index of one document was until its folder was taken away, and its state."""
    place, states = folder / "mounted", States()
    place.mkdir()
    index = SharedArchiveIndex(SharedTables(str(place)), states, None)
    await index.claim()
    await index.upsert([document(1, "alpha")])
    await index.close()
    place.rename(folder / "away")
    return place, states


async def test_a_folder_that_is_not_mounted_is_not_taken_for_a_lost_index(
    tmp_path: Path, document: Make
) -> None:
    place, states = await unmounted(tmp_path, document)
    for there in (False, True):
        if there:
            place.mkdir()
        index = SharedArchiveIndex(SharedTables(str(place)), states, None)
        with pytest.raises(ArchiveUnavailable, match="cannot be reached") as told:
            await hits(index, "alpha")
        assert told.value.facts["reason"] == "unreachable"
        await index.claim()
        with pytest.raises(ArchiveUnavailable, match="cannot be reached"):
            await index.upsert([document(2, "alpha")])
        await index.close()
    assert list(place.iterdir()) == []


class Contested(States):
    """A state whose writer is another one at each look, as where all machines try in vain to write."""

    async def index_state(self) -> str:
        self.text = replace(self.state, writer=new_token()).text()
        return self.text


async def test_others_who_try_to_write_as_well_do_not_hide_that_an_index_does_not_answer(
    tmp_path: Path, document: Make
) -> None:
    place, states = await unmounted(tmp_path, document)
    contested = Contested()
    contested.text = states.text
    index = SharedArchiveIndex(SharedTables(str(place)), contested, None)
    with pytest.raises(ArchiveUnavailable) as told:
        await hits(index, "alpha")
    assert told.value.facts["reason"] == "unreachable"
    await index.close()


async def test_a_store_that_does_not_answer_is_named_and_no_key_of_it(
    document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as server:
        states = States()
        place = server.bucket()
        index = SharedArchiveIndex(SharedTables(place), states, None)
        await index.claim()
        await index.upsert([document(1, "alpha"), document(2, "beta")])
        other = SharedArchiveIndex(SharedTables(place), states, None)
        assert len(await hits(other, "alpha")) == 1
        server.stop()
        # What was read stays in memory, so it is searched as before.
        assert len(await hits(other, "alpha")) == 1
        fresh = SharedArchiveIndex(SharedTables(place), states, None)
        for _ in range(2):
            with pytest.raises(ArchiveUnavailable, match=f"{place} cannot be reached") as told:
                await hits(fresh, "alpha")
            assert told.value.facts["reason"] == "unreachable"
        with pytest.raises(ArchiveUnavailable) as told:
            await index.upsert([document(3, "gamma")])
        assert told.value.facts["reason"] == "unreachable"
        for one in (index, other, fresh):
            await one.close()
    with s3_server() as server:
        server.bucket()
        index = SharedArchiveIndex(SharedTables("s3://nobody-made-this/index"), States(), None)
        await index.claim()
        with pytest.raises(ArchiveUnavailable, match="cannot be reached: NoSuchBucket"):
            await index.upsert([document(1, "alpha")])
        await index.close()


def test_a_store_that_sends_whole_objects_for_parts_is_told_of() -> None:
    # What the driver says where `rclone serve s3` 1.75 is the object store.
    said = "lance error: LanceError(IO): Generic S3 error: Received non-partial response when range requested, io.rs"
    told = SharedTables("s3://boards/index").explained(RuntimeError(said))
    assert told.facts["reason"] == "unreachable"
    assert told.message.endswith("cannot be reached: Received non-partial response when range requested.")


async def test_many_machines_that_write_at_once_lose_and_double_nothing(
    opened: Opened, document: Make
) -> None:
    async def wrote(index: SharedArchiveIndex, n: int) -> bool:
        try:
            await index.claim()
            await index.upsert([document(n, f"alpha {n}")])
        except ArchiveUnavailable as error:
            if error.facts["reason"] != "replaced":
                raise
            return False
        return True

    async def write(index: SharedArchiveIndex, mine: range) -> None:
        for n in mine:
            while not await wrote(index, n):
                pass

    await asyncio.gather(*(write(opened(), range(k * 10, k * 10 + 3)) for k in range(2)))
    reader = opened()
    assert sorted(n for _, n in await reader.keys()) == [0, 1, 2, 10, 11, 12]
    assert len(await hits(reader, "alpha")) == 6


def _tables(location: str) -> list[str]:
    return sorted(lancedb.connect(location).list_tables().tables)
