"""The lines of a history: how one is written, and what is refused when one is read.

A file may come from anywhere, so nothing in it is trusted: neither its encoding, size, depth or numbers, nor that each
member occurs only once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

from blackboard_mcp.protocols.errors import InvalidInput

from .forms import RowForm, UnfitRow

FORMAT = "blackboard-history"
VERSION = 1

MAX_LINE = 64 << 20
"""Longest line that is read, in bytes."""
_MAX_DEPTH = 40


class Hash(Protocol):
    """A hash of `hashlib`."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class BadLine(InvalidInput):
    """A line of a history that is not acceptable; nothing was changed."""

    code = "bad_history"

    def __init__(self, line: int, wrong: str) -> None:
        super().__init__(f"Line {line:,}: {wrong}. Nothing was changed.", line=line)


class _Wrong(ValueError):
    pass


def write(line: Mapping[str, Any]) -> bytes:
    """Returns the line as bytes of the file, with its line end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


_SHA256 = 64
_END = b'"}}\n'
"""The bytes after the sha256 on the last line."""


def seal(before: Hash, last: bytes) -> bytes:
    """Returns the last line with the sha256 of everything before that hash in the file filled in.

    `last` was written with an empty sha256. `before` has hashed the lines before, and is updated with this one.
    """
    head = last.removesuffix(_END)
    before.update(head)
    return head + before.hexdigest().encode() + _END


def sealed(last: bytes) -> bytes:
    """Returns the part of the last line that its sha256 covers."""
    return last[: -_SHA256 - len(_END)]


def read(raw: bytes, number: int) -> dict[str, Any]:
    """Parses the object in a line.

    Raises:
        BadLine: the line is cut off, too long, not UTF-8, not JSON, or JSON that is ambiguous.
    """
    if len(raw) > MAX_LINE:
        raise BadLine(number, f"longer than {MAX_LINE >> 20} MiB")
    if not raw.endswith(b"\n"):
        raise BadLine(number, "the file ends in the middle of it")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadLine(number, f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise BadLine(number, "begins with a byte order mark; the file is UTF-8 without one")
    if text.count("[") + text.count("{") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise BadLine(number, f"nested more than {_MAX_DEPTH} deep")
    try:
        line = _decoder.decode(text)
        if "\\u" in text:
            _check_escaped(line)
    except _Wrong as error:
        raise BadLine(number, str(error)) from None
    except ValueError as error:
        raise BadLine(number, f"not JSON ({str(error)[:120]})") from None
    if not isinstance(line, dict):
        raise BadLine(number, "not a JSON object")
    return line


def fields(given: object, forms: Mapping[str, RowForm], number: int, what: str) -> dict[str, Any]:
    """Returns the values of an object as the store represents them, in the order of `forms`.

    Raises:
        BadLine: not an object, a member too many or too few, or a value that its column cannot hold.
    """
    if not isinstance(given, dict):
        raise BadLine(number, f"{what} must be an object")
    for name, form in forms.items():
        if form.formerly in given and name not in given:
            given = {name if n == form.formerly else n: value for n, value in given.items()}
    if unknown := [name for name in given if name not in forms]:
        raise BadLine(number, f"{what} has a member '{unknown[0][:40]}' that is unknown to this version")
    values: dict[str, Any] = {}
    for name, form in forms.items():
        if name not in given:
            if form.default is ...:
                raise BadLine(number, f"{what} has no {name}")
            values[name] = form.default
            continue
        try:
            values[name] = form.to_store(given[name])
        except UnfitRow as error:
            raise BadLine(number, f"{what}: {name} must be {error}") from None
    return values


def _depth(text: str) -> int:
    """Returns how deep brackets outside strings nest."""
    depth = deepest = 0
    inside = escaped = False
    for c in text:
        if inside:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == '"':
                inside = False
        elif c == '"':
            inside = True
        elif c in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > _MAX_DEPTH:
                break
        elif c in "]}":
            depth -= 1
    return deepest


def _check_escaped(line: Any) -> None:
    """Refuses NUL and lone surrogates written as escapes; the decoder refuses them in plain form."""
    text = json.dumps(line, ensure_ascii=False)
    if "\\u0000" in text and _has_nul(line):
        raise _Wrong("a text holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Wrong("a text holds a lone surrogate (half of a character)") from None


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(name) or _has_nul(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    line = dict(pairs)
    if len(line) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Wrong(f"the member '{name[:40]}' stands there twice")
            seen.add(name)
    return line


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Wrong("a number is too large")
    return value


def _constant(name: str) -> Any:
    raise _Wrong(f"{name} is no JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_once_each, parse_float=_number, parse_constant=_constant, strict=True
)
