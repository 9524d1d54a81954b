"""The part of a long text that answers a query: what a hit shows in place of the text's beginning.

It knows words and places and nothing of ranking; what comes out is still the author's text, as untrusted
as the whole.
"""

from __future__ import annotations

import re
from collections import Counter, deque

from .lines import ELLIPSIS

WIDTH = 160
"""Characters looked at together when the best stretch is sought."""

_REACH = 8_000
_LEAD = 40
_MATCHES = 5_000
_WORDS = 32
_UNSPACED = 0x0E00
"""From here on most scripts have no spaces between words."""
_STOP_WORDS = """
    a an and are as at be but by did do does for from had has have how if in into is it its no not of on or
    so such that the their then there these they this to was we were what when where which who why will with
    you your
"""
_STOP = frozenset(_STOP_WORDS.split())


def excerpt(text: str, query: str, start: int | None = None) -> str | None:
    """The text from a little before its stretch of `WIDTH` characters with most words of the query.

    `start` is where a search engine found the hit: only the next thousands of characters are looked at,
    and where none of them holds a word of the query (a hit by meaning) it begins there. `None` when
    the beginning of the text is as good.
    """
    if len(text) <= WIDTH:
        return None
    first = 0 if start is None else max(0, min(start, len(text)))
    end = len(text) if start is None else min(len(text), first + _REACH)
    found = _best(text, _pattern(query), first, end)
    place = first if found is None else found
    # What a reader of the beginning would see anyway.
    if place <= WIDTH // 2:
        return None
    begin = max(0, place - _LEAD)
    space = text.find(" ", begin, place)
    begin = begin if begin == 0 or space < 0 else space + 1
    return ELLIPSIS + text[begin : begin + 4 * WIDTH]


def is_close(text: str, query: str, start: int = 0) -> bool:
    """Whether a text holds half of the query's words, in its first thousands of characters or in those after `start`.

    So it is taken to be where the query has no words to look for, or words of scripts without spaces.
    """
    stems = dict.fromkeys(_stems(query))
    if not stems or any(ord(letter) >= _UNSPACED for letter in query):
        return True
    said = f"{text[:_REACH]} {text[max(start, _REACH) :][:_REACH] if start else ''}".casefold()
    there = sum(re.search(rf"\b{re.escape(stem)}", said) is not None for stem in stems)
    return 2 * there >= len(stems)


def _stems(query: str) -> list[str]:
    """The query's words, each by its beginning, so that other endings are found as well."""
    words = dict.fromkeys(w for w in re.findall(r"\w+", query.casefold()) if w not in _STOP)
    return [w if len(w) < 5 else w[: max(4, len(w) - 3)] for w in list(words)[:_WORDS]]


def _pattern(query: str) -> re.Pattern[str] | None:
    stems = _stems(query)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, stems))})", re.IGNORECASE) if stems else None


def _best(text: str, pattern: re.Pattern[str] | None, first: int, end: int) -> int | None:
    """Where the stretch with most different words of the pattern begins; the earliest of equals."""
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
