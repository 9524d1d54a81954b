"""Views of invented boards, without a store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from blackboard_mcp.protocols.answers import Look, Snapshot
from blackboard_mcp.protocols.board import Board, BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.debates import Debate, DebateState, Duty, Obligation, ObligationState
from blackboard_mcp.protocols.items import Edge, EdgeKind, Item
from blackboard_mcp.server.text.tokens import BpeTokenizer
from blackboard_mcp.server.views import View, render_view

BPE = BpeTokenizer()
START = datetime(2026, 11, 21, 9, tzinfo=UTC)


def snapshot(*items: Item, core: Core | None = None, **more: Any) -> Snapshot:
    """Returns a board's snapshot with these items."""
    board = Board(
        "main", "main", None, Lifecycle.OPEN, BoardConfig(), core or Core(), 500, START, len(items), 9, 0
    )
    fields: dict[str, Any] = {"debates": (), "owed": (), **more}
    if "look" in more:
        fields["look"] = Look.of(more["look"])
    return Snapshot(board, items, **fields)


def view(there: Snapshot, budget: int = 1_500, agent: str = "alice") -> View:
    """Renders a view of a snapshot."""
    return render_view(there, agent=agent, budget=budget, tokenizer=BPE)


def line_of(shown: View, id_: str) -> str:
    """Returns the one line of a view that begins with an id."""
    found = [line for line in shown.text.split("\n") if line.startswith((f"{id_} ", f"{id_}@"))]
    assert len(found) == 1, shown.text
    return found[0]


def sections_of(shown: View) -> list[str]:
    """Returns the headings of a view, without their parentheses."""
    lines = shown.text.split("\n")
    headed = (line.partition(" (")[0].rstrip(":") for line in lines if line.endswith(":"))
    return [line for line in headed if line[1:2] != "-"]


def edges(source: int, **kinds: str) -> dict[str, Any]:
    """Returns the fields of an item that hold its edges, given by kind: `edges(5, refutes="F-1")`."""
    pairs = [(EdgeKind(kind), id_) for kind, ids in kinds.items() for id_ in ids.split()]
    return {
        "edges": tuple(Edge(source, kind, int(id_.partition("-")[2])) for kind, id_ in pairs),
        "cites": tuple(pairs),
    }


def debate(root: int, *critiques: int, **more: Any) -> Debate:
    """Returns an open debate about the item `root`."""
    fields: dict[str, Any] = {"state": DebateState.OPEN, "closed_by": None, "closed_at": None, "reason": ""}
    fields |= {"obligations": ()} | more
    return Debate(id=100 + root, root=root, opened_by="bob", opened_at=START, critiques=critiques, **fields)


def owes(
    agent: str, item: int, duty: Duty, state: ObligationState = ObligationState.OUTSTANDING
) -> Obligation:
    """Returns an agent's obligation."""
    return Obligation(agent, item, duty, state, 100, "", START)
