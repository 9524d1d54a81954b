"""Words that results and views share: ages, excerpts, and one line for one item.

Text that agents wrote is untrusted. It leaves this module on one line, or on lines that all begin with
`QUOTE`, and invisible and direction-changing characters become escapes (`\\u202e`). So nobody can write a
line that looks like the server's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.agreements import Agreement
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.debates import DebateState, Outcome
from blackboard_mcp.protocols.items import (
    LETTERS,
    EdgeKind,
    Forgotten,
    Item,
    ItemType,
    Status,
    Visibility,
    Zone,
    parse_ref,
)
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.visible import HIDDEN, JOINERS
from blackboard_mcp.protocols.visible import escape as escape
from blackboard_mcp.protocols.visible import visible as visible

if TYPE_CHECKING:
    from blackboard_mcp.protocols.wire import WireForgotten

ELLIPSIS = "…"
QUOTE = "> "
"""Prefix of every line of a text that is shown over several lines."""
AGES_AS_OF_THEN = ", ages as of then"
"""The words after the time of the last change in the first line of a view."""
_RECENT = timedelta(minutes=10)

_LINES = re.compile("\r\n|[\n\r\v\f\x85\u2028\u2029]")
_SEPARATORS = re.compile("[\x85\u2028\u2029]")
_BEGINNINGS = (
    r"seq\s*\d|\d+ [a-z]+\.[a-z]+\b|[→⚠✗✓]|\d+ more\b"
    r"|(?:post|read|query|query_archive|subscribe|wait|debate|respond|consume|summarize|claim)\s*\("
    r"|(?:system|server|blackboard|error|objective|constraint \d+|flags|rules r\d+)\b\s*:|board \S+ .{0,12}seq"
    r"|(?:you owe|(?:waiting |new )?for you|you watch|since you(?:r| looked)|new since|whole texts|already criticised"
    r"|same as|back with|not shown to you yet|not shown, but|nothing (?:matches|was changed|posted yet)|no news"
    r"|closes by \d)\b"
    r"|rules r\d+ \(|proposed, not in force"
    r"|(?:your tasks|ready for you|to confirm|dead ends) \("
    r"|(?:stays|archived|came|changed|settled|left for room|time ended|agreed to|last active|done with|waits for"
    r"|debates opened|archived \(room is made)\b"
    r"[^.]{0,12}:"
    r"|(?:[a-z]+,? ){0,4}(?:debates|questions|problems|issues|settled|answers|plans|summaries|items|facts|results|notes"
    r"|hypotheses|critiques|logs):\s*$"
)
"""Pattern of how the server's own lines begin: a sequence, a call, a label, or a heading alone on its line."""
_LEAD = r"[\s>\"'`*_#(\[{-]*+(?:"
_LIKE = 80
"""Characters at the start of a line that are compared with the beginnings."""
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?\Z")


@cache
def _ours(inline: bool) -> re.Pattern[str]:
    """Returns the pattern of the same beginnings and of item ids, compiled at the first use because that takes long.

    An agent's line that matches is shown behind `QUOTE`. The pattern is stricter for a text shown `inline`, on one line
    behind the server's words: there an id alone may begin an honest sentence ("F-2 counts users"), so an id matches
    only where words about an item follow it.
    """
    if inline:
        about = r"[A-Z]-\d+(?:@\d+)?\s+(?:(?:[a-z]+\s+)?by\b|→|[A-Z_]{4,}\b)"
        return re.compile(rf"{_LEAD}{about}|(?i:{_BEGINNINGS}))")
    return re.compile(rf"{_LEAD}[A-Z]-\d+\b|{_BEGINNINGS})", re.IGNORECASE)


