from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from blackboard_mcp.protocols.archive import ArchiveDocument, Embedder
from blackboard_mcp.storage.lance.embedders.wordllama import load_bundled_embedder
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

JOURNAL = Path(__file__).with_name("journal.py")


def _journal_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lance_journal", JOURNAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_MODULE = _journal_module()


@pytest.fixture
def journal_script() -> Path:
    return JOURNAL


@pytest.fixture
def document() -> Callable[..., ArchiveDocument]:
    return _MODULE.document  # type: ignore[no-any-return]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Any]:
    made = _MODULE.SqliteJournal(tmp_path / "journal.db")
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


@pytest_asyncio.fixture
async def lexical(tmp_path: Path) -> AsyncIterator[LanceArchiveIndex]:
    made = LanceArchiveIndex(tmp_path / "lexical", None)
    yield made
    await made.close()
