"""Interleaved transactions of two agents, compared with a plain model that says what each must do.

The model knows when a transaction must be refused, for which names, and the state after it; it shares no code with the
store.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from blackboard_mcp.protocols.errors import BlackboardError, Conflict
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Draft, Item, Status, Visibility
from blackboard_mcp.protocols.transactions import BOARD, Since
from hypothesis import strategies as st

from ..harness import Table, draft
from ..kit.transacting import transact
from .serialising import matches

AGENTS = ["alice", "bob"]
KEYS = ["a:1", "a:2", "a:1:x", "b:1"]
GLOBS = ["a:*", "**", "a:1**", "*:1", BOARD]


@dataclass(frozen=True)
class Entry:
    """An entry in the model, under one key of one owner."""

    number: int = 0
    version: int = 0
    live: bool = False
    text: str = ""
    status: str = "ACTIVE"
    changed: int = 0


@dataclass
class Open:
    """A transaction that is not committed yet: what it read, and what it will write."""

    reads: dict[str, int | Since] = field(default_factory=dict)
    writes: list[tuple[str, str | None, str | None, int | None, bool]] = field(default_factory=list)


class Refused(Exception):
    """The model refuses the transaction, but not for a changed read."""


class Model:
    """A board as a serial program would keep it: entries by owner and key, and a count of events."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        self.seq = 1
        self.numbers = 0
        self.seen: dict[str, int] = dict.fromkeys(AGENTS, 1)

    def shown(self, agent: str, key: str) -> Entry:
        """Returns what reading the key shows: live entries come first, then the agent's own before shared ones."""
        both = [self.entries.get((owner, key), Entry()) for owner in (agent, "")]
        return next((e for e in both if e.live), next((e for e in both if e.version), Entry()))

    def moved(self, agent: str, given: Open) -> dict[str, int]:
        """Returns the reads that have changed, with their present version or sequence."""
        found: dict[str, int] = {}
        wide: dict[str, int] = {}
        for name, read in given.reads.items():
            if isinstance(read, int):
                entry = self.shown(agent, name)
                if read != (entry.version if entry.live else 0):
                    found[name] = entry.version if entry.live else 0
                continue
            glob = "**" if name == BOARD else name
            late = {
                key: entry.changed
                for (owner, key), entry in self.entries.items()
                if owner in ("", agent) and matches(glob, key) and entry.changed > read.seq
            }
            if late:
                found[name] = max(late.values())
                if "*" in name or name == BOARD:
                    for key in late:
                        entry = self.shown(agent, key)
                        wide.setdefault(key, entry.version if entry.live else 0)
        return wide | found

    def commit(self, agent: str, given: Open) -> dict[str, int]:
        """Commits the transaction, and returns the reads that have changed; if there are any, nothing is applied.

        Raises:
            Refused: it cannot be applied, whatever has changed.
        """
        moved = self.moved(agent, given)
        trial = Model()
        trial.entries, trial.seq, trial.numbers = dict(self.entries), self.seq, self.numbers
        written: set[tuple[str, str]] = set()
        wrong = False
        for key, text, status, expected, private in given.writes:
            owners = [agent] if private else [""]
            place = (owners[0], key)
            entry = trial.entries.get(place, Entry())
            if expected is not None and expected != entry.version and not (expected == 0 and not entry.live):
                if place in written:
                    wrong = True
                else:
                    moved.setdefault(key, entry.version if entry.live else 0)
            wrong |= not entry.live and text is None
            if status is None:
                written.add(place)
            trial.apply(place, text, status)
        if moved:
            return moved
        if wrong:
            raise Refused
        self.entries, self.seq, self.numbers = trial.entries, trial.seq, trial.numbers
        return {}

    def apply(self, place: tuple[str, str], text: str | None, status: str | None) -> None:
        """Applies one write to an entry."""
        entry = self.entries.get(place, Entry())
        if text is not None:
            self.seq += 2 if entry.version and not entry.live else 1
            if not entry.version:
                self.numbers += 1
                entry = replace(entry, number=self.numbers)
            entry = replace(entry, version=entry.version + 1, live=True, text=text, status="ACTIVE")
        elif status is not None:
            if entry.status == status:
                return
            self.seq += 1
            entry = replace(entry, status=status)
        else:
            self.seq += 1
            entry = replace(entry, version=entry.version + 1, live=False, text="")
        self.entries[place] = replace(entry, changed=self.seq)


Step = tuple[str, str, str, str]
"""A step: the operation, the agent, the key or glob, and the manner."""

