"""The contracts of the operator's policies.

Eviction policies order what leaves, validation policies judge what is written, access policies judge changes.

An eviction policy orders the items that may leave. It never decides whether an item may leave: it is not even shown
what the guard protects, what is above the importance ceilings, and what earlier steps took. A pass stops at its level,
whatever is left of the order. An eviction class has one of two methods, `key` or `order`. A policy that raises, takes
too long, or names items that it did not get is ignored for that pass: `token-importance` decides instead, and the
outcome of the pass says so.

A validation policy judges each write under a rule that names the policy. One that raises or takes too long denies, and
the agent is told.

An access policy is asked about each change of an agent that the agent's role and scopes allow. Several compose: they
are asked in order, and the change is made if none denies. One that raises, takes too long or answers with anything but
a verdict denies, and the agent is told which. Access policies judge changes only: what an agent may read follows from
its role and the visibility of items.

Policy classes are created without arguments once per server. The operator names them at launch (`--policy`,
`--validator` and `--access`, `NAME=package.module:Class`), never an agent. Their methods must be pure and
deterministic: they must not keep their arguments, and equal arguments give equal answers. They are called outside any
transaction, in a thread, one call at a time, with a limit of a few seconds.
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
    """An eviction policy that sorts items by a key, smallest first.

    It may stand anywhere in a composition: items with equal keys are ordered by the next policy.
    """

    def key(self, candidate: Candidate) -> Any:
        """Returns a sortable value; the values of one policy must be comparable with each other."""
        ...


class EvictionPolicy(Protocol):
    """An eviction policy that orders items as a whole. In a composition it must be the last."""

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> Iterable[int]:
        """Yields numbers of candidates, the first to leave first, each once.

        `candidates` come oldest change first. `used` maps owners to their tokens of working memory, protected items
        included. Candidates that the answer omits leave after all others, least important first.
        """
        ...


@dataclass(frozen=True, slots=True)
class Writing:
    """A write that is about to happen: a new item, or a change of an existing one, as it will stand.

    `text` is `None` if it does not change; `tokens` counts it. `metadata` is the complete new metadata.
    """

    board: str
    agent: str
    type: ItemType
    key: str | None
    text: str | None
    tokens: int
    metadata: Mapping[str, Any]
    new: bool
    """True if it creates an item, false for a version or a change of one."""


class ValidationPolicy(Protocol):
    """A judge of writes, in addition to the declarative rules of a board."""

    def check(self, writing: Writing) -> str | None:
        """Returns a sentence for the agent on why the write is refused and what is allowed; `None` to allow it."""
        ...


class Verdict(StrEnum):
    """The answer of an access policy that does not deny a change."""

    ALLOW = "allow"
    """The change may be made unless another policy denies it; a later `deny-rest` lets it pass."""
    NO_OPINION = "no opinion"
    """The policy does not judge changes like this one."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The refusal of a change. `reason` is a sentence for the agent on who may make it, or which change is allowed."""

    reason: str


class AccessPolicy(Protocol):
    """A judge of changes, in addition to roles and scopes."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        """Judges one change of a principal.

        `principal.role_on(change.board)` is the role that applies there; `principal.named` are roles that the launch
        gives the agent besides. Each change of a call is judged by itself;
        one denial refuses the whole call.
        """
        ...
