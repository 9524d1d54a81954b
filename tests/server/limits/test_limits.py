"""The table of limits: where it comes from, and what is no limit."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.limits.concurrency import Counted
from blackboard_mcp.server.limits.limits import Limits, limits_of, part_of
from blackboard_mcp.server.mcp import tools
from blackboard_mcp.server.settings.server import load
from patience import PATIENCE


def test_every_default_is_a_value_that_may_be_said() -> None:
    defaults = Limits()
    said = {f.name: getattr(defaults, f.name) for f in fields(Limits)}
    assert limits_of(said, "here") == defaults
    assert all(f.metadata["meaning"] for f in fields(Limits))


def test_each_limit_is_changed_alone_and_the_environment_comes_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[limits]\nheaders = 20\ncalls = 7\n", "utf-8")
    environment = {"BLACKBOARD_LIMITS": '{"calls": 8, "head_seconds": 1}'}
    limits = load({}, environment, tmp_path / "c.toml").limits
    assert limits == Limits(headers=20, calls=8, head_seconds=1.0)


def test_workers_share_what_is_bounded_in_all_and_each_takes_the_largest_body() -> None:
    given = Limits(connections=7, calls=64, calls_per_principal=5, bodies_bytes=9 << 20)
    part = part_of(given, 4)
    assert (part.connections, part.calls, part.calls_per_principal) == (2, 16, 5)
    assert part.bodies_bytes == given.body_bytes
    assert part_of(given, 2).bodies_bytes == given.bodies_bytes // 2
    assert [part_of(given, n).bodies_bytes_per_principal >> 20 for n in (1, 2, 4, 64)] == [32, 16, 8, 4]
    small = Limits(bodies_bytes=1_024)
    assert part_of(small, 2).bodies_bytes == 1_024, "a bound below the largest body stays"
    assert part_of(given, 1) == given


@pytest.mark.parametrize("name", [f.name for f in fields(Limits)])
def test_a_value_out_of_its_range_is_refused_with_the_range_and_the_name(name: str) -> None:
    about = next(f for f in fields(Limits) if f.name == name).metadata
    for value in (about["low"] - 1, about["high"] + 1, True, None, "9", [9], float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match=rf"^BLACKBOARD_LIMITS: {name} must be"):
            limits_of({name: value}, "BLACKBOARD_LIMITS")
    for value in (about["low"], about["high"]):
        assert getattr(limits_of({name: value}, ""), name) == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be an object of limits"),
        (7, "must be an object of limits"),
        ('{"header": 3}', "names 'header'; there are: connections, "),
    ],
)
def test_what_is_no_table_of_limits_is_refused_with_where_it_stands(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        limits_of(given, "limits in c.toml")
    assert caught.value.message.startswith("limits in c.toml")
    assert words in caught.value.message


def test_who_has_nothing_open_is_forgotten() -> None:
    counted = Counted(2, 1)
    assert [counted.enter(who) for who in ("a", "a", "b", "c")] == [None, "each", None, "all"]
    counted.leave("a")
    assert [counted.enter(who) for who in ("c", "a")] == [None, "all"]
    counted.leave("b")
    counted.leave("c")
    assert (counted.open, len(counted), counted.of("a")) == (0, 0, 0)


async def test_a_refused_call_is_answered_late_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "REFUSED_SECONDS", 3_600.0)
    given = {"limits": Limits(lull_seconds=0, waits_per_principal=1)}
    async with boards.open_boards(tmp_path, boards.MODERN, **given) as there:
        ada, ben = await there.join("ada", "ben")
        await ben.post("a finding")
        await ada.do("wait", seconds=0)
        waits = [asyncio.create_task(ada.call("wait", seconds=20)) for _ in range(2)]
        async with asyncio.timeout(PATIENCE):
            while not any(call.done() for call in waits):
                await ben.post("another finding", "LOG")
        for _ in range(20):
            await ben.post("another finding", "LOG")
        (answered,) = (call for call in waits if call.done())
        assert not answered.result().is_error
        for call in waits:
            call.cancel()
