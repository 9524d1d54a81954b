"""The rules of a board: agents propose them, stewards make them, and whoever finishes work has seen them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.answers import Attention, Once, Page
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.items import (
    FINISHED,
    Item,
    ItemType,
    Status,
    Zone,
    check_letters,
    parse_ref,
)
from blackboard_mcp.protocols.keys import check_glob
from blackboard_mcp.protocols.rules import (
    ABSENT,
    BOARD,
    EXISTS,
    MAX_SCOPE,
    RuleBook,
    Strength,
    bounds_of,
    check_of,
)
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import check_path

from ..input.capture import MOST, candidates
from ..input.idempotency import once_of
from ..input.posts import PostFields, check_addressed
from .blackboard import Blackboard
from .file_checks import FileChecks

if TYPE_CHECKING:
    from .message_reader import MessageReader, ModelFound

NO_CHECK: Final = "none"
PROPOSED: Final = "proposed-rule"
"""The tag of proposals, which are PLAN items."""
_LEAD: Final = "Proposed rule: "
_MODEL_LEAD: Final = "Rule proposed by a model: "
_MOST: Final = 100
_INSTEAD: Final = "scope=agent:NAME takes one agent by name, as your view lists them."


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that was proposed. `replaces` is the id of the rule whose next version it would be.

    `by_model` tells whether a model found it in a message.
    """

    id: str
    text: str
    strength: Strength
    scope: str
    author: str
    replaces: str | None
    check: str = ""
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class Ruled:
    """The rules and open proposals after a call. `written` are ids that it made, proposed or retired.

    `left` are sentences of a message that read like rules, and were too many to be proposed. `model` says why no
    model read the message, if one was to.
    """

    book: RuleBook
    proposals: tuple[Proposal, ...]
    seq: int
    attention: Attention
    written: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    model: str = ""


