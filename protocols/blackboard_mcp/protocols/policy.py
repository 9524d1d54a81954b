"""The contracts of the operator's policies.

Eviction says what goes first, validation what may be written, access who may change what.

An eviction policy gives the order in which items go, among those that may go. It never decides whether an
item may go: what the guard holds, what is above the importance ceilings and what earlier steps took it is not
even shown, and a pass stops at its level whatever is left of the order. A class of yours has one of the two
methods, `key` or `order`. One that raises, takes too long, or names what it was not given is passed over for
that pass: `token-importance` decides, and the outcome of the pass says so.

A validation policy says of each thing that an agent is about to write under a rule that names the policy
whether it may be. One that raises or takes too long denies, and the agent is told.

An access policy is asked about each change that an agent is about to make, once the agent's role and scopes allow
it. Several compose: they are asked in order, and the change is made where none denies. One that raises, takes too
long or answers with anything but a verdict denies, and the agent is told which. Policies are about changes alone:
what an agent may read follows from its role and the visibility of items.

Classes of yours are made without arguments once per server, and are named by the operator at launch
(`--policy`, `--validator` and `--access`, `NAME=package.module:Class`), never by an agent. Their methods must be
pure and deterministic: what they are given may not be kept, and the same gives the same answer. They are called
outside any transaction, in a thread, one call at a time, with a bound of a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from .access import Principal
from .changes import Change
from .items import ItemType
from .pruning import Candidate
from .values import dataclass


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


@dataclass(frozen=True, slots=True)
class Writing:
    """What is about to be written, as it will stand: a new item, or what changes of one that is there.

    `text` is `None` where it stays as it is; `tokens` counts it. `metadata` is all that it will have.
    """

    board: str
    agent: str
    type: ItemType
    key: str | None
    text: str | None
    tokens: int
    metadata: Mapping[str, Any]
    new: bool
    """Whether it becomes an item, rather than a version or a change of one."""


class ValidationPolicy(Protocol):
    """Decides whether something may be written, beside what a board's rules say without code."""

    def check(self, writing: Writing) -> str | None:
        """Why it may not be, as a sentence for the agent that says what may; `None` when it may."""
        ...


class Verdict(StrEnum):
    """What an access policy says of a change that it does not deny."""

    ALLOW = "allow"
    """It may be made, unless another policy denies it; `deny-rest` after this one lets it pass."""
    NO_OPINION = "no opinion"
    """The policy is not about it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The change must not be made; `reason` is a sentence for the agent that says who may, or what may be."""

    reason: str


class AccessPolicy(Protocol):
    """Decides who may change what, beside roles and scopes."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        """Whether the change may be made.

        `principal.role_on(change.board)` is the role that counts there. Of several changes of one call each is asked
        about; one denied is the end of all of them.
        """
        ...