def relative_age(then: datetime, now: datetime) -> str:
    """Returns how long `then` was before `now`, as `12s`, `3m`, `2h` or `4d`; `0s` when it was not before."""
    seconds = max(0, int((now - then).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def aged(view: str, at: datetime | None, now: datetime) -> str:
    """Returns a view whose first line tells a reader of `now` how long ago its last change was, unless it was just now.

    By itself a view tells no time but that of the change, since an unchanged board has the same view.
    """
    if at is None or now - at < _RECENT:
        return view
    return view.replace(AGES_AS_OF_THEN, f", {relative_age(at, now)} ago{AGES_AS_OF_THEN}", 1)


def visible_json(document: str) -> str:
    """Returns an equal JSON document in which invisible characters and unusual line ends are JSON escapes."""
    if document.isascii() and document.isprintable():
        return document
    return _SEPARATORS.sub(lambda m: _escaped_for_json(m[0]), HIDDEN.sub(_json_escape, document))


def _json_escape(match: re.Match[str]) -> str:
    return match[0] if match["flag"] else _escaped_for_json(match[0])


@lru_cache(maxsize=512)
def _escaped_for_json(character: str) -> str:
    return json.dumps(character)[1:-1].replace("\x7f", "\\u007f")


def one_line(text: str) -> str:
    """Returns `text` on one line: white space becomes single spaces, and invisible characters become escapes."""
    return " ".join(visible(text).split())


def quoted(text: str) -> list[str]:
    """Returns all lines of `text`: one line as it is, several lines each behind `QUOTE`.

    A single line that begins like the server's own words is quoted as well. Line ends at the end are dropped.
    """
    lines = _LINES.split(visible(text).rstrip("\r\n"))
    if len(lines) == 1 and not _like_ours(lines[0], inline=True):
        return lines
    return [QUOTE + line if line else QUOTE.rstrip() for line in lines]


def closed_to_posts(lifecycle: Lifecycle) -> str:
    """Returns that a board takes no posts, and for how long; an empty string for an open one."""
    if lifecycle is Lifecycle.OPEN:
        return ""
    until = "for good" if lifecycle is Lifecycle.CLOSED else "until a steward opens it again"
    return f"the board is {lifecycle} and takes no posts {until}"


def flat(text: str) -> str:
    """Returns `text` on one line. Each of its lines that begins like one of the server's is preceded by
    `QUOTE`.
    """
    lines = _LINES.split(text)
    return one_line(" ".join(QUOTE + line if _like_ours(line, inline=True) else line for line in lines))


def _like_ours(line: str, *, inline: bool = False) -> bool:
    """Tells whether a line begins like one of the server's own."""
    return _ours(inline).match(visible(line[:200]).strip()[:_LIKE]) is not None


def clip(text: str, width: int) -> str:
    """Returns the start of `text` on one line of at most `width` characters, cut between words where
    possible.
    """
    start = text.lstrip()
    line = flat(start[: 2 * width + 64])
    if len(line) <= width and len(start) <= 2 * width + 64:
        return line
    if width <= 0:
        return ""
    line = line[:width]
    space = line.rfind(" ", width // 2)
    return _tidy(line[:space] if space > 0 else line[:-1]) + ELLIPSIS


def excerpt(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Returns the start of `text` on one line of at most `tokens` tokens; it ends with `…` when there was
    more.

    The cut is between words, or inside the first word when even that is too long. Returns an empty text when
    nothing fits. Only the start of a long text is looked at.
    """
    if tokens <= 0:
        return ""
    reach = 12 * tokens + 200
    start = text.lstrip()
    line = flat(start[:reach])
    if len(start) <= reach and tokenizer.count(line) <= tokens:
        return line

    def fits(end: int) -> bool:
        return tokenizer.count(line[:end] + ELLIPSIS) <= tokens

    ends = [m.start() for m in re.finditer(" ", line)]
    if len(start) > reach:
        ends.append(len(line))
    end = _last(ends, fits)
    if end is None:
        end = _last(range(1, ends[0] if ends else len(line)), fits)
    cut = (_tidy(line[:end]) if end else "") + ELLIPSIS
    return cut if tokenizer.count(cut) <= tokens else ""


def _last(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Returns the last of the ascending `ends` that fits, or `None`. Assumes that every smaller end fits as
    well.
    """
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low = middle + 1
        else:
            high = middle
    return ends[low - 1] if low else None


def _tidy(cut: str) -> str:
    """Returns `cut` without half an escape, a dangling joiner or open punctuation at its end."""
    whole = _HALF_ESCAPE.sub("", cut).rstrip(JOINERS)
    return whole.rstrip(" ,;:—–-(") or whole


def in_quotes(text: str) -> str:
    """Returns `text` on one line in quotation marks; marks inside it become single ones, so that it cannot
    close them.
    """
    inner = one_line(text).replace('"', "'")
    return f'"{inner}"'


def solved(ids: Sequence[str]) -> str:
    """Returns the call that closes a problem that a decision is about; empty without problems."""
    return f'if that solves {", ".join(ids)}: post(id="{ids[0]}", status="RESOLVED")' if ids else ""


def filter_line(filter_: Mapping[str, Any]) -> str:
    """Returns a filter of events as JSON on one line, cut to its first 200 characters."""
    return one_line(json.dumps(filter_, ensure_ascii=False)[:200])


@lru_cache(maxsize=1_024)
def word(text: str) -> str:
    """Returns a name, tag or key as one word without spaces or square brackets, so that it cannot pass for
    other parts.
    """
    return one_line(text).translate(_APART)


_APART = str.maketrans({" ": "_", "[": "(", "]": ")"})


def forgotten(gone: Forgotten | WireForgotten) -> str:
    """Returns a clause on when a text was removed for good, by whose decision and why."""
    return f"forgotten on {gone.at:%Y-%m-%d} by decision of {one_line(gone.by)}: {one_line(gone.why)}"


def head(item: Item, now: datetime | None = None) -> str:
    """Returns the words before an item's text, such as `H-17 hypothesis by bob 3m !4 [db] (critiques F-3)`.

    Items with a key show version and key: `F-3@2 fact key plan/db …`. A status other than ACTIVE comes next,
    then in brackets what replaced or refuted the item, that it fell, or what answers a question. After the
    importance stands how many owners support and oppose it (`+2 −1`). At the end stand open claims against the
    item, and retracted items that it rests on. A deleted item shows only who deleted it and as which version, or
    by whose decision it was forgotten. Without `now` the age is left out.
    """
    return f"{item.id if item.key is None else f'{item.id}@{item.version}'} {description(item, now)}"


def description(item: Item, now: datetime | None = None) -> str:
    """Returns the words of `head` without the id and the version."""
    parts = [_TYPES[item.type]]
    if item.key is not None:
        parts.append(f"key {word(item.key)}")
    if item.forgotten is not None:
        age = "" if now is None else f" {relative_age(item.created_at, now)}"
        return " ".join([*parts, f"by {word(item.author)}{age}, {forgotten(item.forgotten)}"])
    if item.deleted:
        gone = f"deleted by {word(item.updated_by)}, version {item.version}"
        return " ".join([*parts, gone, *([] if now is None else [relative_age(item.updated_at, now)])])
    if item.status is not Status.ACTIVE:
        parts.append(item.status)
    if (now_is := became(item)) != "":
        parts.append(f"({now_is})")
    if item.gave_way_to and item.status is Status.INVALIDATED:
        told = ended(item)
        parts.append(told if item.outcome == Outcome.AMENDED else f"({told})")
    elif item.outcome == Outcome.FALLS and item.status is Status.INVALIDATED:
        parts.append("(fell in a debate)")
    if item.answered_by is not None and item.status is Status.ACTIVE:
        parts.append(f"(answered by {item.answered_by})" if item.answered_by else "(unanswered)")
    if item.zone is Zone.ARCHIVE:
        parts.append("archived")
    if item.visibility is not Visibility.BOARD:
        parts.append(str(item.visibility))
    parts.append(f"by {word(item.author)}")
    if item.undecided:
        parts.append("(no decider)")
    if item.trust is Trust.LOW:
        parts.append("low trust")
    if now is not None:
        parts.append(ages(item, now))
    parts.append(f"!{item.importance}")
    if item.supporters:
        parts.append(f"+{len(item.supporters)}")
    if item.opponents:
        parts.append(f"−{len(item.opponents)}")
    if item.tags:
        parts.append(f"[{' '.join(map(word, item.tags[:TAGS_SHOWN]))}{_more(item.tags, TAGS_SHOWN)}]")
    if item.edges:
        parts.append(f"({_edges(item)})")
    if (claimed := claims(item, CONTESTS_SHOWN)) != "":
        parts.append(f"⚠ {claimed}")
    if item.agreement is not None:
        parts.append(f"({agreement_line(item.agreement)})")
    if (doubt := notices(item, 1)) != "":
        parts.append(doubt)
    return " ".join(parts)


def ages(item: Item, now: datetime) -> str:
    """Returns how old the shown version is, and a later change of the item apart: `30s`, `30s (changed 3s)`."""
    at = (item.written_at or item.updated_at) if item.version > 1 else item.created_at
    told, changed = relative_age(at, now), relative_age(item.updated_at, now)
    return told if item.updated_at <= at or changed == told else f"{told} (changed {changed})"


def stands_no_more(status: str) -> str:
    """Returns the status of what others rest on as they are told it: a claim that fell may only have given way."""
    return status.replace(Status.INVALIDATED, "(stands no more)")


def notices(item: Item, most: int) -> str:
    """Returns a notice on retracted items that this one rests on, at most `most` of them: `⚠ rests on H-3
    WITHDRAWN +2`.

    Returns an empty text without such items. An item that also cites the replacement of a retracted one needs
    no notice.
    """
    if not item.retracted:
        return ""
    cited = {edge.target for edge in item.edges}
    open_ = [one for one in item.retracted if one.by is None or parse_ref(one.by).number not in cited]
    told = []
    for notice in open_[:most]:
        verb = "supports" if notice.kind is EdgeKind.SUPPORTS else "rests on"
        by = f" by {notice.by}" if notice.by is not None else ""
        via = f" via {notice.via}" if notice.via != notice.id else ""
        told.append(f"{verb} {notice.id} {stands_no_more(str(notice.status))}{by}{via}")
    return f"⚠ {', '.join(told)}{_more(open_, most)}" if told else ""


def unmarked(id_: str, key: str | None) -> str:
    """Returns what takes from an item the notice that it rests on something retracted."""
    if key is not None:
        return f'goes with its next version: post(key="{key}", text="…")'
    type_ = next(type_ for type_, letter in LETTERS.items() if id_.startswith(letter))
    call = f'post(edges={{"supersedes": ["{id_}"]}}, type="{type_}", text="…")'
    return f"goes when its author posts it anew on other grounds: {call}"


def became(item: Item) -> str:
    """Returns how an item ended: `superseded by F-9, refuted by F-2` or `adopted in P-3`; empty where it did
    not.
    """
    told = [
        f"{'superseded' if contest.kind is EdgeKind.SUPERSEDES else 'refuted'} by {contest.by}"
        for contest in item.contested
        if contest.agreed
    ]
    if item.adopted_in is not None:
        told.append(f"adopted in {item.adopted_in}")
    if item.former and item.replaced_by is None:
        told.append(f"newest of {item.former + 1}")
    return ", ".join(told[-CONTESTS_SHOWN:])


def fate(outcome: str, to: str = "", author: str = "", then: str = "") -> str:
    """Returns how a claim ended: `falls`, `falls, replaced by F-9 of bob` or `amended to F-9 of bob`,
    followed by `then`.

    `to` is the id of the item that took its place, `author` that item's author.
    """
    if not to:
        return outcome
    by = f" of {word(author)}" if author else ""
    return (
        f"amended to {to}{by}{then}"
        if outcome == Outcome.AMENDED
        else f"{outcome}, replaced by {to}{by}{then}"
    )


def favour(to: str, author: str = "", then: str = "") -> str:
    """Returns the item for which another was conceded: ` in favour of F-9 of bob`; empty if `to` is empty."""
    return f" in favour of {to}{f' of {word(author)}' if author else ''}{then}" if to else ""


def ended(item: Item) -> str:
    """Returns how an item fell: `falls, replaced by F-9`, `amended to F-9` or `conceded in favour of F-9`."""
    if item.debate == DebateState.CONSENSUS and item.outcome == Outcome.FALLS:
        return f"conceded{favour(item.gave_way_to, then=successor(item))}"
    return fate(item.outcome, item.gave_way_to, then=successor(item))


def successor(item: Item) -> str:
    """Returns how the item that took this one's place ended: `, then replaced by F-14` or `, which fell too`; empty
    where it stands.
    """
    if item.led_to:
        return f", then replaced by {item.led_to}{', which fell too' if item.successor_fell else ''}"
    return ", which fell too" if item.successor_fell else ""


def claims(item: Item, most: int) -> str:
    """Returns open claims to supersede or refute the item, at most `most` of them; empty without any.

    A claim is open until the item's author agrees.
    """
    listed = [contest for contest in item.contested if not contest.agreed]
    told = [
        f"{contest.by} by {word(contest.author)} "
        f"{'claims to supersede' if contest.kind is EdgeKind.SUPERSEDES else 'disputes'} it"
        for contest in listed[:most]
    ]
    return f"{', '.join(told)}{_more(listed, most)}"


def agreement_line(agreement: Agreement) -> str:
    """Returns the state of an agreement: `agreed: ana, ben; waits for coder; 2 suffice`, or once reached
    `agreed by ana, ben`.
    """

    def named(names: Sequence[str]) -> str:
        shown = ", ".join(map(word, names[:_AGREEING]))
        return shown + (f" +{len(names) - _AGREEING}" if len(names) > _AGREEING else "")

    if agreement.reached:
        told = [f"agreed by {named(agreement.agreed)}"]
    else:
        told = [f"agreed: {named(agreement.agreed)}" if agreement.agreed else "agreed: nobody yet"]
        if agreement.waiting:
            told.append(f"waits for {named(agreement.waiting)}")
        if agreement.enough:
            told.append(f"{agreement.enough} suffice{'s' if agreement.enough == 1 else ''}")
    if agreement.away:
        told.append(f"away: {named(agreement.away)}")
    return "; ".join(told)


TAGS_SHOWN = 5
_AGREEING = 8
CONTESTS_SHOWN = 2
EDGES_SHOWN = 5
_TYPES = {type_: type_.lower().replace("_", " ") for type_ in ItemType}


def _more(things: Sequence[object], shown: int) -> str:
    return f" +{len(things) - shown}" if len(things) > shown else ""


def cited(item: Item, target: str) -> str:
    """Returns the id of something that the item cites, and what became of that since."""
    if target in item.fell:
        return f"{target} ({target} stands no more)"
    later = next((one for one in item.newer if one.partition("@")[0] == target), "")
    return f"{target} ({later} is newer)" if later else target


def _edges(item: Item) -> str:
    edges = item.cites or tuple((edge.kind, str(edge.target)) for edge in item.edges)
    told: dict[str, list[str]] = {}
    for kind, target in edges[:EDGES_SHOWN]:
        told.setdefault(kind, []).append(cited(item, target))
    said = ", ".join(f"{kind} {' '.join(targets)}" for kind, targets in told.items())
    return said + _more(edges, EDGES_SHOWN)


def item_line(
    item: Item, now: datetime | None, width: int = 160, *, tokenizer: Tokenizer | None = None
) -> str:
    """Returns one line for an item: the words of `head`, a colon, and the start of its text.

    `width` bounds the text, in tokens of `tokenizer`, or in characters when none is given.
    """
    text = clip(item.text, width) if tokenizer is None else excerpt(item.text, width, tokenizer)
    return f"{head(item, now)}: {text}" if text else head(item, now)


def named(path: str) -> str:
    """Returns a path as answers show it: in quotation marks if it has spaces, as it may imitate a line of ours."""
    return f'"{visible(path)}"' if " " in path else visible(path)
