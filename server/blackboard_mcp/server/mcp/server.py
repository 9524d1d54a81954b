"""The boundary between the MCP SDK and our tools, resources and prompts.

Knows the SDK (2.3), its two protocol generations and their transports, and nothing of boards. Only this
folder touches the SDK's internals: a tool takes a `Caller` and typed arguments and returns an `Answer`, a
resource returns text, and one `publish` reaches clients of both generations.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from blackboard_mcp.protocols.access import Action, Principal
from blackboard_mcp.protocols.values import dataclass
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
from blackboard_mcp.server.tools.tool import Quick, ToolSet
from blackboard_mcp.server.tools.tool import Tool as ServedTool
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
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
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_METHOD, _NAME, _VERSION, _ACCEPT = _ROUTING = (
    b"mcp-method",
    b"mcp-name",
    b"mcp-protocol-version",
    b"accept",
)
_SMALL = 16_384
"""Bytes of a body up to which it is looked into before the SDK reads it."""


def _arguments(body: bytes) -> Mapping[str, Any]:
    """Returns the arguments of a call by its body; none where it is large or says no such thing."""
    try:
        found = json.loads(body)["params"]["arguments"] if len(body) <= _SMALL else None
    except (ValueError, LookupError, TypeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _again(message: Message, receive: Receive) -> Receive:
    """Returns a `receive` that delivers a message that was read already, and then goes on."""
    first = [message]

    async def deliver() -> Message:
        return first.pop() if first else await receive()

    return deliver


@dataclass(frozen=True, slots=True)
class HttpSessions:
    """The SDK's HTTP endpoint and functions to control its sessions."""

    endpoint: ASGIApp
    run: Callable[[], AbstractAsyncContextManager[None]]
    """Returns a context that must be entered before the first request and left after the last."""
    end: Callable[[str], Awaitable[None]]
    """Ends the session with this id, if there is one."""
    is_live: Callable[[str], bool]
    opened_by: Callable[[str | None], bool]
    """Tells whether a request of this protocol version opens a session."""
    gone_key: str
    """The key in a request's scope that holds an event, set when the client has disconnected."""


