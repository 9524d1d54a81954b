"""The context of a piece of work for one agent: rules, hot issues, decisions, dead ends, own work, what is relevant.

Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.items import FALLEN, Item, parse_ref
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import check_path

from ..background import heeded
from ..input.posts import check_text
from ..input.queries import archive_query
from ..limits.turns import in_thread
from ..text.lines import clip, in_quotes, named
from ..views.context import (
    FINDINGS,
    Context,
    Found,
    FoundPart,
    against,
    dead_ends,
    relevant_live,
    render_context,
)
from ..views.standing import Standing
from .blackboard import Blackboard

if TYPE_CHECKING:
    from blackboard_mcp.storage.workspace.search import ArtifactHit

    from .workspace import Workspace

_HITS = 10
_PAST: Final = 10
"""Most dead ends out of working memory."""
_PARTS: Final = 4
_LINE: Final = 160
_PATIENCE: Final = 2.0
"""Seconds that a context waits for the files of a board to be read for the first time."""


@dataclass(frozen=True, slots=True)
class Given:
    """A context, the revision of the rules in it, and what waits for the agent."""

    context: Context
    revision: int
    seq: int
    attention: Attention


class Contexts:
    """The use case of an agent that begins a piece of work. `files` are searched as well."""

    def __init__(self, board: Blackboard, files: Workspace | None = None) -> None:
        self._board = board
        self._files = files
        self._reading: set[asyncio.Task[Sequence[ArtifactHit]]] = set()

    async def context(
        self, agent: str, board: str | None, query: str = "", budget: int = 0, path: str = ""
    ) -> Given:
        """Returns the context for `query`, and for work on a file at `path`, in at most `budget` tokens.

        The rules in it count as shown to the agent.

        Raises:
            InvalidInput: no file may have this path.
            Refused: the parts that are never cut need more tokens.
        """
        check_text(query)
        path = check_path(path.strip().removesuffix("/")) if path.strip() else ""
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
                zone="archive",
            )
            found, _, _ = await self._board.search(agent, name, index, words, restore=False)
            if not found.far:
                archived = [Found(item, f"archived, {found.mode}") for item in found.items]
        standing = Standing(snapshot, agent)
        past = await self._past(name, agent, [one.item for one in archived])
        reasons = {id_ for item in (*dead_ends(standing), *past) if (id_ := against(item))}
        said = (
            await store.read(name, agent, [parse_ref(id_) for id_ in sorted(reasons)], [])
            if reasons
            else None
        )
        live = await in_thread(partial(relevant_live, standing, wanted))
        parts = await self._parts(name, wanted)
        found_so = zip_longest(live, archived, parts)
        render = partial(
            render_context,
            standing,
            book,
            faulted=faulted,
            owed=snapshot.attention.owed,
            relevant=[one for one in chain.from_iterable(found_so) if one is not None],
            budget=budget,
            tokenizer=self._board.tokenizers.on(name),
            past=past,
            said={item.id: item.text for item in said.items} if said else {},
        )
        context = await in_thread(render)
        await self._board.rules.saw(name, agent, book.revision)
        no_items = {one.id for one in parts} | {rule.id for rule in book.rules if not rule.number}
        shown = [
            parse_ref(id_).number
            for id_, part in context.entries
            if part != "yours" and id_[:2] != "T-" and id_ not in no_items
        ]
        attention, seq = await self._board.attention(agent, name, items=shown, way=Way.CONTEXT)
        return Given(context, book.revision, seq, attention)

    async def _past(self, board: str, agent: str, near: Sequence[Item]) -> list[Item]:
        """Returns findings that fell and left working memory: those near what is wanted, then the newest."""
        newest = await self._board.store.fallen(board, agent, _PAST)
        wanted = [parse_ref(str(number)) for number in newest]
        items = (await self._board.store.read(board, agent, wanted, [])).items if wanted else ()
        by_number = {item.number: item for item in items}
        found = [item for item in near if item.status in FALLEN and item.type in FINDINGS]
        found = found[: _PAST // 2] + [by_number[number] for number in newest if number in by_number]
        return list({item.number: item for item in found}.values())[:_PAST]

    async def _parts(self, board: str, wanted: str) -> list[FoundPart]:
        """Returns parts of files about what is wanted; none while the files are still being read for the first time."""
        if self._files is None or not wanted:
            return []
        task = asyncio.create_task(self._files.parts(board, wanted, _PARTS))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        task.add_done_callback(heeded)
        await asyncio.wait({task}, timeout=_PATIENCE)
        if not task.done():
            return []
        found = []
        for hit in task.result():
            path, chunk = hit.revision.path, hit.chunk
            title = f" {in_quotes(chunk.title)}" if chunk.title else ""
            lead = f"{named(path)} {chunk.start}-{chunk.end}{title} (file, rev {hit.revision.number})"
            found.append(FoundPart(f"{path}:{chunk.start}-{chunk.end}", f"{lead}: {clip(hit.text, _LINE)}"))
        return found
