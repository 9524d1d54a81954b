"""Rendering of a view inside its budget.

The view depends only on the sequence, the agent, the budget and the agent's last look. Ages count from the
newest change that the agent may see, which the first line names, and not from the reader's clock.

Every line begins with a word of the server's: an id, a heading, or `QUOTE` before each line of a longer text.
A text stands at the end of its line with nothing behind it, so no text can pass for the board's own words.
Figures that would count items hidden from the agent are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from blackboard_mcp.protocols.answers import Snapshot
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import Item, ItemType, Zone
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..text.lines import QUOTE
from ..text.tokens import count_lines
from . import law, news
from .budget import ABSENT, START, STUB, WHOLE, Room, Section
from .sections import Sections
from .standing import Standing
from .tasks import work_sections

DEFAULT_BUDGET = 1_500
_ROOMY = 260
"""Tokens left after the beginning from which the line on agents and archive comes before all other parts."""
_NEWSWORTHY = 600
"""Tokens left from which news gets its share before decisions and later sections."""
_NEWS_SHARE = 0.12
_TASKS_SHARE = 0.2
_FEWEST_IDS = 2
_DONE_SHARE = 0.04
_DONE = "done with: "
_HELD = "not shown, but held by debates and duties: "
_HELD_SHARE = 0.06
_BEGUN = frozenset({EventType.PLAN_ADDED, EventType.CLAIM_DONE, EventType.RUN_STARTED})
_ID = 6
"""Tokens of one id in a row of ids, rounded up."""
_NOTES_SHARE = 0.15
"""Part of the room kept for the agent's private notes and its team's, as far as there are any."""
_TAIL = 36
"""Tokens of the call that reads whole texts, and of the explanation of `QUOTE`."""
_CITED = 3
"""Cut texts that the last line names at least, where there is room for it at all."""
_ONE_CITED = 8
"""Tokens of an id between quotation marks in a list, rather more than less."""
_CUT_MOST = (ItemType.DECISION, ItemType.ANSWER, ItemType.PLAN)
"""Types of which a cut text is named first, after those that the reader is asked about: their ends hold caveats."""
_QUOTED = ' (text behind ">")'
_MARK = QUOTE.rstrip()
_TYPES = 3


@dataclass(frozen=True, slots=True)
class View:
    """A rendered view. `tokens` counts `text` and is within the budget.

    `shown` are the ids of items whose text is there whole, `excerpts` those with the start of it, `stubs`
    those with none of it. `hidden` counts the items of working memory that are not named at all. `folded` are
    those stubs that are named in the line of a newer item, which replaces them or differs only in figures.
    """

    text: str
    tokens: int
    shown: tuple[str, ...]
    excerpts: tuple[str, ...]
    stubs: tuple[str, ...]
    hidden: int
    folded: tuple[str, ...] = ()
    told: tuple[int, ...] = ()
    """Sequences of the events that the lines of news deliver."""
    at: datetime | None = None
    """The time of the last change, from which the ages in it count."""


def render_view(
    snapshot: Snapshot,
    *,
    agent: str,
    budget: int = DEFAULT_BUDGET,
    reserve: int = 0,
    tokenizer: Tokenizer,
    responds: bool = False,
) -> View:
    """Returns the board as `agent` sees it, in at most `budget` tokens less `reserve`.

    The caller adds up to `reserve` tokens of its own. `responds` says that the agent has the tool that
    answers requests; without it the view names a posted ANSWER instead.

    Raises:
        Refused: core, constraints and hot issues alone need more; `facts["needed"]` is a budget that
            suffices.
    """
    return Renderer(Standing(snapshot, agent), budget, reserve, tokenizer, responds=responds).render()


class Renderer:
    """Renderer of one view."""

    def __init__(
        self, standing: Standing, budget: int, reserve: int, tokenizer: Tokenizer, *, responds: bool
    ) -> None:
        self._standing = standing
        self._budget = budget - reserve
        self._reserve = reserve
        self._tokenizer = tokenizer
        self._law = law.beginning(standing)
        self._whole = law.law_items(standing)
        self._sections = Sections(standing, tokenizer, responds=responds)
        working = Zone.WORKING
        self._working = Counter([item.type for item in standing.items.values() if item.zone is working])
        self._cites = 0
        self._surroundings = ""
        self._news: list[news.Told] = []
        self._work = work_sections(standing)
        self._placed: dict[int, list[str]] = {}
        self._done: list[tuple[Item, str]] = []
        self._held: list[Item] = []

    def render(self) -> View:
        """Returns the view.

        Raises:
            Refused: the parts that are never shortened exceed the budget.
        """
        least = self._compose()
        if least.tokens > self._budget:
            needed = least.tokens + self._reserve
            budget = self._budget + self._reserve
            raise Refused(
                f"This view needs at least {needed} tokens, because {self._unshortened()} never shortened; the budget "
                f"was {budget}. Nothing was changed. Call read(budget={needed}), or with more to see "
                f"more{self._less()}.",
                needed=needed,
                budget=budget,
            )
        self._fill(self._budget - least.tokens)
        while True:
            view = self._compose()
            if view.tokens <= self._budget:
                return self._citing_more(view)
            self._shed(view.tokens - self._budget)

    def _unshortened(self) -> str:
        """Returns what of this view is never shortened, with its verb."""
        core, kinds = self._standing.snapshot.board.core, {item.type for item in self._whole}
        told = ["objective"] if core.objective else []
        told += ["constraints"] if core.constraints or ItemType.CONSTRAINT in kinds else []
        told += ["hot issues"] if ItemType.HOT_ISSUE in kinds else []
        *most, last = told or ["its first line and last line"]
        return f"{', '.join(most)}{' and ' if most else ''}{last} {'is' if told == ['objective'] else 'are'}"

    def _less(self) -> str:
        """Returns a clause on what makes the part less that is never shortened; empty if nothing does."""
        kinds = {item.type for item in self._whole}
        ways = ["resolving hot issues"] if ItemType.HOT_ISSUE in kinds else []
        ways += ["retiring constraints"] if ItemType.CONSTRAINT in kinds else []
        return f"; {' or '.join(ways)} makes it less" if ways else ""

    def _citing_more(self, view: View) -> View:
        """Returns the view with as many cut texts named in its last line as the budget has room for."""
        if not self._cites or len(view.excerpts) <= self._cites:
            return view
        self._cites += (self._budget - view.tokens) // _ONE_CITED
        more = self._compose()
        return more if more.tokens <= self._budget else view

    # How much of it

    def _all(self) -> tuple[Section, ...]:
        return (*self._sections.listed, self._sections.notes)

    def _fill(self, free: int) -> None:
        sections = [section for section in self._all() if section.lines]
        self._cites = _CITED if free >= _ROOMY else 0
        free -= _TAIL if self._cites else 0
        surroundings = law.surroundings(self._standing)
        if free >= _ROOMY or not sections:
            free -= self._place_surroundings(surroundings, free)
        free -= self._place_own_work(free)
        free -= self._place_tasks(int(free * _TASKS_SHARE))
        duties = self._sections.listed[0]
        weighed = (*self._sections.weighed, self._sections.notes)
        room = Room([section for section in weighed if section.lines], free, self._budget, self._tokenizer)
        room.stubs(duties)
        if free >= _ROOMY:
            room.tokens -= self._place_done(min(room.tokens, int(self._budget * _DONE_SHARE)))
        if free >= _NEWSWORTHY:
            room.tokens -= self._place_news(min(room.tokens, int(free * _NEWS_SHARE)))
        held = self._for_held(free)
        kept = self._kept(room.tokens) + held
        room.tokens -= kept
        room.share_out()
        room.tokens += kept - held
        room.share_out()
        room.tokens += held - self._place_held(held)
        room.share_out()
        if not self._surroundings:
            room.tokens -= self._place_surroundings(surroundings, room.tokens)
        if not self._news:
            room.tokens -= self._place_news(room.tokens)
        self._place_tasks(room.tokens)

    def _kept(self, tokens: int) -> int:
        notes = self._sections.notes.lines
        return min(int(tokens * _NOTES_SHARE), sum(line.item.tokens + 20 for line in notes))

    def _for_held(self, free: int) -> int:
        held = len(self._standing.items.keys() & self._standing.snapshot.protected.keys())
        return min(int(free * _HELD_SHARE), self._count(_HELD) + _ID * held) if held else 0

    def _place_held(self, free: int) -> int:
        """Names protected items that have no line, because they may matter in a debate. Returns the tokens
        spent.

        `free` is the most that it may spend.
        """
        protected = self._standing.snapshot.protected
        if not protected:
            return 0
        levels = self._levels()
        spent = self._count(_HELD) + 1
        for item in self._standing.items.values():
            if item.number in protected and not levels.get(item.number, ABSENT):
                spent += self._count(f" {item.id}")
                if spent > free:
                    break
                self._held.append(item)
        return spent if self._held else 0

    def _place_surroundings(self, told: str, free: int) -> int:
        cost = self._count(f"{told}\n")  # as the whole view is counted
        if cost > free:
            return 0
        self._surroundings = told
        return cost

    def _place_news(self, free: int) -> int:
        heading = self._count(news.heading(self._standing)) + 1
        most = news.MOST_IDS
        while True:
            lines = news.news_lines(self._standing, most)
            spent = heading + sum(self._count(line.text) + 1 for line in lines)
            if spent <= free or most <= _FEWEST_IDS:
                break
            most //= 2
        while lines and spent > free:
            spared = next((line for line in lines if line.text.startswith(news.SPARED)), lines[-1])
            lines.remove(spared)
            spent -= self._count(spared.text) + 1
        self._news = lines
        return spent if lines else 0

    def _place_own_work(self, free: int) -> int:
        """Places the reader's own turn and tasks: one line of each where there is any room, the rest in half of it.

        Returns the tokens spent.
        """
        spent = 0
        for place, (own, lines) in enumerate(self._work):
            if own:
                spent += self._place_lines(place, lines[:2], free - spent)
                spent += self._place_lines(place, lines, free // 2 - spent)
        return spent

    def _place_tasks(self, free: int) -> int:
        """Places lines on the run and on tasks as far as there is room, and returns the tokens spent."""
        spent = 0
        for place, (_, lines) in enumerate(self._work):
            spent += self._place_lines(place, lines, free - spent)
        return spent

    def _place_lines(self, place: int, lines: list[str], free: int) -> int:
        """Adds those of a section's lines that follow the ones already placed and fit."""
        placed = self._placed.setdefault(place, [])
        spent = cost = 0
        for number, line in enumerate(lines[len(placed) :], len(placed)):
            cost += self._count(line) + 1
            if spent + cost > free:
                break
            if number:  # a heading is placed with the first line below it
                placed += lines[len(placed) : number + 1]
                spent, cost = spent + cost, 0
        return spent

    def _place_done(self, free: int) -> int:
        spent = self._count(_DONE) + 1
        for item, clause in self._sections.done:
            cost = self._count(f"{clause}; ")
            if spent + cost > free:
                break
            spent += cost
            self._done.append((item, clause))
        return spent if self._done else 0

    def _shed(self, over: int) -> None:
        """Takes back at least one line, and about `over` tokens, from the end of the ranking."""
        for section in reversed(self._all()):
            for line in reversed(section.order):
                if over <= 0:
                    return
                if line.level != ABSENT:
                    over -= max(line.cost, 1)
                    line.lines, line.level, line.cost = [], ABSENT, 0
        if over > 0:
            self._surroundings, self._news, self._done, self._held = "", [], [], []
            self._placed.clear()

    @property
    def _tasks(self) -> list[str]:
        """The placed lines on the run and on tasks, in their order."""
        return [line for place in sorted(self._placed) for line in self._placed[place]]

    def _count(self, text: str) -> int:
        return self._tokenizer.count(text)

    # The text

    def _compose(self) -> View:
        first, *law_lines = self._law
        lines = [first]
        if self._surroundings:
            lines.append(self._surroundings)
        lines += law_lines
        law_ends = len(lines)
        if self._news:
            lines += [news.heading(self._standing), *(line.text for line in self._news)]
        lines += self._tasks
        lined: set[int] = set()
        for section in self._all():
            there = [line for line in section.lines if line.level != ABSENT]
            if there:
                lines.append(section.heading)
            for line in there:
                lines += line.lines
                lined.add(line.item.number)
        if self._done:
            lines.append(_DONE + "; ".join(clause for _, clause in self._done))
        held = [item.id for item in self._held if item.number not in lined]
        if held:
            lines.append(_HELD + " ".join(held))
        if self._cites:
            _explain_quotes(lines, law_ends)
        levels = self._levels()
        absent = self._working.copy()
        for item in map(self._standing.items.__getitem__, levels):
            if item.zone is Zone.WORKING:
                absent[item.type] -= 1
        absent = +absent
        hidden = self._standing.snapshot.hidden + absent.total()
        outdone = not self._standing.snapshot.hidden and self._sections.have_newer(levels)
        lines += self._tail(levels, hidden, absent, outdone=outdone)
        text = "\n".join(lines)

        def ids(wanted: int) -> tuple[str, ...]:
            return tuple(self._standing.items[n].id for n, level in levels.items() if level == wanted)

        lines_there = (
            line for section in self._all() for line in section.lines if line.level in (START, WHOLE)
        )
        folded = tuple(item.id for line in lines_there for item in line.folded)
        told = (*(seq for line in self._news for seq in line.events), *self._begun(), *self._verdicts())
        tokens = count_lines(lines, self._tokenizer)
        return View(text, tokens, ids(WHOLE), ids(START), ids(STUB), hidden, folded, told, self._standing.now)

    def _begun(self) -> Iterator[int]:
        """Yields the sequences of events that say no more than a line of the view on their task or run."""
        named = {line.split(" ", 1)[0] for line in self._tasks}
        for event in self._standing.snapshot.news.events if named else ():
            if event.event in _BEGUN and not named.isdisjoint(
                (event.data.get("task"), event.data.get("run"))
            ):
                yield event.seq

    def _verdicts(self) -> Iterator[int]:
        """Yields the sequences of decisions that wait to be confirmed and that the line of their debate tells."""
        lines = (line for section in self._all() for line in section.lines if line.level != ABSENT)
        debated = {line.item.number for line in lines if line.after}
        for event in self._standing.snapshot.news.events if debated else ():
            if event.event is EventType.DEBATE_PENDING and event.number in debated:
                yield event.seq

    def _levels(self) -> dict[int, int]:
        """Returns how much of each named item is shown: a map from item number to `STUB`, `START` or `WHOLE`."""
        levels = {item.number: WHOLE for item in self._whole}
        named = [item for item, _ in self._done] + self._held
        for section in self._all():
            for line in section.lines:
                if line.level != ABSENT:
                    levels[line.item.number] = max(levels.get(line.item.number, ABSENT), line.level)
                    named += line.folded
        for item in named:
            levels.setdefault(item.number, STUB)
        return levels

    def _tail(
        self, levels: dict[int, int], hidden: int, absent: Counter[ItemType], *, outdone: bool
    ) -> list[str]:
        """Returns a line on how many items are not shown, by type, and the calls that read them; empty where
        all is shown. `outdone` says that each of them has a newer one alike that is shown.
        """
        if not levels and not hidden and not self._standing.items and not self._tasks:
            if archived := self._standing.snapshot.archived.items:
                return [f"nothing on the board now; {archived:,} in the archive: query_archive()"]
            if self._standing.snapshot.work is not None:
                return ["nothing posted yet; tasks are planned"]
            return ['Nothing posted yet. Begin: post(type="PROBLEM", text="…"); then wait() for others.']
        parts = []
        if hidden:
            kinds = sorted(absent, key=lambda type_: (-absent[type_], type_))[:_TYPES]
            told = ", ".join(law.counted(type_, absent[type_]) for type_ in kinds)
            if not kinds:
                parts.append(f"{hidden} more: query(limit=20)")
            elif absent[kinds[0]] == hidden:
                older = ", each older than one alike above" if outdone else ""
                parts.append(f'{told} more{older}: query(type="{kinds[0]}")')
            else:
                rest = "" if sum(absent[kind] for kind in kinds) == hidden else " …"
                parts.append(f'{hidden} more ({told}{rest}): query(type="{kinds[0]}")')
        cut = [self._standing.items[n] for n, level in levels.items() if level == START and self._cites]
        if cut:
            asked = {line.item.number for section in self._all() for line in section.lines if line.asked}
            cut.sort(key=lambda item: (item.number not in asked, item.type not in _CUT_MOST))
            cited = ", ".join(f'"{item.id}"' for item in cut[: self._cites])
            left = len(cut) - self._cites
            parts.append(
                f"whole texts: read(ids=[{cited}])" + (f", {left} more end in …" if left > 0 else "")
            )
        return [" · ".join(parts)] if parts else []


def _explain_quotes(lines: list[str], begin: int) -> None:
    """Explains `QUOTE` on the line before its first use, searching from line `begin` on so that the law stays
    as it is.
    """
    for place in range(begin, len(lines) - 1):
        if lines[place + 1].startswith(_MARK) and not lines[place].startswith(_MARK):
            lines[place] += _QUOTED
            return
