"""Entries that hold pydantic models: published, read back and followed as what they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.keys import check_glob, compile_glob
from blackboard_mcp.protocols.literals import PostTypeName
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.wire import WireItem
from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from .surface import BoardAccess

M = TypeVar("M", bound=BaseModel)
_WRITTEN = ["item.posted", "item.versioned", "item.deleted"]
_FAULT = 500
_ATTEMPTS = 32


@dataclass(frozen=True, slots=True)
class Entry(Generic[M]):
    """An entry as a model.

    Attributes:
        item: the entry itself; `None` if it was deleted.
        value: the model; `None` if the entry was deleted, or holds something else.
        fault: why it is not the model; empty if it is, or was deleted.
    """

    key: str
    version: int
    item: WireItem | None
    value: M | None
    fault: str = ""


class ModelEntries(Generic[M]):
    """The entries of one model on a board, under one pattern of keys. `BoardAccess.models` makes it."""

    def __init__(
        self,
        board: BoardAccess,
        model: type[M],
        key: Callable[[M], str],
        pattern: str,
        type: PostTypeName | ItemType,
    ) -> None:
        self._board = board
        self._model = model
        self._key = key
        self._type = type
        self._glob = compile_glob(check_glob(pattern))

    async def publish(
        self,
        value: M,
        *,
        expected_version: int | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> Entry[M]:
        """Writes the model as JSON to the entry of its key, and returns the entry.

        Fields with an alias are written under it, and computed fields are left out, so that the model can be read back.

        Raises:
            InvalidInput: its key is no text, or not under the pattern.
            Conflict: the entry is not at `expected_version` (0: must not exist).
            Refused: the board does not accept such a post.
        """
        key = self._key(value)
        if not isinstance(key, str):
            raise InvalidInput(
                f"The key function gave {key!r:.80} for this {self._model.__name__}; it has to give a text under "
                f"{self._glob.text!r}. Nothing was changed."
            )
        if not self._glob.matches(key):
            raise InvalidInput(
                f"The key {key[:80]!r} of this {self._model.__name__} is not under {self._glob.text!r}. Nothing was "
                "changed."
            )
        item = await self._board.post(
            value.model_dump_json(by_alias=True, round_trip=True),
            type=self._type,
            key=key,
            tags=tags,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )
        return self._entry(item)

    async def get(self, key: str) -> Entry[M]:
        """Returns the entry at a key.

        Raises:
            UnknownReference: there is none.
        """
        return self._entry(await self._board.get(key))

    async def all(self) -> list[Entry[M]]:
        """Returns the live entries under the pattern, newest first."""
        return [self._entry(item) async for item in self._board.query(key=self._glob.text)]

    @asynccontextmanager
    async def changes(
        self, *, since: int | None = None, name: str | None = None
    ) -> AsyncIterator[AsyncIterator[Entry[M]]]:
        """Follows the entries: `async with samples.changes() as changes`, then `async for entry in changes`.

        Each change brings the entry as it is by then, so several changes may bring the same version. With `name` it is
        durable and goes on where it ended, as `BoardAccess.events` does.
        """
        events = self._board.events({"key": self._glob.text, "event": _WRITTEN}, since=since, name=name)
        async with events as stream:

            async def entries() -> AsyncIterator[Entry[M]]:
                async for event in stream:
                    if event.key is not None:
                        item = await self._board.find(event.key)
                        yield self._entry(item) if item else Entry(event.key, event.version or 0, None, None)

            yield entries()

    async def register(self, name: str) -> None:
        """Makes the model's JSON Schema the board's validation rule `name` for the pattern; stewards alone may.

        A rule of this name is replaced; the others stay. From then on nobody writes anything else under the pattern.

        Raises:
            InvalidInput: the schema has something that rules do not support.
            Forbidden: the agent may not change the board's settings.
            Conflict: others changed the rules again and again meanwhile.
        """
        rule = {"name": name, "key": self._glob.text, "schema": self._model.model_json_schema()}
        for attempt in range(_ATTEMPTS):
            present: list[dict[str, Any]] = (await self._board.info()).settings.get("validation", [])
            rules = [given for given in present if given.get("name") != name]
            try:
                await self._board.change(
                    settings={"validation": [*rules, rule]}, expected_settings={"validation": present}
                )
                return
            except Conflict:  # somebody changed the rules meanwhile
                if attempt + 1 == _ATTEMPTS:
                    raise

    def _entry(self, item: WireItem) -> Entry[M]:
        try:
            value = self._model.model_validate_json(item.text or "")
        except ValidationError as error:
            said = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'text'}: {e['msg']}" for e in error.errors()[:5]
            )
            return Entry(item.key or "", item.version, item, None, said[:_FAULT])
        return Entry(item.key or "", item.version, item, value)
