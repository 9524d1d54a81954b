"""Everything between the MCP SDK and our tools, resources and prompts.

Knows the SDK (2.3), its two protocol generations and their wires, and nothing of boards. Nothing
else in the product touches the SDK's internals: a tool gets a `Caller` and typed arguments and
returns an `Answer`, a resource returns text, and a change is published once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, UnknownReference
from blackboard_mcp.server.mcp.adapter_arguments import (
    Arguments,
    compact_schema,
    is_clean_text,
    refuse_monsters,
    schema_tokens,
)
from blackboard_mcp.server.mcp.adapter_stdio import stdio_streams
from blackboard_mcp.server.mcp.adapter_streams import Hub, Subscriber, TooManySubscriptions
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver import server as sdk_module
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, ServerEvent
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
    Tool,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

__all__ = ["Answer", "BoardServer", "Caller", "ConnectionInfo", "ToolAnnotations", "schema_tokens"]

logger = logging.getLogger(__name__)

STRUCTURED_META_KEY: Final = "blackboard/structured"
AGENT_SCOPE_KEY: Final = "blackboard.agent"
GONE_SCOPE_KEY: Final = "blackboard.gone"
MAX_URI_LENGTH: Final = 2_048
MAX_COMPLETIONS: Final = 100
_REQUEST_CANCELLED: Final = -32800
_CONNECTION_KEY: Final = "blackboard"

_CACHE_HINTS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "tools/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "prompts/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "resources/templates/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "resources/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
    "server/discover": CacheHint(ttl_ms=3_600_000, scope="public"),
}


@dataclass(frozen=True)
class Answer:
    """What a tool returns: compact text for the model, and the same facts for programs.

    The facts may be a function, called only when the request wants them.
    """

    text: str
    structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]


@dataclass(frozen=True)
class ConnectionInfo:
    """What a connection shows of its caller.

    `headers` have lower-case names and are those of this very request; empty over stdio.
    `client_name` is the client's self-description, never proof of anything, and `None` over HTTP.
    """

    transport: Literal["stdio", "http"]
    headers: Mapping[str, str]
    client_name: str | None


@dataclass(frozen=True)
class Caller:
    """Who is calling, from the connection, never from arguments.

    `report(progress, total, message)` tells the client how far a long call is; without effect when
    the client asked for no progress.
    """

    agent: str
    transport: Literal["stdio", "http"]
    structured: bool
    headers: Mapping[str, str]
    """Those of this request; empty over stdio."""
    report: Callable[[float, float | None, str | None], Awaitable[None]]


Identify = Callable[[ConnectionInfo], str]
CallHook = Callable[[Caller], Awaitable[None]]
ToolFunction = Callable[..., Awaitable[Answer]]
ResourceFunction = Callable[..., Awaitable[str]]
PromptFunction = Callable[..., Awaitable[str]]
CompletionFunction = Callable[[Caller, str, str, str, Mapping[str, str]], Awaitable[Sequence[str]]]
SubscribeHook = Callable[[Caller, str], Awaitable[bool]]


@dataclass(frozen=True)
class _BoardTool:
    fn: ToolFunction
    arguments: Arguments
    published: Tool
    read_only: bool


@dataclass(frozen=True)
class _BoardResource:
    uri: str
    template: UriTemplate | None
    fn: ResourceFunction
    arguments: Arguments
    name: str
    description: str
    mime_type: str

    @property
    def literal_length(self) -> int:
        """How much of the template is fixed text: the more, the more specific it is."""
        return len(self.uri) if self.template is None else len(self.template.expand({}))


@dataclass(frozen=True)
class _BoardPrompt:
    fn: PromptFunction
    arguments: Arguments
    published: Prompt


@dataclass
class _Connection:
    """What belongs to one legacy connection; modern requests have none."""

    subscriber: Subscriber | None = None
    sender: asyncio.Task[None] | None = None
    agent: str | None = None


@dataclass
class _StdioRun:
    """The one client of a stdio process; its name is settled once."""

    agent: str | None = None


_stdio_run: ContextVar[_StdioRun | None] = ContextVar("blackboard_stdio_run", default=None)


class _Bus:
    """The SDK's fan-out seam, leading into the hub; its own listeners are not used."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def publish(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            self._hub.publish((event.uri,))

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        raise NotImplementedError("listen streams are served by the hub")


