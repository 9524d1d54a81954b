"""A script that prints what a process from the warmed one has to do still: a vocabulary, and models that wait."""

from __future__ import annotations

from collections.abc import Iterator

from blackboard_mcp.server.text.tokens import encoding
from pydantic import BaseModel


def waiting(model: type[BaseModel]) -> Iterator[str]:
    for under in model.__subclasses__():
        if not under.__pydantic_complete__:
            yield under.__qualname__
        yield from waiting(under)


print(*["vocabulary"] * (not encoding.cache_info().currsize), *waiting(BaseModel))
