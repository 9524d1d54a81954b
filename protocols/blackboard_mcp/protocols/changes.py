"""Changes that a call is about to make, as they are put before access policies.

The store says which changes a call consists of, because only within the transaction it is known what they
touch. It commits those alone that were allowed: see `BoardStore.judged`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .access import Action, Role
from .items import EdgeKind, ItemType, Status, Visibility
from .values import dataclass


class ChangeKind(StrEnum):
    """What is done."""

    POST = "post"
    """A new item; also the same finding once more, which stands with the first."""
    VERSION = "version"
    """Another text for an entry."""
    AMEND = "amend"
    """Importance, tags, metadata, time to live or edges of an item that is there."""
    STATUS = "status"
    DELETE = "delete"
    EDGE = "edge"
    """An edge that leads to the item."""
    OPEN = "open"
    """A debate on the item, by request; a critique opens one by itself and is a post with an edge."""
    WATCH = "watch"
    """Begins or ends to watch an item or a topic."""
    ACKNOWLEDGE = "acknowledge"
    VOTE = "vote"
    WITHDRAW = "withdraw"
    CONCEDE = "concede"
    """Gives up one's own item in a debate, also by its status."""
    DECIDE = "decide"
    CONFIRM = "confirm"
    """Agrees to what a party to a debate decided."""
    REQUEST = "request"
    """Asks somebody, or takes one's request back."""
    RESPOND = "respond"
    """Offers a skill, takes a request, answers or declines it."""
    SUMMARISE = "summarise"
    """Takes the request for a summary, or writes it."""
    RESTORE = "restore"
    CONSUME = "consume"
    """A turn in a consumer group, or what becomes of the group and its dead letters."""
    CORE = "core"
    BOARD = "board"
    """The board's title, parent, lifecycle, or one of its settings."""
    PRUNE = "prune"
    """A pruning pass by hand."""
    MEMBERS = "members"
    """Who has which role on the board."""


_POSTS: Final = (
    ChangeKind.POST,
    ChangeKind.VERSION,
    ChangeKind.AMEND,
    ChangeKind.STATUS,
    ChangeKind.DELETE,
    ChangeKind.EDGE,
    ChangeKind.OPEN,
    ChangeKind.WITHDRAW,
    ChangeKind.CONCEDE,
    ChangeKind.REQUEST,
    ChangeKind.RESPOND,
    ChangeKind.RESTORE,
    ChangeKind.CONSUME,
)

ACTIONS: Final[Mapping[ChangeKind, Action]] = MappingProxyType(
    {
        **dict.fromkeys(_POSTS, Action.POST),
        ChangeKind.WATCH: Action.ACKNOWLEDGE,
        ChangeKind.ACKNOWLEDGE: Action.ACKNOWLEDGE,
        ChangeKind.VOTE: Action.ACKNOWLEDGE,
        ChangeKind.CONFIRM: Action.ACKNOWLEDGE,
        ChangeKind.DECIDE: Action.DECIDE,
        ChangeKind.SUMMARISE: Action.SUMMARISE,
        ChangeKind.CORE: Action.MODERATE,
        ChangeKind.PRUNE: Action.MODERATE,
        ChangeKind.BOARD: Action.ADMINISTER,
        ChangeKind.MEMBERS: Action.ADMINISTER,
    }
)
"""The action that a kind of change stands under."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that an agent is about to make.

    `item` is the id of the item that it touches, which an edge leads to or a debate is about; `None` for
    what is new or is no item. `type`, `key`, `visibility` and `author` are those of that item, or of the one
    to be; `owner` is whom its author acts for. Where no item is touched, `author` and `owner` are empty.
    """

    board: str
    kind: ChangeKind
    type: ItemType | None = None
    key: str | None = None
    item: str | None = None
    author: str = ""
    owner: str = ""
    visibility: Visibility = Visibility.BOARD
    status: Status | None = None
    """What the item becomes, where that is said."""
    edge: EdgeKind | None = None
    """The kind of an edge."""
    name: str = ""
    """What has a name and is no item: a group, a topic, whom a request is to, what of a board changes."""
    place: int = field(default=0, compare=False)
    """Which of several posts or writes of one call it belongs to, from 1; 0 where there are no several."""

    @property
    def action(self) -> Action:
        return ACTIONS[self.kind]


EVERYWHERE: Final = "*"
"""In `Permit.boards`: every board."""


@dataclass(frozen=True, slots=True)
class Permit:
    """The changes that were allowed to an owner's agent with that role of the board's, under its choice of policies.

    On `boards` changes are judged whatever the board chose. `access` is `None` where nothing was judged yet.
    """

    boards: frozenset[str] = frozenset()
    owner: str = ""
    role: Role | None = None
    access: tuple[str, ...] | None = None
    changes: frozenset[Change] = frozenset()

    def concerns(self, board: str) -> bool:
        return EVERYWHERE in self.boards or board in self.boards

    def covers(
        self, owner: str, role: Role | None, access: tuple[str, ...], changes: frozenset[Change]
    ) -> bool:
        """Whether all of them were allowed, to that owner's agent in that role, where the board chose `access`."""
        judged = owner == self.owner and role is self.role and access == self.access
        return judged and changes <= self.changes


@dataclass(frozen=True, slots=True)
class Proposal:
    """All changes of one transaction, as they are put before a judge.

    Attributes:
        agent: makes them.
        owner: the agent acts for it.
        role: the role that the board itself gives the agent, if it does.
        access: the board's choice of policies, as of the transaction.
    """

    agent: str
    owner: str
    role: Role | None
    access: tuple[str, ...]
    changes: tuple[Change, ...]


Judge = Callable[[Proposal], Awaitable[frozenset[Change]]]
"""Answers with what is allowed, all of the proposal's changes; where one is not, raises what the caller is told."""
