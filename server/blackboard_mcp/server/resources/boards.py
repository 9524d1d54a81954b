"""The resources of a board: its contents in several forms, as text for people and models or as JSON (`….json`).

Every resource can be subscribed to; `announcements` decides which of them an event changes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from blackboard_mcp.protocols.answers import (
    Page as ItemPage,
)
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Item, ItemType, Status, parse_ref
from blackboard_mcp.protocols.keys import parse_listing
from blackboard_mcp.protocols.late_models import debate_wire, plan_wire, run_wire, version_wire, wire
from blackboard_mcp.protocols.panels import EPISODIC, PanelState, panels_of, writers_of
from blackboard_mcp.protocols.sightings import Readership, Way
from pydantic import Field

from ..access.needs import READS
from ..answers import statistics as figures
from ..answers.explanations import wire_explained
from ..answers.participants import said_of
from ..answers.readers import seen_line, wire_sightings
from ..answers.rendering import FOOTER_TOKENS, Rendering
from ..mcp.answer_size import MAX_ANSWER_BYTES, too_long
from ..mcp.server import BoardServer
from ..plugins.protocols import Protocols
from ..text.lines import visible_json
from ..text.tokens import count_lines
from ..tools.tool import Caller
from ..usecases.blackboard import Blackboard
from ..usecases.growth_meter import Gauge
from ..usecases.participants import Participants

BoardId = Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(max_length=80)]
After = Annotated[int, Field(ge=0, le=2**53)]

_PAGE = 100
_MOST = 1_000
"""The most items of one answer; the answer says how to read on."""
_MOST_CHARACTERS = 4_000_000
"""The characters of items' texts after which a resource reads no further page."""
_EVENTS = 500

Told = tuple[str, dict[str, Any]]
"""A resource as text and as a JSON object."""
Facts = tuple[str, dict[str, Any] | Callable[[], dict[str, Any]]]
"""A resource as text and as a JSON object, or a function that builds the object when needed."""
Section = Callable[[str, str], Awaitable[Facts]]


