"""Results as compact text for agents: ids first, one line for each thing, a footer at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.answers import (
    BEGINNING,
    MOST_UNSEEN,
    Attention,
    Committed,
    DebateView,
    Owed,
    Page,
    Posted,
    Subscription,
)
from blackboard_mcp.protocols.board import DEFAULT_POLICY, Board, Core, Lifecycle, PassStep
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.debates import Debate, DebateState
from blackboard_mcp.protocols.events import BEGUN, LEFT, QUIET, Event, EventType
from blackboard_mcp.protocols.explain import Explained
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import (
    LETTERS,
    Item,
    ItemType,
    Status,
    Visibility,
    Zone,
    item_id,
    names_task,
)
from blackboard_mcp.protocols.pruning import PassOutcome
from blackboard_mcp.protocols.remarks import RemarkKind
from blackboard_mcp.protocols.sightings import Readership
from blackboard_mcp.protocols.tokens import Tokenizer

from ..input.posts import PostFields
from ..settings.boards import said_settings
from ..text.debates import (
    MOST_OWED,
    awaited,
    awaited_words,
    concession,
    debate_lines,
    last_seen_line,
    opened_to_concede,
    owed_words,
    standing_lines,
)
from ..text.lines import (
    ELLIPSIS,
    QUOTE,
    aged,
    ages,
    agreement_line,
    became,
    cited,
    claims,
    closed_to_posts,
    ended,
    excerpt,
    filter_line,
    in_quotes,
    item_line,
    notices,
    one_line,
    quoted,
    relative_age,
    word,
)
from ..usecases.following import NewsPage
from ..usecases.reading import Reading
from ..usecases.searching import FAR, FAR_THERE, Around, SearchResult
from . import explanations
from .events import plainly, taken_back
from .readers import critiques_line
from .remarks import archived_lines, asked_lines, edge_lines, large_lines, remark_lines
from .versions import version_lines

FOOTER_TOKENS = 30
AGE_TOKENS = 5
"""The most tokens that tell how long ago the last change of a view was."""
LINE_WIDTH = 160
_NEIGHBOUR_WIDTH = 100
_EVENT_TOKENS = 60
_LINES: dict[tuple[int, str | None, int, str], tuple[Event, str, int]] = {}
"""Lines of events with their tokens, by the event, the text that its reader is told, the most tokens of it, and the
tokenizer.
"""
_MOST_LINES = 4_096
"""Lines that are kept before all of them are dropped."""
_TEXTS_TOKENS = 900
"""Tokens that the texts of one answer share. What short ones leave goes to the long ones."""
_FEW_TEXTS = 30
"""Most texts that share them; of more, each gets `_EVENT_TOKENS`."""
_WHOLE_TOKENS = 400
"""Most tokens of one text in an event's line; shorter texts stand there whole."""
_LISTED_APART = ("was", "now", "over")
"""Keys of an event's data that no line shows by their names: `read` with `id@*` lists former values, and what is over
stands with its ids.
"""
_OVER = "archived as over"
_HOW_LEFT = {
    EventType.ITEM_ARCHIVED: "archived for room",
    EventType.ITEM_EXPIRED: "archived, their time ended",
    EventType.ITEM_SUPERSEDED: "archived, superseded",
}
_LEFT_NAMED = 12
"""Most items that one line names as having left together."""
_OF_THE_BOARD = (EventType.ITEM_DOUBTED, EventType.OBLIGATION_WAIVED)
"""Events that follow from what somebody did and are nobody's act."""
_FAR_SHOWN = 3
"""The most hits that are shown if none is close."""
_NAMED_APART = 3
"""Most items beyond the budget that get a line each; more of them share one line."""
_MEMBERS = 100
_HELD = 20
_MOVED = 100
_NAMED = 8
"""Most supporters and opponents that a whole item names."""
_NOTICES = 8
"""Most retraction notices that a whole item shows."""
_FOOTER = 30
"""Most tokens of a footer."""
_SLACK = 40
"""Tokens kept for the line that says how to read the rest."""
_LEAST_CUT = 60
_QUICK = 20_000


def _members(members: Mapping[str, Role]) -> str:
    listed = [f"{word(name)} {role}" for name, role in members.items()]
    more = f" and {len(listed) - _MEMBERS} more" if len(listed) > _MEMBERS else ""
    return ", ".join(listed[:_MEMBERS]) + more


