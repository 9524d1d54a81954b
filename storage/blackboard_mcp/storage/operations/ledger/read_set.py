"""Read sets: checks whether what a caller read has changed, and tells the present versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from operator import itemgetter

from blackboard_mcp.protocols.errors import Conflict, CursorExpired, InvalidInput
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.keys import compile_glob, glob_prefix
from blackboard_mcp.protocols.read_rules import READ
from blackboard_mcp.protocols.transactions import BOARD, Name, NameKind, Since
from blackboard_mcp.protocols.values import dataclass

from .places import is_place
from .principals import marks
from .rows import FORGOTTEN, Steps, dumps, numbers, sql

_WIDE = (NameKind.GLOB, NameKind.PANEL, NameKind.BOARD)
_SCAN = 2_000
"""The most events since a glob was read, or entries under its prefix, that are examined."""
_NAMED = 50
"""The most keys and ids that are named if a glob or the board changed."""
_TOLD = 520
"""The most characters of a message that list what changed."""


@dataclass(slots=True)
class Moved:
    """Names of what changed since it was read, with present versions or sequences, and sentences that say so."""

    now: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def add(self, name: str, present: int, words: str) -> None:
        """Adds a name with its present version or sequence and a sentence; a name added before stays as it is."""
        if name not in self.now:
            self.now[name] = present
            self.words.append(words)

    def refuse(self, seq: int) -> None:
        """Refuses the transaction if anything changed; `seq` is the board's sequence, for the error.

        Raises:
            Conflict: something changed.
        """
        if not self.now:
            return
        told, more = self.words[0], len(self.words) - 1
        for words in self.words[1:]:
            if len(told) + len(words) > _TOLD:
                break
            told += f"; {words}"
            more -= 1
        told = told if len(told) <= _TOLD else told[: _TOLD - 1] + "…"
        rest = f"; and {more} more" if more else ""
        raise Conflict(
            f"Moved since you read it: {told}{rest}. Nothing was changed; read these again, then retry "
            "with what you find.",
            moved=self.now,
            seq=seq,
        )


Sides = tuple[str, ...]
"""The marks that entries with one key may have for an agent, nearest first: see `principals.marks`."""


@dataclass(frozen=True, slots=True)
class ReadStanding:
    """The number, version and deletion of an item, which is all that transactions compare."""

    number: int
    version: int
    deleted: int
    """0 for an existing item, 1 for a tombstone, 2 for forgotten content."""

    @property
    def end(self) -> str:
        """The word for a tombstone's kind: "forgotten" or "deleted"."""
        return "forgotten" if self.deleted == FORGOTTEN else "deleted"


def entries(no: int, agent: str, keys: Iterable[str]) -> Steps[dict[tuple[str, str], ReadStanding]]:
    """Returns the entries with these keys that an agent may see, by pairs of mark (see `principals.mark`) and key."""
    rows = yield sql("standing_entries"), (no, dumps(sorted(set(keys))), agent)
    return {(owner, key): ReadStanding(n, version, gone) for n, owner, key, version, gone in rows}


def sides_of(agent: str, found: Iterable[tuple[str, str]]) -> Steps[Sides]:
    """Returns the marks that entries may have for the agent, nearest first; of read rules only those in `found`.

    What others wrote for readers whose company they are not in comes last.
    """
    kept = sorted({side for side, _ in found if side.startswith(READ)})
    near = [side for side in kept if side.count(":") == 1 or side.endswith(f":{agent}")]
    return (*(yield from marks(agent, near)), *(side for side in kept if side not in near))


def shown(found: Mapping[tuple[str, str], ReadStanding], sides: Sides, key: str) -> ReadStanding | None:
    """Returns the entry that a key names for an agent, or `None`.

    Existing entries come before tombstones, then the nearest mark of `sides` counts.
    """
    listed = [found[side, key] for side in sides if (side, key) in found]
    return min(listed, key=lambda entry: entry.deleted, default=None)


def hold(
    no: int,
    seq: int,
    agent: str,
    reads: Mapping[str, int | Since],
    names: Mapping[str, Name],
    moved: Moved,
    held: int = 0,
) -> Steps[None]:
    """Adds to `moved` each read that no longer holds at sequence `seq`, as far as the agent may see it.

    `names` maps each text of `reads` to its parsed name. `held` is a sequence at which all reads were found to
    hold; globs are checked from there on only.

    Raises:
        InvalidInput: a sequence that the log has not reached.
        CursorExpired: a sequence that another copy of the board used.
    """
    if not reads:
        return
    for text, read in reads.items():
        as_of = read.seq if isinstance(read, Since) else read
        by_seq = isinstance(read, Since) or names[text].kind in _WIDE
        if by_seq and as_of > seq:
            raise InvalidInput(
                f"reads.{text} is as of seq {as_of}, and the board is at {seq}. Nothing was changed; use the seq "
                "of the answer that you read."
            )
        if by_seq and not (yield from is_place(no, seq, as_of)):
            raise CursorExpired(
                f"reads.{text} is as of seq {as_of}, which is of another copy of the board: it was restored since you "
                "read. Nothing was changed; read again what you need, and use the seq of that answer.",
                cursor=as_of,
                seq=seq,
            )
    found = yield from entries(no, agent, (n.value for n in names.values() if n.kind is NameKind.ENTRY))
    sides = yield from sides_of(agent, found)
    asked = numbers(n.number for n in names.values() if n.kind is NameKind.ITEM)
    items = {
        number: ReadStanding(number, version, deleted)
        for number, _type, _key, version, deleted in (yield sql("standing_items"), (no, asked, agent))
    }
    # Globs come last: a key that the caller also named by itself keeps that name's version.
    for text, name in sorted(names.items(), key=lambda named: named[1].kind in _WIDE):
        read = reads[text]
        match name.kind:
            case NameKind.BOARD:
                yield from _board(no, seq, agent, _as_of(read), moved)
            case NameKind.PANEL:
                yield from _panel(no, agent, text, name.value, _as_of(read), moved)
            case NameKind.GLOB:
                yield from _glob(no, seq, agent, text, max(held, _as_of(read)), moved)
            case NameKind.ENTRY if isinstance(read, Since):
                both = [found[o, name.value].number for o in sides if (o, name.value) in found]
                yield from _since(no, seq, agent, text, both, read.seq, moved)
            case NameKind.ITEM if isinstance(read, Since):
                there = [name.number] if name.number in items else []
                yield from _since(no, seq, agent, text, there, read.seq, moved)
            case NameKind.ENTRY:
                entry = shown(found, sides, name.value)
                _version(text, entry, _as_of(read), moved, gone=entry is None or entry.deleted > 0)
            case NameKind.ITEM:
                item = items.get(name.number)
                _version(text, item, _as_of(read), moved, gone=item is None)


