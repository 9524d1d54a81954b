"""Time and random identifiers. The clock is injected, so that tests control the time."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the present time."""

    def now(self) -> datetime:
        """Returns the present instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Returns the machine's present time in UTC."""
        return datetime.now(UTC)


def new_token(bytes_: int = 9) -> str:
    """Returns a random identifier safe in URLs: `bytes_` bytes of entropy, base64 without padding."""
    return secrets.token_urlsafe(bytes_)
