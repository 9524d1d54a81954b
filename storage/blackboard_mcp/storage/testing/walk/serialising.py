"""The check that a concurrent history of transactions equals one in which they ran one after the other.

Each transaction leaves a `Record`: what it read, what it wrote, and the sequence at which it was committed or refused.
The records are replayed in the order of these sequences. Every read of a committed transaction must have seen the
state just before it, every refusal must name exactly what had changed, and the log must have room for the events of
these transactions and no others. The module knows no store and shares no code with one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """The state of a key. Version 0 means that there never was an entry; a tombstone has a version but is not live."""

    version: int = 0
    live: bool = False
    text: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a transaction.

    A key read by version has `version`, any other read has the sequence `since`. `saw` maps the keys of live entries
    that it showed to `[version, text, status]`.
    """

    name: str
    version: int | None
    since: int | None
    saw: dict[str, list[int | str]]


@dataclass(frozen=True, slots=True)
class Write:
    """A write to a key: a text or a status; a delete if neither is given."""

    key: str
    text: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One transaction, committed or refused at `seq`. `moved` is what a refusal named; `None` if it was committed."""

    agent: str
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    seq: int
    moved: dict[str, int] | None = None

    def line(self) -> str:
        """Returns the record as a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> Record:
        """Returns the record in a line of JSON."""
        said = json.loads(line)
        reads = tuple(Read(**read) for read in said.pop("reads"))
        writes = tuple(Write(**write) for write in said.pop("writes"))
        return cls(reads=reads, writes=writes, **said)


@dataclass(slots=True)
class _Course:
    """The states of one key, each with the sequence from which it held."""

    seqs: list[int] = field(default_factory=lambda: [0])
    cells: list[Cell] = field(default_factory=lambda: [Cell()])

    def at(self, seq: int) -> Cell:
        return self.cells[bisect_right(self.seqs, seq) - 1]

    def last_change(self, seq: int) -> int:
        return self.seqs[bisect_right(self.seqs, seq) - 1]


class History:
    """A board's history rebuilt from the records of all its transactions; `began` is the sequence before them.

    `problems` says where the records do not fit a serial history; it is empty if they do.
    """

    def __init__(self, records: Iterable[Record], began: int) -> None:
        self._keys: dict[str, _Course] = {}
        self.problems: list[str] = []
        self.seq = began
        self.committed: list[Record] = []
        self.refused: list[Record] = []
        checks: list[Record] = []
        for record in records:
            if record.moved is not None:
                self.refused.append(record)
            elif record.writes:
                self.committed.append(record)
            else:
                checks.append(record)
        self.committed.sort(key=lambda record: record.seq)
        for record in self.committed:
            self._reads_saw_what_stood(record, self.seq)
            before = self.seq
            for write in record.writes:
                self._apply(write)
            if self.seq != record.seq:
                self._tell(
                    record, f"committed at seq {record.seq}; its events after {before} end at {self.seq}"
                )
                self.seq = record.seq
        for record in checks:
            self._reads_saw_what_stood(record, record.seq)
        for record in self.refused:
            self._refusal_is_just(record)
        self.checks = len(checks)

    def cell(self, key: str) -> Cell:
        """Returns the state of the key at the end."""
        return self._at(key, self.seq)

    def live(self, glob: str) -> dict[str, Cell]:
        """Returns the live entries at the end whose keys match, by key."""
        return self._live(glob, self.seq)

    def _tell(self, record: Record, problem: str) -> None:
        self.problems.append(f"{record.agent} at {record.seq}: {problem}")

    def _apply(self, write: Write) -> None:
        course = self._keys.setdefault(write.key, _Course())
        cell = course.cells[-1]
        if write.text is not None:
            # Writing to a deleted key first restores it from the archive, which is an event of its own.
            self.seq += 1 if cell.live or not cell.version else 2
            after = Cell(cell.version + 1, True, write.text, "ACTIVE")
        elif write.status is not None:
            self.seq += cell.status != write.status
            after = Cell(cell.version, cell.live, cell.text, write.status)
        else:
            self.seq += 1
            after = Cell(cell.version + 1)
        course.seqs.append(self.seq)
        course.cells.append(after)

    def _at(self, key: str, seq: int) -> Cell:
        course = self._keys.get(key)
        return Cell() if course is None else course.at(seq)

    def _live(self, glob: str, seq: int) -> dict[str, Cell]:
        return {
            key: cell
            for key in self._keys
            if matches(glob, key)
            for cell in [self._at(key, seq)]
            if cell.live
        }

    def _reads_saw_what_stood(self, record: Record, seq: int) -> None:
        for read in record.reads:
            stood = {
                key: [cell.version, cell.text, cell.status]
                for key, cell in self._live(read.name, seq).items()
            }
            saw = read.saw
            if read.version is not None:  # a version is of the content
                stood = {key: cell[:2] for key, cell in stood.items()}
                saw = {key: cell[:2] for key, cell in saw.items()}
            if saw != stood:
                self._tell(record, f"read {read.name} as {saw}, and there stood {stood}")

    def _refusal_is_just(self, record: Record) -> None:
        assert record.moved is not None
        expected: dict[str, int] = {}
        for read in record.reads:
            changed = {
                key: course.last_change(record.seq)
                for key, course in self._keys.items()
                if matches(read.name, key)
            }
            if read.since is not None:
                late = {key: seq for key, seq in changed.items() if seq > read.since}
                if late:
                    expected[read.name] = max(late.values())
                if "*" in read.name:
                    for key in late:
                        cell = self._at(key, record.seq)
                        expected.setdefault(key, cell.version if cell.live else 0)
            else:
                cell = self._at(read.name, record.seq)
                present = cell.version if cell.live else 0
                if read.version != present:
                    expected[read.name] = present
        if record.moved != expected:
            self._tell(record, f"refused for {record.moved}, and {expected} had moved")
        if not expected:
            self._tell(record, "refused, and nothing had moved")


def matches(glob: str, key: str) -> bool:
    """Tells whether a key matches a glob: `*` within a segment, `**` across."""
    parts = re.split(r"(\*+)", glob)
    pattern = "".join(
        ".*" if part.startswith("**") else "[^:]*" if part == "*" else re.escape(part) for part in parts
    )
    return re.fullmatch(pattern, key) is not None


def read_records(lines: Sequence[str]) -> list[Record]:
    """Returns the records in lines that `Record.line` wrote."""
    return [Record.of(line) for line in lines if line.strip()]
