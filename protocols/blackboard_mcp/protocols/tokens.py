"""The contract of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

DEFAULT_TOKENIZER: Final = "o200k_base"
"""What counts on a board where nothing else is said."""
Count = Callable[[str], int]
"""Says how many tokens a text has."""


class Tokenizer(Protocol):
    """Counts the tokens of a text. Deterministic, thread-safe, never fails on valid Unicode."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """How many tokens `text` has; 0 for the empty text."""
        ...
