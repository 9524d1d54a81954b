"""Names of agents: which are valid, which look alike, and where a text mentions one.

A name is Unicode in its composed form (NFC): letters of any script with their marks, the digits 0-9, and `. _ @ -`.
Two names look alike when a reader may take one for the other: they are equal once case is folded and each character is
replaced by the one that Unicode says it looks like (UTS 39, skeletons).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache

from .errors import InvalidInput, Refused

SYSTEM = "system"
"""The agent of the server's own changes; nobody can have this name."""
MAX_NAME = 64
RESERVED = ("me", "you", "everyone", "all", SYSTEM)
"""Words that no new agent may have as a name; names that look like them are refused, too."""

_PLAIN = re.compile(r"[A-Za-z0-9._@-]{1,64}\Z")
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lo"})
_MARKS = frozenset({"Mn", "Mc"})
_MOST_MARKS = 4
"""Most marks on one letter: more of them would hide the characters beside it."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are invisible."""


def check_name(name: str) -> str:
    """Returns the name in its stored form.

    Raises:
        InvalidInput: it is not a valid name.
    """
    if _PLAIN.match(name) and name != SYSTEM:
        return name
    composed = unicodedata.normalize("NFC", name[: 4 * MAX_NAME])
    if (
        len(name) > 4 * MAX_NAME
        or not 0 < len(composed) <= MAX_NAME
        or name == SYSTEM
        or not _spelt(composed)
    ):
        raise InvalidInput(
            f"'{name[:40]}' is not an agent's name: 1-{MAX_NAME} letters of any script, digits 0-9, '.', '_', '@' and "
            f"'-', without spaces and letters of special forms, and not '{SYSTEM}'. Nothing was changed."
        )
    return composed


def _spelt(name: str) -> bool:
    """Tells whether a composed name consists of letters with their marks, digits and the four signs only."""
    marks = -1
    for character in name:
        category = unicodedata.category(character)
        if category in _MARKS:
            if not 0 <= marks < _MOST_MARKS:
                return False
            marks += 1
        elif category in _LETTERS:
            marks = 0
        elif character.isascii() and (character.isdigit() or character in "._@-"):
            marks = -1
        else:
            return False
    # Letters of special forms (wide, ligatures, mathematical …) look like plain ones.
    return unicodedata.is_normalized("NFKC", name) and not _UNSEEN.search(name)


@lru_cache(4_096)
def looks(name: str) -> frozenset[str]:
    """Returns the simplified forms of a name: two names look alike when they have one of these in common.

    There are two, with and without case, because a capital I looks like a small l, but equals a small i if case is
    ignored.
    """
    return frozenset({_skeleton(name.casefold()), _skeleton(name)})


def alike(one: str, other: str) -> bool:
    """Tells whether a reader may take one name for the other."""
    return not looks(one).isdisjoint(looks(other))


@lru_cache(4_096)
def is_reserved(name: str) -> bool:
    """Tells whether no new agent may have this name."""
    return any(alike(name, word) for word in RESERVED)


def reserved(name: str) -> Refused:
    """Returns the error for a caller with a reserved name."""
    return Refused(
        f"Nobody is called '{name}': {', '.join(RESERVED)} and what looks like them are no names of agents. Nothing "
        "was changed; take another (--agent over stdio, X-Blackboard-Agent over HTTP).",
        agent=name,
    )


def taken(name: str, other: str, where: str) -> Refused:
    """Returns the error for a caller whose name looks like `other`; `where` says where that one is known."""
    return Refused(
        f"'{name}' looks like '{other}', {where}: capitals, and letters and digits that look the same, make no "
        "difference. Nothing was changed; take a name that cannot be mistaken (--agent over stdio, X-Blackboard-Agent "
        "over HTTP, token create for a token).",
        agent=name,
        taken=other,
    )


def _skeleton(name: str) -> str:
    if name.isascii():
        replaced = name.translate(_prototypes_of_ascii())
    else:
        prototypes = _prototypes()
        replaced = "".join(prototypes.get(c, c) for c in unicodedata.normalize("NFD", name))
    return unicodedata.normalize("NFD", replaced.casefold())


@cache
def _prototypes() -> Mapping[str, str]:
    """Returns a map from each character that looks like another to the one it looks like."""
    from importlib.resources import files

    lines = files(__package__).joinpath("confusables.txt").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


@cache
def _prototypes_of_ascii() -> Mapping[int, str]:
    return {ord(c): looked for c, looked in _prototypes().items() if c.isascii()}


# Scripts that are written without spaces: before these a name in another script ends.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_MARKED = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f"
r"""Marks in names of scripts that use them; `\w` does not match these."""
_IN_NAMES = rf"(?:(?![{_UNSPACED}])[\w.@{_MARKED}-])"
NAME = rf"(?:{_IN_NAMES}{{1,{MAX_NAME}}}|[{_UNSPACED}0-9._-]{{1,{MAX_NAME}}})"
"""A pattern that matches a name within a text."""


CALLED_IN = 2_000
"""Characters at the beginning of a text that are searched for names without an @."""
_BETWEEN = re.compile(r", ?(?:and )?| and ")


@cache
def _mention() -> re.Pattern[str]:
    """Returns the pattern of a name after an @, compiled at the first use because that takes long."""
    return re.compile(rf"(?<![\w@])@({NAME})")


def mentions(text: str) -> list[str]:
    """Returns the names that a text mentions with an @, in order, without punctuation at a sentence's end."""
    if "@" not in text:
        return []
    found = (name.rstrip(".@-") for name in _mention().findall(text))
    return list(dict.fromkeys(unicodedata.normalize("NFC", name) for name in found if name))


@cache
def _called() -> re.Pattern[str]:
    """Returns the pattern of names before a colon at the start of a sentence, compiled at the first use."""
    return re.compile(
        r"(?:\A|[.!?;\n][ \t]*|, (?=to |for ))(?:[Tt]o |[Ff]or )?"
        rf"((?:{NAME}(?:, ?(?:and )?| and )){{0,7}}{NAME}): "
    )


def called(text: str) -> list[list[str]]:
    """Returns words before a colon that may be names, as a list for each colon.

    `ben, cleo: which port?` gives `[["ben", "cleo"]]`, and so do `To ben, cleo: which port?`, `For ben, cleo: …` and
    `A detail, to ben, cleo: …`. Only the first `CALLED_IN` characters are searched.
    """
    return [
        [unicodedata.normalize("NFC", name) for name in _BETWEEN.split(names)]
        for names in _called().findall(text[:CALLED_IN])
    ]


@cache
def _greeted() -> re.Pattern[str]:
    """Returns the pattern of names before commas at the beginning, compiled at the first use."""
    return re.compile(rf"[ \t\n]*(?:[Tt]o |[Ff]or )?((?:{NAME}(?:, ?(?:and )?| and )){{0,7}}{NAME}), ")


def greeted(text: str) -> list[str]:
    """Returns words before commas at the beginning that may be names, in order.

    `ana, dirk, which port?` gives `["ana", "dirk"]`. Only the first `CALLED_IN` characters are searched.
    """
    found = _greeted().match(text[:CALLED_IN])
    return [unicodedata.normalize("NFC", name) for name in _BETWEEN.split(found[1])] if found else []
