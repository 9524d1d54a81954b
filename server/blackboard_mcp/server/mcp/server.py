"""The one door between the MCP SDK and our tools, resources and prompts.

Knows the SDK (2.3), its two protocol generations and their wires, and nothing of boards. Nothing
outside this folder touches the SDK's internals: a tool gets a `Caller` and typed arguments and
returns an `Answer`, a resource returns text, and a change is published once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal

from blackboard_mcp.protocols.access import Action, Principal
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.server.access.door import EnterHook
from blackboard_mcp.server.access.needs import Needs
from blackboard_mcp.server.input.arguments import schema_tokens
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp.admission import Admission
from blackboard_mcp.server.mcp.callers import Callers, ConnectionInfo, Identify, one_client, principal_of
from blackboard_mcp.server.mcp.prompts import CompletionFunction, Completions, PromptFunction, ServedPrompts
from blackboard_mcp.server.mcp.resources import ListHook, ResourceFunction, ServedResources
from blackboard_mcp.server.mcp.sdk import sdk_server
from blackboard_mcp.server.mcp.stdio import stdio_streams
from blackboard_mcp.server.mcp.streams import Hub
from blackboard_mcp.server.mcp.subscriptions import HubBus, SubscribeHook, Subscriptions
from blackboard_mcp.server.mcp.tools import GONE_SCOPE_KEY, CallHook, FooterHook, ServedTools
from blackboard_mcp.server.tools.tool import ToolSet
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import (
    CompleteRequestParams,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from blackboard_mcp.server.http.auth.resource_metadata import ProtectedResource
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class HttpSessions:
    """The SDK's endpoint for HTTP, and what may be asked of its sessions."""

    endpoint: ASGIApp
    run: Callable[[], AbstractAsyncContextManager[None]]
    """Entered before the first request and left after the last."""
    end: Callable[[str], Awaitable[None]]
    """Ends the session of an id, if there is one."""
    is_live: Callable[[str], bool]
    opened_by: Callable[[str | None], bool]
    """Whether a request of this protocol version opens a session."""
    gone_key: str
    """The key of a request's scope under which it says that its client is gone."""


