"""Transactions: what was read, and writes and calls in debates that are applied all or not at all.

What was read is named: an item by its id (`H-17` or `17`), an entry by its key, entries by a glob of keys (`plan:*`),
a panel by `$panel:` and its name, the whole board by `$board`. A key that looks like an id is written with a colon
before it (`:17`).

The value given with a name decides how strictly it is checked:

- a version: the content is still that version. `0`: nothing has that name, or it was deleted. Status, importance,
  tags and metadata may have changed meanwhile.
- `Since(seq)`: since that sequence the log has no event about the item that the agent may see: on its content, status,
  tags, zone, debates or edges. For a glob: no event about an entry whose key matches, so none appeared or vanished.
  For a panel: no event about an item in it. For `$board`: no event at all.

One of these covers everything that a caller can have read. So transactions that name all they read are serialisable:
each is as if it had run alone, at the place of its last event in the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum, auto

from .debates import DebateCall
from .errors import InvalidInput
from .groups import MAX_TAKEN, Handle
from .items import LETTERS, Draft
from .keys import check_glob, check_key
from .panels import PANEL_NAME
from .values import dataclass

MAX_READS = 100
MAX_GLOBS = 10
"""Most globs among the reads; each may have to be tried on every key that changed."""
MAX_WRITES = 100
MAX_DEBATE_CALLS = 20
BOARD = "$board"
"""The name that stands for everything on the board that the agent may see."""
IN_PANEL = "$panel:"
"""Beginning of the name of a panel among what a transaction read."""

_ID = re.compile(rf"(?:[{''.join(sorted(LETTERS.values()))}]-)?([0-9]{{1,15}})\Z")
_VERSIONED = re.compile(r"(.+)@([0-9]{1,9})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Since:
    """A read that holds while no event after the sequence `seq` is about what it names."""

    seq: int


class NameKind(Enum):
    """The kind of a read's name."""

    ITEM = auto()
    ENTRY = auto()
    GLOB = auto()
    PANEL = auto()
    BOARD = auto()


@dataclass(frozen=True, slots=True)
class Name:
    """The parsed name of a read: `value` is a key, a glob or a panel's name, `number` an item's number."""

    kind: NameKind
    value: str = ""
    number: int = 0


def parse_name(text: str) -> Name:
    """Parses the name of a read.

    Raises:
        InvalidInput: the text is neither an id, a key, a glob nor a panel, or it names a version.
    """
    if text == BOARD:
        return Name(NameKind.BOARD)
    if text.startswith(IN_PANEL):
        name = text.removeprefix(IN_PANEL)
        if not PANEL_NAME.match(name):
            raise InvalidInput(
                f"reads names '{text[:60]}', and no panel can have that name. Nothing was changed."
            )
        return Name(NameKind.PANEL, name)
    found = _ID.match(text)
    if found is not None:
        return Name(NameKind.ITEM, number=int(found[1]))
    versioned = _VERSIONED.match(text)
    if versioned is not None and len(text) <= 220:
        raise InvalidInput(
            f"reads names '{versioned[1]}' without a version; the version you read is its value: "
            f'{{"{versioned[1]}": {int(versioned[2])}}}. Nothing was changed.'
        )
    if "*" in text:
        return Name(NameKind.GLOB, check_glob(text))
    return Name(NameKind.ENTRY, check_key(text.removeprefix(":")))


@dataclass(frozen=True, slots=True)
class Transaction:
    """One agent's reads, and the writes and calls in debates to make if what it read is unchanged.

    It may also acknowledge deliveries of `group`, as a turn does. A transaction that is refused acknowledges none; one
    that acknowledges a delivery which the agent no longer holds changes nothing.

    The value of a read is a version or a `Since`; for a glob, a panel and `$board` it may be the bare sequence. The
    writes come first, then the calls. Edges and calls name items of `writes` by their place: -1 for the first. Two
    writes to one key are applied in order, and each adds a version.
    """

    reads: Mapping[str, int | Since] = field(default_factory=dict)
    writes: Sequence[Draft] = ()
    debates: Sequence[DebateCall] = ()
    group: str = ""
    ack: tuple[Handle, ...] = ()

    @property
    def changes(self) -> bool:
        """Tells whether the transaction does anything besides checking its reads."""
        return bool(self.writes or self.debates or self.ack)


def check_transaction(transaction: Transaction) -> dict[str, Name]:
    """Returns the parsed names of a transaction's reads, by their text.

    Raises:
        InvalidInput: the transaction exceeds a bound, or has an invalid name, one name twice, or a value that does not
            fit its name.
    """
    for what, given, most in (
        ("reads", transaction.reads, MAX_READS),
        ("writes", transaction.writes, MAX_WRITES),
        ("debates", transaction.debates, MAX_DEBATE_CALLS),
        ("acknowledged events", transaction.ack, MAX_TAKEN),
    ):
        if len(given) > most:
            raise InvalidInput(
                f"A transaction takes at most {most} {what}, not {len(given)}. Nothing was changed."
            )
    names = {text: parse_name(text) for text in transaction.reads}
    by_name: dict[Name, str] = {}
    for text, name in names.items():
        if name in by_name:
            raise InvalidInput(
                f"reads names the same twice: '{by_name[name]}' and '{text}'. Nothing was changed."
            )
        by_name[name] = text
        value = transaction.reads[text]
        number = value.seq if isinstance(value, Since) else value
        if number < 0:
            raise InvalidInput(f"reads.{text} is {number}; versions and sequences are not below 0.")
    globs = sum(name.kind is NameKind.GLOB for name in names.values())
    if globs > MAX_GLOBS:
        raise InvalidInput(
            f"reads takes at most {MAX_GLOBS} globs, not {globs}. Nothing was changed; one wider glob, or {BOARD}, "
            "covers several."
        )
    return names
