"""All calls to a board for programs: the same answers and errors in-process and over MCP."""

from __future__ import annotations

from .asking import Asks
from .debates import Debates
from .following import Follows
from .groups import Groups
from .items import Items
from .stewards import Stewards
from .transactions import Transacts


class BoardAccess(Items, Transacts, Debates, Follows, Groups, Asks, Stewards):
    """One agent's access to one board; `Board` and `BoardClient` are the two kinds.

    `agent` and `name` say whose and which; `seq` is the board's sequence as the last answer told it.
    Everything answered is a frozen value. Errors are those of `blackboard_mcp.protocols.errors`; after one
    nothing was changed. Every call may be cancelled: it then happened whole or not at all.
    """
