"""What each provider of models takes as a tool, as a checker that lists what it would refuse.

Sources, read in November 2026:

- Gemini: `FunctionDeclaration` and `Schema` of the Vertex AI reference, in the older form `parameters`, which takes the
  fewest keywords (cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration); that an enumeration
  is of strings and a list has items, from the API's own refusals ("only allowed for STRING type", "missing field").
- OpenAI: the guide to structured outputs (platform.openai.com/docs/guides/structured-outputs, "supported schemas"), the
  reference of function tools, and for lists the API's refusal "array schema missing items". Clients that want
  `strict` convert schemas first; `strict_form` does what `agents.strict_schema` of the agents SDK does.
- Anthropic: the reference of the Messages API, `tools` (`^[a-zA-Z0-9_-]{1,64}$`, an object at the top), and its refusal
  "input_schema does not support oneOf, allOf, or anyOf at the top level".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

Schema = Mapping[str, Any]

_FOR_GEMINI = """
type format title description nullable default items minItems maxItems enum properties propertyOrdering required
minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf
"""
_FOR_STRICT = """
type description enum const anyOf $ref $defs properties required additionalProperties items pattern format
multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems
"""
GEMINI_KEYWORDS, STRICT_KEYWORDS = frozenset(_FOR_GEMINI.split()), frozenset(_FOR_STRICT.split())
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
COMBINING = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})


def parts(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yields the schema and all schemas inside it, each with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts(inner, f"{path}.{name}" if path else name)
    if isinstance(schema.get("items"), Mapping):
        yield from parts(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from parts(schema["additionalProperties"], f"{path}.*")
    for keyword in ("anyOf", "oneOf", "allOf"):
        for place, inner in enumerate(schema.get(keyword, ())):
            yield from parts(inner, f"{path}|{keyword}{place}")


def gemini(name: str, schema: Schema) -> Iterator[str]:
    """Yields what Gemini would refuse; it then refuses the whole list of tools."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", name):
        yield f"name {name}"
    if schema.get("type") != "object":
        yield "no object at the top"
    for path, part in parts(schema):
        kind = part.get("type")
        if strange := part.keys() - GEMINI_KEYWORDS:
            yield f"{path}: unknown {sorted(strange)}"
        if str(kind) not in TYPES and "anyOf" not in part:
            yield f"{path}: type {kind!r}"
        if "enum" in part and not (kind == "string" and all(isinstance(v, str) and v for v in part["enum"])):
            yield f"{path}: enum of type {kind!r}"
        if (kind == "array") != ("items" in part):
            yield f"{path}: items of type {kind!r}"
        if kind != "object" and part.keys() & {"properties", "required"}:
            yield f"{path}: properties of type {kind!r}"
        if part.get("properties") == {}:
            yield f"{path}: empty properties"
        if set(part.get("required", ())) - part.get("properties", {}).keys():
            yield f"{path}: required is not defined"
        for argument in part.get("properties", {}):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", argument):
                yield f"{path}: argument {argument}"


def openai(name: str, schema: Schema) -> Iterator[str]:
    """Yields what OpenAI would refuse of a function tool that is not strict."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        yield f"name {name}"
    if schema.get("type") != "object" or "properties" not in schema or schema.keys() & COMBINING:
        yield "no plain object at the top"
    for path, part in parts(schema):
        if "type" not in part and not part.keys() & {"anyOf", "$ref"}:
            yield f"{path}: no type"
        if part.get("type") == "array" and "items" not in part:
            yield f"{path}: array schema missing items"


def openai_strict(name: str, schema: Schema) -> Iterator[str]:
    """Yields what OpenAI would refuse of a strict function tool, in the form in which it is sent."""
    yield from openai(name, schema)
    for path, part in parts(schema):
        if strange := part.keys() - STRICT_KEYWORDS:
            yield f"{path}: unknown {sorted(strange)}"
        if part.get("type") == "object":
            if part.get("additionalProperties") is not False:
                yield f"{path}: additionalProperties is required to be false"
            if set(part.get("required", ())) != part.get("properties", {}).keys():
                yield f"{path}: required must have every key"


def strict_form(schema: Schema) -> dict[str, Any]:
    """Returns the schema as clients make it strict: every argument required, no others allowed.

    Raises:
        ValueError: it describes objects with free keys, which strict schemas cannot do.
    """
    if schema.get("type") == "object" and schema.get("additionalProperties"):
        raise ValueError("additionalProperties should be set to False for object types")
    made = dict(schema)
    if made.get("type") == "object":
        made["additionalProperties"] = False
    if "properties" in made:
        made["required"] = list(made["properties"])
        made["properties"] = {name: strict_form(inner) for name, inner in made["properties"].items()}
    if isinstance(made.get("items"), Mapping):
        made["items"] = strict_form(made["items"])
    return made


def free_objects(schema: Schema) -> set[str]:
    """Returns the paths of objects with free keys: with a strict schema a model can only leave them empty."""
    return {path for path, part in parts(schema) if part.get("type") == "object" and "properties" not in part}


def anthropic(name: str, schema: Schema) -> Iterator[str]:
    """Yields what Anthropic would refuse."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        yield f"name {name}"
    if schema.get("type") != "object" or schema.keys() & COMBINING:
        yield "no plain object at the top"
    for argument in schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", argument):
            yield f"argument {argument}"
    for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema):
        yield f"no JSON schema: {error.message}"
