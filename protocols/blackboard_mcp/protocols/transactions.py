"""Transactions: what was read, what is to be written and done in debates, applied all or nothing.

What was read is named: an item by its id (`H-17` or `17`), an entry by its key, entries by a glob of keys
(`plan:*`), the whole board by `$board`. A key that looks like an id is written with a colon before it
(`:17`).

How strictly a name is held against the state depends on what is given with it:

- a version: the content is that version still. `0`: there is nothing by that name, or it was deleted. Status,
  importance, tags and metadata may have changed meanwhile.
- `Since(seq)`: no event of the log that the agent may see is about the item since that sequence: content, status,
  tags, zone, its debates, what it cites. For a glob: about no entry whose key matches, so that none appeared or
  vanished either. For `$board`: about nothing at all.

Whatever a caller can have read is covered by one of them, so transactions that name all they read are
serialisable: each is as if it had run alone, at the place of its last event in the log.
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
from .values import dataclass

MAX_READS = 100
MAX_GLOBS = 10
"""Of the reads; each glob may have to be tried on every key that changed."""
MAX_WRITES = 100
MAX_DEBATE_CALLS = 20
BOARD = "$board"
"""Names all of the board that the agent may see."""

_ID = re.compile(rf"(?:[{''.join(sorted(LETTERS.values()))}]-)?([0-9]{{1,15}})\Z")
_VERSIONED = re.compile(r"(.+)@([0-9]{1,9})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Since:
    """A read that holds while no event is about what it names after the sequence `seq`."""

    seq: int


class NameKind(Enum):
    ITEM = auto()
    ENTRY = auto()
    GLOB = auto()
    BOARD = auto()


@dataclass(frozen=True, slots=True)
class Name:
    """What a read names: `value` is a key or a glob, `number` an item's."""

    kind: NameKind
    value: str = ""
    number: int = 0


def parse_name(text: str) -> Name:
    """What the name of a read stands for.

    Raises:
        InvalidInput: neither id nor key nor glob, or with a version.
    """
    if text == BOARD:
        return Name(NameKind.BOARD)
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
    """What one agent read, and what it wants done if that still holds; the writes first, then the debates.

    With them it acknowledges what it holds of `group`, as a turn does: a transaction that is refused acknowledges
    nothing, and one that acknowledges what the agent does not hold any more changes nothing.

    The value of a read is a version or a `Since`; of a glob and of `$board` also the bare sequence. Edges and
    debates name items of `writes` by their place: -1 for the first. Two writes to one key are applied in
    order, and each takes a version.
    """

    reads: Mapping[str, int | Since] = field(default_factory=dict)
    writes: Sequence[Draft] = ()
    debates: Sequence[DebateCall] = ()
    group: str = ""
    ack: tuple[Handle, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether there is something to do, besides looking whether the reads hold."""
        return bool(self.writes or self.debates or self.ack)


def check_transaction(transaction: Transaction) -> dict[str, Name]:
    """The parsed names of a transaction's reads.

    Raises:
        InvalidInput: too many of something, a name that is none, one named twice, or a value that does not go
            with its name.
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
