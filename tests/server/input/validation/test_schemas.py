"""JSON Schema on words of strangers: what it finds, what it refuses, and that it always ends soon."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import referencing
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.input.validation import schemas
from counting import lines_of
from jsonschema import Draft202012Validator

PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "state": {"enum": ["todo", "doing", "done"]},
        "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}, "uniqueItems": True},
    },
    "required": ["state"],
    "additionalProperties": False,
    "$defs": {"step": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}},
}


@pytest.mark.parametrize(
    ("document", "path", "why"),
    [
        ({}, "$", 'must have ["state"]'),
        ({"state": "later"}, "$.state", 'must be one of ["todo","doing","done"], and is "later"'),
        ({"state": "todo", "by": 1}, "$", 'may have ["state","steps"], and has ["by"] as well'),
        ({"state": "todo", "steps": ["a", 7]}, "$.steps[1]", 'must be of type "string", and is 7'),
        ({"state": "todo", "steps": ["A"]}, "$.steps[0]", 'must meet pattern "^[a-z]+$", and is "A"'),
        ({"state": "todo", "steps": ["abcdef"]}, "$.steps[0]", 'must meet maxLength 5, and is "abcdef"'),
        ({"state": "todo", "steps": ["a", "a"]}, "$.steps", 'must meet uniqueItems true, and is ["a","a"]'),
    ],
)
def test_a_fault_says_where_it_is_and_what_may_be(document: Any, path: str, why: str) -> None:
    schemas.check_schema(PLAN, "schema")
    assert schemas.faults(PLAN, document) == [(path, why)]


def test_members_that_are_missing_are_told_at_once_beside_other_faults() -> None:
    schema = {"required": ["a", "b", "c", "d"], "additionalProperties": False}
    assert schemas.faults(schema, {"x": 1}) == [
        ("$", 'must have ["a","b","c","d"]'),
        ("$", 'may have [], and has ["x"] as well'),
    ]


def test_what_meets_the_schema_has_no_fault() -> None:
    assert schemas.faults(PLAN, {"state": "done", "steps": ["a", "b"]}) == []


SCHEMAS: list[Any] = [
    True,
    {"type": ["integer", "null"]},
    {"const": {"a": [1, 2.0]}},
    {"items": {"type": "integer"}, "minItems": 1, "contains": {"const": 1}},
    {"prefixItems": [{"type": "string"}], "items": False},
    {"uniqueItems": True},
    {"anyOf": [{"type": "string"}, {"minimum": 3}], "not": {"const": 5}},
    {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]},
    {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"maximum": 9}},
    {"propertyNames": {"pattern": "^a"}, "dependentRequired": {"a": ["b"]}},
]
DOCUMENTS: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        1.0,
        2,
        3,
        5,
        6,
        10,
        "",
        "a",
        "ab",
        [],
        [1],
        [1, 1.0],
        [1, True],
        [[1], [1.0]],
    ),
    *(["a"], ["a", 1], [{"a": 1}, {"a": 1.0}], {}, {"a": 1}, {"a": [1, 2]}, {"a": 1, "ab": 2}, {"x": 1}),
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_it_finds_faults_exactly_where_the_standard_does(schema: Any) -> None:
    schemas.check_schema(schema, "schema")
    standard = Draft202012Validator(schema)
    for document in DOCUMENTS:
        assert bool(schemas.faults(schema, document)) is not standard.is_valid(document), document


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/none"},
        {"$ref": 7},
        {"$id": "https://example.org/schema.json"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$dynamicRef": "#x"},
        {"properties": {"a": {"items": [{"$anchor": "x"}]}}},
        {"patternProperties": {"(a+)+$": {}}},
        {"unevaluatedProperties": False},
        {"minLenght": 2},
        {"pattern": "(?=a)b"},
        {"pattern": r"(a)\1"},
        {"pattern": "("},
        {"pattern": "a" * 201},
        {"pattern": "(a{1000}){1000}"},
        {"type": "strin"},
        {"required": "a"},
        {"properties": []},
        {"multipleOf": 0},
        [],
        "string",
        None,
    ],
)
def test_what_is_no_schema_or_reaches_beyond_it_is_refused_with_its_place(schema: Any) -> None:
    with pytest.raises(InvalidInput, match=r"validation\[0\]\.schema.*Nothing (was )?changed"):
        schemas.check_schema(schema, "validation[0].schema")


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(80):
        schema = {"not": schema}
    with pytest.raises(InvalidInput, match="deep"):
        schemas.check_schema(schema, "schema")


def deep(levels: int) -> Any:
    document: Any = []
    for _ in range(levels - 1):
        document = [document]
    return document


TREE = {"type": "array", "items": {"$ref": "#"}}
BOMB = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    | {"d30": {"type": "string"}},
    "$ref": "#/$defs/d0",
}


@pytest.mark.parametrize(
    ("schema", "document", "why"),
    [
        (BOMB, "a", "too large"),
        ({"$ref": "#"}, 1, "no end"),
        (TREE, deep(2_000), "too deeply"),
        ({"uniqueItems": True}, [{"a": n} for n in range(60_000)], "too large"),
        ({"items": {"enum": list(range(500))}}, list(range(5_000)), "too large"),
        ({"multipleOf": 0.1}, float("inf"), "number"),
        ({"multipleOf": 0.1}, 10**400, "number"),
    ],
)
def test_what_costs_too_much_is_a_fault_and_ends_soon(schema: Any, document: Any, why: str) -> None:
    schemas.check_schema(schema, "schema")
    found: list[Any] = []
    lines = lines_of(lambda: found.extend(schemas.faults(schema, document)), jsonschema, referencing)
    ((_, said),) = found
    assert why in said
    assert lines < 25 * schemas.MAX_STEPS


def test_a_pattern_that_tries_for_ever_elsewhere_ends_here() -> None:
    schema = {"pattern": "^(a+)+$"}
    schemas.check_schema(schema, "schema")
    assert schemas.faults(schema, "a" * 100_000 + "!")
    assert not schemas.faults(schema, "a" * 100_000)


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "NaN", '{"a": Infinity}', "[" * 200_000, "1" * 5_000, "'a'"]
)
def test_what_is_no_json_is_told_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        schemas.read_json(text)


@pytest.mark.parametrize(
    ("value", "levels"),
    [(1, 0), ("a", 0), ([], 1), ({}, 1), ([[1], 2], 2), ({"a": [{}]}, 3), (deep(200), 65)],
)
def test_depth_counts_lists_and_objects_within_each_other(value: Any, levels: int) -> None:
    assert schemas.depth(value) == levels
