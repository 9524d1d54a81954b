"""Changes that a call is about to make, in the form that access policies judge.

The store lists the changes of a call, because only the transaction itself knows what they touch. It commits only
allowed changes: see `BoardStore.judged`.
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
    """The kind of a change."""

    POST = "post"
    """A new item, or the same finding again, which counts as support of the first."""
    VERSION = "version"
    """A new text for an entry."""
    AMEND = "amend"
    """Importance, tags, metadata, time to live or edges of an existing item."""
    STATUS = "status"
    DELETE = "delete"
    EDGE = "edge"
    """An edge that leads to the item."""
    OPEN = "open"
    """A debate that is opened by request; a critique opens one by itself, and is a post with an edge."""
    WATCH = "watch"
    """The beginning or end of watching an item or a topic."""
    ACKNOWLEDGE = "acknowledge"
    VOTE = "vote"
    WITHDRAW = "withdraw"
    CONCEDE = "concede"
    """Giving up one's own item in a debate, also by setting its status."""
    DECIDE = "decide"
    CONFIRM = "confirm"
    """Confirming what a party to a debate decided."""
    REQUEST = "request"
    """Making a request to another agent, or cancelling it."""
    RESPOND = "respond"
    """Offering a skill, or taking, answering or declining a request."""
    SUMMARISE = "summarise"
    """Taking a request for a summary, or writing the summary."""
    RESTORE = "restore"
    CONSUME = "consume"
    """A turn in a consumer group, or a change of the group or its dead letters."""
    JOIN = "join"
    """Taking part on the board, or leaving it."""
    PLAN = "plan"
    """Planning, changing or cancelling a task; `name` is its id, empty for a new one."""
    CLAIM = "claim"
    """Taking a task, or what its holder or reviewer does with it; `name` is its id."""
    STAGE = "stage"
    """Defining or moving a stage; `name` is its id, empty for a new one."""
    RUN = "run"
    """Starting a run, a turn in it, or its end; `name` is its id, empty for a new one."""
    ARTIFACT = "artifact"
    """Writing, deleting or restoring a file of the workspace; `name` is its path."""
    CORE = "core"
    BOARD = "board"
    """The board's title, parent, lifecycle, or one of its settings."""
    PRUNE = "prune"
    """A pruning pass by hand."""
    MEMBERS = "members"
    """The role of a member of the board."""


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
    ChangeKind.JOIN,
    ChangeKind.PLAN,
    ChangeKind.CLAIM,
    ChangeKind.STAGE,
    ChangeKind.RUN,
    ChangeKind.ARTIFACT,
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
"""The action that each kind of change needs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that an agent is about to make.

    `item` is the id of the existing item that it touches: the one changed, the target of an edge, or the subject of a
    debate. It is `None` for a new item and for changes that touch no item. `type`, `key`, `visibility` and `author`
    are those of the existing or new item; `owner` is the owner of that author. If no item is touched, `author` and
    `owner` are empty.
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
    """The new status of the item, if one is given."""
    edge: EdgeKind | None = None
    """The kind of the edge, for a change that is one."""
    name: str = ""
    """The name of what is changed if it is no item: a group, topic, request's addressee, or a field of a board."""
    place: int = field(default=0, compare=False)
    """The place among several posts or writes of one call, from 1; 0 if there are not several."""

    @property
    def action(self) -> Action:
        """The action that the change needs."""
        return ACTIONS[self.kind]


EVERYWHERE: Final = "*"
"""In `Permit.boards`: every board."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Changes that were allowed to an agent of one owner in one role, under a board's choice of policies.

    On `boards` changes are judged whatever policies the board chose. `access` is `None` if nothing was judged yet.
    """

    boards: frozenset[str] = frozenset()
    owner: str = ""
    role: Role | None = None
    access: tuple[str, ...] | None = None
    changes: frozenset[Change] = frozenset()

    def concerns(self, board: str) -> bool:
        """Tells whether changes on the board are judged whatever policies it chose."""
        return EVERYWHERE in self.boards or board in self.boards

    def covers(
        self, owner: str, role: Role | None, access: tuple[str, ...], changes: frozenset[Change]
    ) -> bool:
        """Tells whether all of the changes were allowed.

        The answer is about this owner's agent in this role, under the policies `access`.
        """
        judged = owner == self.owner and role is self.role and access == self.access
        return judged and changes <= self.changes


@dataclass(frozen=True, slots=True)
class Proposal:
    """All changes of one transaction, as they are put before a judge.

    Attributes:
        agent: the agent that makes them.
        owner: the owner for whom the agent acts.
        role: the role that the board itself gives the agent; `None` for none.
        access: the policies that the board had chosen at the time of the transaction.
    """

    agent: str
    owner: str
    role: Role | None
    access: tuple[str, ...]
    changes: tuple[Change, ...]


Judge = Callable[[Proposal], Awaitable[frozenset[Change]]]
"""Returns all of the proposal's changes if they are allowed; otherwise raises the error for the caller."""
