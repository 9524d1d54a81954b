"""A board on a server, over MCP, with the same methods as a board in the same process."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused, error_of
from blackboard_mcp.protocols.filters import EventFilter
from blackboard_mcp.protocols.late_models import rule_wire

from ..access.identity import check_bearer, is_loopback, name_header
from ..input.arguments import refuse_monsters
from ..input.idempotency import check_once_key
from ..input.posts import check_agent, check_board
from .calls import A, EventSource
from .connection import Dial, ServerConnection
from .durable import DurableSource, PassingSource
from .handing_over import post_lines
from .surface import BoardAccess

if TYPE_CHECKING:
    from blackboard_mcp.protocols.rule_wire import IntakeAnswer
    from mcp.client import Client
    from mcp.shared.exceptions import MCPError
    from mcp.types import CallToolResult

PATIENCE: Final = 30.0
_ANSWER_SECONDS: Final = 20.0
"""The time limit of an answer, beyond the time that the call itself waits."""
_READS: Final = frozenset({"read", "query"})
_STRUCTURED: Final = "blackboard/structured"
_ONCE: Final = "blackboard/idempotency_key"


class BoardClient(BoardAccess):
    """One agent's board on a server.

    Calls that change something carry an idempotency key, so that a call repeated after a lost connection
    applies once. The client connects again by itself; a call that gets no answer within `patience` seconds
    raises `Unreachable`.
    """

    def __init__(
        self, dial: Dial, *, agent: str, name: str, tool_prefix: str = "", patience: float = PATIENCE
    ) -> None:
        super().__init__()
        self.agent = check_agent(agent) if agent else ""
        self.name = check_board(name)
        self._prefix = tool_prefix
        self._connection = ServerConnection(dial, patience=patience)
        self._http: tuple[str, Mapping[str, str]] | None = None
        """The endpoint and the headers of a client over HTTP."""

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        agent: str = "",
        name: str = "main",
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        mode: str = "auto",
        tool_prefix: str = "",
        patience: float = PATIENCE,
    ) -> BoardClient:
        """Returns a client of the server at `url`, such as `http://127.0.0.1:8420/mcp`; enter it with `async with`.

        `token` is the agent's access token, which says who the agent is. By default it is the environment's
        BLACKBOARD_TOKEN, sent only to this machine or over https. `agent` is for servers without tokens. `mode`
        is the generation of the protocol: `auto` asks the server, `legacy` and `2026-07-28` choose one.
        `tool_prefix` is the prefix of the server's tool names; without it the client finds it.

        Raises:
            InvalidInput: a name is not valid, or the token would be sent over the network unencrypted.
            Unauthorized: on entering, if the server refuses the token, or requires one.
            Unreachable: on entering, if no server answers.
        """
        named = {"X-Blackboard-Agent": name_header(check_agent(agent))} if agent else {}
        sent = {**(headers or {}), **named}
        shown = token or os.environ.get("BLACKBOARD_TOKEN")
        if shown and not any(name.lower() == "authorization" for name in sent):
            check_bearer(url, shown)
            sent["Authorization"] = f"Bearer {shown}"
        dial = over_http(url, sent, mode)
        client = cls(dial, agent=agent, name=name, tool_prefix=tool_prefix, patience=patience)
        client._http = url, sent
        return client

    @classmethod
    def stdio(
        cls,
        command: Sequence[str],
        *,
        agent: str,
        name: str = "main",
        env: Mapping[str, str] | None = None,
        mode: str = "auto",
        tool_prefix: str = "",
        patience: float = PATIENCE,
    ) -> BoardClient:
        """Returns a client of its own server process, which `command` starts; the `async with` block ends it.

        The command says who the agent is, as in `["blackboard-mcp", "serve", "--agent", "alice"]`; `agent` must
        be the same name. `env` is added to the few variables that the process inherits.

        Raises:
            Unreachable: on entering, if the process does not answer.
        """
        if not command:
            raise InvalidInput('stdio takes a command, say ["blackboard-mcp", "serve", "--agent", "alice"].')
        dial = _over_stdio(list(command), dict(env or {}), mode)
        return cls(dial, agent=agent, name=name, tool_prefix=tool_prefix, patience=patience)

    async def __aenter__(self) -> Self:
        from mcp.shared.exceptions import MCPError

        try:
            names = await self._connection.open()
        except MCPError as error:
            raise _refusal(error) from None
        self._prefix = self._prefix or _prefix_of(names)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the board's streams, queues and hooks, and the connection."""
        try:
            await self._leave()
        finally:
            await self._connection.close()

    async def _reach(
        self, tool: str, arguments: dict[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        refuse_monsters(tool, arguments)  # the transport would fail on some of them
        meta: dict[str, Any] = {_STRUCTURED: True}
        again = True
        if tool == "wait":
            # Without since, sending news also marks it as seen: a repeated call would skip what was lost.
            again = "since" in arguments or not (arguments.get("subscription") or arguments.get("seconds"))
        elif tool not in _READS:
            meta[_ONCE] = new_token() if once is None else check_once_key(once)
        waits = arguments.get("seconds", 0.0)  # the server refuses what is no number
        seconds = _ANSWER_SECONDS + (waits if isinstance(waits, int | float) else 0.0)

        async def work(client: Client) -> CallToolResult:
            return await client.call_tool(
                self._prefix + tool,
                {**arguments, "board": self.name},
                read_timeout_seconds=seconds,
                meta=meta,  # type: ignore[arg-type]
            )

        result = await self._run(work, again, f"the tool '{tool}'")
        facts = result.structured_content
        if result.is_error:
            raise _error(result, facts)
        if facts is None:
            raise BlackboardError("The server sent no structured answer; is it a blackboard-mcp server?")
        return answer.model_validate(facts, extra="ignore")

    async def _hand_over(self, document: str) -> IntakeAnswer:
        if self._http is None:
            raise Refused(
                "A server over stdio takes no hand-overs. Nothing was changed; connect over HTTP, or open the data "
                "folder with Board.open(data=…)."
            )
        url, headers = self._http
        return rule_wire.IntakeAnswer.model_validate(
            await post_lines(url, headers, document, self.name), extra="ignore"
        )

    async def _figures(self, section: str) -> Mapping[str, Any]:
        async def work(client: Client) -> str:
            uri = "boards://all.json" if section == "boards" else f"board://{self.name}/{section}.json"
            read = await client.read_resource(uri, cache_mode="bypass")
            return getattr(read.contents[0], "text", "")

        facts = json.loads(await self._run(work, True, f"the resource '{section}'"))
        assert isinstance(facts, dict)
        return facts

    async def _run(self, work: Any, again: bool, what: str) -> Any:
        """Runs `work` over the connection, and translates the server's refusals; `what` names the call in errors."""
        from mcp.shared.exceptions import MCPError

        try:
            return await self._connection.run(work, again=again)
        except MCPError as error:
            if "unknown tool" in error.message:
                raise Refused(
                    f"The server does not serve {what}: {error.message}. Start it with --tools all."
                ) from None
            raise _refusal(error) from None

    def _source(self, filter_: dict[str, Any], condition: EventFilter, name: str | None) -> EventSource:
        if name is not None:
            return DurableSource(self, filter_, name)
        return PassingSource(self, filter_, f"python-{new_token(6)}")


def _prefix_of(names: Sequence[str]) -> str:
    """Returns what stands before the names of all tools of a server, as before that of `read`."""
    found = (name.removesuffix("read") for name in names if name.endswith("read"))
    return next((prefix for prefix in found if all(name.startswith(prefix) for name in names)), "")


def _refusal(error: MCPError) -> BlackboardError:
    """Returns the product's error for a protocol error of the server."""
    facts = error.data if isinstance(error.data, dict) else {}
    more = {k: v for k, v in facts.items() if k not in ("error", "message")}
    return (
        error_of(str(facts["error"]), error.message, more)
        if "error" in facts
        else BlackboardError(error.message)
    )


def _error(result: CallToolResult, facts: Mapping[str, Any] | None) -> BlackboardError:
    """Returns the product's error for a tool's error result."""
    if facts is None:
        return BlackboardError(" ".join(getattr(part, "text", "") for part in result.content))
    more = {name: value for name, value in facts.items() if name not in ("error", "message")}
    return error_of(str(facts.get("error")), str(facts.get("message")), more)


def over_http(url: str, headers: Mapping[str, str], mode: str) -> Dial:
    """Returns a function that connects to the server at `url` and sends these headers with every request."""

    @asynccontextmanager
    async def dial() -> AsyncIterator[Client]:
        import httpx2
        from mcp.client import Client
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(10.0, read=300.0)
        # Requests to this machine do not go through a proxy named by the environment.
        parts = urlsplit(url)
        local = is_loopback(parts.hostname or "")
        # Trusts the system's certificate authorities, or those of SSL_CERT_FILE. Reading them takes longer than a
        # call, so without TLS none are read.
        secure = parts.scheme == "https"
        trusted = ssl.create_default_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        async with (
            httpx2.AsyncClient(
                headers=dict(headers), timeout=timeout, verify=trusted, trust_env=not local
            ) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client

    return dial


def _over_stdio(command: list[str], env: dict[str, str], mode: str) -> Dial:
    """Returns a function that starts the command and connects to its standard streams."""

    @asynccontextmanager
    async def dial() -> AsyncIterator[Client]:
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters

        program = StdioServerParameters(command=command[0], args=command[1:], env=env or None)
        async with Client(program, mode=mode) as client:
            yield client

    return dial
