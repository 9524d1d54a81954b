"""Use cases of stewards: the core, the board's settings and members, and a pruning pass on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.protocols.answers import (
    Once,
    Statistics,
)
from blackboard_mcp.protocols.board import Board, BoardChange, BoardConfig, Core, PassStep
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType, Visibility, Zone, item_id, parse_ref
from blackboard_mcp.protocols.late_models import board_wire
from blackboard_mcp.protocols.pruning import Move, PassOutcome, Plan, Workspace

from ..input.idempotency import once_of
from ..input.posts import check_agent, check_board, check_member, check_tags, check_text
from ..settings.boards import check_settings, said_settings
from .blackboard import Blackboard

MAX_CONSTRAINTS = 100
MAX_FLAGS = 100
MAX_CHOSEN = 500
"""Most items that one call moves by tag, thread or author, newest first."""
MAX_MEMBERS_CHANGED = 64
"""Most members that one call changes."""


class Stewardship:
    """Use cases for agents that look after a board. `rights` has already decided whether the agent may."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def _done(self, board: str, agent: str, once: Once | None) -> bool:
        """Tells whether the same call was made before; a repeated call is not checked again."""
        return once is not None and await self._board.store.recall(board, agent, once) is not None

    def access(self, board: Board) -> tuple[str, ...]:
        """Returns the names of the access policies that apply to a board, in the order in which they are
        asked.
        """
        listed = self._board.access.policies.on(board.id, board.config.access)
        return tuple(policy if isinstance(policy, str) else policy.name for policy in listed)

    async def core(self, agent: str, board: str | None) -> tuple[Core, int]:
        """Returns the board's core and its sequence."""
        found = await self._board.board(agent, board)
        return found.core, found.seq

    async def set_core(
        self,
        agent: str,
        board: str | None,
        expected_version: int,
        *,
        objective: str | None,
        constraints: Sequence[str] | None,
        flags: Mapping[str, bool] | None,
        once_key: str | None = None,
    ) -> tuple[Core, int]:
        """Replaces the given parts of the core, if its version is the expected one; returns it and the
        board's sequence.

        Raises:
            Conflict: the core is at another version.
            Refused: the core would exceed its cap of tokens.
        """
        check_agent(agent)
        found = await self._board.board(agent, board)
        core = found.core
        if objective is not None:
            core = replace(core, objective=objective)
        if constraints is not None:
            core = replace(core, constraints=tuple(constraints))
        if flags is not None:
            core = replace(core, flags=dict(flags))
        for text in (core.objective, *core.constraints, *core.flags):
            check_text(text)
        count = self._board.tokenizers.writing(found.id).count
        tokens = sum(map(count, (core.objective, *core.constraints, *core.flags)))
        once = once_of(
            once_key,
            "core",
            expected_version=expected_version,
            objective=objective,
            constraints=None if constraints is None else list(constraints),
            flags=None if flags is None else dict(flags),
        )
        if tokens > found.config.core_tokens and not await self._done(found.id, agent, once):
            raise Refused(
                f"The core would have {tokens} tokens; its cap is {found.config.core_tokens}. Nothing was changed; "
                "shorten it, or post details as items.",
                tokens=tokens,
            )
        fresh = await self._board.store.set_core(
            found.id, agent, core, expected_version=expected_version, once=once
        )
        after = await self._board.board(agent, found.id)
        return fresh, after.seq

    async def change_board(
        self, agent: str, board: str | None, change: BoardChange, *, once_key: str | None = None
    ) -> Board:
        """Changes title, parent, lifecycle, settings and members at once, and returns the board; an empty
        change only reads.

        Raises:
            InvalidInput: a setting is unknown, or values do not go together.
            Conflict: the lifecycle cannot change in this way, or a setting is not as expected.
            Forbidden, Refused: the caller may not change members in this way.
        """
        found = await self._board.board(agent, board)
        if change == BoardChange():
            return await self._as_seen(agent, found)
        check_agent(agent)
        change = replace(change, members=dict(check_member(*given) for given in change.members.items()))
        given = asdict(change)
        for name in ("members", "expected_settings"):
            if not given[name]:
                del given[name]
        once = once_of(once_key, "board", **given)
        if not await self._done(found.id, agent, once):
            pruner = self._board.pruner
            settings = check_settings(
                found.config,
                change.settings,
                pruner.policies,
                pruner.writer.configured,
                self._board.validators.names,
                self._board.access.policies,
                self._board.tokenizers.names,
            )
            expected = _expected(found.config, change.expected_settings)
            change = replace(change, settings=settings, expected_settings=expected)
        tokenizer = None
        if "tokenizer" in change.settings:
            tokenizer = self._board.tokenizers.find(change.settings["tokenizer"])
        after = await self._board.store.change_board(
            found.id, agent, change, count=None if tokenizer is None else tokenizer.count, once=once
        )
        if change.members:
            self._board.rights.forget(found.id)
        if after.pass_due:
            self._board.pruner.kick(after.id)
        return await self._as_seen(agent, after)

    def check_parent(self, principal: Principal, parent: str) -> None:
        """Checks that the caller's credential reaches a board that is to become a parent. It need not exist.

        Raises:
            InvalidInput: it is no valid board id.
            UnknownReference: the credential does not reach it.
        """
        if principal.role_on(check_board(parent)) is None:
            raise self._board.rights.absent(principal, parent)

    @staticmethod
    def as_reached(principal: Principal, board: Board) -> Board:
        """Returns the board, without its parent where the credential does not reach that."""
        hidden = board.parent is not None and principal.role_on(board.parent) is None
        return replace(board, parent=None) if hidden else board

    async def members(self, board: str) -> dict[str, Role]:
        """Returns the roles that the board itself gives, by agent."""
        return await self._board.store.members(board)

    async def _as_seen(self, agent: str, board: Board) -> Board:
        """Returns the board with current counts of the items and tokens that the agent may see."""
        figures = await self._board.store.statistics(board.id, agent)
        items = dict.fromkeys(Zone, 0)
        for (zone, _, _), (count, _) in figures.counts.items():
            items[Zone(zone)] += count
        return replace(
            board,
            working_items=items[Zone.WORKING],
            working_tokens=figures.board.working_tokens - _hidden(figures),
            archived_items=items[Zone.ARCHIVE],
        )

    async def prune(
        self, agent: str, board: str | None, *, dry_run: bool, chosen: Mapping[str, str] | None = None
    ) -> list[PassOutcome]:
        """Runs a pass down to the low-water mark, and returns its outcomes; with `dry_run` only what it would
        move.

        With `chosen` (a tag, a thread's id, an author) it moves the live items that meet all of it instead,
        `MAX_CHOSEN` at most, except those that something protects.

        Items that not everybody sees are named and counted only where the agent may see them. The list is
        empty where another process runs a pass.
        """
        if not dry_run:
            check_agent(agent)
        found = await self._board.board(agent, board)
        if not dry_run:
            await self._board.access.ask(
                self._board.store, agent, found.config.access, Change(found.id, ChangeKind.PRUNE)
            )
        pruner, store = self._board.pruner, self._board.store
        figures = await store.statistics(found.id, agent)
        if chosen:
            outcomes = [await self._move_chosen(agent, found.id, chosen, dry_run=dry_run)]
        else:
            outcomes = [await pruner.preview(found.id)] if dry_run else await pruner.run_pass(found.id)
        moved = [parse_ref(id_) for outcome in outcomes for id_, _, _ in outcome.moved]
        seen = {item.id: item for item in (await store.read(found.id, agent, moved, [])).items}
        hidden, told = _hidden(figures), []
        for outcome in outcomes:
            lines = tuple(line for line in outcome.moved if line[0] in seen)
            own = sum(seen[id_].tokens for id_, _, _ in lines if seen[id_].visibility is not Visibility.BOARD)
            left = hidden - (outcome.private_freed - own)
            told.append(
                replace(
                    outcome,
                    moved=lines,
                    tokens_before=outcome.tokens_before - hidden,
                    tokens_after=outcome.tokens_after - left,
                    private_freed=own,
                )
            )
            hidden = left
        after = figures if dry_run else await store.statistics(found.id, agent)
        return [
            replace(o, protected_items=after.protected_items, protected_tokens=after.protected_tokens)
            for o in told
        ]

    async def _move_chosen(
        self, agent: str, board: str, chosen: Mapping[str, str], *, dry_run: bool
    ) -> PassOutcome:
        """Moves to the archive the live items that the agent sees and that meet all of `chosen`."""
        wanted = await self._chosen(agent, board, chosen)
        why = f"chosen by {agent}: {', '.join(f'{name} {value}' for name, value in chosen.items())}"
        held: dict[int, str] = {}

        def decide(space: Workspace) -> Plan:
            held.clear()
            for number, protection in space.protected.items():
                if number in wanted:
                    held[number] = protection.reason
            going = [c.number for c in space.candidates if c.number in wanted and c.number not in held]
            return Plan(tuple(Move(number, PassStep.IMPORTANCE.number, why) for number in going))

        outcome = await self._board.store.prune(board, decide, apply=not dry_run)
        return replace(outcome, held=tuple((wanted[number], why) for number, why in sorted(held.items())))

    async def _chosen(self, agent: str, board: str, chosen: Mapping[str, str]) -> dict[int, str]:
        """Returns the ids by number of the live items that meet all of `chosen`, at most `MAX_CHOSEN`."""
        tag, thread = chosen.get("tag"), chosen.get("thread")
        if thread is not None:
            await self._board.check_named(agent, board, [thread])
        asked = ItemQuery(
            tags=check_tags([tag]) if tag is not None else (),
            thread=parse_ref(thread).number if thread is not None else None,
            author=check_agent(chosen["author"]) if "author" in chosen else None,
            limit=200,
        )
        found: dict[int, str] = {}
        while len(found) < MAX_CHOSEN:
            page = await self._board.store.query(board, agent, asked)
            found |= {item.number: item.id for item in page.items}
            if page.cursor is None:
                break
            asked = replace(asked, cursor=page.cursor)
        return dict(list(found.items())[:MAX_CHOSEN])