class Rules:
    """Use cases for the rules of a board. `checks` are names of the operator's checks, which rules may name.

    `reader` asks a model for rules in messages; `None` without one.
    """

    def __init__(
        self, board: Blackboard, checks: Sequence[str] = (), reader: MessageReader | None = None
    ) -> None:
        self._board = board
        self._checks = tuple(checks)
        self._held = FileChecks(board)
        self._reader = reader

    async def standing(self, agent: str, board: str | None, written: Sequence[str] = ()) -> Ruled:
        """Returns the rules in force and the open proposals; the agent has then seen the rules."""
        name = await self._board.board_of(board, agent)
        book = await self._board.rules.shown(name, agent)
        page = await self._proposals(agent, name)
        found = _proposals_of(page)
        attention, seq = await self._board.attention(
            agent,
            name,
            items=[*(rule.number for rule in book.rules), *(item.number for item in page.items)],
            way=Way.RULES,
        )
        return Ruled(book, tuple(found), seq, attention, tuple(written))

    async def propose(
        self,
        agent: str,
        board: str | None,
        text: str,
        strength: Strength | None,
        scope: str | None,
        *,
        id_: str | None = None,
        check: str | None = None,
        once_key: str | None = None,
    ) -> Ruled:
        """Makes a rule, or a new version of the rule `id_`, if the agent is a steward; else proposes it.

        The author of a rule may always write a new version. `check` finds violations; `none` takes it away.

        Raises:
            InvalidInput: the scope or check is not valid, or `id_` names no rule.
            UnknownReference: there is no such item.
            Conflict: the rule is no longer in force, or another says the same within other bounds.
        """
        scope = check_scope(scope)
        once = once_of(
            once_key,
            "propose",
            id=id_,
            text=text,
            strength=strength and str(strength),
            scope=scope,
            check=check,
        )
        if (done := await self._repeated(agent, board, once, proposals=True)) is not None:
            return done
        former = None if id_ is None else await self._rule(agent, board, id_)
        kept = (Strength.STRICT, BOARD) if former is None else bounds_of(former.metadata)
        named = self._check(check) if check is not None or former is None else check_of(former.metadata)
        rule = {"strength": str(strength or kept[0]), "scope": scope or kept[1], "check": named}
        if former is None:
            await self._check_bounds(agent, board, text, rule)
        if _is_steward() or (former is not None and former.author == agent):
            return await self._write(agent, board, [_made(text, rule, former)], once)
        return await self._write(agent, board, [_proposed(text, rule, former)], once)

    async def _check_bounds(self, agent: str, board: str | None, text: str, rule: dict[str, Any]) -> None:
        """Checks that no rule in force says the same within other bounds: a post that repeats one changes nothing."""
        book = await self._board.store.rules(await self._board.board_of(board, agent), agent)
        for known in book.rules:
            bounds = {"strength": str(known.strength), "scope": known.scope, "check": known.check}
            if known.number and _plain(known.text) == _plain(text) and bounds != rule:
                raise Conflict(
                    f"{known.id} says this already, {known.strength} with scope {known.scope}"
                    f"{f' and check {known.check}' if known.check else ''}. Nothing was changed; "
                    f'constraint(id="{known.id}", text=…, scope=…) changes it.'
                )

    async def capture(
        self, agent: str, board: str | None, message: str, *, once_key: str | None = None
    ) -> Ruled:
        """Proposes the sentences of a user's message that may be rules, without those that are in force or
        proposed already.

        A repeated call asks no model: it might answer something else.
        """
        name = await self._board.board_of(board, agent)
        once = once_of(once_key, "capture", message=message)
        if (done := await self._repeated(agent, name, once, proposals=True)) is not None:
            return replace(done, left=_captured(message, ())[1])
        found = None if self._reader is None else await self._reader.read([message])
        now = await self.standing(agent, name)
        texts = [*(rule.text for rule in now.book.rules), *(one.text for one in now.proposals)]
        posts, left = _captured(message, texts, found)
        done = await self._write(agent, name, posts, once) if posts else now
        return replace(done, left=left, model="" if found is None else found.told)

    async def collect(
        self, agent: str, board: str, message: str, found: ModelFound | None, once: Once
    ) -> tuple[list[str], int]:
        """Proposes rules as `capture` does; the agent is shown nothing. `found` is what a model found in it.

        Returns the ids of the new proposals, and how many sentences were too many.
        """
        book = await self._board.store.rules(board, agent)
        page = await self._proposals(agent, board)
        texts = [*(rule.text for rule in book.rules), *(one.text for one in _proposals_of(page))]
        posts, left = _captured(message, texts, found)
        if not posts:
            return [], 0
        posted = await self._board.post(agent, board, posts, once, ruling=True)
        return [item.id for item in posted.items], len(left)

    async def _proposals(self, agent: str, board: str) -> Page:
        wanted = ItemQuery(types=(ItemType.PLAN,), statuses=(Status.ACTIVE,), tags=(PROPOSED,), limit=_MOST)
        return await self._board.store.query(board, agent, wanted)

    async def confirm(
        self, agent: str, board: str | None, ids: Sequence[str], *, once_key: str | None = None
    ) -> Ruled:
        """Makes rules of proposals, all or none.

        Raises:
            InvalidInput: an id names no proposal.
            UnknownReference: there is no such item.
            Conflict: a proposal has another version than named, or is over.
        """
        once = once_of(once_key, "confirm", ids=list(ids))
        if (done := await self._repeated(agent, board, once)) is not None:
            return done
        posts: list[PostFields] = []
        for item in await self._items(agent, board, ids):
            proposal = _proposal(item)
            if proposal is None:
                raise InvalidInput(
                    f"{item.id} is no proposed rule. Nothing was changed; constraint() lists the proposals."
                )
            if item.status in FINISHED:
                raise Conflict(
                    f"{item.id} is {item.status}. Nothing was changed; constraint() lists the rules."
                )
            former = None if proposal.replaces is None else await self._rule(agent, board, proposal.replaces)
            rule = {"strength": str(proposal.strength), "scope": proposal.scope, "check": proposal.check}
            made = _made(proposal.text, rule, former)
            if former is None:
                made = made.model_copy(update={"edges": {"derived_from": [item.id]}})
            posts += [made, PostFields(id=item.id, status="RESOLVED")]
        return await self._write(agent, board, posts, once)

    async def retire(
        self, agent: str, board: str | None, id_: str, reason: str, *, once_key: str | None = None
    ) -> Ruled:
        """Ends a rule, or withdraws a proposal, with a reason that its metadata keeps.

        Raises:
            Conflict: it was retired before; that reason stays.
            Refused: the agent is neither its author nor a steward, or it is under debate.
        """
        once = once_of(once_key, "retire", id=id_, reason=reason)
        if (done := await self._repeated(agent, board, once)) is not None:
            return done
        (item,) = await self._items(agent, board, [id_])
        if item.type is not ItemType.CONSTRAINT and _proposal(item) is None:
            raise InvalidInput(f"{item.id} is no rule. Nothing was changed; constraint() lists the rules.")
        if item.author != agent and not _is_steward():
            raise Refused(
                f"{item.id} is {item.author}'s: only its author or a steward may retire it. Nothing was changed; "
                "a CRITIQUE of it opens a debate."
            )
        if item.type is not ItemType.CONSTRAINT and item.status in FINISHED:
            raise Conflict(
                f"{item.id} is {item.status}. Nothing was changed; constraint() lists the proposals."
            )
        given = item.metadata.get("rule")
        rule: dict[str, Any] = {
            **(given if isinstance(given, dict) else {}),
            "retired": reason,
            "retired_by": agent,
        }
        fields = PostFields(id=item.id, status="RESOLVED")
        if item.type is ItemType.CONSTRAINT or item.author == agent:
            fields.metadata = {**item.metadata, "rule": rule}
        return await self._write(agent, board, [fields], once)

    async def _repeated(
        self, agent: str, board: str | None, once: Once | None, *, proposals: bool = False
    ) -> Ruled | None:
        """Returns the answer to a call that was made before; `None` if it was not.

        `proposals` says that the call may propose rules, which it then wrote whatever became of them.
        """
        name = await self._board.board_of(board, agent)
        if once is None or await self._board.store.recall(name, agent, once) is None:
            return None
        # The store answers from what it kept, whatever the posts are.
        return await self._write(agent, name, [_proposed("repeated", {}, None)], once, whole=proposals)

    async def _write(
        self,
        agent: str,
        board: str | None,
        posts: Sequence[PostFields],
        once: Once | None,
        *,
        whole: bool = False,
    ) -> Ruled:
        posted = await self._board.post(agent, board, posts, once, ruling=True)
        await self._held.look(posted.board.id)
        return await self.standing(
            agent, board, [item.id for item in posted.items if whole or _is_ours(item)]
        )

    def _check(self, check: str | None) -> str:
        """Returns the check that a rule is to name; empty for none.

        Raises:
            InvalidInput: there is no such check.
        """
        if check is None or check == NO_CHECK:
            return ""
        found = check_of({"rule": {"check": check}})
        if found in self._checks or found.startswith((ABSENT, EXISTS)):
            return found
        there = f", or one that the server runs: {', '.join(self._checks)}" if self._checks else ""
        raise InvalidInput(
            f"'{check[:60]}' is no check: absent:GLOB (absent:**/*.tmp) finds files that may not be there, "
            f"exists:GLOB one that must be{there}. Nothing was changed; leave check out if none holds the rule."
        )

    async def _items(self, agent: str, board: str | None, ids: Sequence[str]) -> list[Item]:
        name = await self._board.board_of(board, agent)
        refs = [parse_ref(id_) for id_ in dict.fromkeys(ids)]
        found = await self._board.store.read(name, agent, refs, [])
        by_number = {item.number: item for item in found.items}
        check_letters(refs, {number: item.type for number, item in by_number.items()})
        for ref, id_ in zip(refs, dict.fromkeys(ids), strict=True):
            item = by_number.get(ref.number)
            if item is None:
                raise UnknownReference(
                    f"There is no {id_} on '{name}'. Nothing was changed; constraint() lists the rules."
                )
        latest = await self._board.store.read(name, agent, [parse_ref(str(n)) for n in by_number], [])
        for item in latest.items:
            shown = by_number[item.number]
            if shown.version != item.version:
                raise Conflict(
                    f"{item.id} is at version {item.version}, not {shown.version}. Nothing was changed; "
                    f'read(ids=["{item.id}"]) shows it.',
                    current_version=item.version,
                )
        return list(latest.items)

    async def _rule(self, agent: str, board: str | None, id_: str) -> Item:
        """Returns a rule in force, by id."""
        (item,) = await self._items(agent, board, [id_])
        if item.type is not ItemType.CONSTRAINT:
            raise InvalidInput(f"{item.id} is no rule. Nothing was changed; constraint() lists the rules.")
        if item.status in FINISHED or item.zone is Zone.ARCHIVE:
            raise Conflict(
                f"{item.id} is {item.status}, so it has no new versions. Nothing was changed; leave id out for a new "
                "rule."
            )
        return item


