"""Signing in with an OAuth issuer, end to end: the SDK's client, a real issuer, a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio
from blackboard_mcp.protocols.access import Role, Trust
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.http.auth import issuer_keys
from blackboard_mcp.server.http.events import EventStreams
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.settings.oauth import oauth_settings
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from patience import PATIENCE
from ports import free_port
from pydantic import AnyUrl
from starlette.responses import Response

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEGACY, MODERN = "legacy", "2026-07-28"
STRUCTURED: Any = {"blackboard/structured": True}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Board:
    """A served installation that takes an issuer's tokens."""

    url: str
    opened: compose.Installation

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    async def ask(
        self, path: str, method: str = "GET", token: str | None = None, **headers: str
    ) -> httpx2.Response:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire:
            return await wire.request(method, f"{self.url}{path}", headers=headers)

    async def call(self, token: str | None, tool: str = "read", **arguments: Any) -> httpx2.Response:
        """One call of the modern generation."""
        params = {"name": tool, "arguments": arguments, "_meta": MODERN_META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            **{"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool},
            "accept": "application/json, text/event-stream",
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire:
            return await wire.post(self.mcp, headers=headers, json=body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def board(served_issuer: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Board]:
    async with serving(served_issuer, tmp_path_factory.mktemp("board")) as board:
        yield board


@asynccontextmanager
async def serving(issuer: Any, folder: Path) -> AsyncIterator[Board]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    oauth = oauth_settings({"issuer": issuer.url, "resource": f"{url}/mcp"}, "oauth")
    settings = Settings(data=folder, synchronous="NORMAL", oauth=oauth, embedder="none")
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        server = compose.build_server(opened)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        routes = [EventStreams(opened.blackboard, limits=settings.limits).route()]
        task = asyncio.create_task(
            serve_http(server, port=port, routes=routes, on_ready=ready.set_result, stop=stop)
        )
        await asyncio.wait_for(ready, PATIENCE)
        try:
            yield Board(url, opened)
        finally:
            stop.set()
            await asyncio.wait_for(task, PATIENCE)


class Browser:
    """The person's browser, and where the client keeps what it got."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.asked: list[dict[str, list[str]]] = []
        self._back: dict[str, list[str]] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def open(self, url: str) -> None:
        self.asked.append(parse_qs(urlsplit(url).query))
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire:
            answer = await wire.get(url)
        assert answer.status_code == 302, answer.text
        self._back = parse_qs(urlsplit(answer.headers["location"]).query)

    async def came_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self._back["code"][0], state=self._back["state"][0])


@asynccontextmanager
async def signed_in(board: Board, browser: Browser, mode: str) -> AsyncIterator[Client]:
    """The SDK's client, which finds the issuer by itself."""
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl("http://127.0.0.1:9/back")],
        token_endpoint_auth_method="none",
        grant_types=["authorization_code"],
        response_types=["code"],
    )
    provider = OAuthClientProvider(board.mcp, metadata, browser, browser.open, browser.came_back)
    async with (
        httpx2.AsyncClient(auth=provider, trust_env=False, verify=False, timeout=PATIENCE) as wire,
        Client(streamable_http_client(board.mcp, http_client=wire), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_client_that_knows_nothing_but_the_address_finds_the_issuer_and_posts_as_who_signed_in(
    board: Board, issuer: Any, mode: str
) -> None:
    issuer.person = f"änn-{mode}"
    browser = Browser()
    async with signed_in(board, browser, mode) as client:
        posted = await client.call_tool("post", {"text": f"from {mode}"}, meta=STRUCTURED)
        assert posted.structured_content is not None
        assert posted.structured_content["items"][0]["author"] == f"änn-{mode}"
    (asked,) = browser.asked
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["resource"] == [board.mcp]
    assert asked["scope"] == ["board:read board:post board:acknowledge"]
    assert await board.opened.store.owner_of(f"änn-{mode}") == f"änn-{mode}"


async def test_without_a_token_the_challenge_leads_to_the_metadata_and_to_the_issuer(
    board: Board, issuer: Any
) -> None:
    refused = await board.call(None)
    assert refused.status_code == 401
    challenge = refused.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    found = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    assert found["scope"] == "board:read board:post board:acknowledge"
    assert "error" not in found
    assert found["resource_metadata"] == f"{board.url}/.well-known/oauth-protected-resource/mcp"
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        answer = await board.ask(path)
        assert answer.status_code == 200
        assert answer.json() == {
            "resource": board.mcp,
            "authorization_servers": [issuer.url],
            "scopes_supported": [
                "board:read",
                "board:post",
                "board:acknowledge",
                "board:moderate",
                "board:admin",
            ],
            "bearer_methods_supported": ["header"],
            "resource_name": "blackboard-mcp",
        }


async def test_the_metadata_answers_to_the_allowed_hosts_and_origins_only(board: Board) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    assert (await board.ask(path, Host="evil.example")).status_code == 421
    assert (
        await board.ask(path, Host=f"127.0.0.1:{board.url.rpartition(':')[2]}.evil.example")
    ).status_code == 421
    assert (await board.ask(path, Origin="https://evil.example")).status_code == 403
    assert (await board.ask(path, method="POST")).status_code == 405
    assert (await board.ask(path + "/x")).status_code == 401
    assert (await board.ask(path, Origin=board.url)).status_code == 200


async def test_a_token_that_does_not_count_opens_nothing(board: Board, issuer: Any) -> None:
    wrong = {
        "of another audience": issuer.token(aud=f"{board.url}/other"),
        "expired": issuer.token(aud=board.mcp, exp=1),
        "of another issuer": issuer.token(aud=board.mcp, iss="https://id.example"),
        "none at all": "x",
    }
    for token in wrong.values():
        refused = await board.call(token)
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert (await board.ask("/events?board=main", token=wrong["expired"])).status_code == 401
    both = await board.ask("/mcp", token=issuer.token(aud=board.mcp), **{"X-Blackboard-Agent": "bob"})
    assert both.status_code == 403, "a header makes nobody somebody else"


async def test_an_issuer_makes_nobody_an_agent_that_a_token_here_has_act_for_somebody_else(
    board: Board, issuer: Any
) -> None:
    stolen = issuer.token(aud=board.mcp, sub="claude")
    assert (await board.call(stolen)).status_code == 200, "nobody has the name yet"
    now = datetime.now(UTC)
    made, own = new_access_token(agent="claude", owner="ann", roles={"*": Role.CONTRIBUTOR}, now=now)
    await board.opened.store.add_token(made)
    await board.call(own, "post", text="canary", visibility="team")
    async with asyncio.timeout(PATIENCE):
        while (refused := await board.call(stolen)).status_code == 200:
            pass
    assert refused.status_code == 403
    assert "canary" not in refused.text
    assert "ann" not in re.findall(r"\w+", refused.text)
    assert (await board.call(own)).status_code == 200
    assert await board.opened.store.owner_of("claude") == "ann"
    same, _ = new_access_token(agent="zed", owner="zed", roles={"*": Role.CONTRIBUTOR}, now=now)
    await board.opened.store.add_token(same)
    assert (await board.call(issuer.token(aud=board.mcp, sub="zed"))).status_code == 200, (
        "it is the same agent"
    )


async def test_what_an_issuers_agent_posts_has_the_trust_that_a_token_here_gives_it(
    board: Board, issuer: Any
) -> None:
    now = datetime.now(UTC)
    made, own = new_access_token(
        agent="crawler", owner="crawler", roles={"*": Role.CONTRIBUTOR}, now=now, trust=Trust.LOW
    )
    await board.opened.store.add_token(made)
    for token in (own, issuer.token(aud=board.mcp, sub="crawler")):
        posted = await board.call(token, "post", text=f"from the web {token[:4]}")
        assert posted.status_code == 200
        newest = (await board.call(own, "query", limit=1)).text
        assert f"from the web {token[:4]}" in newest
        assert "low trust" in newest


async def test_a_stream_ends_once_a_token_here_has_its_agent_act_for_somebody_else(
    board: Board, issuer: Any
) -> None:
    stolen = issuer.token(aud=board.mcp, sub="ci-bot")
    assert (await board.call(stolen, "post", text="begin")).status_code == 200
    headers = {"Authorization": f"Bearer {stolen}"}
    async with (
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire,
        wire.stream("GET", f"{board.url}/boards/main/events", headers=headers) as stream,
    ):
        assert stream.status_code == 200
        now = datetime.now(UTC)
        made, own = new_access_token(agent="ci-bot", owner="build", roles={"*": Role.CONTRIBUTOR}, now=now)
        await board.opened.store.add_token(made)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(httpx2.RemoteProtocolError):
                async for _ in stream.aiter_text():
                    pass
    assert (await board.call(stolen)).status_code == 403
    assert (await board.call(own)).status_code == 200


async def test_an_issuer_that_hangs_keeps_strangers_out_and_stops_nobody_else(
    board: Board, issuer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "READ_SECONDS", PATIENCE)
    monkeypatch.setattr(issuer_keys, "UNKNOWN_KEY_SECONDS", 0.0)
    good = issuer.token(aud=board.mcp)
    assert (await board.call(good)).status_code == 200

    asked, over = asyncio.Event(), asyncio.Event()

    async def hang(request: Any) -> Any:
        asked.set()
        await over.wait()
        return Response(status_code=500)

    issuer.answers["/jwks"] = hang
    stranger = asyncio.create_task(board.call(issuer.token(aud=board.mcp, header={"kid": "new"})))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    assert (await board.call(good)).status_code == 200
    assert not stranger.done(), "whose key is known waited for the issuer"
    over.set()
    refused = await stranger
    assert refused.status_code == 503
    assert "cannot be asked" in refused.text


@asynccontextmanager
async def listening(board: Board, token: str) -> AsyncIterator[asyncio.Task[None]]:
    """Holds an event stream open; yields the task that ends when the server ends the stream."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire,
        wire.stream("GET", f"{board.url}/boards/main/events", headers=headers) as stream,
    ):
        assert stream.status_code == 200

        async def read() -> None:
            with contextlib.suppress(httpx2.RemoteProtocolError):
                async for _ in stream.aiter_text():
                    pass

        reading = asyncio.create_task(read())
        try:
            yield reading
        finally:
            reading.cancel()


async def test_streams_end_with_the_hour_for_which_an_issuer_may_be_away(
    board: Board, issuer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = issuer.token(aud=board.mcp)
    assert (await board.call(good, "post", text="begin")).status_code == 200

    async def fail(request: Any) -> Any:
        return Response(status_code=500)

    async with listening(board, good) as stream:
        issuer.answers["/jwks"] = fail
        monkeypatch.setattr(issuer_keys, "MAX_AGE_SECONDS", 0.0)
        assert (await board.call(good)).status_code == 503
        await asyncio.wait_for(stream, PATIENCE)


async def test_an_issuer_that_hangs_keeps_no_stream_of_another_token_open(
    board: Board, issuer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "READ_SECONDS", PATIENCE)
    monkeypatch.setattr(issuer_keys, "UNKNOWN_KEY_SECONDS", 0.0)
    now = datetime.now(UTC)
    made, own = new_access_token(agent="moe", owner="moe", roles={"*": Role.CONTRIBUTOR}, now=now)
    await board.opened.store.add_token(made)
    good = issuer.token(aud=board.mcp)
    assert (await board.call(good, "post", text="begin")).status_code == 200
    over = asyncio.Event()

    async def hang(request: Any) -> Any:
        await over.wait()
        return Response(status_code=500)

    try:
        async with listening(board, good), listening(board, own) as stream:
            issuer.answers["/jwks"] = hang
            monkeypatch.setattr(issuer_keys, "MAX_AGE_SECONDS", 0.0)
            await board.opened.store.revoke_token(made.id)
            await asyncio.wait_for(stream, PATIENCE / 2)
    finally:
        over.set()


async def test_what_the_scopes_do_not_reach_is_answered_with_the_scope_it_takes(
    board: Board, issuer: Any
) -> None:
    reader = issuer.token(aud=board.mcp, scope="board:read openid")
    assert (await board.call(reader)).status_code == 200
    refused = await board.call(reader, "post", text="no")
    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="board:read board:post"' in challenge
    assert f'resource_metadata="{board.url}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert json.loads(refused.text)["error"]["data"]["error"] == "insufficient_scope"
    nothing = issuer.token(aud=board.mcp, scope="openid")
    for path in ("/mcp", "/events?board=main"):
        assert (await board.ask(path, token=nothing)).status_code == 403


async def test_a_client_that_lacks_a_scope_signs_in_for_it_and_goes_on(board: Board, issuer: Any) -> None:
    issuer.person = "stepping"
    browser = Browser()
    browser.tokens = OAuthToken(
        access_token=issuer.token(aud=board.mcp, scope="board:read", sub="stepping"), scope="board:read"
    )
    async with signed_in(board, browser, MODERN) as client:
        assert not (await client.call_tool("read", {})).is_error
        assert browser.asked == []
        assert not (await client.call_tool("post", {"text": "now I may"})).is_error
    assert [asked["scope"] for asked in browser.asked] == [["board:read board:post"]]
