"""The communication protocols of a server: the ten built in, and classes that the operator named at launch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.errors import InvalidInput

from .loading import CLASS, load

if TYPE_CHECKING:
    from blackboard_mcp.protocols.messages.base import MessageProtocol
    from blackboard_mcp.protocols.messages.registry import Registry


class Protocols:
    """What agents may look up. It was all asked of the classes at launch: nothing of theirs runs later."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """`named` are `package.module:Class`, of the launch configuration alone: they are imported.

        Raises:
            InvalidInput: a path that is none, or a class that is no protocol, clashes with another, or fails.
        """
        self._named = tuple(named)
        if self._named:
            self.registry  # noqa: B018, what is wrong with a class is said at launch

    @cached_property
    def registry(self) -> Registry:
        """Made at launch where classes are named; the ten built in are loaded when somebody asks for them."""
        from blackboard_mcp.protocols.messages.registry import Registry

        registry = Registry()
        for path in self._named:
            try:
                registry.register(_found(path))
                registry.about()
            except InvalidInput as error:
                raise InvalidInput(f"protocol {path[:80]}: {error.message}") from error
            except Exception as error:  # whatever a class of somebody's raises
                raise InvalidInput(
                    f"protocol {path[:80]} failed: {type(error).__name__}: {str(error)[:200]}"
                ) from error
        return registry

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        return self.registry.about()

    @property
    def names(self) -> list[str]:
        return [str(protocol["name"]) for protocol in self.about]


def _found(path: str) -> type[MessageProtocol]:
    if not CLASS.match(path):
        raise InvalidInput("not of the form package.module:Class.")
    found: type[MessageProtocol] = load(path)  # the registry looks what it is
    return found
