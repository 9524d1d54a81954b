"""The grammar of keys and of the globs that match them.

A key is one or more segments joined by colons: `plan:step:3`. Segments hold letters, digits and `_ - . / @ #`; a key
has at most 200 characters. Keys are relative to their board: none begins with `/` or is a URI. In a glob `*` matches
within a segment and `**` across segments; both also match the empty string. An `@` may be followed by a version
(`plan:step:3@2`), or by `*` for a list of all versions (`@*`, and `@*7` for those up to 7).
"""

from __future__ import annotations

import re
from functools import lru_cache

from .errors import InvalidInput

MAX_KEY = 200
_FOREIGN = re.compile(r"[^\w\-./@#:]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/+")
_BOARD_URI = re.compile(r"board://([^/:]*)/*(?:items/+)?")
_PLAIN = re.compile(r"[\w.\-]+\Z")
_SHOWN = 60
_VERSION = re.compile(r"@([0-9]{1,9})\Z")
_LISTING = re.compile(r"@\*([0-9]{1,9})?\Z")
_GLOB = re.compile(r"[\w\-./@#:*]+\Z")


def check_key(key: str) -> str:
    """Returns `key` if it is a valid key.

    Raises:
        InvalidInput: the key is empty, too long or absolute, begins or ends with a colon, or has an empty segment, a
            wildcard, what looks like a version, or an invalid character. The message says what to write instead.
    """
    if not key.strip():
        raise _wrong("A key must not be empty", "")
    if len(key) > MAX_KEY:
        raise InvalidInput(
            f"That key has {len(key)} characters; {MAX_KEY} are allowed. Nothing was changed; keep the key short and "
            "put the rest into text or metadata."
        )
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in key[:_SHOWN])
    shown = f"'{shown}…'" if len(key) > _SHOWN else f"'{shown}'"
    if "*" in key:
        meant = re.sub(r"\*+", "", key)
        raise _wrong(
            f"{shown} has a wildcard, and a key names one entry (query(key=…) takes patterns)", meant
        )
    if key.startswith("/") or _URI.match(key):
        named = _BOARD_URI.match(key)
        rest = key[named.end() :] if named else _URI.sub("", key, count=1)
        where = f' with board="{named[1]}"' if named and _PLAIN.match(named[1]) else ""
        raise _wrong(f"{shown} is absolute, and keys are relative to their board", rest, where)
    if key.startswith(":") or key.endswith(":"):
        raise _wrong(f"{shown} begins or ends with ':', which stands between segments", key)
    if "::" in key:
        raise _wrong(f"{shown} has an empty segment, '::'", key)
    if _VERSION.search(key):
        meant = _VERSION.sub("", key)
        raise _wrong(f"{shown} ends like a version (key@2 names one), and versions count themselves", meant)
    foreign = _FOREIGN.search(key)
    if foreign is not None:
        char = ascii(foreign[0][0])
        raise _wrong(f"{shown} is not a key: {char} is none of letters, digits and _ - . / @ #", key)
    return key


def _wrong(what: str, meant: str, where: str = "") -> InvalidInput:
    instead = _instead(meant)
    return InvalidInput(f"{what}. Nothing was changed; write {instead}{where}, say.", instead=instead)


def _instead(text: str) -> str:
    """Returns a valid key similar to the text; a standard example if nothing of it is usable."""
    segments = (_FOREIGN.sub("-", part).strip("-/") for part in _VERSION.sub("", text).split(":"))
    meant = ":".join(part for part in segments if part)
    return meant if meant and len(meant) <= _SHOWN and not _VERSION.search(meant) else "plan:step:3"


def parse_key(text: str) -> tuple[str, int | None]:
    """Splits `plan:step:3@2` into key and version; the version is `None` if there is none.

    Raises:
        InvalidInput: not a key.
    """
    match = _VERSION.search(text)
    if match is None:
        return check_key(text), None
    return check_key(text[: match.start()]), int(match[1])


def parse_listing(text: str) -> tuple[str, int | None] | None:
    """Splits `F-3@*7` into a reference and the newest version wanted, `None` for all.

    Returns `None` if the text is no listing.
    """
    match = _LISTING.search(text)
    return None if match is None else (text[: match.start()], int(match[1]) if match[1] else None)


def check_glob(glob: str) -> str:
    """Returns `glob` if it is a key or a pattern of keys.

    Raises:
        InvalidInput: it is empty, too long, or has a character that neither keys nor globs may have.
    """
    if not glob or len(glob) > MAX_KEY or not _GLOB.match(glob):
        raise InvalidInput(
            f"'{glob[:60]}' is not a key pattern: segments joined by ':', * within a segment, ** across."
        )
    return glob


class Glob:
    """A compiled pattern of keys.

    Matching moves a set of positions along the key, so its cost is at most the product of the two lengths, whatever
    the pattern.
    """

    __slots__ = ("_accept", "_cross", "_literal", "_within", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        within = cross = 0
        literal: dict[str, int] = {}
        place = 0
        for piece in re.split(r"(\*+)", text):
            if piece.startswith("*"):
                if len(piece) > 1:
                    cross |= 1 << place
                else:
                    within |= 1 << place
            else:
                for char in piece:
                    literal[char] = literal.get(char, 0) | 1 << place
                    place += 1
        self._within, self._cross, self._literal, self._accept = within, cross, literal, 1 << place

    def matches(self, key: str) -> bool:
        """Tells whether the pattern matches the whole of `key`."""
        states = 1
        for char in key:
            stay = states & self._cross
            if char != ":":
                stay |= states & self._within
            states = stay | (states & self._literal.get(char, 0)) << 1
            if not states:
                return False
        return bool(states & self._accept)


@lru_cache(maxsize=512)
def compile_glob(text: str) -> Glob:
    """Returns the compiled pattern, from a small cache."""
    return Glob(text)


def glob_prefix(glob: str) -> str:
    """Returns the literal beginning that all matches share, which an index range can use."""
    return glob.split("*", 1)[0]
