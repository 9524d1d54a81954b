"""Every string, list and object that a client can send has a bound that is held, however deep it stands.

Read off the argument models of everything that is registered, not off the published schemas, which leave bounds
out to save tokens: what is added later is looked at by itself. What is free JSON is bounded as a whole before
anything walks it.
"""

from __future__ import annotations

import enum
import gc
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import annotated_types
import boards
import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.input.arguments import MAX_DEPTH, MAX_VALUES, Arguments
from blackboard_mcp.server.settings.server import TOOL_SETS
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from unlisted import UNLISTED


def bounded(metadata: typing.Iterable[Any]) -> bool:
    """Whether pydantic holds a length of at most so much."""
    for told in metadata:
        if isinstance(told, FieldInfo) and bounded(told.metadata):
            return True
        if isinstance(told, annotated_types.MaxLen) or getattr(told, "max_length", None) is not None:
            return True
    return False


def unbounded(annotation: Any, metadata: tuple[Any, ...], path: str, seen: frozenset[type]) -> Iterator[str]:
    """The places of an annotation where a client may send as much as it likes."""
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin is Annotated:
        yield from unbounded(inner[0], (*metadata, *inner[1:]), path, seen)
    elif origin in (typing.Union, types.UnionType):
        for option in inner:
            yield from unbounded(option, metadata, path, seen)
    elif (
        origin is Literal
        or annotation in (int, float, bool, type(None))
        or (isinstance(annotation, type) and issubclass(annotation, enum.Enum))
    ):
        return
    elif annotation is str or annotation is bytes:
        if not bounded(metadata):
            yield path
    elif origin in (list, tuple, set, frozenset, dict) or (
        isinstance(origin, type) and issubclass(origin, (typing.Sequence, Mapping))
    ):
        if not bounded(metadata):
            yield path
        for part in inner:
            if part is not Ellipsis and part is not Any:
                keys = origin is dict and part is str  # a key is bounded by `refuse_monsters`
                if not keys:
                    yield from unbounded(part, (), f"{path}[]", seen)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in seen:
            for name, field in annotation.model_fields.items():
                where = f"{path}.{name}" if path else name
                told = tuple(field.metadata)
                yield from unbounded(field.annotation, told, where, seen | {annotation})
    elif annotation is Any or annotation is object:
        yield f"{path} (anything)"
    else:
        raise AssertionError(f"{path}: teach this test what {annotation!r} is")


async def models(tmp_path: Path) -> dict[str, type[BaseModel]]:
    """The arguments of every tool, and those of their parts, by name."""
    async with boards.open_boards(tmp_path, boards.MODERN, tools=TOOL_SETS) as opened:
        await opened.join("alice")
        gc.collect()
        made = [o for o in gc.get_objects() if isinstance(o, Arguments) and not o._lenient]
        tools = {tool.name for tool in opened.server.published_tools}
    found = {one.name: one._model for one in made}
    assert tools <= set(found)
    return found


async def test_every_string_list_and_object_of_every_argument_has_a_bound_that_is_held(
    tmp_path: Path,
) -> None:
    found = await models(tmp_path)
    assert {"post.items", "post", "transaction", "consume", "request"} <= set(found)
    open_ends = {name: list(unbounded(model, (), "", frozenset())) for name, model in found.items()}
    assert {name: paths for name, paths in open_ends.items() if paths} == {}


async def test_what_published_schemas_leave_out_is_known_to_the_tests_that_read_them(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=TOOL_SETS) as opened:
        left_out = {}
        for tool in opened.server.published_tools:
            whole = opened.server.whole_schema(tool.name)["properties"]
            names = whole.keys() - tool.input_schema["properties"].keys()
            if names:
                left_out[tool.name] = {name: whole[name] for name in names}
    assert left_out == UNLISTED


async def test_a_server_lists_every_argument_for_hosts_that_drop_others(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=TOOL_SETS, arguments="all") as opened:
        agent = await opened.join("ann")
        listed = {
            tool.name: tool.input_schema["properties"] for tool in (await agent.client.list_tools()).tools
        }
        for tool, left_out in UNLISTED.items():
            assert {name: listed[tool][name] for name in left_out} == left_out
        await agent.post("Fuel is low.", tags=["fuel"])
        assert "nothing matches" in await agent.say("query", any_tags=["nope"])


class _Part(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("annotation", "places"),
    [
        (str, ["x"]),
        (str | None, ["x"]),
        (Annotated[str, Field(max_length=3)] | None, []),
        (list[Annotated[str, Field(max_length=3)]], ["x"]),
        (Annotated[list[str], Field(max_length=3)], ["x[]"]),
        (Annotated[dict[str, Any], Field(max_length=3)], []),
        (dict[str, int], ["x"]),
        (Annotated[list[_Part], Field(max_length=3)], ["x[].text"]),
        (Literal["a"], []),
        (Any, ["x (anything)"]),
    ],
)
def test_the_walk_finds_what_has_no_bound(annotation: Any, places: list[str]) -> None:
    assert list(unbounded(annotation, (), "x", frozenset())) == places


def nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = {"all": [value]} if level % 2 else [value]
    return value


def free_arguments(model: type[BaseModel]) -> Iterator[str]:
    """Arguments that take JSON of any shape: their depth is bounded before they are looked at."""
    for name, field in model.model_fields.items():
        if "Any" in str(field.annotation) or "dict" in str(field.annotation):
            yield name


async def test_free_json_is_measured_before_anybody_walks_it(tmp_path: Path) -> None:
    """Deeper than the interpreter's stack, wider than anybody needs: refused alike, in every place for it."""
    found = await models(tmp_path)
    places = [(name, key) for name, model in found.items() for key in free_arguments(model)]
    assert {("post", "metadata"), ("subscribe", "filter"), ("board", "settings")} <= set(places)
    deep = nested(50_000)
    for name, key in places:
        arguments = Arguments(name, found[name])
        for value, words in (
            (deep, f"deeper than {MAX_DEPTH} levels"),
            ({"all": [deep]}, f"deeper than {MAX_DEPTH} levels"),
            ({"x": list(range(MAX_VALUES + 1))}, f"more than {MAX_VALUES} values"),
            ({"k" * 300: 1}, "a key is longer than 256"),
        ):
            with pytest.raises(InvalidInput, match=words):
                arguments.check({key: value})


async def test_what_stands_on_boards_is_bounded_by_its_own_rules_too(tmp_path: Path) -> None:
    """As deep as a call may be, filters, metadata and rules of validation are taken or refused, and nothing breaks."""
    async with boards.open_boards(tmp_path, boards.MODERN, tools=TOOL_SETS) as opened:
        alice = await opened.join("alice")
        schema: Any = {"type": "string"}
        for _ in range(MAX_DEPTH // 2 - 3):
            schema = {"properties": {"a": schema}}
        for tool, arguments in (
            ("post", {"text": "a", "metadata": {"a": nested(MAX_DEPTH - 4)}}),
            ("subscribe", {"filter": {"all": nested(MAX_DEPTH - 4)}}),
            ("subscribe", {"filter": {"not": {"not": {"not": {"not": {"not": {"not": {"type": "LOG"}}}}}}}}),
            ("board", {"settings": {"validation": [{"name": "r", "schema": schema}]}}),
        ):
            result = await alice.call(tool, **arguments)
            assert "internal" not in boards.text_of(result), (tool, boards.text_of(result))
        assert (await alice.post("{}"))["seq"]
