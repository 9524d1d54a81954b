"""The test whether two findings are about the same in other words: most of their words are the same.

Words count by their beginnings, without endings such as -ed and -s; the commonest do not count. Findings are not close
if one has other numbers, or a negation that the other lacks.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

CLOSE = 0.5
"""The least share of common words, of all words of both, at which two findings are close."""
FEWEST = 3
"""Texts with fewer different words are close to none."""
MOST = 64
"""The words of a text that are compared, the longest first."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NEGATIONS = frozenset({"no", "not", "never", "none", "without", "cannot", "nothing", "neither"})
_COMMON_WORDS = """
a about after again all also an and any are as at be because been before being but by can could did do does done for
from had has have he her his how i if in into is it its just may might more most much must my now of on one only or
other our out over own same she should so some still such than that the their them then there these they this those
through to too under up very was we were what when where which while who why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_ENDINGS = ("ing", "ed", "es", "s", "e")
_LAST_LETTERS = frozenset(ending[-1] for ending in _ENDINGS)
_SHORTEST = 3
"""Letters that a word keeps when it loses an ending."""


@lru_cache(maxsize=256)
def beginnings(text: str) -> tuple[str, ...]:
    """Returns the different words of a text without endings, the longest first; empty if there are too few."""
    found = {_beginning(word) for word in set(_words(text)) - _COMMON if not _negates(word)}
    return tuple(sorted(found, key=lambda word: (-len(word), word))[:MOST]) if len(found) >= FEWEST else ()


def telling(text: str) -> tuple[str, ...]:
    """Returns so many of a text's words that every close text has one of them among its own telling words."""
    words = beginnings(text)
    return words[: len(words) - math.ceil(CLOSE * len(words)) + 1] if words else ()


def are_close(one: str, other: str) -> bool:
    """Tells whether two texts say about the same."""
    left, right = set(beginnings(one)), set(beginnings(other))
    if not left or not right or len(left & right) < CLOSE * len(left | right):
        return False
    return _signs(one) == _signs(other)


def _signs(text: str) -> tuple[frozenset[str], bool]:
    """Returns the numbers in a text, and whether it negates something."""
    return frozenset(_NUMBER.findall(text)), any(_negates(word) for word in _words(text))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _negates(word: str) -> bool:
    return word in _NEGATIONS or (word[-1] == "t" and word.endswith(("n't", "n’t")))


def _beginning(word: str) -> str:
    if word[-1] not in _LAST_LETTERS:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word
