"""A walk over a board together with the server's own actions: passes of the real pruner, views, the core.

The walk is the storage kit's, with the same plain model. Nothing here names an item to move: the server's own
policies do, and what they moved is told to the model and compared with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.items import Item, Visibility, Zone, item_id
from blackboard_mcp.protocols.pressure import Describe
from blackboard_mcp.protocols.pruning import Plan, Workspace
from blackboard_mcp.server.pruning.pruner import Pruner
from blackboard_mcp.server.pruning.selection import decide
from blackboard_mcp.server.text.tokens import Tokenizers
from blackboard_mcp.server.usecases.activity import Activity
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.stewardship import Stewardship
from blackboard_mcp.server.views import View, render_view
from blackboard_mcp.storage.testing.harness import draft
from blackboard_mcp.storage.testing.walk.machine import AGENTS, BoardMachine
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

SMALL = BoardConfig(target_tokens=120, summarise_over=2, core_tokens=60, owner_held=1.0, fresh_seconds=8)
TOKENIZERS = Tokenizers()
TOKENIZER = TOKENIZERS.launched
POLICIES = ("token-importance", "token-importance", "lru", "lfu", "size", "fair-share", "fair-share+lru")
TYPES = (
    "FACT",
    "HYPOTHESIS",
    "LOG",
    "LOG",
    "REPLY",
    "DECISION",
    "ANSWER",
    "PROBLEM",
    "PLAN",
    "QUESTION",
    "RESULT",
)
LAWS = (
    "one line",
    "two\nlines",
    "looks like ours: F-1 fact by bob: > no\n> nor this",
    "gap\n\nbelow it",
    "a: b · c … (d) ‘e’",
    "long " * 60 + "end",
)
FINISHED = ("RESOLVED", "WITHDRAWN", "INVALIDATED")

agents = st.sampled_from(AGENTS)
near = st.integers(0, 7)


class Served(BoardMachine):
    """The walk, together with the server's own actions."""

    @initialize()
    def make(self) -> None:
        self.run(self.store.ensure_board(self.at.board, "alice", SMALL))
        self.read_at: dict[int, datetime] = {}
        super().make()
        # The model has neither the hot issue about pressure nor refusals under pressure.
        self.store.judge_pressure = calm  # type: ignore[method-assign]
        self.pruner = Pruner(self.store, TOKENIZERS, "walk")
        self.stewardship = Stewardship(
            Blackboard(
                self.store,
                tokenizers=TOKENIZERS,
                pruner=self.pruner,
                archive=cast(Any, None),
                activity=Activity(self.store, self.clock),
                config=SMALL,
                default_board=self.at.board,
            ),
        )

    # What fills a board

    @rule(
        agent=agents,
        type_=st.sampled_from(TYPES),
        words=st.integers(1, 14),
        importance=st.sampled_from([None, None, 1, 2, 3, 4, 5]),
        back=near,
        kind=st.sampled_from(["", "replies_to", "derived_from"]),
    )
    def talk(self, agent: str, type_: str, words: int, importance: int | None, back: int, kind: str) -> None:
        """Posts items of every type, size and importance."""
        self.calls += 1
        text = " ".join([f"{type_.lower()} {self.calls}", *("word",) * words])
        pairs = [(kind, self.pick(back))] if kind else []
        sent = draft(text, type_, importance=importance, **dict(pairs))
        self.both(
            "talk",
            self.at.batch(agent, sent),
            lambda m: m.post(agent, text, type_, pairs, importance=importance),
        )

    @rule(agent=agents, type_=st.sampled_from(["CONSTRAINT", "HOT_ISSUE"]), text=st.sampled_from(LAWS))
    def rule_out(self, agent: str, type_: str, text: str) -> None:
        """Posts a constraint or a hot issue."""
        self.both("law", self.at.batch(agent, draft(text, type_)), lambda m: m.post(agent, text, type_, []))

    @rule(policy=st.sampled_from(POLICIES), back=near)
    def change_policy(self, policy: str, back: int) -> None:
        """Sets another eviction policy, and records that somebody reads an item now."""
        call = self.at.configure(policy=policy)
        self.both("policy", call, lambda m: None)
        reads = {self.pick(back): (1, self.clock.now())}
        self.read_at |= {n: at for n, (_, at) in reads.items()}
        self.run(self.store.record_activity(self.at.board, {}, reads))

    def flood(self, agent: str, weights: list[int], words: int) -> None:
        """Posts many items at once that nobody argues about; now and then the last one is too large to stay."""
        texts = [" ".join([f"flood {self.calls} {n}", *("word",) * words]) for n in range(len(weights))]
        texts[-1] += " word" * 90 * (words % 4 == 0)
        drafts = [draft(t, "FACT", importance=w) for t, w in zip(texts, weights, strict=True)]
        self.both(
            "flood",
            self.at.batch(agent, *drafts),
            lambda m: [
                m.post(agent, t, "FACT", [], importance=w) for t, w in zip(texts, weights, strict=True)
            ],
        )

    def analyse(self, agent: str, weights: list[int], words: int) -> None:
        """Posts logs, and marks all but the last of them as analysed."""
        first = len(self.model.things) + 1
        texts = [" ".join([f"log {self.calls} {n}", *("line",) * words]) for n in range(len(weights))]
        drafts = [draft(t, "LOG", importance=w) for t, w in zip(texts, weights, strict=True)]
        self.both(
            "logs",
            self.at.batch(agent, *drafts),
            lambda m: [
                m.post(agent, t, "LOG", [], importance=w) for t, w in zip(texts, weights, strict=True)
            ],
        )
        self.catch_up()
        logs = range(first, first + len(texts) - 1)
        for log in logs:
            by = [("analyzed_by", max(1, first - 1))]
            self.both(
                "analyse",
                self.at.batch(agent, draft(None, on=log, **dict(by))),
                lambda m, n=log, e=by: m.amend(agent, n, edges=e),  # type: ignore[misc]
            )
            self.catch_up()

    def converse(self, agent: str, weights: list[int], words: int) -> None:
        """Posts a thread that ends in a decision, long enough for a summary."""
        root = len(self.model.things) + 1
        for n, weight in enumerate(weights):
            text = " ".join(
                f"In round {self.calls} step {n} the site number {k} was seen by us and nothing was wrong there."
                for k in range(2 + words // 10)
            )
            type_ = "FACT" if n == 0 else "DECISION" if n == len(weights) - 1 else "REPLY"
            pairs = [("replies_to", root)] if n else []
            self.both(
                "converse",
                self.at.batch(AGENTS[n % 3], draft(text, type_, importance=min(weight, 3), **dict(pairs))),
                lambda m, a=AGENTS[n % 3], t=text, k=type_, p=pairs: m.post(a, t, k, p),  # type: ignore[misc]
            )
            self.catch_up()

    def returning(self, wanted: list[int]) -> list[int]:
        items = self.everything()
        return [n for n in wanted if items[n].tokens <= SMALL.low_tokens]

    # Passes

    @rule(
        first=st.sampled_from(["", "flood", "flood", "flood", "analyse", "converse"]),
        agent=agents,
        weights=st.lists(st.integers(1, 5), min_size=3, max_size=8),
        words=st.integers(2, 30),
    )
    def pass_by(self, first: str, agent: str, weights: list[int], words: int) -> None:
        """Runs a whole pass of the real pruner on a board filled for it: previewed, run, and run again."""
        self.calls += 1
        self.catch_up()
        if first:
            {"flood": self.flood, "analyse": self.analyse, "converse": self.converse}[first](
                agent, weights, words
            )
        board = self.at.board
        self.catch_up()
        before, standing = self.everything(), self.run(self.at.standing())
        foreseen = self.run(self.pruner.preview(board))
        self.deterministic()
        self.lately = self.back_lately() | self.grounds()
        outcomes = self.run(self.pruner.run_pass(board))
        self.outcome.steps += 1
        self.outcome.happened["pass"] += 1
        began = len(self.log)
        self.catch_up()
        made = self.told_by(self.log[began:])
        after = self.everything()
        moved = [line for outcome in outcomes for line in outcome.moved]
        left = {n for n, i in before.items() if i.zone is Zone.WORKING and after[n].zone is not Zone.WORKING}
        self.outcome.happened["pass moved"] += len(left)
        self.outcome.happened["pass summarised"] += len(made)
        self.check("I12", len({line[0] for line in moved}) == len(moved), moved)
        self.check("I12", {number(id_) for id_, _, _ in moved} - made == left, (moved, left))
        self.check("I10", {number(id_) for id_, _, _ in foreseen.moved} == left, (foreseen.moved, moved))
        self.ended_well(before, after, standing.working_tokens, moved)
        self.right_order(before, after, moved)
        now = self.run(self.at.standing())
        self.check("I6", now.core == self.core == standing.core, (now.core, self.core))
        again = self.run(self.pruner.run_pass(board))
        self.check("I10", not any(outcome.moved for outcome in again), (moved, again))

    def everything(self) -> dict[int, Item]:
        """Returns all items, by number."""
        numbers = self.all_numbers()
        return self.items(self.look(numbers), numbers)

    def deterministic(self) -> None:
        """Checks that the same working memory gives the same plan, in whatever order it is listed."""
        spaces: list[Workspace] = []

        def look(space: Workspace) -> Plan:
            spaces.append(space)
            return Plan()

        self.run(self.store.prune(self.at.board, look, apply=False))
        shuffled = list(spaces[0].candidates)
        random.Random(self.calls).shuffle(shuffled)
        plans = [decide(space) for space in (spaces[0], replace(spaces[0], candidates=tuple(shuffled)))]
        self.check("I10", plans[0] == plans[1], plans)

    def told_by(self, events: Iterable[Event]) -> set[int]:
        """Applies the events of a pass to the model, and returns the numbers of new summaries."""
        self.before, self.model = self.model, self.model.kept()
        made = set()
        for event in events:
            if event.item is None:
                continue
            n = number(event.item)
            if event.event == "item.posted":
                item = self.run(self.at.item(n))
                sources = sorted(e.target for e in item.edges)
                left = [n for n in sources if self.model.things[n].zone == "working"]
                expected = self.model.summarise(item.thread, left, item.text)
                self.check("I14", expected == n, (item, sources))
                self.check("I13", item.metadata["sources"] == [self.id_of(s) for s in sources], item)
                made.add(n)
            elif event.event in ("item.archived", "item.expired"):
                if self.model.things[n].zone == "archive":
                    continue
                self.nothing_held_left({n})
                left = self.model.prune([n], self.lately)
                self.check("guard", left == {n}, f"{event.item} left although it is held")
        return made

    def id_of(self, n: int) -> str:
        return item_id(self.model.things[n].type, n)

    def free(self, items: dict[int, Item]) -> list[Item]:
        """Returns the items that a pass may take, by the model's view of the guard."""
        held = self.model.protected() | self.lately
        return [i for n, i in items.items() if i.zone is Zone.WORKING and n not in held]

    def ended_well(
        self,
        before: dict[int, Item],
        after: dict[int, Item],
        tokens: int,
        moved: Sequence[tuple[str, int, str]],
    ) -> None:
        """Checks invariant I9 on the items that are left."""
        config = self.run(self.at.standing()).config
        free = self.free(after)
        now = sum(i.tokens for i in after.values() if i.zone is Zone.WORKING)
        due = [i for i in free if i.expires_at is not None and i.expires_at <= self.clock.now()]
        self.check("I9", not due, due)
        large = [i for i in self.free(before) if too_large(i, before, config)]
        self.check("I9", all(after[i.number].zone is Zone.ARCHIVE for i in large), (large, moved))
        self.outcome.happened["too large left"] += len(large)
        if tokens - sum(i.tokens for i in large) <= config.low_tokens:
            alone = {i.id for i in large}
            self.check("I9", all(why == "expired" or id_ in alone for id_, _, why in moved), (large, moved))
        if now > config.low_tokens:
            self.check("I9", not any(i.status in FINISHED for i in free), free)
            self.check("I9", not any(superseded(i, after) for i in free), free)
            self.check("I9", not any(i.type == "LOG" and analysed(i, after) for i in free), free)
            self.check("I9", all(weight(i, after) > config.ceiling for i in free), (now, free))
        if now > config.high_tokens:
            self.outcome.happened["pass ended above high water"] += 1
            self.check("I9", all(i.importance == 5 for i in free), (now, free))

    def right_order(
        self, before: dict[int, Item], after: dict[int, Item], moved: Sequence[tuple[str, int, str]]
    ) -> None:
        """Checks invariant I11: within each step and class, items that left came before those that stay."""
        config = self.run(self.at.standing()).config
        free = self.free(after)
        by_step: dict[int, list[Item]] = {}
        beyond: dict[str, list[Item]] = {}
        shared = self.by_share(before, moved, config)
        for id_, step, why in moved:
            if step == 4 and number(id_) in before and too_large(before[number(id_)], before, config):
                continue
            if config.policy == "token-importance" and why.endswith("fair-share"):
                self.check("I11", number(id_) in shared, (id_, moved))
            if config.policy == "token-importance" and number(id_) in shared:
                item = before[number(id_)]
                beyond.setdefault(self.model.owner(item.author), []).append(item)
            elif why != "expired" and number(id_) in before:
                by_step.setdefault(step, []).append(before[number(id_)])
        plain = [i for i in free if i.number in before and not waits(before[i.number], before)]
        for owner, taken in beyond.items():
            left = [i for i in plain if self.model.owner(i.author) == owner and i.importance < 5]
            most = max(
                ((self.fresh(i, before), i.importance, i.seq) for i in taken if not waits(i, before)),
                default=(),
            )
            passed_over = [i for i in left if (self.fresh(i, before), i.importance, i.seq) < most]
            self.check("I11", not passed_over, (taken, passed_over))
            self.outcome.happened["pass by share"] += 1
        if 1 in by_step:
            for fell in (True, False):
                gone = [i for i in by_step[1] if (i.status == "INVALIDATED") == fell]
                left = [i for i in free if i.status in FINISHED or superseded(i, after)]
                left = [i for i in left if (i.status == "INVALIDATED") >= fell]
                self.check("I11", not gone or older(gone, left), (gone, left))
        if 2 in by_step:
            left = [i for i in free if i.type == "LOG" and analysed(i, after)]
            self.check("I11", older(by_step[2], left), (by_step[2], left))
        if 4 in by_step and config.policy == "token-importance":
            last = max((self.turn(i, before, config) for i in by_step[4] if not waits(i, before)), default=())
            passed_over = [i for i in plain if i.importance < 5 and self.turn(i, before, config) < last]
            self.check("I11", not passed_over, (by_step[4], passed_over))
            self.outcome.happened["pass by importance"] += 1
        self.what_waits(by_step.get(4, []), plain, before, after, config, shared)

    def what_waits(
        self,
        taken: Sequence[Item],
        plain: Sequence[Item],
        before: dict[int, Item],
        after: dict[int, Item],
        config: BoardConfig,
        shared: set[int],
    ) -> None:
        """Checks that open work left after all else of its owner's, and items that others rest on left after that."""
        for item in taken:
            most = config.ceiling if item.importance <= config.ceiling else 4
            if open_work(item, before):
                owner = self.model.owner(item.author)
                left = [i for i in plain if self.model.owner(i.author) == owner and i.importance <= most]
                self.check("I11", not left, (item, left))
                self.outcome.happened["open work left"] += 1
            if any(after[n].zone is Zone.WORKING for n in resting_on(item, before)):
                left = [i for i in plain if i.importance <= 4]
                if item.number in shared:
                    owner = self.model.owner(item.author)
                    left = [i for i in left if self.model.owner(i.author) == owner]
                self.check("I11", not left, (item, left))
                self.outcome.happened["ground left"] += 1

    def by_share(
        self, items: dict[int, Item], moved: Sequence[tuple[str, int, str]], config: BoardConfig
    ) -> set[int]:
        """Returns those of the moved items whose owners had more than one owner's share of working memory just then.

        The reasons of moves do not tell: they must not name a share that private items exceed.
        """
        share = int(config.low_tokens * config.owner_share)
        used: dict[str, int] = {}
        left = {n: i for n, i in items.items() if i.zone is Zone.WORKING and i.author != "system"}
        for item in left.values():
            used[self.model.owner(item.author)] = used.get(self.model.owner(item.author), 0) + item.tokens
        found: set[int] = set()
        owners = 0
        for id_, step, _ in moved:
            owners = owners or (sum(tokens > 0 for tokens in used.values()) if step == 4 else 0)
            gone = left.pop(number(id_), None)
            if gone is not None:
                owner = self.model.owner(gone.author)
                if owners > 1 and used[owner] > share:
                    found.add(gone.number)
                used[owner] -= gone.tokens
        return found

    def turn(self, item: Item, items: dict[int, Item], config: BoardConfig) -> tuple[bool, bool, int, int]:
        """Returns the sort key of an item in the order of a pass; the item must not be one that `waits`."""
        return item.importance > config.ceiling, self.fresh(item, items), item.importance, item.seq

    def fresh(self, item: Item, items: dict[int, Item]) -> bool:
        """Tells whether an item was changed, read or cited lately."""
        lately = self.clock.now() - timedelta(seconds=SMALL.fresh_seconds)
        cites = ("depends_on", "derived_from", "replies_to", "supports", "critiques", "refutes")
        sources = [items[e.source] for e in item.incoming if e.kind in cites and e.source in items]
        used = [s.created_at for s in sources if seen_with(item, s)]
        used += [
            self.log[item.seq - 1].at,
            *([self.read_at[item.number]] if item.number in self.read_at else []),
        ]
        return max(used) >= lately

    # The core and views

    @rule(words=st.sampled_from([0, 5, 20, 55, 70]), constraints=st.integers(0, 3))
    def steward(self, words: int, constraints: int) -> None:
        """Sets a core of any size, which must be accepted up to its cap and refused above it."""
        objective = " ".join(["go"] * words)
        rules = tuple(f"rule {n}" for n in range(constraints))
        tokens = sum(TOKENIZER.count(text) for text in (objective, *rules))
        self.catch_up()
        self.outcome.steps += 1
        call = self.stewardship.set_core(
            "alice",
            self.at.board,
            self.core.version,
            objective=objective,
            constraints=rules,
            flags={},
        )
        try:
            self.core = self.run(call)[0]
            self.outcome.happened["core"] += 1
            self.check("I6", tokens <= SMALL.core_tokens, f"a core of {tokens} tokens was taken")
        except Refused:
            self.outcome.happened["core too big"] += 1
            self.check("I6", tokens > SMALL.core_tokens, f"a core of {tokens} tokens was refused")

    @rule(agent=agents, budget=st.sampled_from([1, 40, 90, 150, 300, 600, 1_500, 6_000]))
    def view(self, agent: str, budget: int) -> None:
        """Checks that a view has all constraints word for word within its budget.

        A refused view must name the budget that would be enough.
        """
        self.catch_up()
        self.outcome.steps += 1
        snapshot = self.run(self.store.snapshot(self.at.board, agent))

        def render(tokens: int) -> View:
            return render_view(snapshot, agent=agent, budget=tokens, tokenizer=TOKENIZER)

        try:
            view = render(budget)
            self.outcome.happened["view"] += 1
        except Refused as refused:
            self.outcome.happened["view refused"] += 1
            needed = refused.facts["needed"]
            self.check("I38", needed > budget, refused)
            budget = needed
            view = render(budget)
        self.check("I38", TOKENIZER.count(view.text) == view.tokens <= budget, (budget, view))
        self.check("I38", render(budget) == view, view)
        lines = view.text.split("\n")
        for place, text in enumerate(self.core.constraints, 1):
            self.check("I7", f"constraint {place}: {text}" in lines, (text, view.text))
        for n in self.model.law() & self.model.visible(agent):
            thing = self.model.things[n]
            name = "I7" if thing.type == "CONSTRAINT" else "I8"
            self.check(name, stands_in(lines, self.id_of(n), thing.texts[-1]), (thing, view.text))
        hidden = {self.id_of(n) for n in self.model.things} - {
            self.id_of(n) for n in self.model.visible(agent)
        }
        self.check("I25", not hidden & {*view.shown, *view.excerpts, *view.stubs}, (hidden, view))


async def calm(board: str, describe: Describe) -> None:
    """Replaces the judgement of pressure, and finds none."""


def number(id_: str) -> int:
    return int(id_.split("-")[1])


def analysed(item: Item, items: dict[int, Item]) -> bool:
    """Tells whether an `analyzed_by` edge joins the item with one that all its readers can see."""
    ends = [(e.source, e.target) for e in (*item.edges, *item.incoming) if e.kind == "analyzed_by"]
    return any(seen_with(item, items[n]) for pair in ends for n in pair if n != item.number)


def too_large(item: Item, items: dict[int, Item], config: BoardConfig) -> bool:
    """Tells whether an item that is in none of the first two steps has more tokens than stay when room is made."""
    early = (
        item.status in FINISHED or superseded(item, items) or (item.type == "LOG" and analysed(item, items))
    )
    return item.tokens > config.low_tokens and item.importance <= 4 and not early


def superseded(item: Item, items: dict[int, Item]) -> bool:
    """Tells whether its own author superseded the item by one that all its readers can see."""
    newer = [items[e.source] for e in item.incoming if e.kind == "supersedes"]
    return any(n.author == item.author and seen_with(item, n) for n in newer)


def seen_with(item: Item, other: Item) -> bool:
    """Tells whether all who see `item` see `other` too."""
    return other.visibility is Visibility.BOARD or (
        item.visibility is Visibility.PRIVATE and item.author == other.author
    )


def open_work(item: Item, items: dict[int, Item]) -> bool:
    """Tells whether the item is open work, which leaves after all else of its owner's."""
    if item.status != "ACTIVE" or superseded(item, items):
        return False
    cited = [(e.kind, items[e.source]) for e in item.incoming if seen_with(item, items[e.source])]
    if any(kind == "depends_on" and x.zone is Zone.WORKING and x.status == "ACTIVE" for kind, x in cited):
        return True
    answers = [
        x for kind, x in cited if kind == "replies_to" and x.status not in ("WITHDRAWN", "INVALIDATED")
    ]
    answered = any(
        x.type == "ANSWER" or (x.type not in ("QUESTION", "CRITIQUE") and x.author != item.author)
        for x in answers
    )
    return item.type in ("PROBLEM", "PLAN", "DECISION") or (item.type == "QUESTION" and not answered)


def resting_on(item: Item, items: dict[int, Item]) -> set[int]:
    """Returns the numbers of important live items that rest on the item, and of fallen claims that it refutes."""
    resting = {
        x.number
        for e in item.incoming
        if e.kind in ("derived_from", "depends_on") and (x := items[e.source]).status in ("ACTIVE", "DEBATED")
        if x.importance >= 3 and x.zone is Zone.WORKING and x.type != "SUMMARY" and not superseded(x, items)
        if seen_with(item, x)
    }
    fell = [items[e.target] for e in item.edges if e.kind == "refutes"]
    gone = {
        x.number for x in fell if x.status == "INVALIDATED" and x.zone is Zone.WORKING and seen_with(item, x)
    }
    return resting | gone


def waits(item: Item, items: dict[int, Item]) -> bool:
    """Tells whether the item leaves later than others of its importance."""
    return open_work(item, items) or bool(resting_on(item, items))


def weight(item: Item, items: dict[int, Item]) -> int:
    """Returns the highest importance among the item and those that rest on it, directly or not."""
    reached, fresh = {item.number}, [item]
    while fresh:
        found = {n for x in fresh for n in resting_on(x, items)} - reached
        reached |= found
        fresh = [items[n] for n in found]
    return max(items[n].importance for n in reached)


def older(gone: Sequence[Item], left: Sequence[Item]) -> bool:
    """Tells whether all of `gone` were last changed before all of `left`."""
    return not left or max(i.seq for i in gone) < min(i.seq for i in left)


def stands_in(lines: Sequence[str], id_: str, text: str) -> bool:
    """Tells whether a text is in a view in full: on the line of its item's id, or quoted on the lines below."""
    wanted = text.split("\n")
    for place, line in enumerate(lines):
        if not line.startswith(f"{id_} "):
            continue
        if len(wanted) == 1 and line.endswith(f": {text}"):
            return True
        below = [("> " + part).rstrip() if not part else "> " + part for part in wanted]
        if line.endswith(":") and list(lines[place + 1 : place + 1 + len(below)]) == below:
            return True
    return False
