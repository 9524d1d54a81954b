"""Summaries without a model: what a finished thread said, in its own sentences.

`summarise` chooses sentences; it writes none. Each stands with the id of the item it was taken from, so a
reader can check it, and the last line names every source. `check_summary` holds any summary, also one
that a model or an agent wrote, against the thread it is to stand for.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status, Visibility
from blackboard_mcp.protocols.tokens import Tokenizer

from .text import clip, one_line, word

SHARE = 3
"""A summary has at most one part in so many of its sources' tokens."""
HIGHEST, LOWEST = 4, 3
"""Bounds of a summary's importance: below what never leaves, and not below what was worth writing."""

_WEIGHT = {
    ItemType.DECISION: 3.0,
    ItemType.ANSWER: 2.6,
    ItemType.HOT_ISSUE: 2.0,
    ItemType.SUMMARY: 1.8,
    ItemType.RESULT: 1.6,
    ItemType.FACT: 1.5,
    ItemType.CRITIQUE: 1.4,
    ItemType.PROBLEM: 1.2,
    ItemType.HYPOTHESIS: 1.1,
    ItemType.REPLY: 1.1,
    ItemType.QUESTION: 1.0,
    ItemType.PLAN: 0.7,
    ItemType.LOG: 0.6,
}
_VOID = (Status.WITHDRAWN, Status.INVALIDATED)
_LONGEST = 320
"""Longest sentence, in characters; the rest of it is cut."""
_READ = 20_000
"""Characters of a text that are read: of a longer one, its start and its end."""
_ANNOUNCED = 240
"""Longest announcement with its list, in characters."""
_ALIKE, _WITHIN = 0.6, 0.85
"""Shared part of all words, and of a sentence's own, from which it says the same as another."""
_MOST = 3_000
"""Sentences of a thread that are looked at: an equal part of each item's, the first and the last."""
_LEAST = 12
"""Tokens below which nothing is worth saying."""
_DULL, _AGAIN = 2.2, 0.75
"""Score that a sentence needs to be more than filling, and what each earlier one of its item leaves of it."""

_CUES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), weight)
    for pattern, weight in (
        (r"\b(?:therefore|thus|hence|in conclusion|we conclude|concluded?|conclusion|turns out)\b", 1.2),
        (r"\b(?:final(?:ly)?|the answer|answer is|result is|output is|is now|in total|overall)\b", 1.0),
        (r"\b(?:decided?|decision|we will|chosen?|agreed?|consensus|settled|approved|adopt(?:ed)?)\b", 1.0),
        (r"\b(?:because|since|due to|caused? by|root cause|reason)\b", 0.7),
        (r"\b(?:confirm(?:s|ed)?|verified|validated|reproduced|correct|proved)\b", 0.6),
        (
            r"\b(?:wrong|incorrect|mistake|error|fail(?:s|ed|ure)?|bug|contradict\w*|missing|inconsisten\w+)\b",
            0.6,
        ),
        (r"\b(?:must|never|always|instead|rather than|rejected|not|no longer|only|but|however)\b", 0.4),
        (r"\b(?:unknown|unresolved|unclear|open question|remains?|to do|todo|still)\b", 0.6),
    )
)
_CHATTER = re.compile(
    r"\b(?:let'?s|let me|please|thank|great|sure|i will|i'll|i can|we need to|we can|you can|here (?:is|are)|"
    r"we should|will then|can then|to verify|once we|if there are no|i have|"
    r"below is|as follows|feel free|if you|would you|given:|your manager|step-by-step|let us|next step|"
    r"proceed|rerun|re-run|execute the|run the|the following|following steps?|terminate|exitcode|viewport|"
    r"traceback|file \"|title:|address:|suggestions? from|general task|output format|task description)",
    re.IGNORECASE,
)
_SCRAP = re.compile(r"https?://|\.\.\.|[|·›»]|=====|\bCode output: (?=.{80})")
_TAKEN_BACK = re.compile(r"\bTERMINATE\b|\bexitcode: 0 \(execution succeeded\)", re.IGNORECASE)
_CODE = re.compile(
    r"```.*?```|^[ \t]*```[^\n]*\n.*\Z|^[ \t]*~~~[^\n]*\n.*?(?:^[ \t]*~~~[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_CODE_LINE = re.compile(
    r"^(?:(?:from|import|def|class|return|for|while|if|elif|else|try|except|with|print|assert)\b.*[:()=\[]|"
    r"[\w.\[\]'\"]+ *[+\-*/]?= *\S|[\w.]+\(.*\)[;:]?$|[{}\[\]();,]+$|#!|//|\$ |>>> |\s*at \w+[.(])"
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+.*$|^\s*(?:[=\-*_]\s*){3,}$")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,3}[.)]|[a-z][.)])\s+")
_MARKS = re.compile(r"\*\*|__|`|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])")
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\((?:[^()\s]|\([^()\s]*\)){1,500}\)")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9À-ÖØ-ÞА-ЯΑ-Ω])|(?<=[。！？])")
_SHORTENED = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|Dr|Mr|Ms|Mrs|St|No|Fig|al|etc|approx|[A-Z])\.|^\d{1,3}\.)$")
_WORD = re.compile(r"[^\W_]{2,}(?:['’][^\W\d_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z")
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nor|cannot|without|neither|un\w+|in(?:correct|valid|sufficient)|\w+n['’]t)\b"
)
_CITED = re.compile(r"\[((?:[A-Z]-\d+(?:@\d+)?)(?:\s*[,;]\s*[A-Z]-\d+(?:@\d+)?)*)\]")
_ID = re.compile(r"[A-Z]-\d+")
_ID_ANYWHERE = re.compile(r"\b[A-Z]-\d+(?:@\d+)?\b")
_SOURCES = re.compile(r"^[ \t]*Sources:[ \t]*(.*)$", re.MULTILINE)
_STOP = frozenset(
    re.findall(
        r"\w+",
        "the a an and or of to in on at is are was were be been it its this that these those for with as by from "
        "we you i he she they them our your their will would can could should has have had do does did if then "
        "than so there here which what who when where how all any each more most some such into about also",
    )
)


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """A summary not yet on the board: its text and the importance it deserves."""

    text: str
    importance: int


