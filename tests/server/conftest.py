"""What tests of the server's pure organs share: items made from few words, and real posts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.items import (
    IMPORTANCE,
    Item,
    ItemType,
    Status,
    Visibility,
    Zone,
    content_hash,
)
from blackboard_mcp.server.text.tokens import BpeTokenizer

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
TOKENIZER = BpeTokenizer()


def build_item(number: int, text: str = "A fact.", type: ItemType = ItemType.FACT, **more: Any) -> Item:
    """An active item on a board, posted `number` minutes after `START`."""
    at = START + timedelta(minutes=number)
    fields: dict[str, Any] = {
        "board": "main",
        "key": None,
        "version": 1,
        "status": Status.ACTIVE,
        "zone": Zone.WORKING,
        "importance": IMPORTANCE[type],
        "author": "alice",
        "tags": (),
        "metadata": {},
        "tokens": TOKENIZER.count(text),
        "sha256": content_hash(text),
        "thread": 1,
        "visibility": Visibility.BOARD,
        "created_at": at,
        "updated_at": at,
        "expires_at": None,
        "seq": number,
    }
    return Item(number=number, text=text, type=type, **(fields | more))


POSTS = json.loads(Path(__file__).with_name("threads.json").read_text("utf-8"))["threads"]
"""Threads of agents at work, as they were posted: type, author, text."""


@pytest.fixture(scope="session")
def make_item() -> Callable[..., Item]:
    return build_item


@pytest.fixture(scope="session")
def tokenizer() -> BpeTokenizer:
    return TOKENIZER


@pytest.fixture(scope="session")
def threads() -> list[list[Item]]:
    """Real threads, long markdown with code in them."""
    return [
        [
            build_item(place + 1, text, ItemType(type_), author=author, thread=1)
            for place, (type_, author, text) in enumerate(posts)
        ]
        for posts in POSTS
    ]
