"""Checks drafts against the rules of a board and counts them, before the transaction that writes them.

The transaction takes only drafts that were checked against the very rules in force and counted by the board's own
tokenizer, so nothing gets past rules that change meanwhile, or by a path that does not check. A schema is checked in
a worker thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput, Refused, RulesMoved
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Draft, Item, ItemType, Ref, Visibility
from blackboard_mcp.protocols.policy import Writing
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import Tokenizer

from ...plugins.bounded import Bounded, PolicyFailed
from ...plugins.loading import NAMED, load_instance
from ...text.lines import one_line
from ...text.tokens import Tokenizers
from .rules import Fault, Looked, Rule, rules_of

T = TypeVar("T")

MOST_FAULTS: Final = 3
"""How many faults an error names."""
_FAULT = 300
_ATTEMPTS = 5
_ADDING_ATTEMPTS = 200
_BOARDS = 10_000


class Validators:
    """The operator's validation policies, by name."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """`named` are `NAME=package.module:Class`, of the launch configuration alone: they are imported and run.

        Raises:
            InvalidInput: a name or path that is none, or a class that cannot be made or has no `check`.
        """
        self._made: dict[str, Any] = {}
        self._bounded: dict[str, tuple[Bounded, asyncio.Lock]] = {}
        for said in named:
            match = NAMED.match(said)
            if match is None:
                raise InvalidInput(
                    f"validator: '{said[:80]}' is not of the form NAME=package.module:Class, the name in a-z 0-9 -."
                )
            name = match["name"]
            if name in self._made:
                raise InvalidInput(f"There is a validator '{name}' already; give yours another name.")
            self._made[name] = load_instance("Validator", name, match["path"], ("check",))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._made)

    async def fault(self, rule: Rule, writing: Writing) -> Fault | None:
        """The objection of a rule's validator; a validator that cannot be asked objects."""
        name = rule.validator
        if name is None:
            return None
        if name not in self._made:
            why = f"needs the validator '{name}', which this server was not launched with: ask its operator"
            return Fault(rule.name, "$", why)
        bounded, turn = self._bounded.setdefault(name, (Bounded(name), asyncio.Lock()))
        async with turn:
            try:
                why = await bounded.ask(lambda: self._made[name].check(writing))
            except PolicyFailed as error:
                why = f"could not be checked: the validator '{name}' {error}"
        if why is None:
            return None
        if not isinstance(why, str):
            why = f"could not be checked: the validator '{name}' answered with neither a text nor None"
        return Fault(rule.name, "$", why)


