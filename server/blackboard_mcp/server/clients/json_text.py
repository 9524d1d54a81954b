"""Changes to the text of JSON with comments and trailing commas that leave the rest of the file as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .formats import NotReadable, Path

_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT: Final = re.compile(r"//[^\n\r]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = re.compile(r"[-+.\w]+")
_CLOSING: Final = {"{": "}", "[": "]"}


@dataclass(slots=True)
class _Node:
    """A value and its place in the text; an object or a list also has its parts."""

    start: int
    end: int
    value: Any
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """A member of an object, or an element of a list (whose key is `None`), and the place of the comma behind it."""

    key: str | None
    start: int
    node: _Node
    comma: int | None = None


def load(text: str) -> Any:
    """Returns the value of a text; a blank text is an empty object.

    Raises:
        NotReadable: it is not JSON, with or without comments.
    """
    return _parse(text).value if text.strip() else {}


def put(text: str, path: Path, value: Any) -> Iterator[str]:
    """Yields the text with the value added at the path.

    It becomes a new member, or a new element if the path ends with `None`.
    """
    if not text.strip():
        text = "{}\n"
    node, rest = _parse(text), list(path)
    while len(rest) > 1 and (part := _find(node, rest[0])) is not None:
        node = part.node
        del rest[0]
    for key in reversed(rest[1:]):
        value = [value] if key is None else {key: value}
    yield _insert(text, node, rest[0], value)


def drop(text: str, path: Path) -> Iterator[str]:
    """Yields variants of the text without the member or element at the path; the first that parses is to be used."""
    node = _parse(text)
    for key in path[:-1]:
        part = _find(node, key)
        if part is None:
            return
        node = part.node
    at = next((n for n, part in reversed(list(enumerate(node.parts))) if path[-1] in (part.key, n)), None)
    if at is None:
        return
    part = node.parts[at]
    comma = part.comma if part.comma is not None or at == 0 else node.parts[at - 1].comma
    for start in (
        len(text[: part.start].rstrip()),
        part.start,
    ):  # a comment on the line before may need the line's end, so keep it in the second variant
        cuts = sorted(
            [(start, part.node.end)] + ([] if comma is None else [(comma, comma + 1)]), reverse=True
        )
        changed = text
        for begin, end in cuts:
            changed = changed[:begin] + changed[end:]
        yield changed


def _find(node: _Node, key: str | int | None) -> _Part | None:
    return next((part for part in reversed(node.parts) if part.key == key and key is not None), None)


def _insert(text: str, node: _Node, key: str | int | None, value: Any) -> str:
    line = "\r\n" if "\r\n" in text else "\n"
    last = node.parts[-1] if node.parts else None
    tail = node.start + 1 if last is None else last.node.end if last.comma is None else last.comma + 1
    comments = [found.end() for found in _COMMENT.finditer(text, tail, node.end - 1)]
    at = comments[-1] if comments else tail
    apart = "\n" in text[node.start : node.end] or (
        last is None and ("\n" in text.strip() or not text.strip(" \t\n{}"))
    )
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if apart:
        unit = re.search(r"\n([ \t]+)\S", text)
        step = unit[1] if unit else "  "
        first = node.parts[0].start if node.parts else None
        own = None if first is None else re.search(r"\n([ \t]*)$", text[:first])
        here = re.match(r"[ \t]*", text[text.rfind("\n", 0, node.start) + 1 :])
        closing = here[0] if here else ""
        indent = own[1] if own else closing + step
        words = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", line + indent)
        before, after = line + indent, "" if last or "\n" in text[at : node.end - 1] else line + closing
    else:
        words = json.dumps(value, ensure_ascii=False)
        before, after = "" if last is None else " ", ""
    if last is not None and last.comma is not None:
        after = "," + after
    changed = text[:at] + before + name + words + after + text[at:]
    if last is not None and last.comma is None:
        changed = changed[: last.node.end] + "," + changed[last.node.end :]
    return changed


def _parse(text: str) -> _Node:
    try:
        node = _value(text, _skip(text, 0))
    except RecursionError:
        raise NotReadable("it is nested too deeply") from None
    if (end := _skip(text, node.end)) != len(text):
        raise _wrong(text, end)
    return node


def _skip(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    return found.end() if found else at


def _wrong(text: str, at: int) -> NotReadable:
    what = repr(text[at]) if at < len(text) else "the end of the file"
    return NotReadable(f"line {text.count(chr(10), 0, at) + 1}: {what} is not expected there")


def _value(text: str, at: int) -> _Node:
    opened = text[at : at + 1]
    if opened in _CLOSING:
        return _held(text, at, opened)
    found = (_STRING if opened == '"' else _WORD).match(text, at)
    if found is None:
        raise _wrong(text, at)
    try:
        return _Node(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise _wrong(text, at) from None


def _held(text: str, start: int, opened: str) -> _Node:
    parts: list[_Part] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != _CLOSING[opened]:
        begin, key = at, None
        if parts and parts[-1].comma is None:
            raise _wrong(text, at)
        if opened == "{":
            named = _STRING.match(text, at)
            if named is None:
                raise _wrong(text, at)
            at = _skip(text, named.end())
            if text[at : at + 1] != ":":
                raise _wrong(text, at)
            key, at = _value(text, begin).value, _skip(text, at + 1)
        node = _value(text, at)
        at = _skip(text, node.end)
        parts.append(_Part(key, begin, node))
        if text[at : at + 1] == ",":
            parts[-1].comma = at
            at = _skip(text, at + 1)
    value: Any = [part.node.value for part in parts]
    if opened == "{":
        value = {part.key: part.node.value for part in parts}
    return _Node(start, at + 1, value, parts)
