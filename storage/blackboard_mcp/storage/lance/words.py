"""Words, identifiers and windows of texts, as the index counts them.

Only these pure functions decide what a word is, for documents and queries alike. So nothing in a query can act as
search syntax, and an identifier (`parser_v2`, a path, `#4711`, `D-12`) is a word in addition to its parts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance.stemming import stem

IDENTIFIER_MARK = "="
"""The first character of the word for an identifier; no other word begins with it."""

QUESTION_MARK = "=?"
"""The word of a document that ends with a question mark; no query has it."""

WINDOW_WORDS = 200
WINDOW_STEP = 160
_LONGEST_WORD = 64

_STOP_WORDS = """
    a about after all also am an and any are as at be because been before being but by can could did
    do does doing done down for from had has have having he her here him his how i if in into is it its
    just me more most my no nor not of off on once only or other our out over own s same she should so
    some such t than that the their them then there these they this those through to too under until up
    us very was we were what when where which while who whom why will with would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDENTIFIER = re.compile(r"[#@]?\w+(?:[-_./:\\#@+]+\w+)*")
_COMPOSITE = re.compile(r"[-_./:\\#@+]")
_SEGMENT = re.compile(r"[/\\:#@+]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_CHUNK = re.compile(r"\S{1,100}")


def clean(text: str) -> str:
    """Returns `text` without what UTF-8 cannot encode: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def words(text: str) -> list[str]:
    """Returns the words of `text` in order: stems in lower case, and marked identifiers, once per occurrence.

    No word contains white space or a control character, and none is longer than 65 characters. Stop words are left
    out.
    """
    text = _fold(text)
    found: list[str] = []
    for match in _RUN.finditer(text):
        run = match[0]
        if not run.isascii() and _CJK.search(run):
            found += [run] if len(run) == 1 else [a + b for a, b in pairwise(run)]
            continue
        parts = _CAMEL.split(run) if not (run.islower() or run.isupper()) else [run]
        low = run.lower()
        if low not in STOP_WORDS:
            found.append(_short(stem(low)))
        if len(parts) > 1:
            found += [_short(stem(p)) for p in map(str.lower, parts) if len(p) > 1 and p not in STOP_WORDS]
    for match in _IDENTIFIER.finditer(text):
        found += [IDENTIFIER_MARK + _short(name) for name in _names(match[0])]
    return found


def asks(text: str) -> bool:
    """Tells whether a text ends with a question mark."""
    return text.rstrip()[-1:] in ("?", "？")


def beginnings(query: str, asked: Sequence[str]) -> dict[str, str]:
    """Returns the words `asked` of a query by the beginning that each has in a text in lower case.

    A beginning leaves out the end of a longer word, which may differ between texts.
    """
    found = {word[1:]: word for word in asked if word.startswith(IDENTIFIER_MARK)}
    wanted = set(asked)
    for run in dict.fromkeys(match[0].lower() for match in _RUN.finditer(_fold(query))):
        for word in wanted.intersection(words(run)):
            ends = len(run) >= 5 and run.isalpha()
            found.setdefault(run[: max(4, len(run) - 3)] if ends else run, word)
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text, and the offset in characters at which it begins."""

    start: int
    text: str


def windows(text: str) -> list[Window]:
    """Splits `text` into overlapping windows of about two hundred words; a short text is one window."""
    spans = [m.span() for m in _CHUNK.finditer(text)]
    if len(spans) <= WINDOW_WORDS:
        return [Window(0, text)] if spans else []
    cut = []
    for start in range(0, len(spans), WINDOW_STEP):
        first = spans[start][0]
        cut.append(Window(first, text[first : spans[min(start + WINDOW_WORDS, len(spans)) - 1][1]]))
        if start + WINDOW_WORDS >= len(spans):
            break
    return cut


def _names(candidate: str) -> list[str]:
    """Returns the identifiers in one candidate: the whole, segments of its path, and segments without a suffix."""
    if not _COMPOSITE.search(candidate):
        return []
    whole = candidate.lower()
    names = {whole: None}
    for segment in _SEGMENT.split(whole):
        for name in (segment, *segment.split(".")):
            if _COMPOSITE.search(name.strip("_-")):
                names[name] = None
    return list(names)


def _fold(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        c
        for c in unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text))
        if not unicodedata.combining(c)
    )


def _short(word: str) -> str:
    if len(word) <= _LONGEST_WORD:
        return word
    return hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=24).hexdigest()