class Resources:
    """Serves the resources of every board, and completes the variables of their templates."""

    def __init__(
        self, board: Blackboard, rendering: Rendering, protocols: Protocols, gauge: Gauge | None = None
    ) -> None:
        self._board = board
        self._say = rendering
        self._known = protocols
        self._gauge = gauge

    def register(self, server: BoardServer) -> None:
        """Adds all resources and their completion to a server."""
        sections: dict[str, tuple[Section, str]] = {
            "": (self._overview, "The board: figures, core, and where to look next"),
            "/core": (self._core, "Objective, constraints in order, flags: never pruned"),
            "/working": (self._working, "Live items, newest first"),
            "/agenda": (
                self._agenda,
                "Stages; tasks, ready ones first; then PLAN items, most important first",
            ),
            "/threads": (self._threads, "Conversations and debates"),
            "/panels": (self._panels, "Panels: named groups of items, who writes each, and its version"),
            "/agents": (self._agents, "Who takes part"),
            "/constraints": (self._constraints, "Active constraints, verbatim"),
            "/hot-issues": (self._hot_issues, "Open hot issues, verbatim"),
            "/answer": (self._answer, "The answer so far: the newest ANSWER"),
            "/stats": (self._stats, "Figures: tokens against the budget, counts, what is protected"),
            "/outline": (self._outline, "Every live item in a line, by thread"),
            "/protocols": (self._protocols, "Communication protocols: their keys and who writes what"),
        }
        for suffix, (section, description) in sections.items():
            name = suffix.strip("/") or "board"
            for json_ in (False, True):
                server.resource(
                    f"board://{{board}}{suffix}{'.json' if json_ else ''}",
                    self._serve(section, json_),
                    name=name + ("-json" if json_ else ""),
                    description=description,
                    mime_type="application/json" if json_ else "text/markdown",
                    needs=READS,
                )
        for json_ in (False, True):
            ending, mime = (".json", "application/json") if json_ else ("", "text/markdown")
            kind = "-json" if json_ else ""
            server.resource(
                f"board://{{board}}/view/{{agent}}{ending}",
                self._serve_view(json_),
                name=f"view{kind}",
                description="The board as one agent sees it, within 1,500 tokens",
                mime_type=mime,
                needs=READS,
            )
            server.resource(
                f"board://{{board}}/panels/{{name}}{ending}",
                self._serve_panel(json_),
                name=f"panel{kind}",
                description="The newest 100 items of a panel, archived ones too",
                mime_type=mime,
                needs=READS,
            )
            server.resource(
                f"board://{{board}}/items/{{id}}{ending}",
                self._serve_item(json_),
                name=f"item{kind}",
                description="One item, whole, with its history",
                mime_type=mime,
                needs=READS,
            )
            server.resource(
                f"board://{{board}}/items/{{id}}/versions{ending}",
                self._serve_versions(json_),
                name=f"versions{kind}",
                description="The versions of an item, newest first: who, when, tokens, sha256",
                mime_type=mime,
                needs=READS,
            )
            server.resource(
                f"board://{{board}}/items/{{id}}/explain{ending}",
                self._serve_explain(json_),
                name=f"explain{kind}",
                description="Why an item stays, what would take it and when, or why it left",
                mime_type=mime,
                needs=READS,
            )
            server.resource(
                f"board://{{board}}/events{ending}{{?after}}",
                self._serve_events(json_),
                name=f"events{kind}",
                description="The log after a sequence",
                mime_type=mime,
                needs=READS,
            )
        server.completion(self.complete)

    def _serve(self, section: Section, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId) -> str:
            name = await self._board.board_of(board, caller.agent)
            text, facts = await section(caller.agent, name)
            if not json_:
                return text
            return _json(facts() if callable(facts) else facts)

        return serve

    def _serve_view(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, agent: Name) -> str:
            if agent != caller.agent:
                raise UnknownReference(
                    f"There is no view of '{agent[:64]}' for you; yours is board://{board}/view/{caller.agent}"
                )
            view, snapshot = await self._board.view(caller.agent, board, reserve=FOOTER_TOKENS)
            shown = self._say.view(view.text, view.at, lambda: FOOTER_TOKENS)
            texts = {parse_ref(id_).number for id_ in (*view.shown, *view.excerpts)}
            self._board.activity.sighted(snapshot.board.id, caller.agent, texts, Way.RESOURCE)
            if not json_:
                return shown
            return _json(
                {
                    "view": shown,
                    "tokens": count_lines(shown.split("\n"), self._board.tokenizers.on(snapshot.board.id)),
                    "seq": snapshot.board.seq,
                    "shown": list(view.shown),
                    "stubs": list(view.stubs),
                    "hidden": view.hidden,
                }
            )

        return serve

    def _serve_panel(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, name: Name) -> str:
            on = await self._board.board_of(board, caller.agent)
            states = {one.panel.name: one for one in await self._board.store.panels(on, caller.agent)}
            if name not in states:
                there = ", ".join(states) or "none"
                raise UnknownReference(
                    f"There is no panel '{name}' on board '{on}'; there are: {there}. What is in no other panel: "
                    f"board://{on}/working"
                )
            state = states[name]
            page = await self._items(caller.agent, on, most=_PAGE, zone=None, tags=(state.panel.tag,))
            if json_:
                return _json({**figures.panel(state), **self._page(page)})
            more = f'more: query(tags=["{state.panel.tag}"], zone="all", cursor="{page.cursor}")'
            listed = [
                self._lines(page.items, "nothing here yet"),
                *([more] if page.cursor is not None else []),
            ]
            return "\n".join([self._panel_line(state), *listed])

        return serve

    def _serve_item(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, id: Name) -> str:
            reading = await self._board.read(caller.agent, board, [id], [])
            if not reading.found.items:
                raise UnknownReference(f"There is no item '{id}' on board '{board}'.")
            item = reading.found.items[0]
            name = await self._board.board_of(board, caller.agent)
            history = await self._board.store.history(name, caller.agent, item.number)
            found = await self._board.readers(caller.agent, name, [item.number])
            readers = found.get(item.number, Readership())
            self._showed(caller.agent, name, [item])
            if json_:
                said = await self._board.store.endorsements(name, caller.agent, item.number)
                held = reading.protected.get(item.number)
                return _json(
                    {
                        **_item(item),
                        "protected": None if held is None else held.reason,
                        "left": self._say.why(reading.left[item.number])
                        if item.number in reading.left
                        else None,
                        "endorsements": [
                            {"agent": e.agent, "at": e.at.isoformat(), "tags": e.tags, "metadata": e.metadata}
                            for e in said
                        ],
                        "seen": [one.model_dump(mode="json") for one in wire_sightings(readers)],
                        "never_seen_by": list(readers.never),
                        "history": [wire.wire_event(e).model_dump(mode="json") for e in history],
                    }
                )
            seen = seen_line(item, readers, self._say.now())
            lines = [
                self._by(reading.board).whole(reading),
                *filter(None, [seen]),
                "",
                "history, newest first:",
            ]
            lines += [self._say.event(e, {}) for e in history]
            return "\n".join(lines)

        return serve

    def _serve_versions(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, id: Name) -> str:
            if parse_listing(id) is None:
                id = f"{id}@*"
            reading = await self._board.read(caller.agent, board, [id], [])
            if not reading.versions:
                raise UnknownReference(f"There is no item '{id}' on board '{board}'.")
            (listed,) = reading.versions
            if json_:
                return visible_json(version_wire.wire_versions(listed).model_dump_json())
            return self._by(reading.board).whole(reading)

        return serve

    def _serve_explain(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, id: Name) -> str:
            explained = await self._board.explain(caller.agent, board, [id])
            if not explained.explanations:
                raise UnknownReference(f"There is no item '{id}' on board '{board}'.")
            if json_:
                return visible_json(wire_explained(explained, self._say.now()).model_dump_json())
            return self._say.explained(explained)

        return serve

    def _serve_events(self, json_: bool) -> Callable[..., Awaitable[str]]:
        async def serve(caller: Caller, board: BoardId, after: After = 0) -> str:
            name = await self._board.board_of(board, caller.agent)
            await self._board.following.place(name, after)
            log = await self._board.store.log(name, caller.agent, after, _EVENTS)
            if json_:
                return _json(
                    {
                        "events": [wire.wire_event(e).model_dump(mode="json") for e in log.events],
                        "cursor": log.cursor,
                        "seq": log.seq,
                    }
                )
            lines = [self._say.event(e, {}) for e in log.events] or ["no events"]
            if log.more:
                lines.append(f"more: board://{name}/events?after={log.cursor}")
            return "\n".join(lines)

        return serve

    def _by(self, board: str) -> Rendering:
        return self._say.by(self._board.tokenizers.on(board))

    # Sections

    async def _items(
        self,
        agent: str,
        board: str,
        *,
        most: int | None = _MOST,
        shown: bool = True,
        **conditions: Any,
    ) -> ItemPage:
        """Returns items newest first: all if `most` is `None`, else at most `most`. They count as `shown` to the agent.

        There are fewer where texts are long, so that megabytes are not read to show one line for each.
        """
        items: list[Item] = []
        cursor: int | None = None
        while True:
            limit = _PAGE if most is None else min(_PAGE, most - len(items))
            page = await self._board.store.query(
                board, agent, ItemQuery(limit=limit, cursor=cursor, **conditions)
            )
            items += page.items
            cursor = page.cursor
            if cursor is None or (most is not None and (len(items) >= most or _long(items))):
                if shown:
                    self._showed(agent, board, items)
                return replace(page, items=tuple(items))

    def _showed(self, agent: str, board: str, items: Iterable[Item]) -> None:
        """Records that the agent was shown items by a resource."""
        if numbers := [item.number for item in items]:
            self._board.activity.sighted(board, agent, numbers, Way.RESOURCE)

    @staticmethod
    def _page(page: ItemPage) -> dict[str, Any]:
        """Returns the page as a JSON object, with its items, cursor and sequence.

        Raises:
            Refused: the texts are too long for one answer.
        """
        size = sum(len(item.text) for item in page.items)
        if size > MAX_ANSWER_BYTES:
            raise too_long(size)
        return {
            "items": [_item(i) for i in page.items],
            "cursor": None if page.cursor is None else str(page.cursor),
            "seq": page.seq,
        }

    @staticmethod
    def _more(page: ItemPage) -> list[str]:
        return [] if page.cursor is None else [f'more: query(limit=200, cursor="{page.cursor}")']

    def _lines(self, items: Iterable[Item], nothing: str) -> str:
        listed = list(items)
        now = Blackboard.newest(listed)
        return "\n".join(self._say.line(item, now) for item in listed) if now else nothing

    async def _overview(self, agent: str, board: str) -> Facts:
        stats_text, stats = await self._stats(agent, board)
        core_text, core = await self._core(agent, board)
        text = (
            f"# {board}\n{core_text}\n{stats_text}\n"
            f"board://{board}/view/{agent} working threads agenda agents events stats outline"
        )
        return text, {**stats, "core": core}

    async def _core(self, agent: str, board: str) -> Told:
        core = (await self._board.board(agent, board)).core
        lines = self._say.core(core)
        return "\n".join(lines), {
            "objective": core.objective,
            "constraints": list(core.constraints),
            "flags": core.flags,
            "version": core.version,
        }

    async def _working(self, agent: str, board: str) -> Facts:
        page = await self._items(agent, board)
        lines = [self._lines(page.items, "working memory is empty"), *self._more(page)]
        return "\n".join(lines), lambda: self._page(page)

    async def _agenda(self, agent: str, board: str) -> Facts:
        page = await self._items(agent, board, types=(ItemType.PLAN,))
        page = replace(page, items=tuple(sorted(page.items, key=lambda i: (-i.importance, i.number))))
        lines = [self._lines(page.items, "no plan items"), *self._more(page)]
        planned = await self._board.store.agenda(board, agent)
        staged = await self._board.store.stages(board, agent)
        if self._board.claims and (planned.total or staged.stages):
            from ..answers.stages import stage_lines
            from ..answers.tasks import agenda_lines

            tasks = stage_lines(staged) if staged.stages else []
            tasks += agenda_lines(planned, agent, self._say.now())
            lines = [*tasks, "plan items:", *lines] if page.items else tasks

        def facts() -> dict[str, Any]:
            told = plan_wire.wire_agenda(planned).model_dump(mode="json")
            stages = plan_wire.wire_stages(staged).model_dump(mode="json")["stages"]
            return {**told, "tasks": told["items"], "stages": stages, **self._page(page)}

        return "\n".join(lines), facts

    async def _constraints(self, agent: str, board: str) -> Facts:
        core = (await self._board.board(agent, board)).core
        items = await self._open(agent, board, ItemType.CONSTRAINT)
        lines = [line for text in core.constraints for line in self._say.labelled("core", text)]
        lines += [line for i in items for line in self._say.labelled(f"{i.id} by {i.author}", i.text)]
        facts = {"core": list(core.constraints), "items": [_item(i) for i in items]}
        return "\n".join(lines) or "no constraints", facts

    async def _hot_issues(self, agent: str, board: str) -> Facts:
        items = await self._open(agent, board, ItemType.HOT_ISSUE)
        lines = [line for i in items for line in self._say.labelled(f"{i.id} by {i.author}", i.text)]
        return "\n".join(lines) or "no open hot issues", {"items": [_item(i) for i in items]}

    async def _open(self, agent: str, board: str, kind: ItemType) -> list[Item]:
        page = await self._items(
            agent, board, most=None, types=(kind,), statuses=(Status.ACTIVE, Status.DEBATED)
        )
        return sorted(page.items, key=lambda i: i.number)

    async def _answer(self, agent: str, board: str) -> Facts:
        page = await self._board.store.query(
            board, agent, ItemQuery(types=(ItemType.ANSWER,), statuses=(Status.ACTIVE,), zone=None, limit=1)
        )
        if not page.items:
            return "no answer yet", {"item": None}
        item = page.items[0]
        self._showed(agent, board, [item])
        lines = self._say.labelled(f"{item.id} by {item.author}", item.text)
        return "\n".join(lines), {"item": _item(item)}

    async def _panels(self, agent: str, board: str) -> Facts:
        states = await self._board.store.panels(board, agent)
        lines = [self._panel_line(state) for state in states] or ["no panels but working"]
        return "\n".join(lines), {"panels": [figures.panel(state) for state in states]}

    @staticmethod
    def _panel_line(state: PanelState) -> str:
        """Returns a panel's name, what it is for, who writes it, its live items and its version, in one line."""
        panel = state.panel
        about = f": {panel.about}" if panel.about else ""
        writers = (
            "the server alone writes it" if panel.name == EPISODIC else f"written by {writers_of(panel)}"
        )
        return f'panel "{panel.name}"{about} · {writers} · {state.items} live · version {state.version}'

    async def _agents(self, agent: str, board: str) -> Facts:
        listed = await self._board.store.agents(board)
        joined = {one.agent: one for one in await Participants(self._board).listed(board)}
        lines = []
        for known in listed:
            line = f"{known.name}: {known.posts} posts, last {known.last_seen:%Y-%m-%d %H:%M:%SZ}"
            if (one := joined.get(known.name)) is not None:
                line += f"; takes part, {'here' if one.present else 'away'}{said_of(one)}"
            lines.append(line)
        facts = {
            **figures.agents(listed),
            "participants": [
                run_wire.wire_participant(one).model_dump(mode="json") for one in joined.values()
            ],
        }
        return "\n".join(lines) or "nobody yet", facts

    async def _threads(self, agent: str, board: str) -> Facts:
        page = await self._items(agent, board)
        threads: dict[str, list[Item]] = {}
        for item in sorted(page.items, key=lambda i: i.number):
            threads.setdefault(item.thread_id, []).append(item)
        snapshot = await self._board.store.snapshot(board, agent)
        known = {item.number: item for item in snapshot.items}
        lines: list[str] = []
        for debate in snapshot.debates:
            lines += self._by(board).debate_lines(debate, known)
        now = Blackboard.newest(page.items)
        for root, members in threads.items():
            if len(members) > 1 and now is not None:
                lines.append(f"thread {root}: {len(members)} live")
                lines += [f"  {self._say.line(item, now, 80)}" for item in members]
        lines += self._more(page)
        facts = {
            "cursor": None if page.cursor is None else str(page.cursor),
            "seq": page.seq,
            "threads": {root: [i.id for i in members] for root, members in threads.items()},
            "debates": [
                debate_wire.wire_debate(known[d.root].id, d, known, snapshot.board.seq).model_dump(
                    mode="json"
                )
                for d in snapshot.debates
            ],
        }
        return "\n".join(lines) or "no conversations", facts

    async def _stats(self, agent: str, board: str) -> Told:
        growth = None if self._gauge is None else self._gauge.latest()
        told = figures.statistics(await self._board.store.statistics(board, agent), growth)
        text = (
            f"seq {told.seq} · {told.lifecycle}\n"
            f"working {told.working_items} items, {told.working_tokens} of {told.target_tokens} tokens "
            f"(passes start above {told.high_water_tokens}, end at {told.low_water_tokens})\n"
            f"protected {told.protected_items} items, {told.protected_tokens} tokens; "
            f"{told.open_debates} open debates\n"
            f"archive {told.archived_items} items, {told.waiting_for_index} to be indexed"
        )
        if growth is not None:
            text += f"\n{growth.short()}"
        return text, told.model_dump(mode="json")

    async def _protocols(self, agent: str, board: str) -> Facts:
        from ..text.protocols import protocol_lines

        return "\n".join(protocol_lines(self._known.about)), {"protocols": self._known.about}

    async def _outline(self, agent: str, board: str) -> Facts:
        page = await self._items(agent, board)
        children: dict[str, list[Item]] = {}
        for item in sorted(page.items, key=lambda i: i.number):
            children.setdefault(item.thread_id, []).append(item)
        now = Blackboard.newest(page.items)
        lines: list[str] = []
        for members in children.values():
            for place, item in enumerate(members):
                if now is not None:
                    lines.append(("  " if place else "") + self._say.line(item, now, 60))
        lines += self._more(page)
        return "\n".join(lines) or "working memory is empty", {
            "cursor": None if page.cursor is None else str(page.cursor),
            "seq": page.seq,
            "threads": [[i.id for i in members] for members in children.values()],
        }

    # Completion and notification

    async def complete(
        self, caller: Caller, ref: str, argument: str, partial: str, context: Mapping[str, str]
    ) -> Sequence[str]:
        """Returns the values for a variable that begin with `partial`; none if the board does not exist.

        Without a board it is about that of a call which names none. Whether the caller may read it was asked before.
        `ref` is the name of the prompt or the URI of the template; `context` holds the variables filled in so
        far.
        """
        store, default = self._board.store, self._board.rights.default_board(caller.principal)
        if argument == "board":
            names = {b.id for b in await store.boards()} | {default}
            reached = self._board.rights.reached(caller.principal, sorted(names))
            return [name for name in reached if name.startswith(partial)]
        if argument == "agent":
            return [caller.agent] if caller.agent.startswith(partial) else []
        board = await store.find_board(context.get("board") or default)
        if board is not None and argument in ("id", "thread"):
            page = await self._items(caller.agent, board.id, shown=False)
            items = [i for i in page.items if ref != "decide" or i.status is Status.DEBATED]
            ids = dict.fromkeys(i.thread_id if argument == "thread" else i.id for i in items)
            return [id_ for id_ in ids if id_.casefold().startswith(partial.casefold())]
        if board is not None and argument == "name":
            return [name for name in panels_of(board.config.panels) if name.startswith(partial)]
        if board is not None and argument == "task":
            agenda = await store.agenda(board.id, caller.agent)
            listed = agenda.review if ref == "review" else agenda.tasks
            return [task.id for task in listed if task.id.casefold().startswith(partial.casefold())]
        if board is not None and argument == "after":
            return [str(board.seq)] if str(board.seq).startswith(partial) else []
        return []


def _long(items: Sequence[Item]) -> bool:
    return sum(len(item.text) for item in items) > _MOST_CHARACTERS


def _item(item: Item) -> dict[str, Any]:
    return wire.wire_item(item).model_dump(mode="json")


def _json(facts: dict[str, Any]) -> str:
    return visible_json(json.dumps(facts, ensure_ascii=False, separators=(",", ":")))