def _withdrawn(item: Item) -> str:
    """Returns what became of the debate as a debated item was withdrawn: the one on it, or on what it criticises."""
    is_over = item.debate != DebateState.OPEN
    against = [id_ for kind, id_ in item.cited_by if kind == "critiques"]
    about = [id_ for kind, id_ in item.cites if kind == "critiques"]
    if about and not against:
        if len(about) > 1:  # the state of the item is that of one of them
            return f'; how the debates on {", ".join(about[:_NAMED])} stand: debate(op="status", id="{about[0]}")'
        return f"; the debate on {about[0]} {'is over' if is_over else 'goes on'}"
    return f"; the debate on it is over ({', '.join(against[:_NAMED]) or 'no critiques'})" if is_over else ""


def _setting(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class Rendering:
    """Renderer of results as text. The text of items is untrusted and shown escaped."""

    def __init__(self, tokenizer: Tokenizer, clock: Clock) -> None:
        self._tokenizer = tokenizer
        self._clock = clock

    def by(self, tokenizer: Tokenizer) -> Rendering:
        """Returns a renderer that counts with this tokenizer, such as a board's own."""
        return self if tokenizer is self._tokenizer else Rendering(tokenizer, self._clock)

    def now(self) -> datetime:
        """Returns the current instant, from which ages are counted."""
        return self._clock.now()

    # The footer

    def footer(self, seq: int, attention: Attention | None = None, before: str = "") -> str:
        """Returns the footer: `seq 214 · you owe: answer C-22, C-23 +1 · 12 unseen`.

        It holds the board's sequence, the caller's duties, and the number of items that the caller has not
        been shown, with a `+` where more were not counted. It begins with `before`, and names as many duties as
        `_FOOTER` tokens hold, and one at least.
        """
        owed, unseen = ((), 0) if attention is None else (attention.owed, attention.unseen)
        more = attention is not None and (unseen >= MOST_UNSEEN or attention.looked < seq)
        after = f" · {min(unseen, MOST_UNSEEN - 1)}{'+' if more else ''} unseen" if unseen else ""
        if not owed:
            return f"{before}seq {seq}{after}"
        for most in range(MOST_OWED, 0, -1):
            footer = f"{before}seq {seq} · you owe: {owed_words(owed, most)}{after}"
            if len(footer) <= _FOOTER or self._tokenizer.count(footer) <= _FOOTER:
                break
        return footer

    def view(self, text: str, at: datetime | None, room: Callable[[], int]) -> str:
        """Returns the text of a view of the time `at` with its age, if there is `room` for that; see `aged`."""
        told = aged(text, at, self.now())
        return told if told is text or room() >= AGE_TOKENS else text

    def with_footer(self, text: str, seq: int, attention: Attention | None = None) -> str:
        """Returns the text with the footer below it."""
        return f"{text}\n{self.footer(seq, attention)}"

    # Answers

    def posted(self, posted: Posted, agent: str, given: Sequence[PostFields] = ()) -> str:
        """Returns the answer to a post: the written items, the remarks and the footer."""
        lines = self.written(posted, agent, given=given)
        return self.with_footer("\n".join(lines), posted.seq, posted.attention)

    def written(
        self,
        posted: Posted | Committed,
        agent: str,
        added: Collection[int] = (),
        given: Sequence[PostFields] = (),
    ) -> list[str]:
        """Returns a line for each written item, then the remarks on them.

        `added` holds the places of items that were given by an addition; their lines show the new value.
        `given` are the posts that wrote the items.
        """
        lines = []
        same = {remark.place for remark in posted.remarks if remark.kind is RemarkKind.SAME}
        joined = {remark.place: remark.about for remark in posted.remarks if remark.kind is RemarkKind.JOINED}
        for place, item in enumerate(posted.items):
            if place in same:
                continue
            if place in posted.endorsed:
                lines.append(_endorsed(item, repeated=posted.repeated))
                continue
            version = f"@{item.version}" if item.version > 1 else ""
            words = [f"{item.id}{version}"]
            if item.deleted:
                words.append("deleted")
            if posted.repeated:
                words.append("(posted before with this idempotency_key)")
            elif item.status != "ACTIVE" and not item.deleted:
                words.append(str(item.status))
                if item.status is Status.WITHDRAWN and item.debate is not None:
                    words[-1] += _withdrawn(item)
            if item.key is not None:
                words.append(f"key {item.key}")
            if place in added:
                words.append(f"= {item.text}")
            words += [
                f"→ joins the debate on {', '.join(root.id for root in joined[place])}: {id_}'s author answers, "
                "then you judge the answer"
                if place in joined and id_[0] == LETTERS[ItemType.CRITIQUE]
                else f"→ debate on {id_} open: its author answers, then you judge the answer"
                for kind, id_ in item.cites
                if kind == "critiques" and item.debate == "OPEN" and item.status is not Status.WITHDRAWN
            ]
            if item.agreement is not None and item.status is not Status.WITHDRAWN:
                words.append(f"→ {agreement_line(item.agreement)}")
            if (doubt := notices(item, _NAMED_APART)) != "":
                words.append(doubt)
            lines.append(" ".join(words))
        lines += [*large_lines(posted.board, posted.items), *remark_lines(posted, agent)]
        for told in (edge_lines, asked_lines):
            lines += told(posted.items, given)
        lines += archived_lines(posted.board, posted.items, given)
        return lines

    def committed(
        self,
        done: Committed,
        agent: str,
        *,
        added: Collection[int] = (),
        given: Sequence[PostFields] = (),
        ack: Sequence[str] = (),
    ) -> str:
        """Returns the answer to a transaction: written items, acknowledged items and the state of its
        debates.

        `added` holds the places of items that were given by an addition; their lines show the new value.
        """
        lines = self.written(done, agent, added, given)
        if ack:
            lines.append(f"acknowledged {', '.join(ack)}")
        lines += [
            f"{debated.id}{f' {debated.outcome}' if debated.outcome else ''}: debate {debated.state}"
            if debated.state
            else f"no debate on {debated.id}"
            for debated in done.debates
        ]
        if not lines:
            lines = ["nothing moved; nothing was written"]
        return self.with_footer("\n".join(lines), done.seq, done.attention)

    def line(self, item: Item, now: datetime, width: int = LINE_WIDTH) -> str:
        """Returns one line for an item, with at most `width` characters of its text."""
        return item_line(item, now, width)

    def page(
        self,
        page: Page,
        archived: Page | None = None,
        ids: Sequence[str] = (),
        asked: ItemQuery | None = None,
    ) -> str:
        """Returns the items of a query, one line each, and the call that continues where there are more.

        `asked` is the query; where nothing matches, the answer says where that was looked for.
        `archived` is the same query's page from the archive, where the board had nothing. `ids` are item ids
        that the query gave in place of words; the answer points to `read` for them.
        """
        now = self._clock.now()
        shown = archived or page
        lines = [self.line(item, now) for item in shown.items]
        if not page.items:
            lines.insert(0, "nothing on the board matches; in the archive:" if lines else _nothing(asked))
        if shown.cursor is not None:
            more = 'zone="archive"' if archived else f'cursor="{page.cursor}"'
            lines.append(f"more: query(…, {more})")
        if ids:
            named = ", ".join(f'"{id_}"' for id_ in ids)
            lines.append(f"query finds words of texts; for what an id names: read(ids=[{named}])")
        return self.with_footer("\n".join(lines), shown.seq, shown.attention)

    def reading(self, reading: Reading, budget: int) -> tuple[str, list[int]]:
        """Returns whole items as text without a footer, and the numbers of the items that fit into the
        budget.

        `budget` is in tokens. A text that exceeds the rest of the budget is cut, followed by the call that
        reads it whole.
        """
        now = self._clock.now()
        parts: list[str] = []
        told: list[int] = []
        left = budget
        for place, item in enumerate(reading.found.items):
            if left <= 0 and place and len(reading.found.items) - place > _NAMED_APART:
                rest = [i.id for i in reading.found.items[place:]]
                listed = ", ".join(f'"{id_}"' for id_ in rest[:10])
                more = f" … and {len(rest) - 10} after them" if len(rest) > 10 else ""
                parts.append(f"… {len(rest)} more items: read(ids=[{listed}]){more}")
                break
            told.append(item.number)
            head = self._head(item, now, reading.taken_back.get(item.number))
            protection = reading.protected.get(item.number)
            if protection is not None:
                chain = "".join(f" ← {edge.kind}" for edge in protection.chain[:6])
                head += f"\nstays: {protection.reason}{chain}"
            if item.deleted:
                hashed = f"\nsha256 of what it said: {item.sha256}" if item.forgotten is not None else ""
                parts.append(f"{head}{hashed}\n{explanations.begin_anew(item)}")
                left -= self._tokenizer.count(parts[-1])
                continue
            if item.number in reading.left:
                left_by = reading.left[item.number]
                head += f"\narchived {relative_age(left_by.at, now)} ago: {self.why(left_by)}"
                if left_by.event is not EventType.ITEM_DELETED:
                    large = item.number in reading.found.too_large
                    stands = reading.found.lifecycle
                    head += f"\n{explanations.way_back(item, too_large=large, lifecycle=stands)}"
            body = _quoted(item.text)
            left -= self._tokenizer.count(head)
            needed = self._cost(item, body)
            if needed <= left:
                left -= needed
                parts.append(f"{head}\n{body}")
                continue
            name = f"{item.id}@{item.version}" if item.key is not None else item.id
            call = f'read(ids=["{name}"], budget={self._tokenizer.count(head) + needed + _SLACK})'
            room = left - _SLACK
            if room >= _LEAST_CUT:
                body = self._start(body, room)
                shown = f"{body}\n… the first {room} of {needed} tokens: {call}"
                left = 0
            else:
                shown = f"… {needed} tokens: {call}"
                left = max(left - _SLACK, 0)
            parts.append(f"{head}\n{shown}")
        for history in reading.versions:
            lines = version_lines(history, now, max(left, 0), self._tokenizer.count)
            parts.append("\n".join(lines))
            left -= self._tokenizer.count(parts[-1])
        for written, right in list(reading.misnamed.items())[:10]:
            parts.append(f"{one_line(written)} is {right}: the number decides, the letter names the type")
        tasks = [one_line(name) for name in reading.found.missing if names_task(name)][:20]
        if tasks:
            are = "is a task" if len(tasks) == 1 else "are tasks"
            parts.append(f'{", ".join(tasks)} {are}, no item: plan(why="{tasks[0]}")')
        if missing := [one_line(name) for name in reading.found.missing if not names_task(name)]:
            parts.append(f"not found: {', '.join(missing[:20])}")
        return "\n\n".join(parts), told

    def whole(self, reading: Reading) -> str:
        """Returns whole items, however long, with a footer."""
        text, _ = self.reading(reading, 1 << 40)
        return self.with_footer(text, reading.found.seq, reading.found.attention)

    def _cost(self, item: Item, body: str) -> int:
        """Returns the tokens of an item's quoted text: counted for short texts, else an estimate that is not
        too low.
        """
        if len(body) <= _QUICK:
            return self._tokenizer.count(body)
        return item.tokens + 2 * max(0, len(body) - len(item.text)) + 8

    def _start(self, text: str, tokens: int) -> str:
        """Returns a start of `text` with at most `tokens` tokens, about the longest one, found by binary
        search.
        """
        low, high = 0, min(len(text), tokens * 16)
        while low < high:
            middle = (low + high + 1) // 2
            if self._tokenizer.count(text[:middle]) <= tokens:
                low = middle
            else:
                high = middle - 1
        return text[:low]

    def _head(self, item: Item, now: datetime, fell: Event | None = None) -> str:
        """Returns the lines before a whole text; `fell` is the event by which the item was withdrawn or invalidated."""
        if item.deleted:
            return item_line(item, now)
        writer = item.written_by or item.author
        begun = f", begun by {item.author}" if writer != item.author else ""
        words = [f"{item.id}@{item.version}", str(item.type), f"by {writer}{begun}"]
        words.append(ages(item, now))
        words += [f"!{item.importance}", str(item.zone), str(item.status)]
        if item.key is not None:
            words.append(f"key {item.key}")
        if item.tags:
            words.append(f"[{one_line(' '.join(item.tags))}]")
        if item.thread_id != item.id:
            words.append(f"thread {item.thread_id}")
        conceded = fell is not None and concession(fell) != ""
        if item.debate is not None and not conceded:
            words.append(f"debate {item.debate}")
        if item.visibility is not Visibility.BOARD:
            words.append(str(item.visibility))
        if item.expires_at is not None:
            words.append(f"expires {item.expires_at:%Y-%m-%dT%H:%M:%SZ}")
        lines = [" ".join(words)]
        if item.undecided:
            lines.append(f"{item.author} is no decider")
        lines += [agreement_line(item.agreement)] if item.agreement is not None else []
        why = "" if fell is None else taken_back(fell)
        if item.gave_way_to and item.status is Status.INVALIDATED:
            lines.append(f"{ended(item)}{why}")
        elif fell is not None and (why or conceded):
            lines.append(f"{'conceded' if conceded else item.status.lower()} by {word(fell.agent)}{why}")
        lines += [now_is] if (now_is := became(item)) else []
        if claimed := claims(item, _NAMED):
            lines.append(f"⚠ {claimed}{_how_to_agree(item)}")
        edges = [f"{kind} {cited(item, id_)}" for kind, id_ in item.cites]
        edges += [f"{id_} {kind} it" for kind, id_ in item.cited_by]
        if edges:
            lines.append("; ".join(edges[:20]) + (f"; {len(edges) - 20} more" if len(edges) > 20 else ""))
        sides = [("supported", item.supporters), ("opposed", item.opponents)]
        if item.supporters or item.opponents:
            lines.append("; ".join(f"{verb} by {_names(names)}" for verb, names in sides if names))
        if (doubt := notices(item, _NOTICES)) != "":
            lines.append(doubt)
        if item.metadata:
            lines.append(f"metadata {one_line(str(item.metadata)[:300])}")
        return "\n".join(lines)

    def why(self, event: Event) -> str:
        """Returns why an item left working memory, from the event by which it left."""
        return explanations.left_why(event)

    def explained(self, explained: Explained) -> str:
        """Returns explanations of items or of a board, with a footer."""
        text = explanations.text(explained, self._clock.now())
        return self.with_footer(text, explained.seq, explained.attention)

    def found(self, found: SearchResult, attention: Attention, seq: int, *, restored: bool) -> str:
        """Returns the items that a search of the archive found, with their neighbours, and a footer.

        `restored` says that the call moved the items back to working memory.
        """
        now = self._clock.now()
        lines = [(FAR_THERE if found.live else FAR)] if found.far else []
        for item in found.items[: _FAR_SHOWN if found.far and not restored else None]:
            shown = replace(item, text=found.excerpts.get(item.number, item.text))
            line = self.line(shown, now, _NEIGHBOUR_WIDTH if found.far else LINE_WIDTH)
            told = [*_fate(found.left.get(item.number)), *_how_found(found, item.number)]
            lines.append(f"{line} ({', '.join(told)})" if told else line)
            around = found.neighbours.get(item.number, Around())
            for place, neighbour in (("before", around.before), ("after", around.after)):
                if neighbour is not None:
                    lines.append(f"  {place} it: {self.line(neighbour, now, _NEIGHBOUR_WIDTH)}")
        if not found.items and found.zone is Zone.WORKING:
            lines.append("nothing on the board has half of these words")
        elif not found.items:
            nor = ", nor has anything on the board half of these words" if found.live == () else ""
            lines.append(f"nothing in the archive matches{nor}")
        elif restored:
            large = [item.id for item in found.items if item.zone is Zone.ARCHIVE]
            back = len(found.items) - len(large)
            if back or not large:
                lines.append(f"restored {back} to working memory")
            if large:
                ids = ", ".join(f'"{id_}"' for id_ in large)
                # A repeated call does not tell whether it came back and has left again.
                why = (
                    "in the archive"
                    if found.mode == "repeated"
                    else "not restored, too large to stay on the board"
                )
                lines.append(f"{why}: read(ids=[{ids}]) shows it")
        if found.live:
            lines.append("on the board:")
            lines += [self.line(item, now, _NEIGHBOUR_WIDTH) for item in found.live]
        if found.notice:
            lines.append(found.notice)
        lines.append(f"mode {found.mode}")
        return self.with_footer("\n".join(lines), seq, attention)

    def subscribed(self, held: Subscription) -> str:
        """Returns the answer to a new subscription: its id and the call that delivers its events."""
        name = f" ({one_line(held.name)})" if held.name else ""
        text = f'{held.id}{name} from seq {held.cursor}; wait(subscription="{held.id}") delivers'
        return self.with_footer(text, held.cursor)

    def subscriptions(self, held: Sequence[Subscription], seq: int) -> str:
        """Returns a line for each subscription, with a footer."""
        now = self._clock.now()
        lines = []
        for s in held:
            line = f"{s.id} {one_line(s.name)} at seq {s.cursor} {filter_line(s.filter)}"
            if s.expired_at is not None:
                line += f" expired, unused for {relative_age(s.used_at, now)}: wait(since={s.cursor}) goes on"
            lines.append(line)
        return self.with_footer("\n".join(lines) or "no subscriptions: subscribe(filter={…})", seq)

    def news(
        self,
        news: NewsPage,
        agent: str,
        budget: int,
        told: Callable[[list[int]], Attention],
        others: Mapping[str, datetime] | None = None,
        awaited: Sequence[tuple[str, Owed]] = (),
        stands: Lifecycle = Lifecycle.OPEN,
    ) -> str:
        """Returns events, one line each, with the start of each posted text; items that left and bookkeeping
        share one line.

        `told` is called with the sequences of the shown events, and returns what the agent has still not been
        shown. `others` maps other agents to their last calls, `awaited` is what they owe, and `stands` the board's
        state; these are given only to a caller whose wait brought nothing.
        """
        lines: list[str] = []
        shown: list[int] = []
        apart: list[Event] = []
        reached = news.cursor
        spent = 0
        each = _EVENT_TOKENS
        if len(news.texts) <= _FEW_TEXTS:
            sizes = sorted(min(self._tokenizer.count(text), _WHOLE_TOKENS) for text in news.texts.values())
            each = max(each, _share(sizes, _TEXTS_TOKENS))
        told_later = opened_to_concede(news.events)

        aside = LEFT | QUIET if news.subscription is None else frozenset()
        for place, event in enumerate(news.events):
            if event.seq in told_later:
                shown.append(event.seq)
                continue
            if event.event in aside:
                apart.append(event)
                shown.append(event.seq)
                continue
            line, cost = self._kept_line(event, news.texts, each)
            spent += cost + 1
            if spent > budget and lines:
                rest = news.events[place:]
                more = sum([one.seq not in told_later and one.event not in aside for one in rest])
                lines.append(f"… {more} more: {_go_on(news, shown[-1], budget)}")
                reached = shown[-1]
                break
            lines.append(line)
            shown.append(event.seq)
        if not lines:
            lines.append(f"no news but {_apart(apart)}" if apart else "no news")
            if stopped := closed_to_posts(stands):
                lines[0] += f"; {stopped}, so stopping is fine"
            if others is not None:
                seen = (
                    f"{self.last_seen(others, others)} ago"
                    if others
                    else "nobody else has written anything yet"
                )
                lines[0] += f"; {seen}"
                if awaited:
                    lines[0] += f"; waits for {awaited_words(awaited, others)}"
        elif apart:
            lines.append(_apart(apart))
        before = f"go on with since={reached} · " if news.exact and reached < news.seq else ""
        return "\n".join(lines) + f"\n{self.footer(news.seq, told(shown), before)}"

    def _kept_line(self, event: Event, texts: Mapping[tuple[int, int], str], tokens: int) -> tuple[str, int]:
        """Returns the line of an event and its tokens, made once for all readers who are told the same text."""
        text = None if event.number is None else texts.get((event.number, event.version or 1))
        key = (id(event), text, tokens, self._tokenizer.name)
        kept = _LINES.get(key)
        if kept is None or kept[0] is not event:
            line = self.event(event, texts, tokens)
            if len(_LINES) >= _MOST_LINES:
                _LINES.clear()
            kept = _LINES[key] = event, line, self._tokenizer.count(line)
        return kept[1], kept[2]

    def event(self, event: Event, texts: Mapping[tuple[int, int], str], tokens: int = _EVENT_TOKENS) -> str:
        """Returns one line for an event, with the start of the posted text where `texts` has it.

        `texts` maps (item number, version) to a text; `tokens` is the most that the line shows of it.
        """
        words = [f"seq {event.seq}", str(event.event)]
        if event.item is not None:
            words.append(f"{event.item}@{event.version}" if (event.version or 1) > 1 else event.item)
        if event.key is not None:
            words.append(event.key)
        if event.event not in _OF_THE_BOARD:
            words.append(f"by {event.agent}")
        said = plainly(event)
        if said is None:
            facts = {k: v for k, v in event.data.items() if k not in _LISTED_APART and v != []}
            over = event.data.get("over", ()) if event.event is EventType.ITEM_POSTED else ()
            words += [f"{one_line(str(k))} {one_line(_plain(k, v, over))}" for k, v in facts.items()]
        line = " ".join(words) if said is None else f"{' '.join(words)}: {said}"
        if event.item is not None and event.event in BEGUN:
            text = texts.get((int(event.item.rsplit("-", 1)[1]), event.version or 1))
            if text is not None:
                start = excerpt(text[:BEGINNING], tokens, self._tokenizer)
                goes_on = len(text) > BEGINNING and not start.endswith(ELLIPSIS)
                line += f": {start}{ELLIPSIS if goes_on else ''}"
        return line

    def core(self, core: Core) -> list[str]:
        """Returns the lines of a board's core: version, objective, constraints and flags."""
        lines = [f"core version {core.version}"]
        lines += self.labelled("objective", core.objective) if core.objective else ["no objective"]
        for place, text in enumerate(core.constraints, 1):
            lines += self.labelled(f"constraint {place}", text)
        lines += [f"flag {one_line(name)}: {str(on).lower()}" for name, on in sorted(core.flags.items())]
        return lines

    def labelled(self, label: str, text: str) -> list[str]:
        """Returns a label and a whole text: on one line where the text has one line, else each text line
        quoted below the label.
        """
        lines = quoted(text)
        return [f"{label}: {lines[0]}"] if len(lines) == 1 else [f"{label}:", *lines]

    def board(self, board: Board, members: Mapping[str, Role], access: Sequence[str] = ()) -> str:
        """Returns a board's state, members and settings as text without a footer.

        `access` are the names of its access policies, in the order in which they are asked.
        """
        parent = f", parent {board.parent}" if board.parent else ""
        said = said_settings(board.config)
        listed = {"rule": said.pop("validation"), "panel": said.pop("panels")}
        said |= {"validation": f"{len(listed['rule'])} rules", "panels": f"{len(listed['panel'])}"}
        settings = " ".join(f"{name} {_setting(value)}" for name, value in said.items())
        for kind, entries in listed.items():
            for entry in entries:
                settings += f"\n{kind} {one_line(json.dumps(entry, ensure_ascii=False))}"
        if access:
            settings += f"\naccess policies, as they are asked: {', '.join(access)}"
        return (
            f"{board.id} {board.lifecycle}: {one_line(board.title)}{parent}\n"
            f"working {board.working_items} items, {board.working_tokens} tokens; archive "
            f"{board.archived_items} items"
            + (
                ""
                if board.pressure is None
                else f"; under pressure, see {item_id(ItemType.HOT_ISSUE, board.pressure)}"
            )
            + (f"\nmembers: {_members(members)}" if members else "")
            + f"\n{settings}"
        )

    def pruned(
        self, outcomes: Sequence[PassOutcome], *, dry_run: bool, chosen: Mapping[str, str] | None = None
    ) -> str:
        """Returns the items that a pass moved, at most 100 lines of them, and its totals.

        `outcomes` is empty where another process is pruning the board. `chosen` says of which items the steward spoke
        (a tag, a thread's id, an author); where there are none, the answer says so.
        """
        if not outcomes:
            return "another process is pruning this board: nothing was done; try again in a moment"
        moved = [line for outcome in outcomes for line in outcome.moved]
        lines = [f"{id_} step {step}: {why}" for id_, step, why in moved[:_MOVED]]
        if len(moved) > _MOVED:
            lines.append(f"… {len(moved) - _MOVED} more")
        last = outcomes[-1]
        if chosen and not moved and not last.held:
            asked = " and ".join(f"{name} {in_quotes(value)}" for name, value in chosen.items())
            lines.append(f"no item that you see in working memory has {asked}")
        lines.append(
            f"{'would move' if dry_run else 'moved'} {len(moved)} items: working memory "
            f"{outcomes[0].tokens_before} → {last.tokens_after} tokens; protected {last.protected_items} items, "
            f"{last.protected_tokens} tokens"
        )
        if last.policy != DEFAULT_POLICY:
            lines[-1] += f"; policy {last.policy}"
        if last.warning:
            lines.append(f"warning: {one_line(last.warning)}")
        if last.held:
            stays = [f"{id_} ({why})" for id_, why in last.held[:_HELD]]
            more = f" … {len(last.held) - _HELD} more" if len(last.held) > _HELD else ""
            lines.append(f"stays: {'; '.join(stays)}{more}")
        return self.with_footer("\n".join(lines), last.seq)

    def debate(
        self,
        view: DebateView,
        agent: str = "",
        *,
        first: str = "",
        seen: Mapping[str, datetime] | None = None,
        readers: Mapping[int, Readership] | None = None,
        presence: float = 0,
        deciders: Sequence[str] = (),
    ) -> str:
        """Returns the state of a debate and what `agent` owes in it, with a footer; the line `first` stands
        above it.

        `seen` maps agents to their last calls; where it is given, the answer shows it for those whom the
        debate waits for, with the board's `presence` in seconds. `readers` tells who was shown the critiques
        without an answer, `deciders` are named by the launch configuration.
        """
        last = "" if seen is None else self.last_seen(awaited(view), seen, presence)
        read = critiques_line(view, readers or {}, self._clock.now())
        lines = [first] if first else []
        lines += standing_lines(view, self._tokenizer, agent, last, read, deciders)
        return self.with_footer("\n".join(lines), view.seq, view.attention)

    def last_seen(self, names: Iterable[str], seen: Mapping[str, datetime], presence: float = 0) -> str:
        """Returns a line on when the named agents made their last calls, and after how many seconds of absence
        nobody waits for them (0: not told).
        """
        return last_seen_line(names, seen, self._clock.now(), presence)

    def debate_lines(self, debate: Debate, items: dict[int, Item]) -> list[str]:
        """Returns the lines of a debate's record."""
        return debate_lines(debate, items, self._tokenizer)


def _how_to_agree(item: Item) -> str:
    claims = [contest.by for contest in item.contested if not contest.agreed]
    if not claims:
        return ""
    return f'; {item.author} has not agreed, and would by post(edges={{"supports": ["{claims[0]}"]}})'


def _endorsed(item: Item, *, repeated: bool) -> str:
    count = len(item.supporters)
    many = "s" if count > 1 else "" if count else " yet"
    owners = f"{count or 'no'} independent supporter{many}"
    before = " (posted before with this idempotency_key)" if repeated else ""
    said = (
        f"{item.id} by {item.author} says the same: counted as your support ({owners}), nothing stored twice"
    )
    return f"{said}{before} {notices(item, _NAMED_APART)}".rstrip()


def _names(names: Sequence[str]) -> str:
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _go_on(news: NewsPage, after: int, budget: int) -> str:
    """Returns the call that continues after the event with sequence `after`."""
    return f"read(since={after}, budget={budget * 2})" if news.exact else "wait()"


def _share(sizes: Sequence[int], tokens: int) -> int:
    """Returns how many tokens each of some texts may take, of ascending sizes, if they share so many."""
    for place, size in enumerate(sizes):
        if size * (len(sizes) - place) > tokens:
            return tokens // (len(sizes) - place)
        tokens -= size
    return _WHOLE_TOKENS


def _apart(events: Sequence[Event]) -> str:
    """Returns one line on items that left and on bookkeeping: `9 archived for room: F-2, F-5 …; 3
    obligation.met`.
    """
    gone: dict[str, list[str]] = {}
    for event in events:
        if event.item is not None and event.event in _HOW_LEFT:
            # The first step of a pass takes what is withdrawn, refuted, superseded or resolved.
            gone.setdefault(_OVER if event.data.get("step") == 1 else _HOW_LEFT[event.event], []).append(
                event.item
            )
    words = [
        f"{len(gone[how])} {how}: {_some(gone[how])}" for how in (*_HOW_LEFT.values(), _OVER) if how in gone
    ]
    others = Counter(str(event.event) for event in events if event.event not in LEFT)
    return "; ".join([*words, *(f"{count} {name}" for name, count in sorted(others.items()))])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_LEFT_NAMED]) + (
        f" +{len(names) - _LEFT_NAMED}" if len(names) > _LEFT_NAMED else ""
    )


