"""The tool `debate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, get_args

from blackboard_mcp.protocols.answers import (
    DebateView,
)
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import Item, ItemType, Zone, parse_ref
from blackboard_mcp.protocols.late_models import debate_wire
from blackboard_mcp.protocols.literals import OutcomeName
from blackboard_mcp.protocols.pruning import may_return
from blackboard_mcp.protocols.sightings import Readership
from blackboard_mcp.protocols.topics import MAX_TOPIC, is_topic
from blackboard_mcp.protocols.workspace import Revision
from pydantic import BeforeValidator, Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.explanations import way_back
from ..answers.readers import by_author
from ..answers.rendering import Rendering
from ..input import posts
from ..input.arguments import UNLISTED
from ..input.debates import DebateOp, one_of
from ..text.debates import awaited, watching, what_closes, withdrawn_line
from ..text.lines import agreement_line, became, word
from ..usecases.blackboard import Blackboard
from .tool import Answer, Caller, ToolSet

ItemOrTopic = Annotated[str, Field(max_length=MAX_TOPIC)]
Watchers = Annotated[
    list[Annotated[str, Field(max_length=64)]], Field(max_length=32, json_schema_extra={UNLISTED: True})
]
Reason = Annotated[str, Field(max_length=2_000)]
Op = Annotated[
    DebateOp,
    BeforeValidator(one_of(get_args(DebateOp))),
    WithJsonSchema({"type": "string", "enum": ["agree", *get_args(DebateOp)]}),
]
BoardId = Annotated[str, Field(max_length=64)]
Outcome = Annotated[OutcomeName, WithJsonSchema({"type": "string", "maxLength": 16})]
"""Outcome of a decision. The tool's description lists the values; a list in the schema would cost tokens
again.
"""


class DebateTool:
    """The tool for debates on one item and for standing watches by topic."""

    def __init__(self, board: Blackboard, rendering: Rendering) -> None:
        self._board = board
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `debate`."""
        tools.add(
            self.debate,
            name="debate",
            title="Debate an item",
            description=(
                "agree: to a DECISION that asks you; or that answers settle a debate, its item stands "
                "(acknowledge). concede: your item, criticised or not, falls, or gives way `to` another item "
                "(amended, if that is yours too). withdraw: your CRITIQUE. decide a debate: outcome stands, falls or "
                "amended; reason. confirm: another's. open: without a CRITIQUE. vote: where a quorum closes. "
                "status: who is missing. watch: id or topic (key:plan:**, tag:db)."
            ),
            needs=TOOLS["debate"],
            quick=True,
            output=lambda: debate_wire.DebateResult,
        )

    async def debate(
        self,
        caller: Caller,
        op: Op,
        id: ItemOrTopic,
        reason: Reason = "",
        watchers: Watchers | None = None,
        approve: bool | None = None,
        outcome: Outcome | None = None,
        to: Annotated[str, Field(max_length=40)] | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Carries out the operation `op` on an item, a debate or a topic."""
        posts.check_text(reason)
        if is_topic(id) and op in ("watch", "unwatch", "status") and not watchers and approve is None:
            once_key = None if op == "status" else caller.once_key
            held, seq, attention = await self._board.watch_topic(
                caller.agent, board, op, id, once_key=once_key
            )
            text = self._say.with_footer(watching(held), seq, attention)
            return Answer(
                text, lambda: debate_wire.WatchesAnswer(watches=[watch.topic for watch in held], seq=seq)
            )
        name, state = await self._board.debate(
            caller.agent,
            board,
            op,
            id,
            reason=reason,
            watchers=watchers or (),
            approve=approve,
            outcome=outcome,
            to=to,
            once_key=None if op == "status" else caller.once_key,
        )
        if isinstance(state, DebateView):
            number = parse_ref(id).number
            item = state.items[number].id if number in state.items else id
            seen = await self._board.last_seen(name, awaited(state)) if op == "status" else None
            presence = await self._board.presence(name) if seen else 0
            readers = await self._readers(caller.agent, name, state) if op == "status" else {}
            first = withdrawn_line(state, number, caller.agent) if op == "withdraw" else ""
            newer = await self._newer(name, state.root, op)
            if newer:
                first = "\n".join(_newer_lines(state.root.id, newer))
            say = self._say.by(self._board.tokenizers.on(name))
            return Answer(
                lambda: say.debate(
                    *(state, caller.agent),
                    first=first,
                    seen=seen,
                    readers=readers,
                    presence=presence,
                    deciders=self._board.deciders,
                ),
                lambda: debate_wire.wire_debate(
                    *(item, state.debate, state.items, state.seq),
                    tally=state.tally,
                    closes=what_closes(state, self._board.deciders),
                    last_seen=seen,
                    seen_by_author={
                        state.items[n].id: one is not None for n, one in by_author(state, readers).items()
                    },
                    newer=_wire(newer),
                ),
            )
        return await self._undebated(caller, name, state, op)

    async def _newer(self, board: str, item: Item, op: str) -> list[tuple[Revision, int]]:
        """Returns newer revisions of files that an item names to which the agent agrees."""
        return await self._board.newer_files(board, item.text) if op == "acknowledge" else []

    async def _readers(self, agent: str, board: str, view: DebateView) -> dict[int, Readership]:
        """Returns who was shown the critiques without an answer.

        Returns nothing for the author of the debated item, and where the server is its author.
        """
        if view.root.author in (agent, SYSTEM) or view.debate.state is not DebateState.OPEN:
            return {}
        return await self._board.readers(agent, board, [n for n in view.debate.unanswered if n in view.items])

    async def _undebated(self, caller: Caller, name: str, item: Item, op: str) -> Answer:
        attention, seq = await self._board.attention(caller.agent, name)
        backed = f", backed by {', '.join(map(word, item.supporters[:5]))}" if item.supporters else ""
        if item.zone is Zone.ARCHIVE:
            found = await self._board.store.find_board(name)
            assert found is not None
            fits = may_return(found.config, found.working_tokens, item.tokens, item.importance)
            backed += f", archived ({way_back(item, too_large=not fits, lifecycle=found.lifecycle)})"
        text = {
            "watch": f"you watch {item.id}: it stays on the board until you "
            f'debate(op="acknowledge", id="{item.id}")',
            "unwatch": f"you no longer watch {item.id}",
            "acknowledge": f"you have seen {item.id} and watch it no more",
            "withdraw": f"{item.id} {item.status}; no debate was open on it",
        }.get(
            op,
            f"{item.id} was never debated{backed}: a CRITIQUE objects, an item with edges supports backs it",
        )
        if op == "status" and item.type is ItemType.QUESTION:
            text += f'; read(ids=["{item.id}"]) says for whom it waits'
        if item.agreement is not None and op in ("acknowledge", "status"):
            agreed = caller.agent in item.agreement.agreed and op == "acknowledge"
            text = f"{f'you agree to {item.id}' if agreed else item.id}: {agreement_line(item.agreement)}"
            if item.agreement.reached:
                text += "; settled: nobody is missing, and its author counts as agreeing"
            if ended := became(item):
                text += f"; {ended}"
            if op == "status" and not item.agreement.reached and item.agreement.waiting:
                seen = await self._board.last_seen(name, item.agreement.waiting)
                presence = await self._board.presence(name)
                text += f"\n{self._say.last_seen(item.agreement.waiting, seen, presence)}"
        newer = await self._newer(name, item, op)
        text = "\n".join([text, *_newer_lines(item.id, newer)])
        return Answer(
            self._say.with_footer(text, seq, attention),
            lambda: debate_wire.DebateAnswer(item=item.id, state=None, newer=_wire(newer), seq=seq),
        )


def _newer_lines(id_: str, newer: Sequence[tuple[Revision, int]]) -> list[str]:
    if not newer:
        return []
    from ..answers.artifacts import newer_lines

    return newer_lines(id_, newer)


def _wire(newer: Sequence[tuple[Revision, int]]) -> list[str]:
    return [f"{last.path} rev {last.number}" for last, _ in newer]
