"""Stems of English words, by Porter's algorithm of 1980, after irregular forms were folded into their base.

A rebuilt index weighs words as the one that it replaces. Other stemmers, Snowball's for English and the driver's, may
change with their versions.
"""

from __future__ import annotations

import re
from functools import lru_cache

from blackboard_mcp.protocols.importing import put_off

_FORMS = """
    become became; begin began begun; break broke broken; bring brought; build built; buy bought; catch caught;
    choose chose chosen; come came; deal dealt; draw drew drawn; drink drank drunk; drive drove driven;
    eat ate eaten; fall fell fallen; feel felt; fight fought; find found; fly flew flown; forbid forbade forbidden;
    forget forgot forgotten; freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown;
    hang hung; hear heard; hide hid hidden; hold held; keep kept; know knew known; lead led; leave left; lend lent;
    lose lost; make made; mean meant; meet met; overwrite overwrote overwritten; pay paid; rebuild rebuilt;
    rerun reran; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen; seek sought;
    sell sold; send sent; shake shook shaken; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk;
    sit sat; sleep slept; slide slid; speak spoke spoken; spend spent; stand stood; steal stole stolen; stick stuck;
    strike struck; swim swam swum; swing swung; take took taken; teach taught; tell told; think thought;
    throw threw thrown; understand understood; wake woke woken; wear wore worn; win won; write wrote written;
    child children; man men; woman women; person people; foot feet; tooth teeth; mouse mice; index indices;
    vertex vertices; matrix matrices; criterion criteria; analysis analyses; hypothesis hypotheses; life lives;
    half halves; shelf shelves
"""
_BASES = {form: base for base, *forms in map(str.split, _FORMS.split(";")) for form in forms}
_PLAIN = re.compile(r"[a-z]{3,40}")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Returns the stem of a lower-case word; anything but 3 to 40 letters a-z is returned unchanged."""
    word = _BASES.get(word, word)
    if not _PLAIN.fullmatch(word):
        return word
    put_off("snowballstemmer")  # it would load the stemmers of all languages
    from snowballstemmer.porter_stemmer import PorterStemmer

    stemmer = PorterStemmer()  # one for each word: it keeps state, and several threads ask for stems
    return str(stemmer.stemWord(word))
