"""Strict tool arguments: the parameters that a tool accepts, the schema that clients see, and instructive
refusals.

This module knows pydantic and the JSON that arrives. It does not know the MCP SDK, tools or boards.

None of the SDK's own argument handling is used: it drops unknown names silently, answers a wrong list with
megabytes of pydantic text, and publishes schemas of which a fifth is noise.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, cast, get_type_hints

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.text.lines import escape
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000
MAX_KEY_LENGTH: Final = 256
MAX_ERROR_LENGTH: Final = 600
_INTEGERS: Final = range(-(2**63), 2**63)
_UNCHANGED: Final = "nothing was changed"

UNLISTED: Final = "unlisted"
"""Mark in the schema of an argument that is accepted and documented, but left out of the schema that clients
get.
"""
_BOUNDED_FORMATS: Final = frozenset({"date-time", "date", "time", "duration", "uuid"})
PLAIN_TYPES: Final = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


_models: dict[str, type[BaseModel]] = {}
_defined: dict[Hashable, type[BaseModel]] = {}
"""The models by the definitions of functions: several servers of one process serve the same functions."""


def _definition(fn: Callable[..., Any]) -> Hashable:
    """Returns what the arguments of a function follow from; it is the same for methods of several objects."""
    plain = getattr(fn, "__func__", fn)
    if not inspect.isfunction(plain):
        return plain
    told = (plain.__annotations__, plain.__defaults__, plain.__kwdefaults__)
    return plain.__code__, plain.__module__, plain.__qualname__, repr(told)


def _parameters(fn: Callable[..., Any]) -> Sequence[str]:
    """Returns the names of a function's parameters; making its signature would take far longer."""
    plain = getattr(fn, "__func__", fn)
    if not inspect.isfunction(plain) or hasattr(plain, "__wrapped__"):
        return tuple(inspect.signature(fn).parameters)
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names if plain is fn else names[1:]


@functools.cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of a model. The result is cached, so callers must not change it."""
    return model.model_json_schema()


@functools.cache
def _published_of(model: type[BaseModel], *, whole: bool) -> dict[str, Any]:
    """Returns the compact JSON schema of a model, with the arguments that are `UNLISTED` if it is the `whole` one.

    The result is cached, so callers must not change it.
    """
    raw = _schema_of(model)
    properties = raw.get("properties", {}).items()
    shown = {name: each for name, each in properties if whole or not _unlisted(each)}
    return {"properties": {}, **compact_schema({**raw, "properties": shown})}


@functools.cache
def _unbounded_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Returns the paths of strings, arrays and mappings of a model that have no upper bound."""
    schema = _schema_of(model)
    return tuple(_unbounded(schema, schema.get("$defs", {}), ()))