class _SdkServer(MCPServer[Any]):
    """The SDK's server with our registries in the place of its own."""

    def __init__(self, board: BoardServer, hub: Hub, **settings: Any) -> None:
        self._board = board
        super().__init__(subscriptions=_Bus(hub), **settings)

    async def list_tools(self) -> list[Tool]:
        return self._board.published_tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult:
        if context is None:
            raise TypeError("tools are called by a client")
        return await self._board._call_tool(name, arguments, context.request_context)

    async def list_resources(self) -> list[Resource]:
        return self._board.published_resources

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        return self._board.published_templates

    async def read_resource(
        self, uri: Any, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        if context is None:
            raise TypeError("resources are read by a client")
        text, mime_type = await self._board._read_resource(str(uri), context.request_context)
        return [ReadResourceContents(content=text, mime_type=mime_type)]

    async def list_prompts(self) -> list[Prompt]:
        return self._board.published_prompts

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult:
        if context is None:
            raise TypeError("prompts are asked for by a client")
        return await self._board._get_prompt(name, arguments or {}, context.request_context)


class BoardServer:
    """Our tools, resources and prompts, served by the SDK over stdio and HTTP to both generations.

    Args:
        identify: the name of the caller behind a connection. Over HTTP it is asked for every
            request, before anything else, and what it raises is the HTTP answer; over stdio once.
        structured: `"ask"` sends structured content to requests whose `_meta` has
            `"blackboard/structured": true`; `"always"` to all, with output schemas.
        tool_prefix: stands before every tool name.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        instructions: str,
        identify: Identify,
        structured: Literal["ask", "always"] = "ask",
        tool_prefix: str = "",
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.identify = identify
        self.tool_prefix = tool_prefix
        self.ready = False
        self._always = structured == "always"
        self._tools: dict[str, _BoardTool] = {}
        self._static: dict[str, _BoardResource] = {}
        self._templates: list[_BoardResource] = []
        self._prompts: dict[str, _BoardPrompt] = {}
        self._complete: CompletionFunction | None = None
        self._may_subscribe: SubscribeHook | None = None
        self._before_call: CallHook | None = None
        self._closing: list[Callable[[], None]] = []
        self._hub = Hub()
        with _untouched_logging():
            self._sdk = _SdkServer(
                self,
                self._hub,
                name=name,
                version=version,
                instructions=instructions,
                cache_hints=_CACHE_HINTS,
            )
        self._adjust_sdk()

    def _adjust_sdk(self) -> None:
        server = self._sdk._lowlevel_server
        # Tracing would cost 39 µs a call and export nowhere.
        server.middleware[:] = [m for m in server.middleware if type(m).__name__ != "OpenTelemetryMiddleware"]
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        original = server.create_initialization_options

        def with_list_changes(*_: Any, **settings: Any) -> InitializationOptions:
            settings.pop("notification_options", None)
            return original(NotificationOptions(True, True, True), **settings)

        server.create_initialization_options = with_list_changes  # type: ignore[method-assign]

    # What is served

    def tool(
        self,
        fn: ToolFunction,
        *,
        name: str,
        description: str,
        annotations: ToolAnnotations,
        output: type[BaseModel] | None = None,
    ) -> None:
        """Serve `async def fn(caller, <annotated parameters>) -> Answer`.

        Raises:
            TypeError: a parameter without an annotation, or a string or list without a bound.
            ValueError: the name is taken.
        """
        full_name = f"{self.tool_prefix}{name}"
        if full_name in self._tools:
            raise ValueError(f"tool {full_name!r} exists already")
        arguments = Arguments(full_name, fn)
        published = Tool(
            name=full_name,
            description=description,
            input_schema=arguments.schema,
            annotations=annotations,
            output_schema=_output_schema(output) if self._always and output is not None else None,
        )
        self._tools[full_name] = _BoardTool(fn, arguments, published, annotations.read_only_hint is True)

    def resource(
        self, uri_template: str, fn: ResourceFunction, *, name: str, description: str, mime_type: str
    ) -> None:
        """Serve `async def fn(caller, <template variables>) -> str` at a URI or RFC 6570 template.

        A URI that several templates match goes to the one with the most fixed text. Query variables
        (`{?after}`) need a default. What a resource does not have it says by `UnknownReference`.
        """
        template = UriTemplate.parse(uri_template) if UriTemplate.is_template(uri_template) else None
        arguments = Arguments(name, fn, lenient=True)
        variables = set(template.variable_names) if template else set()
        if variables != set(arguments.names):
            raise TypeError(
                f"{uri_template} has {sorted(variables)}, its function takes {sorted(arguments.names)}"
            )
        served = _BoardResource(uri_template, template, fn, arguments, name, description, mime_type)
        if template is None:
            self._static[uri_template] = served
        else:
            self._templates.append(served)
            self._templates.sort(key=lambda entry: -entry.literal_length)

    def prompt(self, fn: PromptFunction, *, name: str, description: str) -> None:
        """Serve `async def fn(caller, <string parameters>) -> str` as a prompt of one user message."""
        arguments = Arguments(name, fn, lenient=True)
        properties = arguments.schema["properties"]
        required = set(arguments.schema.get("required", ()))
        published = Prompt(
            name=name,
            description=description,
            arguments=[
                PromptArgument(
                    name=key, description=properties[key].get("description"), required=key in required
                )
                for key in arguments.names
            ],
        )
        self._prompts[name] = _BoardPrompt(fn, arguments, published)

    def completion(self, fn: CompletionFunction) -> None:
        """Complete arguments: `fn(caller, template or prompt name, argument, typed so far, other arguments)`.

        At most `MAX_COMPLETIONS` of the values are sent.
        """
        self._complete = fn
        self._sdk._lowlevel_server.add_request_handler(
            "completion/complete", CompleteRequestParams, self._handle_completion
        )

    def on_subscribe(self, hook: SubscribeHook) -> None:
        """Ask `hook(caller, uri)` before anybody hears of changes of a known resource.

        Without a hook every URI that a resource or a template matches may be subscribed to.
        """
        self._may_subscribe = hook

    def on_call(self, hook: CallHook) -> None:
        """Await `hook(caller)` before each tool's work; what it raises is the call's answer."""
        self._before_call = hook

    def on_close(self, hook: Callable[[], None]) -> None:
        """Call `hook()` when streams must end because the server stops."""
        self._closing.append(hook)

    async def publish(self, uris: Iterable[str]) -> None:
        """Tell the subscribers of both generations that these resources changed.

        Never waits for a reader. Publishing one URI again before it was sent changes nothing.
        """
        self._hub.publish(uris)

    def subscribed_uris(self) -> list[str]:
        """Every URI that somebody wants to hear of now, by either generation."""
        return list(self._hub.by_uri)

    @property
    def sdk_server(self) -> MCPServer[Any]:
        """The SDK's server: for its in-memory client in tests, and for nothing else."""
        return self._sdk

    @property
    def published_tools(self) -> list[Tool]:
        return [tool.published for tool in self._tools.values()]

    @property
    def published_resources(self) -> list[Resource]:
        return [
            Resource(uri=entry.uri, name=entry.name, description=entry.description, mime_type=entry.mime_type)
            for entry in self._static.values()
        ]

    @property
    def published_templates(self) -> list[ResourceTemplate]:
        return [
            ResourceTemplate(
                uri_template=entry.uri,
                name=entry.name,
                description=entry.description,
                mime_type=entry.mime_type,
            )
            for entry in self._templates
        ]

    @property
    def published_prompts(self) -> list[Prompt]:
        return [prompt.published for prompt in self._prompts.values()]

    def schema_tokens(self) -> dict[str, int]:
        """o200k tokens of each tool as it is sent: name, description, schema, annotations."""
        return {
            tool.name: schema_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True))
            for tool in self.published_tools
        }

    # How it is served

    async def run_stdio(self, *, input_fd: int | None = None, output_fd: int | None = None) -> None:
        """Serve one client over standard input and output until its input ends."""
        server = self._sdk._lowlevel_server
        token = _stdio_run.set(_StdioRun())
        async with stdio_streams(input_fd=input_fd, output_fd=output_fd) as (read_stream, write_stream):
            self.ready = True
            try:
                await server.run(read_stream, write_stream, server.create_initialization_options())
            finally:
                self.ready = False
                _stdio_run.reset(token)

    def asgi(
        self,
        *,
        allowed_hosts: Collection[str],
        allowed_origins: Collection[str],
        routes: Sequence[BaseRoute] = (),
        lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None,
        max_body_bytes: int = 4 * 1024 * 1024,
        body_timeout_seconds: float = 20.0,
    ) -> Starlette:
        """An application with the MCP endpoint of both generations at `/mcp`, and `/healthz`.

        Hosts and origins are compared exactly, on every route, `routes` included. `lifespan` is
        entered before requests are served and left after the last of them. One application a server.
        """
        from blackboard_mcp.server.http.application import build_application
        from blackboard_mcp.server.http.sessions import IdentifiedEndpoint

        self._sdk.streamable_http_app(
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=max_body_bytes,
        )
        manager = self._sdk.session_manager

        async def end_session(session_id: str) -> None:
            transport = manager._server_instances.get(session_id)
            if transport is not None:
                await transport.terminate()

        endpoint = IdentifiedEndpoint(
            StreamableHTTPASGIApp(manager),
            identify=lambda headers: self.identify(ConnectionInfo("http", headers, None)),
            end_session=end_session,
            is_live=lambda session_id: session_id in manager._server_instances,
            agent_scope_key=AGENT_SCOPE_KEY,
            gone_scope_key=GONE_SCOPE_KEY,
        )

        @asynccontextmanager
        async def readiness() -> AsyncIterator[None]:
            self.ready = True
            try:
                yield
            finally:
                self.ready = False

        return build_application(
            endpoint,
            is_ready=lambda: self.ready,
            lifespans=[*([lifespan] if lifespan is not None else []), manager.run, readiness],
            routes=routes,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            max_body_bytes=max_body_bytes,
            body_timeout_seconds=body_timeout_seconds,
        )

    async def close_streams(self) -> None:
        """End every open notification stream, so that a server can stop; calls under way go on."""
        self.ready = False
        self._hub.close()
        for hook in self._closing:
            hook()
        manager = self._sdk._lowlevel_server._session_manager
        if manager is not None:
            for transport in list(manager._server_instances.values()):
                transport.close_standalone_sse_stream()

    # Callers

    def _caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        meta = (ctx.params or {}).get("_meta")
        asked = isinstance(meta, Mapping) and meta.get(STRUCTURED_META_KEY) is True
        over_http = ctx.request is not None
        return Caller(
            agent=self._http_agent(ctx) if over_http else self._stream_agent(ctx),
            transport="http" if over_http else "stdio",
            structured=asked or self._always,
            headers=ctx.request.headers if ctx.request is not None else {},
            report=ctx.session.report_progress,
        )

    def _http_agent(self, ctx: ServerRequestContext[Any, Any]) -> str:
        assert ctx.request is not None
        agent = ctx.request.scope.get(AGENT_SCOPE_KEY)
        if not isinstance(agent, str):
            raise MCPError(INTERNAL_ERROR, "the request was not identified")
        return agent

    def _stream_agent(self, ctx: ServerRequestContext[Any, Any]) -> str:
        run = _stdio_run.get()
        if run is not None and run.agent is not None:
            return run.agent
        client = ctx.session.client_params
        info = ConnectionInfo("stdio", {}, client.client_info.name if client is not None else None)
        try:
            agent = self.identify(info)
        except BlackboardError as exc:
            raise MCPError(INVALID_PARAMS, exc.message, data={"error": exc.code, **exc.facts}) from exc
        if run is not None:
            run.agent = agent
        return agent

    # Requests

    async def _call_tool(
        self, name: str, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> CallToolResult:
        tool = self._tools.get(name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS, f"unknown tool {name[:64]!a}; the tools are: {', '.join(self._tools)}"
            )
        caller = self._caller(ctx)
        gone = _gone_event(ctx) if tool.read_only else None
        if gone is None:
            return await self._run_tool(tool, caller, arguments)
        # The legacy transport leaves a call running after its client dropped. What only reads has
        # nothing left to do then.
        result: CallToolResult | None = None
        failure: MCPError | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await gone.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            try:
                result = await self._run_tool(tool, caller, arguments)
            except MCPError as exc:
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if result is None:
            raise MCPError(_REQUEST_CANCELLED, "the client is gone")
        return result

    async def _run_tool(
        self, tool: _BoardTool, caller: Caller, arguments: Mapping[str, Any]
    ) -> CallToolResult:
        try:
            if self._before_call is not None:
                await self._before_call(caller)
            answer = await tool.fn(caller, **tool.arguments.check(arguments))
            structured = _document(answer.structured) if caller.structured else None
        except MCPError:
            raise
        except BlackboardError as exc:
            return _error_result(exc.code, exc.message, exc.facts, structured=caller.structured)
        except Exception:
            reference, message = _internal_error(f"tool {tool.published.name}")
            return _error_result("internal", message, {"reference": reference}, structured=caller.structured)
        return CallToolResult(
            content=[TextContent(type="text", text=_sendable(answer.text))], structured_content=structured
        )

    def _find_resource(self, uri: str) -> tuple[_BoardResource, dict[str, Any]] | None:
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

    async def _read_resource(self, uri: str, ctx: ServerRequestContext[Any, Any]) -> tuple[str, str]:
        found = self._find_resource(uri)
        if found is None:
            raise ResourceNotFoundError(
                f"no resource at {uri[:200]!a}; resources/templates/list names what there is"
            )
        entry, values = found
        try:
            text = await entry.fn(self._caller(ctx), **entry.arguments.check(values))
        except (MCPError, ResourceError):
            raise
        except UnknownReference as exc:
            raise ResourceNotFoundError(_sendable(exc.message)) from exc
        except BlackboardError as exc:
            raise _protocol_error(exc, uri=uri) from exc
        except Exception as exc:
            reference, message = _internal_error(f"resource {entry.name}")
            raise MCPError(INTERNAL_ERROR, message, data={"uri": uri, "reference": reference}) from exc
        return _sendable(text), entry.mime_type

    async def _get_prompt(
        self, name: str, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> GetPromptResult:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise MCPError(
                INVALID_PARAMS, f"unknown prompt {name[:64]!a}; there are: {', '.join(self._prompts)}"
            )
        try:
            text = await prompt.fn(self._caller(ctx), **prompt.arguments.check(arguments))
        except MCPError:
            raise
        except BlackboardError as exc:
            raise _protocol_error(exc) from exc
        except Exception as exc:
            _, message = _internal_error(f"prompt {name}")
            raise MCPError(INTERNAL_ERROR, message) from exc
        content = TextContent(type="text", text=_sendable(text))
        return GetPromptResult(
            description=prompt.published.description, messages=[PromptMessage(role="user", content=content)]
        )

    async def _handle_completion(
        self, ctx: ServerRequestContext[Any, Any], params: CompleteRequestParams
    ) -> CompleteResult:
        assert self._complete is not None
        reference = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        others = (params.context.arguments if params.context is not None else None) or {}
        try:
            if len(params.argument.value) > MAX_URI_LENGTH:
                raise InvalidInput(f"complete at most {MAX_URI_LENGTH} characters")
            refuse_monsters("completion", [reference, params.argument.name, params.argument.value, others])
            values = await self._complete(
                self._caller(ctx), reference, params.argument.name, params.argument.value, others
            )
        except MCPError:
            raise
        except BlackboardError as exc:
            raise _protocol_error(exc) from exc
        except Exception as exc:
            _, message = _internal_error("completion")
            raise MCPError(INTERNAL_ERROR, message) from exc
        shown = [_sendable(value) for value in values[:MAX_COMPLETIONS]]
        return CompleteResult(
            completion=Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
        )

    # Subscriptions

    async def _authorised(self, caller: Caller, uri: str) -> bool:
        if self._find_resource(uri) is None:
            return False
        if self._may_subscribe is None:
            return True
        try:
            return await self._may_subscribe(caller, uri)
        except BlackboardError:
            return False

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """The modern stream: this request's answer is held open and carries the notifications."""
        caller = self._caller(ctx)
        wanted = params.notifications.resource_subscriptions or []
        if len(wanted) > 4 * 256:
            raise MCPError(INVALID_PARAMS, "too many resources in one stream")
        uris = [uri for uri in dict.fromkeys(wanted) if await self._authorised(caller, uri)]
        try:
            subscriber = self._hub.add(caller.agent, uris)
        except TooManySubscriptions as exc:
            raise MCPError(INVALID_PARAMS, str(exc)) from exc
        honored = SubscriptionFilter(
            tools_list_changed=True if params.notifications.tools_list_changed else None,
            prompts_list_changed=True if params.notifications.prompts_list_changed else None,
            resources_list_changed=True if params.notifications.resources_list_changed else None,
            resource_subscriptions=uris or None,
        )
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}

        async def send(uri: str) -> None:
            await ctx.session.send_notification(
                ResourceUpdatedNotification(params=ResourceUpdatedNotificationParams(uri=uri, _meta=meta)),
                related_request_id=ctx.request_id,
            )

        try:
            # Subscribed before the acknowledgement: a change meanwhile is pending, not lost.
            await ctx.session.send_notification(
                SubscriptionsAcknowledgedNotification(
                    params=SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
                ),
                related_request_id=ctx.request_id,
            )
            await subscriber.run(send)
        except TimeoutError as exc:
            raise MCPError(INTERNAL_ERROR, "the stream was not read; listen again and read anew") from exc
        finally:
            self._hub.remove(subscriber)
        return SubscriptionsListenResult(_meta=meta)

    async def _subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        """The legacy way: notifications travel on the session's standing stream."""
        caller = self._caller(ctx)
        uri = str(params.uri)
        if not await self._authorised(caller, uri):
            raise MCPError(
                INVALID_PARAMS, f"no resource at {uri[:200]!a} to subscribe to", data={"uri": uri[:200]}
            )
        connection = ctx.session._connection
        state: _Connection = connection.state.setdefault(_CONNECTION_KEY, _Connection())
        try:
            if state.subscriber is None or state.subscriber.closed:
                subscriber = state.subscriber = self._hub.add(caller.agent, (uri,))
                state.sender = asyncio.create_task(self._send_legacy(ctx.session, subscriber))
                connection.exit_stack.push_async_callback(self._end_legacy, state)
            else:
                state.subscriber.want((uri,))
        except TooManySubscriptions as exc:
            raise MCPError(INVALID_PARAMS, str(exc)) from exc
        return EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        state = ctx.session._connection.state.get(_CONNECTION_KEY)
        if isinstance(state, _Connection) and state.subscriber is not None:
            state.subscriber.unwant(str(params.uri))
        return EmptyResult()

    async def _send_legacy(self, session: ServerSession, subscriber: Subscriber) -> None:
        try:
            await subscriber.run(session.send_resource_updated)
        except TimeoutError:
            logger.warning("a legacy client of %s stopped reading; its subscriptions ended", subscriber.agent)
        except Exception:
            logger.exception("a legacy subscription ended")
        finally:
            self._hub.remove(subscriber)

    async def _end_legacy(self, state: _Connection) -> None:
        if state.subscriber is not None:
            self._hub.remove(state.subscriber)
        if state.sender is not None:
            state.sender.cancel()
            await asyncio.wait([state.sender])


def _gone_event(ctx: ServerRequestContext[Any, Any]) -> asyncio.Event | None:
    """Set when the HTTP response of a legacy call can no longer reach its client."""
    if ctx.request is None or ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    event = ctx.request.scope.get(GONE_SCOPE_KEY)
    return event if isinstance(event, asyncio.Event) else None


def _document(structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]) -> dict[str, Any]:
    if callable(structured):
        structured = structured()
    if isinstance(structured, BaseModel):
        return structured.model_dump(mode="json", by_alias=True)
    return dict(structured)


