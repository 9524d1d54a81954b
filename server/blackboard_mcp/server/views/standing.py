"""The standing and weight of items, computed once from a snapshot for a whole view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter

from blackboard_mcp.protocols.answers import Snapshot
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.debates import Debate
from blackboard_mcp.protocols.items import ABOUT_PROBLEM, FINISHED, EdgeKind, Item, ItemType, Status, Zone
from blackboard_mcp.protocols.names import mentions

from .lines import listed

ALIKE = frozenset({ItemType.FACT, ItemType.LOG, ItemType.RESULT})
"""Types of reports, which share a line where they differ only in figures."""
LAW = (ItemType.CONSTRAINT, ItemType.HOT_ISSUE)
_RESTS = frozenset({EdgeKind.DEPENDS_ON, EdgeKind.DERIVED_FROM, EdgeKind.SUPPORTS, EdgeKind.REPLIES_TO})
_FIGURES = re.compile(r"\d+(?:[.,:]\d+)*")
_LOOKED_AT = 2_000
_MOST_COUNTED = 2
_ALIKE = 160
"""Characters at the start of reports that are compared to tell whether they are of the same kind."""

_POSTED = attrgetter("created_at", "number")
_ACTIVE, _QUESTION = Status.ACTIVE, ItemType.QUESTION


@lru_cache(maxsize=4_096)
def _without_figures(text: str) -> str:
    return _FIGURES.sub("#", text)


class Standing:
    """A snapshot's items as one reader sees them. `now` is the instant at which the board last changed."""

    def __init__(self, snapshot: Snapshot, agent: str) -> None:
        self.snapshot = snapshot
        self.agent = agent
        self.acts = not snapshot.reads and snapshot.board.lifecycle is Lifecycle.OPEN
        """True if the reader may post now."""
        self.items = {item.number: item for item in sorted(snapshot.items, key=attrgetter("number"))}
        stamps = [item.updated_at for item in snapshot.items]
        self.now: datetime = snapshot.at or max(stamps, default=snapshot.board.created_at)
        self.open_debates = [debate for debate in snapshot.debates if debate.root in self.items]
        running = {debate.root for debate in self.open_debates}
        self.ended: dict[int, Debate] = {}
        for debate in snapshot.ended:
            if debate.root in self.items and debate.root not in running:
                self.ended.setdefault(debate.root, debate)
        argued = [*self.open_debates, *snapshot.ended]
        self._answers = {critique: answer for debate in argued for critique, answer in debate.answers}
        self._unanswered = {critique for debate in self.open_debates for critique in debate.unanswered}
        decision_ = ItemType.DECISION
        decisions = [item for item in self.items.values() if item.type is decision_]
        self._decided = {
            edge.target: decision
            for decision in decisions
            if decision.status is Status.ACTIVE and decision.number not in snapshot.replaced
            if decision.agreement is None or decision.agreement.reached
            for edge in decision.edges
            if edge.kind in ABOUT_PROBLEM
        }
        self._patterns: dict[int, int] = {}
        self._alike: dict[tuple[str, str], int] = {}
        self.clauses: dict[int, str] = {
            item.number: clause
            for item in self.items.values()
            if item.status is not _ACTIVE or item.type is _QUESTION or item.number in snapshot.replaced
            if (clause := self.done(item))
        }
        """What `done` says of those items that no longer stand, by number."""
        self.law = [item for item in self.items.values() if item.type in LAW and self.is_law(item)]
        """Active constraints and open hot issues, by number."""
        self._resting = Counter(
            edge.target
            for item in snapshot.items
            if item.edges and item.status not in FINISHED and item.number not in snapshot.replaced
            for edge in item.edges
            if edge.kind in _RESTS
        )

    def is_law(self, item: Item) -> bool:
        """Tells whether an item is an active constraint or an open hot issue, which every view shows whole."""
        return item.type in LAW and item.status not in FINISHED and item.zone is not Zone.ARCHIVE

    def done(self, item: Item) -> str:
        """Returns a clause on why an item no longer stands, such as `replaced by D-9`; empty where it stands."""
        by = self.snapshot.replaced.get(item.number)
        if by is not None:
            return f"replaced by {by}"
        if item.status is Status.ACTIVE and item.type is not ItemType.QUESTION:
            return ""
        answer = self.snapshot.answered.get(item.number)
        if item.type is ItemType.QUESTION and answer is not None and item.status is not Status.DEBATED:
            if self._owing(item):
                return ""
            ids = [id_ for kind, id_ in item.cited_by if kind is EdgeKind.REPLIES_TO and id_[0] == answer[0]]
            return f"answered by {listed(ids or [answer])}"
        if item.status not in FINISHED:
            return ""
        if item.status is Status.RESOLVED:
            return f"resolved ({answer})" if answer is not None else "resolved"
        return "withdrawn" if item.status is Status.WITHDRAWN else "rejected"

    def decision(self, problem: Item) -> Item | None:
        """Returns the newest decision about a problem that stands and waits for nobody's agreement."""
        return self._decided.get(problem.number)

    def answer(self, critique: Item) -> str:
        """Returns what became of a critique, such as `answered by R-30`; empty where nobody owed it an answer."""
        if critique.status in FINISHED:
            return self.done(critique)
        answer = self.items.get(self._answers.get(critique.number, 0))
        if answer is not None:
            return f"answered by {answer.id}"
        return "not answered yet" if critique.number in self._unanswered else ""

    def asked(self, item: Item) -> list[str]:
        """Returns the agents who owe a question an answer and, before its first answer, those whom its text
        names.
        """
        owing = self._owing(item)
        if owing and item.number in self.snapshot.answered:
            return [*owing]
        return list(dict.fromkeys([*owing, *mentions(item.text[:_LOOKED_AT])]))

    def _owing(self, item: Item) -> Sequence[str]:
        return () if item.status in FINISHED else self.snapshot.asked.get(item.number, ())

    def unread(self, item: Item) -> bool:
        """Tells whether another agent posted or rewrote the item after the reader's last look."""
        look = self.snapshot.look
        return item.seq > look > 0 and item.seq not in look.above and item.author != self.agent

    def marks(self, items: Sequence[Item]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Returns the facts besides the items on which `ranked` depends: the numbers of unread items, and for each item
        on which others rest its number and how many.
        """
        look, resting = int(self.snapshot.look), self._resting
        unread = tuple(item.number for item in items if item.seq > look and self.unread(item))
        rests = tuple((i.number, resting[i.number]) for i in items if i.number in resting) if resting else ()
        return unread, rests

    def ranked(self, items: Iterable[Item]) -> list[Item]:
        """Returns the items by weight, the weightiest first, newer ones first among equals.

        Importance counts most, then items that rest on it and owners who support or oppose it, then that it
        is unread. An item that repeats one before it weighs less.
        """
        listed = sorted(items, key=_POSTED, reverse=True)
        if len(listed) < 2:
            return listed
        seen: dict[int, int] = {}
        weights: dict[int, int] = {}
        for item in listed:
            likeness = self.pattern(item)
            before = seen.get(likeness, 0)
            weights[item.number] = 3 * min(before, _MOST_COUNTED) - self._weight(item)
            seen[likeness] = before + 1
        return sorted(listed, key=lambda item: weights[item.number])

    def pattern(self, item: Item) -> int:
        """Returns a number that items share whose type and start of text, without figures, are the same."""
        found = self._patterns.get(item.number)
        if found is None:
            likeness = item.type, _without_figures(item.text[:_ALIKE])
            found = self._patterns[item.number] = self._alike.setdefault(likeness, len(self._alike))
        return found

    def _weight(self, item: Item) -> int:
        weight = 2 * item.importance + self.unread(item)
        if resting := self._resting.get(item.number):
            weight += min(resting, _MOST_COUNTED)
        if item.supporters or item.opponents:
            weight += max(-4, min(len(item.supporters) - 2 * len(item.opponents), _MOST_COUNTED))
        return weight
