"""Chunks of files: what is defined or said under one heading, with its lines.

Python and the languages of `grammars` are cut at definitions, Markdown at headings, other texts where a line without
indentation follows an empty one. What cannot be parsed is cut like other texts.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

from blackboard_mcp.protocols.values import dataclass

from .grammars import definitions

MAX_CHARACTERS: Final = 1_600
"""Longest chunk, about 400 tokens; a longer definition is cut into several."""
MAX_LINE: Final = 2_000
"""So many characters of a line count."""
_TREE: Final = threading.Lock()
_HEADING: Final = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*\Z")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_DEFINES: Final = re.compile(
    r"(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|abstract\s+|async\s+|pub(?:\([a-z]+\))?\s+|final\s+)*"
    r"(?:class|interface|enum|struct|trait|impl|type|function|func|fn|def|module|namespace|const|create\s+(?:table|view|trigger"
    r"|index))\b\s*(?:if\s+not\s+exists\s+)?(?:\([^)]{0,60}\)\s*)?([\w.:$-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines of a file, counted from 1, both ends included. `title` says what they define, as `Board > post`."""

    start: int
    end: int
    title: str


def chunks_of(path: str, text: str) -> list[Chunk]:
    """Returns the chunks of a text; together they have all of its lines that are not empty."""
    lines = [line[:MAX_LINE] for line in text.split("\n")]
    name = path.rpartition("/")[2].lower()
    cuts: list[tuple[int, str]] | None = None
    if name.endswith((".py", ".pyi")):
        cuts = _python(text)
    elif name.endswith((".md", ".markdown")):
        cuts = _markdown(lines)
    else:
        cuts = definitions(f".{name.rpartition('.')[2]}", text)
    if cuts is None:
        cuts = _other(lines)
    if not cuts or cuts[0][0] > 1:
        cuts = [(1, ""), *cuts]
    found: list[Chunk] = []
    for place, (start, title) in enumerate(cuts):
        end = cuts[place + 1][0] - 1 if place + 1 < len(cuts) else len(lines)
        found.extend(_sized(lines, start, end, title))
    return found


def outline_of(path: str, text: str) -> list[Chunk]:
    """Returns the titled chunks of a text, each title once."""
    seen: dict[str, Chunk] = {}
    for chunk in chunks_of(path, text):
        if chunk.title:
            seen.setdefault(chunk.title, chunk)
    return list(seen.values())


def python_tree(text: str) -> ast.Module:
    """Returns the syntax tree of Python, and shows nobody what the parser warns of. One thread at a time makes a tree.

    In CPython up to 3.11.7 threads share the count of how deep they are, so that one of them can end with a
    `SystemError` (python/cpython#106905), and filters of warnings are shared everywhere.

    Raises:
        SyntaxError: it is not Python.
        ValueError: it has a character that Python cannot have.
        RecursionError, MemoryError: it is nested too deeply.
    """
    with _TREE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _python(text: str) -> list[tuple[int, str]] | None:
    """Returns where definitions of Python begin, with their titles; `None` if it cannot be parsed."""
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    cuts: list[tuple[int, str]] = []

    def visit(body: Sequence[ast.stmt], above: str) -> None:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            title = f"{above} > {node.name}" if above else node.name
            cuts.append((min([node.lineno, *(one.lineno for one in node.decorator_list)]), title))
            if isinstance(node, ast.ClassDef):
                visit(node.body, title)
                # What stands in a class after a method belongs to the class.
            elif not above and node.end_lineno is not None:
                cuts.append((node.end_lineno + 1, ""))

    visit(tree.body, "")
    merged: dict[int, str] = {}
    for line, title in cuts:
        if title or line not in merged:
            merged[line] = title
    return sorted(merged.items())


def _markdown(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Returns where sections of Markdown begin, with the headings above each."""
    cuts: list[tuple[int, str]] = []
    above: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found is None:
            continue
        level = len(found[1])
        above = [one for one in above if one[0] < level]
        above.append((level, found[2][:80]))
        cuts.append((number, " > ".join(title for _, title in above)))
    return cuts


def _other(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Returns where parts of any text begin: a line without indentation after an empty one."""
    cuts: list[tuple[int, str]] = []
    empty = True
    for number, line in enumerate(lines, 1):
        if line.strip() and empty and not line[0].isspace():
            found = _DEFINES.match(line)
            cuts.append((number, found[1][:80] if found else ""))
        empty = not line.strip()
    return _joined(lines, cuts)


def _joined(lines: Sequence[str], cuts: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Returns the cuts without those between short parts that define nothing."""
    kept: list[tuple[int, str]] = []
    for line, title in cuts:
        if kept and not title and not kept[-1][1]:
            size = sum(len(one) + 1 for one in lines[kept[-1][0] - 1 : line - 1])
            if size < MAX_CHARACTERS // 2:
                continue
        kept.append((line, title))
    return kept


def _sized(lines: Sequence[str], start: int, end: int, title: str) -> Iterator[Chunk]:
    """Yields a part as one chunk, or as several if it is too long, without empty lines at the ends."""
    while start <= end and not lines[start - 1].strip():
        start += 1
    begin, size = start, 0
    for number in range(start, end + 1):
        size += len(lines[number - 1]) + 1
        if size > MAX_CHARACTERS and number > begin:
            yield _trimmed(lines, begin, number - 1, title)
            begin, size = number, len(lines[number - 1]) + 1
    if begin <= end and any(line.strip() for line in lines[begin - 1 : end]):
        yield _trimmed(lines, begin, end, title)


def _trimmed(lines: Sequence[str], start: int, end: int, title: str) -> Chunk:
    while end > start and not lines[end - 1].strip():
        end -= 1
    return Chunk(start, end, title)
