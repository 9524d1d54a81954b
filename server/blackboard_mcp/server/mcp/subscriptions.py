"""Notifications of changes for clients of both generations, fed by one hub.

Modern clients hold a `subscriptions/listen` request open. Legacy clients subscribe to one URI at a time and
are notified on their session's standing stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.limits.concurrency import counted_as
from blackboard_mcp.server.mcp.callers import Callers
from blackboard_mcp.server.mcp.resources import ServedResources
from blackboard_mcp.server.mcp.streams import RESOURCE_LIST, Hub, Subscriber, TooManySubscriptions
from blackboard_mcp.server.tools.tool import Caller
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    Resource,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

logger = logging.getLogger(__name__)

_CONNECTION_KEY: Final = "blackboard"

SubscribeHook = Callable[[Caller, str], Awaitable[bool]]


@dataclass
class _Connection:
    """The subscription state of one legacy connection. Modern requests have none."""

    subscriber: Subscriber | None = None
    sender: asyncio.Task[None] | None = None
    shown: dict[str, object] = field(default_factory=dict)
    """A map from URIs to texts as the client was last shown them, where it is told only of changes to these."""


class HubBus:
    """The SDK's interface for publishing events, which passes them to the hub.

    The SDK's own listeners are not used.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def publish(self, event: ServerEvent) -> None:
        """Passes the change of a resource to the hub; other events are ignored."""
        if isinstance(event, ResourceUpdated):
            self._hub.publish((event.uri,))

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Always raises `NotImplementedError`: the hub serves all streams."""
        raise NotImplementedError("listen streams are served by the hub")


class Subscriptions:
    """The notification streams of one server, and the check of who may subscribe to what.

    `may_subscribe(caller, uri)` is awaited for each known resource; without it, everybody who may read it may
    subscribe.
    """

    def __init__(self, hub: Hub, callers: Callers, resources: ServedResources) -> None:
        self.may_subscribe: SubscribeHook | None = None
        self._hub = hub
        self._callers = callers
        self._resources = resources

    def register(self, server: Server[Any]) -> None:
        """Adds the handlers of subscription requests to the SDK's server."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _authorised(self, caller: Caller, uri: str) -> bool:
        if not await self._resources.heard_by(caller, uri):
            return False
        if self.may_subscribe is None:
            return True
        try:
            return await self.may_subscribe(caller, uri)
        except BlackboardError:
            return False

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serves a modern stream: the request stays open, and its answer carries the notifications."""
        caller = await self._callers.of(ctx)
        wanted = params.notifications.resource_subscriptions or []
        most = self._hub.limits.uris_per_stream
        if len(wanted) > 4 * most:
            raise MCPError(
                INVALID_PARAMS,
                f"a stream takes at most {most} resources, not {len(wanted)} (limit uris_per_stream); listen to fewer",
            )
        uris = [uri for uri in dict.fromkeys(wanted) if await self._authorised(caller, uri)]
        lists = bool(params.notifications.resources_list_changed) and self._resources.listing is not None
        wanted = [*uris, RESOURCE_LIST] if lists else uris
        try:
            subscriber = self._hub.add(caller.agent, wanted, counted_as=counted_as(caller.principal))
        except TooManySubscriptions as exc:
            raise MCPError(INVALID_PARAMS, str(exc)) from exc
        # The lists of tools and prompts never change while a server runs, so subscriptions to them are not accepted.
        honored = SubscriptionFilter(
            resource_subscriptions=uris or None, resources_list_changed=True if lists else None
        )
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        shown: dict[str, object] = {}

        async def send(uri: str) -> None:
            told = (
                ResourceListChangedNotification(params=NotificationParams(_meta=meta))
                if uri == RESOURCE_LIST
                else ResourceUpdatedNotification(
                    params=ResourceUpdatedNotificationParams(uri=uri, _meta=meta)
                )
            )
            notify = partial(ctx.session.send_notification, told, related_request_id=ctx.request_id)
            await self._tell(caller, uri, shown, notify)

        try:
            # The subscription stands before it is acknowledged, so a change in between is pending and not lost.
            for uri in wanted:
                if self._is_by_reader(uri):
                    shown[uri] = await self._shown(caller, uri)
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
        """Serves a legacy subscription: notifications go to the session's standing stream."""
        caller = await self._callers.of(ctx)
        uri = str(params.uri)
        if not await self._authorised(caller, uri):
            raise MCPError(
                INVALID_PARAMS, f"no resource at {uri[:200]!a:.240} to subscribe to", data={"uri": uri[:200]}
            )
        try:
            connection = self._want(ctx, caller, uri)
        except TooManySubscriptions as exc:
            raise MCPError(INVALID_PARAMS, str(exc)) from exc
        if self._is_by_reader(uri):
            connection.shown[uri] = await self._shown(caller, uri)
        return EmptyResult()

    async def listed(self, ctx: ServerRequestContext[Any, Any]) -> list[Resource]:
        """Returns the resources in this caller's list, and subscribes a legacy client to changes of that list.

        Raises:
            MCPError: the list could not be read.
        """
        caller = await self._callers.of(ctx)
        found = await self._resources.listed(caller)
        if self._resources.listing is not None and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            with contextlib.suppress(TooManySubscriptions):  # the list is sent all the same
                self._want(ctx, caller, RESOURCE_LIST).shown[RESOURCE_LIST] = _uris(found)
        return found

    def _is_by_reader(self, uri: str) -> bool:
        """Tells whether a change is told to those alone for whom what they are shown changed."""
        return uri == RESOURCE_LIST or self._resources.is_by_reader(uri)

    async def _shown(self, caller: Caller, uri: str) -> object:
        """Returns what a caller is shown now: the URIs in its list of resources, or a text."""
        if uri == RESOURCE_LIST:
            return _uris(await self._resources.listed(caller))
        return await self._resources.shown_to(caller, uri)

    async def _tell(
        self, caller: Caller, uri: str, shown: dict[str, object], send: Callable[[], Awaitable[None]]
    ) -> None:
        """Sends a change to a caller, unless it is `shown` the same as before; notes what it is shown now."""
        if not self._is_by_reader(uri):
            return await send()
        try:
            now = await self._shown(caller, uri)
        except MCPError:
            return  # the next change asks again
        if now != shown.get(uri):
            await send()
            shown[uri] = now

    def _want(self, ctx: ServerRequestContext[Any, Any], caller: Caller, uri: str) -> _Connection:
        """Subscribes a legacy connection to a URI, and returns the state of the connection.

        Raises:
            TooManySubscriptions: a limit of subscriptions is reached.
        """
        connection = ctx.session._connection
        state: _Connection = connection.state.setdefault(_CONNECTION_KEY, _Connection())
        if state.subscriber is None or state.subscriber.closed:
            subscriber = state.subscriber = self._hub.add(
                caller.agent, (uri,), counted_as=counted_as(caller.principal)
            )
            state.sender = asyncio.create_task(self._send_legacy(ctx.session, caller, state, subscriber))
            connection.exit_stack.push_async_callback(self._end_legacy, state)
        else:
            state.subscriber.want((uri,))
        return state

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        state = ctx.session._connection.state.get(_CONNECTION_KEY)
        if isinstance(state, _Connection) and state.subscriber is not None:
            state.subscriber.unwant(str(params.uri))
        return EmptyResult()

    async def _send_legacy(
        self, session: ServerSession, caller: Caller, state: _Connection, subscriber: Subscriber
    ) -> None:
        async def send(uri: str) -> None:
            notify = (
                session.send_resource_list_changed
                if uri == RESOURCE_LIST
                else partial(session.send_resource_updated, uri)
            )
            await self._tell(caller, uri, state.shown, notify)

        try:
            while not subscriber.closed:
                # A client that stops reading loses its connection when a write times out. It may reconnect to its
                # session, as after a machine was suspended, so pending changes are kept.
                with contextlib.suppress(TimeoutError):
                    await subscriber.run(send)
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


def _uris(resources: Iterable[Resource]) -> frozenset[str]:
    return frozenset(str(resource.uri) for resource in resources)
