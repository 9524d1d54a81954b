"""All calls to a board for programs: the same answers and errors in-process and over MCP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from blackboard_mcp.protocols.groups import LEASE_SECONDS, LEASES
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.literals import PostTypeName, TypeName

from .asking import Asks
from .calls import bounded
from .debates import Debates
from .following import Follows
from .groups import Groups
from .handing_over import HandsOver
from .handlers import F, Handlers, When
from .items import Items
from .models import M, ModelEntries
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
    HandsOver,
    Stewards,
):
    """One agent's access to one board; `Board` and `BoardClient` are the two kinds.

    `agent` is the agent's name, `name` the board's, and `seq` the board's highest sequence in any answer so
    far. All answers are frozen values. Errors are those of `blackboard_mcp.protocols.errors`; a call that
    raises one changed nothing. A cancelled call has applied either as a whole or not at all.
    """

    _collected: Handlers | None = None

    def handlers(
        self,
        group: str,
        *,
        workers: int = 4,
        lease_seconds: float = LEASE_SECONDS,
        seconds: float | None = None,
    ) -> Handlers:
        """Returns what runs handlers for the events that a consumer group shares out.

        `workers` (1 to 32) handle so many events at a time, and no more are fetched. A handler has `seconds` for each
        event, half of `lease_seconds` unless given. A server needs `--tools core,messages` for it.

        Raises:
            InvalidInput: a number is out of bounds.
        """
        half = bounded(lease_seconds, "lease_seconds", *LEASES) / 2
        given = half if seconds is None else bounded(seconds, "seconds", 0, lease_seconds)
        return Handlers(self, group, workers=workers, lease_seconds=lease_seconds, seconds=given)

    def handler(
        self,
        *,
        key: str | None = None,
        type: TypeName | ItemType | None = None,
        event: str | Sequence[str] | None = None,
        agent: str | None = None,
        tags: Sequence[str] = (),
        when: When | None = None,
    ) -> Callable[[F], F]:
        """Makes an async function a handler of the board's: `@board.handler(key="critique:*", type="CRITIQUE")`.

        It gets events that meet all that is given, while `handling` runs. `Handlers.handler` says what `when` is.

        Raises:
            InvalidInput: a part is not valid, or there are too many handlers.
        """
        if self._collected is None:
            self._collected = self.handlers("handlers")
        return self._collected.handler(key=key, type=type, event=event, agent=agent, tags=tags, when=when)

    def handling(
        self,
        group: str,
        *,
        workers: int = 4,
        lease_seconds: float = LEASE_SECONDS,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Runs the functions that `handler` made handlers, as a group: `async with board.handling("reviewers"):`.

        The arguments are those of `handlers`, the errors those of `Handlers.running`.
        """
        handlers = self.handlers(group, workers=workers, lease_seconds=lease_seconds, seconds=seconds)
        if self._collected is not None:
            handlers.take_over(self._collected)
        return handlers.running()

    def models(
        self,
        model: type[M],
        key: Callable[[M], str],
        *,
        pattern: str,
        type: PostTypeName | ItemType = "FACT",
    ) -> ModelEntries[M]:
        """Returns the entries that hold a pydantic model: `board.models(Sample, key_of, pattern="sample:*")`.

        `key` makes the key of each, under the glob `pattern`; new entries are of `type`.

        Raises:
            InvalidInput: the pattern is not a glob of keys.
        """
        return ModelEntries(self, model, key, pattern, type)
