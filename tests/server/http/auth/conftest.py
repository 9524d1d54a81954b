"""A real OAuth issuer: Authlib's authorization server, answering over HTTP on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import warnings
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio
import uvicorn
from authlib.oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import JsonRequest, OAuth2Request
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import KeySet, RSAKey
from joserfc.jws import JWSRegistry
from patience import PATIENCE
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

RESOURCE = "http://127.0.0.1:8420/mcp"


@dataclass
class Person:
    """Who signs in at the issuer, and for which resource."""

    name: str
    resource: str

    def get_user_id(self) -> str:
        return self.name


class Application:
    """An application that registered itself: public, with the code flow and PKCE."""

    def __init__(self, client_id: str, metadata: dict[str, Any]) -> None:
        self.client_id = client_id
        self.metadata = metadata

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return str(self.metadata["redirect_uris"][0])

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, uri: str) -> bool:
        return uri in self.metadata["redirect_uris"]

    def check_client_secret(self, secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, kind: str) -> bool:
        return kind == "code"

    def check_grant_type(self, kind: str) -> bool:
        return kind == "authorization_code"


@dataclass
class Code:
    """An authorization code, until it is used."""

    redirect_uri: str
    scope: str
    code_challenge: str
    code_challenge_method: str
    person: Person

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


class Form(OAuth2Request):
    """A request as Authlib wants it."""

    def __init__(self, method: str, url: str, headers: Any, values: list[tuple[str, str]]) -> None:
        super().__init__(method, url, headers=headers)
        self._values = dict(values)
        self.payload = BasicOAuth2Payload(self._values)
        lists = defaultdict(list)
        for name, value in values:
            lists[name].append(value)
        self.payload._datalist = lists

    @property
    def args(self) -> dict[str, str]:
        return self._values

    @property
    def form(self) -> dict[str, str]:
        return self._values


class Document(JsonRequest):
    def __init__(self, method: str, url: str, headers: Any, data: Any) -> None:
        super().__init__(method, url, headers)
        self.payload = BasicOAuth2Payload(data)


class Server(AuthorizationServer):
    """Authlib's server, with dictionaries for a database."""

    def __init__(self, issuer: Issuer) -> None:
        super().__init__()
        self.issuer = issuer
        self.codes: dict[str, Code] = {}
        self.clients: dict[str, Application] = {}

        class Grant(AuthorizationCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012

            def save_authorization_code(grant, code: str, request: Any) -> None:
                asked = request.payload.data
                self.codes[code] = Code(
                    asked["redirect_uri"],
                    asked.get("scope", ""),
                    asked["code_challenge"],
                    asked["code_challenge_method"],
                    request.user,
                )

            def query_authorization_code(grant, code: str, client: Any) -> Code | None:
                return self.codes.get(code)

            def delete_authorization_code(grant, code: Code) -> None:
                self.codes = {name: kept for name, kept in self.codes.items() if kept is not code}

            def authenticate_user(grant, code: Code) -> Person:
                return code.person

        class Tokens(JWTBearerTokenGenerator):
            def get_jwks(tokens) -> Any:
                return issuer.keys[-1]

            def get_audiences(tokens, client: Any, user: Any, scope: str) -> str:
                return user.resource

            def get_extra_claims(tokens, *_: Any) -> dict[str, Any]:
                return issuer.extra_claims

        class Registration(ClientRegistrationEndpoint):
            def authenticate_token(endpoint, request: Any) -> bool:
                return True

            def get_server_metadata(endpoint) -> Any:
                return None

            def generate_client_secret(endpoint, request: Any) -> str:
                return ""

            def save_client(endpoint, info: Any, metadata: Any, request: Any) -> Application:
                client = self.clients[info["client_id"]] = Application(info["client_id"], metadata)
                return client

        self.register_grant(Grant, [CodeChallenge(required=True)])
        self.register_endpoint(Registration(self))
        self.register_token_generator("default", Tokens(issuer.url, expires_generator=600))

    def query_client(self, client_id: str) -> Application | None:
        return self.clients.get(client_id)

    def save_token(self, token: Any, request: Any) -> None:
        self.issuer.granted.append(token)

    def send_signal(self, name: str, *args: Any, **more: Any) -> None:
        pass

    def create_oauth2_request(self, request: Any) -> Form:
        assert isinstance(request, Form)
        return request

    def create_json_request(self, request: Any) -> Document:
        assert isinstance(request, Document)
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        text = json.dumps(body) if isinstance(body, dict) else body
        return Response(text, status, headers=dict(headers))


@cache
def _pair(number: int) -> RSAKey:
    return RSAKey.generate_key(2048, {})


def a_pair(number: int, facts: dict[str, Any]) -> RSAKey:
    """One of a few pairs of keys, for making one takes long."""
    return RSAKey.import_key(_pair(number).as_dict(private=True) | facts)


def signed(head: dict[str, Any], body: str, key: Any) -> str:
    """Signs what a library that takes care would not."""
    parts = [urlsafe_b64encode(part.encode()).rstrip(b"=") for part in (json.dumps(head), body)]
    algorithm = JWSRegistry.algorithms[head["alg"]]
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        signature = algorithm.sign(b".".join(parts), key)
    return b".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=")]).decode()