class BoardServer:
    """A server of our tools, resources and prompts over stdio and HTTP, for both generations of the protocol.

    Args:
        identify: returns the principal behind a connection. Over HTTP it runs first for every request on every
            route but `/healthz`, and an error it raises becomes the HTTP answer; over stdio it runs once.
        structured: `"ask"` sends structured content to requests whose `_meta` has
            `"blackboard/structured": true`; `"always"` to all, with output schemas.
        arguments: `"common"` publishes the arguments that most calls need, `"all"` each that is accepted.
        tools: the tools to serve; more may be added before serving starts.
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
        arguments: Literal["common", "all"] = "common",
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
        self._always = always = structured == "always"
        self._callers = Callers(lambda connection: self.identify(connection), always_structured=always)
        admission = self.admission = Admission(self._callers, self.limits)
        self._door = self.tools.door
        self._tools = ServedTools(
            self.tools, self._callers, admission, output_schemas=always, whole=arguments == "all"
        )
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
        by_reader: bool = False,
    ) -> None:
        """Serves `async def fn(caller, <template variables>) -> str` at a URI or RFC 6570 template.

        A caller who has the rights in `needs`, on the board in the variable `board`, may read it and hear of
        its changes; where the resource is `by_reader`, of those alone that change the text for the caller.

        A URI that several templates match goes to the one with the most fixed text. Query variables
        (`{?after}`) need a default. `fn` raises `UnknownReference` when the resource does not exist.
        """
        self._resources.add(
            uri_template,
            fn,
            name=name,
            description=description,
            mime_type=mime_type,
            needs=needs,
            by_reader=by_reader,
        )

    def on_list(self, hook: ListHook) -> None:
        """Sets `hook(caller)`, which returns the resources to list for that caller beside those without a template.

        The server then promises clients news of changes to their list: publish `RESOURCE_LIST` when lists may
        have changed.
        """
        self._resources.listing = hook

    def prompt(
        self, fn: PromptFunction, *, name: str, description: str, needs: Needs, title: str | None = None
    ) -> None:
        """Serves `async def fn(caller, <string parameters>) -> str` as a prompt of one user message.

        A caller needs the rights in `needs` on the board in the parameter `board`.
        """
        self._prompts.add(fn, name=name, title=title, description=description, needs=needs)

    def completion(self, fn: CompletionFunction) -> None:
        """Sets the function that completes arguments.

        It is called as `fn(caller, template or prompt name, argument, typed so far, other arguments)`; at
        most 100 of its values are sent.
        """
        self._sdk._lowlevel_server.add_request_handler(
            "completion/complete", CompleteRequestParams, Completions(self._callers, self._door, fn).complete
        )

    def on_subscribe(self, hook: SubscribeHook) -> None:
        """Sets `hook(caller, uri)`, which tells whether a caller may hear of changes to a known resource.

        Without a hook, a caller may subscribe to every resource that it may read.
        """
        self._subscriptions.may_subscribe = hook

    def on_call(self, hook: CallHook) -> None:
        """Sets `hook(caller)`, awaited before each tool runs; an error it raises is the call's answer."""
        self._tools.before_call = hook

    def on_error(self, hook: FooterHook) -> None:
        """Sets `hook(caller, arguments)`, which returns the last line of an error's text.

        The line is left out when the hook fails or takes longer than two seconds.
        """
        self._tools.error_footer = hook

    def on_health(self, hook: Callable[[], Awaitable[str | None]]) -> None:
        """Sets `hook()`, awaited by health checks: it returns why the store cannot serve, or `None` if it can."""
        self._trouble = hook

    def on_close(self, hook: Callable[[], None]) -> None:
        """Adds `hook()`, called when streams must end because the server stops."""
        self._closing.append(hook)

    def while_serving(self, work: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Adds a context that is entered before the first HTTP request and left after the last."""
        self.serving.append(work)

    def protect(self, resource: ProtectedResource) -> None:
        """Sets the metadata that tells HTTP clients whose tokens are accepted, and which scopes a call lacks."""
        self.protected = resource

    async def publish(self, uris: Iterable[str], *, agent: str | None = None) -> None:
        """Notifies subscribers of both generations that these resources changed; with `agent`, only that agent's.

        Never waits for a reader. A URI that is already pending is sent only once.
        """
        self._hub.publish(uris, agent)

    @property
    def heard(self) -> asyncio.Event:
        """An event that is set while any URI has a subscriber."""
        return self._hub.heard

    def subscribed_uris(self) -> list[str]:
        """Returns every URI that has a subscriber now."""
        return list(self._hub.by_uri)

    def subscribed_agents(self) -> set[str]:
        """Returns the names of all agents that have a subscription now."""
        return self._hub.agents()

    @property
    def sdk_server(self) -> MCPServer[Any]:
        """The SDK's server, only for its in-memory client in tests."""
        return self._sdk

    def needs_of(self, tool: str, arguments: Mapping[str, Any]) -> frozenset[Action]:
        """Returns the rights that a call with these arguments needs; empty if there is no such tool."""
        needs = self.needs.get(tool)
        return frozenset() if needs is None else needs.of(arguments)

    @property
    def needs(self) -> dict[str, Needs]:
        """The rights that calls need, by the name of the tool."""
        return self._tools.needs

    @property
    def published_tools(self) -> list[Tool]:
        """The tools as clients list them."""
        return self._tools.published

    def whole_schema(self, tool: str) -> dict[str, Any]:
        """Returns the JSON schema of all of a tool's arguments, including those left out of the published one.

        Raises:
            KeyError: there is no such tool.
        """
        return self._tools.whole_schema(tool)

    @property
    def published_resources(self) -> list[Resource]:
        """The resources that are listed for every caller."""
        return self._resources.published

    @property
    def published_templates(self) -> list[ResourceTemplate]:
        """The templates of resources as clients list them."""
        return self._resources.published_templates

    @property
    def published_prompts(self) -> list[Prompt]:
        """The prompts as clients list them."""
        return self._prompts.published

    def schema_tokens(self) -> dict[str, int]:
        """Returns the size of each tool in o200k tokens, by tool name.

        Counted is the text that a model gets: name, description and schema.
        """
        for_people = {"title", "annotations"}
        return {
            tool.name: schema_tokens(
                tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=for_people)
            )
            for tool in self.published_tools
        }

    # How it is served

    async def run_stdio(self, *, input_fd: int | None = None, output_fd: int | None = None) -> None:
        """Serves one client over standard input and output, or the given descriptors, until its input ends."""
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
        """Returns the SDK's HTTP endpoint with its sessions. May be called once for each server."""
        from blackboard_mcp.server.mcp.plain_calls import PlainCalls, plain_call  # needless over stdio

        self._sdk.streamable_http_app(
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=self.limits.body_bytes,
            max_sessions=self.limits.sessions,
            session_idle_timeout=self.limits.session_idle_seconds,
        )
        manager = self._sdk.session_manager
        # The SDK's mode without streams: no tasks, channel and watch for each request. Only the modern generation and
        # quick calls get to it, which never send news before their answer.
        quick = StreamableHTTPSessionManager(
            self._sdk._lowlevel_server,
            json_response=True,
            stateless=True,
            security_settings=manager.security_settings,
            max_request_body_size=self.limits.body_bytes,
        )

        plain = PlainCalls(self._tools, self._sdk._lowlevel_server.server_info_stamp)

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            tool = self._called(scope["headers"])
            is_quick: Quick = False
            if tool is not None and tool.quick is not False:
                message = await receive()
                body = message.get("body", b"")
                plainly = len(body) <= _SMALL and not self._always
                call = plain_call(tool, scope, body) if plainly else None
                if call is not None:
                    await plain.answer(call, send)
                    return
                is_quick = tool.quick(_arguments(body)) if callable(tool.quick) else True
                receive = _again(message, receive)
            chosen = quick if is_quick else manager
            await chosen.handle_request(scope, receive, send)

        @asynccontextmanager
        async def run() -> AsyncIterator[None]:
            async with manager.run(), quick.run():
                yield

        async def end(session_id: str) -> None:
            transport = manager._server_instances.get(session_id)
            if transport is not None:
                await transport.terminate()

        return HttpSessions(
            endpoint=endpoint,
            run=run,
            end=end,
            is_live=lambda session_id: session_id in manager._server_instances,
            opened_by=self.opens_session,
            gone_key=GONE_SCOPE_KEY,
        )

    @staticmethod
    def opens_session(version: str | None) -> bool:
        """Tells whether a request over HTTP of this protocol version, without a session, opens one."""
        return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS

    def _called(self, headers: Iterable[tuple[bytes, bytes]]) -> ServedTool | None:
        """Returns the tool that the headers name for a call of the modern generation, whose client takes streams.

        Where they do not say what the body says, the SDK refuses the request either way.
        """
        told = {name: value for name, value in headers if name in _ROUTING}
        if told.get(_METHOD) != b"tools/call" or b"text/event-stream" not in told.get(_ACCEPT, b""):
            return None
        version, name = told.get(_VERSION), told.get(_NAME)
        if version is None or name is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS:
            return None
        return self.tools.find(name.decode("latin-1"))

    async def trouble(self) -> str | None:
        """Returns why the store cannot serve, or `None` if it can."""
        return None if self._trouble is None else await self._trouble()

    async def principal_behind(self, headers: Mapping[str, str]) -> Principal:
        """Returns the principal who sends an HTTP request with these headers (lower-case names).

        Raises:
            BlackboardError: the headers show no one who is allowed in.
        """
        return await principal_of(self.identify, ConnectionInfo("http", headers, None))

    async def close_streams(self) -> None:
        """Ends every open notification stream so that the server can stop; calls under way continue."""
        self.ready = False
        self._hub.close()
        for hook in self._closing:
            hook()
        manager = self._sdk._lowlevel_server._session_manager
        if manager is not None:
            for transport in list(manager._server_instances.values()):
                transport.close_standalone_sse_stream()
