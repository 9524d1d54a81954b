"""The competitors of `eviction.py`: this product, and four other ways to keep a board small.

The others are written from their descriptions, each in its most favourable reading. They delete what they
evict, and show an agent their whole board, since they have no views.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.errors import Refused, UnderPressure
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Zone, content_hash
from blackboard_mcp.protocols.pruning import EXEMPT
from blackboard_mcp.server.compose import Installation, installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.text.tokens import load_tokenizer
from eviction_workload import JUDGE, Acknowledged, Action, Decided, Resolved, Said, Withdrawn

TOKENIZER = load_tokenizer("o200k_base")
HIGH, LOW = 0.8, 0.6
"""The shares of the target at which a pass begins and ends; the same for all competitors."""
HITS = 5


@dataclass(frozen=True)
class Shown:
    """What an agent is shown: the number of tokens, and how many of the given texts are in it word for word."""

    tokens: int
    whole: int


class Competitor(Protocol):
    """A way to keep a board small."""

    name: str

    async def act(self, action: Action) -> None:
        """Applies an agent's action, and evicts until no pass is due."""
        ...

    async def board(self) -> tuple[set[int], int]:
        """Returns the places of the posts on the board, and the tokens of all that is on it."""
        ...

    async def show(self, agent: str, laws: Sequence[Said]) -> Shown: ...

    async def by_id(self, said: Said) -> bool:
        """Tells whether an evicted post can still be read byte for byte."""
        ...

    async def by_sentence(self, said: Said, sentence: str) -> bool:
        """Tells whether a search for a sentence of an evicted post finds it among the first five hits."""
        ...


# This product


class Ours:
    """This product's real use cases and pruner on a real store in a file, with the archive's index."""

    name = "blackboard-mcp"

    def __init__(self, opened: Installation, budget: int) -> None:
        self.opened = opened
        self.blackboard = opened.blackboard
        self.budget = budget
        self.ids: list[str] = []
        self.places: dict[int, int] = {}

    async def act(self, action: Action) -> None:
        debate = self.blackboard.debate
        match action:
            case Said():
                await self._say(action)
            case Acknowledged():
                await debate(action.agent, None, "acknowledge", self.ids[action.root])
            case Decided():
                await debate(
                    JUDGE,
                    None,
                    "decide",
                    self.ids[action.root],
                    outcome="stands",
                    reason="both sides were heard",
                )
            case Withdrawn():
                await debate(action.agent, None, "withdraw", self.ids[action.critique])
            case Resolved():
                fields = PostFields(id=self.ids[action.place], status="RESOLVED")
                await self.blackboard.post(action.agent, None, [fields])
        await self.opened.pruner.settle()

    async def _say(self, said: Said) -> None:
        edges: dict[str, list[str]] = {}
        for kind, place in said.edges:
            edges.setdefault(kind, []).append(self.ids[place])
        fields = [PostFields(text=said.text, type=said.type, importance=said.importance, edges=edges)]
        if said.analyses is not None:
            fields.append(PostFields(id=self.ids[said.analyses], edges={"analyzed_by": ["$1"]}))
        try:
            posted = (await self.blackboard.post(said.agent, None, fields)).items[0]
        except UnderPressure as refused:
            # All competitors get the same posts, so the agent repeats it with an importance that the error allows.
            enough = refused.facts["ceiling"] + 1 if "ceiling" in refused.facts else EXEMPT - 1
            fields[0] = fields[0].model_copy(update={"importance": enough})
            posted = (await self.blackboard.post(said.agent, None, fields)).items[0]
        self.ids.append(posted.id)
        self.places[posted.number] = said.place

    async def board(self) -> tuple[set[int], int]:
        store, board = self.opened.store, self.blackboard.default_board
        found, cursor = set(), None
        while True:
            page = await store.query(board, JUDGE, ItemQuery(zone=Zone.WORKING, limit=200, cursor=cursor))
            found |= {self.places[item.number] for item in page.items if item.number in self.places}
            cursor = page.cursor
            if cursor is None:
                break
        standing = await store.find_board(board)
        assert standing is not None
        return found, standing.working_tokens

    async def show(self, agent: str, laws: Sequence[Said]) -> Shown:
        try:
            view, _ = await self.blackboard.view(agent, None, self.budget)
        except Refused as refused:
            return Shown(refused.facts["needed"], 0)
        return Shown(TOKENIZER.count(view.text), sum(law.text in view.text for law in laws))

    async def by_id(self, said: Said) -> bool:
        found = (await self.blackboard.read(JUDGE, None, [self.ids[said.place]], [])).found.items
        return bool(found) and found[0].text == said.text and found[0].sha256 == content_hash(said.text)

    async def by_sentence(self, said: Said, sentence: str) -> bool:
        query = ArchiveQuery(board="", text=sentence, limit=HITS)
        words = ItemQuery(text=sentence, zone=Zone.ARCHIVE, limit=HITS)
        found, _, _ = await self.blackboard.search(JUDGE, None, query, words, restore=False)
        return self.ids[said.place] in {item.id for item in found.items}


