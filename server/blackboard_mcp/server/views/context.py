"""The context of a piece of work: what an agent must know first, in a fixed order within a budget.

Rules in force and open hot issues stand whole, decisions and dead ends a line each; these four are never left out. Then
come the agent's own tasks and debts, then what is relevant, as far as there is room. No item is named twice.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from blackboard_mcp.protocols.agenda import Task, TaskState
from blackboard_mcp.protocols.answers import Owed
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.items import FALLEN, FINISHED, EdgeKind, Item, ItemType, Status, Zone
from blackboard_mcp.protocols.rules import RuleBook
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..text.debates import owed_words
from ..text.lines import clip, flat, one_line, word
from ..text.snippets import stems_of
from .law import labelled
from .lines import identity
from .standing import Standing

DEFAULT_BUDGET: Final = 800
_LINE: Final = 160
_RELEVANT: Final = 320
"""Characters of a relevant item that are shown."""
_REASON: Final = 100
_ENDS: Final = "dead ends, do not try these again as they were:"
_MISSES: Final = 3
"""Relevant items in a row that may be too long before no more are tried."""
FINDINGS: Final = frozenset(
    {ItemType.FACT, ItemType.HYPOTHESIS, ItemType.DECISION, ItemType.PLAN, ItemType.ANSWER, ItemType.RESULT}
)
_LOOKED_AT: Final = 4_000
"""Characters of a live item among which the words of a query are looked for."""


@dataclass(frozen=True, slots=True)
class Found:
    """An item that may be relevant, and why: `live, 3 words` or `archived, meaning`."""

    item: Item
    why: str

    @property
    def id(self) -> str:
        """The id of the item."""
        return self.item.id

    @property
    def line(self) -> str:
        """The item as the context shows it."""
        item = self.item
        done = f", {item.status.lower()}" if item.status in FINISHED else ""
        return f"{item.id} by {word(item.author)} ({self.why}{done}): {clip(item.text, _RELEVANT)}"


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A part of a shared file that may be relevant: `id` is its path with its lines, `line` what the context shows."""

    id: str
    line: str


@dataclass(frozen=True, slots=True)
class Context:
    """A rendered context. `tokens` counts `text`; `entries` are pairs of an id and the part of the context it is in."""

    text: str
    tokens: int
    entries: tuple[tuple[str, str], ...]


