"""The steps of a pruning pass, the level at which it ends, and the items that never leave.

`decide` is a pure function from working memory to a plan. It knows no stores and clocks, and never takes a
protected item. A policy decides the order in which the fourth step takes items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from blackboard_mcp.protocols.board import DEFAULT_POLICY, STEPS, PassStep
from blackboard_mcp.protocols.pruning import (
    EXEMPT,
    Candidate,
    Move,
    Plan,
    Workspace,
    beyond_shares,
    finished,
    freed_by_summary,
    leaves_first,
    reason,
    takes,
)

from .deferral import deferred, in_turn
from .ordering import SHARE
from .policies import TOKEN_IMPORTANCE, Ranking

TOO_LARGE = "too large to stay when room is made"
"""The reason given for an item that alone has more tokens than stay when room is made."""
_WHY = 60
"""Most characters of a reason."""


@dataclass(slots=True)
class _Pass:
    tokens: int
    moves: list[Move] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)

    def left(self, space: Workspace) -> Iterable[Candidate]:
        return (c for c in space.candidates if c.number not in self.gone)

    def take(self, candidate: Candidate, step: PassStep, why: str) -> None:
        self.moves.append(Move(candidate.number, step.number, why))
        self.gone.add(candidate.number)
        self.tokens -= candidate.tokens


def decide(
    space: Workspace,
    *,
    steps: frozenset[PassStep] = frozenset(STEPS),
    level: int | None = None,
    ranking: Ranking = TOKEN_IMPORTANCE,
) -> Plan:
    """Returns the items to move, in order, until working memory is at `level` tokens (by default the
    low-water mark).

    1. All expired items, whatever the level; then claims that fell; then resolved, withdrawn or superseded items,
       oldest change first.
    2. Analysed logs, oldest change first.
    3. Finished threads worth a summary are named in `Plan.threads`, not moved: the summary is written outside the
       transaction. Step 4 ignores them, so a caller that wants summaries runs steps 1 to 3 first, and step 4 after the
       summaries.
    4. Items that are too large to stay; steps 1 to 3 go as far as it takes without them. Where there are several
       owners: items beyond one owner's share, of any importance up to the hard ceiling. Then the rest up to the board's
       ceiling. Then, only if that leaves more than the high-water mark, the rest up to the hard ceiling. Each in the
       order of `ranking`, but open work after its owner's other items, and after that items that important ones rest
       on; up to the board's ceiling only where those leave as well. Importance 5 stays.

    Of `steps`, only those in the board's configuration run; expired items leave in any case.
    """
    level = space.config.low_tokens if level is None else level
    config = space.config
    expiring = PassStep.RESOLVED in steps
    steps &= {step for step in STEPS if step in config.steps}
    free = [c for c in space.candidates if c.number not in space.protected]
    free.sort(key=lambda c: (c.seq, c.number))
    # All other items are judged as if these had left already, whether or not this part of the pass takes them.
    large = [c for c in free if leaves_first(c, config)]
    state = _Pass(space.tokens - sum(c.tokens for c in large), gone={c.number for c in large})
    if expiring:
        for candidate in free:
            if candidate.expired:
                state.take(candidate, PassStep.RESOLVED, "expired")
    if PassStep.RESOLVED in steps:
        done = [c for c in free if not c.expired and takes(PassStep.RESOLVED, c, config)]
        _take(state, sorted(done, key=lambda c: not c.fell), level, PassStep.RESOLVED)
    if PassStep.LOGS in steps:
        logs = (c for c in free if c.number not in state.gone and takes(PassStep.LOGS, c, config))
        _take(state, logs, level, PassStep.LOGS)
    threads: tuple[tuple[int, tuple[int, ...]], ...] = ()
    if PassStep.THREADS in steps and state.tokens > level:
        threads = finished_threads(space, state.gone, state.tokens - level)
    if PassStep.IMPORTANCE in steps:
        state.moves += [Move(c.number, PassStep.IMPORTANCE.number, TOO_LARGE) for c in large]
        ceiling = min(config.ceiling, EXEMPT - 1)
        allowed = [c for c in free if c.number not in state.gone and takes(PassStep.IMPORTANCE, c, config)]
        if state.tokens > level:
            _take_beyond_shares(state, space, allowed, level, ranking)
        if state.tokens > level:
            soft = [c for c in free if c.number not in state.gone and c.importance <= ceiling]
            _take_by(ranking, state, space, in_turn(soft, state.gone), level)
        if state.tokens > config.high_tokens:
            more = [c for c in allowed if c.number not in state.gone]
            _take_by(ranking, state, space, more, level)
    return Plan(tuple(state.moves), threads, ranking.policy, ranking.warning)


def _take_by(
    ranking: Ranking, state: _Pass, space: Workspace, candidates: Sequence[Candidate], level: int
) -> None:
    """Takes candidates in the order of the policy, with those that must wait moved back."""
    ordered = ranking.order(candidates, _used(state.left(space)))
    _take(state, deferred(ordered, state.gone), level, PassStep.IMPORTANCE, ranking.policy)


def _take_beyond_shares(
    state: _Pass, space: Workspace, free: Sequence[Candidate], level: int, ranking: Ranking
) -> None:
    """Takes items from owners beyond their share, from the largest user first, each down to its share.

    Does nothing where working memory is not shown whole, because then no owner uses that much.
    """
    if space.threads is not None:
        return
    used = _used(state.left(space))
    allowed, beyond = beyond_shares(space.config, used)
    public = _used(c for c in state.left(space) if not c.private)
    mine = {owner: [c for c in free if c.owner == owner and c.number not in state.gone] for owner in beyond}
    queues = {
        owner: iter(deferred(ranking.order(listed, used), state.gone)) for owner, listed in mine.items()
    }
    while queues and state.tokens > level:
        owner = min(queues, key=lambda name: (-used[name], name))
        candidate = next(queues[owner], None)
        if candidate is None or used[owner] <= allowed:
            del queues[owner]
            continue
        # The reason names shares only where the owner's public items exceed them, to keep private ones secret.
        said = SHARE if public.get(owner, 0) > allowed else ranking.policy
        state.take(candidate, PassStep.IMPORTANCE, why(candidate, PassStep.IMPORTANCE, said))
        used[owner] -= candidate.tokens


def evictable(space: Workspace) -> tuple[list[Candidate], dict[str, int]]:
    """Returns the candidates for the fourth step after the first two and what is too large, and the tokens left then by
    owner.
    """
    early = {m.number for m in decide(space, steps=frozenset({PassStep.RESOLVED, PassStep.LOGS})).moves}
    held, config = space.protected, space.config
    early |= {c.number for c in space.candidates if c.number not in held and leaves_first(c, config)}
    left = [c for c in space.candidates if c.number not in early]
    free = [c for c in left if c.number not in held]
    return [c for c in free if takes(PassStep.IMPORTANCE, c, space.config)], _used(left)


def _used(candidates: Iterable[Candidate]) -> dict[str, int]:
    """Returns the tokens of the candidates by owner."""
    used: dict[str, int] = {}
    for c in candidates:
        used[c.owner] = used.get(c.owner, 0) + c.tokens
    return used


def _take(
    state: _Pass, candidates: Iterable[Candidate], level: int, step: PassStep, policy: str = DEFAULT_POLICY
) -> None:
    for candidate in candidates:
        if state.tokens <= level:
            return
        state.take(candidate, step, why(candidate, step, policy))


def why(candidate: Candidate, step: PassStep, policy: str = DEFAULT_POLICY) -> str:
    """Returns in a few words why a step takes an item; for the fourth step with the policy."""
    said = reason(step, candidate.status, candidate.importance)
    if step is not PassStep.IMPORTANCE:
        return said
    by = "oldest first" if policy == DEFAULT_POLICY else policy
    return f"{'open work, ' if candidate.open_work else ''}{said}, {by}"[:_WHY]


def finished_threads(space: Workspace, gone: set[int], need: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Returns threads worth a summary: pairs of the thread's number and the numbers of the items it would
    replace.

    Such a thread is finished and has more than `summarise_over` items left, which are listed in order of
    posting. Only as many threads are returned as it takes to free `need` tokens.
    """
    by_thread: dict[int, list[Candidate]] = {}
    shown = (c for c in space.candidates if space.threads is None or c.thread in space.threads)
    for candidate in sorted(shown, key=lambda c: c.number):
        by_thread.setdefault(candidate.thread, []).append(candidate)
    proposed: list[tuple[int, tuple[int, ...]]] = []
    for thread, everyone in sorted(by_thread.items()):
        if need <= 0:
            break
        left = [c for c in finished(everyone, space.protected) if c.number not in gone]
        if len(left) > space.config.summarise_over:
            proposed.append((thread, tuple(c.number for c in left)))
            need -= freed_by_summary(left)
    return tuple(proposed)