def check_scope(scope: str | None) -> str | None:
    """Returns a valid scope.

    Raises:
        InvalidInput: it is none.
    """
    if scope is None or scope == BOARD:
        return scope
    kind, _, rest = scope.partition(":")
    if kind == "agent" and rest:
        return f"agent:{check_addressed(rest, _INSTEAD)}"
    if kind == "key" and rest:
        return f"key:{check_glob(rest)}"
    plain = not any(c.isspace() or c == "," for c in rest)
    if kind == "path" and plain and len(scope) <= MAX_SCOPE:
        glob = rest.removesuffix("/")
        with suppress(InvalidInput):
            check_path(glob.replace("*", "x"))  # some file may have a path that matches
            return f"path:{glob}"
    raise InvalidInput(
        f"'{scope[:60]}' is no scope: board, agent:NAME, key:GLOB (key:plan:**) or path:GLOB (path:src/**; the "
        "wildcards are * and **). Nothing was changed."
    )


def _is_steward() -> bool:
    grant = GRANTED.get()
    return grant is None or Action.MODERATE in grant.powers.get(grant.member, frozenset())


def _made(text: str, rule: dict[str, str], former: Item | None) -> PostFields:
    rule = {name: said for name, said in rule.items() if said}
    if former is None:
        return PostFields(text=text, type="CONSTRAINT", metadata={"rule": rule})
    return PostFields(id=former.id, text=text, metadata={**former.metadata, "rule": rule})