def _plain(key: str, value: object, over: Sequence[str] = ()) -> str:
    if isinstance(value, list):
        named = [f"{v} ({v} stands no more)" if key == "critiques" and v in over else str(v) for v in value]
        return (" → " if key in ("status", "tokenizer") else ",").join(named)
    return str(value)


def _quoted(text: str) -> str:
    """Returns an item's text with each line marked as a quote, so that it cannot pass for the server's own
    words.
    """
    lines = quoted(text)
    alone = len(lines) == 1 and not lines[0].startswith(QUOTE)
    return QUOTE + lines[0] if alone else "\n".join(lines)


def _fate(left: Event | None) -> list[str]:
    """Returns why an item left if that tells something of it that its line does not; at most one clause."""
    if (
        left is None
        or left.event is EventType.ITEM_SUPERSEDED
        or left.data.get("step") == PassStep.IMPORTANCE.number
    ):
        return []
    return [explanations.left_why(left)]


def _how_found(found: SearchResult, number: int) -> list[str]:
    """Returns how a hit was found: `2 of 3 words`, `neighbour of F-12` or `by meaning`; empty if not by words."""
    if number not in found.held:
        return []
    there, words = found.held[number]
    told = [f"{there} of {words} word{'s' * (words != 1)}"] if there else []
    told += [f"neighbour of {found.beside[number]}"] if number in found.beside else []
    return told or ["by meaning" if found.mode == "hybrid" else "by words of its thread"]


def _nothing(asked: ItemQuery | None) -> str:
    """Returns that nothing matches, and where that was looked for."""
    if asked is None or asked.cursor is not None:
        return "nothing matches"
    place = "in the archive" if asked.zone is Zone.ARCHIVE else "on the board or in the archive"
    words = asked.text is not None and len(asked.text.split()) > 1
    return f"nothing matches {place}" + (
        "; query_archive(text=…) does not need all of the words" if words else ""
    )
