"""Adding to an entry that holds a number: in decimals, exactly, so that no order of additions changes the sum."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal, Rounded

from .errors import InvalidInput
from .values import dataclass

MAX_DIGITS = 30
"""Digits of a sum, those after the point included."""

_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}(?:\.[0-9]{{1,{MAX_DIGITS}}})?\Z")
_EXACT = Context(prec=1_000, traps=[Rounded])
"""Room for every finite float and the longest text together: nothing is ever rounded."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What a draft adds to the number in an entry; `count` says how many tokens a text has."""

    amount: Decimal
    count: Callable[[str], int]

    @classmethod
    def of(cls, amount: int | float, count: Callable[[str], int]) -> Addition:
        """The amount as it was written: 0.1 is a tenth.

        Raises:
            InvalidInput: no finite number.
        """
        if isinstance(amount, bool) or not Decimal(str(amount)).is_finite():
            raise InvalidInput(
                f"add is a finite number such as 45 or -2.5, not {amount}. Nothing was changed."
            )
        return cls(Decimal(str(amount)), count)

    def to(self, name: str, text: str) -> str:
        """The text of the sum with what the entry `name` holds.

        Raises:
            InvalidInput: it holds no number, or the sum has too many digits.
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
