"""Additions to an entry that holds a number, in exact decimals, so that their order does not change the sum."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal, Rounded

from .errors import InvalidInput
from .values import dataclass

MAX_DIGITS = 30
"""Most digits of a sum, including those after the point."""

_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}(?:\.[0-9]{{1,{MAX_DIGITS}}})?\Z")
_EXACT = Context(prec=1_000, traps=[Rounded])
"""A decimal context with room for every finite float plus the longest text, so that nothing is ever rounded."""


@dataclass(frozen=True, slots=True)
class Addition:
    """An amount to add to the number in an entry; `count` returns the number of tokens in a text."""

    amount: Decimal
    count: Callable[[str], int]

    @classmethod
    def of(cls, amount: int | float, count: Callable[[str], int]) -> Addition:
        """Returns an addition of the amount as it is written: 0.1 is exactly a tenth.

        Raises:
            InvalidInput: not a finite number.
        """
        if isinstance(amount, bool) or not Decimal(str(amount)).is_finite():
            raise InvalidInput(
                f"add is a finite number such as 45 or -2.5, not {amount}. Nothing was changed."
            )
        return cls(Decimal(str(amount)), count)

    def to(self, name: str, text: str) -> str:
        """Returns the sum of the amount and the number in `text`, as a text; `name` is the entry's, for errors.

        Raises:
            InvalidInput: `text` is not a plain number, or the sum has too many digits.
        """
        held = text.strip()
        if not _NUMBER.match(held):
            shown = held if len(held) <= 40 else f"{held[:39]}…"
            raise InvalidInput(
                f"'{name}' holds no plain number to add to: {shown!r}. Nothing was changed; an entry to add to has a "
                "text such as 120 or -3.50 and nothing else, and text in place of add writes one."
            )
        total = format(_EXACT.add(Decimal(held), self.amount), "f")
        if sum(character.isdigit() for character in total) > MAX_DIGITS:
            raise InvalidInput(
                f"'{name}' with {self.amount} added has more than {MAX_DIGITS} digits. Nothing was changed."
            )
        return total
