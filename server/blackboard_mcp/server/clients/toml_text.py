"""Changes to the text of TOML: a table is added at the end, and removed from anywhere."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from .formats import NotReadable, Path


def load(text: str) -> Any:
    """Returns the value of a text.

    Raises:
        NotReadable: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotReadable(str(error)) from None


def put(text: str, path: Path, value: dict[str, Any]) -> Iterator[str]:
    """Yields the text with the value added as a table at its end."""
    line = "\r\n" if "\r\n" in text else "\n"
    lines = [
        f"[{'.'.join(map(_key, path))}]",
        *(f"{_key(key)} = {_value(one)}" for key, one in value.items()),
    ]
    whole = text + (line if text and not text.endswith("\n") else "")
    yield whole + (line if text.strip() else "") + "".join(words + line for words in lines)


def drop(text: str, path: Path) -> Iterator[str]:
    """Yields the text without the table, once for each line that looks like its header.

    A line inside a string may look like a header, so the first text that parses as wanted is to be used.
    """
    keys = (
        rf"\s*(?:{re.escape(str(key))}|{re.escape(_value(key))}|'{re.escape(str(key))}')\s*" for key in path
    )
    header = re.compile(rf"\s*\[{'[.]'.join(keys)}\]\s*(?:#.*)?")
    lines = text.splitlines(keepends=True)
    for at, words in enumerate(lines):
        if header.fullmatch(words.rstrip("\r\n")):
            end = next(
                (n for n in range(at + 1, len(lines)) if lines[n].lstrip().startswith("[")), len(lines)
            )
            while end > at + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):  # belongs to the next table
                end -= 1
            start = at - 1 if at and not lines[at - 1].strip() else at
            yield "".join(lines[:start] + lines[end:])


def _key(key: object) -> str:
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else _value(str(key))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
