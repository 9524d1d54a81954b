"""Items read whole, with their protection, the reason why they left, and their versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from blackboard_mcp.protocols.answers import Found, Versions
from blackboard_mcp.protocols.debates import FELL
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.explain import Explained, PassOutlook
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import FALLEN, Item, Ref, Zone, is_misnamed, names_task, parse_ref
from blackboard_mcp.protocols.keys import check_key, parse_key, parse_listing
from blackboard_mcp.protocols.sightings import Readership, Way
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.values import dataclass

from .activity import Activity
from .last_seen import Looks

MAX_EXPLAINED: Final = 20
_LEAVING: Final = 8
"""Most items that an explanation of the board names as leaving first."""
_LOOKED_AT: Final = 200
"""Most leaving items that are read to find some that the agent may see."""
MAX_LISTED: Final = 10
"""Most items whose versions are listed in one call."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Items read, with the protection of each and the event by which archived ones left, both by item number."""

    board: str
    found: Found
    protected: dict[int, Protection]
    left: dict[int, Event]
    versions: tuple[Versions, ...] = ()
    """Lists of versions that were asked for, in that order, ids before keys."""
    taken_back: Mapping[int, Event] = field(default_factory=dict)
    """The events by which items were withdrawn or invalidated."""
    misnamed: Mapping[str, str] = field(default_factory=dict)
    """Ids that were written with the letter of another type, with the right ids."""


class ItemReader:
    """Reads items on a board for an agent; every reading is recorded in `looks` and `activity`."""

    def __init__(self, store: BoardStore, looks: Looks, activity: Activity) -> None:
        self._store = store
        self._looks = looks
        self._activity = activity

    async def read(self, agent: str, board: str, ids: Sequence[str], keys: Sequence[str]) -> Reading:
        """Returns items by ids and keys, in which a version (`H-17@2`) or a list of versions (`H-17@*`) may
        be named.

        Raises:
            InvalidInput: an id or key is not valid, or too many lists of versions are asked for.
        """
        named = ids
        ids, keys = _apart(ids, keys)
        versions, unseen, ids, keys = await self._versions(agent, board, ids, keys)
        if items := [id_ for id_ in ids if not names_task(id_)]:
            unseen = [*unseen, *(id_ for id_ in ids if names_task(id_))]
            ids = items
        refs = [parse_ref(id_) for id_ in ids]
        asked = {_plain(ref): id_ for ref, id_ in zip(refs, ids, strict=True)}
        for key in keys:
            parse_key(key)
        found = await self._store.read(board, agent, refs, keys, look=self._looks.of(board, agent))
        versioned = [ref.version is not None for ref in refs if _plain(ref) not in found.missing]
        found = replace(found, items=await self._as_written(agent, board, found.items, versioned))
        if not found.items and not versions:
            _check_ids(named)
        if found.missing or unseen:
            found = replace(found, missing=(*unseen, *(asked.get(m, m) for m in found.missing)))
        numbers = [item.number for item in found.items]
        self._activity.read(board, numbers)
        protected = found.protected
        if protected is None:
            protected = await self._store.guarded(board, numbers) if numbers else {}
        archived = [item.number for item in found.items if item.zone is Zone.ARCHIVE]
        left = await self._store.why_left(board, agent, archived) if archived else {}
        types = {item.number: item for item in found.items}
        misnamed = {
            asked[_plain(ref)]: types[ref.number].id
            for ref in refs
            if ref.number in types and is_misnamed(ref, types[ref.number].type)
        }
        fell = await self._taken_back(agent, board, found.items)
        return Reading(board, found, protected, left, versions, fell, misnamed)

    async def explain(
        self, agent: str, board: str, ids: Sequence[str], keys: Sequence[str] = ()
    ) -> Explained:
        """Returns what protects each item, when and how it would leave, or why it left."""
        named = ids
        ids, keys = _apart(ids, keys)
        asked = {parse_ref(id_).number: id_ for id_ in ids}
        numbers = list(asked)
        unread: list[str] = []
        if keys:
            found = await self._store.read(board, agent, [], [parse_key(key)[0] for key in keys])
            numbers += [item.number for item in found.items]
            unread += found.missing
        explained = await self._store.explain(board, agent, numbers, look=self._looks.of(board, agent))
        if not explained.explanations:
            _check_ids(named)
        shown = [explanation.item.number for explanation in explained.explanations]
        readers = await self.readers(agent, board, shown)
        attention = self._looks.told(board, agent, explained.seq, explained.attention, shown, Way.EXPLAIN)
        missing = (*unread, *(asked.get(int(number), number) for number in explained.missing))
        return replace(explained, missing=missing, attention=attention, readers=readers)

    async def readers(self, agent: str, board: str, numbers: Collection[int]) -> dict[int, Readership]:
        """Returns who was shown each of these items, by number; without those that the agent may not see."""
        if not numbers:
            return {}
        noted = self._activity.sightings(board, numbers)
        return await self._store.readers(board, agent, numbers, noted)

    async def explain_board(self, agent: str, board: str, leaving: Sequence[tuple[str, str]]) -> Explained:
        """Returns which items of the board would leave first, and which are protected and why.

        `leaving` are pairs of id and reason, in the order of leaving.
        """
        look = self._looks.of(board, agent)
        wanted = [parse_ref(id_) for id_, _ in leaving[:_LOOKED_AT]]
        found = await self._store.read(board, agent, wanted, [])
        seen = {item.id for item in found.items}
        first = [(id_, why) for id_, why in leaving if id_ in seen][:_LEAVING]
        snapshot = await self._store.snapshot(board, agent, look=look)
        held = [item.number for item in snapshot.items if item.number in snapshot.protected]
        figures = await self._store.statistics(board, agent)
        staying = (await self._store.explain(board, agent, [], look=look)).staying
        stay = [*staying, *held]
        numbers = [parse_ref(id_).number for id_, _ in first] + stay[: MAX_EXPLAINED - len(first)]
        explained = await self._store.explain(board, agent, list(dict.fromkeys(numbers)), look=look)
        shown = [explanation.item.number for explanation in explained.explanations]
        attention = self._looks.told(board, agent, explained.seq, explained.attention, shown, Way.EXPLAIN)
        outlook = PassOutlook(
            figures.protected_items + len(staying),
            figures.protected_tokens + sum(staying.values()),
            tuple(first),
        )
        return replace(explained, attention=attention, outlook=outlook)

    async def _taken_back(self, agent: str, board: str, items: Sequence[Item]) -> dict[int, Event]:
        """Returns the events by which items were withdrawn or invalidated, for the first `MAX_LISTED` of them."""
        fallen = [item.number for item in items if item.status in FALLEN]
        found: dict[int, Event] = {}
        for number in fallen[:MAX_LISTED]:
            events = await self._store.history(board, agent, number)
            by = next((event for event in events if _fells(event)), None)
            if by is not None:
                found[number] = by
        return found

    async def _as_written(
        self, agent: str, board: str, items: Sequence[Item], versioned: Sequence[bool]
    ) -> tuple[Item, ...]:
        """Returns the items; those read by version get the tags that the version began with.

        `versioned` says so for the first items, in order. It holds as far back as the list of changes goes,
        and for the first `MAX_LISTED` changed items.
        """
        shown = list(items)
        changed = [
            place
            for place, asked in enumerate(versioned)
            if asked and items[place].written_at != items[place].updated_at
        ]
        for place in changed[:MAX_LISTED]:
            item = items[place]
            listed = await self._store.versions(board, agent, item.number, limit=1)
            for amendment in () if listed is None else listed.amendments:  # the newest comes first
                began = item.version > 1 and amendment.at == item.written_at  # part of the new version
                tags = (amendment.now if began else amendment.was).get("tags")
                if amendment.version == item.version and isinstance(tags, list):
                    shown[place] = replace(shown[place], tags=tuple(tags))
        return tuple(shown)

    async def _versions(
        self, agent: str, board: str, ids: Sequence[str], keys: Sequence[str]
    ) -> tuple[tuple[Versions, ...], list[str], list[str], list[str]]:
        """Returns the lists of versions that were asked for, the names without any, and the other ids and
        keys.

        Raises:
            InvalidInput: there are too many, or a name is neither an id nor a key.
        """
        wanted: list[tuple[str, int | str, int | None]] = []
        plain_ids: list[str] = []
        plain_keys: list[str] = []
        for names, plain in ((ids, plain_ids), (keys, plain_keys)):
            for name in names:
                listing = parse_listing(name)
                if listing is None:
                    plain.append(name)
                    continue
                of, upto = listing
                wanted.append((name, parse_ref(of).number if plain is plain_ids else check_key(of), upto))
        if len(wanted) > MAX_LISTED:
            raise InvalidInput(f"read lists the versions (@*) of up to {MAX_LISTED} items at once.")
        found = [(name, await self._store.versions(board, agent, of, upto=upto)) for name, of, upto in wanted]
        listed = tuple(versions for _, versions in found if versions is not None)
        return listed, [name for name, versions in found if versions is None], plain_ids, plain_keys


