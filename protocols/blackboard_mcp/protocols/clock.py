"""Time, identifiers and randomness, injected so that tests decide them."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the product gets the time from."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def new_token(bytes_: int = 9) -> str:
    """A random identifier safe in URLs: `bytes_` bytes of entropy, base64 without padding."""
    return secrets.token_urlsafe(bytes_)
