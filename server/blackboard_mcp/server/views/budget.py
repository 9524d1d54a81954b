"""Distribution of a view's tokens: each section gets its floor, then its ceiling, then by rank what is left.

Each line gets its lead and a sentence before any line gets more, and no line more than `ONE_LINE` of the
view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blackboard_mcp.protocols.items import Item, ItemType, Status
from blackboard_mcp.protocols.tokens import Tokenizer

from ..text.lines import ELLIPSIS, flat
from .cuts import SENTENCE, SUMMED_UP, few_lines, is_code, opening, prose, sentences, whole

ABSENT, STUB, START, WHOLE = range(4)
"""Levels of an item in a view: nothing, its name, the start of its text, all of its text."""
ONE_LINE = 0.13
"""Part of the budget that one item may take."""
ONE_ASKED = 0.145
"""Part of the budget for an item that the reader is asked to agree to and that is not debated."""
URGENT = 0.55
"""Part of the room that urgent sections may fill with sentences before other sections get any."""
USUAL = {5: 96, 4: 60, 3: 40, 2: 24, 1: 16}
"""Tokens of text, by importance, that each line gets before any gets more."""
LEAST = 10
"""Fewest free tokens with which another line is tried."""
_SMALLEST_CAP = 90
_SHORTEST = 8
"""Fewest tokens of text in a line that quotes it in the middle."""


@dataclass(slots=True)
class Line:
    """An item's place in the view: the parts that may be shown, and the lines shown now."""

    item: Item
    words: Callable[[], str]
    """Function that returns the words before the text; called only when the line is about to be shown."""
    after: str = ""
    """A line of the server's below the text."""
    textless: bool = False
    """Whether the text stands elsewhere in the view."""
    sentence: Callable[[int], str] | None = None
    """Function that returns the whole line with this many tokens of text quoted in it, where the text is not
    at its end.
    """
    follows: Line | None = None
    """The line that must be shown for this one to make sense."""
    most: int = 0
    """Most tokens of its text; 0 for no bound of its own."""
    asked: bool = False
    """Whether the reader is asked to agree to the item. All of its text comes before other lines get more
    than a sentence.
    """
    folded: tuple[Item, ...] = ()
    """Items that the lead names and that have no line of their own."""
    lines: list[str] = field(default_factory=list)
    level: int = ABSENT
    cost: int = 0
    tokens: int = 0
    shapes: dict[int, tuple[list[str], int, int]] = field(default_factory=dict)
    """What the line would look like with about so many tokens of its text: its lines, its level and their tokens."""
    least: int = 0
    """Tokens of `lead`; 0 before they are counted."""
    _lead: str = ""

    @property
    def spoken(self) -> bool:
        """Whether the line already has its sentence."""
        return self.level == WHOLE or (self.level == START and self.tokens >= SENTENCE)

    @property
    def lead(self) -> str:
        """The words before the text."""
        self._lead = self._lead or self.words()
        return self._lead


@dataclass(slots=True)
class Section:
    """Lines under a heading, in the order in which they are shown.

    `order` has them by rank, where that differs. `floor` and `ceiling` are parts of the room that all
    sections share.
    """

    heading: str
    lines: list[Line]
    floor: float
    ceiling: float
    order: list[Line] = field(default_factory=list)
    urgent: bool = False
    """Whether a few words of a line are better than none."""
    priced: bool = False
    """Whether the tokens of its heading are already counted."""

    def __post_init__(self) -> None:
        self.order = self.order or self.lines

    @property
    def cost(self) -> int:
        """Tokens of the lines that are shown now."""
        return sum(line.cost for line in self.lines)


