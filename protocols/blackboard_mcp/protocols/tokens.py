"""What a tokenizer must do."""

from __future__ import annotations

from typing import Protocol


class Tokenizer(Protocol):
    """Counts the tokens of a text. Deterministic, thread-safe, never fails on valid Unicode."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """How many tokens `text` has; 0 for the empty text."""
        ...
