"""The view: a board for one agent, inside a token budget.

The same for the same sequence, agent and budget: ages count from the newest change that the snapshot
holds, which the first line names, and not from the reader's clock. First come the core, the active
constraints and the open hot issues, word for word, or there is no view (`Refused`, with the budget that
would do); then what waits for the agent, open debates, the rest by importance and recency, and the
agent's own private notes and its team's.

Every line starts with a word of ours: an id, a heading, or `QUOTE` before each line of a text that is
shown over several. A text stands at the end of its line, and nothing of ours follows it, so no text can
pass for the board's own words. Figures that would count what the agent may not see are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from blackboard_mcp.protocols.answers import (
    Snapshot,
)
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.debates import Debate, DebateState, Duty
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.items import FINISHED, Item, ItemType, Visibility, Zone
from blackboard_mcp.protocols.tokens import Tokenizer

from .text import ELLIPSIS, description, excerpt, head, quoted, word

DEFAULT_BUDGET = 1_500
ALLOWANCE = {5: 96, 4: 60, 3: 40, 2: 24, 1: 16}
"""Tokens of text an item of each importance gets before others have had their turn; less in a small view."""
STUB_SHARE = 0.5
"""Part of the room that stubs of protected items may claim before anything else is shown."""
NOTES_SHARE = 0.15
"""Part of the room kept for the agent's own private notes and its team's, as far as there are any."""
_LAW = (ItemType.CONSTRAINT, ItemType.HOT_ISSUE)
_LEAST = 10
"""Tokens below which no line is tried any more."""
_NAMED = 8
_CITED = 3


@dataclass(frozen=True, slots=True)
class View:
    """A rendered view. `tokens` counts `text` and is within the budget.

    `shown` are the ids of items whose text stands there whole, `excerpts` of those with its start,
    `stubs` of those with none of it; `hidden` counts the items that are not named at all.
    """

    text: str
    tokens: int
    shown: tuple[str, ...]
    excerpts: tuple[str, ...]
    stubs: tuple[str, ...]
    hidden: int


_ABSENT, _STUB, _START, _WHOLE = range(4)


@dataclass(slots=True)
class _Line:
    """An item's place in the view: what stands there now, how much of its text, what it costs."""

    item: Item
    before: str | None = None
    """What the line says instead of the id alone, where it is about more than its item."""
    textless: bool = False
    """The text stands elsewhere in the view."""
    lines: list[str] = field(default_factory=list)
    level: int = _ABSENT
    cost: int = 0


def render_view(
    snapshot: Snapshot,
    *,
    agent: str,
    budget: int = DEFAULT_BUDGET,
    reserve: int = 0,
    tokenizer: Tokenizer,
    responds: bool = False,
) -> View:
    """The board as `agent` sees it, in at most `budget` tokens less `reserve`, which the caller adds.

    `responds`: the agent has the tool that answers requests; without it an ANSWER posted as a reply does.

    Raises:
        Refused: core, constraints and hot issues alone need more; `facts["needed"]` is enough a budget.
    """
    return _Renderer(snapshot, agent, budget, reserve, tokenizer, responds).render()


