"""Patterns that count the steps of their matching, which no clock can.

`counted` replaces a module's own patterns. Each call is matched twice: by `re`, whose answer is returned, and
by a plain backtracking machine, which counts and must find the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

MOST = 20_000_000
"""The number of steps after which a run fails, because matching does not end in reasonable time."""

CHAR, SPLIT, JUMP, AT, LOOK, ATOMIC, MATCHED = range(7)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    c.CATEGORY_DIGIT: str.isdecimal,
    c.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
    c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    c.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    c.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


@dataclass
class Steps:
    """The counts: all steps, and for each pattern the most steps per character in one call."""

    all: int = 0
    calls: int = 0
    characters: int = 0
    """The number of characters in all texts matched."""
    most: dict[str, float] = field(default_factory=dict)

    def add(self, pattern: str, characters: int, steps: int) -> None:
        """Adds the steps of one call.

        Raises:
            AssertionError: there are more than `MOST` steps in all.
        """
        self.all += steps
        if self.all > MOST:
            raise AssertionError(f"over {MOST:,} steps of matching")
        self.calls += 1
        self.characters += characters
        self.most[pattern] = max(self.most.get(pattern, 0.0), steps / (characters + 100))

    def grew(self, less: Steps) -> list[str]:
        """Returns the patterns that take clearly more steps per character than in `less`, a run on shorter texts."""
        return [p for p, dear in self.most.items() if dear > 2 * less.most.get(p, 0.0) + 10]


@contextmanager
def counted(*modules: ModuleType) -> Iterator[Steps]:
    """Makes the patterns of these modules count while the context is entered, also those inside tuples."""
    steps = Steps()
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name, value in list(vars(module).items()):
                replaced = _counting(value, steps)
                if replaced is not value:
                    patch.setattr(module, name, replaced)
        yield steps


def _counting(value: Any, steps: Steps) -> Any:
    if isinstance(value, re.Pattern):
        return CountedPattern(value, steps)
    if type(value) is tuple and any(isinstance(part, re.Pattern | tuple) for part in value):
        return tuple(_counting(part, steps) for part in value)
    return value


class CountedPattern:
    """A pattern that `re` matches and `_run` counts."""

    def __init__(self, pattern: re.Pattern[str], steps: Steps) -> None:
        self._pattern = pattern
        self._steps = steps

    def search(self, text: str) -> re.Match[str] | None:
        self._count("search", text)
        return self._pattern.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        self._count("match", text)
        return self._pattern.match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self._count("finditer", text)
        return self._pattern.finditer(text)

    def findall(self, text: str) -> list[Any]:
        self._count("finditer", text)
        return self._pattern.findall(text)

    def split(self, text: str) -> list[Any]:
        self._count("finditer", text)
        return self._pattern.split(text)

    def sub(self, by: Any, text: str, count: int = 0) -> str:
        self._count("finditer", text)
        return self._pattern.sub(by, text, count)

    def _count(self, how: str, text: str) -> None:
        self._steps.add(self._pattern.pattern, len(text), _steps_of(self._pattern, how, text))


@lru_cache(maxsize=1 << 16)
def _steps_of(pattern: re.Pattern[str], how: str, text: str) -> int:
    """Returns the steps of a call, and checks that it ends as that of `re` does."""
    program, steps = _program(pattern), Steps()

    def end_of(start: int) -> int | None:
        return _run(program, text, start, steps)

    if how == "match":
        matched = pattern.match(text)
        assert end_of(0) == (matched.end() if matched else None), (pattern, text[:80])
        return steps.all
    found = list(pattern.finditer(text)) if how == "finditer" else [m for m in [pattern.search(text)] if m]
    # `re` tries every place up to each match and, when it looks for all matches, those after the last.
    place, empty = 0, False
    for match in found:
        for start in range(place + empty, match.start()):
            assert end_of(start) is None, (pattern, start)
        end = end_of(match.start())
        # Right after an empty match `re` accepts no second empty one.
        assert end == match.end() or (empty and match.start() == place), (pattern, match)
        place, empty = match.end(), match.end() == match.start()
    if how == "finditer" or not found:
        for start in range(place + empty, len(text) + 1):
            assert end_of(start) is None, (pattern, start)
    return steps.all


Instruction = tuple[Any, ...]


def _run(program: list[Instruction], text: str, start: int, steps: Steps) -> int | None:
    """Returns where a match from `start` ends, or `None`; each instruction is a step."""
    waiting = [(0, start)]
    length = len(text)
    count = 0
    try:
        while waiting:
            at, place = waiting.pop()
            while True:
                count += 1
                if count + steps.all > MOST:
                    raise AssertionError(f"over {MOST:,} steps of matching on {length:,} characters")
                instruction = program[at]
                kind = instruction[0]
                if kind == CHAR:
                    if place >= length or not instruction[1](text[place]):
                        break
                    at, place = at + 1, place + 1
                elif kind == SPLIT:
                    waiting.append((instruction[2], place))
                    at = instruction[1]
                elif kind == JUMP:
                    at = instruction[1]
                elif kind == AT:
                    if not instruction[1](text, place):
                        break
                    at += 1
                elif kind == LOOK:
                    _, inner, behind, wanted = instruction
                    there = place - behind
                    if (there >= 0 and _run(inner, text, there, steps) is not None) is not wanted:
                        break
                    at += 1
                elif kind == ATOMIC:
                    end = _run(instruction[1], text, place, steps)
                    if end is None:
                        break
                    at, place = at + 1, end
                else:
                    return place
        return None
    finally:
        steps.all += count


@lru_cache
def _program(pattern: re.Pattern[str]) -> list[Instruction]:
    """Returns the program of a pattern.

    Raises:
        NotImplementedError: the pattern has a construct that no counted pattern had so far.
    """
    program: list[Instruction] = []
    _sequence(_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG), pattern.flags, program)
    return [*program, (MATCHED,)]


def _sequence(parsed: Any, flags: int, to: list[Instruction]) -> None:
    for kind, argument in parsed:
        _one(kind, argument, flags, to)


def _one(kind: Any, argument: Any, flags: int, to: list[Instruction]) -> None:
    if kind in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
        to.append((CHAR, _remembered(_letters(kind, argument, flags), flags)))
    elif kind is c.AT:
        to.append((AT, _place(argument, flags)))
    elif kind is c.SUBPATTERN:
        _, add, drop, inner = argument
        _sequence(inner, (flags | add) & ~drop, to)
    elif kind is c.BRANCH:
        _branch(argument[1], flags, to)
    elif kind in (c.MAX_REPEAT, c.MIN_REPEAT):
        _repeat(*argument, kind is c.MIN_REPEAT, flags, to)
    elif kind is c.POSSESSIVE_REPEAT:
        inner: list[Instruction] = []
        _repeat(*argument, False, flags, inner)
        to.append((ATOMIC, [*inner, (MATCHED,)]))
    elif kind is c.ATOMIC_GROUP:
        inner = []
        _sequence(argument, flags, inner)
        to.append((ATOMIC, [*inner, (MATCHED,)]))
    elif kind in (c.ASSERT, c.ASSERT_NOT):
        direction, looked = argument
        inner = []
        _sequence(looked, flags, inner)
        behind = looked.getwidth()[0] if direction < 0 else 0
        to.append((LOOK, [*inner, (MATCHED,)], behind, kind is c.ASSERT))
    else:
        raise NotImplementedError(kind)


def _branch(branches: Any, flags: int, to: list[Instruction]) -> None:
    jumps = []
    for branch in branches[:-1]:
        split = len(to)
        to.append(())
        _sequence(branch, flags, to)
        jumps.append(len(to))
        to.append(())
        to[split] = (SPLIT, split + 1, len(to))
    _sequence(branches[-1], flags, to)
    for jump in jumps:
        to[jump] = (JUMP, len(to))


def _repeat(least: int, most: Any, parsed: Any, lazy: bool, flags: int, to: list[Instruction]) -> None:
    def split(at: int, on: int, past: int) -> None:
        to[at] = (SPLIT, past, on) if lazy else (SPLIT, on, past)

    for _ in range(least):
        _sequence(parsed, flags, to)
    if most is c.MAXREPEAT:
        if parsed.getwidth()[0] == 0:
            raise NotImplementedError("a repeat of what may be empty")
        at = len(to)
        to.append(())
        _sequence(parsed, flags, to)
        to.append((JUMP, at))
        split(at, at + 1, len(to))
        return
    splits = []
    for _ in range(most - least):
        splits.append(len(to))
        to.append(())
        _sequence(parsed, flags, to)
    for at in splits:
        split(at, at + 1, len(to))


def _remembered(fits: Callable[[str], bool], flags: int) -> Callable[[str], bool]:
    known: dict[str, bool] = {}

    def remembered(char: str) -> bool:
        if char not in known:
            cases = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
            known[char] = any(len(case) == 1 and fits(case) for case in cases)
        return known[char]

    return remembered


def _letters(kind: Any, argument: Any, flags: int) -> Callable[[str], bool]:
    """Returns a test for the characters that a part of a pattern accepts."""
    if kind is c.LITERAL:
        return lambda char: ord(char) == argument
    if kind is c.NOT_LITERAL:
        return lambda char: ord(char) != argument
    if kind is c.ANY:
        return lambda char: bool(flags & re.DOTALL) or char != "\n"
    negate = argument[0][0] is c.NEGATE
    parts = [_member(*part) for part in argument[negate:]]
    return lambda char: any(part(char) for part in parts) is not negate


def _member(kind: Any, argument: Any) -> Callable[[str], bool]:
    if kind is c.LITERAL:
        return lambda char: ord(char) == argument
    if kind is c.RANGE:
        return lambda char: argument[0] <= ord(char) <= argument[1]
    if kind is c.CATEGORY:
        return _CATEGORIES[argument]
    raise NotImplementedError(kind)


def _place(kind: Any, flags: int) -> Callable[[str, int], bool]:
    """Returns a test for the places of a text where an anchor matches."""

    def is_word(text: str, place: int) -> bool:
        return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")

    lines = bool(flags & re.MULTILINE)
    if kind is c.AT_BEGINNING:
        return lambda text, place: place == 0 or (lines and text[place - 1] == "\n")
    if kind is c.AT_BEGINNING_STRING:
        return lambda text, place: place == 0
    if kind is c.AT_END:
        return lambda text, place: (
            place == len(text) or (text[place] == "\n" and (lines or place == len(text) - 1))
        )
    if kind is c.AT_END_STRING:
        return lambda text, place: place == len(text)
    if kind is c.AT_BOUNDARY:
        return lambda text, place: is_word(text, place - 1) is not is_word(text, place)
    if kind is c.AT_NON_BOUNDARY:
        return lambda text, place: is_word(text, place - 1) is is_word(text, place)
    raise NotImplementedError(kind)
