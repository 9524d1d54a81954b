"""What a tool's arguments accept, how a refusal reads, and what a schema costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.input.arguments import (
    MAX_ERROR_LENGTH,
    MAX_VALUES,
    UNLISTED,
    Arguments,
    compact_schema,
    schema_tokens,
)
from counting import PROPORTION, growth, lines_of
from pydantic import BaseModel, Field

Text = Annotated[str, Field(max_length=50)]
Edges = Annotated[
    dict[Literal["critiques", "supports"], Annotated[list[Text], Field(max_length=9)]], Field(max_length=9)
]


class Part(BaseModel):
    text: Text
    when: datetime | None = None


async def post(
    caller: object,
    text: Text,
    type: Literal["FACT", "LOG"] = "FACT",
    importance: Annotated[int | None, Field(ge=1, le=5)] = None,
    urgent: bool = False,
    weight: float = 1.0,
    tags: Annotated[list[Text], Field(max_length=3)] = [],  # noqa: B006
    edges: Edges = {},  # noqa: B006
    items: Annotated[list[Part], Field(max_length=3)] = [],  # noqa: B006
    metadata: Annotated[dict[str, Any], Field(max_length=9)] = {},  # noqa: B006
) -> None: ...


ARGUMENTS = Arguments("post", post)


def refusal(**given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        ARGUMENTS.check({"text": "a"} | given)
    message = caught.value.message
    assert len(message) <= MAX_ERROR_LENGTH
    assert message.endswith("nothing was changed")
    assert "pydantic" not in message
    assert "\n" not in message
    return message


def test_good_arguments_come_back_typed_with_their_defaults() -> None:
    given = {"text": "a", "weight": 2, "items": [{"text": "b", "when": "2026-11-20T10:00:00Z"}]}
    checked = ARGUMENTS.check(given)
    assert checked["items"][0].when.year == 2026
    assert checked["weight"] == 2.0
    assert checked["type"] == "FACT"
    assert checked["tags"] == []


def test_null_for_an_optional_argument_is_leaving_it_out() -> None:
    checked = ARGUMENTS.check({"text": "a", "tags": None, "type": None})
    assert (checked["tags"], checked["type"]) == ([], "FACT")


def test_defaults_are_not_shared_between_calls() -> None:
    ARGUMENTS.check({"text": "a"})["tags"].append("x")
    assert ARGUMENTS.check({"text": "a"})["tags"] == []


def test_functions_made_alike_have_the_defaults_and_bounds_of_their_own() -> None:
    def listing(page: int, longest: str) -> Arguments:
        async def served(size: int = page, word: str = "") -> None: ...

        served.__annotations__["word"] = f"Annotated[str, Field(max_length={longest})]"
        return Arguments("listed", served)

    few, many, longer = listing(3, "4"), listing(30, "4"), listing(3, "5")
    assert [each.check({})["size"] for each in (few, many, longer)] == [3, 30, 3]
    assert longer.check({"word": "hello"})["word"] == "hello"
    with pytest.raises(InvalidInput):
        few.check({"word": "hello"})


def test_unknown_arguments_are_named_together_with_the_known_ones() -> None:
    message = refusal(txet="b", foo=1)
    assert message.startswith(
        "unknown arguments 'txet', 'foo' (did you mean 'text'?); post takes: text, type,"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"type": "FAKT"}, "type must be one of 'FACT', 'LOG', not \"FAKT\""),
        ({"importance": True}, "importance must be an integer, not true"),
        ({"importance": "3"}, 'importance must be an integer, not "3"'),
        ({"importance": 9}, "importance must be less than or equal to 5, not 9"),
        ({"urgent": "false"}, 'urgent must be true or false, not "false"'),
        ({"tags": ["a", "b", "c", "d"]}, "tags must have at most 3 entries (it has 4)"),
        ({"tags": '["a"]'}, "tags must be an array: a JSON-encoded string was sent; send the array itself"),
        ({"metadata": '{"a":1}'}, "metadata must be an object: a JSON-encoded string was sent"),
        ({"text": "x" * 51}, "text must have at most 50 characters (it has 51)"),
        ({"text": None}, "text must be a string, not null"),
        ({"edges": {"critiques": "H-1"}}, 'edges.critiques must be an array, not "H-1"'),
        ({"edges": {"likes": ["H-1"]}}, "edges has the key \"likes\"; its keys are 'critiques', 'supports'"),
        ({"items": [{"text": "a"}, {}]}, "items[1].text is missing"),
        ({"items": [{"text": "a", "zone": 1}]}, "items[0].zone is not known here"),
        ({"items": ["a"]}, 'items[0] must be an object, not "a"'),
    ],
)
def test_a_wrong_value_is_answered_by_what_is_right(given: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**given)


def test_a_value_of_several_forms_is_told_of_in_the_callers_words() -> None:
    async def send(caller: object, to: Text | Part) -> None: ...

    with pytest.raises(InvalidInput) as caught:
        Arguments("send", send).check({"to": {}})
    assert caught.value.message == (
        "send: to must be a string, not an object; to.text is missing; nothing was changed"
    )


def test_a_long_wrong_value_is_not_echoed() -> None:
    assert "secret" not in refusal(type="secret" * 20)


def test_many_problems_make_one_short_sentence() -> None:
    message = refusal(type="x", importance="x", urgent="x", weight="x", tags="x")
    assert "and 2 more problems" in message


@pytest.mark.parametrize(
    "value",
    ["a\0b", "\ud800", {"\udfff": 1}, {"a": {"b": ["\0"]}}, 2**63, -(2**63) - 1, float("nan"), float("inf")],
)
def test_what_cannot_be_stored_is_refused_at_any_depth(value: object) -> None:
    refusal(metadata={"deep": [value]})


def test_nesting_deeper_than_32_levels_is_refused() -> None:
    value: list[Any] = []
    for _ in range(40):
        value = [value]
    assert "nest deeper" in refusal(metadata={"deep": value})


def test_a_giant_array_is_refused_before_its_values_are_looked_at() -> None:
    def refused(count: int) -> int:
        tags = [1] * count
        return lines_of(lambda: told.append(refusal(tags=tags)))

    told: list[str] = []
    assert refused(900_000) == refused(MAX_VALUES + 1) < 100
    assert all("values in one call" in message for message in told)


def test_as_many_values_as_allowed_are_checked_with_work_in_proportion() -> None:
    def checked(count: int) -> int:
        deep = [[1] * 100] * (count // 120)
        return lines_of(lambda: refusal(metadata={"deep": deep}, tags=[1] * (count // 100)))

    assert growth(checked, MAX_VALUES // 4) < PROPORTION


def test_a_key_longer_than_256_characters_is_refused() -> None:
    refusal(metadata={"k" * 257: 1})


def test_no_schema_is_published_of_an_unbounded_string_list_or_mapping() -> None:
    async def open_string(caller: object, text: str) -> None: ...
    async def open_list(caller: object, tags: list[Text]) -> None: ...
    async def open_inner(caller: object, tags: Annotated[list[str], Field(max_length=3)]) -> None: ...
    async def open_mapping(caller: object, data: dict[str, int]) -> None: ...
    async def open_option(caller: object, text: str | None = None) -> None: ...

    functions: list[Callable[..., Any]] = [open_string, open_list, open_inner, open_mapping, open_option]
    for fn in functions:
        with pytest.raises(TypeError, match="no upper bound"):
            _ = Arguments("t", fn).schema


def test_no_schema_is_published_of_a_nested_model_with_an_unbounded_string() -> None:
    class Open(BaseModel):
        text: str

    async def nested(caller: object, items: list[Any]) -> None: ...

    nested.__annotations__["items"] = Annotated[list[Open], Field(max_length=3)]
    with pytest.raises(TypeError, match=r"items\.\[\]\.text"):
        _ = Arguments("t", nested).schema


def test_plain_functions_and_bare_parameters_are_refused_at_first_use() -> None:
    def plain(caller: object) -> None: ...
    async def bare(caller, text) -> None: ...  # type: ignore[no-untyped-def]

    for fn in (plain, bare):
        with pytest.raises(TypeError):
            Arguments("t", fn).check({})


def test_a_published_schema_has_no_noise() -> None:
    text = json.dumps(ARGUMENTS.schema)
    for noise in (
        "title",
        "null",
        "anyOf",
        "$defs",
        'additionalProperties": false',
        "maxLength",
        'default": []',
    ):
        assert noise not in text, noise
    assert ARGUMENTS.schema["properties"]["type"] == {
        "default": "FACT",
        "enum": ["FACT", "LOG"],
        "type": "string",
    }
    assert ARGUMENTS.schema["properties"]["importance"] == {"maximum": 5, "minimum": 1, "type": "integer"}
    assert ARGUMENTS.schema["required"] == ["text"]


def test_an_unlisted_argument_is_taken_and_not_published() -> None:
    async def call(
        caller: object,
        text: Text,
        key: Annotated[str, Field(max_length=9, json_schema_extra={UNLISTED: True})] | None = None,
    ) -> None: ...

    arguments = Arguments("t", call)
    assert list(arguments.schema["properties"]) == ["text"]
    assert arguments.whole_schema["properties"]["key"] == {"type": "string"}
    assert arguments.check({"text": "a", "key": "b"}) == {"text": "a", "key": "b"}
    with pytest.raises(InvalidInput, match="at most 9"):
        arguments.check({"text": "a", "key": "b" * 10})


def test_a_definition_used_often_stays_one_definition() -> None:
    class Big(BaseModel):
        text: Annotated[str, Field(max_length=9, description="a description that is worth saying only once")]

    class Outer(BaseModel):
        a: Big
        b: Big
        c: Big

    assert "$defs" in compact_schema(Outer.model_json_schema())


def test_tokens_are_counted_over_dense_json() -> None:
    assert schema_tokens("hello world") == 2
    assert schema_tokens({"a": 1}) == schema_tokens('{"a":1}')
    assert schema_tokens(ARGUMENTS.schema) < 170