def summarise(thread: Sequence[Item], *, tokenizer: Tokenizer, limit_tokens: int) -> SummaryDraft | None:
    """The thread's decisions, answers, outcomes, open questions and most telling sentences, in its order.

    At most a third of the sources' tokens and at most `limit_tokens`; what it returns passes
    `check_summary`. `None` when the thread does not fit into that, or is too short to be worth it.

    Raises:
        ValueError: a source is private, a constraint, or under an open debate.
    """
    reason = unfit(thread)
    if reason is not None:
        raise ValueError(reason)
    members = sorted(thread, key=lambda item: item.number)
    limit = min(limit_tokens, source_tokens(members, tokenizer) // SHARE)
    footer = "Sources: " + ", ".join(item.id for item in members)
    room = limit - tokenizer.count("\n" + footer)
    if len(members) < 2 or room < _LEAST:
        return None
    choice = _Choice(members, tokenizer, room)
    while choice.chosen:
        text = f"{choice.render()}\n{footer}"
        if tokenizer.count(text) <= limit:
            if check_summary(text, members, tokenizer) is not None:
                return None
            worth = max((item.importance for item in members if item.status not in _VOID), default=LOWEST)
            return SummaryDraft(text, min(HIGHEST, max(LOWEST, worth)))
        choice.drop()
    return None


def check_summary(text: str, thread: Sequence[Item], tokenizer: Tokenizer) -> str | None:
    """Why `text` may not stand for `thread`, in a few words; `None` when it may."""
    reason = unfit(thread)
    if reason is not None:
        return reason
    most = source_tokens(thread, tokenizer) // SHARE
    tokens = tokenizer.count(text)
    if tokens > most:
        return f"too long: {tokens} tokens, and a third of its sources are {most}"
    listed = _SOURCES.findall(text)
    if not listed:
        return "has no line 'Sources: …'"
    ids = {item.id for item in thread}
    named = set(_ID.findall(" ".join(listed)))
    body = _SOURCES.sub("", text)
    cited = {id_ for group in _CITED.findall(body) for id_ in _ID.findall(group)}
    if not body.strip():
        return "says nothing"
    if ids - named:
        return f"does not list its source {_first(ids - named)}"
    if (named | cited) - ids:
        return f"names {_first((named | cited) - ids)}, which is not a source"
    there = numbers(body)
    for item in thread:
        if item.type is not ItemType.DECISION or item.status in _VOID:
            continue
        if item.id not in cited:
            return f"drops the decision {item.id}"
        dropped = [number for number in numbers(item.text) if number not in there]
        if dropped:
            return f"drops {dropped[0]} of the decision {item.id}"
    return None


def unfit(thread: Sequence[Item]) -> str | None:
    """Why no summary may be made of `thread` at all, or `None`."""
    if not thread:
        return "there is nothing to summarise"
    for item in thread:
        if item.visibility is Visibility.PRIVATE:
            return "a source is private"
        if item.type is ItemType.CONSTRAINT:
            return f"{item.id} is a constraint: constraints are never summarised"
        if item.debate == DebateState.OPEN:
            return f"{item.id} is under an open debate"
    return None


def source_tokens(thread: Sequence[Item], tokenizer: Tokenizer) -> int:
    return sum(item.tokens or tokenizer.count(item.text) for item in thread)


def numbers(text: str) -> list[str]:
    """The numbers in the prose of `text`, each once: without thousands separators, ids and list numbers."""
    prose = _ID_ANYWHERE.sub(" ", _CODE.sub("\n", text))
    prose = "\n".join(_BULLET.sub("", line) for line in prose.split("\n"))
    found = (match[0] for match in _NUMBER.finditer(prose))
    return list(dict.fromkeys(n.replace(",", "") if _THOUSANDS.match(n) else n for n in found))


def _first(ids: set[str]) -> str:
    return min(ids, key=lambda id_: (int(id_[2:]), id_))


# Reading


def sentences(item: Item) -> Iterator[str]:
    """The sentences of an item's prose, one line each, without code, headings and markdown signs."""
    text = item.text
    if len(text) > _READ:
        text = f"{text[: _READ // 2]}\n\n{text[-_READ // 2 :]}"
    if item.type is ItemType.SUMMARY:
        text = _CITED.sub("", _SOURCES.sub("", text))
    text = _CODE.sub("\n\n", text)
    text = _MARKS.sub("", _LINK.sub(r"\1", text))
    for unit in _units(text.split("\n")):
        start = 0
        for match in _END.finditer(unit):
            if not _SHORTENED.search(unit[start : match.start()][-8:]):
                yield from _clean(unit[start : match.start()])
                start = match.end()
        yield from _clean(unit[start:])


def _units(lines: Sequence[str]) -> Iterator[str]:
    """Paragraphs and list entries; a short list goes with the line that announces it."""
    unit, listed = "", 0
    for raw in lines:
        line = raw.strip()
        if not line and unit.endswith(":"):
            continue
        if not line or _HEADING.match(raw) or _CODE_LINE.match(line[:_LONGEST]):
            yield unit
            unit, listed = "", 0
            continue
        bullet = _BULLET.match(line)
        if bullet is not None:
            entry = line[bullet.end() :]
            if (listed or unit.endswith(":")) and len(unit) + len(entry) < _ANNOUNCED:
                unit = f"{unit} {entry}" if not listed else f"{unit.rstrip('.;,')}; {entry}"
                listed += 1
                continue
            yield unit
            unit, listed = entry, 0
        elif unit and not listed and (line[0].islower() or unit[-1] not in ".:!?"):
            unit = f"{unit} {line}"
        else:
            yield unit
            unit, listed = line, 0
    yield unit


def _clean(sentence: str) -> Iterator[str]:
    plain = one_line(_TAKEN_BACK.sub("", sentence[: 4 * _LONGEST]))
    plain = _CITED.sub(r"\1", plain).strip(" -–—|>")
    if plain and not plain.endswith(":") and any(map(str.isalnum, plain)):
        yield clip(plain, _LONGEST)


def _some(listed: list[str], most: int) -> list[str]:
    return listed if len(listed) <= most else listed[: most // 2] + listed[-(most // 2) :]


def _terms(sentence: str) -> frozenset[str]:
    return frozenset(w for w in _WORD.findall(sentence.lower()) if w not in _STOP)


# Choosing


@dataclass(slots=True, eq=False)
class _Sentence:
    item: Item
    place: int
    text: str
    terms: frozenset[str]
    numbers: frozenset[str]
    denies: frozenset[str]
    tokens: int = 0
    score: float = 0.0

    def repeats(self, other: _Sentence) -> bool:
        """Whether it says nothing that `other` does not: same words, and no other number or denial."""
        if not self.terms or not self.numbers <= other.numbers or self.denies != other.denies:
            return False
        shared = len(self.terms & other.terms)
        return shared >= _ALIKE * len(self.terms | other.terms) or shared >= _WITHIN * len(self.terms)


class _Choice:
    """The sentences chosen for a summary of `members` that has `room` tokens."""

    def __init__(self, members: Sequence[Item], tokenizer: Tokenizer, room: int) -> None:
        self.members = members
        self.tokenizer = tokenizer
        self.room = room
        self.outcomes = dict(_outcomes(members))
        self.open = {item.number for item in members if _unanswered(item)}
        share = max(8, _MOST // len(members))
        self.all = [
            _Sentence(item, place, text, _terms(text), frozenset(numbers(text)), _denials(text))
            for item in members
            if item.status not in _VOID
            for place, text in enumerate(_some(list(sentences(item)), share))
        ]
        self.chosen: list[_Sentence] = []
        """In the order chosen: the last one is the most dispensable."""
        self.told: list[int] = []
        """Members whose outcome is told."""
        self._score()
        self._oblige()
        self._fill()

    def _score(self) -> None:
        spread = Counter(term for item in self.members for term in _terms(item.text[:_READ]))
        whole = math.log(1 + len(self.members))
        central = [
            sum(math.log(1 + spread[t]) for t in s.terms) / whole / math.sqrt(len(s.terms) or 1)
            for s in self.all
        ]
        most = max(central, default=0.0) or 1.0
        last = {s.item.number: s.place for s in self.all}
        order = {item.number: place for place, item in enumerate(self.members)}
        for sentence, weight in zip(self.all, central, strict=True):
            item, text = sentence.item, sentence.text
            score = _WEIGHT.get(item.type, 1.0) + 1.2 * weight / most
            score += min(2.0, sum(worth for cue, worth in _CUES if cue.search(text)))
            score += 0.4 * bool(sentence.numbers)
            score += 0.4 * (sentence.place == 0) + 0.3 * (sentence.place == last[item.number])
            score += 0.8 * order[item.number] / max(1, len(self.members) - 1)
            if text.endswith("?"):
                score += 1.5 if item.type in (ItemType.PROBLEM, ItemType.QUESTION) else -1.0
            if _CHATTER.search(text):
                score -= 1.6
            if _SCRAP.search(text):
                score -= 1.2
            score -= max(0, len(text) - 160) / 160
            if len(sentence.terms) < 3:
                score -= 1.0
            if text.endswith("…"):
                score -= 0.8
            sentence.score = score

    def _oblige(self) -> None:
        """What a summary may not leave out: decisions, the last answer, open questions, outcomes."""
        live = [item for item in self.members if item.status not in _VOID]
        for item in live:
            if item.type is ItemType.DECISION:
                self._decision(item)
        if live and live[0].type in (ItemType.PROBLEM, ItemType.QUESTION):
            self._take_best([s for s in self.all if s.item is live[0]])
        answers = [item for item in live if item.type is ItemType.ANSWER]
        for item in answers[-1:]:
            self._take_best([s for s in self.all if s.item is item])
        for item in live:
            if item.number in self.open:
                self._take_best([s for s in self.all if s.item is item])
        for number, (text, ids) in self.outcomes.items():
            cost = self._cost(f"{text} [{', '.join(ids)}]") + 1
            if cost <= self.room:
                self.room -= cost
                self.told.append(number)

    def _decision(self, item: Item) -> None:
        """The decision's best sentence, then those with its other numbers; room for what is left of them."""
        own = [s for s in self.all if s.item is item]
        self._take_best(own)
        missing = self._missing(item)
        for sentence in sorted(own, key=lambda s: (-s.score, s.place)):
            if missing and sentence not in self.chosen and sentence.numbers & set(missing):
                self._take(sentence)
                missing = self._missing(item)
        if missing:
            self.room -= self._cost(_figures(item, missing))

    def _fill(self) -> None:
        """The most telling of the rest while there is room; a second sentence of an item counts for less."""
        taken = Counter(s.item.number for s in self.chosen)

        def worth(place: int) -> float:
            sentence = self.all[place]
            return sentence.score * _AGAIN ** taken[sentence.item.number]

        chosen = {id(s) for s in self.chosen}
        heap = [(-worth(place), place) for place, s in enumerate(self.all) if id(s) not in chosen]
        heapq.heapify(heap)
        while heap and self.room >= _LEAST:
            seen, place = heapq.heappop(heap)
            now = worth(place)
            if now < _DULL:
                continue
            if now < -seen:
                heapq.heappush(heap, (-now, place))
            elif self._take(self.all[place]):
                taken[self.all[place].item.number] += 1

    def _take_best(self, among: Sequence[_Sentence]) -> None:
        for sentence in sorted(among, key=lambda s: (-s.score, s.place)):
            if self._take(sentence):
                return

    def _take(self, sentence: _Sentence) -> bool:
        if any(sentence.repeats(other) for other in self.chosen):
            return False
        sentence.tokens = sentence.tokens or self._cost(
            f"{word(sentence.item.author)}: {sentence.text} [{sentence.item.id}]\n"
        )
        if sentence.tokens > self.room:
            return False
        self.room -= sentence.tokens
        self.chosen.append(sentence)
        return True

    def _missing(self, item: Item) -> list[str]:
        told = {number for s in self.chosen for number in s.numbers}
        return [number for number in numbers(item.text) if number not in told]

    def drop(self) -> None:
        """One sentence or outcome less."""
        if self.told and len(self.chosen) <= 1:
            self.told.pop()
        else:
            self.chosen.pop()

    def render(self) -> str:
        """A line for each member that has its say, in the order of posting, with the author where it changes."""
        lines: list[str] = []
        speaker = ""
        for item in self.members:
            said = sorted((s for s in self.chosen if s.item is item), key=lambda s: s.place)
            parts = [f"{s.text} [{item.id}]" for s in said]
            if item.type is ItemType.DECISION and item.status not in _VOID and said:
                missing = self._missing(item)
                parts += [_figures(item, missing)] if missing else []
            if parts:
                name = "" if item.author == speaker else f"{word(item.author)}: "
                speaker = item.author
                lines.append(f"{name}{'Open: ' if item.number in self.open else ''}{' '.join(parts)}")
            if item.number in self.told:
                text, ids = self.outcomes[item.number]
                lines.append(f"{text} [{', '.join(ids)}]")
                speaker = ""
        return "\n".join(lines)

    def _cost(self, text: str) -> int:
        return self.tokenizer.count(text)


def _figures(item: Item, missing: Sequence[str]) -> str:
    return f"Also: {', '.join(missing)} [{item.id}]"


def _denials(sentence: str) -> frozenset[str]:
    return frozenset(_DENIAL.findall(sentence.lower()))


def _unanswered(item: Item) -> bool:
    """A question that nothing replies to and nobody settled."""
    replied = any(edge.kind is EdgeKind.REPLIES_TO for edge in item.incoming)
    return item.type is ItemType.QUESTION and item.status is Status.ACTIVE and not replied


def _outcomes(members: Sequence[Item]) -> Iterator[tuple[int, tuple[str, tuple[str, ...]]]]:
    """How debates on members ended and which members were taken back, with the ids that say so."""
    by_number = {item.number: item for item in members}
    for item in members:
        critics = [
            by_number[edge.source]
            for edge in item.incoming
            if edge.kind is EdgeKind.CRITIQUES and edge.source in by_number
        ]
        said: list[str] = []
        if item.status in _VOID:
            said.append(f"{item.status.lower()}")
        if item.debate is not None:
            by = (
                f" after critique by {' and '.join(sorted({word(c.author) for c in critics}))}"
                if critics
                else ""
            )
            said.append(f"debate ended in {item.debate}{by}")
        if said:
            ids = (item.id, *(c.id for c in critics))
            yield item.number, (f"{item.id} by {word(item.author)}: {', '.join(said)}.", ids)
