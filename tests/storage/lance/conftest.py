from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import lance_journal
import pytest
import pytest_asyncio
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveIndex, Embedder
from blackboard_mcp.storage.fts.index import FtsArchiveIndex
from blackboard_mcp.storage.lance.embedders.wordllama import load_bundled_embedder
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

JOURNAL = Path(lance_journal.__file__)


@pytest.fixture
def journal_script() -> Path:
    return JOURNAL


@pytest.fixture
def document() -> Callable[..., ArchiveDocument]:
    return lance_journal.document  # type: ignore[no-any-return]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Any]:
    made = lance_journal.SqliteJournal(tmp_path / "journal.db")
    yield made
    made.close()


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    found = load_bundled_embedder()
    if found is None:
        pytest.skip("no bundled model on this platform")
    return found


@pytest_asyncio.fixture
async def index(tmp_path: Path, embedder: Embedder) -> AsyncIterator[LanceArchiveIndex]:
    made = LanceArchiveIndex(tmp_path / "archive", embedder)
    yield made
    await made.close()


def _without_model(folder: Path) -> LanceArchiveIndex:
    return LanceArchiveIndex(folder, None)


@pytest_asyncio.fixture(params=[_without_model, FtsArchiveIndex], ids=["lance", "fts"])
async def open_lexical(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Callable[[], ArchiveIndex]]:
    """Opens one folder's index by words, LanceDB's and then SQLite's, as often as it is called."""
    made: list[ArchiveIndex] = []

    def opened() -> ArchiveIndex:
        made.append(request.param(tmp_path / "lexical"))
        return made[-1]

    yield opened
    for index in made:
        await index.close()


@pytest.fixture
def lexical(open_lexical: Callable[[], ArchiveIndex]) -> ArchiveIndex:
    """An index by words: what holds for LanceDB's holds for SQLite's."""
    return open_lexical()


@pytest_asyncio.fixture
async def modelless(tmp_path: Path) -> AsyncIterator[LanceArchiveIndex]:
    """LanceDB's index without a model, for what only it has: its table, its folders, its notice."""
    made = _without_model(tmp_path / "modelless")
    yield made
    await made.close()
