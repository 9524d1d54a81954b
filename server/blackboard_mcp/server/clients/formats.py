"""Changes to a configuration's text, each verified by parsing the new text before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from itertools import pairwise
from typing import Any, Protocol, cast

from blackboard_mcp.protocols.errors import InvalidInput

Path = tuple[str | int | None, ...]
"""The path of a value: keys, and at the end an element's index in a list, or `None` for a new element."""


class NotReadable(InvalidInput):
    """Raised when a text is not valid in its format; the message says where and why."""


class NotEditable(InvalidInput):
    """Raised when a text is valid but written in a way that this package cannot change."""


class _Format(Protocol):
    def load(self, text: str) -> Any: ...
    def put(self, text: str, path: Path, value: Any) -> Iterator[str]: ...
    def drop(self, text: str, path: Path) -> Iterator[str]: ...


def _of(kind: str) -> _Format:
    return cast(_Format, import_module(f".{kind}_text", __package__))


def load(kind: str, text: str) -> dict[str, Any]:
    """Parses a text in the format `kind` (`json`, `toml` or `yaml`), and returns its top-level object.

    Raises:
        NotReadable: it is not valid, or its top level is no object.
    """
    found = _of(kind).load(text)
    if not isinstance(found, dict):
        raise NotReadable("it holds no object at its top")
    return found


def find(data: Any, path: Path) -> Any:
    """Returns the value at a path, or `None` if there is none.

    Raises:
        NotEditable: a value on the way is not an object.
    """
    for number, key in enumerate(path):
        if data is None:
            return None
        if not isinstance(data, dict):
            raise NotEditable(f"'{path[number - 1]}' is no object")
        if key not in data:
            return None
        data = data[key]
    return data


def put(kind: str, text: str, path: Path, value: Any) -> str:
    """Returns the text with a value at the path, in place of the one that was there.

    Raises:
        NotEditable: the text cannot be changed without changing something else.
    """
    if path[-1] is not None and find(load(kind, text), path) is not None:
        text = drop(kind, text, path)
    wanted = load(kind, text)
    within: Any = wanted
    for key, following in pairwise(path):
        if within.get(key) is None and kind == "yaml":
            within[key] = {}
        within = within.setdefault(key, [] if following is None else {})
    if isinstance(within, list):
        within.append(value)
    elif isinstance(within, dict) and path[-1] is not None:
        within[path[-1]] = value
    else:
        raise NotEditable(f"'{path[-2]}' is not what it must be there")
    return _first(kind, _of(kind).put(text, path, value), [wanted])


def drop(kind: str, text: str, path: Path) -> str:
    """Returns the text without the value at the path. A table that is then empty may be gone too.

    Raises:
        NotEditable: the text cannot be changed without changing something else.
    """
    wanted = load(kind, text)
    within: Any = wanted
    for key in path[:-1]:
        within = within[key]
    del within[path[-1]]
    bare = deepcopy(wanted)
    if kind == "toml" and not within:
        bare.pop(str(path[0]))
    return _first(kind, _of(kind).drop(text, path), [wanted, bare])


def _first(kind: str, candidates: Iterator[str], wanted: list[Any]) -> str:
    for candidate in candidates:
        try:
            found = load(kind, candidate)
        except NotReadable:
            continue
        if any(_same(found, one) for one in wanted):
            return candidate
    raise NotEditable("it is written in a way that this command does not change")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or repr(one) == repr(other))
