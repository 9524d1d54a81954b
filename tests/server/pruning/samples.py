"""Policies as an operator might name them at launch: two that work, and others that must do no harm."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from blackboard_mcp.protocols.pruning import Candidate

RELEASE = threading.Event()
"""Set to let `Hangs` and `Pauses` go on."""
REACHED = threading.Event()
"""Set when `Pauses` was asked."""


class Newest:
    """The newest goes first."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        return [c.number for c in reversed(candidates)]


class ByAuthor:
    """By the author's name, as a key."""

    def key(self, candidate: Candidate) -> str:
        return candidate.author


class OnlyOne:
    """Names the third item and nothing else."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        return [c.number for c in candidates if c.number == 3]


class Raises:
    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        raise ValueError("secret: " + str(candidates))


class Exits:
    def key(self, candidate: Candidate) -> int:
        raise SystemExit(3)


class Hangs:
    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        RELEASE.wait()
        return []


class Pauses:
    """Answers as `Newest` does, once it was asked and let go on."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        REACHED.set()
        RELEASE.wait(10)
        return [c.number for c in reversed(candidates)]


class Greedy:
    """Names everything there might be, for ever."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterator[int]:
        return count(1)


class Repeats:
    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        return [candidates[0].number] * len(candidates)


class Nonsense:
    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        return ["1", None, 2.0, True]  # type: ignore[list-item]


class Unsorted:
    """Keys that do not compare."""

    def key(self, candidate: Candidate) -> object:
        return "x" if candidate.number % 2 else candidate.number


class Meddles:
    """Tries to change what it is shown."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        used.clear()  # type: ignore[attr-defined]
        candidates.clear()  # type: ignore[attr-defined]
        return []


class Nothing:
    """No policy."""


class Leaves:
    def __init__(self) -> None:
        raise SystemExit(0)


class NeedsMore:
    def __init__(self, what: str) -> None: ...


made = Newest()
HOSTILE = ("Raises", "Exits", "Hangs", "Greedy", "Repeats", "Nonsense", "Unsorted")
