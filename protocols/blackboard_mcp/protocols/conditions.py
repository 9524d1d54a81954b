"""Conditions on a board, as stages and tasks have them: `done(T-1) and count(type=FACT) >= 3`.

A condition is read once into a tree of tuples. `mentions` names what the tree looks at, so that a change of the board
finds the conditions that it may touch.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal, NoReturn

from .errors import InvalidInput
from .items import ItemType, Status
from .values import dataclass

MAX_CONDITION = 500
MAX_TERMS = 20
MAX_NESTING = 20
"""Most parentheses and `not`s within each other."""
MAX_COUNT = 1_000_000

Comparison = Literal[">=", "<=", "==", ">", "<"]


@dataclass(frozen=True, slots=True)
class Count:
    """Counts items that match all of its values; an empty value matches every item."""

    comparison: Comparison
    number: int
    type: str = ""
    tag: str = ""
    status: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as a tree.

    `kind` is a function's name, "and", "or", "not", "true" or "false". `number` is the task or stage of "task" and
    "stage", `name` the key, flag or title of "exists", "flag" and "milestone".
    """

    kind: Literal[
        "true",
        "false",
        "and",
        "or",
        "not",
        "task",
        "stage",
        "count",
        "exists",
        "flag",
        "milestone",
        "no_open_debates",
    ]
    parts: tuple[Condition, ...] = ()
    number: int = 0
    name: str = ""
    count: Count | None = field(default=None)


TRUE = Condition("true")
FALSE = Condition("false")

_ALLOWED = (
    "done(T-1), done(G-2), count(type=FACT, tag=x, status=ACTIVE, author=ann) >= 2, exists(key), flag(name), "
    "milestone(title), no_open_debates(), true, false, and, or, not, parentheses"
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"[^"\x00-\x1f\x7f]*")|(?P<sign>>=|<=|==|[()<>=,])|(?P<word>[^\s"()<>=,]+))"""
)
_DONE = re.compile(r"(?P<letter>[A-Za-z]?)-?(?P<number>[1-9][0-9]{0,9})\Z")
_BARE = re.compile(r"""[^\s"()<>=,\x00-\x1f\x7f]+\Z""")
_COMPARISONS: dict[str, Comparison] = {sign: sign for sign in (">=", "<=", "==", ">", "<")}
_END = "its end"


def parse_condition(text: str) -> Condition:
    """Returns the tree of a condition.

    Raises:
        InvalidInput: it is no condition, or too long; the place is named.
    """
    if len(text) > MAX_CONDITION:
        raise InvalidInput(
            f"That condition has {len(text)} characters; {MAX_CONDITION} are allowed. Nothing was changed."
        )
    return _Parser(text).read()


def render(condition: Condition) -> str:
    """Returns the shortest usual text of a condition; `parse_condition` reads the same tree from it."""
    match condition.kind:
        case "and" | "or":
            return f" {condition.kind} ".join(_within(part, condition.kind) for part in condition.parts)
        case "not":
            return f"not {_within(condition.parts[0], 'not')}"
        case "task":
            return f"done(T-{condition.number})"
        case "stage":
            return f"done(G-{condition.number})"
        case "count":
            return _counted(condition.count) if condition.count is not None else ""
        case "exists" | "flag" | "milestone":
            return f"{condition.kind}({_word(condition.name)})"
        case "no_open_debates":
            return "no_open_debates()"
        case _:
            return condition.kind


def mentions(condition: Condition) -> frozenset[str]:
    """Returns what a condition looks at, as the terms that changes of a board name."""
    match condition.kind:
        case "task" | "stage":
            return frozenset({f"{condition.kind}:{condition.number}"})
        case "exists":
            return frozenset({f"key:{condition.name}"})
        case "flag" | "milestone":
            return frozenset({f"{condition.kind}:{condition.name}"})
        case "count":
            count = condition.count or Count(">=", 0)
            if count.tag:
                return frozenset({f"tag:{count.tag}"})
            if count.author:
                return frozenset({f"author:{count.author}"})
            return frozenset({f"items:{count.type}" if count.type else "items"})
        case "no_open_debates":
            return frozenset({"debates"})
        case _:
            return frozenset[str]().union(*map(mentions, condition.parts))


def _within(part: Condition, around: str) -> str:
    """Returns a part's text, in parentheses where the text would be read otherwise without them."""
    text = render(part)
    return f"({text})" if part.kind in {"and", "or"} and (part.kind, around) != ("and", "or") else text


def _word(name: str) -> str:
    return name if _BARE.match(name) else f'"{name}"'


def _counted(count: Count) -> str:
    values = (("type", count.type), ("tag", count.tag), ("status", count.status), ("author", count.author))
    inside = ", ".join(f"{name}={_word(value)}" for name, value in values if value)
    return f"count({inside}) {count.comparison} {count.number}"


