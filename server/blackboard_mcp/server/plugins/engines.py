"""The operator's own board store and archive index: loaded by import path, opened, and checked for their methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from blackboard_mcp.protocols.archive import ArchiveIndex
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.credentials import CredentialStore
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.store import BoardStore

from .loading import load

_STORE = "async def open(cls, folder, *, clock)"
_ARCHIVE = "async def open(cls, folder)"
_NAMED = 8
"""The most missing methods that an error names."""


async def open_store(path: str, folder: Path, clock: Clock, *, whole: bool = True) -> BoardStore:
    """Opens the board store of the class at `package.module:Class`; without `whole` it may lack methods.

    Raises:
        InvalidInput: it cannot be loaded or opened, or has not all methods of a board store.
        BlackboardError: whatever of ours the class raised.
    """
    before = f"store '{path}': "
    store = await _opened(path, before, _STORE, folder, clock=clock)
    if whole:
        _check(lacking(store), before, f"a board store; `blackboard-mcp kit {path}` says what each has to do")
    return cast(BoardStore, store)


async def open_archive(path: str, folder: Path, *, whole: bool = True) -> ArchiveIndex:
    """Opens the archive index of the class at `package.module:Class`; without `whole` it may lack methods.

    Raises:
        InvalidInput: it cannot be loaded or opened, or has not all methods of an index.
        BlackboardError: whatever of ours the class raised.
    """
    before = f"archive '{path}': "
    index = await _opened(path, before, _ARCHIVE, folder)
    if whole:
        what = f"an archive index; `blackboard-mcp kit --archive {path}` says what each has to do"
        _check(missing(index, ArchiveIndex), before, what)
    return cast(ArchiveIndex, index)


def lacking(store: object) -> list[str]:
    """Returns the methods that a board store lacks; those for access tokens count if it has any of them."""
    tokens = missing(store, CredentialStore) if hasattr(store, "add_token") else []
    return missing(store, BoardStore) + tokens


def missing(found: object, contract: type) -> list[str]:
    """Returns the methods of a protocol that an object lacks."""
    names = sorted(set(dir(contract)) - set(dir(Protocol)))
    return [name for name in names if not name.startswith("_") and not callable(getattr(found, name, None))]


def _check(lacks: list[str], before: str, what: str) -> None:
    if lacks:
        more = f" and {len(lacks) - _NAMED} more" if len(lacks) > _NAMED else ""
        raise InvalidInput(f"{before}it lacks {', '.join(lacks[:_NAMED])}{more} of {what}.")


def check_classes(store: str | None, archive: str | None) -> None:
    """Checks that the classes of a store and an index can be imported and have `open`, without opening them.

    Raises:
        InvalidInput: one cannot, or has not.
    """
    for kind, path, form in (("store", store, _STORE), ("archive", archive, _ARCHIVE)):
        if path is not None:
            _opener(path, f"{kind} '{path}': ", form)


def _opener(path: str, before: str, form: str) -> Callable[..., Any]:
    """Returns `open` of the class at a path.

    Raises:
        InvalidInput: there is no such class, or it has no `open`.
    """
    opener: Any = getattr(load(path, before), "open", None)
    if not callable(opener):
        raise InvalidInput(f"{before}it has no method open; give the class a class method `{form}`.")
    found: Callable[..., Any] = opener
    return found


async def _opened(path: str, before: str, form: str, *given: Any, **named: Any) -> Any:
    """Calls `open` of the class at a path, and returns what it opened.

    Raises:
        InvalidInput: there is no such class, it has no `open`, or `open` raised.
    """
    opener = _opener(path, before, form)
    try:
        found = opener(*given, **named)
        return await found if inspect.isawaitable(found) else found
    except BlackboardError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"{before}opening it failed: {type(error).__name__}: {error}. It is called as `{form}`."
        ) from error
