"""The state of a database, as the connections of this process last found it."""

from __future__ import annotations

from dataclasses import dataclass

from blackboard_mcp.storage.trouble import Trouble

AWAY = Trouble("stopped", "The database cannot be reached.")


@dataclass(slots=True)
class Standing:
    """The state of a database, shared by those who write to it and those who listen.

    Attributes:
        pulse: the number of commits that this process made or learned of last.
        trouble: the reason why it does not write; `None` if it does.
        outdated: the error for each call, once a newer version of the product has migrated the schema.
        closing: whether this process is about to end its connections.
    """

    pulse: int = 0
    trouble: Trouble | None = None
    outdated: BaseException | None = None
    closing: bool = False
