"""Summaries without a model: the results of a finished thread, in its own sentences.

`extract` chooses sentences and writes none. The thread's claim or question comes first, with its outcome;
then decisions and answers, other claims with their outcomes, other telling sentences, and open questions.
Each line ends with the ids of its sources, so that readers can check it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status
from blackboard_mcp.protocols.summaries import Ending
from blackboard_mcp.protocols.tokens import Tokenizer

from ...text.lines import word
from .checks import (
    VOID,
    all_numbers,
    body_limit,
    faults,
    keeps_denial,
    keeps_words,
    markup,
    rules_named,
    unfit,
)
from .endings import critics, endings_in_words
from .scoring import Sentence, is_talk, score, states_limit
from .sentences import ID, numbers, sentences

_MOST = 3_000
"""Most sentences of a thread that are read: an equal part from each item, its first and its last ones."""
_LEAST = 12
"""Fewest tokens that are worth a sentence."""
_DULL, _AGAIN = 2.2, 0.75
"""Score that a sentence needs to be chosen, and the factor by which each earlier choice from its item lowers
its score.
"""
_LIMITS = 2
"""Stated limits get one part in this many of the tokens left."""
_POINTLESS = 0.5
"""Score below which even a sentence of a required item is left out."""
_ENDS = (*".!?。！？…:;",)
_RESERVED = frozenset({"sources", "archived", "stays", "seq"})
_ASKING = (ItemType.PROBLEM, ItemType.QUESTION)
_SETTLING = (ItemType.DECISION, ItemType.ANSWER)


def extract(
    thread: Sequence[Item], tokenizer: Tokenizer, endings: Mapping[int, Ending] | None = None
) -> str | None:
    """Returns a body for a summary of the thread, or `None` where none is possible or worth it.

    It has the thread's subject with its outcome, decisions, answers, contested claims, the most telling
    sentences, and open questions, in that order. `endings` maps item numbers to how debates on them ended.
    The body passes `faults`. `None` means that the thread is too short, or does not fit into a third of
    itself.

    Raises:
        ValueError: a source is private, a constraint, or under an open debate.
    """
    reason = unfit(thread)
    if reason is not None:
        raise ValueError(reason)
    members = sorted(thread, key=lambda item: item.number)
    room = body_limit(members, tokenizer)
    if len(members) < 2 or room < _LEAST:
        return None
    choice = _Choice(members, tokenizer, room, endings or {})
    while choice.chosen or choice.told:
        body = choice.render()
        if tokenizer.count(body) <= room and not faults(body, members, tokenizer, choice.endings):
            return body
        choice.drop()
    return None


class _Choice:
    """The sentences chosen for a summary of `members` within `room` tokens."""

    def __init__(
        self, members: Sequence[Item], tokenizer: Tokenizer, room: int, endings: Mapping[int, Ending]
    ) -> None:
        self.members = members
        self.tokenizer = tokenizer
        self.room = room
        self.endings = endings
        self.outcomes = endings_in_words(members, endings)
        self.critics = {item.number: critics(item, endings.get(item.number), members) for item in members}
        self.root = next((item for item in members if item.number == item.thread), members[0])
        self.open = {item.number for item in members if _unanswered(item, members)}
        self.rules = rules_named(members)
        self.of = {item.number: list(self._usable(item, _MOST // len(members))) for item in members}
        self.all = [sentence for listed in self.of.values() for sentence in listed]
        self.chosen: list[Sentence] = []
        """Sentences in the order in which they were chosen; the last one is the first to be dropped."""
        self.told: list[int] = []
        """Numbers of the items whose outcome is told."""
        score(self.all, members)
        self._oblige()
        self._fill()

    def _oblige(self) -> None:
        """Chooses the required sentences: the subject, decisions, the answer, open questions and outcomes."""
        live = [item for item in self.members if item.status not in VOID]
        decisions = [item for item in live if item.type is ItemType.DECISION]
        self._contested(self.root)
        for item in decisions:
            self._best_of(item)
            own = sorted(self.of[item.number], key=lambda s: (-s.score, s.place))
            if own and not any(s.item is item for s in self.chosen):
                self._take(own[0], again=True)  # a decision is kept even where it repeats another one
        for item in decisions:
            self.room -= self._cost(_figures(numbers(item.text)))
        for item in decisions:
            self._decision(item)
        if self.rules:
            self.room -= self._cost(_naming(self.rules, self.members)) + 1
        answers = [item for item in live if item.type is ItemType.ANSWER]
        for item in answers[-1:]:
            self._best_of(item, _DULL)
        for item in (i for i in live if i.number in self.open):
            self._best_of(item)
        for number in self.outcomes:
            self._contested(next(item for item in self.members if item.number == number))
        self._limits(live)
        self._other_subjects(live)

    def _limits(self, live: Sequence[Item]) -> None:
        """Chooses sentences that state a limit, of the most important items first."""
        least = self.room - self.room // _LIMITS
        stated = [s for i in live for s in self.of[i.number] if states_limit(s) and not is_talk(s)]
        for sentence in sorted(stated, key=lambda s: (-s.item.importance, -s.score, s.item.number, s.place)):
            if self.room - self._cost(sentence.text) < least:
                continue
            if sentence not in self.chosen:
                self._take(sentence)

    def _other_subjects(self, live: Sequence[Item]) -> None:
        """Chooses the beginning of each thread, the most important first, where the members come from several
        threads.
        """
        beginnings: dict[int, Item] = {}
        for item in live:
            beginnings.setdefault(item.thread, item)
        if len(beginnings) > 1:
            for item in sorted(beginnings.values(), key=lambda item: (-item.importance, item.number)):
                self._best_of(item, _POINTLESS)

    def _contested(self, item: Item) -> None:
        """Chooses a claim's best sentence, its outcome and its critics' arguments; the thread's subject is
        always chosen.
        """
        text = self.outcomes.get(item.number)
        if item is self.root or (text is not None and self.critics[item.number]):
            self._best_of(item)
        if text is None or item.number in self.told:
            return
        cost = self._cost(text) + 8
        if cost > self.room:
            return
        self.room -= cost
        self.told.append(item.number)
        for critic in self.critics[item.number]:
            self._best_of(critic, _POINTLESS)

    def _decision(self, item: Item) -> None:
        """Chooses more of a decision's sentences to keep its words, denials and numbers, as far as there is
        room.
        """
        missing, kept, denied = self._missing(item), self._keeps_words(item), self._keeps_denial(item)
        for sentence in sorted(self.of[item.number], key=lambda s: (-s.score, s.place)):
            wanted = not kept or sentence.numbers & set(missing) or (not denied and sentence.denies)
            if wanted and sentence not in self.chosen and self._take(sentence):
                # These calls read the whole item, so make them only after a new choice.
                missing, kept, denied = self._missing(item), self._keeps_words(item), self._keeps_denial(item)
        # Room was reserved for all of its numbers: give back the part that is not needed.
        self.room += self._cost(_figures(numbers(item.text))) - self._cost(_figures(missing))

    def _fill(self) -> None:
        """Chooses the most telling of the other sentences while there is room; more sentences of one item
        count for less.
        """
        taken = Counter(s.item.number for s in self.chosen)

        def worth(place: int) -> float:
            sentence = self.all[place]
            return sentence.score * _AGAIN ** taken[sentence.item.number]

        chosen = {id(s) for s in self.chosen}
        heap = [
            (-worth(place), place)
            for place, s in enumerate(self.all)
            if id(s) not in chosen and s.item.status not in VOID and not is_talk(s)
        ]
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

    def _best_of(self, item: Item, least: float = float("-inf")) -> None:
        """Chooses the item's best sentence that is new and fits, if its score is at least `least`.

        Of an open question, sentences that ask come before all others.
        """
        if any(s.item is item for s in self.chosen):
            return
        ask = item.number in self.open
        for sentence in sorted(
            self.of[item.number], key=lambda s: (ask and not _asks(s.text), -s.score, s.place)
        ):
            if sentence.score >= least and self._take(sentence):
                return

    def _take(self, sentence: Sentence, *, again: bool = False) -> bool:
        if not again and any(sentence.repeats(other) for other in self.chosen):
            return False
        if sentence.item.type is not ItemType.DECISION and self._repeats_the_question(sentence):
            return False
        cost = self._cost(f"{_speaker(sentence.item)}: {sentence.text} [{sentence.item.id}]\n")
        if cost > self.room:
            return False
        self.room -= cost
        self.chosen.append(sentence)
        return True

    def _repeats_the_question(self, sentence: Sentence) -> bool:
        """Tells whether a sentence only repeats the thread's first item, as instructions often do."""
        first = self.of[self.root.number]
        return sentence.item is not self.root and any(sentence.repeats(other) for other in first)

    def _missing(self, item: Item) -> list[str]:
        told = {number for s in self.chosen if s.item is item for number in s.numbers}
        return [number for number in numbers(item.text) if number not in told]

    def _keeps_words(self, item: Item) -> bool:
        return keeps_words(item, [s.text for s in self.chosen if s.item is item])

    def _keeps_denial(self, item: Item) -> bool:
        return keeps_denial(item, [s.text for s in self.chosen if s.item is item])

    def drop(self) -> None:
        """Drops the sentence or outcome that was chosen last."""
        if self.told and len(self.chosen) <= 1:
            self.told.pop()
        else:
            self.chosen.pop()

    def render(self) -> str:
        """Returns the body: a line for each chosen item, in the order of subject, settled, outcomes, others,
        open.
        """
        lines: list[str] = []
        speaker = ""
        for item in sorted(self.members, key=self._place):
            line, name = self._line(item, speaker)
            if line:
                lines.append(line)
                speaker = name
        if self.rules and lines:
            lines.append(_naming(self.rules, self.members))
        return "\n".join(lines)

    def _place(self, item: Item) -> tuple[int, int]:
        if item is self.root:
            return 0, item.number
        if item.type in _SETTLING and item.status not in VOID:
            return 1, item.number
        if item.number in self.open:
            return 4, item.number
        return (2 if item.number in self.told else 3), item.number

    def _line(self, item: Item, speaker: str) -> tuple[str, str]:
        """Returns an item's line and its speaker's name; both are empty when the item has no line.

        The name is left out of the line where `speaker` of the line before is the same.
        """
        said = sorted((s for s in self.chosen if s.item is item), key=lambda s: s.place)
        parts = [s.text if _end(s.text) in _ENDS else f"{s.text}." for s in said]
        if item.type is ItemType.DECISION and item.status not in VOID and said:
            missing = self._missing(item)
            parts += [_figures(missing)] if missing else []
        outcome = self.outcomes[item.number] if item.number in self.told else ""
        if item.status in VOID and not outcome:
            parts = []
        if not parts and not outcome:
            return "", ""
        cited = [item.id]
        if outcome:
            cited += [critic.id for critic in self.critics[item.number]][:3]
        if not parts:
            return f"{item.id} by {word(item.author)}: {outcome} [{', '.join(cited)}]", ""
        name = "" if item.author == speaker else f"{_speaker(item)}: "
        opened = "Open: " if item.number in self.open else ""
        text = " ".join((*parts, outcome) if outcome else parts)
        return f"{name}{opened}{text} [{', '.join(cited)}]", item.author

    def _usable(self, item: Item, most: int) -> Iterator[Sentence]:
        """Yields the sentences of an item that a summary may quote; of very many, the first and the last.

        Withdrawn items are quoted only together with the outcome of their debate.
        """
        if item.status in VOID and item.number not in self.endings:
            return
        listed = list(sentences(item))
        if len(listed) > max(8, most):
            half = max(8, most) // 2
            listed = listed[:half] + listed[-half:]
        there = all_numbers(item.text)
        for place, text in enumerate(listed):
            if markup(text) is None and there.issuperset(numbers(text)):
                yield Sentence.of(item, place, text)

    def _cost(self, text: str) -> int:
        return self.tokenizer.count(text)


