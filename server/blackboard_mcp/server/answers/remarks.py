"""Remarks in the answer to a post, such as repetitions, earlier critiques and claims that fell before."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from zlib import crc32

from blackboard_mcp.protocols.answers import Committed, Posted
from blackboard_mcp.protocols.asking import KEYS
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.findings import denies, numbers
from blackboard_mcp.protocols.items import (
    FINISHED,
    LETTERS,
    TRANSITIONS,
    EdgeKind,
    Item,
    ItemType,
    Status,
    Visibility,
    Zone,
)
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.names import called, is_reserved, mentions
from blackboard_mcp.protocols.pruning import is_too_large, may_return
from blackboard_mcp.protocols.remarks import Remark, RemarkKind

from ..input.agreement import asking
from ..input.posts import PostFields
from ..text.lines import clip, notices, solved, unmarked, word
from .explanations import restore_call

LEAST_ALIKE = 3
"""Fewest near-repetitions among the posts of one call that are remarked on."""
_ALIKE = 0.8
"""Share of common word pairs, from 0 to 1, at which two texts count as near-repetitions."""
_COMPARED = 500
"""Characters at the start of a text that are compared."""
_NAMED = 5
_EDGES = 20
_ASKED = 8
"""Most names in one question for which a remark is made."""
_WIDTH = 80
_DRAWN = 4
_KEPT = (ItemType.CONSTRAINT, ItemType.HOT_ISSUE)
"""Types that never leave while they stand."""
_WORDS = re.compile(r"\w+")

Pairs = frozenset[tuple[str, str]]
"""Set of the pairs of neighbouring words in a text."""


def remark_lines(done: Posted | Committed, agent: str) -> list[str]:
    """Returns one or more lines for each remark, then a line on near-repetitions.

    `agent` is the caller. The text of an item stands only at the end of a line.
    """
    lines: list[str] = []
    same: dict[str, list[Remark]] = {}
    for remark in done.remarks:
        if remark.kind is RemarkKind.SAME:
            same.setdefault(remark.about[0].id, []).append(remark)
        else:
            lines += _lines(remark, done.items[remark.place], agent)
    asked = {remark.place: remark.fields for remark in done.remarks if remark.kind is RemarkKind.ASKS}
    for place, item in enumerate(done.items):
        if missed := _not_reached(item, asked.get(place, ()), agent):
            lines.append(
                f"{item.id} does not ask {_some(missed)}, not on the board yet: to ask who comes later, write "
                f"{', '.join(f'@{name}' for name in missed[:_NAMED])}"
            )
    for item in done.items:
        if against := undebated(item):
            lines.append(
                f"{item.id} opens no debate on {', '.join(against[:_NAMED])}, since it is a {item.type}; this does: "
                f'post(type="CRITIQUE", edges={{"critiques": ["{against[0]}"]}}, text="…")'
            )
    alike = nearly_alike(done.items)
    if alike:
        named = ", ".join(item.id for item in alike[:_NAMED]) + (", …" if len(alike) > _NAMED else "")
        lines.append(
            f"{len(alike)} of {len(done.items)} nearly repeat each other: {named}; one item with all of it reads better"
        )
    return [_same(id_, listed) for id_, listed in same.items()] + lines


def edge_lines(items: Sequence[Item], given: Sequence[PostFields]) -> list[str]:
    """Returns a line for each existing item that the call gave edges, with all edges it has now.

    The line of an item that still rests on something retracted names the call that ends that. `given` are the posts in
    the order of `items`.
    """
    return [
        f"edges of {item.id} now: {', '.join(f'{kind} {id_}' for kind, id_ in item.cites[:_EDGES])}"
        f"{f' +{len(item.cites) - _EDGES}' if len(item.cites) > _EDGES else ''}; they are added, none is taken away"
        f"{f'; ⚠ {unmarked(item.id, item.key)}' if notices(item, 1) else ''}"
        for item, post in zip(items, given, strict=False)
        if post.edges and (post.id is not None or item.version > 1)
    ]


def archived_lines(board: Board | None, items: Sequence[Item], given: Sequence[PostFields]) -> list[str]:
    """Returns a line for each archived item that the call changed, with the call that restores it if that is possible.

    `given` are the posts in the order of `items`.
    """
    changed = [
        item for item, post in zip(items, given, strict=False) if post.id is not None or post.key is not None
    ]
    return [
        f"{item.id} is archived; {restore_call(item)} brings it back"
        if TRANSITIONS[item.status]
        and (board is None or may_return(board.config, board.working_tokens, item.tokens, item.importance))
        else f"{item.id} stays archived"
        for item in {item.number: item for item in changed}.values()
        if item.zone is Zone.ARCHIVE and not item.deleted
    ]


def large_lines(board: Board | None, items: Iterable[Item]) -> list[str]:
    """Returns a line for each item that is too large to stay on the board."""
    if board is None:
        return []
    when = "now" if board.pass_due else f"when room is made, from {board.config.high_tokens:,} tokens on"
    return [
        f"{item.id} is too large to stay ({item.tokens:,} tokens; {board.config.low_tokens:,} stay when room is made): "
        f'it goes to the archive {when}, where read(ids=["{item.id}"]) shows it. In parts, or as a file and its gist, '
        "it would stay"
        for item in {item.number: item for item in items}.values()
        if item.zone is Zone.WORKING and item.type not in _KEPT and item.status not in FINISHED
        if is_too_large(board.config, item.tokens, item.importance)
    ]


def asked_lines(items: Sequence[Item], given: Sequence[PostFields]) -> list[str]:
    """Returns a line for each existing item for which the call asked some agents to agree, while others that were
    asked before are still awaited.

    `given` are the posts in the order of `items`.
    """
    lines = []
    for item, post in zip(items, given, strict=False):
        if post.agree and post.id is not None and item.agreement is not None:
            still = [name for name in item.agreement.waiting if name not in post.agree]
            if still and not asking(post.agree).everybody:
                lines.append(
                    f"{_some(still)} was asked before and still is: whom you name is added, nobody is taken away"
                )
    return lines


def _same(id_: str, listed: Sequence[Remark]) -> str:
    times = f" ({len(listed)} times)" if len(listed) > 1 else ""
    fields = sorted({name for remark in listed for name in remark.fields})
    kept = f'; its {", ".join(fields)} stay as they are, post(id="{id_}", …) changes them' if fields else ""
    question, *answers = listed[0].about
    for answer in answers:
        if answer.author == question.author:
            how = f'post(id="{answer.id}", status="WITHDRAWN")'
            kept += f"; your own {answer.id} answered it, to ask it anew take that back: {how}"
        else:
            how = f'post(type="CRITIQUE", edges={{"critiques": ["{answer.id}"]}}, text="…")'
            kept += f"; {answer.id} answered it, to object: {how}"
    return f"same as {id_}{times}: you posted it before, nothing stored{kept}"


def _lines(remark: Remark, item: Item, agent: str) -> list[str]:
    first = remark.about[0]
    if remark.kind is RemarkKind.JOINED:
        return []  # the item's own line says it
    if remark.kind is RemarkKind.CRITICISED:
        more = f" (+{remark.more})" if remark.more else ""
        return [
            f'already criticised{more}, if {item.id} adds nothing: debate(op="withdraw", id="{item.id}")',
            *(_named(critique, agent) for critique in remark.about),
        ]
    if remark.kind is RemarkKind.OVER:
        return [
            f"{one.id} by {_who(one, agent)} is {one.status} already"
            + (
                f": {item.id} stays but opens no debate, and nothing more is needed"
                if item.type is ItemType.CRITIQUE
                else ""
            )
            for one in remark.about
        ]
    if remark.kind in (RemarkKind.FALLEN, RemarkKind.CLOSE):
        against = [id_ for kind, id_ in first.cited_by if kind in ("refutes", "critiques")]
        why = f" after {', '.join(against[:_NAMED])}" if against else ""
        back = f'post(id="{item.id}", status="WITHDRAWN")'
        if remark.kind is RemarkKind.FALLEN:
            fell = f"{first.id} by {_who(first, agent)}, which is {first.status}{why}"
            return [f"{item.id} repeats {fell}: say what is new, or {back}"]
        return [
            f"{item.id} comes close to {first.id}, which is {first.status}{why}: say what is new, or {back}",
            _named(first, agent),
        ]
    if remark.kind is RemarkKind.UNSEEN:
        return [f"not shown to you yet: {_named(one, agent)}" for one in remark.about]
    if remark.kind is RemarkKind.ASKS:
        return [_asks(item, remark.fields)]
    if remark.kind is RemarkKind.READS:
        one = len(remark.fields) == 1
        return [f"{_some(remark.fields)} {'observes' if one else 'observe'} only and cannot answer"]
    if remark.kind is RemarkKind.UNKNOWN:
        name, *there = map(word, remark.fields)
        return [f"{name} was never on this board{f', {there[0]} was' if there else ''}"]
    if remark.kind is RemarkKind.UNASKED:
        name = word(remark.fields[0])
        return [
            f'{item.id} does not ask {name}; this does: post(type="QUESTION", text="@{name} …", '
            f'edges={{"supersedes": ["{item.id}"]}})'
        ]
    if remark.kind is RemarkKind.SOLVES:
        open_ = [one.id for one in remark.about]
        return [f"{', '.join(open_)} stay{'' if len(open_) > 1 else 's'} open; {solved(open_)}"]
    if remark.kind is RemarkKind.ANSWERS:
        if first.status in (Status.WITHDRAWN, Status.INVALIDATED):
            return []
        if remark.fields:
            return [f"{first.id} waits for {_some(remark.fields)} still"]
        settles = item.type is ItemType.ANSWER or (
            item.type is ItemType.REPLY and item.author != first.author
        )
        if settles and first.status not in FINISHED and first.key and KEYS.parse(first.key):
            return [f"{first.id} is a request and stays open for those whom it asks"]
        if settles:
            return [f"{first.id} is answered"]
        if first.answered_by or first.status in FINISHED:
            how = f"answered by {first.answered_by}" if first.answered_by else "resolved"
            return [f"{first.id} is {how} already"]
        decides = item.type is ItemType.DECISION and item.agreement is None
        closes = f"; {solved([first.id])}" if decides else ""
        return [f"{first.id} stays open: an ANSWER settles it{closes}"]
    if remark.kind is RemarkKind.CLAIM:
        return [_claim(remark, item)]
    if denies(item.text, first.text):
        kind = "supersedes" if first.author == agent else "refutes"
        call = f'post(id="{item.id}", edges={{"{kind}": ["{first.id}"]}})'
        return [f"{item.id} denies this (is it wrong? {call}): {_named(first, agent)}"]
    if numbers(item.text) == numbers(first.text):
        return []
    newer = (
        f' (newer? post(id="{item.id}", edges={{"supersedes": ["{first.id}"]}}))'
        if first.author == agent
        else ""
    )
    return [f"{item.id} differs in numbers only{newer} from {_named(first, agent)}"]


def _asks(item: Item, names: Sequence[str]) -> str:
    """Returns a line on whose answers a question waits for, why where its text does not say so, and how it ends."""
    if len(names) == 1:
        about = [id_ for kind, id_ in item.cites if kind is EdgeKind.REPLIES_TO]
        unnamed = len(about) == 1 and names[0].casefold() not in item.text.casefold()
        whose = f", whose {about[0]} it replies to" if unnamed else ""
        return f"{item.id} asks {word(names[0])}{whose}: anybody's ANSWER settles it"
    enough = f'post(id="{item.id}", status="RESOLVED")'
    return f"{item.id} asks {_some(names)}, each for an answer of their own; enough known: {enough}"


def _not_reached(item: Item, asked: Sequence[str], agent: str) -> list[str]:
    """Returns the names that a question addresses but does not ask, because the board does not know them.

    A single word before a colon may be no name, so it counts only as the first, where the question asks nobody.
    """
    new = item.created_at == item.updated_at and item.visibility is Visibility.BOARD
    if not new or item.type is not ItemType.QUESTION or mentions(item.text):
        return []
    groups = enumerate(called(item.text))
    listed = [names for place, names in groups if len(names) > 1 or not (asked or place)]
    names = dict.fromkeys(name for names in listed for name in names)
    there = {*asked, agent}
    if len(names) > _ASKED:
        return []
    return [name for name in names if name not in there and not is_reserved(name)]


def undebated(item: Item) -> list[str]:
    """Returns the ids of items that a new item criticises without being a CRITIQUE, which alone opens a debate.

    To criticise a critique by a REPLY answers it.
    """
    if item.type is ItemType.CRITIQUE or item.created_at != item.updated_at:
        return []
    against = [id_ for kind, id_ in item.cites if kind is EdgeKind.CRITIQUES]
    return [id_ for id_ in against if id_[0] != LETTERS[ItemType.CRITIQUE]]


def _some(names: Sequence[str]) -> str:
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(map(word, names[:_NAMED])) + more


def _claim(remark: Remark, item: Item) -> str:
    targets = {about.number for about in remark.about}
    kinds = {edge.target: edge.kind for edge in item.edges if edge.target in targets}
    said = ", ".join(
        f"{'supersedes' if kinds.get(about.number) is EdgeKind.SUPERSEDES else 'refutes'} {about.id} by "
        f"{word(about.author)}"
        for about in remark.about[:_NAMED]
    )
    quiet = next((about.id for about in remark.about if about.debate is None), None)
    opens = (
        f'; to open one: post(type="CRITIQUE", edges={{"critiques": ["{quiet}"]}}, text="…")' if quiet else ""
    )
    return f"{item.id} {said}: your claim, shown there; it changes nothing until the author or a debate agrees{opens}"


def _named(item: Item, agent: str) -> str:
    if item.key is not None:
        return (
            f"{item.id}@{item.version} by {word(item.written_by or item.author)}: {clip(item.text, _WIDTH)}"
        )
    return f"{item.id} by {_who(item, agent)}: {clip(item.text, _WIDTH)}"


def _who(item: Item, agent: str) -> str:
    return "you" if item.author == agent else word(item.author)


def nearly_alike(items: Sequence[Item]) -> tuple[Item, ...]:
    """Returns the largest group of new items of one type that nearly repeat each other; numbers are not
    compared.

    Returns an empty tuple where the group has fewer than `LEAST_ALIKE` items. Logs and results are not
    compared, because they report what happened again and again.
    """
    new = [i for i in {item.number: item for item in items}.values() if i.key is None]
    listed = [(i, _pairs(i.text)) for i in new if i.type not in (ItemType.LOG, ItemType.RESULT)]
    best: list[Item] = []
    for group in _candidates(listed):
        first = group[0][1]
        alike = [item for item, said in group if _share(first, said) >= _ALIKE]
        if len(alike) > len(best):
            best = alike
    return tuple(best) if len(best) >= LEAST_ALIKE else ()


def _candidates(listed: Sequence[tuple[Item, Pairs]]) -> Iterable[Sequence[tuple[Item, Pairs]]]:
    """Returns groups of items of one type that share one of a few word pairs drawn from each text.

    Texts that are nearly alike very likely share a drawn pair, so only items of one group are compared.
    """
    groups: dict[tuple[str, int], list[tuple[Item, Pairs]]] = {}
    for item, said in listed:
        for drawn in heapq.nsmallest(_DRAWN, (crc32(" ".join(pair).encode()) for pair in said)):
            groups.setdefault((str(item.type), drawn), []).append((item, said))
    return groups.values()


def _pairs(text: str) -> Pairs:
    said = ("#" if w.isdigit() else w for w in _WORDS.findall(text[:_COMPARED].casefold()))
    return frozenset(pairwise(["", *said, ""]))


def _share(one: Pairs, other: Pairs) -> float:
    return len(one & other) / len(one | other)


def wire_remarks(done: Posted | Committed) -> list[wire.WireRemark]:
    """Returns the same remarks as models for programs."""
    listed = [
        wire.WireRemark(
            id=done.items[remark.place].id,
            kind=str(remark.kind),
            about=_ids(remark.about),
            more=remark.more,
            fields=list(remark.fields),
        )
        for remark in done.remarks
    ]
    listed += [
        wire.WireRemark(id=item.id, kind="undebated", about=against)
        for item in done.items
        if (against := undebated(item))
    ]
    alike = nearly_alike(done.items)
    if alike:
        listed.append(wire.WireRemark(id=alike[0].id, kind="near", about=_ids(alike[1:])))
    return listed


def _ids(items: Iterable[Item]) -> list[str]:
    return [item.id for item in items]
