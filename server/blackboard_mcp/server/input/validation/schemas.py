"""JSON Schema (draft 2020-12) for untrusted schemas and documents: a subset with bounded cost and no outside
references.

A schema refers only to its own `$defs`, patterns are matched in linear time, and a check takes a bounded
number of steps for any schema and document.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from jsonschema import Draft202012Validator, ValidationError, validators
from pydantic import StringConstraints, TypeAdapter
from pydantic import ValidationError as NoMatch
from referencing import Registry

MAX_STEPS: Final = 50_000
"""Most keywords and members that the checks of one call may visit, over all its items and rules."""
MAX_SCHEMA_STEPS: Final = 4_000
"""Most keywords and members in the schemas of a board's rules; patterns count by their cost."""
MAX_PATTERN: Final = 200
MAX_DEPTH: Final = 64
"""Deepest nesting of a schema and of a document."""
_SHOWN = 120
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MAPS = ("properties", "$defs", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_VALUES = (
    *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *(
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxContains",
        "minContains",
    ),
    *("maxProperties", "minProperties", "required", "dependentRequired"),
)
_NOTES = ("$schema", "$comment", "title", "description", "default", "examples", "format", "deprecated")
KEYWORDS: Final = (*_VALUES, *_MAPS, *_LISTS, *_SINGLE, "$ref", *_NOTES)
"""Keywords that a schema may use; `format` is only a note and checks nothing."""

Schema = Mapping[str, Any] | bool


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return texts and len(set(value)) == len(value)


_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NUMBER = ("a number", _is_number)
_COUNT = ("a whole number from 0", _is_count)
_SHAPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "type": (
        "a type or a list of types",
        lambda v: (isinstance(v, str) and v in _TYPES) or (_are_names(v) and bool(v) and set(v) <= _TYPES),
    ),
    "enum": ("a list", lambda v: isinstance(v, list)),
    "multipleOf": ("a number above 0", lambda v: _is_number(v) and v > 0),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"), _NUMBER),
    **dict.fromkeys(
        (
            *("maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains"),
            *("maxProperties", "minProperties"),
        ),
        _COUNT,
    ),
    "uniqueItems": ("true or false", _is_flag),
    "deprecated": ("true or false", _is_flag),
    "required": ("a list of names, each once", _are_names),
    "dependentRequired": (
        "an object of lists of names",
        lambda v: isinstance(v, dict) and all(_are_names(names) for names in v.values()),
    ),
    **dict.fromkeys(_MAPS, ("an object of schemas", lambda v: isinstance(v, dict))),
    **dict.fromkeys(_LISTS, ("a list of schemas, not empty", lambda v: isinstance(v, list) and bool(v))),
    **dict.fromkeys(("$comment", "title", "description", "format"), ("a text", _is_text)),
    "examples": ("a list", lambda v: isinstance(v, list)),
}
"""What the value of each keyword must be; nested schemas are checked elsewhere. The standard's schema of
schemas would check the same, but takes half a millisecond for each keyword.
"""


class Costly(Exception):
    """Signals that a check needs more steps than it has."""