def _hidden(figures: Statistics) -> int:
    """Returns the tokens of working memory in items that the agent may not see."""
    seen = sum(tokens for (zone, _, _), (_, tokens) in figures.counts.items() if zone == Zone.WORKING)
    return figures.board.working_tokens - seen


def wire_core(core: Core, seq: int) -> board_wire.CoreAnswer:
    """Returns the core as a structured answer."""
    return board_wire.CoreAnswer(
        objective=core.objective,
        constraints=list(core.constraints),
        flags=core.flags,
        version=core.version,
        seq=seq,
    )


def _expected(config: BoardConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a configuration that are said as `given`; in place of any other value `None`, which no
    field has.

    Raises:
        InvalidInput: a setting is unknown.
    """
    said = said_settings(config)
    for name in given:
        if name not in said:
            raise InvalidInput(
                f"There is no setting {name!r}. Nothing was changed.", fields=["expected_settings"]
            )
    return {name: getattr(config, name) if said[name] == value else None for name, value in given.items()}


def wire_board(
    board: Board, members: Mapping[str, Role], access: Sequence[str] = ()
) -> board_wire.BoardAnswer:
    """Returns the board, its members and access policies as a structured answer."""
    return board_wire.BoardAnswer(
        board=board.id,
        title=board.title,
        parent=board.parent,
        lifecycle=str(board.lifecycle),
        objective=board.core.objective,
        target_tokens=board.config.target_tokens,
        high_water=board.config.high_water,
        low_water=board.config.low_water,
        ceiling=board.config.ceiling,
        hard_ceiling=board.config.hard_ceiling,
        summarise_over=board.config.summarise_over,
        settings=said_settings(board.config),
        access=list(access),
        pressure=None if board.pressure is None else item_id(ItemType.HOT_ISSUE, board.pressure),
        working_items=board.working_items,
        working_tokens=board.working_tokens,
        archived_items=board.archived_items,
        members={name: str(role) for name, role in members.items()},
        seq=board.seq,
    )


def wire_pruned(outcomes: list[PassOutcome], dry_run: bool) -> board_wire.PruneAnswer:
    """Returns the outcomes of pruning passes as a structured answer, which says whether it was a dry run."""
    moved = [line for outcome in outcomes for line in outcome.moved]
    return board_wire.PruneAnswer(
        dry_run=dry_run,
        moved=[board_wire.MovedItem(id=i, step=s, why=w) for i, s, w in moved[: board_wire.MAX_MOVED]],
        more=max(len(moved) - board_wire.MAX_MOVED, 0),
        tokens_before=outcomes[0].tokens_before if outcomes else None,
        tokens_after=outcomes[-1].tokens_after if outcomes else None,
        protected_items=outcomes[-1].protected_items if outcomes else None,
        protected_tokens=outcomes[-1].protected_tokens if outcomes else None,
        seq=outcomes[-1].seq if outcomes else None,
        policy=outcomes[-1].policy if outcomes else None,
        warning=outcomes[-1].warning if outcomes else "",
        held=dict(outcomes[-1].held) if outcomes else {},
    )
