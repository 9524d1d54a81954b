"""The SDK's server, set up for both generations of the protocol and reading from our own registries."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from blackboard_mcp.server.mcp.errors import plain_errors
from blackboard_mcp.server.mcp.prompts import ServedPrompts
from blackboard_mcp.server.mcp.resources import ServedResources
from blackboard_mcp.server.mcp.tools import ServedTools
from mcp.server import _streamable_http_modern as modern_http
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver import server as sdk_module
from mcp.server.runner import ServerRunner
from mcp.server.subscriptions import SubscriptionBus
from mcp.types import (
    CallToolResult,
    GetPromptResult,
    ListResourcesResult,
    PaginatedRequestParams,
    Prompt,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)

_CACHE_HINTS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "tools/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "prompts/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "resources/templates/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "resources/list": CacheHint(ttl_ms=0, scope="private"),
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
    "server/discover": CacheHint(ttl_ms=3_600_000, scope="public"),
}


class SdkServer(MCPServer[Any]):
    """The SDK's server, reading from our registries instead of its own.

    `listed` returns the resources to list for one caller in addition to those without a template.
    """

    listed: Callable[[ServerRequestContext[Any, Any]], Awaitable[list[Resource]]]

    def __init__(
        self, tools: ServedTools, resources: ServedResources, prompts: ServedPrompts, **settings: Any
    ) -> None:
        self._served_tools = tools
        self._served_resources = resources
        self._served_prompts = prompts
        super().__init__(**settings)

    async def list_tools(self) -> list[Tool]:
        """Returns the tools as clients list them."""
        return self._served_tools.published

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult:
        """Calls a tool for the client of the request in `context`.

        Raises:
            TypeError: there is no request.
        """
        if context is None:
            raise TypeError("tools are called by a client")
        return await self._served_tools.call(name, arguments, context.request_context)

    async def list_resources(self) -> list[Resource]:
        """Returns the resources that are listed for every caller."""
        return self._served_resources.published

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(resources=[*await self.list_resources(), *await self.listed(ctx)])

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Returns the templates of resources."""
        return self._served_resources.published_templates

    async def read_resource(
        self, uri: Any, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        """Reads a resource for the client of the request in `context`.

        Raises:
            TypeError: there is no request.
        """
        if context is None:
            raise TypeError("resources are read by a client")
        text, mime_type = await self._served_resources.read(str(uri), context.request_context)
        return [ReadResourceContents(content=text, mime_type=mime_type)]

    async def list_prompts(self) -> list[Prompt]:
        """Returns the prompts as clients list them."""
        return self._served_prompts.published

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult:
        """Returns a prompt for the client of the request in `context`.

        Raises:
            TypeError: there is no request.
        """
        if context is None:
            raise TypeError("prompts are asked for by a client")
        return await self._served_prompts.get(name, arguments or {}, context.request_context)


class PlainJson:
    """A replacement for `json` in the SDK's modern HTTP code.

    The SDK's would escape every letter outside ASCII as 6 or 12 bytes.
    """

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(document: Any, **settings: Any) -> str:
        """Returns JSON with letters outside ASCII as they are, or escaped where UTF-8 cannot carry them."""
        text = json.dumps(document, ensure_ascii=False, **settings)
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
            return json.dumps(document, **settings)
        return text


setattr(modern_http, "json", PlainJson)  # noqa: B010, the SDK exports it to nobody
# The SDK keeps this method in the runner that the method holds, and makes a runner for each request: the garbage
# collector would have to find them all, and stop every call meanwhile.
setattr(ServerRunner, "on_request", property(attrgetter("_on_request")))  # noqa: B010, it is a cached property


def sdk_server(
    tools: ServedTools,
    resources: ServedResources,
    prompts: ServedPrompts,
    subscriptions: SubscriptionBus,
    *,
    name: str,
    version: str,
    instructions: str,
) -> SdkServer:
    """Returns the SDK's server for these tools, resources and prompts, before our own handlers are added."""
    with _untouched_logging():
        made = SdkServer(
            tools,
            resources,
            prompts,
            subscriptions=subscriptions,
            name=name,
            version=version,
            instructions=instructions,
            cache_hints=_CACHE_HINTS,
        )
    server = made._lowlevel_server
    # Tracing would cost 39 µs for each call, and its data would be exported nowhere.
    server.middleware[:] = [m for m in server.middleware if type(m).__name__ != "OpenTelemetryMiddleware"]
    server.middleware.append(plain_errors)
    original = server.get_capabilities

    def with_true_list_changes(*given: Any, **settings: Any) -> ServerCapabilities:
        # The SDK promises modern clients news of changes to all lists, and legacy clients of none. Here the lists of
        # tools and prompts never change, and the list of resources changes for both.
        capabilities = original(*given, **settings)
        for lists in (capabilities.tools, capabilities.prompts):
            if lists is not None:
                lists.list_changed = None
        if capabilities.resources is not None:
            capabilities.resources.list_changed = True if resources.listing is not None else None
        return capabilities

    server.get_capabilities = with_true_list_changes  # type: ignore[method-assign]
    return made


class _untouched_logging:
    """A context that keeps the SDK's constructor from configuring the root logger.

    The SDK would also import rich for it.
    """

    def __enter__(self) -> None:
        self._configure = sdk_module.configure_logging  # type: ignore[attr-defined]
        sdk_module.configure_logging = lambda *_: None  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        sdk_module.configure_logging = self._configure  # type: ignore[attr-defined]
