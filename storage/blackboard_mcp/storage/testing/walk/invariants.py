"""The invariants of a board, checked after every step of a walk under the names of the design (I1, I3, …).

After a step it reads the items that the log says were changed, and their neighbours. Every few steps, and at the end,
it reads all items, so that changes without an event are found as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blackboard_mcp.protocols.answers import (
    DebateView,
    Found,
    Log,
    Snapshot,
)
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Edge, EdgeKind, Item, Ref, Zone, content_hash
from hypothesis.stateful import invariant

from .model import MOVES, Quarrel
from .walking import AGENTS, GONE, Walker


@dataclass(frozen=True)
class Sight:
    """A board as read after a step: items by agent, and what the guard protects."""

    founds: list[Found]
    board: Board
    held: dict[int, Protection]


WAIVED = "obligation.waived"
WHOLE = 5
"""The number of steps after which all items are read."""


class Invariants(Walker):
    """Compares the store with the model and with its own log."""

    def teardown(self) -> None:
        try:
            if self.log and not self.broken:
                self.hold(whole=True)
                self.every_version_is_readable()
        finally:
            super().teardown()

    def catch_up(self) -> None:
        """Reads the new part of the log, merged over all agents, into `recent`, and applies its events."""

        async def ask() -> list[Log]:
            return [await self.store.log(self.at.board, agent, len(self.log), 10_000) for agent in AGENTS]

        merged: dict[int, Event] = {}
        for agent, log in zip(AGENTS, self.run(ask()), strict=True):
            seqs = [e.seq for e in log.events]
            self.check("I17", seqs == sorted(set(seqs)), seqs)
            self.check("I17", log.seq >= len(self.log), log.seq)
            for event in log.events:
                self.check("I25", event.owner in (None, agent), f"{agent} sees {event}")
                merged[event.seq] = event
        begin = len(self.log)
        self.check("I17", sorted(merged) == list(range(begin + 1, begin + 1 + len(merged))), sorted(merged))
        for seq in sorted(merged):
            self.log.append(merged[seq])
            self.recent.append(merged[seq])
            self.apply(merged[seq])

    def concerned_lately(self, type_: EventType) -> list[int]:
        """Returns items of recent events of a type, the newest first.

        An event is recent within the board's `restored_seconds` and `restored_events`.
        """
        config, now = self.run(self.at.standing()).config, self.clock.now()
        acts = [e.seq for e in self.log if e.agent != "system"]
        after = acts[-config.restored_events - 1] if len(acts) > config.restored_events else 0
        found = [e for e in reversed(self.log) if e.event == type_ and e.seq > after]
        recent = [e for e in found if (now - e.at).total_seconds() < config.restored_seconds]
        return list(dict.fromkeys(number_of(event) for event in recent))

    def back_lately(self) -> set[int]:
        """Returns items recently restored from the archive that no pass may take, as far as there is room for them.

        Public items get room first, the newest first; items whose time to live is over get none.
        """
        config, now = self.run(self.at.standing()).config, self.clock.now()
        back = self.concerned_lately(EventType.ITEM_RESTORED)
        items = self.items(self.look(set(back)), set(back)) if back else {}
        room = config.target_tokens // 4
        stays: set[int] = set()
        for n in sorted(back, key=lambda n: self.model.things[n].private):
            if items[n].zone is Zone.WORKING and items[n].tokens <= room:
                room -= items[n].tokens
                stays.add(n)
        return {n for n in stays if (until := items[n].expires_at) is None or until > now}

    def grounds(self) -> set[int]:
        """Returns items that no pass may take because members of debates cite them, as far as there is room.

        Citations in open debates come first, then those of critiques and answers in recently settled debates. Public
        items come first, the most important first; items whose time to live is over, or that something else protects,
        are left out.
        """
        things, kept, edges = self.model.things, self.model.protected(), self.model.edges

        def live(n: int) -> bool:
            return things[n].zone == "working" and things[n].status in ("ACTIVE", "DEBATED")

        settled = {
            critique
            for root in self.concerned_lately(EventType.DEBATE_CLOSED)
            for quarrel in self.model.debates
            if quarrel.root == root and quarrel.state in ("CONSENSUS", "DECIDED")
            for critique in quarrel.critiques
        }
        settled |= {s for s, kind, t in edges if kind == "replies_to" and t in settled}
        settled = {n for n in settled if things[n].status != "WITHDRAWN"}
        in_open = {n for n in self.model.in_debate() if live(n)}
        cited: dict[int, bool] = {}
        for source, kind, target in edges:
            if (
                kind == "derived_from"
                and source in in_open | settled
                and things[source].leads_to(things[target])
            ):
                cited[target] = cited.get(target, True) and source not in in_open
        cited = {
            n: late
            for n, late in cited.items()
            if live(n) and n not in kept and (things[n].status != "ACTIVE" or things[n].importance < 5)
        }
        items = self.items(self.look(set(cited)), set(cited)) if cited else {}
        room = self.run(self.at.standing()).config.target_tokens // 4
        stays: set[int] = set()
        for n in sorted(cited, key=lambda n: (things[n].private, cited[n], -items[n].importance, n)):
            if items[n].tokens <= room:
                room -= items[n].tokens
                stays.add(n)
        return {n for n in stays if (until := items[n].expires_at) is None or until > self.clock.now()}

    def all_numbers(self) -> set[int]:
        """Returns all item numbers in use, and two that are not."""
        return set(range(1, len(self.model.things) + 3))

    def near_to(self, touched: set[int]) -> set[int]:
        """Returns these items, those never read, and all items that share an edge with one of them."""
        fresh = touched | (self.all_numbers() - set(self.seen))
        return fresh | {n for s, _, t in self.model.edges if s in fresh or t in fresh for n in (s, t)}

    def look(self, numbers: set[int]) -> Sight:
        """Reads the board after a step: these items, and everything that the guard protects."""
        store, board = self.store, self.at.board
        refs = [Ref(n) for n in sorted(numbers)]

        async def ask() -> Sight:
            founds = [await store.read(board, agent, refs, []) for agent in AGENTS]
            held = await store.guarded(board, sorted(self.all_numbers()))
            return Sight(founds, await self.at.standing(), held)

        return self.run(ask())

    def gaze(self, who: str) -> tuple[Snapshot, list[list[int]]]:
        """Reads what costs more: one agent's snapshot, and the items of each zone page by page, tombstones last."""

        async def ask() -> tuple[Snapshot, list[list[int]]]:
            zones = [await self.numbers(who, zone) for zone in Zone]
            zones.append(await self.numbers(who, None, deleted=True))
            return await self.store.snapshot(self.at.board, who), zones

        return self.run(ask())

    async def numbers(self, agent: str, zone: Zone | None, *, deleted: bool = False) -> list[int]:
        """Returns the item numbers of a zone, read page by page."""
        numbers: list[int] = []
        cursor = None
        while True:
            wanted = ItemQuery(zone=zone, limit=11, cursor=cursor, deleted=deleted)
            page = await self.store.query(self.at.board, agent, wanted)
            numbers += [i.number for i in page.items]
            cursor = page.cursor
            if cursor is None:
                return numbers

    def apply(self, event: Event) -> None:
        """Applies an event to the state of items as the log alone tells it.

        That is the zone, version, status and changed importance of each item.
        """
        if event.item is None:
            return
        self.outcome.happened[str(event.data.get("outcome"))] += 1
        n, kind = int(event.item.split("-")[1]), str(event.event)
        if kind == "item.posted":
            self.fold[n] = ["working", 1, "ACTIVE"]
            return
        item = self.fold[n]
        if "importance" in event.data.get("now", {}):
            was = self.weights.get(n)
            self.check("I18", was in (None, event.data["was"]["importance"]), event)
            self.weights[n] = event.data["now"]["importance"]
        if kind in GONE:
            self.check("I2", item[0] == "working", f"{event.item} left twice")
            item[0] = "archive"
        elif kind == "item.deleted":
            self.check("I22", event.version == item[1] + 1, f"{event.item} jumped to {event.version}")
            item[:] = ["archive", event.version, "WITHDRAWN"]
        elif kind == "item.restored":
            self.check("I2", item[0] == "archive", f"{event.item} came back twice")
            item[0] = "working"
        elif kind == "item.versioned":
            self.check("I22", event.version == item[1] + 1, f"{event.item} jumped to {event.version}")
            item[1] = event.version
            item[2] = item[2] if item[2] == "DEBATED" else "ACTIVE"
        elif kind == "item.changed" and "status" in event.data:
            was, becomes = event.data["status"]
            self.check("I29", was == item[2] and becomes in MOVES[was], event)
            item[2] = becomes
        elif kind == "debate.opened" and item[2] in ("ACTIVE", "RESOLVED"):
            item[2] = "DEBATED"
        elif kind == "debate.closed" and event.data["outcome"] in ("falls", "amended") and MOVES[item[2]]:
            item[2] = "INVALIDATED"
        elif kind == "debate.closed" and item[2] == "DEBATED":
            item[2] = "ACTIVE"

    @invariant()
    def the_invariants_hold(self) -> None:
        if not self.cursors:
            return
        self.turns += 1
        self.hold(whole=self.turns % WHOLE == 0)
        if self.turns % 4 == 0:
            self.view_of(AGENTS[self.turns // 4 % 3], self.seen)
        self.before = self.model

    def hold(self, *, whole: bool) -> None:
        """Checks the invariants on the items of recent events, or with `whole` on all items."""
        self.catch_up()
        recent, self.recent = self.recent, []
        touched = {number_of(e) for e in recent if e.item}
        numbers = self.all_numbers() if whole else self.near_to(touched)
        sight = self.look(numbers)
        items = self.items(sight, numbers)
        was = {n for n, item in self.seen.items() if item.zone is Zone.WORKING}
        left = {n for n in was if n in items and items[n].zone is not Zone.WORKING}
        self.outcome.happened["left"] += len(left)
        self.nothing_held_left(left)
        waived = self.model.waived()
        told = {(e.data["watcher"], number_of(e), e.data["duty"]) for e in recent if e.event == WAIVED}
        silent = {tuple(key[1:]) for key in waived - self.waived} - told
        self.check("waiver", not silent, silent)
        self.waived = waived
        unknown = items.keys() - self.model.things.keys()
        self.check("model", not unknown, unknown)
        items = {n: item for n, item in items.items() if n not in unknown}
        for n, item in items.items():
            old = self.seen.get(n)
            same = old is not None and plain(old) == plain(item)
            self.check("I19", same or (n in touched and item.seq > (old.seq if old else 0)), item)
            self.check("I19", item.seq <= len(self.log), item)
            news = {r.id for r in item.retracted} - {r.id for r in (old.retracted if old else ())}
            doubts = [e for e in recent if e.event == "item.doubted" and e.item == item.id]
            once = bool(news) == bool(doubts) and len(doubts) <= len(news)  # at most one for each retraction
            self.check("I19", once or item.version > 1, (item, doubts))
            self.outcome.happened["doubted"] += bool(news)
            self.check("I18", self.fold.get(n) == [item.zone, item.version, item.status], item)
            self.check("I18", self.weights.setdefault(n, item.importance) == item.importance, item)
        self.same_as_the_model(items)
        self.seen.update(items)
        self.edges_fit(self.seen)
        protected = self.model.protected()
        self.check("guard", set(sight.held) == protected, set(sight.held) ^ protected)
        for n, protection in sight.held.items():
            self.check("guard", self.leads_to(n, protection), (n, protection))
        self.figures(self.seen, sight)
        if whole:
            self.kinds(AGENTS[self.turns % len(AGENTS)], self.seen)

    def kinds(self, who: str, items: dict[int, Item]) -> None:
        """Checks that an agent's statistics count exactly the items that it can see."""
        counts: dict[tuple[str, str, str], tuple[int, int]] = {}
        for n in self.model.visible(who):
            item = items[n]
            kind = (str(item.zone), str(item.type), str(item.status))
            count, tokens = counts.get(kind, (0, 0))
            counts[kind] = (count + 1, tokens + item.tokens)
        told = self.run(self.store.statistics(self.at.board, who)).counts
        self.check("figures", told == counts, (told, counts))

    def edges_fit(self, items: dict[int, Item]) -> None:
        known = {(e.source, str(e.kind), e.target) for item in items.values() for e in item.edges}
        arriving = {(e.source, str(e.kind), e.target) for item in items.values() for e in item.incoming}
        self.check("I15", all(s in items and t in items for s, _, t in known | arriving), known)
        self.check("I15", known == arriving, known ^ arriving)
        self.check("I16", acyclic(known), known)
        self.check("model", known == self.model.edges, known ^ self.model.edges)

    def leads_to(self, n: int, protection: Protection) -> bool:
        """Tells whether the chain consists of existing edges and leads from an open debate to the item."""
        chain = [(edge.source, str(edge.kind), edge.target) for edge in protection.chain]
        if not chain:
            return True
        places = {m for d in self.model.open_debates() for m in (d.root, *d.critiques)}
        if protection.omitted:
            places = {chain[0][0], chain[0][2]}
        for source, _, target in chain:
            places = {target for p in places if p == source} | {source for p in places if p == target}
        return n in places and set(chain) <= self.model.edges

    def nothing_held_left(self, left: set[int]) -> None:
        """Checks that nothing protected the items that left, according to the model."""
        critiques = {c for d in self.model.open_debates() for c in d.critiques}
        self.check("I5", not left & critiques, left & critiques)
        self.check("I3", not left & self.model.in_debate(), left & self.model.in_debate())
        self.check("I4", not left & self.model.owing(), left & self.model.owing())

    def items(self, sight: Sight, numbers: set[int]) -> dict[int, Item]:
        """Returns the items that were read, with all their edges; checks what each agent sees of them."""
        items: dict[int, Item] = {}
        leaving: dict[int, set[Edge]] = {}
        arriving: dict[int, set[Edge]] = {}
        for agent, found in zip(AGENTS, sight.founds, strict=True):
            visible = self.model.visible(agent)
            seen = {item.number for item in found.items}
            self.check("I1", visible & numbers <= seen, (agent, visible & numbers - seen))
            self.check("model", seen <= self.model.things.keys(), (agent, seen - self.model.things.keys()))
            self.check("I25", seen <= visible, (agent, seen - visible))
            for item in found.items:
                ends = {n for e in (*item.edges, *item.incoming) for n in (e.source, e.target)}
                ends |= {int(id_.split("-")[1]) for r in item.retracted for id_ in (r.id, r.via, r.by) if id_}
                self.check("I25", ends <= visible, (agent, item.id, ends - visible))
                items[item.number] = item
                leaving.setdefault(item.number, set()).update(item.edges)
                arriving.setdefault(item.number, set()).update(item.incoming)
        return {
            n: replace(items[n], edges=tuple(leaving[n]), incoming=tuple(arriving[n])) for n in sorted(items)
        }

    def same_as_the_model(self, items: dict[int, Item]) -> None:
        """Checks that items equal those of the model."""
        for n, item in items.items():
            thing = self.model.things[n]
            expires = None if item.expires_at is None else (item.expires_at - self.start).total_seconds()
            self.check("I1", item.text == thing.texts[-1], (item.text, thing.texts[-1]))
            self.check("I1", item.sha256 == content_hash(thing.texts[-1]), item)
            self.check("I2", item.zone == thing.zone, (item.id, item.zone, thing.zone))
            self.check("I22", item.version == len(thing.texts), (item.id, item.version))
            self.check("I26", (item.author, item.type) == (thing.author, thing.type), item)
            self.check("I36", expires == thing.expires, (item.id, expires, thing.expires))
            self.check("model", item.status == thing.status, (item.id, item.status, thing.status))
            self.check("model", item.thread == thing.thread, (item.id, item.thread, thing.thread))
            self.debate_of(item)
            self.footing_of(item)

    def footing_of(self, item: Item) -> None:
        """Checks the supporters and opponents of an item, its agreement, and its retraction notices."""
        n, model = item.number, self.model
        for agents, owners in (
            (item.supporters, model.supporters(n)),
            (item.opponents, model.opponents(n)),
        ):
            same = len(agents) == len(owners) and {model.owner(agent) for agent in agents} == owners
            self.check("model", same, (item.id, agents, owners))
        told = item.agreement
        sides = (
            {}
            if told is None
            else {"acknowledged": told.agreed, "outstanding": told.waiting, "away": told.away}
        )
        words = {word: set(names) for word, names in sides.items() if names}
        self.check("model", words == model.agreements(n), (item.id, words, model.agreements(n)))
        pact = model.pacts.get(n)
        reached = told is not None and told.reached
        self.check("model", reached == (pact is not None and pact.reached), (item.id, told, pact))
        self.outcome.happened["agreed"] += reached
        notices = {int(r.id.split("-")[1]): r.kind is not EdgeKind.SUPPORTS for r in item.retracted}
        self.check("model", notices == model.notices.get(n, {}), (item.id, notices, model.notices.get(n)))

    def debate_of(self, item: Item) -> None:
        about = [d for d in self.model.debates if item.number == d.root]
        if about:
            self.check("model", item.debate == about[-1].state, (item.id, item.debate, about[-1].state))

    def figures(self, items: dict[int, Item], sight: Sight) -> None:
        board = sight.board
        self.check("I17", board.seq == len(self.log), (board.seq, len(self.log)))
        working = [i for i in items.values() if i.zone is Zone.WORKING]
        tokens = sum(i.tokens for i in working)
        counted = (board.working_items, board.working_tokens, board.archived_items)
        self.check("I2", counted == (len(working), tokens, len(items) - len(working)), counted)
        self.check("I6", board.core == self.core, board.core)

    def view_of(self, agent: str, items: dict[int, Item]) -> None:
        visible = self.model.visible(agent)
        view, zones = self.gaze(agent)
        self.check("I2", sorted(n for zone in zones for n in zone) == sorted(visible), zones)
        tombstones = [n for n in visible if self.model.things[n].gone]
        self.check("I22", sorted(zones[-1]) == sorted(tombstones), (zones, tombstones))
        shown = {i.number: i for i in view.items}
        law = self.model.law() & visible
        for name, type_ in (("I7", "CONSTRAINT"), ("I8", "HOT_ISSUE")):
            there = {n for n in law if items[n].type == type_}
            verbatim = all(n in shown and shown[n].text == self.model.things[n].texts[-1] for n in there)
            self.check(name, verbatim, (there, set(shown)))
        self.check("I25", set(shown) <= visible and set(view.protected) <= visible, (agent, set(shown)))
        chains = {n for p in view.protected.values() for e in p.chain for n in (e.source, e.target)}
        self.check("I25", chains <= visible, (agent, chains - visible))
        self.explained_to(agent, items)
        owed = {(n, str(duty)) for n, duty in view.owed}
        self.check("model", owed == self.model.owed_by(agent), (agent, owed, self.model.owed_by(agent)))
        told = sorted((d.root, tuple(sorted(d.critiques))) for d in view.debates)
        there_ = sorted((d.root, tuple(sorted(d.critiques))) for d in self.model.open_debates())
        self.check("model", told == there_, (told, there_))

    def explained_to(self, agent: str, items: dict[int, Item]) -> None:
        """Checks that every item has exactly one of three explanations.

        None of them may reveal anything that the agent may not see.
        """
        visible = self.model.visible(agent)
        told = self.run(self.store.explain(self.at.board, agent, sorted(items)))
        self.check("I25", {e.item.number for e in told.explanations} == visible, (agent, told))
        protected = self.model.protected() | self.back_lately() | self.grounds()
        for e in told.explanations:
            n = e.item.number
            self.check("I25", set(e.names) <= visible, (agent, e.names))
            working = self.model.things[n].zone == "working"
            why = (e.protection is not None, e.turn is not None, e.left is not None)
            expected = (working and n in protected, working and n not in protected, not working)
            self.check("guard", why == expected, (n, why, expected))

    def every_version_is_readable(self) -> None:
        for n, thing in self.model.things.items():
            reader = thing.author if thing.private else "carol"
            refs = [Ref(n, v + 1) for v in range(len(thing.texts))]
            found = self.run(self.store.read(self.at.board, reader, refs, []))
            self.check("I1", [i.text for i in found.items] == thing.texts, (n, found, thing.texts))
            self.check("I1", all(i.sha256 == content_hash(i.text) for i in found.items), found)
            self.check("I22", [i.version for i in found.items] == [r.version for r in refs], found)
            self.check("I22", all(i.deleted == (i.text == "") for i in found.items), found)
            view = self.run(self.store.debate_status(self.at.board, reader, n))
            if isinstance(view, DebateView) and view.debate.root == n:
                known = [d for d in self.model.debates if d.root == n]
                self.check("model", known, f"the store has a debate on {n}")
                newest = known[-1] if known else Quarrel(n, "", False, 0.0)
                duties = {(o.agent, o.item, str(o.duty)): str(o.state) for o in view.debate.obligations}
                self.check("model", duties == newest.duties, (n, duties, newest.duties))
                votes = {v.owner: (v.agent, v.version, v.approve) for v in view.debate.votes}
                self.check("model", votes == newest.votes, (n, votes, newest.votes))
                self.check("model", view.debate.outcome == newest.outcome, (n, view.debate))
                self.check("model", view.debate.gave_way_to == newest.gave_way_to, (n, view.debate))
                answers = dict(view.debate.answers)
                self.check("model", answers == newest.answers, (n, answers, newest.answers))
                waiting = list(view.debate.unanswered)
                self.check("model", sorted(waiting) == sorted(self.model.unanswered(newest)), (n, waiting))
                if newest.state == "OPEN":
                    said = {
                        d.owner: (d.agent, d.version, str(d.outcome), d.to) for d in view.debate.decisions
                    }
                    self.check("model", said == newest.decisions, (n, said, newest.decisions))


def number_of(event: Event) -> int:
    """Returns the number of the item that an event is about."""
    assert event.item is not None
    return int(event.item.split("-")[1])


def acyclic(known: set[tuple[int, str, int]]) -> bool:
    """Tells whether `depends_on` has no cycle: after repeated removal of items that depend on nothing, none remain."""
    left = {(s, t) for s, kind, t in known if kind == "depends_on"}
    while True:
        sources = {source for source, _ in left}
        fewer = {(s, t) for s, t in left if t in sources}
        if fewer == left:
            return not left
        left = fewer


def plain(item: Item) -> tuple[object, ...]:
    """Returns the parts of an item that only an event may change."""
    return (
        item.version,
        item.status,
        item.zone,
        item.importance,
        item.text,
        item.tags,
        item.metadata,
        item.expires_at,
        item.updated_at,
        item.seq,
        set(item.edges),
    )
