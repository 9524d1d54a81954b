"""What an eviction policy must do: the order in which items go, among those that may go.

A policy never decides whether an item may go. What the guard holds, what is above the importance
ceilings and what earlier steps took it is not even shown; a pass stops at its level whatever is left of the
order. A class of yours has one of the two methods, is made without arguments once per server, and is named
by the operator at launch (`--policy NAME=package.module:Class`), never by an agent.

Both methods must be pure and deterministic: what they are given may not be kept, and the same candidates
give the same answer. They are called outside the write transaction, in a thread, with a bound of a few
seconds. One that raises, takes longer, or names what it was not given is passed over for that pass:
`token-importance` decides, and the outcome of the pass says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from .pruning import Candidate


class KeyPolicy(Protocol):
    """Items by a key, smallest first. It may stand anywhere in a composition: `key` ties go on to the next."""

    def key(self, candidate: Candidate) -> Any:
        """Something that sorts; keys of one policy compare with each other."""
        ...


class EvictionPolicy(Protocol):
    """Items in an order of the policy's own. In a composition it stands last."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        """Numbers of candidates, most evictable first, each once.

        `candidates` come oldest change first; `used` is the tokens of working memory by owner, protected
        items included. What is left out of the answer goes after what is in it, least important first.
        """
        ...
