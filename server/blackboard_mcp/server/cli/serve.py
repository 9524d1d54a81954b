"""The command `serve`: boards for MCP clients over stdio or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..background import alongside, stop_signals
from ..mcp.models import import_sdk
from ..settings.server import TOOL_SETS, WORKER_VARIABLE, Settings
from .log_lines import log_to_stderr
from .options import settings_of

if TYPE_CHECKING:
    from ..http.channel import Worker

logger = logging.getLogger(__name__)
_STOP_SECONDS = 3.0


@click.command()
@click.option("--transport", type=click.Choice(["stdio", "http"]), help="stdio when none is named.")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default 8420; 0 takes a free one).")
@click.option(
    "--workers",
    type=int,
    help="Over HTTP: processes that answer requests, 1 to 64, say one for each core (default 1).",
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder that everything is kept in.")
@click.option(
    "--store",
    metavar="module:Class",
    help="Where the boards are in place of a file: an address postgresql://USER@HOST/DATABASE, or the class "
    "package.module:Class of a store of your own, which is imported and run; `kit` checks it.",
)
@click.option(
    "--archive",
    metavar="module:Class",
    help="A search index of your own for what was pruned. It is imported and run.",
)
@click.option(
    "--index-at",
    metavar="PLACE",
    help="With boards in PostgreSQL: one search index of what was pruned for all servers, in place of one each; "
    "s3://BUCKET/PREFIX, or a folder that all mount.",
)
@click.option(
    "--index-every-seconds",
    type=int,
    help="With --index-at: how long changes are gathered before they are written there (default 10).",
)
@click.option("--board", metavar="ID", help="Board of calls that name none (default main).")
@click.option("--agent", metavar="NAME", help="Over stdio: the name of the agent that is connected.")
@click.option("--owner", metavar="NAME", help="Over stdio: whom that agent acts for (default itself).")
@click.option(
    "--tools",
    metavar="SETS",
    help=f"Sets of tools, joined by commas: {', '.join(TOOL_SETS)} or all (default core).",
)
@click.option("--tool-prefix", metavar="P", help="Stands before every tool name, say board_.")
@click.option(
    "--target-tokens", type=int, help="Working memory of boards created from now on (default 6000)."
)
@click.option("--structured", type=click.Choice(["ask", "always"]), help="When results carry JSON too.")
@click.option(
    "--arguments",
    type=click.Choice(["common", "all"]),
    help="Which arguments the list of tools names; all is for hosts that drop others, and costs tokens.",
)
@click.option(
    "--tokenizer", metavar="NAME", help="Counts on new boards: o200k_base, cl100k_base or module:attribute."
)
@click.option("--deciders", metavar="NAMES", help="Agents that may decide debates, joined by commas.")
@click.option("--stewards", metavar="NAMES", help="Agents that may use the admin tools, joined by commas.")
@click.option(
    "--policy",
    metavar="NAME=module:Class",
    help="Eviction policies of your own that boards may choose, joined by commas. They are imported and run.",
)
@click.option(
    "--validator",
    metavar="NAME=module:Class",
    help="Validation policies of your own that rules of boards may name, joined by commas. They are imported and run.",
)
@click.option(
    "--access",
    metavar="NAME=module:Class",
    help="Access policies of your own that boards may choose, joined by commas; tables [[access]] in the file, JSON of "
    "such in the environment. They are imported and run.",
)
@click.option(
    "--protocol",
    metavar="module:Class",
    help="Communication protocols of your own that agents can look up, joined by commas. They are imported.",
)
@click.option(
    "--strategy",
    metavar="NAME=module:Class",
    help="Strategies of your own that runs may name, joined by commas. They are imported and run.",
)
@click.option(
    "--syntax",
    metavar="KINDS",
    help="Files whose syntax is checked as agents write them: json,toml,yaml,python (default all), or none.",
)
@click.option(
    "--secrets",
    type=click.Choice(["mask", "refuse"]),
    help="What becomes of passwords, keys and tokens in what clients hand over (default mask).",
)
@click.option(
    "--secret-patterns",
    metavar="REGEXES",
    help="Regular expressions for secrets of your own, joined by commas; a list in the file may hold commas.",
)
@click.option(
    "--board-settings", metavar="JSON", help='Settings of boards created from now on, say {"ceiling": 3}.'
)
@click.option("--synchronous", type=click.Choice(["FULL", "NORMAL"]), help="How hard a commit is synced.")
@click.option(
    "--auth",
    type=click.Choice(["auto", "token"]),
    help="Over HTTP: ask for an access token from the first token on (auto, the default), or always (token).",
)
@click.option(
    "--allow-open-folder",
    is_flag=True,
    default=None,
    help="Serve with tokens though other users of this machine can get at the data folder.",
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate chain (PEM): serve over https.",
)
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key (PEM), no passphrase."
)
@click.option(
    "--behind-proxy",
    metavar="ADDRESSES",
    help="Addresses or networks of proxies that end TLS in front, joined by commas: whom they pass on is believed.",
)
@click.option("--allowed-hosts", metavar="HOSTS", help="Exact Host values that a proxy in front passes on.")
@click.option("--allowed-origins", metavar="ORIGINS", help="Exact Origin values of browser clients.")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="On stderr.")
@click.option(
    "--embedder",
    type=click.Choice(["wordllama", "openai", "none"]),
    help="What the archive's search knows of meaning: the model that comes as a package (wordllama, the "
    "default), a model at --embedding-url, or nothing but words (none).",
)
@click.option(
    "--embedding-url", metavar="URL", help="Base address of the model, say http://127.0.0.1:11434/v1."
)
@click.option("--embedding-model", metavar="NAME", help="The model's name there.")
@click.option("--embedding-query-prefix", metavar="TEXT", help="Stands before every query sent to the model.")
@click.option("--embedding-passage-prefix", metavar="TEXT", help="Stands before every passage sent to it.")
@click.option(
    "--summariser",
    type=click.Choice(["extractive", "openai", "ollama", "agent"]),
    help="Who summarises finished threads where a board does not say: sentences of the thread (extractive, the "
    "default), a model at --summary-url, or an agent of the board.",
)
@click.option("--summary-url", metavar="URL", help="Base address of the model, say http://127.0.0.1:11434.")
@click.option("--summary-model", metavar="NAME", help="The model's name there.")
@click.option(
    "--summary-timeout-seconds",
    type=int,
    help="Longest that a pass waits for the model, 1 to 300 s (default 20).",
)
@click.option(
    "--capture",
    type=click.Choice(["patterns", "model"]),
    help="Who proposes rules from users' messages: fixed patterns (patterns, the default), or beside them "
    "the model of --summariser. The sentences of such messages then go to --summary-url.",
)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
def serve(config: Path | None, **given: Any) -> None:
    """Serve boards to MCP clients.

    Every option can be set as BLACKBOARD_… in the environment or in a TOML file; the command line wins.
    """
    worker = None
    if WORKER_VARIABLE in os.environ:
        from ..http.channel import Worker

        worker = Worker.joined()
    settings = settings_of(config, **given) if worker is None else worker.settings
    log_to_stderr(settings.log_level)
    if settings.workers > 1 and worker is None:
        from ..http.workers import supervise

        raise SystemExit(asyncio.run(supervise(settings)))
    _tune()
    import_sdk(http=settings.transport == "http")
    if settings.transport == "http":
        from ..http.run import new_event_loop

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve_http(settings, worker))
    else:
        asyncio.run(serve_stdio(settings))


def _tune() -> None:
    """Adjusts the interpreter for a server with a thread for each connection.

    A thread gives up the interpreter's lock for each SQL statement and asks for it back; with the default
    switch interval it waits 5 ms each time while the event loop is busy. Garbage collection runs less often,
    because requests leave no cycles behind, and only from `_started` on, because loaded modules are no garbage.
    """
    sys.setswitchinterval(0.0005)
    gc.set_threshold(20_000, 20, 20)
    gc.disable()


def _started() -> None:
    """Turns garbage collection on, and exempts everything that the start has made."""
    gc.freeze()
    gc.enable()


_FOR_PEOPLE = """\
blackboard-mcp waits for an MCP client to speak on standard input: clients start it so by themselves.
For one server that all clients share, with an address to connect to:  blackboard-mcp serve --transport http
To see what it does first:  blackboard-mcp demo
Ctrl-C ends it."""


async def serve_stdio(settings: Settings) -> None:
    """Serves one client until its input ends, or SIGTERM or SIGHUP comes."""
    from .. import compose

    async with compose.installation(settings, eager_index=False, index_process=True) as opened:
        server = compose.build_server(opened)
        _started()
        if sys.stdin is not None and sys.stdin.isatty():
            click.echo(_FOR_PEOPLE, err=True)
        async with alongside(compose.announce(opened, server), "announcements"):
            await _until_told(asyncio.create_task(server.run_stdio(), name="stdio"))


async def _until_told(serving: asyncio.Task[None]) -> None:
    """Returns when the task ends, or soon after SIGTERM or SIGHUP.

    Raises:
        Exception: the task failed before any such signal.
    """
    told = asyncio.Event()
    # Windows has no such handlers.
    with contextlib.suppress(NotImplementedError):
        for each in set(stop_signals()) - {signal.SIGINT}:
            asyncio.get_running_loop().add_signal_handler(each, told.set)
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            serving.cancel()
            # A client that has stopped reading must not delay the closing of the store.
            await asyncio.wait({serving}, timeout=_STOP_SECONDS)
    finally:
        waiting.cancel()
        if not serving.done():
            serving.cancel()
    if serving.done() and not serving.cancelled() and (error := serving.exception()) is not None:
        if not told.is_set():
            raise error
        logger.warning("ended while calls were under way: %r", error)


async def serve_http(settings: Settings, worker: Worker | None = None) -> None:
    """Serves until a stop signal comes, alone or as one of several workers.

    Raises:
        InvalidInput: the settings are not safe for the address, or it cannot be bound.
    """
    from .. import compose
    from ..http.events import EventStreams
    from ..http.exposure import check_exposure, check_folder, networks_of, tls_of
    from ..http.front import FrontPage
    from ..http.intake import IntakeRoute
    from ..http.run import serve_http as run
    from ..input.secrets import Secrets

    tls = tls_of(settings.tls_cert, settings.tls_key)
    proxies = networks_of(settings.behind_proxy)
    async with compose.installation(settings, eager_index=True, peers=worker, index_process=True) as opened:
        open_to_all = await compose.open_to_all(opened)
        if not open_to_all and not settings.allow_open_folder:
            check_folder(settings.folder)
        check_exposure(
            settings.host,
            authenticated=await compose.authenticated(opened),
            allowed_hosts=settings.allowed_hosts,
            tls=tls,
            proxies=proxies,
        )
        server = compose.build_server(opened)
        events = EventStreams(opened.blackboard, limits=settings.limits)
        server.on_close(events.close)
        intake = IntakeRoute(
            opened.blackboard,
            Secrets(settings.secrets, settings.secret_patterns),
            opened.reader,
            admission=server.admission,
        )

        def ready(url: str) -> None:
            _started()
            if open_to_all and (worker is None or worker.number == 1):
                logger.warning(
                    "there are no access tokens: whoever reaches %s can be any agent; `blackboard-mcp token create` "
                    "makes one, and from then on every request needs one",
                    url,
                )

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            async with alongside(compose.announce(opened, server), "announcements"):
                yield

        await run(
            server,
            settings.host,
            settings.port,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            routes=[FrontPage(opened.blackboard.rights.readable).route(), events.route(), intake.route()],
            lifespan=lifespan,
            on_ready=ready,
            tls=tls,
            proxies=proxies,
            worker=worker,
        )
