"""Checks that a text must pass before it replaces a thread, whoever wrote it.

A writer gives the body: lines that cite their sources in brackets. The server adds the line that lists all
sources, so that no writer can leave one out or name another. `faults` finds everything wrong with a body,
without asking a model and without regard to its writer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.items import Item, ItemType, Status, Visibility
from blackboard_mcp.protocols.summaries import Ending
from blackboard_mcp.protocols.tokens import Tokenizer

from ...text.lines import clip, visible
from .sentences import CITATION, CODE, ID, READ, SOURCES, TAG, numbers, sentences, terms

SHARE = 3
"""A summary has at most this fraction of its sources' tokens: one part in `SHARE`."""
BODY_TOKENS = (160, 320)
"""Most tokens of a body, for a short and for a long thread."""
_GROWTH = 10
"""Between these bounds, a body may have one token for this many tokens of its sources."""
VOID = (Status.WITHDRAWN, Status.INVALIDATED)
MAX_RULES = 12
"""Most ids of constraints that a summary must keep; a text could name any number, so only the first count."""
_MOST_TOLD = 8
_IDENTIFIER = re.compile(
    r"(?<![\w-])(?:--[a-z][\w-]{1,60}|[A-Za-z][^\W_]{0,40}(?:_[^\W_]{1,40}){1,8}|[a-z]{1,40}[A-Z][^\W_]{0,40}"
    r"|[\w-]{1,60}\.(?:py|js|ts|md|json|csv|txt|sql|toml|yaml|yml|sh|go|rs)|[A-Z]{2,10}-\d{2,10})(?![\w-])"
)
_STEM = 4
"""Letters at the start by which two words count as the same."""
_KEPT = 0.25
"""Share of a decision's words that lines about it must keep. The bounds below cap it, in words and in
characters of scripts without spaces.
"""
_MOST_KEPT, _MOST_SIGNS = 2, 4
_WITHIN, _ALIKE = 0.75, 0.5
"""Shares of common words from which two sentences count as the same or as contrary: of one's own words, and
of all.
"""
_LEAST_WORDS = 2
_GROUNDED = 0.2
"""Share of a line's words that must be in the sources it cites."""

_RULE = re.compile(r"(?<![\w-])K-\d{1,15}(?![\w-])")
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\])>\"']+|\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,10}"
    r"|\b(?:[\w-]{1,63}\.){1,10}[^\W\d_]{2,24}\b(?:[:/][^\s\])>\"']*)?",
    re.IGNORECASE,
)
"""Pattern of addresses: with a scheme, of a mailbox, or a host name alone."""
# `[^\S\n]*+` does not cross lines: otherwise a run of empty lines would be scanned again from each of them.
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"```|~~~"), "a code fence"),
    (re.compile(r"\]\(|!\["), "a markdown link or image"),
    (TAG, "an HTML tag"),
    (
        re.compile(r"^[^\S\n]*+(?:#{1,6}\s|>|\|)", re.MULTILINE),
        "a heading, quote or table mark at a line's start",
    ),
    (re.compile(r"^[^\S\n]*+[{\[](?![A-Z]-\d)|\"\s*:\s*[{\[\"]", re.MULTILINE), "JSON"),
    (
        re.compile(
            r"^[^\S\n]*+(?:sources|system|seq \d+|stays|archived|waiting for you)\b\s*[:·]", re.M | re.I
        ),
        "a line that could pass for the board's own",
    ),
)
# Each pattern matches only at the start of a run of marks: otherwise a long run would be tried from each mark.
_CLAUSE = re.compile(r"(?<![.,;:!?])[.,;:!?]++\s+|(?<!\s)\s++(?:and|but|while|though)\s+")
_STOP_MARK = re.compile(r"(?<![.;:!?])[.;:!?]++\s+")
_NOT = re.compile(
    r"(?<![\w-])(?:not|no|never|none|nor|cannot|without|neither|\w+n['’]t)(?![\w-])", re.IGNORECASE
)
_AGAINST = re.compile(
    r"\b(?:avoid|reject|refus|forbid|exclud|instead|rather|stop|drop|abandon|against|ban|only|un\w+ed\b)",
    re.IGNORECASE,
)
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u3040-\u30ff]")


