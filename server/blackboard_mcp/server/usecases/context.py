"""The context of a piece of work for one agent: rules, hot issues, decisions, dead ends, own work, what is relevant.

Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, zip_longest

from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.values import dataclass

from ..input.posts import check_text
from ..input.queries import archive_query
from ..limits.turns import in_thread
from ..views.context import Context, Found, relevant_live, render_context
from ..views.standing import Standing
from .blackboard import Blackboard

_HITS = 10


@dataclass(frozen=True, slots=True)
class Given:
    """A context, the revision of the rules in it, and what waits for the agent."""

    context: Context
    revision: int
    seq: int
    attention: Attention


class Contexts:
    """The use case of an agent that begins a piece of work."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def context(
        self, agent: str, board: str | None, query: str = "", budget: int = 0, path: str = ""
    ) -> Given:
        """Returns the context for `query`, and for work on a file at `path`, in at most `budget` tokens.

        The rules in it count as shown to the agent.

        Raises:
            Refused: the parts that are never cut need more tokens.
        """
        check_text(query)
        check_text(path)
        name = await self._board.board_of(board, agent)
        store = self._board.store
        snapshot = await store.snapshot(name, agent, look=self._board.looks.of(name, agent))
        book = await store.rules(name, agent)
        faulted = []
        if self._board.claims:
            faulted = [t for t in (await store.agenda(name, agent)).tasks if t.state is TaskState.FAULTED]
        wanted = " ".join(filter(None, (query.strip(), path.strip())))
        archived: list[Found] = []
        if wanted:
            index, words = archive_query(
                text=wanted,
                type=None,
                tags=None,
                author=None,
                after=None,
                before=None,
                limit=_HITS,
                thread=None,
            )
            found, _, _ = await self._board.search(agent, name, index, words, restore=False)
            if not found.notice:
                archived = [Found(item, f"archived, {found.mode}") for item in found.items]
        standing = Standing(snapshot, agent)
        live = await in_thread(partial(relevant_live, standing, wanted))
        both = zip_longest(live, archived)
        render = partial(
            render_context,
            standing,
            book,
            faulted=faulted,
            owed=snapshot.attention.owed,
            relevant=[one for one in chain.from_iterable(both) if one is not None],
            budget=budget,
            tokenizer=self._board.tokenizers.on(name),
        )
        context = await in_thread(render)
        await self._board.rules.saw(name, agent, book.revision)
        shown = [
            parse_ref(id_).number
            for id_, part in context.entries
            if part not in ("yours",) and id_[:2] != "T-"
        ]
        attention, seq = await self._board.attention(agent, name, items=shown, way=Way.CONTEXT)
        return Given(context, book.revision, seq, attention)
