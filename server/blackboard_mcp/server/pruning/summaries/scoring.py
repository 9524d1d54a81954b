"""Scores of sentences by their item, their content and their place in the thread."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from blackboard_mcp.protocols.items import Item, ItemType

from .sentences import READ, denials, numbers, terms

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
_ALIKE, _WITHIN = 0.6, 0.85
"""Shares of common words from which a sentence repeats another: of all words, and of its own words."""

_CUES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), weight)
    for pattern, weight in (
        (r"\b(?:therefore|thus|hence|in conclusion|we conclude|concluded?|conclusion|turns out)\b", 1.2),
        (r"\b(?:final(?:ly)?|the answer|answer is|result is|output is|is now|in total|overall)\b", 1.0),
        (r"\b(?:decided?|decision|we will|chosen?|agreed?|consensus|settled|approved|adopt(?:ed)?)\b", 1.0),
        (r"\b(?:because|since|due to|caused? by|root cause|reason)\b", 0.6),
        (r"\b(?:confirm(?:s|ed)?|verified|validated|reproduced|correct|proved)\b", 0.5),
        (
            r"\b(?:wrong|incorrect|mistake|error|fail(?:s|ed|ure)?|bug|contradict\w*|missing|inconsisten\w+)\b",
            0.5,
        ),
        (r"\b(?:must|never|always|instead|rather than|rejected|not|no longer|only|but|however)\b", 0.4),
        (r"\b(?:unknown|unresolved|unclear|open question|remains?|to do|todo|still)\b", 0.6),
    )
)
_CHATTER = re.compile(
    r"\b(?:let['’]?s|let me|please|thank|great|sure|i will|i'll|i can|we need to|we can|you can|here (?:is|are)|"
    r"we should|will then|can then|to verify|once we|if there are no|i have|"
    r"below is|as follows|feel free|if you|would you|given:|your manager|step-by-step|let us|next step|"
    r"proceed|rerun|re-run|execute the|run the|the following|following steps?|terminate|exitcode|viewport|"
    r"group chat manager|end the conversation|conclude this|no longer need|"
    r"there is no code|i (?:understand|apologi[sz]e|appreciate|assume)|next steps?|it (?:looks|seems|appears)|as an ai|"
    r"traceback|file \"|title:|address:|suggestions? from|general task|output format|task description)",
    re.IGNORECASE,
)
_ASSENT = re.compile(
    r"^\W*(?:yes|no|ok(?:ay)?|agreed|exactly|done|confirmed|correct|right|good|all agreed)?\W*"
    r"(?:(?:i|we)(?: all| both)? (?:fully |completely )?(?:agree|concur|confirm)\b|"
    r"(?:sounds|looks) good|no objections?|the (?:solution|result|answer|output) is (?:correct|verified))",
    re.IGNORECASE,
)
_SCRAP = re.compile(
    r"https?://|\.\.\.|[|·›»]|=====|\bCode output: (?=.{80})|/path/to/|placeholder", re.IGNORECASE
)
_DATA = re.compile(r"""["'][\w .-]{1,40}["']\s*:\s|[{}]|\[\s*["'{\d]|\\n|</?\w+>|\w+\(\S*\)\s*[:;{]""")
"""Pattern of pieces of JSON, code or markup."""
_FORM = re.compile(
    r"^\W*(?:just |simply |only )?(?:give|provide|report|express|round|answer|state|include|use|write|format|"
    r"ensure|make sure|note|do not|don't)\b",
    re.IGNORECASE,
)
_ERRAND = re.compile(
    r"^\W*(?:\w+ ){0,3}?(?:identify|locate|verify|search|check|perform|access|navigate|download|extract|visit|enter|"
    r"find|ensure|look up|review|determine|collect|gather|retrieve|manually|ask)\b(?! that)|"
    r"\b(?:we|i) will (?:\w+ly )?(?:ask|verify|check|extract|search|look|start|begin|try|now|then|need|use the)\b",
    re.IGNORECASE,
)
"""Pattern of what an agent is about to do or tells another to do, which is dull once the thread is finished."""
_LIMIT = re.compile(
    r"\b(?:at (?:most|least)|(?:no|not) (?:more|less|fewer|later|earlier) than|(?:must|may|shall) (?:not|never)|"
    r"mustn['’]t|(?:not|never) (?:be )?(?:exceed|allowed|permitted)\w*|only (?:if|when|while|after|before)|"
    r"unless|provided that|as long as|up to \d|(?:limited|capped|restricted) (?:to|at)|"
    r"(?:maximum|minimum|limit|cap|quota) (?:is|of|are) \w*\d|\d[\d.,]*(?: \w+){0,3} (?:per|an?|each|every) "
    r"(?:second|minute|hour|day|week|month|user|client|request|call|host|node)|"
    r"within \d+(?:[.,]\d+)? ?(?:ms|s|min|h|(?:milli)?seconds?|minutes?|hours?|days?|weeks?))\b",
    re.IGNORECASE,
)
"""Pattern of stated limits; without them the thread's result would be wrong."""
_REFERS = re.compile(
    r"^\W*(?:this|that|these|those|it|they|he|she|both|neither|same|such|then|hence|so|yes|no[,:;]|"
    r"the (?:former|latter|above|same)|as (?:above|before|said))\b",
    re.IGNORECASE,
)
"""Pattern of the start of a sentence that continues another."""
_VERDICT = re.compile(
    r"^\W*(?:no|none|not an?|nothing|same)\b(?: \w+){0,2}? (?:contradict|conflict|object|issue|problem|concern|change|"
    r"difference|disagree|doubt|comment|question|complain|add|here|there|above|below)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?<=[a-z:,] )(?:[A-HJ-Z]|#\d+|(?:option|step|point|item|case) (?:[A-Z]|\d+))(?![\w'’.-]\w)"
)
"""Pattern of a letter or number that stands for something said elsewhere."""
_BARE = 5
"""Words below which a verdict on something else says nothing by itself."""
_NAME = re.compile(
    r"(?<=[\w,;:] )[A-ZÀ-ÖØ-Þ][\w'’-]+|\b\w+_\w+\b|\b[a-z]+[A-Z]\w*|\b\w+\.(?:py|js|ts|md|json|csv|txt|sql)\b|\w+\(\)"
)
_FIGURES = 3


@dataclass(slots=True, eq=False)
class Sentence:
    """A sentence of an item. `place` is its place among the item's sentences, from 0; `score` is its worth."""

    item: Item
    place: int
    text: str
    terms: frozenset[str]
    numbers: frozenset[str]
    denies: frozenset[str]
    score: float = 0.0

    @classmethod
    def of(cls, item: Item, place: int, text: str) -> Sentence:
        """Returns the sentence with its terms, numbers and denials; its score is not set yet."""
        return cls(item, place, text, terms(text), frozenset(numbers(text)), denials(text))

    def repeats(self, other: Sentence) -> bool:
        """Tells whether it says nothing that `other` does not: the same words, and no other number or denial."""
        if not self.terms or not self.numbers <= other.numbers or self.denies != other.denies:
            return False
        if self.text.endswith("?") and not other.text.endswith("?"):
            return False
        shared = len(self.terms & other.terms)
        return shared >= _ALIKE * len(self.terms | other.terms) or shared >= _WITHIN * len(self.terms)


def is_talk(sentence: Sentence) -> bool:
    """Tells whether a sentence is off the subject: courtesies, assent, errands, scraps of data."""
    text, type_ = sentence.text, sentence.item.type
    if type_ in (ItemType.DECISION, ItemType.ANSWER) or text.endswith("?"):
        return bool(_DATA.search(text))
    assent = _ASSENT.search(text) and not sentence.numbers
    if points_elsewhere(sentence):
        return True
    return bool(_CHATTER.search(text) or assent or _ERRAND.search(text) or _DATA.search(text))


def states_limit(sentence: Sentence) -> bool:
    """Tells whether a sentence states a limit: at most, must not, only if, so many per minute."""
    return not sentence.text.endswith("?") and bool(_LIMIT.search(sentence.text))


def points_elsewhere(sentence: Sentence) -> bool:
    """Tells whether a sentence is meaningless without the text it refers to, such as "No contradiction with
    A.".
    """
    text = sentence.text
    if len(sentence.terms) >= _BARE or sentence.numbers or states_limit(sentence):
        return False
    return bool(_VERDICT.search(text) or _LABEL.search(text))


def score(sentences: Sequence[Sentence], members: Sequence[Item]) -> None:
    """Sets the score of every sentence of a thread: about 1 for filling, 3 and more for what must stay.

    `members` are the thread's items in order of posting.
    """
    spread = Counter(term for item in members for term in terms(item.text[:READ]))
    whole = math.log(1 + len(members))
    central = [
        sum(math.log(1 + spread[t]) for t in s.terms) / whole / math.sqrt(len(s.terms) or 1)
        for s in sentences
    ]
    most = max(central, default=0.0) or 1.0
    last = {s.item.number: s.place for s in sentences}
    order = {item.number: place for place, item in enumerate(members)}
    for sentence, weight in zip(sentences, central, strict=True):
        when = order[sentence.item.number] / max(1, len(members) - 1)
        edge = 0.4 * (sentence.place == 0) + 0.3 * (sentence.place == last[sentence.item.number])
        sentence.score = _own(sentence) + 1.2 * weight / most + edge + 0.3 * when


def _own(sentence: Sentence) -> float:
    """Returns the score of a sentence by its own content, without its place in the thread."""
    item, text = sentence.item, sentence.text
    asks = item.type in (ItemType.PROBLEM, ItemType.QUESTION)
    worth = _WEIGHT.get(item.type, 1.0)
    worth += min(2.0, sum(cue_worth for cue, cue_worth in _CUES if cue.search(text)))
    worth += 0.3 * min(_FIGURES, len(sentence.numbers)) + 0.15 * min(_FIGURES, len(_NAME.findall(text)))
    if states_limit(sentence):
        worth += 0.0 if _CHATTER.search(text) else 1.2
    elif points_elsewhere(sentence):
        worth -= 4.0
    elif _REFERS.search(text) and not sentence.numbers:
        worth -= 1.2
    if text.endswith("?"):
        worth += 2.0 if asks else -1.0
    if asks and _FORM.search(text):
        worth -= 1.2
    if _CHATTER.search(text):
        worth -= 1.6
    if _SCRAP.search(text):
        worth -= 1.2
    if _DATA.search(text):
        worth -= 2.0
    if _ASSENT.search(text) and not sentence.numbers:
        worth -= 3.0
    if not asks and item.type not in (ItemType.DECISION, ItemType.ANSWER) and _ERRAND.search(text):
        worth -= 1.0
    worth -= max(0, len(text) - 160) / 160
    if len(sentence.terms) < 3 and not sentence.numbers:
        worth -= 1.0
    if text.endswith("…"):
        worth -= 0.8
    return worth
