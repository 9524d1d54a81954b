"""Rules that a user's message may hold, found by fixed patterns: imperatives, prohibitions, lasting wishes.

What is found is a proposal, never a rule. The same message always gives the same candidates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from blackboard_mcp.protocols.rules import MAX_RULE, Strength
from blackboard_mcp.protocols.values import dataclass

MAX_MESSAGE: Final = 20_000
MOST: Final = 10
"""Most proposals of one message."""
_LEAST_WORDS: Final = 2
_QUOTES: Final = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_FENCED: Final = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_END: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)(?<!\bapprox)(?<!\bDr)(?<!\bMr)(?<!\bMs)"
    r"[.!?;]+[\"')\]]*\s+(?=[\"'(\[]*[^\s.])|\n+"
)
"""The end of a sentence. A dot inside a word, such as a file name, has no space after it."""
_BULLET: Final = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)]|\[[ xX]?\])\s+")
_POLITE: Final = re.compile(
    r"(?:(?:and|also|oh|ok|okay|but|so|then|finally|lastly|first|second|third|again|remember|note"
    r"|important|rule|reminder"
    r"|fyi|btw|by the way|one more thing|ps|p\.s\.|hey|hi|thanks|thank you"
    r"|(?:all agents|all of you|all|everyone|team|agents)(?=[,:!]|\s+please\b)|both of you"
    r"|you two|@[\w.-]+|whatever you do|just|simply|definitely|absolutely|strictly"
    r"|(?:better|i'd say) (?=not\b))[,:!]?\s+(?:that\s+|to\s+)?)+",
    re.IGNORECASE,
)
_PLEASE: Final = re.compile(
    r"(?:(?:can|could|would|will) you\s+)?(?:please|kindly|pls)[,:]?\s+", re.IGNORECASE
)
_LASTING: Final = (
    r"from now on|from here on|going forward|in (?:the )?future|for now|until (?:further notice|i say"
    r"|told|then)|from today"
    r"|at all times|every time|each time|whenever|as a rule|by default|for the rest of|throughout"
    r"|under no circumstances"
    r"|in every case|in all cases|without exception|no matter what"
)
_HAS_LASTING: Final = re.compile(rf"\b(?:{_LASTING})\b", re.IGNORECASE)
_LEADING: Final = re.compile(rf"(?:{_LASTING})\b[^,:]{{0,80}}[,:]\s*|(?:{_LASTING})\s+", re.IGNORECASE)
_STANDING: Final = re.compile(
    r"(?:from now on|from here on|going forward|from today|as a rule|until (?:further notice|i say))\b",
    re.IGNORECASE,
)
"""Beginnings of a sentence that say of all that follows that it is to last."""
_CONDITION: Final = re.compile(
    r"(?:if|when|before|after|while|once|unless|during|for|in|on|as|instead of|until|where|because"
    r"|since|to)\b[^,]{1,120},"
    r"\s*",
    re.IGNORECASE,
)
_NO: Final = re.compile(
    r"(?:never|don't|dont|do not|no more|avoid|stop|refrain from|not a single|no agent"
    r"|neither"
    r"|must not|mustn't|shall not|may not|no\s+(?:\w+\s+){0,4}(?:without|before|after|in|on|to|until"
    r"|unless|during|from|at"
    r"|allowed|please|for|longer|over|above|outside|with))\b",
    re.IGNORECASE,
)
_NOUNS: Final = re.compile(r"(?:no|zero|not one)\s+(?:[\w'`./-]+[ ]){0,4}[\w'`./*-]+[.!]*$", re.IGNORECASE)
"""Prohibitions without a verb, such as "No emojis."."""
_REPORTED: Final = re.compile(
    r"(?:no|zero|not one)\s+(?:(?:\w+\s+){0,2}?(?:luck|surprises?|answers?|repl(?:y|ies)|responses?|news"
    r"|progress|signs?|traces?|results?|clues?|hits|matches|difference|effect|success|complaints?|objections?"
    r"|questions?|errors?|failures?|chance|change|commits since)\b"
    r"|(?:(?!\b(?:without|before|after|until|unless|that|which|where|when|if)\b).)*"
    r"\b(?:\w+(?<!ne)ed|yet|so far|since|left|found|seen|there|available|was|were|is|are|has|have)\b)",
    re.IGNORECASE,
)
"""Reports that begin like a prohibition, such as "No tests failed."."""
_NOBODY: Final = re.compile(
    r"(?:nobody|no one|nothing)\s+"
    r"(?:(?:except|but|else|other than|outside|from|in|on|of|ever)\s+(?:[\w@-]+\s+){0,3}?)?"
    r"(?:may|must|should|shall|can|gets?|is to|is allowed|without"
    r"|(?!(?:is|was|has|does|likes|loves|hates|wants|needs|knows|thinks|believes|understands|remembers|cares"
    r"|minds|agrees|sees|says|seems|looks|works|helps|fails|happens|matters|comes|makes|this|always|sometimes"
    r"|perhaps)\b)\w\w+s)\b"
    r"(?!.*\b(?:any ?more|i think|it seems|apparently|yet|so far)\b)",
    re.IGNORECASE,
)
"""Rules for everybody, such as "Nobody deploys on Fridays."; opinions and reports ("Nobody likes tabs.") are none."""
_WITHOUT_VERB: Final = re.compile(
    r"\w+ only (?:in|for|on|when|where|with)\b|(?:\w+\s+){1,2}first(?:,|[.!]*$)"
    r"|(?:all|every|each|one)\s+(?:[\w.-]+\s+){1,3}(?:as|in|per|with|under|via)\b"
    r"|(?:\w+\s+){0,3}\w+, no (?:\w+ ){0,2}\w+[.!]*$",
    re.IGNORECASE,
)
"""Rules in a few nouns: "All dates as ISO 8601.", "Two spaces, no tabs."."""
_HABIT: Final = re.compile(
    r"(?:(?!(?:you|i|we|he|she|it|they|that|this|nobody|was|were|had|did|\w+ed)\b)[\w'`./-]+\s+){1,5}"
    r"(?:never|always)\s+(?!(?:fail|break|crash|hang|work|time|get|need|take|happen|seem|look)s?\b|\w+ed\b)\w+"
    r"|without \w+ing\b|\w+ (?:it|this|that|them|the|your|our)\b.{0,120}\bwithout \w+ing\b",
    re.IGNORECASE,
)
"""Rules told as habits ("Tests never sleep."), and orders to work without something."""
_FINITE: Final = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|can|could|will|would|seems?|looks?|works?|fails?"
    r"|pass(?:es)?|nothing|nobody|i|we|he|she|they|it|\w+ed)\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(
    r"\"[^\"]{0,300}\"\s+(?:(?:he|she|they|it|i|we)\b|(?:\w+\s+){0,2}(?:said|says|wrote|writes|asked)\b)",
    re.IGNORECASE,
)
"""A quotation with its speaker after it."""
_STATED: Final = re.compile(
    r".{0,80}\b(?:rules?|polic(?:y|ies)|guidelines?|conventions?|requirements?|instructions?|words|agreed)\b"
    r"[^:\"]{0,40}:?\s*(?=\")",
    re.IGNORECASE,
)
"""Words that call the quotation after them a rule."""
_CLAUSE: Final = re.compile(
    r"[,;]?\s+(?:but|and|so|then)\s+(?:(?:while|when|if|before|after)\b[^,;]{1,60}?\s)?"
    rf"(?=(?:{_LASTING}|never|don't|dont|do not|always|only|without|no)\b)|[,;]\s+but\s+",
    re.IGNORECASE,
)
"""The joint between a task and a rule, such as ", and" in "Fix it, and from now on …"."""
_TELLS: Final = re.compile(r"(?:i|we|he|she|they|it|that|this|there|the|my)\b", re.IGNORECASE)
"""Beginnings of sentences that tell something rather than ask for it."""
_CLEAR: Final = re.compile(
    r"(?:hands off|not (?:more|less|fewer) than|make it a habit|better not|not\b|no (?:\w+ ){0,3}access\b"
    r"|be (?:brief|short|polite|concise|careful|precise|consistent|explicit|honest|specific|kind)\b"
    r"|it(?:'s| is) (?:(?:important|essential) (?:that|to)|forbidden|prohibited|not (?:ok|okay|allowed))\b"
    r"|(?:you|we)(?:'re| are) not to\b|you(?:'d| had) better|you (?:cannot|can't) (?!be\b|see\b|miss\b)"
    r"|you may (?:use|only|write|change)\b|i(?:'d| would) rather (?:you|we)\b"
    r"|(?:i|we) (?:don't|do not|never) want (?:you|any|new|more|to see)\b"
    r"|let(?:'s| us) (?:not|never|always|only|avoid|stick|keep)\b"
    r"|(?:every|each|all|any|anything|everyone|everybody|whoever)\b.{0,60}?\b(?:gets? (?:an?|its|one|two|their)"
    r"|belongs? (?:in|to|under)|go(?:es)? (?:through|into|to|under)|lives? in|signs?|fix(?:es)?)\b"
    r"|\w+ only[.!]?$)"
    r"|\b(?:is|are) (?:not (?:ok|okay|acceptable)|read-only|the minimum|the maximum|part of every)\b",
    re.IGNORECASE,
)
"""What is a rule whatever its verb: prohibitions, permissions and habits in their usual words."""
_OURS: Final = re.compile(r"we (?:don't|do not|never|always|only) (\w+)", re.IGNORECASE)
"""What "we" do as a habit, if the verb is one of agents' work."""
_ALWAYS: Final = re.compile(
    r"(?:always|only|at most|at least|max(?:imum)?|make sure|be sure|ensure|see to it)\b", re.I
)
_MODAL: Final = re.compile(
    r"\b(?:must(?:n't| not)?|shall(?: not)?|(?:has|have) to|(?:is|are) (?:not |never )?(?:to be|allowed"
    r"|permitted|forbidden"
    r"|prohibited|required|mandatory|off[- ]limits)|may (?:not|only|never)|can(?:not|'t) be (?:changed"
    r"|touched|used|edited)"
    r"|needs? (?:to|an?|one|two|three|at least)|should(?:n't| not| never| always| only)?|ought to|stays? (?:as|on"
    r"|in|off|below|under"
    r"|untouched|frozen"
    r"|private)|(?:is|are) off the table|no longer)\b",
    re.IGNORECASE,
)
_WISH: Final = re.compile(
    r"(?:i|we)(?:'d| would)? (?:want|need|expect|prefer|like|insist|require|ask)(?: that)?\b"
    r"(?! to (?:know|see|understand|hear|ask|tell|check|find|try|thank|say|look|talk|discuss|go|think"
    r"|do|get|be)\b)",
    re.IGNORECASE,
)
_PREFER: Final = re.compile(
    r"\b(?:prefer(?:ably|red)?|rather|try to|if possible|where possible|when possible|ideally|favou?r"
    r"|as far as"
    r"|i'd like|we'd like|should|ought)\b",
    re.IGNORECASE,
)
_SUGGEST: Final = re.compile(
    r"\b(?:consider|maybe|perhaps|might|could|feel free|it may help|suggest)\b", re.IGNORECASE
)
_FIRM: Final = re.compile(
    r"\b(?:never|must|always|do not|don't|under no circumstances|should (?:never|always))\b", re.I
)
_PAST: Final = re.compile(
    r"(?:yesterday|last (?:week|time|night|month)|earlier)\b|\b(?:should|must|could|would) have\b"
    r"|\b(?:i|we|he|she|they|it)"
    r" (?:had to|didn't|never (?:got|had|saw|heard|thought|worked|knew)|always (?:thought|wanted|had"
    r"|was|were|been))\b",
    re.IGNORECASE,
)
_GUESS: Final = re.compile(
    r"\b(?:must be (?:a|an|the|some|because|that|wrong|broken|nice|caused|due)|should be (?:fine|ok"
    r"|okay|done|ready|enough"
    r"|back|there|here|easy|possible|visible|obvious)|needs? to (?:be )?(?:know|understood)|i (?:have"
    r"|need) to (?:go|leave"
    r"|run|think|check|be|admit|say|ask|leave)|has to do with|have to (?:say|admit|wait|laugh)"
    r"|we must be|there must be"
    r"|it must (?:be|have)|you must be"
    r"|should (?:arrive|take|work|land|finish|come)|you should see|should i|should we)\b",
    re.IGNORECASE,
)
_ONE_TIME: Final = re.compile(
    r"(?:look|wait|see|listen|imagine|guess|suppose|let me|let's|thank|thanks|sorry|welcome|hello|good"
    r"|great|nice|never"
    r" ?mind|no (?:problem|worries|rush|idea|need|doubt|thanks|way|hurry)|don't (?:worry|bother"
    r"|get me wrong|ask me|know|think"
    r"|see|mind|remember)|do not (?:worry|know)|stop by|only if you|only (?:the|one|two|three|a"
    r"|then)\b.* (?:is|are|was"
    r"|were|has|have|failed|passed|left)|nothing (?:is|was|has|happened|new|else|changed|to)"
    r"|nobody (?:is|was|has|knows"
    r"|answered|replied|came)|no one (?:is|was|has|knows|answered)|neither (?:of|the|one)|at (?:most"
    r"|least) (?:it|we|they"
    r"|the|one|that)\b.* (?:is|was|were|are|failed|passed|worked))\b",
    re.IGNORECASE,
)
_VERBS: Final = """
    use keep write run test commit push pull merge cite quote name add remove delete put place store
    save log record post ask answer reply check verify confirm review read follow respect limit cap
    format indent wrap sort order prefer leave treat mark tag label list report tell notify inform
    warn stick stay work focus start finish end begin return pass validate escape sanitize sanitise
    encrypt hash hide mask redact document comment describe explain translate speak talk respond
    restrict reserve lock claim release hand escalate send share publish deploy build compile
    install pin upgrade update change edit touch modify rename move copy back restore rebase squash
    split group batch round convert measure count include exclude skip ignore omit drop require
    demand expect assume suppose consider try minimise minimize maximise maximize reduce prefix
    suffix spell capitalise capitalize close open discuss vote agree get let give show create make
    set do take hold turn bump freeze retry wait attach link mention note plan stage rotate revoke
"""
_OF_LASTING_KIND: Final = """
    use keep cite quote prefer respect limit cap format indent stick stay treat validate escape
    sanitize sanitise encrypt mask redact restrict require minimise minimize prefix capitalise
    capitalize spell follow pin include exclude leave write commit ask name mark tag label document
    ignore round squash speak
"""
"""Verbs of standing wishes; other imperatives count where something else says that they last."""
_GENERAL: Final = re.compile(
    r"\b(?:all|every|each|any|anything|everything|everybody|everyone|nobody|nothing|only|always|never"
    r"|without|before|after"
    r"|unless|instead of|rather than|no more than|at most|at least|per|when|whenever|if|until|both"
    r"|exactly|not|in (?:english|german|french|spanish)"
    r"|first|by default|except|as well|to a minimum|short|alone|untouched|private|separate|until)\b|n't\b|`",
    re.IGNORECASE,
)
_ONCE: Final = re.compile(
    r"\b(?:today|tonight|tomorrow|this (?:time|once|afternoon|morning|evening|week)|now|right away|asap"
    r"|quickly|again|once more"
    r"|for me|next|a (?:quick|short) (?:look|note|summary)|the (?:following|attached))\b(?! on\b)",
    re.IGNORECASE,
)
_MEANT: Final = re.compile(r"\bfrom now on|\bfor now\b", re.IGNORECASE)
_NONE: Final[Mapping[str, Strength]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may be meant as a rule, as it stood in the message."""

    text: str
    strength: Strength
    by_model: bool = False
    """Whether a model alone takes it for a rule."""


def candidates(message: str, by_model: Mapping[str, Strength] = _NONE) -> tuple[Candidate, ...]:
    """Returns the sentences of a message that may be rules, each once, in order.

    `by_model` are sentences that a model takes for rules, in the form of `plain_sentence`.
    """
    found: dict[str, Candidate] = {}
    for sentence in sentences(message[:MAX_MESSAGE]):
        strength = judged(sentence)
        said = by_model.get(plain_sentence(sentence)) if strength is None else None
        if (strength or said) and len(sentence) <= MAX_RULE:
            candidate = Candidate(sentence, strength or said or Strength.STRICT, strength is None)
            found.setdefault(sentence.casefold(), candidate)
    return tuple(found.values())


def plain_sentence(sentence: str) -> str:
    """Returns a sentence in the form in which it is compared: plain quotes, single spaces, small letters."""
    return " ".join(sentence.translate(_QUOTES).split()).casefold()


def sentences(message: str) -> list[str]:
    """Returns the sentences of a text without fenced code and quoted lines, verbatim, without bullets."""
    listed = []
    for line in _FENCED.sub("\n", message).splitlines():
        if line.lstrip().startswith(">"):
            continue
        bullet = _BULLET.match(line)
        listed += _split(line[bullet.end() :] if bullet else line)
    return [sentence for sentence in listed if len(sentence.split()) >= _LEAST_WORDS]


def _split(line: str) -> list[str]:
    places, start = [], 0
    for end in _END.finditer(line):
        places.append(line[start : end.end()].strip())
        start = end.end()
    return [*places, line[start:].strip()]


def judged(sentence: str) -> Strength | None:
    """Returns the strength of a sentence that may be a rule, or holds one; `None` for any other."""
    words = " ".join(sentence.translate(_QUOTES).split())
    if _QUOTED.match(words):
        return None
    stated = _STATED.match(words)
    words = words[stated.end() :] if stated else words
    words = words.strip("\"'") if words.startswith(('"', "'")) else words
    found = _strength(words)
    clause = None if found or _TELLS.match(words) else _CLAUSE.search(words)
    return _strength(words[clause.end() :]) if clause else found


def _strength(words: str) -> Strength | None:
    asks = words.rstrip("\"')").endswith("?")
    words = _POLITE.sub("", words, count=1) if _POLITE.match(words) else words
    polite = _PLEASE.match(words)
    if polite:
        words = words[polite.end() :]
    one_time = _ONE_TIME.match(words) and not _CLEAR.match(words)
    if _PAST.search(words) or one_time or (asks and not polite):
        return None
    lasting = bool(_HAS_LASTING.search(words))
    leading = _LEADING.match(words)
    if leading:
        words = words[leading.end() :]
    condition = _CONDITION.match(words)
    rest = words[condition.end() :] if condition else words
    inner = _PLEASE.match(rest)
    rest = rest[inner.end() :] if inner else rest
    if not (leading and _STANDING.match(leading[0])) and not _meant(
        rest, lasting=lasting, conditional=condition is not None
    ):
        return None
    if _SUGGEST.search(words) and not _FIRM.search(words):
        return Strength.SUGGEST
    return Strength.PREFER if _PREFER.search(words) and not _FIRM.search(words) else Strength.STRICT


def _meant(words: str, *, lasting: bool, conditional: bool) -> bool:
    ours = _OURS.match(words)
    if _CLEAR.search(words) or (ours and ours[1].lower() in _VERBS.split()):
        return True
    if not words or _ONE_TIME.match(words) or _REPORTED.match(words):
        return False
    if _NOBODY.match(words) or _NOUNS.match(words):
        return True
    if _HABIT.match(words) or (_WITHOUT_VERB.match(words) and not _FINITE.search(words)):
        return True
    if _NO.match(words) or _ALWAYS.match(words):
        return True
    if _GUESS.search(words):
        return False
    if _WISH.match(words):
        return True
    if _MODAL.search(words):
        return not words.lower().startswith(
            ("i ", "i'", "it should", "that should", "this should", "he ", "she ")
        )
    first = re.split(r"[\s,.:;!]", words, maxsplit=1)[0].lower()
    if first not in _VERBS.split():
        return lasting and bool(re.match(r"(?:you|we|the|all|every|each|any|our)\b", words, re.IGNORECASE))
    if lasting:
        return True
    if _ONCE.search(words) and not _MEANT.search(words):
        return False
    return conditional or bool(_GENERAL.search(words)) or first in _OF_LASTING_KIND.split()
