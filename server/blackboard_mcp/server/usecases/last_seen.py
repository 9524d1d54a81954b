"""The items and events that each agent was shown, kept in memory for the next calls and in the store for
good.

The store joins these records with those of other processes and earlier days. So nothing is read before an
answer, and no caller waits for a write. After a crash, agents may be shown some things again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NoReturn

from blackboard_mcp.protocols.answers import MOST_SHOWN, MOST_UNSEEN, Attention, Look, Snapshot
from blackboard_mcp.protocols.errors import BlackboardError, Refused
from blackboard_mcp.protocols.events import BEGUN, LEFT, Event, EventType
from blackboard_mcp.protocols.filters import EventFilter
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.rules import RuleBook
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.values import Newest

from ..text.lines import flat
from ..views import View
from .activity import Activity

_KEPT: Final = 10_000
_KEPT_WHOLE: Final = 500
"""The agents for whom the sequences are kept that they were not shown, at most `MOST_UNSEEN` each."""
_KEPT_SHOWN: Final = 2 * MOST_SHOWN
"""The most sequences of a set that are kept in memory: so not every answer sorts them to leave one out."""
_WRITTEN: Final = (EventType.ITEM_POSTED, EventType.ITEM_VERSIONED)


class Looks:
    """What the last `_KEPT` agents were shown; `activity` passes it on to the store."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._seen: Newest[tuple[str, str], Look] = Newest(_KEPT)
        self._left: Newest[tuple[str, str], Attention] = Newest(_KEPT_WHOLE)
        self._viewed: Newest[tuple[str, str], int] = Newest(_KEPT)
        """The places up to which views of this process told agents what left of their own."""

    def of(self, board: str, agent: str) -> Look:
        """Returns what the agent was shown of the board as far as this process knows; store calls take this
        value.
        """
        look, left = self._seen.get((board, agent), _NOTHING), self._left.get((board, agent))
        return look if left is None else look.leaving(left)

    def of_viewer(self, board: str, agent: str) -> Look:
        """Returns the same as `of` for a call that asks for a view."""
        return self.of(board, agent).viewing(self._viewed.get((board, agent)))

    def told(
        self,
        board: str,
        agent: str,
        seq: int,
        attention: Attention,
        items: Iterable[int] = (),
        way: Way | None = None,
        *,
        events: Iterable[int] = (),
    ) -> Attention:
        """Records an answer as of `seq` with `items` by number and `events` by sequence, and returns what the agent
        has still not been shown.

        Everything up to the first thing not shown is then kept as a single sequence. With a `way` the items
        count as shown to the agent in that way.
        """
        shown = {number for number in items if number}
        if way is not None and shown:
            self._activity.sighted(board, agent, shown, way)
        told = {at for at, number in attention.fresh if number in shown} if shown else set()
        return self._saw(board, agent, seq, attention, told.union(events))

    def delivered(
        self, board: str, agent: str, seq: int, attention: Attention, events: Iterable[int]
    ) -> Attention:
        """Records an answer as of `seq` with `events` by sequence, and returns what the agent has still not
        been shown.
        """
        return self._saw(board, agent, seq, attention, set(events))

    def read(self, board: str, agent: str, events: Iterable[Event], shown: Iterable[int], way: Way) -> None:
        """Records that the agent was shown the beginnings of the texts that `events` began.

        Only the events at the sequences `shown` count.
        """
        delivered = set(shown)
        begun = {
            event.number
            for event in events
            if event.seq in delivered and event.event in BEGUN and event.number is not None
        }
        if begun:
            self._activity.sighted(board, agent, begun, way)

    def viewed(self, snapshot: Snapshot, agent: str, view: View) -> Attention:
        """Records that the agent was shown a view, and returns what it has still not been shown.

        Items with text in the view count as shown, and so do those folded into their lines. Of items that are
        only named, all events count except posted texts. So do the events that the lines of news name. Decisions
        that wait to be confirmed count only where the view tells them.

        For the first view of a board with a long past, news begins at this view.
        """
        board, attention = snapshot.board, snapshot.attention
        if snapshot.look.is_of_newcomer and attention.unseen >= MOST_UNSEEN:
            attention = Attention(attention.owed, (), board.seq)
        read = {parse_ref(id_).number for id_ in (*view.shown, *view.excerpts)}
        self._activity.sighted(board.id, agent, read, Way.VIEW)
        texts = read | {parse_ref(id_).number for id_ in view.folded}
        named = {parse_ref(id_).number for id_ in view.stubs}
        posted = EventType.ITEM_POSTED
        events = [event for event in snapshot.news.events if event.event is not posted]
        told = [event.seq for event in events if event.event not in _WRITTEN and event.number in named]
        undecided = {e.seq for e in events if e.event is EventType.DEBATE_PENDING}
        told = [at for at in told if at not in undecided]
        told += view.told
        shown = {at for at, number in attention.fresh if number in texts} - undecided
        authors = snapshot.news.authors
        own = {e.seq for e in events if e.event in LEFT and authors.get(e.item or "") == agent}
        if not own or own & set(view.told):
            self._viewed[board.id, agent] = board.seq
        return self._saw(board.id, agent, board.seq, attention, shown.union(told))

    def streamed(
        self, board: str, agent: str, events: Iterable[int], after: int, upto: int, condition: EventFilter
    ) -> None:
        """Records that a stream sent the agent all events between two places that match `condition`."""
        look = self._seen.get((board, agent), _NOTHING)
        whole = condition == EventFilter() and after <= look
        self._keep(board, agent, look.joined(Look(upto) if whole else Look(0, events)))

    def _saw(self, board: str, agent: str, seq: int, attention: Attention, shown: set[int]) -> Attention:
        left = attention
        if shown and attention.fresh:
            left = replace(attention, fresh=tuple(one for one in attention.fresh if one[0] not in shown))
        if left.team is None:
            self._left.pop((board, agent), None)
        else:
            self._left[board, agent] = left
        # No list is needed before the first unseen event: everything there was shown, or is news to nobody.
        known = self._seen.get((board, agent), _NOTHING)
        look = known.joined(Look(left.settled, shown, [seq] if left.fresh else ()))
        self._keep(board, agent, look)
        return left

    def _keep(self, board: str, agent: str, look: Look) -> None:
        before = self._seen.get((board, agent))
        if max(len(look.above), len(look.told)) > _KEPT_SHOWN:
            look = look.bounded(MOST_SHOWN)
        self._seen[board, agent] = look
        self._viewed.setdefault((board, agent), int(look))
        if before is None or before != look:
            self._activity.shown(board, agent, look, before)


