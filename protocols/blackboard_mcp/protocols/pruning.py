"""A pruning pass: its input, its plan, and the rules by which its steps take items."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from .board import DEFAULT_POLICY, BoardConfig, PassStep
from .events import SYSTEM
from .guard import Protection
from .items import FINISHED, ItemType, Status
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item of working memory as a pass sees it. `analysed` means that an `analyzed_by` edge touches it."""

    number: int
    type: ItemType
    status: Status
    importance: int
    tokens: int
    author: str
    thread: int
    private: bool
    updated_at: datetime
    seq: int
    expired: bool
    superseded: bool
    analysed: bool
    debated_before: bool
    """True when a debate on it was opened and closed."""
    reads: int = 0
    """The number of times it was read by id, key or query; the count may be some seconds old."""
    last_read: datetime | None = None
    owner: str = ""
    """The owner for whom its author acts; the author itself if no other owner is known."""
    fresh: bool = False
    """True when it was posted, changed, read or cited within the board's `fresh_seconds`."""
    open_work: bool = False
    """True for work that is not finished; it leaves after everything else of its owner.

    That is an open problem, an active plan, a standing decision, an unanswered question, an item on which an active
    item depends, or the result of a completed task that an open task comes directly after.
    """
    bears: tuple[int, ...] = ()
    """Numbers of live items after which it leaves, at most `MOST_BORNE`.

    They are items of importance `BEARING` or more that rest on it, and fallen claims that it refutes.
    """
    key: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def fell(self) -> bool:
        """True when it was found to be wrong."""
        return self.status is Status.INVALIDATED


@dataclass(frozen=True, slots=True)
class Workspace:
    """Working memory at the moment of the decision, oldest change first, and what may not leave.

    `protected` are the items that the guard holds, items that open debates cite, as far as there is room for them, and
    items recently restored from the archive.
    """

    config: BoardConfig
    candidates: tuple[Candidate, ...]
    protected: Mapping[int, Protection]
    tokens: int
    crowded: frozenset[int] = frozenset()
    """Items that open debates cite and that may leave all the same, because other cited items fill the room."""
    threads: frozenset[int] | None = None
    """Threads all of whose members are among the candidates; `None` if that is true of every thread."""


@dataclass(frozen=True, slots=True)
class Move:
    """An item to archive, the step of the pass that takes it (1 to 4), and the reason in a few words."""

    number: int
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves of a pass, in order, and finished threads worth a summary, as pairs of thread and members."""

    moves: tuple[Move, ...] = ()
    threads: tuple[tuple[int, tuple[int, ...]], ...] = ()
    policy: str = DEFAULT_POLICY
    """The policy that ordered the fourth step."""
    warning: str = ""
    """The reason why that is not the board's policy; empty if it is."""


Decide = Callable[[Workspace], Plan]
"""Makes the plan of a pass from a snapshot, in a thread of the store: pure, quick, no I/O."""

EXEMPT = 5
"""The importance from which an item leaves only when it is finished or expired, whatever the ceilings are."""


BEARING = 3
"""The importance from which an item keeps those it rests on until it leaves itself."""
MOST_BORNE = 64
"""Most items in `Candidate.bears`."""


CROWDED = "cited in an open debate, no room for it there"
"""The reason given for an item that leaves although an open debate cites it."""


def exempt(status: Status | str, importance: int) -> bool:
    """Tells whether an item's importance alone keeps it from leaving; such an item counts as protected."""
    return status == Status.ACTIVE and importance >= EXEMPT


class Reach(StrEnum):
    """The part of working memory that a decision gets. The rest contains nothing that it would name.

    If an owner has more than its share, a decision gets all of working memory in any case.
    """

    ENOUGH = "enough"
    """Enough to bring the board to its low-water mark if every step takes its candidates in the default order.

    Protected items are included only as members of threads. The plan is the same as from all of working memory.
    """
    BAND = "band"
    """The same part of finished items, logs and threads, and everything that step 4 may take in any order."""
    ALL = "all"


Reaching = Callable[[BoardConfig], Reach]
"""Chooses the part of working memory that a decision gets, by the configuration of the board."""


def takes(step: PassStep, item: Candidate, config: BoardConfig) -> bool:
    """Tells whether a step takes an unprotected item while the pass still needs room.

    A thread leaves as a whole, so `finished` decides for `PassStep.THREADS`.
    """
    match step:
        case PassStep.RESOLVED:
            return item.status in FINISHED or item.superseded
        case PassStep.LOGS:
            return item.type is ItemType.LOG and item.analysed
        case PassStep.THREADS:
            return False
        case PassStep.IMPORTANCE:
            return item.importance <= hardest(config)


