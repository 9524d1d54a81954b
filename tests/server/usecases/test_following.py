"""Waiting in this process, as the command line's `watch` does: nobody is told of progress."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import StoreClosed
from blackboard_mcp.server import compose
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases import following
from patience import PATIENCE, WOKEN


@pytest.mark.parametrize("reported", [False, True])
async def test_a_wait_without_news_looks_once_a_report_and_no_oftener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: bool
) -> None:
    monkeypatch.setattr(following, "_REPORT_EVERY", 0.05)
    told: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    settings = Settings(data=tmp_path, synchronous="NORMAL")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        looks = 0
        log = opened.store.log

        async def counted(*args: object, **options: object) -> object:
            nonlocal looks
            looks += 1
            return await log(*args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(opened.store, "log", counted)
        news = await opened.blackboard.following.wait(
            "ada",
            None,
            subscription=None,
            since=None,
            seconds=0.3,
            limit=1,
            report=report if reported else None,
        )
    assert news.events == ()
    assert looks <= len(told) + 2
    assert len(told) <= 6


async def test_an_installation_that_closes_ends_the_waits_at_once(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, synchronous="NORMAL")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        waits = [
            asyncio.create_task(
                opened.blackboard.following.wait(
                    "ada", None, subscription=None, since=None, seconds=50, limit=1, report=None
                )
            )
            for _ in range(3)
        ]
        tails = opened.blackboard.following.tails
        async with asyncio.timeout(PATIENCE):
            while tails._waiting < 3:  # noqa: ASYNC110 - the calls set no event
                await asyncio.sleep(0.01)
    for wait in waits:
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(wait, WOKEN)