def _as_of(read: int | Since) -> int:
    """Returns the number read: a sequence of `Since`, else the version or sequence itself."""
    return read.seq if isinstance(read, Since) else read


def _version(name: str, entry: ReadStanding | None, read: int, moved: Moved, *, gone: bool) -> None:
    """Compares a read version with the present one. 0 means absent, and also holds for a deleted entry."""
    present = 0 if entry is None else entry.version
    if read == present or (read == 0 and entry is not None and entry.deleted):
        return
    if gone:
        was = f"was {entry.end} at version {present}" if entry is not None else "is not there (version 0)"
        moved.add(name, 0, f"{name} {was}, not at {read}")
    elif entry is not None and entry.deleted:
        moved.add(name, present, f"{name} was {entry.end} at version {present}, not at {read}")
    else:
        moved.add(name, present, f"{name} is at version {present}, not {read or 'absent'}")


def _since(
    no: int, seq: int, agent: str, name: str, items: list[int], as_of: int, moved: Moved
) -> Steps[None]:
    """Adds `name` to `moved` if one of the items has an event after `as_of`, up to `seq`."""
    rows = yield sql("last_event_of_items"), (no, numbers(items), agent, as_of, seq)
    if rows[0][0] is not None:
        moved.add(name, rows[0][0], f"{name} changed at seq {rows[0][0]}, after {as_of}")


def _board(no: int, seq: int, agent: str, as_of: int, moved: Moved) -> Steps[None]:
    """Adds the board to `moved` if it has an event after `as_of`, and names up to 50 items that changed."""
    rows = yield sql("last_event"), (no, agent, as_of, seq)
    if not rows:
        return
    moved.add(BOARD, rows[0][0], f"the board changed at seq {rows[0][0]}, after {as_of}")
    listed = yield sql("events_between"), (no, agent, as_of, seq, _NAMED)
    about = numbers(item for _, item, _ in listed if item is not None)
    items = yield sql("standing_items"), (no, about, agent)
    found = yield from entries(no, agent, (key for _, _, key, _, _ in items if key is not None))
    sides = yield from sides_of(agent, found)
    for number, type_, key, version, _deleted in sorted(items, key=itemgetter(0)):
        name = key or item_id(type_, number)
        present = version if key is None else _present(shown(found, sides, key))
        moved.add(name, present, f"{name} is at version {present} now")


def _panel(no: int, agent: str, text: str, panel: str, as_of: int, moved: Moved) -> Steps[None]:
    """Adds a panel to `moved` if one of its items has an event after `as_of`."""
    ((last,),) = yield sql("panel_version"), (no, agent, panel)
    if last is not None and last > as_of:
        moved.add(text, last, f"panel {panel} changed at seq {last}, after {as_of}")


def _present(entry: ReadStanding | None) -> int:
    """Returns the version that a key reads as: 0 for a tombstone or nothing."""
    return 0 if entry is None or entry.deleted else entry.version


def _glob(no: int, seq: int, agent: str, name: str, as_of: int, moved: Moved) -> Steps[None]:
    """Adds a glob and its changed keys to `moved`; reads the log since `as_of` or, if too long, matching entries."""
    glob = compile_glob(name)
    events = yield sql("events_between"), (no, agent, as_of, seq, _SCAN + 1)
    if len(events) <= _SCAN:
        changed = [(s, key) for s, _, key in events if key is not None and glob.matches(key)]
    else:
        prefix = glob_prefix(name)
        bounds = (prefix, prefix + "\U0010ffff", as_of, seq, _SCAN + 1)
        rows = yield sql("entries_changed"), (no, agent, *bounds)
        changed = [(s, key) for key, s in rows if s is not None and glob.matches(key)]
        if not changed and len(rows) > _SCAN:
            words = f"{name}: too much happened since seq {as_of} to tell"
            moved.add(name, seq, words)
            return
    if not changed:
        return
    last = max(s for s, _ in changed)
    keys = list(dict.fromkeys(key for _, key in sorted(changed, reverse=True)))[:_NAMED]
    found = yield from entries(no, agent, keys)
    sides = yield from sides_of(agent, found)
    moved.add(name, last, f"{name} changed at seq {last}, after {as_of}: {', '.join(keys[:5])}")
    for key in keys:
        moved.now.setdefault(key, _present(shown(found, sides, key)))
