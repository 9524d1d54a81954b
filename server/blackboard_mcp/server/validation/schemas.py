"""JSON Schema (draft 2020-12) on words of strangers: a part of it that ends soon and reaches for nothing.

A schema refers to nothing but its own `$defs`, patterns are matched in linear time, and checking costs a
bounded number of steps, whatever schema and document are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import SchemaError
from pydantic import StringConstraints, TypeAdapter
from pydantic import ValidationError as NoMatch
from referencing import Registry

MAX_STEPS: Final = 50_000
"""Most keywords and members that one check may look at."""
MAX_PATTERN: Final = 200
MAX_DEPTH: Final = 64
"""Deepest nesting of a schema, and of a document."""
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
"""What a schema may say; `format` is a note, it checks nothing."""

Schema = Mapping[str, Any] | bool


class Costly(Exception):
    """A check took more than its steps."""


_left: ContextVar[int] = ContextVar("schema_steps_left", default=0)


def _spend(steps: int) -> None:
    left = _left.get() - steps
    _left.set(left)
    if left < 0:
        raise Costly


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _spend(1 + (len(value) if isinstance(value, list | dict) else 0))
        return check(validator, value, instance, schema)

    return run


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> TypeAdapter[str]:
    # Pydantic has Rust's engine: linear in the text, no look-around, no references back.
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


def _matches(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        _spend(len(instance) // 100)
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
    """Equal for values that JSON Schema calls equal, and hashable."""
    _spend(1)
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, list):
        return ("list", *(_comparable(member) for member in value))
    if isinstance(value, dict):
        return ("dict", frozenset((name, _comparable(member)) for name, member in value.items()))
    return value


_CHECKS = {
    name: _counted({"pattern": _matches, "uniqueItems": _unique}.get(name, check))
    for name, check in Draft202012Validator.VALIDATORS.items()
    if name in KEYWORDS
}
_Checker: Any = validators.create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators=_CHECKS,
    type_checker=Draft202012Validator.TYPE_CHECKER,
)


def check_schema(schema: Any, where: str) -> None:
    """
    Raises:
        InvalidInput: no schema, or one that says what is not supported; `where` says which one it is.
    """
    _walk(schema, where, schema, 0)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = "".join(f".{part}" for part in error.absolute_path)
        raise InvalidInput(
            f"{where}{path[:80]} is not JSON Schema 2020-12: {error.message[:_SHOWN]}. Nothing was changed."
        ) from None


def _walk(schema: Any, where: str, root: Any, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidInput(f"{where} is a JSON Schema: an object, true or false. Nothing was changed.")
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{where} is nested more than {MAX_DEPTH} deep. Nothing was changed.")
    for name, value in schema.items():
        if name not in KEYWORDS:
            raise InvalidInput(
                f"{where} has '{name[:40]}', which is not supported here. There are: {', '.join(KEYWORDS)}. Nothing "
                "was changed."
            )
        if name == "$schema" and value != _DIALECT:
            raise InvalidInput(f"{where}: $schema can only be {_DIALECT}. Nothing was changed.")
        if name == "$ref":
            _check_reference(value, where, root)
        if name == "pattern":
            _check_pattern(value, where)
        if name in _MAPS and isinstance(value, dict):
            for member, inner in value.items():
                _walk(inner, f"{where}.{name}.{member}"[:120], root, depth + 1)
        elif name in _LISTS and isinstance(value, list):
            for place, inner in enumerate(value):
                _walk(inner, f"{where}.{name}[{place}]"[:120], root, depth + 1)
        elif name in _SINGLE:
            _walk(value, f"{where}.{name}"[:120], root, depth + 1)


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
    except Exception:  # whichever class pydantic's engine has for it
        raise InvalidInput(
            f"{where}: the pattern '{value[:60]}' is none, or uses what is not supported (look-around, references "
            "back). Nothing was changed."
        ) from None


def read_json(text: str) -> Any:
    """
    Raises:
        ValueError: not JSON, with where it goes wrong.
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
    """How many lists and objects lie within each other at the deepest; `most` + 1 when it is more."""
    level = 0
    layer = [value]
    while level <= most:
        layer = [each for each in layer if isinstance(each, list | dict)]
        if not layer:
            break
        level += 1
        layer = [m for each in layer for m in (each.values() if isinstance(each, dict) else each)]
    return level


def faults(schema: Schema, value: Any, most: int = 3) -> list[tuple[str, str]]:
    """What the value does not meet, up to `most`: the path in it, as `$.steps[2].state`, and what must be there."""
    token = _left.set(MAX_STEPS)
    try:
        checker = _Checker(schema, registry=Registry())
        return [(_path(error), _words(error)) for error in islice(checker.iter_errors(value), most)]
    except Costly:
        return [("$", f"is too large to be checked by this schema: more than {MAX_STEPS:,} steps")]
    except RecursionError:
        return [("$", "is nested too deeply to be checked by this schema, or the schema has no end")]
    except ArithmeticError:
        return [("$", "has a number that is too large to be checked")]
    finally:
        _left.reset(token)


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
