"""The argument `agree`: the agents whom a post asks to agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from blackboard_mcp.protocols.agreements import EVERYBODY, MOST_ASKED, Ask
from blackboard_mcp.protocols.errors import InvalidInput
from pydantic import Field, WithJsonSchema

Agree = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=64)]],
    Field(min_length=1, max_length=MOST_ASKED + 2),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "maxLength": 64},
            "maxItems": MOST_ASKED + 2,
            "description": "waits for names or all",
        }
    ),
]


def asking(agree: Sequence[str]) -> Ask:
    """Returns whom a post asks to agree, from names, `all` and a number of agreements that suffice, in any
    order.

    A number without names asks everybody.

    Raises:
        InvalidInput: there are several numbers, a number out of range, or too many names.
    """
    numbers = [said for said in agree if said.isdecimal()]
    names = [said for said in agree if said not in numbers and said.casefold() != EVERYBODY]
    if len(numbers) > 1 or (numbers and not 1 <= int(numbers[0]) <= MOST_ASKED):
        raise InvalidInput(
            f"agree takes one number, 1 to {MOST_ASKED}: how many of those asked suffice. Nothing was changed; say "
            'agree=["ana", "ben", "1"], or leave it out where all are to agree.'
        )
    if len(names) > MOST_ASKED:
        raise InvalidInput(f"agree asks at most {MOST_ASKED} agents, not {len(names)}. Nothing was changed.")
    return Ask(
        names=tuple(dict.fromkeys(names)),
        everybody=any(said.casefold() == EVERYBODY for said in agree) or not names,
        enough=int(numbers[0]) if numbers else 0,
    )
