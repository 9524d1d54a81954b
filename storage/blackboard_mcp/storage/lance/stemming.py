"""Stems of English words, by Porter's algorithm of 1980.

A rebuilt index weighs words as the one that it replaces. Other stemmers, Snowball's for English and the driver's, may
change with their versions.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PLAIN = re.compile(r"[a-z]{3,40}")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Returns the stem of a lower-case word; anything but 3 to 40 letters a-z is returned unchanged."""
    if not _PLAIN.fullmatch(word):
        return word
    from snowballstemmer.porter_stemmer import PorterStemmer  # loads the stemmers of all languages

    stemmer = PorterStemmer()  # one for each word: it keeps state, and several threads ask for stems
    return str(stemmer.stemWord(word))
