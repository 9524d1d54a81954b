"""Sentences for events whose data alone would not explain them."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.events import Event, EventType

from ..text.lines import one_line, word

_TO_DO = {
    "respond": "answer it",
    "answer": "answer it",
    "agree": "agree to it",
    "confirm": "confirm a decision on it",
}
_NAMED = 8


def plainly(event: Event) -> str | None:
    """Returns a clause that says what happened, or `None` for an event whose data is clear enough."""
    said = event.data
    match event.event:
        case EventType.OBLIGATION_WAIVED if "watcher" in said:
            duty = str(said.get("duty", ""))
            why = f" ({one_line(str(said['reason']))})" if said.get("reason") else ""
            return f"{word(str(said['watcher']))} need not {_TO_DO.get(duty, f'{duty} it')} any more{why}"
        case EventType.ITEM_DOUBTED if said.get("rests_on"):
            return f"it rests on {_listed(said['rests_on'])}; look whether it still holds"
        case EventType.ITEM_FORGOTTEN:
            by, why = one_line(str(said.get("by"))), one_line(str(said.get("why")))
            return f"its text was removed for good by decision of {by}: {why}"
        case EventType.BOARD_RESTORED:
            return (
                f"it is a copy as of seq {said.get('after')}. What came after that elsewhere is not here, and its ids "
                "may name other things now: read() shows the board"
            )
        case EventType.AGREEMENT_GIVEN:
            return "agreed to it" + (f": {said['reason']}" if said.get("reason") else "")
        case EventType.AGREEMENT_REACHED if said.get("agreed"):
            return f"agreed by {_listed(said['agreed'])}"
        case EventType.AGREEMENT_ASKED if said.get("agents"):
            more = f" +{said['more']}" if said.get("more") else ""
            return f"asks {_listed(said['agents'])}{more} to agree"
    return None


def _listed(names: Iterable[object]) -> str:
    return ", ".join(one_line(str(name)) for name in list(names)[:_NAMED])