class _Renderer:
    def __init__(
        self,
        snapshot: Snapshot,
        agent: str,
        budget: int,
        reserve: int,
        tokenizer: Tokenizer,
        responds: bool,
    ) -> None:
        self.snapshot = snapshot
        self.responds = responds
        self.agent = agent
        self.budget = budget - reserve
        self.reserve = reserve
        self.tokenizer = tokenizer
        self.by_number = {item.number: item for item in snapshot.items}
        stamps = [item.updated_at for item in snapshot.items]
        self.now: datetime = max(stamps, default=snapshot.board.created_at)
        self.room = 0

        self.law_items = sorted(
            (i for i in snapshot.items if is_law(i)), key=lambda i: (_LAW.index(i.type), i.number)
        )
        told = {item.number for item in self.law_items}
        self.law = self._law()
        self.waiting = self._waiting(told)
        told |= {line.item.number for line in self.waiting}
        self.debates = self._debates(told)
        told |= {line.item.number for line in self.debates}
        rest = sorted(
            (i for i in snapshot.items if i.number not in told and i.zone is Zone.WORKING),
            key=lambda i: (-i.importance, -i.seq, -i.number),
        )
        self.rest = [_Line(i) for i in rest if i.visibility is Visibility.BOARD]
        self.notes = [_Line(i) for i in rest if i.visibility is not Visibility.BOARD]
        own = all(line.item.visibility is Visibility.PRIVATE for line in self.notes)
        self.notes_heading = "your private notes:" if own else "your private and team notes:"
        self.optional = (*self.waiting, *self.debates, *self.rest, *self.notes)

    def render(self) -> View:
        least = self._compose()
        if least.tokens > self.budget:
            needed = least.tokens + self.reserve
            budget = self.budget + self.reserve
            raise Refused(
                f"This view needs at least {needed} tokens, because objective, constraints and hot "
                f"issues are never shortened; the budget was {budget}. Nothing was changed. Call "
                f"read(budget={max(needed, DEFAULT_BUDGET)}); resolving hot issues or retiring "
                "constraints makes it less.",
                needed=needed,
                budget=budget,
            )
        self.room = self.budget - least.tokens - self._reserve()
        self._fill()
        while True:
            view = self._compose()
            if view.tokens <= self.budget:
                return view
            self._shed(view.tokens - self.budget)

    # What stands in the view

    def _law(self) -> list[str]:
        """Core, active constraints and open hot issues, word for word."""
        board = self.snapshot.board
        state = "" if board.lifecycle is Lifecycle.OPEN else f" ({board.lifecycle})"
        lines = [f"board {board.id}{state} seq {board.seq}, as of {self.now:%Y-%m-%d %H:%MZ}"]
        if board.core.objective:
            lines += _lines("objective", board.core.objective)
        for place, constraint in enumerate(board.core.constraints, 1):
            lines += _lines(f"constraint {place}", constraint)
        if board.core.flags:
            flags = sorted(board.core.flags.items())
            lines.append("flags: " + " ".join(f"{word(name)}={str(on).lower()}" for name, on in flags))
        for item in self.law_items:
            lines += _lines(head(item, self.now), item.text)
        return lines

    def _waiting(self, told: set[int]) -> list[_Line]:
        """What the agent owes, each with the call that meets it."""
        calls: dict[int, list[str]] = {}
        for number, duty in self.snapshot.owed:
            if number in self.by_number:
                calls.setdefault(number, []).append(self._call(self.by_number[number], duty))
        for request in self.snapshot.summaries:
            first = min(request.seen)
            if first in self.by_number:
                held = "" if request.holder in (None, self.agent) else f", {word(str(request.holder))} has it"
                calls.setdefault(first, []).append(f'summarize(thread="{request.name}"){held}')
        return [
            _Line(
                self.by_number[number],
                before=f"{self.by_number[number].id} → {'; '.join(todo)} ·",
                textless=number in told,
            )
            for number, todo in calls.items()
        ]

    def _debates(self, told: set[int]) -> list[_Line]:
        """Open debates: what is debated, who has not acknowledged or answered, then the critiques."""
        lines: list[_Line] = []
        told = set(told)
        for debate in self.snapshot.debates:
            root = self.by_number.get(debate.root)
            if root is None or debate.state is not DebateState.OPEN:
                continue
            critiques = [self.by_number[n] for n in debate.critiques if n in self.by_number]
            before = f"{root.id} debated, {self._standing(debate, critiques)} ·"
            lines.append(_Line(root, before=before, textless=root.number in told))
            told.add(root.number)
            lines += [_Line(critique) for critique in critiques if critique.number not in told]
            told |= {critique.number for critique in critiques}
        return lines

    def _standing(self, debate: Debate, critiques: Sequence[Item]) -> str:
        parts: list[str] = []
        if critiques:
            parts.append(f"critiques {_named([c.id for c in critiques], ' ')}")
        silent: list[str] = []
        for owed in debate.outstanding:
            name = "you" if owed.agent == self.agent else word(owed.agent)
            item = self.by_number.get(owed.item)
            if owed.duty is Duty.RESPOND and item is not None:
                name += f" to answer {item.id}"
            silent.append(name)
        quorum = self.snapshot.board.config.quorum
        if quorum:
            parts.append(f"closes by {quorum} votes")
        if silent:
            parts.append(f"waits for {_named(silent, ', ')}")
        elif not quorum:
            parts.append(f'nobody outstanding: debate(op="decide", id="{self.by_number[debate.root].id}")')
        return ", ".join(parts)

    def _call(self, item: Item, duty: Duty) -> str:
        """What meets a duty."""
        if duty is Duty.ANSWER:
            if self.responds:
                return f'respond(id="{item.id}")'
            return f'post(type="ANSWER", edges={{"replies_to": ["{item.id}"]}}, text="…")'
        if duty is Duty.RESPOND:
            return f'post(type="REPLY", edges={{"replies_to": ["{item.id}"]}}, text="…")'
        votes = self.snapshot.board.config.quorum and item.debate == DebateState.OPEN
        return f'debate(op="{"vote" if votes else "acknowledge"}", id="{item.id}")'

    # How much of it

    def _fill(self) -> None:
        """Names first, then the start of every text, then whole texts, each by rank while there is room."""
        for line in (*self.waiting, *self.debates):
            self._grow(line, 0)
        share = int(self.room * STUB_SHARE)
        for line in self.rest:
            if share < _LEAST:
                break
            if line.item.number in self.snapshot.protected:
                share -= self._grow(line, 0)
        kept = min(int(self.room * NOTES_SHARE), sum(line.item.tokens + 20 for line in self.notes))
        self.room -= kept
        self._grow_all((*self.waiting, *self.debates, *self.rest))
        self.room += kept
        self._grow_all(self.notes)
        for line in self.optional:
            if self.room < _LEAST:
                return
            if line.level == _START or (line.level == _STUB and not line.textless):
                self._grow(line, line.item.tokens)
        for line in self.optional:
            if self.room < 2 * _LEAST:
                return
            if line.level != _WHOLE and not line.textless:
                self._grow(line, self.room + line.cost - self._count(self._lead(line)) - 4, whole=False)

    def _grow_all(self, lines: Sequence[_Line]) -> None:
        most = max(ALLOWANCE[1], self.room // 10)
        for line in lines:
            if self.room < _LEAST:
                return
            allowance = min(ALLOWANCE[line.item.importance], most)
            if not (self._grow(line, allowance) or self._grow(line, _LEAST)) and line.level == _ABSENT:
                self._grow(line, 0)

    def _grow(self, line: _Line, tokens: int, *, whole: bool = True) -> int:
        """Shows up to `tokens` of the line's text if there is room for it; what that cost, 0 if it did not."""
        lead = self._lead(line)
        if self._count(lead) > self.room + line.cost:
            return 0
        if line.textless or tokens <= 0:
            lines, level = [lead], _STUB
        elif whole and line.item.tokens <= tokens:
            if line.item.tokens > self.room + line.cost:
                return 0
            lines, level = _lines(lead, line.item.text), _WHOLE
        else:
            start = excerpt(line.item.text, tokens, self.tokenizer)
            if not start:
                return 0
            complete = not start.endswith(ELLIPSIS) and "\n" not in line.item.text
            lines, level = [f"{lead}: {start}"], _WHOLE if complete else _START
        cost = sum(self._count(text) + 1 for text in lines)
        if level < line.level or cost - line.cost > self.room or (level == line.level and cost <= line.cost):
            return 0
        grown = cost - line.cost
        self.room -= grown
        line.lines, line.level, line.cost = lines, level, cost
        return max(grown, 1)

    def _shed(self, over: int) -> None:
        """Takes back at least one thing, and about `over` tokens, from the end of the ranking."""
        for line in reversed(self.optional):
            if over <= 0:
                return
            if line.level != _ABSENT:
                over -= max(line.cost, 1)
                line.lines, line.level, line.cost = [], _ABSENT, 0

    def _lead(self, line: _Line) -> str:
        item = line.item
        if line.before is None:
            return head(item, self.now)
        return f"{line.before} {description(item, self.now)}"

    def _count(self, text: str) -> int:
        return self.tokenizer.count(text)

    def _reserve(self) -> int:
        """Room for the headings and for the names in the last line."""
        headings = sum(self._count(name) + 1 for name, lines in self._sections() if lines)
        return headings + (30 if self.optional else 0)

    # The text

    def _sections(self) -> tuple[tuple[str, Sequence[_Line]], ...]:
        return (
            ("waiting for you:", self.waiting),
            ("open debates:", self.debates),
            ("items:", self.rest),
            (self.notes_heading, self.notes),
        )

    def _compose(self) -> View:
        lines = list(self.law)
        levels = {item.number: _WHOLE for item in self.law_items}
        for heading, section in self._sections():
            there = [line for line in section if line.level != _ABSENT]
            if there:
                lines.append(heading)
            for line in there:
                lines += line.lines
        for line in self.optional:
            levels[line.item.number] = max(levels.get(line.item.number, _ABSENT), line.level)
        hidden = self.snapshot.hidden + sum(level == _ABSENT for level in levels.values())
        cut = [self.by_number[n].id for n, level in levels.items() if level in (_STUB, _START)]
        if not levels and not hidden:
            lines.append('Nothing posted yet. Begin: post(type="PROBLEM", text="…"); then wait() for others.')
        end = [f"{hidden} more: query(limit=20)"] if hidden else []
        if cut:
            named = ", ".join(f'"{id_}"' for id_ in cut[:_CITED])
            end.append(f"whole texts: read(ids=[{named}])")
        if end:
            lines.append(" · ".join(end))
        text = "\n".join(lines)

        def ids(wanted: int) -> tuple[str, ...]:
            return tuple(self.by_number[n].id for n, level in levels.items() if level == wanted)

        return View(text, self._count(text), ids(_WHOLE), ids(_START), ids(_STUB), hidden)


def is_law(item: Item) -> bool:
    """An active constraint or an open hot issue: in every view, whole."""
    return item.type in _LAW and item.status not in FINISHED and item.zone is not Zone.ARCHIVE


def _lines(lead: str, text: str) -> list[str]:
    """`text` whole behind `lead`: on its line when it is one line, else below it, each line quoted."""
    lines = quoted(text)
    return [f"{lead}: {lines[0]}"] if len(lines) == 1 else [f"{lead}:", *lines]


def _named(names: Sequence[str], between: str) -> str:
    """The first names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    more = f" +{len(unique) - _NAMED}" if len(unique) > _NAMED else ""
    return between.join(unique[:_NAMED]) + more