@dataclass(slots=True)
class Steps:
    """Steps that the checks of one call may still take."""

    left: int = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Takes steps.

        Raises:
            Costly: too few are left.
        """
        self.left -= steps
        if self.left < 0:
            raise Costly


_steps: ContextVar[Steps] = ContextVar("schema_steps")


def _spend(steps: int) -> None:
    _steps.get().spend(steps)


_OVER_MEMBERS: Final = frozenset({"items", "contains", "additionalProperties", "propertyNames"})
"""Keywords that visit every member of the checked value."""
_REFERENCE_STEPS: Final = 8


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    dear = _REFERENCE_STEPS if name == "$ref" else 1
    every, deep = name in _OVER_MEMBERS, name in ("enum", "const")

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if isinstance(value, list | dict):
            _spend(dear + (_members(value) if deep else len(value)))
        else:
            _spend(dear)
        if every and isinstance(instance, list | dict):
            _spend(len(instance))
        return check(validator, value, instance, schema)

    return run


def _members(value: Any) -> int:
    """Returns how many values a list or object holds, at any depth."""
    if isinstance(value, list):
        return len(value) + sum(map(_members, value))
    return len(value) + sum(map(_members, value.values())) if isinstance(value, dict) else 0


@lru_cache(maxsize=256)
def _weight(pattern: str) -> int:
    """Returns how many times the cost of a plain pattern this one has for each character, by its counted
    repetitions.
    """
    return math.prod(max(1, int(most)) for most in _REPEATED.findall(pattern))


_REPEATED = re.compile(r"\{(?:[0-9]{1,6},)?([0-9]{1,6}),?\}")


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> TypeAdapter[str]:
    # Pydantic uses Rust's engine: its time is linear in the text, without look-around and back-references.
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


def _matches(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        _spend(len(instance) * (10 + _weight(pattern)) // 200)
        try:
            _pattern(pattern).validate_python(instance)
        except NoMatch:
            yield ValidationError("")


def _unique(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list):
        seen: set[Any] = set()
        for member in instance:
            seen.add(_comparable(member))
        if len(seen) < len(instance):
            yield ValidationError("")


def _comparable(value: Any) -> Any:
    """Returns a hashable value that is equal for two values when JSON Schema calls them equal."""
    _spend(1)
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, list):
        return ("list", *(_comparable(member) for member in value))
    if isinstance(value, dict):
        return ("dict", frozenset((name, _comparable(member)) for name, member in value.items()))
    return value


_CHECKS = {
    name: _counted(name, {"pattern": _matches, "uniqueItems": _unique}.get(name, check))
    for name, check in Draft202012Validator.VALIDATORS.items()
    if name in KEYWORDS
}
_Checker: Any = validators.create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators=_CHECKS,
    type_checker=Draft202012Validator.TYPE_CHECKER,
)


def check_schema(schema: Any, where: str, steps: Steps | None = None) -> None:
    """Checks that a schema uses only what is supported. `where` names the schema in errors.

    Raises:
        InvalidInput: it is no schema, uses something unsupported, or is too large.
    """
    try:
        _walk(schema, where, schema, 0, Steps(MAX_SCHEMA_STEPS) if steps is None else steps)
    except Costly:
        raise InvalidInput(
            f"{where} is too large: the schemas of a board have at most {MAX_SCHEMA_STEPS:,} keywords and members in "
            "all, fewer with patterns. Nothing was changed."
        ) from None


def _walk(schema: Any, where: str, root: Any, depth: int, steps: Steps) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidInput(f"{where} is a JSON Schema: an object, true or false. Nothing was changed.")
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{where} is nested more than {MAX_DEPTH} deep. Nothing was changed.")
    steps.spend(1 + len(schema))
    for name, value in schema.items():
        if name not in KEYWORDS:
            raise InvalidInput(
                f"{where} has '{name[:40]}', which is not supported here. There are: {', '.join(KEYWORDS)}. Nothing "
                "was changed."
            )
        if name in _SHAPES:
            wanted, is_one = _SHAPES[name]
            if not is_one(value):
                raise InvalidInput(
                    f"{where}.{name} is not JSON Schema 2020-12: it is {wanted}, not {_json(value)}. Nothing was "
                    "changed."
                )
        if isinstance(value, list | dict):
            steps.spend(len(value))
        if name == "$schema" and value != _DIALECT:
            raise InvalidInput(f"{where}: $schema can only be {_DIALECT}. Nothing was changed.")
        if name == "$ref":
            _check_reference(value, where, root)
        if name == "pattern":
            steps.spend(20 + 2 * _weight(value) if isinstance(value, str) else 1)
            _check_pattern(value, where)
        if name in _MAPS and isinstance(value, dict):
            for member, inner in value.items():
                _walk(inner, f"{where}.{name}.{member}"[:120], root, depth + 1, steps)
        elif name in _LISTS and isinstance(value, list):
            for place, inner in enumerate(value):
                _walk(inner, f"{where}.{name}[{place}]"[:120], root, depth + 1, steps)
        elif name in _SINGLE:
            _walk(value, f"{where}.{name}"[:120], root, depth + 1, steps)


def _check_reference(value: Any, where: str, root: Any) -> None:
    definitions = root.get("$defs", {}) if isinstance(root, dict) else {}
    known = [f"#/$defs/{name}" for name in definitions] if isinstance(definitions, dict) else []
    if value != "#" and value not in known:
        raise InvalidInput(
            f"{where}: $ref names '#' or one of the schema's own $defs as #/$defs/name, nothing outside is "
            f"fetched; '{str(value)[:60]}' is none. Nothing was changed."
        )


def _check_pattern(value: Any, where: str) -> None:
    if not isinstance(value, str) or len(value) > MAX_PATTERN:
        raise InvalidInput(
            f"{where}: a pattern is a text of at most {MAX_PATTERN} characters. Nothing changed."
        )
    try:
        _pattern(value)
    except Exception:  # the class depends on pydantic's engine
        raise InvalidInput(
            f"{where}: the pattern '{value[:60]}' is none, or uses what is not supported (look-around, references "
            "back). Nothing was changed."
        ) from None


def read_json(text: str) -> Any:
    """Returns the value of a JSON text.

    Raises:
        ValueError: the text is not JSON; the message says where it goes wrong.
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno} column {error.colno}") from None


