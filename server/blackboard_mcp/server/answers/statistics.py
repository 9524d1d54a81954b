"""Statistics for programs: the agents on a board and how full it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.answers import (
    Statistics,
)
from blackboard_mcp.protocols.board import AgentInfo, Board
from blackboard_mcp.protocols.late_models import board_wire
from blackboard_mcp.protocols.panels import PanelState

if TYPE_CHECKING:
    from ..usecases.growth import Growth


def panel(state: PanelState) -> dict[str, Any]:
    """Returns a panel as JSON values."""
    return {
        "name": state.panel.name,
        "about": state.panel.about,
        "writers": list(state.panel.writers),
        "live": state.items,
        "version": state.version,
    }


def agents(listed: Sequence[AgentInfo]) -> dict[str, Any]:
    """Returns the agents of a board as JSON values; times are in ISO 8601."""
    return {
        "agents": [
            {
                "name": agent.name,
                "posts": agent.posts,
                "first_seen": agent.first_seen.isoformat(),
                "last_seen": agent.last_seen.isoformat(),
            }
            for agent in listed
        ]
    }


def boards(listed: Iterable[tuple[str, Board | None]], default: str) -> dict[str, Any]:
    """Returns boards as JSON values: id, title, lifecycle, and whether it is the default board.

    `listed` holds pairs of name and state; a board that does not exist yet has the state `None`.
    """
    return {
        "boards": [
            {
                "id": name,
                "title": "" if board is None else board.title,
                "lifecycle": None if board is None else str(board.lifecycle),
                "default": name == default,
            }
            for name, board in listed
        ]
    }


def statistics(figures: Statistics, growth: Growth | None = None) -> board_wire.StatisticsAnswer:
    """Returns a board's statistics as a structured answer, limited to what the agent may see.

    `growth` is given only where the caller may see how the server's disk fills.
    """
    state, config = figures.board, figures.board.config
    by_zone: dict[str, dict[str, int]] = {}
    by_type: dict[str, int] = {}
    for (zone, type_, _status), (items, tokens) in figures.counts.items():
        place = by_zone.setdefault(zone, {"items": 0, "tokens": 0})
        place["items"] += items
        place["tokens"] += tokens
        if zone == "working":
            by_type[type_] = by_type.get(type_, 0) + items
    nothing = {"items": 0, "tokens": 0}
    working, archived = by_zone.get("working", nothing), by_zone.get("archive", nothing)
    return board_wire.StatisticsAnswer(
        board=state.id,
        title=state.title,
        lifecycle=str(state.lifecycle),
        seq=state.seq,
        created_at=state.created_at,
        working_items=working["items"],
        working_tokens=working["tokens"],
        archived_items=archived["items"],
        target_tokens=config.target_tokens,
        high_water_tokens=config.high_tokens,
        low_water_tokens=config.low_tokens,
        protected_items=figures.protected_items,
        protected_tokens=figures.protected_tokens,
        open_debates=figures.open_debates,
        waiting_for_index=figures.waiting_for_index,
        visible={zone: board_wire.ZoneFigures(**place) for zone, place in by_zone.items()},
        working_by_type=by_type,
        tokenizer=config.tokenizer,
        stored_bytes=figures.stored_bytes,
        owner_bytes=config.owner_bytes,
        board_bytes=config.board_bytes,
        growth=None if growth is None else _growth(growth),
    )


def _growth(growth: Growth) -> board_wire.WireGrowth:
    a_day = growth.database_bytes + growth.index_bytes
    return board_wire.WireGrowth(
        bytes_a_day=int(float(f"{a_day:.2g}")),
        free_bytes=growth.free_bytes,
        days_left=None if growth.stops_at is None else growth.free_bytes // max(1, a_day),
        stops_on=None if growth.stops_at is None else growth.stops_at.date(),
    )