Answer = Callable[[Request], Awaitable[Response]]


@dataclass
class Issuer:
    """What tests do with the issuer: sign in, rotate its keys, let it hang or lie."""

    url: str = ""
    person: str = "ann"
    extra_claims: dict[str, Any] = field(default_factory=dict)
    keys: list[RSAKey] = field(default_factory=list)
    rotations: int = 0
    granted: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    """Answers by path in the place of the true ones."""
    clock: Callable[[], float] = time.time

    def forget(self) -> None:
        self.person, self.rotations, self.clock = "ann", 0, time.time
        for kept in (self.extra_claims, self.keys, self.granted, self.asked, self.answers):
            kept.clear()
        self.rotate()

    def rotate(self, *, withdraw: bool = False) -> None:
        """A new key signs; the old ones are published still, unless they are withdrawn."""
        kept = [] if withdraw else self.keys
        self.rotations += 1
        key = a_pair(self.rotations, {"kid": f"key-{self.rotations}", "use": "sig"})
        self.keys = [*kept, key]

    def claims(self, **more: Any) -> dict[str, Any]:
        """Those of a good token; `None` leaves one out."""
        now = int(self.clock())
        good = {"iss": self.url, "aud": RESOURCE, "sub": self.person, "iat": now, "exp": now + 600}
        good |= {"client_id": "app", "scope": "board:read board:post board:acknowledge"}
        return {name: value for name, value in (good | more).items() if value is not None}

    def token(
        self,
        *,
        key: Any = None,
        header: dict[str, Any] | None = None,
        algorithms: list[str] | None = None,
        **more: Any,
    ) -> str:
        """A token with those claims, signed as a good one is unless told otherwise."""
        signing = key or self.keys[-1]
        head = {"alg": "RS256", "typ": "at+jwt", "kid": signing.kid} | (header or {})
        head = {name: value for name, value in head.items() if value is not None}
        return signed(head, json.dumps(self.claims(**more)), signing)

    def application(self) -> Starlette:
        server = Server(self)
        metadata = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "jwks_uri": f"{self.url}/jwks",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
        }

        async def described(request: Request) -> Response:
            return JSONResponse(metadata)

        async def published(request: Request) -> Response:
            return JSONResponse(KeySet(self.keys).as_dict(private=False))

        async def register(request: Request) -> Response:
            document = Document("POST", str(request.url), request.headers, await request.json())
            return server.create_endpoint_response("client_registration", document)

        async def authorize(request: Request) -> Response:
            """The person is signed in already and says yes."""
            form = Form("GET", str(request.url), request.headers, parse_qsl(request.url.query))
            grant = server.get_consent_grant(form, end_user=None)
            person = Person(self.person, form.args["resource"])
            return server.create_authorization_response(form, grant_user=person, grant=grant)

        async def token(request: Request) -> Response:
            values = parse_qsl((await request.body()).decode())
            return server.create_token_response(Form("POST", str(request.url), request.headers, values))

        def route(path: str, answer: Answer, method: str = "GET") -> Route:
            async def answered(request: Request) -> Response:
                self.asked.append(path)
                return await self.answers.get(path, answer)(request)

            return Route(path, answered, methods=[method])

        return Starlette(
            routes=[
                route("/.well-known/oauth-authorization-server", described),
                route("/jwks", published),
                route("/register", register, "POST"),
                route("/authorize", authorize),
                route("/token", token, "POST"),
            ]
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    async with serving_issuer(issuer):
        yield issuer


@pytest.fixture
def issuer(served_issuer: Issuer) -> Issuer:
    """The issuer as new; tests that use it run in the loop of their module."""
    served_issuer.forget()
    return served_issuer


@contextlib.asynccontextmanager
async def serving_issuer(issuer: Issuer) -> AsyncIterator[None]:
    config = uvicorn.Config(Starlette(), port=0, lifespan="off", log_config=None, timeout_graceful_shutdown=0)
    listener = config.bind_socket()
    issuer.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config.app = issuer.application()
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listener]))
    try:
        async with asyncio.timeout(PATIENCE):
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)
        listener.close()
