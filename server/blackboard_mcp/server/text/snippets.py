"""The part of a long text that best matches a query, shown in place of the text's beginning.

This module looks only at words and their places and ranks nothing. Its results are still untrusted text of an
author.
"""

from __future__ import annotations

import re
from collections import Counter, deque

from .lines import ELLIPSIS

WIDTH = 160
"""Characters of one stretch when the best stretch is sought."""

_REACH = 8_000
_LEAD = 40
_MATCHES = 5_000
_WORDS = 32
_UNSPACED = 0x0E00
"""First code point of the range in which most scripts put no spaces between words."""
_STOP_WORDS = """
    a an and are as at be but by did do does for from had has have how if in into is it its no not of on or
    so such that the their then there these they this to was we were what when where which who why will with
    you your
"""
_STOP = frozenset(_STOP_WORDS.split())


def excerpt(text: str, query: str, start: int | None = None) -> str | None:
    """Returns the text from shortly before the stretch of `WIDTH` characters that holds most words of the
    query.

    `start` is the place at which a search engine found the hit: only the next 8,000 characters are looked at.
    Where none of the query's words is there (a hit by meaning) the excerpt begins at that place. Returns
    `None` when the beginning of the text serves as well.
    """
    if len(text) <= WIDTH:
        return None
    first = 0 if start is None else max(0, min(start, len(text)))
    end = len(text) if start is None else min(len(text), first + _REACH)
    found = _best(text, _pattern(query), first, end)
    place = first if found is None else found
    # The beginning of the text shows this place anyway.
    if place <= WIDTH // 2:
        return None
    begin = max(0, place - _LEAD)
    space = text.find(" ", begin, place)
    begin = begin if begin == 0 or space < 0 else space + 1
    return ELLIPSIS + text[begin : begin + 4 * WIDTH]


def held_words(text: str, query: str, start: int = 0) -> tuple[int, int] | None:
    """Returns how many of the query's words a text holds in its first 8,000 characters, or in those after `start`,
    and how many words there are.

    Returns `None` for a query without words to look for, or with words of scripts without spaces.
    """
    stems = dict.fromkeys(stems_of(query))
    if not stems or any(ord(letter) >= _UNSPACED for letter in query):
        return None
    said = f"{text[:_REACH]} {text[max(start, _REACH) :][:_REACH] if start else ''}".casefold()
    return sum(re.search(rf"\b{re.escape(stem)}", said) is not None for stem in stems), len(stems)


def stems_of(query: str) -> list[str]:
    """Returns the beginnings of the query's words, so that words with other endings match as well."""
    words = dict.fromkeys(w for w in re.findall(r"\w+", query.casefold()) if w not in _STOP)
    return [w if len(w) < 5 else w[: max(4, len(w) - 3)] for w in list(words)[:_WORDS]]


def _pattern(query: str) -> re.Pattern[str] | None:
    stems = stems_of(query)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, stems))})", re.IGNORECASE) if stems else None


def _best(text: str, pattern: re.Pattern[str] | None, first: int, end: int) -> int | None:
    """Returns the start of the stretch with most different words of the pattern; the earliest of equals.

    Returns `None` where no word matches.
    """
    if pattern is None:
        return None
    window: deque[tuple[int, str]] = deque()
    there: Counter[str] = Counter()
    best, place = 0, None
    for count, match in enumerate(pattern.finditer(text, first, end)):
        if count == _MATCHES:
            break
        word = match[0].casefold()
        window.append((match.start(), word))
        there[word] += 1
        while window[0][0] < match.start() - WIDTH:
            gone = window.popleft()[1]
            there[gone] -= 1
            if not there[gone]:
                del there[gone]
        if len(there) > best:
            best, place = len(there), window[0][0]
    return place
