"""Changes to the text of YAML: an entry is added to a mapping, and removed again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode

from .formats import NotReadable, Path


def load(text: str) -> Any:
    """Returns the value of a text; a text that is blank or has only comments is an empty mapping.

    Raises:
        NotReadable: it is not YAML.
    """
    return _read(text, "load") or {}


def put(text: str, path: Path, value: dict[str, Any]) -> Iterator[str]:
    """Yields the text with the value as the first entry of the mapping at the path."""
    line = "\r\n" if "\r\n" in text else "\n"
    within, name = str(path[0]), str(path[1])
    found = _find(_read(text, "compose"), within)
    if found is None:
        whole = text + (line if text and not text.endswith("\n") else "")
        yield whole + f"{within}:{line}" + _block(name, value, "  ", line)
        return
    key, held = found
    if isinstance(held, MappingNode) and held.value and held.flow_style:
        at = held.start_mark.index + 1
        yield f"{text[:at]}{_words(name)}: {_words(value)}, {text[at:]}"
        return
    indent = " " * (key.start_mark.column + 2)
    if isinstance(held, MappingNode) and held.value:
        first = held.value[0][0].start_mark.index
        words = text[text.rfind("\n", 0, first) + 1 : first]
        indent = words[: len(words) - len(words.lstrip(" "))]
    else:  # the mapping is empty: nothing, null or {}
        text = text[: held.start_mark.index].rstrip(" ") + text[held.end_mark.index :]
    end = text.find("\n", key.end_mark.index)
    whole, rest = (text + line, "") if end < 0 else (text[: end + 1], text[end + 1 :])
    yield whole + _block(name, value, indent, line) + rest


def drop(text: str, path: Path) -> Iterator[str]:
    """Yields variants of the text without the entry; the second writes a mapping that is then empty as `{}`."""
    node, above = _read(text, "compose"), None
    for key in path[:-1]:
        found = _find(node, key)
        if found is None:
            return
        above, node = found
    found = _find(node, path[-1])
    if found is None:
        return
    key, held = found
    if node.flow_style:
        after = next((k for k, _ in node.value if k.start_mark.index > held.start_mark.index), None)
        end = held.end_mark.index if after is None else after.start_mark.index
        yield text[: key.start_mark.index] + text[end:]
        return
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    lines = text[start:].splitlines(keepends=True)
    end = 1
    for at, words in enumerate(lines[1:], 1):
        bare = words.lstrip(" ")
        if bare.strip() and not bare.startswith("#"):
            if len(words) - len(bare) <= key.start_mark.column:
                break
            end = at + 1
    yield text[:start] + "".join(lines[end:])
    if above is not None:
        at = above.end_mark.index + 1
        yield text[:at] + " {}" + text[at:start] + "".join(lines[end:])


def _read(text: str, how: str) -> Any:
    try:
        return getattr(YAML(typ="safe", pure=True), how)(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise NotReadable(where + str(getattr(error, "problem", None) or error).splitlines()[0]) from None


def _find(node: Any, key: object) -> tuple[Any, Any] | None:
    if not isinstance(node, MappingNode):
        return None
    return next(((k, v) for k, v in node.value if k.value == key), None)


def _block(name: str, value: dict[str, Any], indent: str, line: str) -> str:
    lines = [f"{_plain(name)}:", *(f"  {_plain(key)}: {_words(one)}" for key, one in value.items())]
    return "".join(indent + words + line for words in lines)


def _plain(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", word) else _words(word)


def _words(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