_NOTHING: Final = Look()


class ShownRules:
    """Reads rules, and records who was shown them: in the store, so that it survives, and in memory."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self._seen: Newest[tuple[str, str], int] = Newest(_KEPT)

    async def shown(self, board: str, agent: str) -> RuleBook:
        """Returns the rules, which the caller shows to the agent, and records that."""
        book = await self._store.rules(board, agent)
        await self.saw(board, agent, book.revision)
        return book

    async def saw(self, board: str, agent: str, revision: int) -> None:
        """Records that the agent was shown the rules of a revision.

        A store that cannot write keeps nobody from reading: the agent is then shown the rules once more.
        """
        if revision <= self._seen.get((board, agent), 0):
            return
        with contextlib.suppress(BlackboardError):
            await self._store.saw_rules(board, agent, revision)
            self._seen[board, agent] = revision

    async def check(self, board: str, agent: str, again: str) -> None:
        """Checks that the agent was shown all rules in its scope; `again` is the call to make after reading them.

        Raises:
            Refused: some changed since. The error holds them, and they count as shown.
        """
        book = await self._store.rules(board, agent)
        if book.unseen:
            await self.refuse(board, agent, book, again)

    async def refuse(self, board: str, agent: str, book: RuleBook, again: str) -> NoReturn:
        """Refuses a call for rules that the agent was not shown; `again` is the call to make after reading them.

        Raises:
            Refused: always. The error holds them, and they count as shown.
        """
        await self._store.saw_rules(board, agent, book.revision)
        self._seen[board, agent] = book.revision
        listed = " · ".join(flat(rule.line) for rule in book.unseen)
        raise Refused(
            f"Rules changed since you were last shown them, now {book.label}. Nothing was changed. If your work keeps "
            f"them, repeat {again}: it is then accepted. What changed: {listed}",
            rules=[rule.text for rule in book.unseen],
            revision=book.revision,
        )
