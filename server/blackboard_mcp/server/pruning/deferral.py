"""Items that leave after others, whatever the policy: open work, and grounds of important items.

Pure. It takes an order and puts off what has to wait; all else keeps its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from blackboard_mcp.protocols.pruning import Candidate


def deferred(listed: Sequence[Candidate], gone: Container[int]) -> list[Candidate]:
    """All of the candidates. Open work comes after the last of its owner's that has to wait for nothing.

    What something rests on comes after that; after everything, where that is not among the candidates and not
    `gone`.
    """
    place = {candidate.number: at for at, candidate in enumerate(listed)}
    last = {c.owner: at for at, c in enumerate(listed) if not c.open_work and not c.bears}
    position: dict[int, tuple[int, int]] = {}
    missing: dict[int, int] = {}
    after: dict[int, list[int]] = {}
    for at, candidate in enumerate(listed):
        own = (at, 0)
        if candidate.open_work:
            own = max(own, (last.get(candidate.owner, -1), 1))
        waits = [number for number in candidate.bears if number not in gone]
        if any(number not in place for number in waits):
            own = (len(listed), 0)
        position[candidate.number] = own
        missing[candidate.number] = sum(number in place for number in waits)
        for number in waits:
            after.setdefault(number, []).append(candidate.number)
    ready = deque(candidate.number for candidate in listed if not missing[candidate.number])
    while ready:
        number = ready.popleft()
        at, level = position[number]
        for waiting in after.get(number, ()):
            position[waiting] = max(position[waiting], (at, level + 1))
            missing[waiting] -= 1
            if not missing[waiting]:
                ready.append(waiting)
    return sorted(listed, key=lambda c: (*position[c.number], place[c.number]))


def in_turn(listed: Sequence[Candidate], gone: Container[int]) -> list[Candidate]:
    """Those that nothing rests on which is neither `gone` nor among them: their turn comes with it, not before."""
    left = list(listed)
    while True:
        numbers = {candidate.number for candidate in left}
        kept = [c for c in left if all(n in numbers or n in gone for n in c.bears)]
        if len(kept) == len(left):
            return kept
        left = kept