class Arguments:
    """The arguments that one function accepts by name, checked strictly.

    Their model is made at first use, because many processes use few of their tools.

    Args:
        name: name of what was called; every refusal begins with it.
        fn: a coroutine function whose parameters other than `caller` are the arguments, each with an
            annotation. Or a model whose fields are the arguments.
        lenient: also accept numbers written as strings, because URIs hold only strings.

    Raises:
        TypeError: at first use, if `fn` is not a coroutine function; when its schema is first asked for, if it
            leaves a string, list or mapping without a bound.
    """

    def __init__(self, name: str, fn: Callable[..., Any] | type[BaseModel], *, lenient: bool = False) -> None:
        self.name = name
        self._lenient = lenient
        self._of = fn

    @functools.cached_property
    def _model(self) -> type[BaseModel]:
        fn = self._of
        return cast(type[BaseModel], fn) if isinstance(fn, type) else self._of_signature(self.name, fn)

    @functools.cached_property
    def _optional(self) -> frozenset[str]:
        return frozenset(key for key, field in self._model.model_fields.items() if not field.is_required())

    @staticmethod
    def _of_signature(name: str, fn: Callable[..., Any]) -> type[BaseModel]:
        if not inspect.iscoroutinefunction(fn):
            raise TypeError(f"{name}: tools and resources are `async def` functions")
        definition = _definition(fn)
        model = _defined.get(definition)
        if model is None:
            model = _defined[definition] = Arguments._built(name, fn)
        return model

    @staticmethod
    def _built(name: str, fn: Callable[..., Any]) -> type[BaseModel]:
        hints = get_type_hints(fn, include_extras=True)
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(fn).parameters.values():
            if parameter.name == "caller":
                continue
            variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if parameter.name not in hints or variadic:
                raise TypeError(f"{name}: parameter {parameter.name!r} needs an annotation of its own")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        # Many resources share one signature, and building models takes most of the time at start.
        signature = repr(fields)
        model = _models.get(signature)
        if model is None:
            config = ConfigDict(allow_inf_nan=False, defer_build=True)
            model = create_model("arguments", __config__=config, **fields)
            _models[signature] = model
        return model

    @property
    def whole_schema(self) -> dict[str, Any]:
        """The JSON schema of all arguments, including those that are `UNLISTED`. Callers must not change it."""
        return self._published(whole=True)

    @property
    def schema(self) -> dict[str, Any]:
        """The published JSON schema, without the arguments that are `UNLISTED`. Callers must not change it."""
        return self._published(whole=False)

    def _published(self, *, whole: bool) -> dict[str, Any]:
        if not self._lenient:
            for path in _unbounded_of(self._model):
                raise TypeError(
                    f"{self.name}: {path or 'its arguments'} has no upper bound; give it a max_length"
                )
        return _published_of(self._model, whole=whole)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all arguments."""
        if isinstance(self._of, type):
            return tuple(self._model.model_fields)
        return tuple(name for name in _parameters(self._of) if name != "caller")

    @functools.cached_property
    def _fields(self) -> Mapping[str, object]:
        return self._model.model_fields

    def check(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Returns checked keyword arguments for the function, with defaults filled in.

        An explicit null for an optional argument counts as leaving it out.

        Raises:
            InvalidInput: an argument is wrong; the message is one sentence of at most `MAX_ERROR_LENGTH`
                characters.
        """
        refuse_monsters(self.name, raw)
        return dict(self.part(raw).__dict__)

    def part(self, raw: Mapping[str, Any]) -> BaseModel:
        """Returns the model of arguments that came inside of checked ones, such as one of several writes.

        Raises:
            InvalidInput: as of `check`.
        """
        given = {key: value for key, value in raw.items() if value is not None or key not in self._optional}
        fields = self._fields
        unknown = [key for key in given if key not in fields]
        if unknown:
            raise self._unknown(unknown)
        # Validate as JSON: pydantic's strict Python mode refuses the plain dicts and strings that its
        # strict JSON mode accepts for models, enums and dates.
        document = json.dumps(given)
        try:
            return self._model.model_validate_json(document, strict=not self._lenient, extra="forbid")
        except ValidationError as exc:
            raise self._explain(exc, given) from None

    def _unknown(self, unknown: Sequence[str]) -> InvalidInput:
        shown = ", ".join(f"'{_short(key)}'" for key in unknown[:3])
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        close = difflib.get_close_matches(unknown[0][:MAX_KEY_LENGTH], self.names, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        takes = ", ".join(self.names) or "no arguments"
        noun = "argument" if len(unknown) == 1 else "arguments"
        return InvalidInput(
            _bounded(f"unknown {noun} {shown}{more}{hint}; {self.name} takes: {takes}"),
            fields=[_short(key) for key in unknown[:10]],
        )

    def _explain(self, exc: ValidationError, given: Mapping[str, Any]) -> InvalidInput:
        problems: dict[str, list[str]] = {}
        for error in exc.errors(include_url=False, include_context=True):
            path, value = _locate(error["loc"], given, missing=error["type"] == "missing")
            sentence = _sentence(error["type"], error["msg"], error.get("ctx") or {}, value, path)
            sentences = problems.setdefault(path, [])
            if sentence not in sentences:
                sentences.append(sentence)
        told = []
        for path, sentences in list(problems.items())[:3]:
            if any(sentence.startswith("must be a number") for sentence in sentences):
                sentences = [one for one in sentences if not one.startswith("must be an integer")]
            told.append(f"{path} {' or '.join(sentences[:3])}" if path else " or ".join(sentences[:3]))
        if len(problems) > 3:
            told.append(f"and {len(problems) - 3} more problems")
        return InvalidInput(_bounded(f"{self.name}: {'; '.join(told)}"), fields=list(problems)[:10])


def refuse_monsters(name: str, raw: object) -> None:
    """Refuses values that no tool accepts, before anything is validated or copied.

    These are nesting deeper than `MAX_DEPTH`, more than `MAX_VALUES` values, strings or keys with a NUL or
    half a surrogate pair, keys longer than `MAX_KEY_LENGTH`, numbers outside 64 bits, NaN and infinity, and what
    programs in this process may give but JSON has not, such as dates. `name` begins the message.

    Raises:
        InvalidInput: such a value was found.
    """
    stack: list[tuple[object, int]] = [(raw, 0)]
    values = 0
    while stack:
        value, depth = stack.pop()
        if isinstance(value, str):
            if not value.isascii() or "\0" in value:
                _refuse_bad_text(name, value)
        elif isinstance(value, bool) or value is None:
            pass
        elif isinstance(value, int):
            if value not in _INTEGERS:
                raise InvalidInput(f"{name}: a number does not fit into 64 bits; {_UNCHANGED}")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidInput(f"{name}: numbers must be finite; {_UNCHANGED}")
        elif isinstance(value, _HOLDING) or (not depth and isinstance(value, Mapping)):
            if depth >= MAX_DEPTH:
                raise InvalidInput(f"{name}: arguments nest deeper than {MAX_DEPTH} levels; {_UNCHANGED}")
            values += len(value)
            if values > MAX_VALUES:
                raise InvalidInput(
                    f"{name}: more than {MAX_VALUES} values in one call; send less; {_UNCHANGED}"
                )
            if isinstance(value, Mapping):
                for key, inner in value.items():
                    if not isinstance(key, str):
                        raise InvalidInput(
                            f"{name}: keys are strings, and {_kind(key)} is none; {_UNCHANGED}"
                        )
                    if not key.isascii() or "\0" in key:
                        _refuse_bad_text(name, key)
                    if len(key) > MAX_KEY_LENGTH:
                        raise InvalidInput(
                            f"{name}: a key is longer than {MAX_KEY_LENGTH} characters; {_UNCHANGED}"
                        )
                    stack.append((inner, depth + 1))
            else:
                stack.extend((inner, depth + 1) for inner in value)
        else:
            raise InvalidInput(
                f"{name}: arguments are JSON values, and there is no {_kind(value)} in JSON; {_UNCHANGED}"
            )


_HOLDING: Final = (dict, list, tuple)


def _kind(value: object) -> str:
    return type(value).__name__[:40]


def is_clean_text(text: str) -> bool:
    """Tells whether the text can be stored and sent: it has no NUL and no half of a surrogate pair."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_bad_text(name: str, text: str) -> None:
    if not is_clean_text(text):
        raise InvalidInput(
            f"{name}: a string holds a NUL character or half of a surrogate pair; "
            f"send well-formed Unicode without NUL; {_UNCHANGED}"
        )


class _Key(str):
    """A key of a mapping; it marks errors that are about the key and not about its value."""


def _locate(
    loc: tuple[int | str, ...], given: Mapping[str, Any], *, missing: bool = False
) -> tuple[str, object]:
    """Returns the path of an error in the caller's words, such as `items[2].tags`, and the value at that
    path. With `missing` the last part names what is not there.

    Pydantic's locations also name union members and validators; those parts are left out.
    """
    path, value = "", given
    cursor: Any = given
    for part in loc:
        if isinstance(cursor, Mapping) and isinstance(part, str) and part in cursor:
            cursor = cursor[part]
            path = f"{path}.{_short(part)}" if path else _short(part)
        elif isinstance(cursor, list) and isinstance(part, int) and part < len(cursor):
            cursor = cursor[part]
            path = f"{path}[{part}]"
        elif part == "[key]":
            return path.removesuffix(f".{_short(str(loc[-2]))}"), _Key(str(loc[-2]))
        elif missing and isinstance(cursor, Mapping) and part == loc[-1] and isinstance(part, str):
            return f"{path}.{_short(part)}" if path else _short(part), None
        value = cursor
    return path, value


def _sentence(kind: str, message: str, context: Mapping[str, Any], value: object, path: str) -> str:
    """Returns the end of a sentence on what the value at a path must be, without pydantic's vocabulary."""
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not known here"
    if isinstance(value, _Key):
        allowed = f"; its keys are {_listed(context['expected'])}" if "expected" in context else ""
        return f"has the key {json.dumps(_short(value), ensure_ascii=False)}{allowed}"
    if kind in ("literal_error", "enum"):
        expected = _listed(context.get("expected", ""))
        return f"must be one of {expected}{_got(value)}"
    if kind in PLAIN_TYPES:
        wanted = PLAIN_TYPES[kind]
        encoded = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
        if encoded and wanted in ("an array", "an object"):
            return f"must be {wanted}: a JSON-encoded string was sent; send the {wanted.split()[1]} itself"
        return f"must be {wanted}{_got(value)}"
    if kind in ("string_too_long", "too_long") and isinstance(value, str | list | dict):
        noun = "characters" if isinstance(value, str) else "entries"
        return f"must have at most {context.get('max_length')} {noun} (it has {len(value)})"
    if kind in ("string_too_short", "too_short") and isinstance(value, str | list | dict):
        noun = "characters" if isinstance(value, str) else "entries"
        return f"must have at least {context.get('min_length')} {noun} (it has {len(value)})"
    if kind in ("value_error", "assertion_error"):
        return _short(str(context.get("error", message)), 200)
    text = message.replace("Input should be", "must be").replace("String should", "must")
    return f"{_short(text, 160)}{_got(value)}"


def _listed(expected: object) -> str:
    return str(expected).replace(" or ", ", ")


def _got(value: object) -> str:
    match value:
        case None:
            return ", not null"
        case bool():
            return f", not {str(value).lower()}"
        case int() | float():
            return f", not {value}"
        case str() if len(value) <= 40:
            return f", not {json.dumps(value, ensure_ascii=False)}"
        case str():
            return ", not a string"
        case list():
            return ", not an array"
        case _:
            return ", not an object"


def _short(text: str, length: int = 40) -> str:
    """Returns the text with hidden characters escaped, cut to `length` characters including the escapes."""
    shown = escape(text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _bounded(text: str) -> str:
    """Returns the text, cut where it is long, with the words "nothing was changed" at its end."""
    room = MAX_ERROR_LENGTH - len(_UNCHANGED) - 2
    return f"{_short(text, room)}; {_UNCHANGED}"


def _unbounded(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yields the paths of strings, arrays and mappings in a schema that have no upper bound."""
    where = ".".join(path)
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        if path.count(f"#{name}") == 0:
            yield from (p.replace(f".#{name}", "") for p in _unbounded(defs[name], defs, (*path, f"#{name}")))
        return
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _unbounded(option, defs, path)
    kind = schema.get("type")
    if kind == "string":
        fixed = "enum" in schema or "const" in schema or schema.get("format") in _BOUNDED_FORMATS
        if not fixed and "maxLength" not in schema:
            yield where
    elif kind == "array":
        if "maxItems" not in schema:
            yield where
        for inner in (schema.get("items"), *schema.get("prefixItems", ())):
            if isinstance(inner, Mapping):
                yield from _unbounded(inner, defs, (*path, "[]"))
    elif kind == "object":
        extra = schema.get("additionalProperties")
        if extra not in (None, False) and "maxProperties" not in schema:
            yield where
        if isinstance(extra, Mapping):
            yield from _unbounded(extra, defs, (*path, "*"))
        for key, inner in schema.get("properties", {}).items():
            yield from _unbounded(inner, defs, (*path, key))


_NOISE: Final = frozenset(
    {"title", "maxLength", "maxItems", "maxProperties", "writeOnly", "readOnly", UNLISTED}
)


def _unlisted(schema: Mapping[str, Any]) -> bool:
    return any(UNLISTED in part for part in (schema, *schema.get("anyOf", ())))


def compact_schema(schema: Mapping[str, Any], *, nulls: bool = False) -> dict[str, Any]:
    """Returns the schema without the parts that only cost tokens.

    Removed are titles, null, false and empty defaults, null alternatives of optional values, boolean
    `additionalProperties`, and upper bounds of lengths, which the server checks itself and names when they
    are exceeded. Ranges, enumerations, other defaults and descriptions stay. Definitions replace their
    references where that is shorter. `nulls` keeps the null alternatives, for schemas of results.
    """
    defs: dict[str, Any] = {key: _compact(value, nulls) for key, value in schema.get("$defs", {}).items()}
    body = _compact({key: value for key, value in schema.items() if key != "$defs"}, nulls)
    for name in list(defs):
        reference = {"$ref": f"#/$defs/{name}"}
        uses = _count(body, reference) + sum(_count(value, reference) for value in defs.values())
        recursive = _count(defs[name], reference) > 0
        size, link = len(json.dumps(defs[name])), len(json.dumps(reference))
        if not recursive and uses * size <= uses * link + size + len(name) + 14:
            body = _replace(body, reference, defs[name])
            definition = defs.pop(name)
            defs = {key: _replace(value, reference, definition) for key, value in defs.items()}
    if defs:
        body["$defs"] = defs
    result: dict[str, Any] = body
    return result


def _compact(schema: Any, nulls: bool) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NOISE and not isinstance(value, Mapping):
            continue
        if key == "minLength" and value == 1:
            continue
        if key == "default" and (value is None or value is False or value in ([], {}, "")):
            continue
        if key == "additionalProperties":
            if isinstance(value, bool):
                continue
            compacted = _compact(value, nulls)
            if compacted:
                result[key] = compacted
        elif key in ("properties", "$defs"):
            result[key] = {name: _compact(inner, nulls) for name, inner in value.items()}
        elif key == "propertyNames":
            compacted = {k: v for k, v in _compact(value, nulls).items() if k != "type"}
            if compacted:
                result[key] = compacted
        elif key in ("anyOf", "oneOf", "allOf"):
            options = [_compact(option, nulls) for option in value]
            if not nulls:
                options = [option for option in options if option != {"type": "null"}]
            unique = [option for i, option in enumerate(options) if option not in options[:i]]
            if len(unique) == 1:
                result.update({k: v for k, v in unique[0].items() if k not in schema})
            elif all(set(option) == {"type"} and isinstance(option["type"], str) for option in unique):
                result["type"] = [option["type"] for option in unique]
            else:
                result[key] = unique
        elif key == "items":
            compacted = _compact(value, nulls)
            if compacted:
                result[key] = compacted
        else:
            result[key] = value
    return result


def _count(schema: Any, reference: Mapping[str, Any]) -> int:
    if schema == reference:
        return 1
    if isinstance(schema, Mapping):
        holds = 1 if schema.get("$ref") == reference["$ref"] else 0
        return holds + sum(_count(value, reference) for value in schema.values())
    if isinstance(schema, list):
        return sum(_count(value, reference) for value in schema)
    return 0


def _replace(schema: Any, reference: Mapping[str, Any], definition: Mapping[str, Any]) -> Any:
    if isinstance(schema, Mapping):
        if schema.get("$ref") == reference["$ref"]:
            return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}
        return {key: _replace(value, reference, definition) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_replace(value, reference, definition) for value in schema]
    return schema


def schema_tokens(*documents: object) -> int:
    """Returns the o200k tokens of the documents, written as JSON without spaces; strings are counted as they
    are.
    """
    from ..text.tokens import load_tokenizer

    tokenizer = load_tokenizer("o200k_base")
    total = 0
    for document in documents:
        text = document if isinstance(document, str) else _dense(document)
        total += tokenizer.count(text)
    return total


def _dense(document: object) -> str:
    if isinstance(document, BaseModel):
        document = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
