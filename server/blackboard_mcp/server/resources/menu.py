"""The menus of clients: the resources of each board that a caller may read, and the list of all boards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ..access.needs import NOTHING
from ..answers.statistics import boards
from ..mcp.resources import Listed
from ..mcp.server import BoardServer
from ..text.lines import one_line, visible_json
from ..tools.tool import Caller
from ..usecases.blackboard import Blackboard

BOARDS: Final = "boards://all"
_MENU: Final = 20
"""The most boards whose resources a menu lists; the resource `BOARDS` names them all."""
_SECTIONS: Final = (
    ("working", "what is live", "Live items, newest first"),
    ("threads", "conversations", "Conversations and debates"),
    ("constraints", "constraints", "Active constraints, verbatim"),
    ("hot-issues", "hot issues", "Open hot issues, verbatim"),
    ("answer", "the answer so far", "The newest ANSWER"),
)


class Menu:
    """Lists the boards, and resources of them, that a caller may read."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    def register(self, server: BoardServer) -> None:
        """Adds the menu and the list of boards to a server."""
        server.on_list(self.listed)
        for json_ in (False, True):
            server.resource(
                f"{BOARDS}{'.json' if json_ else ''}",
                self._all_as_json if json_ else self._all,
                name=f"boards{'-json' if json_ else ''}",
                description="The boards that you may read, and how each is called in calls (board=…)",
                mime_type="application/json" if json_ else "text/markdown",
                needs=NOTHING,
                by_reader=True,
            )

    async def listed(self, caller: Caller) -> Sequence[Listed]:
        """Returns the resources of the first `_MENU` boards that the caller may read: its view and the main sections.

        Titles of boards are left out, because agents write them.
        """
        found: list[Listed] = []
        for name, _ in await self._board.rights.readable(caller.principal, _MENU):
            found.append(
                Listed(
                    f"board://{name}/view/{caller.agent}",
                    f"{name} view",
                    f"{name}: your view",
                    f"The board {name} as {caller.agent} sees it, within 1,500 tokens",
                )
            )
            found += [
                Listed(
                    f"board://{name}/{path}",
                    f"{name} {path}",
                    f"{name}: {title}",
                    f"{about}, on board {name}",
                )
                for path, title, about in _SECTIONS
            ]
        return found

    async def _all(self, caller: Caller) -> str:
        lines = []
        default = self._board.rights.default_board(caller.principal)
        for name, board in await self._board.rights.readable(caller.principal):
            said = [name]
            if board is not None and board.title and board.title != name:
                said.append(one_line(board.title))
            said.append("no posts yet" if board is None else str(board.lifecycle))
            said += ["the board of calls that name none"] if name == default else []
            lines.append(" · ".join(said))
        return "\n".join(lines) or "no boards that you may read"

    async def _all_as_json(self, caller: Caller) -> str:
        default = self._board.rights.default_board(caller.principal)
        facts = boards(await self._board.rights.readable(caller.principal), default)
        return visible_json(json.dumps(facts, ensure_ascii=False, separators=(",", ":")))