@asynccontextmanager
async def ours(folder: Path, target: int, budget: int) -> AsyncIterator[Ours]:
    """Opens this product over a folder, and yields it as a competitor."""
    settings = Settings(data=folder, target_tokens=target, synchronous="NORMAL")
    async with installation(settings, eager_index=True) as opened:
        yield Ours(opened, budget)


# The others


@dataclass
class Entry:
    """An item on a competitor's board, with the time and number of its uses."""

    said: Said
    tokens: int
    used: int
    uses: int = 1
    status: str = "ACTIVE"
    open_arguments: set[int] = field(default_factory=set)


class Deleting:
    """The common part of the other competitors: a board in memory, and a clock for uses."""

    name = ""

    def __init__(self, target: int, mean_tokens: float) -> None:
        self.target = target
        self.most = max(4, int(target * HIGH / mean_tokens))
        self.fewest = max(3, int(target * LOW / mean_tokens))
        self.entries: dict[int, Entry] = {}
        self.tokens = 0
        self.now = 0

    async def act(self, action: Action) -> None:
        self.now += 1
        match action:
            case Said():
                self._say(action)
            case Acknowledged() | Decided() | Withdrawn():
                self.use(action.root)
                if action.closes and (entry := self.entries.get(action.root)) is not None:
                    entry.open_arguments.discard(action.argument)
            case Resolved():
                if (entry := self.entries.get(action.place)) is not None:
                    entry.status = "RESOLVED"
        self.evict()

    def _say(self, said: Said) -> None:
        for _, place in said.edges:
            self.use(place)
        self.entries[said.place] = entry = Entry(said, TOKENIZER.count(said.text), self.now)
        self.tokens += entry.tokens
        for kind, place in said.edges:
            if kind == "critiques" and place in self.entries and said.argument is not None:
                self.entries[place].open_arguments.add(said.argument)

    def use(self, place: int) -> None:
        """Records that an agent used the item: named, answered or acknowledged it."""
        if (entry := self.entries.get(place)) is not None:
            entry.used = self.now
            entry.uses += 1

    def drop(self, place: int) -> None:
        """Deletes an item."""
        self.tokens -= self.entries.pop(place).tokens

    def evict(self) -> None:
        """Deletes items until no pass is due."""
        raise NotImplementedError

    async def board(self) -> tuple[set[int], int]:
        return set(self.entries), self.tokens

    async def show(self, agent: str, laws: Sequence[Said]) -> Shown:
        return Shown(self.tokens, sum(law.place in self.entries for law in laws))

    async def by_id(self, said: Said) -> bool:
        return False

    async def by_sentence(self, said: Said, sentence: str) -> bool:
        return False


class Article(Deleting):
    """The evictor of the article on eviction from which this product's guard was developed.

    It counts items. RESOLVED items go first, then LOGs and talk (critiques and replies), least important and
    oldest first; any other ACTIVE item stays. Its guard protects an item under debate and the items that it
    names itself (one step, without `replies_to`); an open critique is not protected for its own sake.
    """

    name = "article's evictor"

    def evict(self) -> None:
        if len(self.entries) <= self.most:
            return
        debated = [entry for entry in self.entries.values() if entry.open_arguments]
        held = {entry.said.place for entry in debated}
        held |= {place for entry in debated for kind, place in entry.said.edges if kind != "replies_to"}
        free = [e for place, e in self.entries.items() if place not in held]
        done = [e for e in free if e.status == "RESOLVED"]
        talk = [e for e in free if e.status != "RESOLVED" and e.said.type in ("LOG", "CRITIQUE", "REPLY")]
        talk.sort(key=lambda e: (e.said.importance, e.said.place))
        for entry in (*done, *talk):
            if len(self.entries) <= self.fewest:
                return
            self.drop(entry.said.place)


class _ByTokens(Deleting):
    def rank(self, entry: Entry) -> tuple[int, ...]:
        raise NotImplementedError

    def evict(self) -> None:
        if self.tokens <= self.target * HIGH:
            return
        for entry in sorted(self.entries.values(), key=self.rank):
            if self.tokens <= self.target * LOW:
                return
            self.drop(entry.said.place)


class LeastRecentlyUsed(_ByTokens):
    """An evictor that counts tokens, and deletes the items unused for longest."""

    name = "LRU by tokens"

    def rank(self, entry: Entry) -> tuple[int, ...]:
        return entry.used, entry.said.place


class LeastFrequentlyUsed(_ByTokens):
    """An evictor that counts tokens, and deletes the least used items, oldest first."""

    name = "LFU by tokens"

    def rank(self, entry: Entry) -> tuple[int, ...]:
        return entry.uses, entry.said.place


class FirstInFirstOut(Deleting):
    """An evictor that counts items, and deletes the oldest. It is given the mean tokens of an item."""

    name = "FIFO by items"

    def evict(self) -> None:
        if len(self.entries) > self.most:
            for place in sorted(self.entries)[: len(self.entries) - self.fewest]:
                self.drop(place)


OTHERS = (Article, LeastRecentlyUsed, LeastFrequentlyUsed, FirstInFirstOut)
