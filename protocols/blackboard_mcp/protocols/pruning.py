"""A pruning pass: its input, its answer, and what each of its steps takes."""

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
    """An item of working memory as a pass sees it. `analysed`: an `analyzed_by` edge touches it."""

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
    """A debate on it was opened and closed."""
    reads: int = 0
    """How often it was read by id, key or query; counted some seconds late."""
    last_read: datetime | None = None
    owner: str = ""
    """Whom its author acts for; the author where nobody else is known."""
    fresh: bool = False
    """It was posted, changed, read or cited lately, as the board's configuration has it."""
    open_work: bool = False
    """An open problem, an active plan, a standing decision, an unanswered question, or what an active item
    depends on: of its owner's it leaves last."""
    bears: tuple[int, ...] = ()
    """Live items that it leaves after, `MOST_BORNE` at most: those of importance `BEARING` and more that rest on it,
    and claims that fell which it refutes."""

    @property
    def fell(self) -> bool:
        """It was found not to hold."""
        return self.status is Status.INVALIDATED


@dataclass(frozen=True, slots=True)
class Workspace:
    """Working memory at the moment of the decision, oldest change first, and what may not go: what the guard holds,
    what open debates cite, as far as there is room, and what came back from the archive a while ago."""

    config: BoardConfig
    candidates: tuple[Candidate, ...]
    protected: Mapping[int, Protection]
    tokens: int
    crowded: frozenset[int] = frozenset()
    """What open debates cite that may go all the same, because what they cite fills its room."""
    threads: frozenset[int] | None = None
    """The threads whose members are all among the candidates; `None` when that is so of every thread."""


@dataclass(frozen=True, slots=True)
class Move:
    """An item to archive, the step of the pass that takes it (1 to 4) and why, in a few words."""

    number: int
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass moves, in order; and finished threads worth a summary, as (thread, members)."""

    moves: tuple[Move, ...] = ()
    threads: tuple[tuple[int, tuple[int, ...]], ...] = ()
    policy: str = DEFAULT_POLICY
    """Which policy ordered the fourth step."""
    warning: str = ""
    """Why it is not the one the board wants, if it is not."""


Decide = Callable[[Workspace], Plan]
"""A pass's decision. Runs inside the write transaction: pure, quick, no I/O."""

EXEMPT = 5
"""Importance from which an item leaves only when it is finished or expired, whatever the ceilings say."""


BEARING = 3
"""Importance from which an item keeps what it rests on until it leaves itself."""
MOST_BORNE = 64
"""Most items that are told to rest on one."""


CROWDED = "cited in an open debate, no room for it there"
"""What is told of what leaves though an open debate cites it."""


def exempt(status: Status | str, importance: int) -> bool:
    """Whether importance alone keeps an item from leaving. What it keeps so counts as held."""
    return status == Status.ACTIVE and importance >= EXEMPT


class Reach(StrEnum):
    """How much of working memory a decision is shown. What is left out, it would not have named.

    Where an owner has more than its share, a decision is shown all of it, whatever it wants.
    """

    ENOUGH = "enough"
    """As much as brings the board to its low-water mark when every step takes its candidates in the default
    order, and no item that is protected but in threads: the same plan as from all of it."""
    BAND = "band"
    """As much of the finished, the logs and the threads, and all that step 4 may take in whatever order."""
    ALL = "all"


Reaching = Callable[[BoardConfig], Reach]
"""How much of working memory a decision wants to be shown, by the configuration of the board."""


def takes(step: PassStep, item: Candidate, config: BoardConfig) -> bool:
    """Whether a step takes an item that nothing holds, as long as the pass still needs room.

    A thread goes as a whole, so `finished` decides for `PassStep.THREADS`.
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
    """The highest importance that the last step takes from a board above its high-water mark."""
    return min(config.hard_ceiling, EXEMPT - 1)


def reason(step: PassStep, status: Status, importance: int) -> str:
    """Why a step takes an item, in a few words."""
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
    """What a summary of a thread would cover, if the thread is over; nothing else.

    Over: no member is protected, and a debate on one was closed, or one is resolved, or the newest is a
    DECISION or an ANSWER. `thread` is all of its live members in order of posting; private ones and
    CONSTRAINTs are not covered, and decide nothing, so that what is proposed does not tell of them. What
    is ACTIVE and of importance `EXEMPT` may end a thread and is not covered; nor is open work but decisions.
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
    """Whether work is open that no summary closes. A decision is: the summary has it."""
    return member.open_work and member.type is not ItemType.DECISION


def beyond_shares(config: BoardConfig, used: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """How many tokens of working memory one owner may have, and who has more, most first.

    `used` are the tokens by owner. Nobody has too much where there is no other owner, the server aside.
    """
    allowed = int(config.low_tokens * config.owner_share)
    others = {owner: tokens for owner, tokens in used.items() if owner != SYSTEM and tokens > 0}
    if len(others) < 2 or config.owner_share >= 1:
        return allowed, ()
    beyond = sorted((owner for owner in others if others[owner] > allowed), key=lambda o: (-others[o], o))
    return allowed, tuple(beyond)


def freed_by_summary(sources: Iterable[Candidate]) -> int:
    """Tokens that a summary of them frees at least: it is accepted only below a third of its sources."""
    return sum(c.tokens for c in sources) * 2 // 3


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """What a pass did. `moved` are ids with step and reason; tokens count working memory before and after.

    `private_freed` is the part of the tokens that only the authors of what was moved may know of.
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
