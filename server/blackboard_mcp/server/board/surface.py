"""All calls to a board for programs: the same answers and errors in-process and over MCP."""

from __future__ import annotations

from .asking import Asks
from .debates import Debates
from .following import Follows
from .groups import Groups
from .items import Items
from .participants import Participates
from .rules import KeepsRules
from .runs import TakesTurns
from .stewards import Stewards
from .tasks import Plans
from .transactions import Transacts
from .workspace import WritesFiles


class BoardAccess(
    Items,
    Transacts,
    Debates,
    Follows,
    Groups,
    Asks,
    Participates,
    TakesTurns,
    Plans,
    KeepsRules,
    WritesFiles,
    Stewards,
):
    """One agent's access to one board; `Board` and `BoardClient` are the two kinds.

    `agent` is the agent's name, `name` the board's, and `seq` the board's highest sequence in any answer so
    far. All answers are frozen values. Errors are those of `blackboard_mcp.protocols.errors`; a call that
    raises one changed nothing. A cancelled call has applied either as a whole or not at all.
    """