_PER_AGENT: list[tuple[str, str, str]] = [
    *(("read", key, "version") for key in KEYS * 2),
    *(("read", key, "seq") for key in KEYS),
    *(("match", glob, "") for glob in GLOBS),
    *(("write", key, how) for key in KEYS for how in ("", "expecting")),
    *(("delete", key, how) for key in KEYS[:2] for how in ("", "expecting")),
    *((what, key, "") for key in KEYS[:2] for what in ("resolve", "private", "write wrongly")),
    *(("write at once", key, "") for key in KEYS[1:] * 2),
    *(("delete at once", key, "") for key in KEYS * 2),
    *[("commit", "", "")] * 16,
]
steps = st.lists(
    st.sampled_from([(what, agent, name, how) for agent in AGENTS for what, name, how in _PER_AGENT]),
    min_size=20,
    max_size=60,
)
"""Mostly short transactions, with other changes between their reads and their ends."""


async def interleave(at: Table, taken: list[Step]) -> int:
    """Takes the steps on an empty board, each compared with the model; returns the number of commits.

    Raises:
        AssertionError: the store did something else than the model.
    """
    model, committed = Model(), 0
    await at.configure()
    began = await at.seq()
    model.seq = began
    pending = {agent: Open() for agent in AGENTS}
    first = Open({}, [(key, "first", None, 0, False) for key in KEYS[::2]])
    assert await commit(at, model, AGENTS[0], first)
    for place, (what, agent, name, how) in enumerate(taken):
        mine = pending[agent]
        if what == "read":
            await read(at, model, agent, mine, name, by_seq=how == "seq")
        elif what == "match":
            await match(at, model, agent, mine, name)
        elif what == "commit":
            committed += await commit(at, model, agent, mine)
            pending[agent] = Open()
        elif what.endswith("at once"):
            text = str(place) if what.startswith("write") else None
            committed += await commit(at, model, agent, Open({}, [(name, text, None, None, False)]))
        else:
            now = model.entries.get(("", name), Entry()).version
            expected = now if how == "expecting" else now + 1 if what == "write wrongly" else None
            text = None if what in ("delete", "resolve") else str(place)
            status = "RESOLVED" if what == "resolve" else None
            mine.writes.append((name, text, status, expected, what == "private"))
    return committed


async def read(at: Table, model: Model, agent: str, mine: Open, key: str, *, by_seq: bool) -> None:
    """Reads a key in the store and the model, and adds the read to the transaction."""
    found = await at.store.read(at.board, agent, [], [key])
    entry = model.shown(agent, key)
    assert [same(item) for item in found.items] == ([told(entry)] if entry.live else [])
    mine.reads.setdefault(key, Since(found.seq) if by_seq else entry.version if entry.live else 0)


async def match(at: Table, model: Model, agent: str, mine: Open, glob: str) -> None:
    """Queries a glob in the store and the model, and adds the read to the transaction."""
    page = await at.store.query(at.board, agent, ItemQuery(key=None if glob == BOARD else glob, zone=None))
    live = [
        entry
        for (owner, key), entry in model.entries.items()
        if owner in ("", agent) and entry.live and (glob == BOARD or matches(glob, key))
    ]
    assert sorted(same(item) for item in page.items) == sorted(told(entry) for entry in live)
    mine.reads.setdefault(glob, Since(page.seq))


async def commit(at: Table, model: Model, agent: str, mine: Open) -> bool:
    """Commits the transaction in the store and the model; tells whether it was committed."""
    expected: dict[str, int] | None
    try:
        expected = model.commit(agent, mine)
    except Refused:
        expected = None
    try:
        done = await transact(at, agent, mine.reads, *(made(*write) for write in mine.writes))
    except BlackboardError as error:
        result = error.facts.get("moved") if isinstance(error, Conflict) else None
    else:
        result = {}
        assert done.seq == model.seq
    assert result == expected, mine
    assert await at.seq() == model.seq
    for viewer in AGENTS:
        found = await at.store.read(at.board, viewer, [], KEYS)
        there = {item.key: same(item) for item in found.items}
        shown = {key: model.shown(viewer, key) for key in KEYS}
        assert there == {key: told(entry) for key, entry in shown.items() if entry.live}
    return result == {}


def made(key: str, text: str | None, status: str | None, expected: int | None, private: bool) -> Draft:
    """Returns the draft of a write."""
    written = draft(
        text,
        key=key,
        status=status,
        expected=expected,
        delete=text is None and status is None,
        private=private,
    )
    return replace(written, visibility=Visibility.PRIVATE if private else Visibility.BOARD)


def same(item: Item) -> tuple[int, int, str, str]:
    """Returns an item in the form of `told`."""
    return item.number, item.version, item.text, str(Status(item.status))


def told(entry: Entry) -> tuple[int, int, str, str]:
    """Returns an entry's number, version, text and status."""
    return entry.number, entry.version, entry.text, entry.status
