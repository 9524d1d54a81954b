"""Those that are measured: this product, and four other ways to keep a board small.

The others are written from their descriptions, each in its most favourable reading, and delete what they
evict, as their kind does. An agent is shown their whole board, since they have no views.
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
"""Where a pass begins and ends, as parts of the target; the same for everybody."""
HITS = 5


@dataclass(frozen=True)
class Shown:
    """What an agent gets to read: its tokens, and which of the texts asked about stand there whole."""

    tokens: int
    whole: int


class Competitor(Protocol):
    name: str

    async def act(self, action: Action) -> None:
        """Does what an agent does, and evicts until no pass is due."""
        ...

    async def board(self) -> tuple[set[int], int]:
        """Places on the board, and the tokens of all that is on it."""
        ...

    async def show(self, agent: str, laws: Sequence[Said]) -> Shown: ...

    async def by_id(self, said: Said) -> bool:
        """Whether an evicted post is still there, byte for byte."""
        ...

    async def by_sentence(self, said: Said, sentence: str) -> bool:
        """Whether a sentence of an evicted post finds it, among the first five hits."""
        ...


# This product


class Ours:
    """The real use cases and pruner on a real store in a file, with the archive's index."""

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
            # Everybody plays the same posts: here the agent insists that it matters, as it is told it may.
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
    settings = Settings(data=folder, target_tokens=target, synchronous="NORMAL")
    async with installation(settings, eager_index=True) as opened:
        yield Ours(opened, budget)


# The others


@dataclass
class Entry:
    said: Said
    tokens: int
    used: int
    uses: int = 1
    status: str = "ACTIVE"
    open_arguments: set[int] = field(default_factory=set)


class Deleting:
    """What the others share: a board in memory, and the clock by which things were used."""

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
        """Somebody works with the item: names it, answers it, acknowledges it."""
        if (entry := self.entries.get(place)) is not None:
            entry.used = self.now
            entry.uses += 1

    def drop(self, place: int) -> None:
        self.tokens -= self.entries.pop(place).tokens

    def evict(self) -> None:
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
    """The evictor of the article on eviction that this product's guard grew out of.

    It counts items. RESOLVED items go first, then LOGs and talk (critiques and replies), least important
    and oldest first; any other ACTIVE item stays. Its guard holds an item under debate and what that
    names itself (one step, `replies_to` left out); an open critique is not held for its own sake.
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
    """Tokens; what nobody named for longest goes."""

    name = "LRU by tokens"

    def rank(self, entry: Entry) -> tuple[int, ...]:
        return entry.used, entry.said.place


class LeastFrequentlyUsed(_ByTokens):
    """Tokens; what was named least often goes, oldest first."""

    name = "LFU by tokens"

    def rank(self, entry: Entry) -> tuple[int, ...]:
        return entry.uses, entry.said.place


class FirstInFirstOut(Deleting):
    """Items; the oldest goes. It is told beforehand how many tokens an item has on average."""

    name = "FIFO by items"

    def evict(self) -> None:
        if len(self.entries) > self.most:
            for place in sorted(self.entries)[: len(self.entries) - self.fewest]:
                self.drop(place)


OTHERS = (Article, LeastRecentlyUsed, LeastFrequentlyUsed, FirstInFirstOut)