def _proposed(text: str, rule: dict[str, str], former: Item | None, lead: str = _LEAD) -> PostFields:
    rule = {name: said for name, said in rule.items() if said}
    of = {} if former is None else {"replaces": former.id}
    return PostFields(text=f"{lead}{text}", type="PLAN", tags=[PROPOSED], metadata={"rule": {**rule, **of}})


def _captured(
    message: str, known: Sequence[str], found: ModelFound | None = None
) -> tuple[list[PostFields], tuple[str, ...]]:
    """Returns proposals of the first new rules in a message, and the texts of those that are too many."""
    there = set(map(_plain, known))
    all_ = candidates(message) if found is None else candidates(message, found.rules)
    new = [one for one in all_ if _plain(one.text) not in there]
    posts = [
        _proposed(
            *(one.text, {"strength": str(one.strength), "scope": BOARD}, None),
            _MODEL_LEAD if one.by_model else _LEAD,
        )
        for one in new[:MOST]
    ]
    return posts, tuple(one.text for one in new[MOST:])


def _proposal(item: Item) -> Proposal | None:
    """Returns what an item proposes; `None` if it proposes no rule."""
    if item.type is not ItemType.PLAN or PROPOSED not in item.tags:
        return None
    lead = next((one for one in (_LEAD, _MODEL_LEAD) if item.text.startswith(one)), None)
    if lead is None:
        return None
    replaces = (
        item.metadata.get("rule", {}).get("replaces") if isinstance(item.metadata.get("rule"), dict) else None
    )
    name = f"{item.id}@{item.version}" if item.version > 1 else item.id
    strength, scope = bounds_of(item.metadata)
    text = item.text.removeprefix(lead)
    former = replaces if isinstance(replaces, str) else None
    by_model = lead is _MODEL_LEAD
    return Proposal(name, text, strength, scope, item.author, former, check_of(item.metadata), by_model)


def _proposals_of(page: Page) -> list[Proposal]:
    return [proposal for item in page.items if (proposal := _proposal(item)) is not None]


def _is_ours(item: Item) -> bool:
    return item.type is ItemType.CONSTRAINT or item.status not in FINISHED


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".!")
