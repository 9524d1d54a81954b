"""Stems of English words.

The algorithm is Porter's of 1980 (https://tartarus.org/martin/PorterStemmer/def.txt). The driver's own stemmer is not
used, so that a rebuilt index weighs words exactly as the one it replaces, whatever the driver's version.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CONSONANT = "[^aeiou]"
_VOWEL = "[aeiouy]"
_C = f"{_CONSONANT}[^aeiouy]*"
_V = f"{_VOWEL}[aeiou]*"

_MEASURE_ABOVE_0 = re.compile(f"^({_C})?{_V}{_C}")
_MEASURE_1 = re.compile(f"^({_C})?{_V}{_C}({_V})?$")
_MEASURE_ABOVE_1 = re.compile(f"^({_C})?{_V}{_C}{_V}{_C}")
_HAS_VOWEL = re.compile(f"^({_C})?{_VOWEL}")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT = re.compile(f"^{_C}{_VOWEL}[^aeiouwxy]$")
_PLAIN = re.compile(r"^[a-z]{3,40}$")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate",
    "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al",
    "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism", "ate",
    "iti", "ous", "ive", "ize",
)  # fmt: skip
_SUFFIX_2 = re.compile(f"^(.+?)({'|'.join(sorted(_STEP_2, key=len, reverse=True))})$")
_SUFFIX_3 = re.compile(f"^(.+?)({'|'.join(_STEP_3)})$")
_SUFFIX_4 = re.compile(f"^(.+?)({'|'.join(_STEP_4)})$")
_SUFFIX_4_ION = re.compile("^(.+?[st])ion$")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Returns the stem of a lower-case word; anything but 3 to 40 letters a-z is returned unchanged."""
    if not _PLAIN.match(word):
        return word
    initial_y = word[0] == "y"
    w = "Y" + word[1:] if initial_y else word

    if w.endswith(("sses", "ies")):
        w = w[:-2]
    elif w[-1] == "s" and w[-2] != "s":
        w = w[:-1]

    if w.endswith("eed"):
        if _MEASURE_ABOVE_0.match(w[:-3]):
            w = w[:-1]
    else:
        root = w[:-2] if w.endswith("ed") else w[:-3] if w.endswith("ing") else ""
        if root and _HAS_VOWEL.match(root):
            w = root
            if w.endswith(("at", "bl", "iz")):
                w += "e"
            elif _DOUBLE.search(w):
                w = w[:-1]
            elif _SHORT.match(w):
                w += "e"

    if w.endswith("y") and _HAS_VOWEL.match(w[:-1]):
        w = w[:-1] + "i"
    if (m := _SUFFIX_2.match(w)) and _MEASURE_ABOVE_0.match(m[1]):
        w = m[1] + _STEP_2[m[2]]
    if (m := _SUFFIX_3.match(w)) and _MEASURE_ABOVE_0.match(m[1]):
        w = m[1] + _STEP_3[m[2]]
    m4 = _SUFFIX_4.match(w)
    if m4:
        if _MEASURE_ABOVE_1.match(m4[1]):
            w = m4[1]
    elif (m := _SUFFIX_4_ION.match(w)) and _MEASURE_ABOVE_1.match(m[1]):
        w = m[1]

    if w.endswith("e"):
        root = w[:-1]
        if _MEASURE_ABOVE_1.match(root) or (_MEASURE_1.match(root) and not _SHORT.match(root)):
            w = root
    if w.endswith("ll") and _MEASURE_ABOVE_1.match(w):
        w = w[:-1]
    return "y" + w[1:] if initial_y else w