class Room:
    """Free tokens, shared out among `sections` in the order of their weight."""

    def __init__(self, sections: Sequence[Section], tokens: int, budget: int, tokenizer: Tokenizer) -> None:
        self.sections = sections
        self.tokens = tokens
        self._all = tokens
        self._budget = budget
        self._tokenizer = tokenizer

    def share_out(self) -> None:
        """Spends the free tokens on the lines of all sections. It can be called again with more tokens."""
        urgent = [section for section in self.sections if section.urgent]
        self._sentences(lambda section: section.floor, urgent)
        self._open_work(urgent)
        self._sentences(lambda section: section.floor)
        self._sentences(lambda section: section.ceiling)
        self._asked()
        for section in self.sections:
            spent = section.cost
            for line in section.order:
                if self.tokens < LEAST or spent >= section.ceiling * self._all:
                    break
                if line.level == START:
                    spent += self.show(line, USUAL[line.item.importance])
        self._sentences(lambda _: 1.0)
        for section in self.sections:
            for line in section.order:
                if self.tokens < LEAST:
                    return
                if line.level == START:
                    self.show(line, self._cap(line))

    def _open_work(self, urgent: Sequence[Section]) -> None:
        """Gives each line of the urgent sections one sentence; lines of critiques wait.

        Stops when urgent sections fill the fraction `URGENT` of the view's tokens.
        """
        spent = sum(section.cost for section in urgent)
        for section in urgent:
            for line in section.order:
                if self.tokens < LEAST or spent + SENTENCE + LEAST > URGENT * self._all:
                    return
                if line.follows is None and not line.spoken and not (line.textless and line.level == STUB):
                    spent += self._begin(section, line)

    def _asked(self) -> None:
        for section in self.sections:
            for line in section.order:
                if line.asked and line.level == START and section.cost < section.ceiling * self._all:
                    self.show(line, min(line.item.tokens, self._cap(line), line.tokens + self.tokens))

    def _cap(self, line: Line) -> int:
        share = ONE_ASKED if line.asked and line.item.status is not Status.DEBATED else ONE_LINE
        return max(int(self._budget * share), _SMALLEST_CAP)

    def stubs(self, section: Section) -> None:
        """Shows the leads of a section's lines without their texts, as far as there is room."""
        heading = self._count(section.heading) + 1
        for line in section.order:
            self.tokens -= 0 if section.priced else heading
            if self.show(line, 0):
                section.priced = True
            elif not section.priced:
                self.tokens += heading

    def _sentences(
        self, share: Callable[[Section], float], sections: Sequence[Section] | None = None
    ) -> None:
        """Shows a sentence for each line that has none, up to a share of the room; the first line in any
        case.

        `share` returns the part of the room that a section may take.
        """
        for section in self.sections if sections is None else sections:
            limit = share(section) * self._all
            spent = section.cost
            for line in section.order:
                if self.tokens < LEAST:
                    return
                if line.spoken or (line.textless and line.level == STUB):
                    continue
                if line.follows is not None and line.follows.level == ABSENT:
                    continue
                if spent and spent + SENTENCE + LEAST > limit:
                    break
                spent += self._begin(section, line)

    def _begin(self, section: Section, line: Line) -> int:
        """Shows a sentence of a line, or a few words of an urgent one, and returns the tokens spent on the
        line.

        The heading is paid for with the section's first line.
        """
        heading = 0 if section.priced else self._count(section.heading) + 1
        self.tokens -= heading
        spent = self.show(line, SENTENCE)
        if not spent and section.urgent:
            spent = self.show(line, LEAST)
        if spent or line.level:
            section.priced = True
        else:
            self.tokens += heading
        return spent

    def show(self, line: Line, tokens: int) -> int:
        """Shows about `tokens` tokens of the line's text if there is room, and returns the tokens spent: 0 if
        nothing changed.
        """
        free = self.tokens + line.cost
        # No text has more tokens than bytes.
        if line.sentence is None and 4 * len(line.lead) > free:
            if not line.least:
                line.least = self._count(line.lead)
            if line.least > free:
                return 0
        shape = line.shapes.get(tokens)
        if shape is None:
            lines, level = self._shape(line, tokens)
            if line.after:
                lines = [*lines, line.after]
            cost = sum(map(self._count, lines)) + len(lines)
            shape = line.shapes[tokens] = lines, level, cost
        lines, level, cost = shape
        if level <= STUB < line.level or cost <= line.cost or cost > free:
            return 0
        if tokens > SENTENCE and cost > self._cap(line):
            return self._within_cap(line, tokens, cost)
        grown = cost - line.cost
        self.tokens -= grown
        line.lines, line.level, line.cost, line.tokens = lines, level, cost, max(line.tokens, tokens)
        return grown

    def _within_cap(self, line: Line, tokens: int, cost: int) -> int:
        smaller = min(tokens, line.item.tokens) - (cost - self._cap(line))
        return self.show(line, smaller) if SENTENCE < smaller < tokens else 0

    def _shape(self, line: Line, tokens: int) -> tuple[list[str], int]:
        """Returns the lines that would be shown with about `tokens` tokens of text, and their level."""
        item, lead = line.item, line.lead
        if line.most:
            tokens = min(tokens, line.most)
        if line.sentence is not None:
            tokens = max(tokens, _SHORTEST)
            told = line.sentence(tokens)
            all_there = len(item.text) <= len(told) and flat(item.text).replace('"', "'") in told
            return [told], WHOLE if all_there and "\n" not in item.text.strip() else START
        if line.textless or tokens <= 0:
            return [lead], STUB
        if tokens < SENTENCE:
            told = opening(prose(item), tokens, self._tokenizer)
        elif tokens == SENTENCE:
            most = SUMMED_UP if item.type is ItemType.SUMMARY else SENTENCE
            told = sentences(prose(item), self._tokenizer, most)
        elif is_code(item):
            return self._code(line, tokens)
        elif item.tokens <= tokens:
            lines = whole(item.text)
            return ([f"{lead}: {lines[0]}"] if len(lines) == 1 else [f"{lead}:", *lines]), WHOLE
        else:
            told = opening(item.text, tokens, self._tokenizer)
        if not told:
            return [lead], STUB
        if not told.endswith(ELLIPSIS) and is_code(item):
            told += f" {ELLIPSIS}"
        complete = not told.endswith(ELLIPSIS) and "\n" not in item.text.strip()
        return [f"{lead}: {told}"], WHOLE if complete else START

    def _code(self, line: Line, tokens: int) -> tuple[list[str], int]:
        """Returns the words before a code block, or the first lines of code with the call that reads the
        rest, and the level.
        """
        before = prose(line.item)
        if before is not line.item.text:
            told = opening(before, tokens, self._tokenizer)
            return [f"{line.lead}: {told.removesuffix(ELLIPSIS).rstrip()} {ELLIPSIS}"], START
        shown, count = few_lines(line.item)
        return [
            f'{line.lead}, {len(shown)} of {count} lines (all: read(ids=["{line.item.id}"])):',
            *shown,
        ], START

    def _count(self, text: str) -> int:
        return self._tokenizer.count(text)
