"""Items that leave after others whatever the policy: open work, and items that important ones rest on.

The functions are pure. They take an order and move back the items that must wait; all others keep their
places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from blackboard_mcp.protocols.pruning import Candidate


def deferred(listed: Sequence[Candidate], gone: Container[int]) -> list[Candidate]:
    """Returns all candidates, with those that must wait moved back.

    Open work comes after its owner's last candidate that is neither open work nor a ground of another item.
    An item that others rest on (`bears`) comes after those others; where one of them is neither a candidate
    nor `gone`, it comes last.
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
    """Returns the candidates on which only other candidates or `gone` items rest; the others must wait for
    later steps.
    """
    left = list(listed)
    while True:
        numbers = {candidate.number for candidate in left}
        kept = [c for c in left if all(n in numbers or n in gone for n in c.bears)]
        if len(kept) == len(left):
            return kept
        left = kept
