"""The outcome of a claim in a sentence: whether it stands, falls, was amended or is open, by whom and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.items import EdgeKind, Item
from blackboard_mcp.protocols.summaries import Ending

from ...text.lines import clip, fate, one_line, word
from .checks import VOID, all_numbers, markup
from .sentences import ID, numbers

_REASON = 160
"""Most characters of a reason that is quoted."""
_CRITICS = 3


def endings_in_words(members: Sequence[Item], endings: Mapping[int, Ending]) -> dict[int, str]:
    """Returns a sentence for each item whose debate ended or that was withdrawn, by item number.

    The outcome of a critique is told with the claim that it was about.
    """
    said: dict[int, str] = {}
    for item in members:
        ending = endings.get(item.number)
        if ending is not None:
            said[item.number] = _ending(item, ending, members)
        elif item.status in VOID and not _aims(item, members):
            said[item.number] = f"{str(item.status).capitalize()}."
    return said


def critics(item: Item, ending: Ending | None, members: Sequence[Item]) -> list[Item]:
    """Returns the thread's items that criticised this one in the debate that ended."""
    named = () if ending is None else ending.critiques
    return [member for member in members if member.id in named and member is not item]


def _ending(item: Item, ending: Ending, members: Sequence[Item]) -> str:
    authors = {member.id: word(member.author) for member in members}
    by = word(ending.by)
    after = " and ".join(
        f"{id_} by {authors[id_]}" if id_ in authors else id_ for id_ in ending.critiques[:_CRITICS]
    )
    why = _quoted(ending.reason, members)
    told = fate(ending.outcome, ending.gave_way_to or "", ending.successor_by)
    became = told[:1].upper() + told[1:]
    match ending.outcome:
        case "falls" if ending.by == item.author:
            return f"{became}: {by} conceded{f' to {after}' if after else ''}{why}."
        case "falls":
            return f"{became}: {_how(ending, by)}{why}{f', after {after}' if after else ''}."
        case "amended":
            return f"{became}: {_how(ending, by)}{why}."
        case "stands" if ending.state is DebateState.WITHDRAWN:
            return (
                f"Stands: {after or by} withdrawn{why}."
                if after
                else f"Stands: {by} withdrew the critique{why}."
            )
        case "stands":
            return f"Stands: {_how(ending, by)}{why}{f', against {after}' if after else ''}."
        case _:
            return f"Still open: nobody settled {after or 'it'}."


def _how(ending: Ending, by: str) -> str:
    return f"decided by {by}" if ending.state is DebateState.DECIDED else f"agreed, last by {by}"


def _quoted(reason: str, members: Sequence[Item]) -> str:
    """Returns the reason in quotation marks; empty when it has a number, an id or markup that no source has."""
    text = clip(one_line(reason).replace('"', "'"), _REASON)
    if not text or markup(text) is not None or ID.search(text):
        return ""
    whole = "\n".join(f"{member.author} {member.text}" for member in members)
    return f' ("{text}")' if all_numbers(whole).issuperset(numbers(text)) else ""


def _aims(item: Item, members: Sequence[Item]) -> bool:
    there = {member.number for member in members}
    return any(e.kind is EdgeKind.CRITIQUES and e.target in there for e in item.edges)
