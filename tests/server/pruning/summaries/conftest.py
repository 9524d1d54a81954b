"""Fixtures for tests of summaries by language models."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fakemodel import FakeModel, fake_model


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with fake_model() as made:
        yield made


@pytest.fixture
async def another_model() -> AsyncIterator[FakeModel]:
    async with fake_model() as made:
        yield made
