"""The communication protocols of a server: ten built in, and classes that the operator named at launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import Draft, Visibility

from .loading import CLASS, load

if TYPE_CHECKING:
    from blackboard_mcp.protocols.messages.base import MessageProtocol
    from blackboard_mcp.protocols.messages.registry import Registry


class Protocols:
    """The protocols that agents may look up.

    Classes are asked for their descriptions at launch; their code never runs later.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        """Takes `named`, import paths `package.module:Class` from the launch configuration only: they are imported.

        Raises:
            InvalidInput: a path is malformed, or a class is no protocol, clashes with another, or fails.
        """
        self._named = tuple(named)
        if self._named:
            self.registry  # noqa: B018, errors in a class are raised at launch

    @cached_property
    def registry(self) -> Registry:
        """The registry of all protocols of the server.

        It is built at launch if classes are named; else the built-in protocols load on first use.
        """
        from blackboard_mcp.protocols.messages.registry import Registry

        registry = Registry()
        for path in self._named:
            try:
                registry.register(_found(path))
                registry.about()
            except InvalidInput as error:
                raise InvalidInput(f"protocol {path[:80]}: {error.message}") from error
            except Exception as error:  # an operator's class may raise anything
                raise InvalidInput(
                    f"protocol {path[:80]} failed: {type(error).__name__}: {str(error)[:200]}"
                ) from error
        return registry

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """The description of each protocol, as a map that includes its `name`."""
        return self.registry.about()

    @cached_property
    def _levels(self) -> dict[tuple[str, int], tuple[str, Visibility]]:
        """The protocol and its level by kind of message and number of parts, where that is not the board."""
        if not self._named:
            return {}
        return {
            (shape.kind, len(shape.parts)): (protocol.name, Visibility(protocol.level))
            for protocol in self.registry
            if protocol.level != Visibility.BOARD
            for shape in protocol.shapes
        }

    def levelled(self, draft: Draft) -> Draft:
        """Returns the draft with the visibility of its protocol's level, if its key is a message's of such a protocol.

        Raises:
            InvalidInput: the draft asks for another visibility.
        """
        if draft.key is None or not self._levels:
            return draft
        _, kind, *parts = [*draft.key.split(":"), ""]
        found = self._levels.get((kind, len(parts) - 1))
        if found is None or draft.visibility is found[1]:
            return draft
        if draft.visibility is not None:
            raise InvalidInput(
                f"Messages of the protocol {found[0]} have visibility {found[1]}, and {draft.key!r:.80} is one; leave "
                "visibility out. Nothing was changed."
            )
        return replace(draft, visibility=found[1])

    def check(self, name: str) -> None:
        """Checks that there is such a protocol.

        Raises:
            InvalidInput: there is none; the error names all.
        """
        try:
            self.registry.get(name)
        except InvalidInput as error:
            raise InvalidInput(f"{error.message} Nothing was changed.") from None

    @property
    def names(self) -> list[str]:
        """The names of all protocols."""
        return [str(protocol["name"]) for protocol in self.about]


def _found(path: str) -> type[MessageProtocol]:
    if not CLASS.match(path):
        raise InvalidInput("not of the form package.module:Class.")
    found: type[MessageProtocol] = load(path)  # the registry checks that it is a protocol
    return found