class BoardServer:
    """Our tools, resources and prompts, served by the SDK over stdio and HTTP to both generations.

    Args:
        identify: the principal behind a connection. Over HTTP it is asked for every request, on every
            route but `/healthz`, before anything else, and what it raises is the HTTP answer; over stdio once.
        structured: `"ask"` sends structured content to requests whose `_meta` has
            `"blackboard/structured": true`; `"always"` to all, with output schemas.
        tools: what it serves; more may be added until it is served.
        limits: bounds of requests, streams and sessions.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        instructions: str,
        identify: Identify,
        structured: Literal["ask", "always"] = "ask",
        tools: ToolSet | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.identify = identify
        self.tools = tools or ToolSet()
        self.limits = limits or Limits()
        self.ready = False
        self._trouble: Callable[[], Awaitable[str | None]] | None = None
        always = structured == "always"
        self._callers = Callers(lambda connection: self.identify(connection), always_structured=always)
        admission = Admission(self._callers, self.limits)
        self._door = self.tools.door
        self._tools = ServedTools(self.tools, self._callers, admission, output_schemas=always)
        self._resources = ServedResources(self._callers, self._door)
        self._prompts = ServedPrompts(self._callers, self._door)
        self._hub = Hub(self.limits)
        self._subscriptions = Subscriptions(self._hub, self._callers, self._resources)
        self._closing: list[Callable[[], None]] = []
        self.protected: ProtectedResource | None = None
        self.serving: list[Callable[[], AbstractAsyncContextManager[None]]] = []
        self._sdk = sdk_server(
            self._tools,
            self._resources,
            self._prompts,
            HubBus(self._hub),
            name=name,
            version=version,
            instructions=instructions,
        )
        self._sdk.listed = self._subscriptions.listed
        self._sdk._lowlevel_server.middleware.append(admission.of_requests)
        self._subscriptions.register(self._sdk._lowlevel_server)

    # What is served

    def resource(
        self,
        uri_template: str,
        fn: ResourceFunction,
        *,
        name: str,
        description: str,
        mime_type: str,
        needs: Needs,
    ) -> None:
        """Serve `async def fn(caller, <template variables>) -> str` at a URI or RFC 6570 template.

        Who may read it, and hear of its changes, may do what it `needs` on the board of the variable `board`.

        A URI that several templates match goes to the one with the most fixed text. Query variables
        (`{?after}`) need a default. What a resource does not have it says by `UnknownReference`.
        """
        self._resources.add(
            uri_template, fn, name=name, description=description, mime_type=mime_type, needs=needs
        )

    def on_list(self, hook: ListHook) -> None:
        """Await `hook(caller)` for the resources that the caller's list has beyond those without a template.

        With it clients are promised to be told when their list changes: publish `RESOURCE_LIST` when it may have.
        """
        self._resources.listing = hook

    def prompt(
        self, fn: PromptFunction, *, name: str, description: str, needs: Needs, title: str | None = None
    ) -> None:
        """Serve `async def fn(caller, <string parameters>) -> str` as a prompt of one user message.

        As with tools, who may do what it `needs` on the board of the parameter `board` gets it.
        """
        self._prompts.add(fn, name=name, title=title, description=description, needs=needs)

    def completion(self, fn: CompletionFunction) -> None:
        """Complete arguments: `fn(caller, template or prompt name, argument, typed so far, other arguments)`.

        Of the values at most 100 are sent.
        """
        self._sdk._lowlevel_server.add_request_handler(
            "completion/complete", CompleteRequestParams, Completions(self._callers, self._door, fn).complete
        )

    def on_subscribe(self, hook: SubscribeHook) -> None:
        """Ask `hook(caller, uri)` before anybody hears of changes of a known resource.

        Without a hook every URI that a resource or a template matches may be subscribed to.
        """
        self._subscriptions.may_subscribe = hook

    def on_enter(self, hook: EnterHook) -> None:
        """Await `hook(principal, needs, board)` before each use case: it gives the grant, or raises the answer.

        It is asked again while calls wait. Without a hook everybody may do everything.
        """
        self._door.enter = hook

    def on_call(self, hook: CallHook) -> None:
        """Await `hook(caller)` before each tool's work; what it raises is the call's answer."""
        self._tools.before_call = hook

    def on_error(self, hook: FooterHook) -> None:
        """End the text of each error result in the line `await hook(caller, arguments)`, if it gives one in time."""
        self._tools.error_footer = hook

    def on_health(self, hook: Callable[[], Awaitable[str | None]]) -> None:
        """Await `hook()` when somebody asks for the health: what keeps the store from serving, if anything does."""
        self._trouble = hook

    def on_close(self, hook: Callable[[], None]) -> None:
        """Call `hook()` when streams must end because the server stops."""
        self._closing.append(hook)

    def while_serving(self, work: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Enter `work()` before the first HTTP request and leave it after the last."""
        self.serving.append(work)

    def protect(self, resource: ProtectedResource) -> None:
        """Tell HTTP clients which issuer's tokens are taken here, and which scopes a call lacks."""
        self.protected = resource

    async def publish(self, uris: Iterable[str], *, agent: str | None = None) -> None:
        """Tell the subscribers of both generations, or those of one agent, that these resources changed.

        Never waits for a reader. Publishing one URI again before it was sent changes nothing.
        """
        self._hub.publish(uris, agent)

    def subscribed_uris(self) -> list[str]:
        """Every URI that somebody wants to hear of now, by either generation."""
        return list(self._hub.by_uri)

    def subscribed_agents(self) -> set[str]:
        """Every agent that wants to hear of something now."""
        return self._hub.agents()

    @property
    def sdk_server(self) -> MCPServer[Any]:
        """The SDK's server: for its in-memory client in tests, and for nothing else."""
        return self._sdk

    def needs_of(self, tool: str, arguments: Mapping[str, Any]) -> frozenset[Action]:
        """What a call of a tool needs, whatever its arguments are; nothing where there is no such tool."""
        needs = self.needs.get(tool)
        return frozenset() if needs is None else needs.of(arguments)

    @property
    def needs(self) -> dict[str, Needs]:
        """What calls of each tool need."""
        return self._tools.needs

    @property
    def published_tools(self) -> list[Tool]:
        return self._tools.published

    def whole_schema(self, tool: str) -> dict[str, Any]:
        """The schema of every argument of a tool, those that its published one leaves out as well."""
        return self._tools.whole_schema(tool)

    @property
    def published_resources(self) -> list[Resource]:
        return self._resources.published

    @property
    def published_templates(self) -> list[ResourceTemplate]:
        return self._resources.published_templates

    @property
    def published_prompts(self) -> list[Prompt]:
        return self._prompts.published

    def schema_tokens(self) -> dict[str, int]:
        """o200k tokens of each tool as a model gets it: name, description and schema."""
        for_people = {"title", "annotations"}
        return {
            tool.name: schema_tokens(
                tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=for_people)
            )
            for tool in self.published_tools
        }

    # How it is served

    async def run_stdio(self, *, input_fd: int | None = None, output_fd: int | None = None) -> None:
        """Serve one client over standard input and output until its input ends."""
        server = self._sdk._lowlevel_server
        with one_client():
            async with stdio_streams(
                input_fd=input_fd, output_fd=output_fd, limit=self.limits.line_bytes
            ) as (read_stream, write_stream):
                self.ready = True
                try:
                    await server.run(read_stream, write_stream, server.create_initialization_options())
                finally:
                    self.ready = False

    def http_sessions(self) -> HttpSessions:
        """The SDK's endpoint for HTTP and its sessions; once a server."""
        self._sdk.streamable_http_app(
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=self.limits.body_bytes,
            max_sessions=self.limits.sessions,
            session_idle_timeout=self.limits.session_idle_seconds,
        )
        manager = self._sdk.session_manager

        async def end(session_id: str) -> None:
            transport = manager._server_instances.get(session_id)
            if transport is not None:
                await transport.terminate()

        return HttpSessions(
            endpoint=StreamableHTTPASGIApp(manager),
            run=manager.run,
            end=end,
            is_live=lambda session_id: session_id in manager._server_instances,
            opened_by=lambda version: version is None or version in HANDSHAKE_PROTOCOL_VERSIONS,
            gone_key=GONE_SCOPE_KEY,
        )

    async def trouble(self) -> str | None:
        """What keeps the store from serving, if anything does."""
        return None if self._trouble is None else await self._trouble()

    async def principal_behind(self, headers: Mapping[str, str]) -> Principal:
        """Who sends an HTTP request with these headers (lower-case names).

        Raises:
            BlackboardError: nobody who may come in.
        """
        return await principal_of(self.identify, ConnectionInfo("http", headers, None))

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
