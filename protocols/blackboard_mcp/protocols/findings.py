"""The test whether two findings say the same, so that the second counts as support of the first.

Only differences of spelling are ignored: the width and the composition of characters, white space between words, the
case of plain words, one full stop at the end. Whatever could change the meaning keeps texts apart: every other word
and sign, digits, superscripts and fractions, question marks, indentation, everything in backticks, and the case of
units, symbols, short abbreviations, addresses, options and names written in mixed case.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from .items import EdgeKind, ItemType

FINDINGS = frozenset({ItemType.FACT, ItemType.HYPOTHESIS, ItemType.PROBLEM, ItemType.RESULT})
"""Types of items that a second agent may endorse by saying the same; items of other types are always new."""

SHARED_EDGES = frozenset({EdgeKind.DEPENDS_ON, EdgeKind.DERIVED_FROM, EdgeKind.ANALYZED_BY})
"""Kinds of edges that a repeated finding may share with the first. A post with any other edge is a new item."""

MAX_FINDING = 10_000
"""Longest text that is compared, in characters; a longer text is always a new item."""

_SPELLING = frozenset({"<wide>", "<narrow>", "<compat>", "<noBreak>"})
"""Kinds of compatibility forms that are only another spelling; superscripts, fractions and the like differ in meaning.
"""
_SYMBOL = re.compile("[\u03d0-\u03ff\u2100-\u214f]")
"""Letters used in formulas in addition to those they look like (ϕ and φ)."""
_VERBATIM = re.compile(r"(```.*?```|`[^`]*`|(?<=[\"'“‘«])\s+(?=[\"'”’»]))", re.DOTALL)
"""Code, and white space quoted by itself: every character of it counts."""
_OPENING = re.compile(r"[:{(\[]\n[^\S\n]+\S")
_INDENTATION = re.compile(r"\n([^\S\n]*)(?=\S)")
_TOKEN = re.compile(r"\S+")
_CAPITAL = re.compile(r"(?<!\S)[^\sA-Z]*+[A-Z]\S*")
"""A token with a capital in a text of ASCII; others stay as they are."""
_PLAIN = re.compile(r"([\"'“‘«(\[*]*)([^\W\d_]+(?:['’-][^\W\d_]+)*)([\"'”’»)\]*.,;:!?…]*)")
"""A word of prose; addresses, paths, options and identifiers do not match, so their case counts."""
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DENIAL = re.compile(r"\b(?:not|no|never|cannot) |n['’]t\b", re.IGNORECASE)
_STOP = re.compile(r"(?<=[\w%)\]}\"'”’»`])\.\Z")
_UNIT = 5
"""Longest word after a number that is treated as a unit, whose case counts (mW, MW)."""
_SHORT = 3
"""Longest word in capitals that is treated as an abbreviation or a symbol (CO and Co, MB and Mb)."""


@lru_cache(maxsize=64)
def normal_form(text: str) -> str:
    """Returns `text` in a normal spelling; two findings say the same when their normal forms are equal."""
    text = "\n".join(_plain(text).strip().splitlines())
    # Lines with equal indentation are only wrapped text, unless the line before them opens a block.
    indented = len(set(_INDENTATION.findall(text))) > 1 or _OPENING.search(text) is not None
    shouted = text.isupper() and len(text.split()) > 2
    parts = _VERBATIM.split(text)
    for place in range(0, len(parts), 2):
        parts[place] = _folded(_spaced(parts[place], indented=indented), shouted=shouted)
    return _STOP.sub("", "".join(parts))


def _spaced(text: str, *, indented: bool) -> str:
    """Returns `text` with single spaces; if lines are indented, as in code, line ends and indentation remain."""
    if not indented:
        return re.sub(r"\s+", " ", text)
    return re.sub(r"(?<!\s)[^\S\n]+", " ", re.sub(r"(?<![^\S\n])[^\S\n]++(?=\n)", "", text))


@lru_cache(maxsize=256)
def fingerprint(text: str) -> str:
    """Returns the SHA-256 of the normal form, in hexadecimal. Results for recent texts are cached."""
    return hashlib.sha256(normal_form(text).encode()).hexdigest()


@lru_cache(maxsize=256)
def outline(text: str) -> str:
    """Returns a digest of a text with its numbers and denials ignored; empty for a text without numbers or with nothing
    else.
    """
    if _NUMBER.search(text) is None:
        return ""
    said = normal_form(text)
    without = _DENIAL.sub("", _NUMBER.sub("#", said))
    if without == said or not _WORD.search(without):
        return ""
    return "#" + hashlib.sha256(without.encode()).hexdigest()


def numbers(text: str) -> list[str]:
    """Returns the numbers in a text, in order."""
    return _NUMBER.findall(text)


def denies(text: str, other: str) -> bool:
    """Tells whether one of two texts with the same outline denies what the other says."""
    return len(_DENIAL.findall(text)) % 2 != len(_DENIAL.findall(other)) % 2


def _plain(text: str) -> str:
    if text.isascii():
        return text
    spelt = {
        ord(c): unicodedata.normalize("NFKC", c)
        for c in set(text)
        if unicodedata.decomposition(c).split(" ")[0] in _SPELLING and not _SYMBOL.match(c)
    }
    return unicodedata.normalize("NFC", text.translate(spelt))


def _folded(text: str, *, shouted: bool) -> str:
    def fold(match: re.Match[str]) -> str:
        if match[0].islower():
            return match[0]
        found = _PLAIN.fullmatch(match[0])
        if found is None:
            return match[0]
        before = text[max(0, match.start() - 4) : match.start()].rstrip()[-1:]
        said = _WORD.sub(lambda word: _small(word[0], before, shouted=shouted), found[2])
        return found[1] + said + found[3]

    return (_CAPITAL if text.isascii() else _TOKEN).sub(fold, text)


def _small(word: str, before: str, *, shouted: bool) -> str:
    """Returns the word in lower case if its case carries no meaning; `before` is the last character before it."""
    cased = word.islower() or word.isupper() or (word[0].isupper() and word[1:].islower())
    if not cased or len(word) == 1 or (len(word) <= _UNIT and before.isnumeric()):
        return word
    if len(word) <= _SHORT and word.isupper() and not shouted:
        return word
    return word.lower()


def had_by_one(texts: Iterable[tuple[str, str]], most: int) -> tuple[tuple[str, str], ...]:
    """Returns the lines that only one agent's text has, each with the agent; at most `most`, in their order.

    `texts` are pairs of agent and text. Lines are compared in their normal form.
    """
    lines: dict[str, tuple[str, str]] = {}
    agents: dict[str, set[str]] = {}
    for agent, text in texts:
        for line in filter(None, map(str.strip, text.splitlines())):
            form = normal_form(line)
            lines.setdefault(form, (agent, line))
            agents.setdefault(form, set()).add(agent)
    return tuple(lines[form] for form in lines if len(agents[form]) == 1)[:most]