def hardest(config: BoardConfig) -> int:
    """Returns the highest importance that the last step may take from a board above its high-water mark."""
    return min(config.hard_ceiling, EXEMPT - 1)


def is_too_large(config: BoardConfig, tokens: int, importance: int) -> bool:
    """Tells whether an item alone is more than a pass leaves, so that it leaves whenever room is made."""
    may_leave = PassStep.IMPORTANCE in config.steps and importance <= hardest(config)
    return may_leave and tokens > config.low_tokens


def leaves_first(item: Candidate, config: BoardConfig) -> bool:
    """Tells whether a pass takes an unprotected item before others, as no order could make it stay: it is too large.

    What expired, or leaves in the first two steps, leaves there.
    """
    if not is_too_large(config, item.tokens, item.importance) or item.expired:
        return False
    return not any(
        takes(step, item, config) for step in (PassStep.RESOLVED, PassStep.LOGS) if step in config.steps
    )


def may_return(config: BoardConfig, working_tokens: int, tokens: int, importance: int) -> bool:
    """Tells whether an archived item may be restored: not if the next pass would take it again, as it is too large."""
    full = working_tokens + tokens > config.high_tokens
    return not (full and is_too_large(config, tokens, importance))


def reason(step: PassStep, status: Status, importance: int) -> str:
    """Returns the reason why a step takes an item, in a few words."""
    match step:
        case PassStep.RESOLVED:
            return status.lower() if status in FINISHED else "superseded"
        case PassStep.LOGS:
            return "log analysed"
        case PassStep.THREADS:
            return "a summary takes the place of its finished thread"
        case PassStep.IMPORTANCE:
            return f"importance {importance}"


def finished(thread: Sequence[Candidate], protected: Container[int]) -> tuple[Candidate, ...]:
    """Returns the members of a thread that a summary would cover, if the thread is over; otherwise nothing.

    `thread` has all its live members in order of posting. It is over if no member is protected and one of these holds:
    a debate on a member was closed, a member is RESOLVED, or the newest is a DECISION or an ANSWER.

    Private members and CONSTRAINTs are neither covered nor considered, so that a proposal reveals nothing of them. Not
    covered either are ACTIVE members of importance `EXEMPT` and open work other than decisions.
    """
    if any(c.number in protected for c in thread):
        return ()
    known = tuple(c for c in thread if not c.private and c.type is not ItemType.CONSTRAINT)
    if not known:
        return ()
    ended = known[-1].type in (ItemType.DECISION, ItemType.ANSWER)
    if not ended and not any(c.debated_before or c.status is Status.RESOLVED for c in known):
        return ()
    return tuple(c for c in known if not exempt(c.status, c.importance) and not _undone(c))


def _undone(member: Candidate) -> bool:
    """Tells whether the member is open work that a summary does not end; it does end decisions, which it keeps."""
    return member.open_work and member.type is not ItemType.DECISION


def beyond_shares(config: BoardConfig, used: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """Returns the most tokens of working memory that one owner may have, and the owners with more, the largest first.

    `used` maps owners to their tokens. If there is only one owner besides the server, it never has too many.
    """
    allowed = int(config.low_tokens * config.owner_share)
    others = {owner: tokens for owner, tokens in used.items() if owner != SYSTEM and tokens > 0}
    if len(others) < 2 or config.owner_share >= 1:
        return allowed, ()
    beyond = sorted((owner for owner in others if others[owner] > allowed), key=lambda o: (-others[o], o))
    return allowed, tuple(beyond)


def freed_by_summary(sources: Iterable[Candidate]) -> int:
    """Returns the tokens that a summary frees at least: it is accepted only below a third of its sources' tokens."""
    return sum(c.tokens for c in sources) * 2 // 3


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """The result of a pass. `moved` has triples of id, step and reason; tokens count working memory before and after.

    `private_freed` is the part of the freed tokens that only the authors of the moved items may know.
    """

    moved: tuple[tuple[str, int, str], ...]
    tokens_before: int
    tokens_after: int
    protected_items: int
    protected_tokens: int
    threads: tuple[tuple[int, tuple[int, ...]], ...]
    seq: int
    policy: str = DEFAULT_POLICY
    warning: str = ""
    private_freed: int = 0
    overtaken: int = 0
    """The number of items that were chosen and stay, because something happened to them before they left."""
    held: tuple[tuple[str, str], ...] = ()
    """Pairs of id and reason: what was chosen by hand and stays, because something protects it."""
    under_pressure: bool = False
    """Whether the board is under pressure after the pass."""
    elsewhere: bool = False
    """Whether another holder has the lease; then nothing was decided."""
    asked: bool = False
    """Whether open requests ask agents for summaries of the board; false without the argument `unless`."""