def _error_result(code: str, message: str, facts: Mapping[str, Any], *, structured: bool) -> CallToolResult:
    text = _sendable(message)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={**facts, "error": code, "message": text} if structured else None,
        is_error=True,
    )


def _protocol_error(exc: BlackboardError, **data: Any) -> MCPError:
    code = INVALID_PARAMS if isinstance(exc, InvalidInput) else INTERNAL_ERROR
    return MCPError(code, _sendable(exc.message), data={**exc.facts, **data, "error": exc.code})


def _internal_error(what: str) -> tuple[str, str]:
    """Log the exception being handled; its reference and what the client may know of it."""
    reference = secrets.token_hex(3)
    logger.exception("internal error %s in %s", reference, what)
    return (
        reference,
        f"Internal error (reference {reference}); nothing more was done. Read before trying again.",
    )


def _sendable(text: str) -> str:
    """The text with what no wire can carry replaced; ours never has any, a driver's message might."""
    return text if is_clean_text(text) else text.replace("\0", "").encode("utf-8", "replace").decode()


def _output_schema(output: type[BaseModel]) -> dict[str, Any]:
    schema = compact_schema(output.model_json_schema(mode="serialization", by_alias=True), nulls=True)
    definitions = schema.pop("$defs", None)
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
        "required": ["error", "message"],
    }
    # Clients check structured errors against this schema too.
    result: dict[str, Any] = {"type": "object", "anyOf": [schema, error]}
    if definitions:
        result["$defs"] = definitions
    return result


class _untouched_logging:
    """The SDK configures the root logger on construction, and imports rich to do it: neither is wanted."""

    def __enter__(self) -> None:
        self._configure = sdk_module.configure_logging  # type: ignore[attr-defined]
        sdk_module.configure_logging = lambda *_: None  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        sdk_module.configure_logging = self._configure  # type: ignore[attr-defined]
