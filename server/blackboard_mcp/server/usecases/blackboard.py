"""The main use cases: posting, reading, searching and debating on a board, whatever transport the agent uses.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, TypedDict

from blackboard_mcp.protocols.access import Action, Trust
from blackboard_mcp.protocols.answers import (
    SNAPSHOT_ITEMS,
    Attention,
    DebateView,
    Notice,
    NoticeFor,
    Once,
    Posted,
    Snapshot,
)
from blackboard_mcp.protocols.answers import (
    Page as ItemPage,
)
from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.board import Board, BoardConfig
from blackboard_mcp.protocols.closeness import telling
from blackboard_mcp.protocols.debates import Outcome, StandingWatch
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, QuotaExceeded, UnknownReference
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.explain import Explained
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.findings import FINDINGS, MAX_FINDING, fingerprint
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.items import (
    LETTERS,
    MAX_BATCH_EDGES,
    MAX_BATCH_TEXT,
    Draft,
    Item,
    ItemType,
    Zone,
    check_letters,
    parse_ref,
)
from blackboard_mcp.protocols.literals import OutcomeName
from blackboard_mcp.protocols.sightings import Readership, Way
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.topics import TopicKind, is_topic, parse_topic
from blackboard_mcp.protocols.values import Newest, changed
from blackboard_mcp.protocols.workspace import Revision, named_revisions

from ..access.judging import AccessJudge
from ..access.registry import AccessPolicies
from ..access.rights import Recent, Rights, there
from ..input.debates import DebateOp, check_debating
from ..input.idempotency import check_once_key, once_of
from ..input.posts import (
    WATCHERS_INSTEAD,
    PostFields,
    check_addressed,
    check_agent,
    check_board,
    digest,
    draft,
)
from ..input.validation.checking import Validation, Validators
from ..limits.limits import Limits
from ..limits.rates import Quotas, size_of
from ..limits.turns import in_thread, one_more_turn
from ..plugins.protocols import Protocols
from ..pruning.pruner import Pruner
from ..text.tokens import Tokenizers
from ..views import View, render_view
from .activity import Activity
from .conflicts import with_texts
from .following import Following
from .kept import KEPT_SECONDS, KeptViews, asked_for
from .last_seen import Looks, ShownRules
from .reading import ItemReader, Reading, check_explained
from .redaction import readable
from .searching import (
    ArchiveSearch,
    SearchResult,
    ids_alone,
    numbers_as_ids,
    restored_before,
    search,
    search_board,
    with_live,
    with_neighbours,
)

VIEW_BUDGET = 1_500
_END = 1 << 62
"""A sequence that no log reaches."""
_FEW_ITEMS = 120
_ITEM_TOKENS = 9
"""A view is rendered from one item for so many tokens of its budget, at least `_FEW_ITEMS`: a line has 20 and more."""
_MOST_FILES = 5
"""Most files that are looked up for one answer."""
_SHORT = 200
"""Most items for which a view is rendered on the event loop, for half a millisecond; a thread costs nearly as much."""
_COUNTED_INLINE = 20_000
_LETTERED = 10_000
"""Ids that are known to be right, so that nobody looks them up again."""
_OWNERS = 10_000


class _Debating(TypedDict):
    """Arguments that every debate call of the store takes."""

    once: Once | None
    look: int


_BY_TOPIC = ("watch", "unwatch", "status")


class Blackboard:
    """The boards of a store, kept inside their budgets and searchable when pruned.

    `deciders` and `stewards` are the agents that the launch configuration names. Without named deciders,
    agents with the right to decide may decide debates to which they are no party. `store` must be one whose
    changes `access` judges.
    """

    def __init__(
        self,
        store: BoardStore,
        *,
        tokenizers: Tokenizers,
        pruner: Pruner,
        archive: ArchiveSearch,
        activity: Activity,
        config: BoardConfig,
        default_board: str,
        deciders: Sequence[str] = (),
        stewards: Sequence[str] = (),
        summarizes: bool = False,
        claims: bool = False,
        takes_turns: bool = False,
        validators: Validators | None = None,
        access: AccessJudge | None = None,
        responds: bool = False,
        protocols: Protocols | None = None,
        checks: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self.store = store
        self.checks = checks
        """The checks that the server runs, by name: the boards that each is for, none of them for all boards."""
        self.tokenizers = tokenizers
        self.pruner = pruner
        self.archive = archive
        self.activity = activity
        self.config = config
        self.default_board = check_board(default_board)
        self.deciders = tuple(deciders)
        self.rights = Rights(store, self.default_board, stewards=stewards, deciders=deciders)
        self.rights.introduce = lambda who: self.introduce(who.agent, who.owner, who.trust)
        self.validators = Validators() if validators is None else validators
        self.access = AccessJudge(AccessPolicies()) if access is None else access
        self.validation = Validation(store, self.validators, config, tokenizers)
        self._summarizes = summarizes
        self.claims = claims
        self._takes_turns = takes_turns
        self._responds = responds
        self.protocols = Protocols() if protocols is None else protocols
        self.looks = Looks(activity)
        self.rules = ShownRules(store)
        self._lettered: Newest[tuple[str, str, int], None] = Newest(_LETTERED)
        self.unlooked: set[str] = set()
        """Boards whose files were not looked at after a change, since the store could not write then."""
        self._kept_views = KeptViews(store)
        self._found: Newest[str, int | None] = Newest(_OWNERS)
        """Boards that were there, and are for good, with the store's stamp as of the last look at their settings."""
        self._reader = ItemReader(store, self.looks, activity)
        self.following = Following(store, self.looks, self.board_of, activity)
        self._owners: Newest[str, tuple[str, Trust]] = Newest(_OWNERS)
        """The owner and the trust that the last credential of each agent named."""
        self._introduced = Recent(self._is_introduced)
        self.quotas = Quotas()

    async def introduce(self, agent: str, owner: str, trust: Trust = Trust.NORMAL) -> None:
        """Records the agent's owner and trust level, unless this process did so within the last second.

        Another process may have recorded the owner and trust of another credential since.

        Raises:
            InvalidInput: a name is not valid.
        """
        who = check_agent(agent), check_agent(owner), trust
        if not await self._introduced.of(who, afresh=self._owners.get(agent) != (owner, trust)):
            await self.store.set_owner(agent, owner)
            self._introduced.keep(who, True)
        self._owners[agent] = owner, trust

    async def _is_introduced(self, who: tuple[str, str, Trust]) -> bool:
        """Records the trust, and tells whether the owner is the recorded one."""
        agent, owner, trust = who
        await self.store.set_trust(agent, trust)
        return await self.store.owner_of(agent) == owner

    def limit(self, limits: Limits) -> None:
        """Applies these limits to everything that agents write and hold from now on."""
        shared = self.quotas.shared
        self.quotas = self.following.quotas = Quotas(
            limits, owner_of=lambda agent: self._owners.get(agent, (agent,))[0]
        )
        self.quotas.shared = shared

    async def board_of(self, board: str | None, agent: str, *, counts: bool = True) -> str:
        """Returns the id of the board that a call is about; `None` stands for the default board.

        The default board is created when an agent that may post first names it. Calls that do not count by the
        board's tokenizer, or learn of it themselves, say `counts=False`.

        Raises:
            InvalidInput: it is no valid board id.
            UnknownReference: there is no such board.
        """
        name = check_board(board) if board is not None else self.default_board
        stamp = self.stamp() if counts or name not in self._found else None
        if name in self._found and (not counts or (stamp is not None and self._found[name] == stamp)):
            self.activity.seen(name, agent)
            return name
        found = await self.store.find_board(name)
        self.tokenizers.see(found)
        if found is None:
            if name != self.default_board or not _may_post():
                grant = GRANTED.get()
                default = self.default_board if grant is None else self.rights.default_of(grant.roles)
                raise UnknownReference(
                    f"There is no board '{name}'. Nothing was changed; post(board='{name}', …) creates it, "
                    f"the default board is '{default}'{there(await self._reached())}.",
                    board=name,
                )
            await self.store.ensure_board(name, agent, self.config)
        else:
            self._found[name] = stamp
        self.activity.seen(name, agent)
        return name

    async def _reached(self) -> list[str]:
        """Returns the boards that the caller may know of, the newest first."""
        grant = GRANTED.get()
        boards = sorted(await self.store.boards(), key=lambda board: board.created_at, reverse=True)
        return [board.id for board in boards if grant is None or grant.reaches(board.id)]

    # Posting

    async def post(
        self,
        agent: str,
        board: str | None,
        posts: Sequence[PostFields],
        idempotency_key: str | Once | None = None,
        *,
        ruling: bool = False,
    ) -> Posted:
        """Posts all of the items or none, and returns what was written. For `ruling` see `BoardStore.post`.

        `idempotency_key` stands for the posts, or has a digest of what they were made of.

        Raises:
            InvalidInput: a post is not valid.
            UnknownReference: a post names an item that is not there.
            Conflict: an expected version is no longer the current one.
            Refused: a rule, limit or right forbids a post.
        """
        check_agent(agent)
        name = check_board(board) if board is not None else self.default_board
        self.quotas.charge(agent, name, len(posts), sum(size_of(post.text, post.metadata) for post in posts))
        return await self._write(agent, name, posts, idempotency_key, ruling=ruling)

    async def record(
        self, board: str, posts: Sequence[PostFields], idempotency_key: str | None = None
    ) -> Posted:
        """Posts what the server itself found, in the name of the server. Errors are those of `post`."""
        return await self._write(SYSTEM, board, posts, idempotency_key)

    async def _write(
        self,
        agent: str,
        name: str,
        posts: Sequence[PostFields],
        idempotency_key: str | Once | None = None,
        *,
        ruling: bool = False,
    ) -> Posted:
        drafts = self.signed(agent, await self.drafts(name, posts))
        once = idempotency_key if isinstance(idempotency_key, Once) else None
        if isinstance(idempotency_key, str):
            once = Once(check_once_key(idempotency_key), digest(list(posts)))
        try:
            posted = await self.validation.write(
                name,
                agent,
                drafts,
                once,
                lambda checked: self.store.post(
                    name,
                    agent,
                    checked,
                    config=self.config,
                    once=once,
                    look=self.looks.of(name, agent),
                    ruling=ruling,
                ),
            )
        except UnknownReference as error:
            raise as_asked(error, posts) from None
        except Conflict as error:
            raise await with_texts(self.store, name, agent, error) from None
        for item in posted.items:
            self._lettered[name, LETTERS[item.type], item.number] = None
        if agent != SYSTEM:
            self.activity.seen(name, agent)
        attention = self.looks.told(name, agent, posted.seq, posted.attention)
        if attention is not posted.attention:
            posted = changed(posted, attention=attention)
        posted = readable(posted)
        for fields in posts:
            if fields.ttl_seconds is not None:
                self.pruner.expect(fields.ttl_seconds)
        if posted.board.pass_due:
            self.pruner.kick(name)
        return posted

    async def drafts(self, board: str, posts: Sequence[PostFields]) -> list[Draft]:
        """Returns checked drafts with their tokens counted; long texts are counted in a thread.

        Raises:
            InvalidInput: a post is not valid, or the posts are too large together.
            QuotaExceeded: a text is longer than this server takes.
        """
        tokenizer = self.tokenizers.on(board)

        def check() -> list[Draft]:
            made: list[Draft] = []
            for place, fields in enumerate(posts):
                try:
                    self.quotas.check_text(len(fields.text or ""))
                    made.append(self.protocols.levelled(draft(fields, tokenizer, place)))
                except (InvalidInput, QuotaExceeded) as error:
                    if len(posts) == 1:
                        raise
                    words = f"Item {place + 1} of {len(posts)}: {error.message}"
                    raise type(error)(words, **{"place": place + 1, **error.facts}) from None
                if _may_be_found_again(fields):
                    fingerprint(fields.text or "")  # cached here for the store's writer
                    telling(fields.text or "")
            return made

        characters = sum(len(fields.text or "") for fields in posts)
        if characters > MAX_BATCH_TEXT:
            raise InvalidInput(
                f"The texts of a call have at most {MAX_BATCH_TEXT:,} characters in all, not {characters:,}. Nothing "
                "was changed; post them in several calls."
            )
        edges = sum(len(targets) for fields in posts for targets in (fields.edges or {}).values())
        if edges > MAX_BATCH_EDGES:
            raise InvalidInput(
                f"The posts of a call have at most {MAX_BATCH_EDGES:,} edges in all, not {edges:,}. Nothing was "
                "changed; post them in several calls."
            )
        if characters > _COUNTED_INLINE:
            return await asyncio.to_thread(check)
        return check()

    def signed(self, agent: str, drafts: Sequence[Draft]) -> list[Draft]:
        """Returns the drafts, marked as undecided where deciders are named and the agent is none of them."""
        grant = GRANTED.get()
        decides = agent in self.deciders or (
            grant is not None
            and not self.deciders_for(agent)
            and Action.DECIDE in grant.powers.get(grant.member, frozenset())
        )
        if decides or not self.deciders:
            return list(drafts)
        return [replace(draft, undecided=True) for draft in drafts]

    async def last_seen(self, board: str, names: Collection[str]) -> dict[str, datetime]:
        """Returns the last calls of the named agents, by name; agents without any call are left out."""
        if not names:
            return {}
        listed = await self._seen(board)
        return {name: listed[name] for name in names if name in listed}

    async def newer_files(self, board: str, text: str) -> list[tuple[Revision, int]]:
        """Returns the last revisions of files that a text names by a former one, with that, of the first it names."""
        newer: list[tuple[Revision, int]] = []
        for path, number in list(named_revisions(text).items())[:_MOST_FILES]:
            with contextlib.suppress(InvalidInput):  # what looks like a path need not be one
                for newest in await self.store.artifact_history(board, path, limit=1):
                    if newest.path == path and newest.number > number:
                        newer.append((newest, number))
        return newer

    async def presence(self, board: str) -> float:
        """Returns the number of seconds after which nobody waits for an agent without a call; 0: for ever."""
        found = await self.store.find_board(board)
        return 0 if found is None else found.config.presence_seconds

    async def others_here(self, board: str, agent: str) -> dict[str, datetime]:
        """Returns the last calls of the other agents on a board, by name, the latest first."""
        listed = await self._seen(board)
        there = sorted(listed, key=lambda name: (listed[name], name), reverse=True)
        return {name: listed[name] for name in there if name not in (agent, SYSTEM)}

    async def _seen(self, board: str) -> dict[str, datetime]:
        listed = {known.name: known.last_seen for known in await self.store.agents(board)}
        return listed | self.activity.noted(board)

    async def debate(
        self,
        agent: str,
        board: str | None,
        op: DebateOp,
        id_: str,
        *,
        reason: str = "",
        watchers: Sequence[str] = (),
        approve: bool | None = None,
        outcome: OutcomeName | None = None,
        to: str | None = None,
        once_key: str | None = None,
    ) -> tuple[str, DebateView | Item]:
        """Carries out `op` and returns the board's id and the debate's new state; the item where it was never
        debated.

        `watchers`, `approve`, `outcome` and `to` go with some operations only.

        Raises:
            InvalidInput: arguments do not go with the operation, or the id is not valid.
        """
        said = {"watchers": list(watchers) or None, "approve": approve, "outcome": outcome, "to": to}
        check_debating(op, id_, said, reason)
        if is_topic(id_):
            raise InvalidInput(
                f'op="{op}" takes the id of an item, say H-17; topics go with {", ".join(_BY_TOPIC)}. Nothing was '
                "changed."
            )
        try:
            ref = parse_ref(id_)
        except InvalidInput as error:
            if op not in _BY_TOPIC:
                raise
            topics = "Topics look like tag:db, key:plan:**, type:DECISION or thread:H-3."
            raise InvalidInput(f"{error.message} {topics}", **error.facts) from None
        number = ref.number
        name = await self.board_of(board, agent, counts=False)
        check_agent(agent)
        self.quotas.charge(agent, name, 0 if op == "status" else 1)
        if op != "status":
            await self.check_named(agent, name, [id_] if to is None else [id_, to])
        more_said = {name: value for name, value in (("outcome", outcome), ("to", to)) if value is not None}
        once = once_of(
            *(once_key, f"debate {op}"),
            **{"id": id_, "reason": reason, "watchers": list(watchers), "approve": approve, **more_said},
        )
        ruling = None if outcome is None else Outcome(outcome)
        other = None if to is None else parse_ref(to).number
        more: _Debating = {"once": once, "look": self.looks.of(name, agent)}
        store = self.store
        match op:
            case "open":
                named = [check_addressed(watcher, WATCHERS_INSTEAD) for watcher in watchers]
                state = await store.debate_open(name, agent, number, named, **more)
            case "watch":
                state = await store.debate_watch(name, agent, number, **more)
            case "unwatch":
                state = await store.debate_unwatch(name, agent, number, **more)
            case "vote":
                yes = approve is not False
                state = await store.debate_vote(
                    name, agent, number, approve=yes, reason=reason, version=ref.version, **more
                )
            case "acknowledge":
                state = await store.debate_acknowledge(
                    name, agent, number, reason=reason, version=ref.version, **more
                )
            case "withdraw":
                state = await store.debate_withdraw(name, agent, number, reason, **more)
            case "concede":
                state = await store.debate_concede(name, agent, number, reason, to=other, **more)
            case "decide":
                named = list(self.deciders_for(agent))
                state = await store.debate_decide(
                    *(name, agent, number, reason, named),
                    outcome=ruling,
                    to=other,
                    version=ref.version,
                    **more,
                )
            case "confirm":
                state = await store.debate_confirm(
                    name, agent, number, self.deciders, outcome=ruling, version=ref.version, **more
                )
            case "status":
                state = await store.debate_status(name, agent, number, look=more["look"])
        if isinstance(state, DebateView):
            if state.pass_due and op != "status":
                self.pruner.kick(name)
            state = replace(state, attention=self.looks.told(name, agent, state.seq, state.attention))
        elif op != "status":
            await self.prune_if_due(name)
        return name, state

    async def check_named(self, agent: str, board: str, ids: Iterable[str]) -> None:
        """Checks that a call that changes something names items by their own letters.

        Items that the agent cannot see are left to the call itself, which knows none of them.

        Raises:
            InvalidInput: an id has the letter of another type, so that the agent may mean another item.
        """
        for ref in map(parse_ref, dict.fromkeys(ids)):
            if ref.letter is None or (board, ref.letter, ref.number) in self._lettered:
                continue
            # Any event about an item has its type, and costs less than the item.
            events = await self.store.history(board, agent, ref.number, limit=1)
            if events and (type_ := events[0].type) is not None:
                check_letters([ref], {ref.number: type_})
                self._lettered[board, ref.letter, ref.number] = None

    async def watch_topic(
        self,
        agent: str,
        board: str | None,
        op: DebateOp,
        topic: str,
        *,
        once_key: str | None = None,
    ) -> tuple[list[StandingWatch], int, Attention]:
        """Starts or ends a standing watch on a topic; the operation `status` does neither.

        Returns the agent's watches, the board's sequence, and what waits for the agent.
        """
        named = parse_topic(topic)
        name = await self.board_of(board, agent)
        check_agent(agent)
        self.quotas.charge(agent, name, 0 if op == "status" else 1)
        once = once_of(once_key, f"{op} topic", topic=topic)
        if op == "watch" and named.kind is TopicKind.THREAD:
            await self.check_named(agent, name, [topic.partition(":")[2]])
        if op == "watch":
            held = await self.store.watch_topic(name, agent, named, once=once)
        elif op == "unwatch":
            held = await self.store.unwatch_topic(name, agent, named, once=once)
        else:
            held = await self.store.watches(name, agent)
        attention, seq = await self.attention(agent, name)
        return held, seq, attention

    async def attention(
        self,
        agent: str,
        board: str,
        *,
        events: Iterable[int] = (),
        items: Iterable[int] = (),
        way: Way | None = None,
    ) -> tuple[Attention, int]:
        """Returns what waits for the agent on an existing board, and the board's sequence.

        `events` (sequences) and `items` (numbers) count as shown to the agent by this call, the items in this
        `way`.
        """
        notice = await self.store.notice(board, agent, NoticeFor(self.looks.of(board, agent)))
        return self.noticed(agent, board, notice, events=events, items=items, way=way), notice.seq

    def noticed(
        self,
        agent: str,
        board: str,
        notice: Notice,
        *,
        events: Iterable[int] = (),
        items: Iterable[int] = (),
        way: Way | None = None,
    ) -> Attention:
        """Records that the agent is told a notice, and returns what waits for it; otherwise as `attention`."""
        return self.looks.told(board, agent, notice.seq, notice.attention, items, way, events=events)

    def deciders_for(self, agent: str) -> tuple[str, ...]:
        """Returns the deciders that the store must ask for a decision by this agent.

        Empty where the agent decides by its role on the board, or by a proven credential.
        """
        grant = GRANTED.get()
        if grant is None or agent in self.deciders:
            return self.deciders
        return grant.deciders if grant.member is None else ()

    async def check_rules(self, board: str, agent: str, once: Once | None, again: str) -> None:
        """Checks that the agent was shown the rules in its scope; a call that repeats an earlier one passes.

        Raises:
            Refused: some changed since. They then count as shown, so `again`, the same call, passes.
        """
        if once is None or await self.store.recall(board, agent, once) is None:
            await self.rules.check(board, agent, again)

    def stamp(self) -> int | None:
        """Returns a value that differs after every commit of any process, if the store gives such."""
        return self._kept_views.stamp()

    def prune_if(self, board: str, notice: Notice) -> None:
        """Starts a pruning pass if the board is too full by a notice."""
        if notice.pass_due:
            self.pruner.kick(board)

    async def prune_if_due(self, board: str) -> None:
        """Starts a pruning pass if the board is too full."""
        found = await self.store.find_board(board)
        if found is not None and found.pass_due:
            self.pruner.kick(board)

    # Reading

    async def view(
        self, agent: str, board: str | None, budget: int = VIEW_BUDGET, *, reserve: int = 0
    ) -> tuple[View, Snapshot]:
        """Returns the board's view for one agent, and the snapshot it was made from, without items and debates.

        The view has at most `budget` tokens, less `reserve`. While nothing is committed, the same view is kept.

        Raises:
            Refused: the parts that are never shortened exceed the budget.
        """
        name = check_board(board) if board is not None else self.default_board
        stamp = self.stamp()  # before anything is read
        look = self.looks.of_viewer(name, agent)
        asked = asked_for(name, agent, look, budget, reserve)
        if (kept := self._kept_views.find(asked, stamp)) is not None:
            self.activity.seen(name, agent)
            await one_more_turn(KEPT_SECONDS)
            return kept
        await self.board_of(board, agent, counts=False)
        most = max(_FEW_ITEMS, min(SNAPSHOT_ITEMS, budget // _ITEM_TOKENS))
        snapshot = await self.store.snapshot(name, agent, look=look, most=most)
        self.tokenizers.see(snapshot.board)
        if snapshot.summaries and not self._summarizes:
            snapshot = replace(snapshot, summaries=())
        if snapshot.work is not None and not self.claims:
            snapshot = replace(snapshot, work=None)
        if snapshot.run is not None and not self._takes_turns:
            snapshot = replace(snapshot, run=None)
        render = partial(
            render_view,
            snapshot,
            agent=agent,
            budget=budget,
            reserve=reserve,
            tokenizer=self.tokenizers.on(name),
            responds=self._responds,
        )
        view = await in_thread(render) if len(snapshot.items) > _SHORT else render()
        return self._kept_views.keep_view(asked, stamp, view, snapshot)

    async def read(self, agent: str, board: str | None, ids: Sequence[str], keys: Sequence[str]) -> Reading:
        """Returns items by ids and keys, whole."""
        return await self._reader.read(agent, await self.board_of(board, agent), ids, keys)

    async def explain(
        self, agent: str, board: str | None, ids: Sequence[str], keys: Sequence[str] = ()
    ) -> Explained:
        """Returns what protects each item, when and how it would leave, or why it left; without names,
        explains the board.

        Raises:
            InvalidInput: too many items are named.
        """
        check_explained(ids, keys)
        name = await self.board_of(board, agent)
        if not ids and not keys:
            leaving = (await self.pruner.upcoming(name)).moved
            return await self._reader.explain_board(agent, name, [(id_, why) for id_, _, why in leaving])
        return await self._reader.explain(agent, name, ids, keys)

    async def readers(self, agent: str, board: str, numbers: Collection[int]) -> dict[int, Readership]:
        """Returns who was shown each of these items of an existing board, by number."""
        return await self._reader.readers(agent, board, numbers)

    async def query(self, agent: str, board: str | None, wanted: ItemQuery) -> ItemPage:
        """Returns one page of the items that match a query."""
        name = await self.board_of(board, agent)
        page = await self.store.query(name, agent, wanted, look=self.looks.of(name, agent))
        numbers = [item.number for item in page.items]
        self.activity.read(name, numbers)
        attention = self.looks.told(name, agent, page.seq, page.attention, numbers, Way.QUERY)
        return replace(page, attention=attention)

    async def search(
        self,
        agent: str,
        board: str | None,
        query: ArchiveQuery,
        words: ItemQuery,
        *,
        restore: bool,
        neighbours: bool = False,
        once_key: str | None = None,
    ) -> tuple[SearchResult, Attention, int]:
        """Returns what was found in the archive, what waits for the agent, and the board's sequence.

        With `restore`, the found items are moved back to working memory. `once_key` goes with `restore`: a
        second call with it returns the items that the first one restored, without searching again.
        """
        name = await self.board_of(board, agent)
        named = replace(query, board=name)
        once = None
        if restore:
            await self.check_named(agent, name, ids_alone(query.text))
            named = replace(named, text=numbers_as_ids(query.text))  # else the words of others would do
        if restore and words.zone is Zone.WORKING:
            raise InvalidInput(
                "restore brings back what the archive has; zone=working searches only the board. "
                "Nothing was changed."
            )
        if restore:
            # The key stands for the query, because the archive answers differently once the items have left it.
            asked = asdict(replace(query, board="")) | {"neighbours": neighbours}
            asked |= {name: value for name, value in _other_filters(words).items() if value}
            once = once_of(once_key, "restore", **asked)
        if once is not None and await self.store.recall(name, agent, once) is not None:
            return await self._restored_before(agent, named, once, neighbours=neighbours)
        if words.zone is Zone.WORKING:
            found = await search_board(self.store, name, agent, words)
        else:
            found = await search(self.store, self.archive, agent, named, words)
        if neighbours:
            found = await with_neighbours(self.store, name, agent, found)
        if not restore and words.zone is None:
            found = await with_live(self.store, name, agent, words, found)
        look = self.looks.of(name, agent)
        if restore and (found.items or once is not None):
            check_agent(agent)
            wanted = [item.number for item in found.items]
            self.quotas.charge(agent, name, len(wanted))
            back = await self.store.restore(name, agent, wanted, once=once, look=look)
            if back.repeated:  # the same call was made twice at once, and the other was first
                return await self._restored_before(agent, named, once, neighbours=neighbours)
            if back.working_tokens > back.high_tokens:
                self.pruner.kick(name)
            by_number = {item.number: item for item in back.items}
            items = tuple(by_number[item.number] for item in found.items)
            attention = self.looks.told(name, agent, back.seq, back.attention, by_number, Way.SEARCH)
            return replace(found, items=items, seq=back.seq, held={}), attention, back.seq
        log = await self.store.log(name, agent, _END, 1, look=look)
        numbers = [item.number for item in (*found.items, *(found.live or ()))]
        attention = self.looks.told(name, agent, log.seq, log.attention, numbers, Way.SEARCH)
        return found, attention, log.seq

    async def _restored_before(
        self, agent: str, query: ArchiveQuery, once: Once | None, *, neighbours: bool
    ) -> tuple[SearchResult, Attention, int]:
        board = query.board
        back = await self.store.restore(board, agent, [], once=once, look=self.looks.of(board, agent))
        found = await restored_before(self.store, agent, query, back.items, back.seq)
        if neighbours:
            found = await with_neighbours(self.store, board, agent, found)
        return found, back.attention, back.seq

    # Figures

    async def board(self, agent: str, board: str | None) -> Board:
        """Returns the board's state."""
        name = await self.board_of(board, agent)
        found = await self.store.find_board(name)
        assert found is not None
        return found

    @staticmethod
    def newest(items: Sequence[Item]) -> datetime | None:
        """Returns the time of the newest change among the items, or `None` without items."""
        return max((item.updated_at for item in items), default=None)


def _may_post() -> bool:
    """Tells whether the current caller may post, so that naming a missing board may create it."""
    grant = GRANTED.get()
    return grant is None or Action.POST in grant.powers[None]


def as_asked(error: UnknownReference, posts: Sequence[PostFields]) -> UnknownReference:
    """Returns the same error with items named as the caller named them."""
    missing = error.facts.get("missing")
    if not missing:
        return error
    named: dict[int, str] = {}
    for fields in posts:
        for id_ in (
            *((fields.id,) if fields.id else ()),
            *((fields.thread,) if fields.thread else ()),
            *(i for ids in (fields.edges or {}).values() for i in ids),
        ):
            if not id_.startswith("$"):
                named.setdefault(parse_ref(id_).number, id_)
    asked = [named.get(number, str(number)) for number in missing]
    text = error.message.replace(
        "No item " + ", ".join(str(number) for number in missing[:5]), "No item " + ", ".join(asked[:5]), 1
    )
    return UnknownReference(text, **{**error.facts, "missing": asked})


def _may_be_found_again(fields: PostFields) -> bool:
    """Tells whether another agent may support this post by posting the same text."""
    kind = fields.type or ItemType.FACT
    return kind in FINDINGS and fields.key is None and 0 < len(fields.text or "") <= MAX_FINDING


def _other_filters(words: ItemQuery) -> dict[str, Any]:
    """Returns the filters that the index does not know."""
    return {
        "any_tags": list(words.any_tags),
        "no_tags": list(words.no_tags),
        "key": words.key,
        "statuses": list(words.statuses),
    }
