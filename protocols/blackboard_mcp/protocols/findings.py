"""When two findings say the same, so that the second is counted as support of the first.

Only spelling is looked through: the width and the composition of characters, white space, the case of
plain words, one full stop at the end. Whatever could change what is said keeps texts apart: every other
word and sign, digits, superscripts and fractions, question marks, the case of units, symbols and names
written in mixed case.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from .items import EdgeKind, ItemType

FINDINGS = frozenset({ItemType.FACT, ItemType.HYPOTHESIS, ItemType.PROBLEM, ItemType.RESULT})
"""Types whose items a second agent may endorse by saying the same; all others are always new."""

SHARED_EDGES = frozenset({EdgeKind.DEPENDS_ON, EdgeKind.DERIVED_FROM, EdgeKind.ANALYZED_BY})
"""Edges a repeated finding may share with the first. Any other answers, argues or replaces by itself."""

MAX_FINDING = 10_000
"""Longest text that is compared, in characters; a longer one is a report of its own."""

_SPELLING = frozenset({"<wide>", "<narrow>", "<compat>", "<noBreak>"})
"""Compatibility forms that are another spelling; superscripts, fractions and the like say something else."""
_WORD = re.compile(r"[^\W_]+")
_UNIT = 5
"""Longest word after a number that is taken for a unit, whose case counts (mW, MW)."""


def normal_form(text: str) -> str:
    """`text` without what is mere spelling: equal for two findings that say the same."""
    flat = " ".join(_plain(text).split())
    if flat.endswith(".") and not flat.endswith("..") and len(flat) > 1:
        flat = flat[:-1].rstrip()
    return _WORD.sub(_fold, flat)


def fingerprint(text: str) -> str:
    """The sha256 of the normal form, in hexadecimal."""
    return hashlib.sha256(normal_form(text).encode()).hexdigest()


def _plain(text: str) -> str:
    if text.isascii():
        return text
    spelt = (
        unicodedata.normalize("NFKC", c) if unicodedata.decomposition(c).split(" ")[0] in _SPELLING else c
        for c in text
    )
    return unicodedata.normalize("NFC", "".join(spelt))


def _fold(match: re.Match[str]) -> str:
    """The word without its case where that says nothing."""
    word = match[0]
    cased = word.islower() or word.isupper() or (word[0].isupper() and word[1:].islower())
    if not cased or len(word) == 1 or any(c.isdigit() or c.isnumeric() for c in word):
        return word
    before = match.string[max(0, match.start() - 4) : match.start()].rstrip(" -")[-1:]
    if len(word) <= _UNIT and before.isnumeric():
        return word
    return word.lower()
