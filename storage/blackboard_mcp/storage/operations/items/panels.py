"""Panels: which one a draft is for, and whether its author may write there; and how panels stand."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace

from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import MAX_TAGS, Draft
from blackboard_mcp.protocols.names import alike
from blackboard_mcp.protocols.panels import (
    EPISODIC,
    PANEL,
    WORKING,
    Panel,
    PanelState,
    panel_of,
    panels_of,
    writers_of,
)
from blackboard_mcp.protocols.read_rules import EVERYBODY, ROLE, reads
from blackboard_mcp.protocols.transactions import Name, NameKind

from ..ledger.ledger import Ledger, get_board
from ..ledger.principals import principals
from ..ledger.rows import BoardRow, ItemRow, Steps, sql


def placed(ledger: Ledger, draft: Draft, row: ItemRow | None) -> Steps[Draft]:
    """Returns the draft with the tag of its panel first; `row` is the item that it changes.

    Raises:
        InvalidInput: its tags name an unknown panel, several, or another than the item's.
        Refused: the agent does not write this panel.
    """
    told = [tag.removeprefix(PANEL) for tag in draft.tags or () if tag.startswith(PANEL)]
    for tag in draft.tags or ():
        if _looks_like_one(tag):
            raise InvalidInput(
                f"The tag '{tag[:40]}' looks like one of a panel, and those begin with '{PANEL}'. Nothing was changed; "
                "write it so, or another tag."
            )
    stands = "" if row is None else (yield from _where(ledger.no, row))
    if not told and not stands:
        return draft
    panels = panels_of(ledger.board.config.panels)
    for name in told:
        if not name or (name not in panels and name not in (WORKING, stands)):
            raise InvalidInput(_unknown(ledger.board, name, panels))
    if len(set(told)) > 1:
        raise InvalidInput(
            f"An item is in one panel, and the tags name {' and '.join(PANEL + name for name in told[:3])}. Nothing "
            "was changed; leave all but one out."
        )
    named = told[0] if told else stands
    if stands and named != stands:
        raise InvalidInput(
            f"{row.id if row is not None else 'It'} is in panel '{stands}', and an item stays in its panel. Nothing "
            f'was changed; post a new item with tags=["{PANEL}{named}"], and withdraw this one.'
        )
    if named in panels:
        yield from _admit(ledger, panels[named])
        if row is not None and not stands and row.author != ledger.agent and not ledger.steward:
            raise Refused(
                f"{row.id} is {row.author}'s: its author and stewards alone move it into a panel. Nothing was changed; "
                "post an item of your own there."
            )
    if draft.tags is None and (row is None or not row.deleted):
        return draft
    others = tuple(tag for tag in draft.tags or () if not tag.startswith(PANEL))
    tags = others if named == WORKING else (PANEL + named, *others)
    if len(tags) > MAX_TAGS:
        raise InvalidInput(
            f"An item has at most {MAX_TAGS} tags, and the first is its panel's. Nothing was changed."
        )
    return replace(draft, tags=tags)


def check_replacing(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Checks that the agent, who replaces an item of its own, writes the item's panel.

    Raises:
        Refused: it does not.
    """
    panel = panels_of(ledger.board.config.panels).get(panel_of(row.tag_list()))
    if panel is not None and row.author == ledger.agent:
        yield from _admit(ledger, panel)


def check_names(board: BoardRow, names: Mapping[str, Name]) -> None:
    """Checks that the board has the panels among the names of what was read.

    Raises:
        InvalidInput: it has not.
    """
    panels = panels_of(board.config.panels)
    for name in names.values():
        if name.kind is NameKind.PANEL and name.value not in panels:
            raise InvalidInput(_unknown(board, name.value, panels))


def _where(no: int, row: ItemRow) -> Steps[str]:
    """Returns the panel of an item; that of a deleted one is where it was before."""
    if row.deleted:
        from ..reading.items import at_version  # it needs this module, by way of the states of items

        former = yield from at_version(no, row, row.version - 1)
        return "" if former is None else panel_of(former.tag_list())
    return panel_of(row.tag_list())


def _looks_like_one(tag: str) -> bool:
    """Tells whether a tag may be taken for the tag of a panel without being one."""
    head, colon, _ = tag.partition(":")
    if not colon or head == PANEL[:-1] or len(head) > 2 * len(PANEL):
        return False
    return alike(unicodedata.normalize("NFKC", head).strip(), PANEL[:-1])


def may_stand_for(row: ItemRow, draft: Draft) -> bool:
    """Tells whether the item may stand for a draft that says the same: it is in the panel that the draft names, if any.

    The tag of the draft's panel is first.
    """
    return panel_of(draft.tags or ()) in ("", panel_of(row.tag_list()))


def panels(board: str, agent: str) -> Steps[tuple[PanelState, ...]]:
    """Returns the panels of a board but `working`, in the order of its settings, as the agent sees them.

    Raises:
        UnknownReference: the board does not exist.
    """
    row = yield from get_board(board)
    named = panels_of(row.config.panels)
    counts = yield from counted(row, agent)
    found = []
    for panel in named.values():
        ((last,),) = yield sql("panel_version"), (row.no, agent, panel.name)
        found.append(PanelState(panel, counts.get(panel.name, 0), last or 0))
    return tuple(found)


def counted(row: BoardRow, agent: str) -> Steps[dict[str, int]]:
    """Returns the number of items in working memory that the agent may see, by panel; no statement without panels."""
    if not row.config.panels:
        return {}
    found: dict[str, int] = dict((yield sql("panel_items"), (row.no, agent)))
    return {name: found.get(name, 0) for name in panels_of(row.config.panels)}


def _admit(ledger: Ledger, panel: Panel) -> Steps[None]:
    """Checks that the agent writes the panel: the server everywhere, stewards and writers all but `episodic`.

    Raises:
        Refused: it does not.
    """
    if ledger.agent == SYSTEM:
        return
    if panel.name == EPISODIC:
        raise Refused(
            f"The server alone writes panel '{EPISODIC}': what came to an end on the board. Nothing was changed; post "
            "without this tag."
        )
    if ledger.steward or EVERYBODY in panel.writers:
        return
    of = yield from principals(ledger.no, ledger.agent)
    if ROLE in of and ledger.role:
        of = (of - {ROLE}) | {ROLE + ledger.role}
    if reads(panel.writers, of):
        return
    raise Refused(
        f"Panel '{panel.name}' is read-only for {ledger.agent}: {writers_of(panel)} write it. Nothing was "
        "changed; post without this tag what you hold to be true, or a CRITIQUE of what stands there."
    )


def _unknown(board: BoardRow, name: str, panels: Iterable[str]) -> str:
    there = ", ".join((WORKING, *panels))
    how = f"a tag puts an item into one of {there}"
    if not board.config.panels:
        how = "tags that begin so are for panels, and this board has none; a steward names them with board()"
    return f"There is no panel '{name[:40]}' on board '{board.id}': {how}. Nothing was changed."
