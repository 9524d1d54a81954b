"""Syntax of files: whether JSON, TOML, YAML and Python can be read, without running anything."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

from blackboard_mcp.protocols.errors import InvalidInput

KINDS: Final = ("json", "toml", "yaml", "python")
_ENDINGS: Final = {
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".py": "python",
    ".pyi": "python",
}
_TOO_DEEP: Final = "it is nested too deeply"
_MOST: Final = 200
_TOML_DOTS: Final = 500
"""The time of TOML's parser grows with the square of the dots in a key."""
_YAML: Final = 200_000
"""Longest YAML that is checked, in characters; its parser in Python is slower."""
_YAML_DEPTH: Final = 500
"""The time of YAML's parsers grows with the square of how many brackets are open."""


def check_kinds(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Returns the kinds of files whose syntax is checked; `none` alone stands for no kind.

    Raises:
        InvalidInput: there is no such kind.
    """
    if names == ("none",):
        return ()
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidInput(f"{where} names {unknown[0]!r}; there are: {', '.join(KINDS)}, or none.")
    return tuple(dict.fromkeys(names))


def kind_of(path: str) -> str:
    """Returns the kind of a file whose syntax can be checked, by its ending; else an empty text."""
    name = path.rpartition("/")[2].lower()
    return _ENDINGS.get(f".{name.rpartition('.')[2]}", "") if "." in name else ""


def fault_of(kind: str, body: bytes) -> str:
    """Returns what keeps a file of a kind from being read, with its line where known; empty if nothing does."""
    try:
        return _fault(kind, body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 at byte {error.start}"
    except (RecursionError, MemoryError):
        return _TOO_DEEP


def _fault(kind: str, text: str) -> str:
    match kind:
        case "json":
            try:
                json.loads(text)
            except json.JSONDecodeError as error:
                return f"line {error.lineno}: {error.msg}"
            except ValueError as error:  # a number of too many digits
                return str(error)[:_MOST]
        case "toml":
            if any(line.count(".") > _TOML_DOTS for line in text.split("\n")):
                return ""  # it may well be in order, but reading it takes too long
            try:
                tomllib.loads(text)
            except ValueError as error:
                return str(error)[:_MOST]
        case "yaml":
            import yaml

            fast = getattr(yaml, "CSafeLoader", None)
            if len(text) > (_YAML if fast else _YAML // 20) or _depth(text) > _YAML_DEPTH:
                return ""  # it may well be in order, but reading it takes too long
            try:
                # Events alone: no object is made, and no alias is followed.
                for _ in yaml.parse(text, Loader=fast or yaml.SafeLoader):
                    pass
            except yaml.MarkedYAMLError as error:
                line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
                return f"{line}{error.problem or error.context}"[:_MOST]
            except yaml.YAMLError as error:
                return " ".join(str(error).split())[:_MOST]
        case "python":
            from blackboard_mcp.storage.workspace.chunks import python_tree

            try:
                python_tree(text)
            except SyntaxError as error:
                return f"line {error.lineno}: {error.msg}"[:_MOST] if error.lineno else str(error.msg)[:_MOST]
            except ValueError as error:
                return str(error)[:_MOST]
    return ""


def _depth(text: str) -> int:
    """Returns how many brackets are open at most, if all of them count."""
    depth = most = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        most = max(most, depth)
    return most