def render_context(
    standing: Standing,
    book: RuleBook,
    *,
    faulted: Sequence[Task],
    owed: Sequence[Owed],
    relevant: Iterable[Found | FoundPart],
    budget: int,
    tokenizer: Tokenizer,
    past: Sequence[Item] = (),
    said: Mapping[str, str] = MappingProxyType({}),
) -> Context:
    """Returns the context in at most `budget` tokens.

    `past` are dead ends that left working memory, which get a quarter of the budget at most; `said` are texts by id of
    what is against dead ends.

    Raises:
        Refused: the four parts that are never cut need more; `facts["needed"]` suffices.
    """
    lines: list[str] = []
    entries: list[tuple[str, str]] = []

    def add(part: str, heading: str, told: Iterable[tuple[str, list[str]]]) -> None:
        listed = list(told)
        if listed:
            lines.append(heading)
            for id_, shown in listed:
                lines.extend(shown)
                entries.append((id_, part))

    rules = [(rule.id, labelled(_lead(rule.id, flat(rule.bounds)), rule.text)) for rule in book.rules]
    add("rules", f"{book.label}, all in force:", rules)
    items = [item for item in standing.items.values() if item.zone is Zone.WORKING]
    hot = [item for item in items if item.type is ItemType.HOT_ISSUE and standing.is_law(item)]
    told = [(item.id, labelled(identity(item, standing.now, standing.agent), item.text)) for item in hot]
    add("hot_issues", "open hot issues:", told)
    decided = [item for item in items if item.type is ItemType.DECISION and item.status is Status.ACTIVE]
    settled = [item for item in decided if not standing.done(item) and _is_agreed(item)]
    add("decisions", "decided:", ((item.id, [_line(item)]) for item in settled))
    ends = [(item.id, [_end(standing, item, said)]) for item in dead_ends(standing)]
    ends += [(task.id, [f"{task.id} failed: {clip(f'{task.title}: {task.why}', _LINE)}"]) for task in faulted]
    add("dead_ends", _ENDS, ends)
    least = tokenizer.count("\n".join(lines))
    if least > budget:
        raise Refused(
            f"This context needs at least {least} tokens, because rules, hot issues, decisions and dead ends are never "
            f"cut; the budget was {budget}. Nothing was changed. Call get_context(budget={max(least, DEFAULT_BUDGET)})"
            '; retiring a rule makes it less, constraint(id="…", retire="why"), and so does a check that passes, '
            "report_result(check=…, ok=true).",
            needed=least,
            budget=budget,
        )
    room = budget - least - 1
    named = {id_ for id_, _ in entries}
    sections = (
        ("dead_ends", _ENDS, ((item.id, _end(standing, item, said)) for item in past), budget // 4),
        ("yours", "yours to do:", _own(standing, owed), budget),
        ("relevant", "relevant:", ((one.id, one.line) for one in relevant), budget),
    )
    for part, heading, candidates, most in sections:
        begun = heading in lines
        room -= 0 if begun else tokenizer.count(heading)
        kept, misses = max(0, room - most), 0
        for id_, line in candidates:
            if id_ in named:
                continue
            cost = tokenizer.count(line) + 1
            if cost > room - kept:
                misses += 1
                if misses == _MISSES:
                    break
                continue
            misses, room = 0, room - cost
            lines += [line] if begun else [heading, line]
            begun = True
            named.add(id_)
            entries.append((id_, part))
    text = "\n".join(lines) or "nothing is known yet"
    return Context(text, tokenizer.count(text), tuple(entries))


def dead_ends(standing: Standing) -> list[Item]:
    """Returns the findings in working memory that fell or gave way; what is done is none of them."""
    items = [item for item in standing.items.values() if item.zone is Zone.WORKING and item.type in FINDINGS]
    replaced = standing.snapshot.replaced
    return [i for i in items if i.status in FALLEN or i.number in replaced or i.gave_way_to]


def against(item: Item) -> str:
    """Returns the id of the last item that refutes or criticises this one; empty if none does."""
    told = [id_ for kind, id_ in item.cited_by if kind in (EdgeKind.REFUTES, EdgeKind.CRITIQUES)]
    return told[-1] if told else ""


def _end(standing: Standing, item: Item, said: Mapping[str, str]) -> str:
    """Returns a dead end as the context shows it, with what is against it."""
    why = standing.done(item) or ("withdrawn" if item.status is Status.WITHDRAWN else "rejected")
    if item.gave_way_to and "replaced" not in why:
        why = f"replaced by {item.led_to or item.gave_way_to}"
    elif (id_ := against(item)) and item.status in FALLEN:
        why += f" ({id_}: {clip(said[id_], _REASON)})" if id_ in said else f" (see {id_})"
    return f"{item.id} {why}: {clip(item.text, _LINE)}"


def _lead(id_: str, bounds: str) -> str:
    return f"{id_} ({bounds})" if bounds else id_


def _is_agreed(item: Item) -> bool:
    return item.agreement is None or item.agreement.reached


def _line(item: Item) -> str:
    return f"{item.id} by {word(item.author)}: {clip(item.text, _LINE)}"


def _own(standing: Standing, owed: Sequence[Owed]) -> Iterable[tuple[str, str]]:
    """Returns the agent's tasks, then what it owes, each with its id."""
    work = standing.snapshot.work
    for task in work.held if work is not None else ():
        state = f"waits for {one_line(task.waits_on)}" if task.state is TaskState.WAITING else "is yours"
        yield task.id, f"{task.id} {state}, lease {task.lease}: {clip(task.title, _LINE)}"
    for one in owed:
        yield one.id, owed_words([one])


def relevant_live(standing: Standing, query: str) -> list[Found]:
    """Returns live items by the words of the query that they hold, rare words first; without one by their weight."""
    items = [
        item
        for item in standing.items.values()
        if item.zone is Zone.WORKING and not standing.is_law(item) and not _is_over(item)
    ]
    stems = dict.fromkeys(stems_of(query))
    if not stems:
        return [Found(item, "live") for item in standing.ranked(items)]
    patterns = {stem: re.compile(rf"\b{re.escape(stem)}") for stem in stems}
    held: dict[int, list[str]] = {}
    for item in items:
        text = item.text[:_LOOKED_AT].casefold()
        held[item.number] = [stem for stem, pattern in patterns.items() if pattern.search(text)]
    common = Counter(stem for found in held.values() for stem in found)
    scores = {
        number: sum(math.log1p(len(items) / common[stem]) for stem in found) for number, found in held.items()
    }
    hits = sorted((item for item in items if held[item.number]), key=lambda i: (-scores[i.number], -i.number))
    return [Found(item, f"live, {_words(len(held[item.number]))}") for item in hits]


def _is_over(item: Item) -> bool:
    return item.type is ItemType.HOT_ISSUE and item.status in FINISHED


def _words(count: int) -> str:
    return f"{count} words" if count > 1 else "1 word"
