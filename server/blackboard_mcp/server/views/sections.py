"""The sections of a view, and the lines of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from blackboard_mcp.protocols.asking import KEYS
from blackboard_mcp.protocols.debates import Debate, DebateState, Outcome
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status, Visibility, Zone
from blackboard_mcp.protocols.sub_boards import TASK_KEY
from blackboard_mcp.protocols.tokens import Tokenizer

from ..text.lines import clip, fate, favour, in_quotes, relative_age, solved, successor, word
from .budget import Line, Section
from .cuts import SENTENCE
from .duties import Duties, debate_lines
from .lines import circumstances, identity, listed, more, name
from .standing import ALIKE, Standing

_ENDED = {
    DebateState.CONSENSUS: "agreed",
    DebateState.WITHDRAWN: "its critics withdrew",
    DebateState.EXPIRED: "nobody decided in time",
}
_ENDS_TASK = (
    'whose task ends with a run here, turn(start={"problem": "…"}), or when a steward settles the board: then its last '
    "ANSWER is the result"
)
_VOTE = re.compile(r"\w+ by vote: (\d+) in favour, (\d+) against")
_REASON = 80
_FORMER = 140
"""Characters of what a decision, answer or plan replaced that stand in its line."""
_SAME = 40
"""Characters at the beginning of two texts by which one counts as the other reworded."""
_NAMED = 3
_REPLACING = frozenset({EdgeKind.SUPERSEDES})
_WORK = (ItemType.DECISION, ItemType.ANSWER, ItemType.PLAN)
_VERSIONS = " (@2: its second version)"
_Typed = defaultdict[ItemType, list[Item]]
# Before Python 3.12 a member takes seven times as long to get from its class, and each item is asked.
_BOARD, _WORKING, _ARCHIVE = Visibility.BOARD, Zone.WORKING, Zone.ARCHIVE


class Sections:
    """Lines of every section: `listed` in the order shown, `weighed` by weight.

    `done` are pairs of an item that no longer stands and a clause on why.
    """

    def __init__(self, standing: Standing, tokenizer: Tokenizer, *, responds: bool) -> None:
        self._standing = standing
        self._told = {item.number for item in standing.law}
        self._folded = self._successions()
        owed = Duties(standing, tokenizer, responds=responds)
        duties = self._take(owed.lines())
        watched = self._take(owed.watches())
        shown, order = debate_lines(standing, self._told)
        self._take(shown)
        public: _Typed = defaultdict(list)
        gone: _Typed = defaultdict(list)
        notes: list[Item] = []
        for item in standing.items.values():
            if item.number in standing.clauses:
                continue
            if item.visibility is not _BOARD:
                if item.zone is _WORKING:
                    notes.append(item)
            elif item.zone is _WORKING:
                public[item.type].append(item)
            elif item.zone is _ARCHIVE:
                gone[item.type].append(item)
        open_ = [
            standing.ranked(self._of(items, ItemType.QUESTION, ItemType.PROBLEM)) for items in (public, gone)
        ]
        asked = self._take(self._line(item, self._open(item)) for items in open_ for item in items)
        work = self._of(public, *_WORK)
        settled = self._take(self._settled({item.number for item in work}))
        work_gone = self._of(gone, *_WORK)
        guesses_gone = self._of(gone, ItemType.HYPOTHESIS)
        self.listed = [
            Section("waits for you:", duties, 0.45, 0.60, urgent=True),
            Section(_asking(asked, standing.agent), asked, 0.20, 0.30, urgent=True),
            Section("open debates:", shown, 0.20, 0.30, order, urgent=True),
            Section("watched:", watched, 0.05, 0.10),
            Section(_ended(standing.snapshot.debates), settled, 0.04, 0.08),
            self._section("decisions, answers, plans", work, 0.22, 0.36, work_gone),
            self._section("summaries", self._of(public, ItemType.SUMMARY), 0.05, 0.15),
            self._section("hypotheses", self._of(public, ItemType.HYPOTHESIS), 0.06, 0.20, guesses_gone),
            self._section("facts, results", self._of(public, ItemType.FACT, ItemType.RESULT), 0.10, 0.50),
            self._section(
                "replies, critiques", self._of(public, ItemType.REPLY, ItemType.CRITIQUE), 0.03, 0.15
            ),
            self._section("logs", self._of(public, ItemType.LOG), 0.02, 0.10),
        ]
        duties_, asking, debates, watched_, settled_, works, *rest = self.listed
        self.weighed = [duties_, asking, debates, watched_, works, settled_, *rest]
        notes = [item for item in notes if item.number not in self._told]
        seen_by = {item.visibility for item in notes}
        heading = "your private notes" if seen_by <= {Visibility.PRIVATE} else "your private and team notes"
        if Visibility.READERS in seen_by:
            heading = "seen by few (private: you alone; team; readers of a rule)"
        self.notes = self._section(heading, notes, 0.06, 0.15)
        self.done = self._done()

    def _take(self, lines: Iterable[Line]) -> list[Line]:
        """Returns the lines, and marks their items and folded items as told, so that they get no line
        elsewhere.
        """
        taken = list(lines)
        for line in taken:
            self._told.add(line.item.number)
            self._told.update([item.number for item in line.folded])
        return taken

    def _of(self, items: _Typed, *types: ItemType) -> list[Item]:
        return [item for type_ in types for item in items.get(type_, ()) if item.number not in self._told]

    def _section(
        self, heading: str, items: Iterable[Item], floor: float, ceiling: float, gone: Iterable[Item] = ()
    ) -> Section:
        """Returns a section of lines for these items. Items of `gone`, which left working memory, come last."""
        lines = self._take(self._lines(items)) + self._take(self._lines(gone))
        versions = _VERSIONS if any(line.item.version > 1 for line in lines) else ""
        return Section(f"{heading}{versions}:", lines, floor, ceiling)

    def have_newer(self, shown: Collection[int]) -> bool:
        """Tells whether for each item of working memory that is not among the numbers `shown` a newer report alike is
        there.
        """
        newest: dict[int, int] = {}
        for number in shown:
            if (item := self._standing.items.get(number)) is not None:
                pattern = self._standing.pattern(item)
                newest[pattern] = max(number, newest.get(pattern, 0))
        return all(
            item.type in ALIKE and newest.get(self._standing.pattern(item), 0) > item.number
            for item in self._standing.items.values()
            if item.zone is _WORKING and item.number not in shown
        )

    # Lines

    def _line(
        self,
        item: Item,
        said: str = "",
        alike: tuple[Item, ...] = (),
        newer: Item | None = None,
        many: int = 1,
    ) -> Line:
        """Returns a line. `alike` are reports that it stands for, of `many` in all; `newer` is the newest of them."""
        formers = tuple(i for i in self._folded.get(item.number, ()) if i.number not in self._told)
        words = partial(_words, self._standing, item, said, formers, alike, newer, many)
        return Line(item, words, folded=(*formers[:_NAMED], *alike[:_NAMED]))

    def _lines(self, items: Iterable[Item]) -> Iterable[Line]:
        """Yields a line for each item by rank. Reports of one author that differ only in figures share the
        newest one's line; a line also names the newest such report of anybody, or says of how many it is that.
        """
        from .groups import grouped  # no start needs it

        for first, rest, newer, many in grouped(self._standing, items):
            yield self._line(first, alike=rest, newer=newer, many=many)

    def _open(self, item: Item) -> str:
        """Returns whom a question asks, the newest answer to a question or problem, and the decision on it."""
        standing = self._standing
        names = [word(agent) for agent in standing.asked(item)]
        answer = standing.snapshot.answered.get(item.number)
        told = f" asks {listed(names)}" if names and item.type is ItemType.QUESTION else ""
        told += f", newest answer {answer}" if answer is not None else ""
        if item.author == SYSTEM and (item.key or "").startswith(TASK_KEY) and "wait" not in item.metadata:
            told += f", {_ENDS_TASK}"
        decision = standing.decision(item)
        if decision is not None:
            told += f", decided in {decision.id}"
            if standing.agent in (item.author, decision.author):
                told += f" ({solved([item.id])})"
        return told

    def _settled(self, elsewhere: set[int]) -> Iterable[Line]:
        """Yields lines on how debates ended, the latest first. Items in `elsewhere` get none: their own line
        tells it.
        """
        standing = self._standing
        for number, debate in standing.ended.items():
            item = standing.items[number]
            if number in self._told or number in elsewhere:
                continue
            over = bool(standing.done(item))
            verdict = _verdict(standing, item, debate)
            between = ", " if verdict.startswith("decided") else " "
            lead = f"{item.id} by {name(item.author, standing.agent)}{between}{verdict}"
            yield Line(item, partial(str, lead), most=SENTENCE if over else 0)

    def _successions(self) -> dict[int, tuple[Item, ...]]:
        """Returns a map from item number to the items that it replaced, step by step, newest first.

        Only items that still stand have an entry.
        """
        standing = self._standing
        found: dict[int, list[Item]] = {}
        for number, by in sorted(standing.snapshot.replaced.items(), reverse=True):
            last, steps = by, 0
            while (next_ := standing.snapshot.replaced.get(int(last.partition("-")[2]))) and steps < 50:
                last, steps = next_, steps + 1
            successor = standing.items.get(int(last.partition("-")[2]))
            item = standing.items.get(number)
            if item is not None and successor is not None and not standing.done(successor):
                found.setdefault(successor.number, []).append(item)
        return {number: tuple(items) for number, items in found.items()}

    def _done(self) -> list[tuple[Item, str]]:
        """Returns items that no longer stand and are named nowhere else, each with a clause on why, newest
        change first.
        """
        standing = self._standing
        rest = [
            (item, standing.clauses[item.number])
            for item in standing.items.values()
            if item.number in standing.clauses and item.number not in self._told and item.zone is Zone.WORKING
        ]
        return [(item, f"{item.id} {clause}") for item, clause in sorted(rest, key=lambda pair: -pair[0].seq)]


def _ended(debates: Sequence[Debate]) -> str:
    return "settled:" if debates else "settled (no debate is open):"


def _asking(lines: list[Line], reader: str) -> str:
    asked = (line.item for line in lines if line.item.type is ItemType.QUESTION)
    # Only those whom a request asks can end it, and their duties have the call.
    questions = [i.id for i in asked if i.author != reader and (i.key is None or KEYS.parse(i.key) is None)]
    how = (
        f' (answer: post(type="ANSWER", edges={{"replies_to": ["{questions[0]}"]}}, text="…"))'
        if questions
        else ""
    )
    return f"open questions and problems{how}:"


def _words(
    standing: Standing,
    item: Item,
    said: str,
    formers: tuple[Item, ...],
    alike: tuple[Item, ...],
    newer: Item | None,
    many: int,
) -> str:
    """Returns the words before an item's text.

    The views of a server would leave much to its garbage collector if a line held the object that holds all lines.
    """
    lead = identity(item, standing.now, standing.agent) + said
    beside = circumstances(item, without=_REPLACING)
    lead += f",{beside}" if said and beside else beside
    if item.type is ItemType.CRITIQUE and (answer := standing.answer(item)):
        lead += f", {answer}"
    agreed: list[str] = []
    claimed: list[str] = []
    for edge, (kind, id_) in zip(item.edges, item.cites, strict=False):
        if kind is EdgeKind.SUPERSEDES:
            (agreed if edge.target in standing.snapshot.replaced else claimed).append(id_)
    if replaced := list(dict.fromkeys([*agreed, *[former.id for former in formers]])):
        lead += f", replaces {listed(replaced, ' ', _NAMED)}"
        # Part of it may hold on, unless the new text is the old one with changes.
        if item.type in _WORK and len(replaced) == 1 and formers and not _reworded(item, formers[0]):
            lead += f" ({in_quotes(clip(formers[0].text, _FORMER))})"
    if claimed:
        lead += f", claims to replace {listed(claimed, ' ', _NAMED)}"
    against = [c.by for c in item.contested if c.kind is EdgeKind.SUPERSEDES and not c.agreed]
    if against:
        lead += f", {listed(against, ' ', _NAMED)} claims to replace it"
    older = " ".join([i.id for i in alike[:_NAMED]]) + more(alike, _NAMED) if alike else ""
    if newer is not None:
        lead += f", older than {newer.id}{f' (before it {older})' if older else ''}"
    elif many > 1:
        lead += f", newest of {many} alike{f' (older: {older})' if older else ''}"
    debate = standing.ended.get(item.number)
    return lead if debate is None else f"{lead}, {_verdict(standing, item, debate)}"


def _verdict(standing: Standing, item: Item, debate: Debate) -> str:
    """Returns how the claim ended, by whom and why: `falls, decided by ann and ben 3m ("units
    mixed")`.
    """
    outcome = str(debate.outcome)
    instead = standing.items.get(debate.gave_way_to)
    author = "" if instead is None else instead.author
    conceded = debate.conceded and outcome == Outcome.FALLS
    if debate.gave_way_to and not conceded:
        outcome = fate(outcome, item.gave_way_to, author, successor(item))
    elif item.status in (Status.INVALIDATED, Status.WITHDRAWN):
        outcome = "falls"
    elif item.status is Status.RESOLVED:
        outcome = "resolved"
    elif outcome == Outcome.OPEN:
        outcome = "open again"
    age = relative_age(debate.closed_at or debate.opened_at, standing.now)
    by = name(debate.closed_by or "", standing.agent)
    if debate.conceded:
        how = f"conceded by {by}{favour(item.gave_way_to, author, successor(item)) if conceded else ''}"
        outcome = "gives way" if conceded and item.gave_way_to else outcome
    elif debate.state in _ENDED:
        return f"{outcome}, {_voted(debate) or _ENDED[debate.state]} {age}"
    else:
        other = f" and {name(debate.confirmed_by, standing.agent)}" if debate.confirmed_by else ""
        how = f"decided by {by}{other}"
    plain = f"{Status.WITHDRAWN} by its author"
    why = f" ({in_quotes(clip(debate.grounds, _REASON))})" if debate.grounds not in ("", plain) else ""
    there = standing.items
    answers = [there[number].id for _, number in debate.answers if number in there]
    see = f", see {listed(answers, ' ', _NAMED)}" if answers and outcome != str(Outcome.STANDS) else ""
    return f"{outcome}, {how} {age}{why}{see}"


def _voted(debate: Debate) -> str:
    """Returns how a vote ended the debate, such as `voted down 2:1`; empty if none did."""
    # The reasons of other ends are agents' own words.
    found = _VOTE.match(debate.reason) if debate.state is DebateState.CONSENSUS else None
    if found is None:
        return ""
    ayes, noes = map(int, found.groups())
    return f"voted for {ayes}:{noes}" if ayes > noes else f"voted down {noes}:{ayes}"


def _reworded(item: Item, former: Item) -> bool:
    """Tells whether a text begins as the one that it replaces does."""
    return item.text[:_SAME].split() == former.text[:_SAME].split()