class Validation:
    """The rules of boards, applied."""

    def __init__(
        self, store: BoardStore, validators: Validators, config: BoardConfig, tokenizers: Tokenizers
    ) -> None:
        """`config` is that of boards which come into being by what is written."""
        self._store = store
        self._validators = validators
        self._config = config
        self._tokenizers = tokenizers
        self._known: dict[str, str] = {}

    async def write(
        self,
        board: str,
        agent: str,
        drafts: Sequence[Draft],
        once: Once | None,
        write: Callable[[Sequence[Draft]], Awaitable[T]],
    ) -> T:
        """What `write` answers, called with the drafts once they were checked against the rules in force.

        A board without rules costs nothing. A call that was made before is not checked again.

        Raises:
            Refused: a draft does not meet a rule; it names the draft, the rule, the place and what may be.
            Exception: whatever `write` raises.
        """
        # Of those who add to one entry at once, each time one gets on.
        for _ in range(_ADDING_ATTEMPTS if any(draft.add is not None for draft in drafts) else _ATTEMPTS):
            known = rules, _ = self._known.get(board, ""), self._tokenizers.name_on(board)
            checked = drafts
            try:
                checked = await self._counted(board, drafts)
                if rules:
                    checked = await self._checked(board, agent, checked, rules)
            except Refused:
                if await self._rules(board) != known:
                    continue
                if once is None or await self._store.recall(board, agent, once) is None:
                    raise
            try:
                return await write(checked)
            except RulesMoved:
                await self._rules(board)
        raise RulesMoved(
            f"The rules of '{board}' changed again and again while this was checked. Nothing was changed; try again."
        )

    async def counted(self, board: str, write: Callable[[Tokenizer], Awaitable[T]]) -> T:
        """What `write` answers, given what counts on the board until it has written.

        Raises:
            Refused: this server lacks that tokenizer.
            Exception: whatever `write` raises.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await write(self._tokenizers.writing(board))
            except RulesMoved:
                await self._rules(board)
        return await write(self._tokenizers.writing(board))

    async def _counted(self, board: str, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """The drafts with the counts of the board's tokenizer.

        Raises:
            Refused: this server lacks it.
        """
        name = self._tokenizers.name_on(board)
        if all(draft.counted_by == name or (draft.text is None and draft.add is None) for draft in drafts):
            return drafts
        tokenizer = self._tokenizers.writing(board)
        return await asyncio.to_thread(lambda: [_count(draft, tokenizer) for draft in drafts])

    async def _rules(self, board: str) -> tuple[str, str]:
        found = await self._store.find_board(board)
        self._tokenizers.see(found)
        rules = (self._config if found is None else found.config).validation
        if len(self._known) >= _BOARDS and board not in self._known:
            self._known.pop(next(iter(self._known)))
        self._known[board] = rules
        return rules, self._tokenizers.name_on(board)

    async def _checked(self, board: str, agent: str, drafts: Sequence[Draft], kept: str) -> list[Draft]:
        rules = rules_of(kept)
        written = await self._writings(board, agent, drafts)
        faults = await asyncio.to_thread(_faults, written, rules)
        for place, writing in enumerate(written):
            for rule in rules:
                if writing is not None and rule.validator is not None and rule.concerns(writing):
                    fault = await self._validators.fault(rule, writing)
                    faults += [] if fault is None else [(place, fault)]
        if faults:
            raise _refusal(sorted(faults, key=lambda found: found[0]), len(drafts))
        return [
            replace(draft, checked=kept)
            if draft.add is None or writing is None
            else replace(draft, checked=kept, text=writing.text)
            for draft, writing in zip(drafts, written, strict=True)
        ]

    async def _writings(self, board: str, agent: str, drafts: Sequence[Draft]) -> list[Writing | None]:
        """What each draft would write, `None` where that is nothing that rules are about."""
        course = _Course()
        if any(_writes(draft) for draft in drafts):
            await self._look(course, board, agent, [d for d in drafts if _writes(d) or d.delete])
        return [course.take(board, agent, draft) for draft in drafts]

    async def _look(self, course: _Course, board: str, agent: str, drafts: Sequence[Draft]) -> None:
        """Adds the items that drafts are about, as they stand."""
        if await self._store.find_board(board) is None:
            return
        refs = [Ref(d.target) for d in drafts if d.target is not None]
        keys = list(dict.fromkeys(d.key for d in drafts if d.key is not None))
        found = await self._store.read(board, agent, refs, keys)
        course.add(found.items)
        for draft in drafts:
            if draft.key is None or draft.target is not None:
                continue
            # By key the nearest entry is read, the agent's own before its team's before the shared, and no tombstone.
            for deleted in (False, True) if draft.visibility is not None else (True,):
                if course.of(draft) is None:
                    wanted = ItemQuery(key=draft.key, zone=None, limit=len(_NEAREST), deleted=deleted)
                    course.add((await self._store.query(board, agent, wanted)).items)


_NEAREST = (Visibility.PRIVATE, Visibility.TEAM, Visibility.BOARD)
"""In what order a key is looked up, where it is not said which of its entries is meant."""


@dataclass(slots=True)
class _Standing:
    type: ItemType
    key: str | None
    metadata: Mapping[str, Any]
    text: str = ""
    deleted: bool = False


class _Course:
    """The items that drafts are about, as the drafts before each leave them."""

    def __init__(self) -> None:
        self._numbers: dict[int, _Standing] = {}
        self._keys: dict[tuple[str, Visibility], _Standing] = {}

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            standing = _Standing(item.type, item.key, item.metadata, item.text, item.deleted)
            standing = self._numbers.setdefault(item.number, standing)
            if item.key is not None:
                self._keys[item.key, item.visibility] = standing

    def of(self, draft: Draft) -> _Standing | None:
        """What a draft changes: by key what stands before tombstones, and the nearest before the others."""
        if draft.target is not None:
            return self._numbers.get(draft.target)
        if draft.key is None:
            return None
        sides = _NEAREST if draft.visibility is None else (draft.visibility,)
        listed = [self._keys[draft.key, side] for side in sides if (draft.key, side) in self._keys]
        return min(listed, key=lambda standing: standing.deleted, default=None)

    def take(self, board: str, agent: str, draft: Draft) -> Writing | None:
        """What a draft would write, which then stands; `None` where that is nothing that rules are about."""
        standing = self.of(draft)
        if draft.delete and standing is not None:
            standing.deleted, standing.metadata = True, {}
        if not _writes(draft):
            return None
        text, tokens = draft.text, draft.tokens
        if draft.add is not None:
            try:
                text = draft.add.to("", "" if standing is None else standing.text)
            except InvalidInput:
                return None  # the transaction says so, with what stands there then
            tokens = draft.add.count(text)
        new = standing is None
        if standing is None:
            standing = _Standing(draft.type or ItemType.FACT, draft.key, {})
            if draft.key is not None:
                self._keys[draft.key, draft.visibility or Visibility.BOARD] = standing
        if draft.metadata is not None:
            standing.metadata = draft.metadata
        standing.deleted = standing.deleted and text is None
        standing.text = standing.text if text is None else text
        type_, key, metadata = standing.type, standing.key, standing.metadata
        return Writing(board, agent, type_, key, text, tokens, metadata, new)


def _count(draft: Draft, tokenizer: Tokenizer) -> Draft:
    tokens = 0 if draft.text is None else tokenizer.count(draft.text)
    add = None if draft.add is None else replace(draft.add, count=tokenizer.count)
    return replace(draft, tokens=tokens, add=add, counted_by=tokenizer.name)


def _writes(draft: Draft) -> bool:
    """Whether it writes what rules are about: a text or metadata."""
    return draft.text is not None or draft.add is not None or draft.metadata is not None


def _faults(written: Sequence[Writing | None], rules: Sequence[Rule]) -> list[tuple[int, Fault]]:
    from .schemas import Steps

    found: list[tuple[int, Fault]] = []
    steps = Steps()
    for place, writing in enumerate(written):
        if writing is None:
            continue
        looked = Looked(writing)
        for rule in rules:
            if rule.concerns(writing):
                found += [(place, fault) for fault in rule.faults(looked, steps)]
        if len(found) > MOST_FAULTS:
            break
    return found


def _refusal(faults: Sequence[tuple[int, Fault]], drafts: int) -> Refused:
    lines = []
    for place, fault in faults[:MOST_FAULTS]:
        item = f"item {place + 1}, " if drafts > 1 else ""
        words = one_line(f"{item}{fault}")
        lines.append(words if len(words) <= _FAULT else words[: _FAULT - 1] + "…")
    more = " There is more." if len(faults) > MOST_FAULTS else ""
    return Refused(
        f"This board has rules on what is written. {'; '.join(lines)}.{more} Nothing was changed.",
        faults=[
            {"item": place + 1, "rule": fault.rule, "path": fault.path, "why": fault.why[:_FAULT]}
            for place, fault in faults[:MOST_FAULTS]
        ],
    )