def unfit(thread: Sequence[Item]) -> str | None:
    """Returns why these items may not be summarised at all, or `None` when they may."""
    if not thread:
        return "there is nothing to summarise"
    for item in thread:
        if item.visibility is not Visibility.BOARD:
            return f"a source is {item.visibility}"
        if item.type is ItemType.CONSTRAINT:
            return f"{item.id} is a constraint: constraints are never summarised"
        if item.debate == DebateState.OPEN:
            return f"{item.id} is under an open debate"
    return None


def source_tokens(thread: Sequence[Item], tokenizer: Tokenizer) -> int:
    """Returns the tokens of all items of a thread."""
    return sum(item.tokens or tokenizer.count(item.text) for item in thread)


def footer(thread: Sequence[Item]) -> str:
    """Returns the last line of a summary, which names every source."""
    return "Sources: " + ", ".join(item.id for item in sorted(thread, key=lambda item: item.number))


def body_limit(thread: Sequence[Item], tokenizer: Tokenizer) -> int:
    """Returns the most tokens that a summary's body may have; below 1 when the thread is too short for one."""
    tokens = source_tokens(thread, tokenizer)
    low, high = BODY_TOKENS
    room = tokens // SHARE - tokenizer.count("\n" + footer(thread))
    return min(room, max(low, min(high, tokens // _GROWTH)))


def complete(body: str, thread: Sequence[Item]) -> str:
    """Returns the text of a summary: the body and the line that names its sources."""
    return f"{body}\n{footer(thread)}"


def tidy(text: str) -> str:
    """Returns a writer's answer as a body, without extra white space and without a final line of sources."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    while lines and (not lines[-1] or SOURCES.match(lines[-1])):
        lines.pop()
    return "\n".join(line for line in lines if line)


def rules_named(thread: Sequence[Item]) -> list[str]:
    """Returns ids of constraints that the sources name, each once, in order of mention; at most `MAX_RULES`."""
    named = dict.fromkeys(
        id_
        for item in sorted(thread, key=lambda item: item.number)
        if item.status not in VOID
        for id_ in (*(id_ for _, id_ in item.cites if id_.startswith("K-")), *_RULE.findall(item.text))
    )
    return list(named)[:MAX_RULES]


def markup(text: str) -> str | None:
    """Returns in a few words what in `text` is no plain sentence, such as "an HTML tag", or `None`."""
    if visible(text) != text or not text.replace("\n", "").isprintable():
        return "an invisible or control character"
    return next((name for pattern, name in _MARKUP if pattern.search(text)), None)


def faults(
    body: str,
    thread: Sequence[Item],
    tokenizer: Tokenizer,
    endings: Mapping[int, Ending] | None = None,
) -> tuple[str, ...]:
    """Returns why `body` may not replace `thread`, each fault in a few words; an empty tuple when it may.

    `endings` maps item numbers to how debates on them ended, which a body may tell as well. At most eight
    faults are returned.
    """
    reason = unfit(thread)
    if reason is not None:
        return (reason,)
    if not body.strip():
        return ("says nothing",)
    found: list[str] = []
    for fault in _faults(body, thread, tokenizer, endings or {}):
        if fault not in found:
            found.append(fault)
        if len(found) == _MOST_TOLD:
            break
    return tuple(found)


def _faults(
    body: str, thread: Sequence[Item], tokenizer: Tokenizer, endings: Mapping[int, Ending]
) -> Iterator[str]:
    most = body_limit(thread, tokenizer)
    if len(body) > 16 * max(most, 1) + 1_000:
        yield f"too long: over {len(body):,} characters, and {max(most, 0)} tokens are allowed"
        return
    tokens = tokenizer.count(body)
    whole = tokenizer.count(complete(body, thread))
    if tokens > most or whole > source_tokens(thread, tokenizer) // SHARE:
        yield f"too long: {tokens} tokens, and {max(most, 0)} are allowed"
    unclean = markup(body)
    if unclean is not None:
        yield f"has {unclean}: plain lines of text only"
    lines = [_Line(text) for text in body.split("\n") if text.strip()]
    yield from _citations(lines, thread)
    yield from _figures(lines, thread, endings)
    for item in thread:
        if item.type is ItemType.DECISION and item.status not in VOID:
            yield from _decision(item, [line for line in lines if item.id in line.cited])
    named = {id_.split("@")[0] for id_ in ID.findall(body)}
    for id_ in rules_named(thread):
        if id_ not in named:
            yield f"drops the constraint {id_}, which the sources name"


class _Line:
    """A line of a body: the ids that it cites, and its words and numbers without them."""

    def __init__(self, text: str) -> None:
        self.text = text
        groups = CITATION.findall(text)
        self.cited = {id_.split("@")[0] for group in groups for id_ in ID.findall(group)}
        self.said = CITATION.sub(" ", text)
        self.numbers = numbers(self.said)


def _citations(lines: Sequence[_Line], thread: Sequence[Item]) -> Iterator[str]:
    ids = {item.id for item in thread}
    quoted = {id_.split("@")[0] for item in thread for id_ in ID.findall(item.text)}
    quoted |= {id_ for item in thread for _, id_ in (*item.cites, *item.cited_by)}
    for place, line in enumerate(lines, 1):
        strange = line.cited - ids
        if strange:
            yield f"cites {_first(strange)}, which is not a source"
        mentioned = {id_.split("@")[0] for id_ in ID.findall(line.said)} - ids - quoted
        if mentioned:
            yield f"names {_first(mentioned)}, which no source names"
        if not line.cited:
            yield f"line {place} cites no source: end each line with the ids it rests on, as [{min(ids)}]"


def _figures(lines: Sequence[_Line], thread: Sequence[Item], endings: Mapping[int, Ending]) -> Iterator[str]:
    """Yields faults for numbers and addresses that no source has, and for lines that differ from what they
    cite.
    """
    by_id = {item.id: item for item in thread}
    whole = "\n".join(f"{item.author} {item.text}" for item in thread)
    there = all_numbers(whole)
    known_places = whole.casefold()
    sources: dict[str, frozenset[str]] = {}
    for place, line in enumerate(lines, 1):
        for number in line.numbers:
            if number not in there:
                yield f"says {number}, which no source says"
        for address in _ADDRESS.findall(line.said):
            if address.rstrip(".,;:…").casefold() not in known_places:
                yield f"line {place} has {clip(address, 60)}, an address that no source has"
        cited = [by_id[id_] for id_ in line.cited if id_ in by_id]
        if not cited:
            continue
        known: set[str] = set()
        for item in cited:
            if item.id not in sources:
                ending = endings.get(item.number)
                told = [item.author, str(item.type), str(item.status), item.debate or ""]
                told += [] if ending is None else [ending.by, ending.reason]
                sources[item.id] = stems(" ".join((item.text, *told)))
            known |= sources[item.id]
        known |= _OURS
        for said in _STOP_MARK.split(line.said):
            own = stems(said)
            if len(own) > _LEAST_WORDS and len(own & known) < _GROUNDED * len(own):
                yield f"line {place} says what {', '.join(sorted(line.cited & set(by_id)))} does not say"


def _decision(item: Item, lines: Sequence[_Line]) -> Iterator[str]:
    """Yields faults for parts of a decision that the lines about it leave out or contradict."""
    if not lines:
        yield f"drops the decision {item.id}"
        return
    told = {number for line in lines for number in line.numbers}
    missing = [number for number in numbers(item.text) if number not in told]
    if missing:
        yield f"drops {', '.join(missing[:5])} of the decision {item.id}"
    named = "\n".join(line.said for line in lines).casefold()
    lost = [name for name in identifiers(item.text) if name.casefold() not in named]
    if lost:
        yield f"drops {', '.join(clip(name, 60) for name in lost[:5])} of the decision {item.id}"
    if not keeps_words(item, (line.said for line in lines)):
        yield f"does not say what the decision {item.id} says: keep some of its words"
    turned = list(_turned_round(item, lines))
    yield from turned
    if not turned and not keeps_denial(item, [line.said for line in lines]):
        yield f"leaves out what the decision {item.id} denies or forbids: keep its 'not'"


def keeps_denial(item: Item, said: Iterable[str]) -> bool:
    """Tells whether the texts about an item keep its denial; true for an item without one."""
    return not any(map(_NOT.search, sentences(item))) or any(
        _NOT.search(s) or _AGAINST.search(s) for s in said
    )


def keeps_words(item: Item, said: Iterable[str]) -> bool:
    """Tells whether the texts about an item share enough words with it to be about it.

    One word is enough for an item with numbers or identifiers, which the texts must keep anyway.
    """
    told = _plain_stems("\n".join(sentences(item))) or _plain_stems(item.text)
    words = frozenset(stem for stem in told if not stem.isdecimal())
    shared = words & _plain_stems("\n".join(said))
    anchored = bool(numbers(item.text) or identifiers(item.text))
    least = 1 if anchored else _MOST_KEPT
    if any(_WIDE.search(stem) for stem in words):
        least = _MOST_SIGNS  # single characters: a few are shared by chance
    return len(shared) >= min(least, math.ceil(_KEPT * len(words)))


def identifiers(text: str) -> list[str]:
    """Returns the first names in prose that are spelled as in code, such as `flush_twice`, `--force` or
    `cache.py`.
    """
    found = dict.fromkeys(
        match[0].rstrip(".,;:") for match in _IDENTIFIER.finditer(CODE.sub("\n", text[:READ]))
    )
    return [name for name in found if len(name) > 2][:MAX_RULES]


def _turned_round(item: Item, lines: Sequence[_Line]) -> Iterator[str]:
    """Yields faults for lines that repeat a decision without its denial, or with a denial that it does not
    have.
    """
    decided = [(_plain_stems(c), _NOT.search(c), _AGAINST.search(c)) for c in _clauses(sentences(item))]
    author = stems(item.author)
    for line in lines:
        for said in _clauses([line.said]):
            own = _plain_stems(said) - author
            now = _NOT.search(said)
            best, fault = 0.0, None
            for of, before, against in decided:
                within, alike = len(own & of) / max(1, len(own)), len(own & of) / max(1, len(own | of))
                if len(own) < _LEAST_WORDS or (within < _WITHIN and alike < _ALIKE) or within + alike < best:
                    continue
                turned = None
                if before and not now and not _AGAINST.search(said):
                    turned = f"leaves out the '{before[0]}' of the decision {item.id}"
                elif now and not before and not against:
                    turned = f"denies what the decision {item.id} says"
                if within + alike > best or turned is None:
                    best, fault = within + alike, turned
            if fault is not None:
                yield fault


def _clauses(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _CLAUSE.split(text)


def _plain_stems(text: str) -> frozenset[str]:
    return stems(_NOT.sub(" ", text))


def all_numbers(text: str) -> set[str]:
    """Returns every number of a text, including those in code and the parts of compound numbers."""
    found = set(numbers(text))
    for number in re.findall(r"\d+(?:[.,:]\d+)*", text):
        found |= {number, number.replace(",", ""), *re.split(r"[.,:]", number)}
    return found


def stems(text: str) -> frozenset[str]:
    """Returns the words of `text`, each cut to its first letters; for scripts without spaces, the single
    characters.
    """
    return frozenset(
        stem for word in terms(text) for stem in (word if _WIDE.search(word) else (word[:_STEM],))
    )


_OURS = stems(
    "open question unanswered contested debate ended closed critique consensus decided withdrawn expired "
    "invalidated resolved answered author agent source sources item thread agreed decision answer names "
    "stands falls amended conceded settled nobody still last against after withdrew superseded replaced"
)


def _first(ids: set[str]) -> str:
    return min(ids, key=lambda id_: (int(id_[2:]), id_))
