"""Resources as they are served: found by URI or template, and read as text."""

from __future__ import annotations

import bisect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from blackboard_mcp.protocols.errors import BlackboardError, UnknownReference
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.server.access.door import Door
from blackboard_mcp.server.access.needs import Needs
from blackboard_mcp.server.answers.assurance import to_reader
from blackboard_mcp.server.input.arguments import Arguments, is_clean_text
from blackboard_mcp.server.mcp.answer_size import MAX_ANSWER_BYTES, json_bytes, too_long
from blackboard_mcp.server.mcp.callers import Callers
from blackboard_mcp.server.mcp.errors import internal_error, protocol_error, sendable
from blackboard_mcp.server.tools.tool import Caller
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp.types import INTERNAL_ERROR, Resource, ResourceTemplate

MAX_URI_LENGTH: Final = 2_048
_LONGEST_ESCAPE: Final = 6
_FRAME: Final = 4_096

ResourceFunction = Callable[..., Awaitable[str]]


@dataclass(frozen=True)
class Listed:
    """A resource as a client's menu shows it."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str = "text/markdown"


ListHook = Callable[[Caller], Awaitable[Sequence[Listed]]]


@dataclass(frozen=True)
class _Served:
    uri: str
    template: UriTemplate | None
    fn: ResourceFunction
    arguments: Arguments
    name: str
    description: str
    mime_type: str
    needs: Needs
    by_reader: bool


@cache
def _parsed(uri: str) -> UriTemplate | None:
    """Returns a template of this program's, parsed once for all servers of the process; `None` for a plain URI."""
    return UriTemplate.parse(uri) if UriTemplate.is_template(uri) else None


@cache
def _fixed(uri: str) -> int:
    """Returns the number of fixed characters in a template; the template with the most fits a URI best."""
    template = _parsed(uri)
    return len(uri) if template is None else len(template.expand({}))


class ServedResources:
    """The resources and templates of one server.

    `listing` returns the resources to list for one caller in addition to those without a template.
    """

    def __init__(self, callers: Callers, door: Door) -> None:
        self.listing: ListHook | None = None
        self._callers = callers
        self._door = door
        self._static: dict[str, _Served] = {}
        self._templates: list[_Served] = []

    def add(
        self,
        uri_template: str,
        fn: ResourceFunction,
        *,
        name: str,
        description: str,
        mime_type: str,
        needs: Needs,
        by_reader: bool = False,
    ) -> None:
        """Adds a resource or template: `fn(caller, **variables)` returns its text; `needs` are the rights to read it.

        Of a resource `by_reader`, which has no template, only those are told a change for whom the text changed.

        Raises:
            TypeError: the template's variables are not the function's arguments.
        """
        template = _parsed(uri_template)
        arguments = Arguments(name, fn, lenient=True)
        variables = set(template.variable_names) if template else set()
        if variables != set(arguments.names):
            raise TypeError(
                f"{uri_template} has {sorted(variables)}, its function takes {sorted(arguments.names)}"
            )
        served = _Served(
            uri_template, template, fn, arguments, name, description, mime_type, needs, by_reader
        )
        if template is None:
            self._static[uri_template] = served
        else:
            bisect.insort(self._templates, served, key=lambda entry: -_fixed(entry.uri))

    @property
    def published(self) -> list[Resource]:
        """The resources without variables, which are listed for every caller."""
        return [
            Resource(uri=entry.uri, name=entry.name, description=entry.description, mime_type=entry.mime_type)
            for entry in self._static.values()
        ]

    async def listed(self, caller: Caller) -> list[Resource]:
        """Returns the resources that this caller's list has in addition to `published`.

        Raises:
            MCPError: the list could not be read.
        """
        if self.listing is None:
            return []
        try:
            found = await self.listing(caller)
        except BlackboardError as exc:
            raise protocol_error(exc) from exc
        return [
            Resource(
                uri=one.uri,
                name=one.name,
                title=one.title,
                description=one.description,
                mime_type=one.mime_type,
            )
            for one in found
        ]

    @property
    def published_templates(self) -> list[ResourceTemplate]:
        """The templates as clients list them, those with the most fixed text first."""
        return [
            ResourceTemplate(
                uri_template=entry.uri,
                name=entry.name,
                description=entry.description,
                mime_type=entry.mime_type,
            )
            for entry in self._templates
        ]

    async def heard_by(self, caller: Caller, uri: str) -> bool:
        """Tells whether the URI matches a resource or template that the caller may read.

        The resource itself is not looked up, and may not exist.
        """
        found = self._find(uri)
        if found is None:
            return False
        entry, values = found
        return await self._door.admits(caller.principal, entry.needs.of(values), values.get("board"))

    def is_by_reader(self, uri: str) -> bool:
        """Tells whether changes at the URI are told to those alone for whom the text changed."""
        return (entry := self._static.get(uri)) is not None and entry.by_reader

    async def shown_to(self, caller: Caller, uri: str) -> str:
        """Returns the text that a subscriber reads at a URI that is `by_reader`.

        Raises:
            MCPError: it could not be read.
        """
        try:
            return await self._static[uri].fn(caller)
        except BlackboardError as exc:
            raise protocol_error(exc, uri=uri) from exc

    def _find(self, uri: str) -> tuple[_Served, dict[str, Any]] | None:
        if len(uri) > MAX_URI_LENGTH or not is_clean_text(uri):
            return None
        if (static := self._static.get(uri)) is not None:
            return static, {}
        for entry in self._templates:
            assert entry.template is not None
            values = entry.template.match(uri)
            if values is not None:
                return entry, values
        return None

    async def read(self, uri: str, ctx: ServerRequestContext[Any, Any]) -> tuple[str, str]:
        """Returns the text at a URI and its media type.

        Raises:
            ResourceNotFoundError: the URI matches nothing, or nothing that this caller may see.
            MCPError: the caller may not read it, or reading failed.
        """
        found = self._find(uri)
        if found is None:
            raise ResourceNotFoundError(
                f"no resource at {uri[:200]!a:.240}; resources/templates/list names what there is"
            )
        entry, values = found
        try:
            caller, arguments = await self._callers.of(ctx), entry.arguments.check(values)
            grant = await self._door.let_in(
                caller.principal, entry.needs.of(arguments), arguments.get("board")
            )
            with under(grant):
                text = await entry.fn(caller, **arguments)
            _check_size(text)
        except (MCPError, ResourceError):
            raise
        except UnknownReference as exc:
            raise ResourceNotFoundError(sendable(to_reader(exc.message))) from exc
        except BlackboardError as exc:
            raise protocol_error(exc, uri=uri) from exc
        except Exception as exc:
            reference, message = internal_error(f"resource {entry.name}")
            raise MCPError(INTERNAL_ERROR, message, data={"uri": uri, "reference": reference}) from exc
        return sendable(text), entry.mime_type


def _check_size(text: str) -> None:
    """Checks that a text fits into one answer.

    Raises:
        Refused: the text is longer than one answer may be.
    """
    if len(text) * _LONGEST_ESCAPE <= MAX_ANSWER_BYTES - _FRAME:
        return
    size = json_bytes(text)
    if size > MAX_ANSWER_BYTES - _FRAME:
        raise too_long(size)
