"""Pydantic models as entries, in-process and over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.server import BoardAccess
from blackboard_mcp.server.board import ModelEntries
from opening import opened
from patience import PATIENCE
from pydantic import BaseModel, ConfigDict, Field, computed_field


class Point(BaseModel):
    x: float
    y: float


class Sample(BaseModel):
    """A measurement."""

    site: str
    value: float = Field(ge=0)
    at: list[Point] = []
    note: str | None = None


class Station(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(alias="stationName")
    height: float

    @computed_field
    @property
    def feet(self) -> float:
        return self.height / 0.3048


def samples_on(board: BoardAccess) -> ModelEntries[Sample]:
    return board.models(Sample, lambda sample: f"sample:{sample.site}", pattern="sample:*", type="RESULT")


@pytest.mark.parametrize("kind", ["process", "http"])
async def test_a_model_comes_back_as_it_was_published(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,admin") as board:
        samples = samples_on(board)
        north = Sample(site="north", value=3.5, at=[Point(x=1, y=2)], note="ünï")
        entry = await samples.publish(north, expected_version=0, tags=["raw"])
        assert (entry.key, entry.version, entry.value, entry.fault) == ("sample:north", 1, north, "")
        assert entry.item is not None
        assert (entry.item.type, entry.item.tags) == ("RESULT", ["raw"])
        with pytest.raises(Conflict):
            await samples.publish(north, expected_version=0)
        await samples.publish(Sample(site="south", value=1), idempotency_key="once")
        await samples.publish(Sample(site="south", value=1), idempotency_key="once")
        assert (await samples.get("sample:north")).value == north
        assert [(e.key, e.version) for e in await samples.all()] == [("sample:south", 1), ("sample:north", 1)]
        with pytest.raises(UnknownReference):
            await samples.get("sample:west")
        with pytest.raises(InvalidInput, match=r"is not under 'sample:\*'. Nothing was changed"):
            await samples.publish(Sample(site="a:b", value=1))
        counted: Any = lambda sample: 3  # noqa: E731
        with pytest.raises(
            InvalidInput, match=r"gave 3 for this Sample; it has to give a text under 'sample:\*'"
        ):
            await board.models(Sample, counted, pattern="sample:*").publish(Sample(site="a", value=1))
        with pytest.raises(InvalidInput):
            board.models(Sample, lambda _: "k", pattern="a b")


async def test_programs_that_register_at_once_lose_no_rule(tmp_path: Path) -> None:
    async with opened("process", tmp_path, "core,admin") as board:
        names = [f"rule-{number}" for number in range(6)]
        await asyncio.gather(
            *(board.models(Point, str, pattern=f"{name}:*").register(name) for name in names)
        )
        assert sorted(rule["name"] for rule in (await board.info()).settings["validation"]) == names


async def test_aliases_and_computed_fields_come_back_and_meet_the_models_own_schema(tmp_path: Path) -> None:
    async with opened("process", tmp_path, "core,admin") as board:
        stations = board.models(Station, lambda station: f"station:{station.name}", pattern="station:*")
        await stations.register("stations")
        high = Station(stationName="high", height=3048)
        entry = await stations.publish(high)
        assert (entry.value, entry.fault) == (high, "")
        assert entry.item is not None
        assert entry.item.text == '{"stationName":"high","height":3048.0}'


@pytest.mark.parametrize("kind", ["process", "http"])
async def test_what_is_no_model_is_told_and_ends_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,admin") as board:
        samples = samples_on(board)
        for number, text in enumerate(("{", "[1]", '{"site": "x"}', '{"site": "x", "value": -1}', "x" * 50)):
            await board.post(text, key=f"sample:bad{number}")
        await samples.publish(Sample(site="good", value=1))
        entries = await samples.all()
        assert [entry.value is None for entry in entries] == [False, *[True] * 5]
        assert all(0 < len(entry.fault) <= 500 for entry in entries[1:])
        assert "value: Field required" in entries[3].fault


@pytest.mark.parametrize("kind", ["process", "http"])
async def test_changes_bring_models_deletions_and_faults(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,admin") as board:
        samples = samples_on(board)
        async with samples.changes() as changes:
            await samples.publish(Sample(site="a", value=1))
            assert (await asyncio.wait_for(anext(changes), PATIENCE)).value == Sample(site="a", value=1)
            await board.post("other", key="elsewhere")
            await board.post("no json", key="sample:a")
            entry = await asyncio.wait_for(anext(changes), PATIENCE)
            assert (entry.version, entry.value) == (2, None)
            assert entry.fault
            await board.delete("sample:a")
            gone = await asyncio.wait_for(anext(changes), PATIENCE)
            assert (gone.key, gone.item, gone.value, gone.fault) == ("sample:a", None, None, "")


@pytest.mark.parametrize("kind", ["process", "http"])
async def test_a_registered_model_is_a_rule_of_the_board(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,admin") as board:
        await board.change(settings={"validation": [{"name": "short", "key": "note:*", "max_tokens": 5}]})
        samples = samples_on(board)
        await samples.register("samples")
        await samples.register("samples")
        listed: list[dict[str, Any]] = (await board.info()).settings["validation"]
        assert [rule["name"] for rule in listed] == ["short", "samples"]
        await samples.publish(Sample(site="a", value=1, at=[Point(x=1, y=1)], note="n"))
        for text in ("no json", '{"site": "x"}', '{"site": "x", "value": -1}', '{"site": 1, "value": 1}'):
            with pytest.raises(Refused, match="rule 'samples'"):
                await board.post(text, key="sample:b")
        assert [entry.key for entry in await samples.all()] == ["sample:a"]