def depth(value: Any, most: int = MAX_DEPTH) -> int:
    """Returns the deepest nesting of lists and objects in a value; `most` + 1 when it is deeper than `most`."""
    level = 0
    layer = [value]
    while level <= most:
        layer = [each for each in layer if isinstance(each, list | dict)]
        if not layer:
            break
        level += 1
        layer = [m for each in layer for m in (each.values() if isinstance(each, dict) else each)]
    return level


def faults(schema: Schema, value: Any, most: int = 3, *, steps: Steps | None = None) -> list[tuple[str, str]]:
    """Returns up to `most` faults of a value: pairs of a path such as `$.steps[2].state` and what must be
    there.

    The check takes its steps from `steps`, or gets steps of its own.
    """
    token = _steps.set(Steps() if steps is None else steps)
    try:
        checker = _Checker(schema, registry=Registry())
        found: dict[tuple[str, str], None] = {}
        for error in checker.iter_errors(value):
            found[_path(error), _words(error)] = None  # each missing member is an error with the same words
            if len(found) == most:
                break
        return list(found)
    except Costly:
        return [
            (
                "$",
                f"is too large to be checked by this schema: a call has {MAX_STEPS:,} steps for all its items",
            )
        ]
    except RecursionError:
        return [("$", "is nested too deeply to be checked by this schema, or the schema has no end")]
    except ArithmeticError:
        return [("$", "has a number that is too large to be checked")]
    finally:
        _steps.reset(token)


def _path(error: ValidationError) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path]
    return _cut("$" + "".join(parts))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def _words(error: ValidationError) -> str:
    keyword, wanted, found = str(error.validator), error.validator_value, error.instance
    match keyword:
        case "type":
            return f"must be of type {_json(wanted)}, and is {_json(found)}"
        case "enum":
            return f"must be one of {_json(wanted)}, and is {_json(found)}"
        case "const":
            return f"must be {_json(wanted)}, and is {_json(found)}"
        case "required":
            missing = [name for name in wanted if name not in found]
            return f"must have {_json(missing)}"
        case "additionalProperties" if isinstance(found, dict):
            known = list((error.schema if isinstance(error.schema, dict) else {}).get("properties", {}))
            more = [name for name in found if name not in known]
            return f"may have {_json(known)}, and has {_json(more)} as well"
        case "None":
            return "is nothing that may be there"
        case _:
            return f"must meet {keyword} {_json(wanted)}, and is {_json(found)}"