class _Parser:
    """Reads one condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        self._terms = 0
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                self._fail(at + len(text[at:]) - len(text[at:].lstrip()), "a quote is not closed here")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()

    def read(self) -> Condition:
        condition = self._any(0)
        if self._next < len(self._tokens):
            self._expected("'and', 'or' or the end")
        return condition

    def _any(self, depth: int) -> Condition:
        return self._joined("or", depth)

    def _joined(self, kind: Literal["or", "and"], depth: int) -> Condition:
        parts: list[Condition] = []
        while True:
            part = self._joined("and", depth) if kind == "or" else self._one(depth)
            parts += part.parts if part.kind == kind else (part,)
            if not self._take("word", kind):
                return parts[0] if len(parts) == 1 else Condition(kind, tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_NESTING:
            self._fail(
                self._place(), f"there are more than {MAX_NESTING} parentheses or 'not' within each other"
            )
        if self._take("word", "not"):
            return Condition("not", (self._one(depth + 1),))
        if self._take("sign", "("):
            inside = self._any(depth + 1)
            self._sign(")")
            return inside
        self._terms += 1
        if self._terms > MAX_TERMS:
            self._fail(self._place(), f"there are more than {MAX_TERMS} terms")
        return self._term()

    def _term(self) -> Condition:
        for name in ("true", "false"):
            if self._take("word", name):
                return TRUE if name == "true" else FALSE
        if self._take("word", "no_open_debates"):
            self._sign("(")
            self._sign(")")
            return Condition("no_open_debates")
        if self._take("word", "count"):
            return self._count()
        if self._take("word", "done"):
            return self._done()
        for name in ("exists", "flag", "milestone"):
            if self._take("word", name):
                self._sign("(")
                value = self._name()
                self._sign(")")
                return Condition(name, name=value)  # type: ignore[arg-type]
        self._expected("a condition")

    def _done(self) -> Condition:
        self._sign("(")
        place = self._place()
        match = _DONE.match(self._value())
        if match is None:
            self._fail(place, "done() takes the id of a task or stage: done(T-1), done(G-2)")
        self._sign(")")
        return Condition("stage" if match["letter"] in {"G", "g"} else "task", number=int(match["number"]))

    def _count(self) -> Condition:
        values: dict[str, str] = {}
        self._sign("(")
        while not self._take("sign", ")"):
            if values:
                self._sign(",")
            place = self._place()
            name = self._value()
            if name not in {"type", "tag", "status", "author"} or name in values:
                self._fail(place, "count() takes each of type, tag, status and author once")
            self._sign("=")
            place = self._place()
            value = self._value()
            kinds: dict[str, list[str]] = {"type": [*ItemType], "status": [*Status]}
            if name in kinds:
                value = value.upper()
                if value not in kinds[name]:
                    self._fail(place, f"{name} is one of {', '.join(kinds[name])}")
            values[name] = value
        place = self._place()
        comparison = _COMPARISONS.get(self._peek()[1])
        if comparison is None:
            self._expected("a comparison (>=, <=, ==, >, <)")
        self._next += 1
        place = self._place()
        number = self._value()
        if not re.fullmatch(r"[0-9]{1,7}", number) or int(number) > MAX_COUNT:
            self._fail(place, f"a number from 0 to {MAX_COUNT} belongs here")
        return Condition("count", count=Count(comparison, int(number), **values))

    def _name(self) -> str:
        """Returns one quoted name, or the words up to the parenthesis."""
        value = self._value()
        while self._peek()[0] == "word" and self._tokens[self._next - 1][0] == "word":
            value += f" {self._value()}"
        return value

    def _value(self) -> str:
        kind, token, _ = self._peek()
        value = token[1:-1] if kind == "quoted" else token
        if kind not in {"word", "quoted"} or not value.strip():
            self._expected("a name or id")
        self._next += 1
        return value

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", _END, len(self._text))

    def _place(self) -> int:
        return self._peek()[2]

    def _take(self, kind: str, token: str) -> bool:
        found = self._peek()[:2] == (kind, token)
        self._next += found
        return found

    def _sign(self, sign: str) -> None:
        if not self._take("sign", sign):
            self._expected(f"'{sign}'")

    def _expected(self, what: str) -> NoReturn:
        _, token, place = self._peek()
        self._fail(place, f"{what} belongs here, not {token if token == _END else ascii(token[:40])}")

    def _fail(self, place: int, problem: str) -> NoReturn:
        raise InvalidInput(
            f"The condition cannot be read at character {place + 1}: {problem}. Allowed are {_ALLOWED}. Names with "
            "spaces stand in double quotes. Nothing was changed."
        )
