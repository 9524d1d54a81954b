"""The grammar of keys and of the globs that match them.

A key is one or more segments joined by colons: `plan:step:3`. Segments hold letters, digits and
`_ - . / @ #`; a key is at most 200 characters. In a glob `*` matches within a segment, `**` across
segments; both match the empty string as well.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .errors import InvalidInput

MAX_KEY = 200
_SEGMENT = re.compile(r"[\w\-./@#]+\Z")
_VERSION = re.compile(r"@([0-9]{1,9})\Z")
_GLOB = re.compile(r"[\w\-./@#:*]+\Z")


def check_key(key: str) -> str:
    """`key` itself when it is a key.

    Raises:
        InvalidInput: empty, too long, an edge colon, a wildcard, or a character keys do not have.
    """
    if not key:
        raise InvalidInput("A key must not be empty. Keys look like plan:step:3; nothing was changed.")
    if len(key) > MAX_KEY:
        raise InvalidInput(f"That key has {len(key)} characters; {MAX_KEY} are allowed. Nothing was changed.")
    if "*" in key:
        raise InvalidInput(f"'{key}' has a wildcard; wildcards are for query(key=…). Nothing was changed.")
    if key.startswith(":") or key.endswith(":"):
        raise InvalidInput(
            f"'{key}' begins or ends with ':'. Keys look like plan:step:3; nothing was changed."
        )
    if _VERSION.search(key):
        raise InvalidInput(
            f"'{key}' ends like a version (key@2 names one). Keys do not. Nothing was changed."
        )
    for segment in key.split(":"):
        if not _SEGMENT.match(segment):
            raise InvalidInput(
                f"'{key}' is not a key: segments joined by ':' hold letters, digits and _ - . / @ #. "
                "Nothing was changed."
            )
    return key


def parse_key(text: str) -> tuple[str, int | None]:
    """The key that `plan:step:3` or `plan:step:3@2` names, and the version when one was named.

    Raises:
        InvalidInput: not a key.
    """
    match = _VERSION.search(text)
    if match is None:
        return check_key(text), None
    return check_key(text[: match.start()]), int(match[1])


def check_glob(glob: str) -> str:
    """`glob` itself when it is a key or a pattern of keys.

    Raises:
        InvalidInput: empty, too long, or a character neither keys nor globs have.
    """
    if not glob or len(glob) > MAX_KEY or not _GLOB.match(glob):
        raise InvalidInput(
            f"'{glob[:60]}' is not a key pattern: segments joined by ':', * within a segment, ** across."
        )
    return glob


class Glob:
    """A compiled pattern of keys.

    Matching steps a set of positions along the key, so its cost is the product of the two lengths at
    worst, whatever the pattern.
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
        """Whether the pattern matches the whole of `key`."""
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
    """The compiled pattern, from a small cache."""
    return Glob(text)


def glob_prefix(glob: str) -> str:
    """The literal beginning that every match shares: what an index range can use."""
    return glob.split("*", 1)[0]