def _end(text: str) -> str:
    """Returns the last character of a sentence before closing quotation marks and brackets."""
    return text.rstrip("\"')]”’»")[-1:]


def _asks(text: str) -> bool:
    return _end(text) in ("?", "？")


def _speaker(item: Item) -> str:
    if item.type is ItemType.SUMMARY:
        return "earlier summary"
    name = word(item.author)
    return f"agent {name}" if name.lower() in _RESERVED else name


def _figures(missing: Sequence[str]) -> str:
    return f"Also: {', '.join(missing)}." if missing else ""


def _naming(rules: Sequence[str], members: Sequence[Item]) -> str:
    """Returns the line that keeps the ids of constraints, with the items that name them."""
    naming = [
        item.id
        for item in members
        if set(rules) & {*ID.findall(item.text), *(id_ for _, id_ in item.cites)} and item.status not in VOID
    ]
    return f"Under {', '.join(rules)} [{', '.join(naming[:4])}]"


def _unanswered(item: Item, members: Sequence[Item]) -> bool:
    """Tells whether an item is a question that no other agent answered and nobody settled."""
    if item.type is not ItemType.QUESTION or item.status is not Status.ACTIVE:
        return False
    by_number = {member.number: member for member in members}
    replies = [e.source for e in item.incoming if e.kind is EdgeKind.REPLIES_TO]
    return all(number in by_number and by_number[number].author == item.author for number in replies)