def check_explained(ids: Sequence[str], keys: Sequence[str]) -> None:
    """Refuses to explain more than `MAX_EXPLAINED` items.

    Raises:
        InvalidInput: too many items are named.
    """
    if len(ids) + len(keys) > MAX_EXPLAINED:
        raise InvalidInput(
            f'explain takes up to {MAX_EXPLAINED} ids or keys, as in read(ids=["H-17"], explain=true); without any it '
            "explains the board."
        )


def _apart(ids: Sequence[str], keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns ids and keys separately; a key among the ids is moved to the keys."""
    apart = {id_: _is_key(id_) for id_ in ids}
    return [id_ for id_ in ids if not apart[id_]], [*keys, *(id_ for id_ in ids if apart[id_])]


def _is_key(name: str) -> bool:
    """Tells whether a name is a key, with a version or not, and no id."""
    if ":" in name:
        return True
    listing = parse_listing(name)
    of = name if listing is None else listing[0]
    if names_task(of):
        return False
    try:
        parse_ref(of)
    except InvalidInput:
        pass
    else:
        return False
    try:
        parse_key(of)
    except InvalidInput:
        return False
    return True


def _check_ids(names: Sequence[str]) -> None:
    """Checks, where nothing was found, that names without a colon among ids are no mistaken ids.

    Raises:
        InvalidInput: one is no id.
    """
    for name in names:
        if ":" not in name and parse_listing(name) is None and not names_task(name):
            parse_ref(name)


def _fells(event: Event) -> bool:
    if event.event is EventType.DEBATE_CLOSED:
        return event.data.get("outcome") in FELL
    status = event.data.get("status")
    return event.event is EventType.ITEM_CHANGED and isinstance(status, list) and status[-1] in FALLEN


def _plain(ref: Ref) -> str:
    """Returns an item's name in the form that the store uses for missing items."""
    return str(ref.number) if ref.version is None else f"{ref.number}@{ref.version}"
