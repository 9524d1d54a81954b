"""The contract of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from .values import dataclass

DEFAULT_TOKENIZER: Final = "o200k_base"
"""The tokenizer of a board that names no other."""
Count = Callable[[str], int]
"""A function that returns the number of tokens in a text."""


@dataclass(frozen=True, slots=True)
class CountedText:
    """A text to post, with its number of tokens by the tokenizer `counted_by`. The empty text stands for none."""

    text: str = ""
    tokens: int = 0
    counted_by: str = DEFAULT_TOKENIZER


class Tokenizer(Protocol):
    """A counter of tokens. It is deterministic and thread-safe, and never fails on valid Unicode."""

    @property
    def name(self) -> str:
        """The name by which boards choose it."""
        ...

    def count(self, text: str) -> int:
        """Returns the number of tokens in `text`; 0 for the empty text."""
        ...
