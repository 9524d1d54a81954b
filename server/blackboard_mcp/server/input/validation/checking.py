"""Checks drafts against the rules of a board and counts their tokens, before the transaction that writes
them.

The transaction accepts only drafts that were checked against the rules in force and counted by the board's
own tokenizer. So nothing gets past rules that change in between, or past the checks by another path. Schemas
are checked in a worker thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
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
from blackboard_mcp.protocols.values import Newest

from ...plugins.bounded import Bounded, PolicyFailed
from ...plugins.loading import NAMED, load_instance
from ...text.lines import one_line
from ...text.tokens import Tokenizers
from .rules import Fault, Looked, Rule, rules_of

T = TypeVar("T")

MOST_FAULTS: Final = 3
"""Most faults that an error names."""
_FAULT = 300
_ATTEMPTS = 5
_ADDING_ATTEMPTS = 200
_BOARDS = 10_000


class Validators:
    """The operator's validation policies, by name."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """Imports and instantiates the validators that `named` lists as `NAME=package.module:Class`.

        `named` comes from the launch configuration alone, because the classes are run.

        Raises:
            InvalidInput: a name or path is not valid or given twice, or a class cannot be instantiated or has
                no `check`.
        """
        self._made: dict[str, Any] = {}
        self._bounded: dict[str, Bounded] = {}
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
        """Names of all validators."""
        return tuple(self._made)

    async def fault(self, rule: Rule, writing: Writing) -> Fault | None:
        """Returns the fault that a rule's validator finds, or `None`. A validator that cannot be asked counts
        as a fault.
        """
        name = rule.validator
        if name is None:
            return None
        if name not in self._made:
            why = f"needs the validator '{name}', which this server was not launched with: ask its operator"
            return Fault(rule.name, "$", why)
        bounded = self._bounded.setdefault(name, Bounded(name, patient=True))
        # The validator gets a copy, so that it cannot alter what is written.
        copy = replace(writing, metadata=deepcopy(dict(writing.metadata)))
        try:
            why = await bounded.ask(lambda: self._made[name].check(copy))
        except PolicyFailed as error:
            why = f"could not be checked: the validator '{name}' {error}"
        if why is None:
            return None
        if not isinstance(why, str):
            why = f"could not be checked: the validator '{name}' answered with neither a text nor None"
        elif not why.strip():
            why = f"was refused by the validator '{name}' without a reason: ask the operator"
        return Fault(rule.name, "$", why)


class Validation:
    """Checks of drafts by the rules of their boards."""

    def __init__(
        self, store: BoardStore, validators: Validators, config: BoardConfig, tokenizers: Tokenizers
    ) -> None:
        """Keeps what the checks need. `config` is the configuration of boards that the first write creates."""
        self._store = store
        self._validators = validators
        self._config = config
        self._tokenizers = tokenizers
        self._known: Newest[str, str] = Newest(_BOARDS)

    async def write(
        self,
        board: str,
        agent: str,
        drafts: Sequence[Draft],
        once: Once | None,
        write: Callable[[Sequence[Draft]], Awaitable[T]],
    ) -> T:
        """Checks the drafts against the rules in force, calls `write` with them, and returns its result.

        A board without rules adds no work. A call that repeats an earlier one (`once`) is not refused by the
        rules.

        Raises:
            Refused: a draft breaks a rule; the error names the draft, the rule, the place and what is
                allowed.
            Exception: any error of `write`.
        """
        # When many callers add to one entry at once, each round lets one of them succeed.
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
        """Calls `write` with the board's tokenizer and returns its result; calls it again where the tokenizer
        changed meanwhile.

        Raises:
            Refused: this server lacks the board's tokenizer.
            Exception: any error of `write`.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await write(self._tokenizers.writing(board))
            except RulesMoved:
                await self._rules(board)
        return await write(self._tokenizers.writing(board))

    async def _counted(self, board: str, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Returns the drafts with tokens counted by the board's tokenizer.

        Raises:
            Refused: this server lacks the tokenizer.
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
        """Returns what each draft would write, or `None` for a draft that writes neither text nor metadata."""
        course = _Course()
        if any(_writes(draft) for draft in drafts):
            await self._look(course, board, agent, [d for d in drafts if _writes(d) or d.delete])
        return [course.take(board, agent, draft) for draft in drafts]

    async def _look(self, course: _Course, board: str, agent: str, drafts: Sequence[Draft]) -> None:
        """Adds to `course` the stored items that the drafts change."""
        if await self._store.find_board(board) is None:
            return
        refs = [Ref(d.target) for d in drafts if d.target is not None]
        keys = list(dict.fromkeys(d.key for d in drafts if d.key is not None))
        found = await self._store.read(board, agent, refs, keys)
        course.add(found.items)
        for draft in drafts:
            if draft.key is None or draft.target is not None:
                continue
            # A read by key returns only the nearest live entry (private, then team, then board): query the others too.
            for deleted in (False, True) if draft.visibility is not None else (True,):
                if course.of(draft) is None:
                    wanted = ItemQuery(key=draft.key, zone=None, limit=len(_NEAREST), deleted=deleted)
                    course.add((await self._store.query(board, agent, wanted)).items)


_NEAREST = (Visibility.PRIVATE, Visibility.TEAM, Visibility.READERS, Visibility.BOARD)
"""Order in which a key's entries are looked up where the draft names no visibility."""


@dataclass(slots=True)
class _Standing:
    type: ItemType
    key: str | None
    metadata: Mapping[str, Any]
    text: str = ""
    deleted: bool = False


class _Course:
    """The items that a batch of drafts changes, in the state in which the drafts so far leave them."""

    def __init__(self) -> None:
        self._numbers: dict[int, _Standing] = {}
        self._keys: dict[tuple[str, Visibility], _Standing] = {}

    def add(self, items: Iterable[Item]) -> None:
        """Adds stored items in their present state."""
        for item in items:
            standing = _Standing(item.type, item.key, item.metadata, item.text, item.deleted)
            standing = self._numbers.setdefault(item.number, standing)
            if item.key is not None:
                self._keys[item.key, item.visibility] = standing

    def of(self, draft: Draft) -> _Standing | None:
        """Returns the item that a draft changes, or `None`. For a key, live entries come before deleted ones,
        then the nearest.
        """
        if draft.target is not None:
            return self._numbers.get(draft.target)
        if draft.key is None:
            return None
        sides = _NEAREST if draft.visibility is None else (draft.visibility,)
        listed = [self._keys[draft.key, side] for side in sides if (draft.key, side) in self._keys]
        return min(listed, key=lambda standing: standing.deleted, default=None)

    def take(self, board: str, agent: str, draft: Draft) -> Writing | None:
        """Applies a draft and returns what it would write, or `None` where it writes neither text nor
        metadata.
        """
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
                return None  # the transaction refuses it, and names the value that it finds
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
    """Tells whether a draft writes a text or metadata, to which rules apply."""
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
