"""Serving over HTTP: one process, one listening socket, and a stop that does not hang.

uvicorn waits for open streams, never closes a connection whose client sends half a request or stops reading,
gives a TLS handshake a minute, and after a signal raises it again before stores can be closed. This module
mends each of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.access.identity import is_loopback
from blackboard_mcp.server.background import stop_signals
from blackboard_mcp.server.http import renewal
from blackboard_mcp.server.http.application import build_application
from blackboard_mcp.server.http.connections import bounded_protocol
from blackboard_mcp.server.http.listening import base_url, listen, say_ready, url_host
from blackboard_mcp.server.http.proxies import BehindProxies
from starlette.routing import BaseRoute

if TYPE_CHECKING:
    from blackboard_mcp.server.http.channel import Worker
    from blackboard_mcp.server.http.exposure import Network, Tls
    from blackboard_mcp.server.mcp.server import BoardServer

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 3
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


async def serve_http(
    server: BoardServer,
    host: str = "127.0.0.1",
    port: int = 8420,
    *,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    routes: Sequence[BaseRoute] = (),
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
    tls: Tls | None = None,
    proxies: Sequence[Network] = (),
    worker: Worker | None = None,
) -> None:
    """Serves until a stop signal or `stop` comes; then ends streams, finishes calls, and returns within 6 s.

    Port 0 picks a free port. `on_ready` gets the base URL with the real port once requests are answered.
    `allowed_hosts` (exact `Host` values) are added to the names of a loopback address and are needed for
    every other address; their origins are allowed too. The client addresses that `proxies` report are
    trusted; on an address that is not loopback, without `tls`, only proxies are answered. A `worker` takes
    connections from its parent, which listens on `port` and says when all workers answer.

    Raises:
        InvalidInput: the address cannot be bound, or is not loopback and no host is allowed.
    """
    if not is_loopback(host) and not allowed_hosts:
        raise InvalidInput(
            f"serving on {host} needs the host names clients use, exactly as in their URL "
            "(for example --allowed-hosts board.example.com:8420)"
        )
    listeners = [listen(host, port)] if worker is None else []
    try:
        real_port: int = listeners[0].getsockname()[1] if listeners else port
        scheme = "http" if tls is None else "https"
        hosts, origins = _allowed(host, real_port, scheme, allowed_hosts, allowed_origins)
        url = base_url(host, real_port, tls=tls is not None)
        app: Any = build_application(
            server,
            allowed_hosts=hosts,
            allowed_origins=origins,
            routes=routes,
            lifespan=lifespan,
        )
        if proxies:
            app = BehindProxies(app, proxies, only=tls is None and not is_loopback(host))
        if worker is not None and not worker.keeps_sessions:
            from blackboard_mcp.server.http.passing import SessionsElsewhere

            app = SessionsElsewhere(app, opens_session=server.opens_session, pass_on=worker.pass_on)
        config = uvicorn.Config(
            app,
            ssl_certfile=None if tls is None else tls.cert,
            ssl_keyfile=None if tls is None else tls.key,
            http=bounded_protocol(server, proxies, ended=None if worker is None else worker.ended),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=server.limits.keep_alive_seconds,  # type: ignore[arg-type]
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=server.limits.head_bytes,
        )

        def ready() -> None:
            if worker is None:
                say_ready(url)
            if on_ready is not None:
                on_ready(url)

        runner = _Runner(config, server, ready, tls, worker)
        await asyncio.sleep(0)  # Ctrl-C ends it here; while uvicorn starts, it would log a traceback
        waiter = asyncio.create_task(runner.stop_on(stop)) if stop is not None else None
        try:
            await runner.serve(sockets=listeners)
        finally:
            if waiter is not None:
                waiter.cancel()
    finally:
        for listener in listeners:
            listener.close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Returns uvloop's event loop if it is installed, which makes a call 16-30 % cheaper, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _allowed(
    host: str, port: int, scheme: str, hosts: Collection[str], origins: Collection[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the exact hosts and origins: the given ones, and a loopback address's own names."""
    all_hosts = set(hosts)
    all_origins = set(origins)
    if is_loopback(host):
        for name in {*_LOOPBACK_NAMES, url_host(host)}:
            all_hosts.add(f"{name}:{port}")
            if port == 80:
                all_hosts.add(name)
        all_origins.update(f"{scheme}://{name}" for name in all_hosts)
    # Clients may reach a proxy under a given name over either scheme.
    all_origins.update(f"{either}://{name}" for name in hosts for either in ("http", "https"))
    return frozenset(all_hosts), frozenset(all_origins)


class _Runner(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        board: BoardServer,
        ready: Callable[[], None],
        tls: Tls | None,
        worker: Worker | None,
    ) -> None:
        super().__init__(config)
        self._board = board
        self._ready = ready
        self._tls = tls
        self._worker = worker
        self._renewing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens on `sockets`; unlike uvicorn, with time limits for TLS to begin and to end on each connection."""
        config = self.config
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the server did not start; the log says why")

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        # A connection counts against the limits only once its handshake is done.
        bounds: dict[str, Any] = {}
        if config.ssl is not None:
            bounds = {
                "ssl_handshake_timeout": self._board.limits.head_seconds,
                "ssl_shutdown_timeout": float(GRACE_SECONDS),
            }
            if self._tls is not None:
                self._renewing = asyncio.create_task(renewal.follow(config.ssl, self._tls))
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                protocol, sock=listener, ssl=config.ssl, backlog=config.backlog, **bounds
            )
            for listener in sockets or ()
        ]
        self.started = True
        self._ready()
        if (worker := self._worker) is not None:
            from blackboard_mcp.server.http.passing import answer_passed

            async def connect(connection: socket.socket) -> None:
                try:
                    await loop.connect_accepted_socket(protocol, connection, ssl=config.ssl, **bounds)
                except OSError:  # no handshake, or a client that is gone: nobody else counts it as ended
                    worker.ended()

            def connected(connection: socket.socket) -> None:
                self._in_background(connect(connection))

            def asked(request: socket.socket) -> None:
                self._in_background(answer_passed(request, config.loaded_app, self.lifespan.state))

            worker.begin(connected=connected, asked=asked, gone=self._alone)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins work that a stop waits for, as it does for requests."""
        tasks = self.server_state.tasks
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _alone(self) -> None:
        logger.error("the parent process is gone: this worker stops")
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the notification streams, then stops as uvicorn does."""
        if self._worker is not None:
            self._worker.leave()
        if self._renewing is not None:
            self._renewing.cancel()
        await self._board.close_streams()
        await super().shutdown(sockets)
        if self.force_exit:  # then uvicorn leaves this out, and the lifespan is cancelled with a traceback
            await self.lifespan.shutdown()

    async def stop_on(self, stop: asyncio.Event) -> None:
        """Stops the server when `stop` is set."""
        await stop.wait()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops this server only: sse-starlette's own handler would mark the whole process as stopping."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stops on a signal without raising it again: the caller still has stores to close."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(sig: int, frame: FrameType | None) -> None:
            """Is a plain function, because sse-starlette cuts answers off if the handler is a method."""
            self.handle_exit(sig, frame)

        before = {sig: signal.signal(sig, stop) for sig in stop_signals()}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
