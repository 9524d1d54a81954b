"""Tokens of a real issuer: which are taken, whom they name, and what an issuer in trouble does to the others."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hmac
import json
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from blackboard_mcp.protocols.access import ALL_SCOPES, Action, Role, Scope
from blackboard_mcp.protocols.errors import IssuerUnavailable
from blackboard_mcp.server.http.auth import issuer_keys
from blackboard_mcp.server.http.auth.issuer_keys import IssuerKeys
from blackboard_mcp.server.http.auth.jwt_verifier import JwtVerifier
from blackboard_mcp.server.settings.oauth import oauth_settings
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import ECKey, OKPKey, RSAKey
from patience import PATIENCE
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

pytestmark = pytest.mark.asyncio(loop_scope="module")

RESOURCE = "http://127.0.0.1:8420/mcp"
NOW = 1_800_000_000
"""What the clocks of the issuer and of the verifier show, however long the tests before took."""
OTHER = RSAKey.generate_key(2048, {"kid": "other"})
"""A key that the issuer does not have."""


class Seconds:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Standing:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(NOW, UTC)


Make = Callable[..., JwtVerifier]


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest_asyncio.fixture(loop_scope="module")
async def verifier_with(
    issuer: Any, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Make]:
    stack = AsyncExitStack()
    issuer.clock = lambda: NOW
    # A machine may be slow: what is late on purpose says so.
    monkeypatch.setattr(issuer_keys, "READ_SECONDS", PATIENCE)

    def make(**table: Any) -> JwtVerifier:
        settings = oauth_settings({"issuer": issuer.url, "resource": RESOURCE} | table, "oauth")
        keys = IssuerKeys(settings, clock=seconds)
        stack.push_async_callback(keys.close)
        return JwtVerifier(settings, keys, Standing())

    async with stack:
        yield make


async def test_a_good_token_names_its_agent_its_owner_its_scopes_and_its_end(
    issuer: Any, verifier_with: Make
) -> None:
    principal = await verifier_with().verify(issuer.token(exp=NOW + 600))
    assert principal is not None
    assert (principal.agent, principal.owner, principal.via) == ("ann", "ann", "oauth")
    assert principal.scopes == {Scope.READ, Scope.POST, Scope.ACKNOWLEDGE}
    assert principal.roles == {"*": Role.CONTRIBUTOR}
    assert principal.expires_at == datetime.fromtimestamp(NOW + 630, UTC)
    assert principal.credential
    assert principal.may(Action.POST, "main")
    assert not principal.may(Action.MODERATE, "main")


def edited(token: str, **claims: Any) -> str:
    """The token with other claims under its old signature."""
    head, body, signature = token.split(".")
    document = json.loads(base64.urlsafe_b64decode(body + "=="))
    return ".".join([head, encoded(document | claims), signature])


def encoded(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def unsigned(issuer: Any) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'at+jwt'})}.{encoded(issuer.claims())}."


def signed(head: Any, claims: Any, sign: Callable[[bytes], bytes]) -> str:
    text = f"{encoded(head)}.{encoded(claims)}"
    return f"{text}.{base64.urlsafe_b64encode(sign(text.encode())).decode().rstrip('=')}"


def signed_with_the_public_key(issuer: Any) -> str:
    """An HMAC whose secret is the published key, as libraries that believe the header would check it."""
    public = issuer.keys[-1].as_pem(private=False)
    head = {"alg": "HS256", "typ": "at+jwt", "kid": issuer.keys[-1].kid}
    return signed(head, issuer.claims(), lambda text: hmac.digest(public, text, "sha256"))


def signed_by_another(issuer: Any) -> str:
    return issuer.token(key=OTHER, header={"kid": issuer.keys[-1].kid})


def with_a_key_of_its_own(issuer: Any) -> str:
    return issuer.token(key=OTHER, header={"jwk": OTHER.as_dict(private=False), "jku": f"{issuer.url}/mine"})


BAD: dict[str, Callable[[Any], str]] = {
    "nothing": lambda i: "",
    "no token": lambda i: "Bearer",
    "opaque": lambda i: "8xLOxBtZp8",
    "two parts": lambda i: i.token().rpartition(".")[0],
    "five parts": lambda i: i.token() + ".a.b",
    "other letters": lambda i: i.token() + "é",
    "over the length": lambda i: i.token(more="x" * 20_000),
    "a deep header": lambda i: f"{base64.urlsafe_b64encode(b'[' * 9_000).decode().rstrip('=')}.e30.AA",
    "a deep body": lambda i: (
        f"{i.token().split('.')[0]}.{base64.urlsafe_b64encode(b'[' * 9_000).decode().rstrip('=')}.AA"
    ),
    "a header that is a list": lambda i: f"{encoded([])}.e30.AA",
    "alg none": unsigned,
    "HMAC with the public key": signed_with_the_public_key,
    "tampered": lambda i: edited(i.token(), sub="admin"),
    "the signature cut": lambda i: i.token()[:-8],
    "signed by another key of that id": signed_by_another,
    "an unknown key": lambda i: i.token(key=OTHER),
    "a key in the token": with_a_key_of_its_own,
    "an algorithm that is no text": lambda i: (
        f"{encoded({'alg': ['RS256'], 'typ': 'at+jwt'})}.{encoded({})}.AA"
    ),
    "a kid that is no text": lambda i: (
        f"{encoded({'alg': 'RS256', 'typ': 'at+jwt', 'kid': 5})}.{encoded({})}.AA"
    ),
    "an extension": lambda i: i.token(header={"crit": ["exp"], "exp": 1}),
    "an identity token": lambda i: i.token(header={"typ": "id_token+jwt"}),
    "another issuer": lambda i: i.token(iss="https://id.example.com"),
    "the issuer with a slash": lambda i: i.token(iss=i.url + "/"),
    "no issuer": lambda i: i.token(iss=None),
    "another audience": lambda i: i.token(aud="https://other.example.com/mcp"),
    "the audience with a slash": lambda i: i.token(aud=RESOURCE + "/"),
    "a longer audience": lambda i: i.token(aud=[RESOURCE + ".evil.com", "account"]),
    "an audience that only begins alike": lambda i: i.token(aud="http://127.0.0.1:8420"),
    "no audience": lambda i: i.token(aud=None),
    "an audience by name": lambda i: i.token(aud={RESOURCE: True}),
    "expired": lambda i: i.token(exp=NOW - 30),
    "without an end": lambda i: i.token(exp=None),
    "an end that is no number": lambda i: i.token(exp="2999-01-01"),
    "an end that is true": lambda i: i.token(exp=True),
    "from tomorrow on": lambda i: i.token(nbf=NOW + 86_400),
    "given tomorrow": lambda i: i.token(iat=NOW + 86_400),
    "bound to a key": lambda i: i.token(cnf={"jkt": "x"}),
    "of nobody": lambda i: i.token(sub=None),
    "of a number": lambda i: i.token(sub=7),
    "of an endless name": lambda i: i.token(sub="x" * 1_001),
}


async def test_a_token_that_is_not_in_order_is_nobodys(issuer: Any, verifier_with: Make) -> None:
    verifier = verifier_with()
    taken = [case for case, bad in BAD.items() if await verifier.verify(bad(issuer)) is not None]
    assert taken == []
    assert await verifier.verify(issuer.token()) is not None


async def test_an_end_at_infinity_is_no_end(issuer: Any, verifier_with: Make) -> None:
    token = issuer.token(exp=float("inf"))
    assert b"Infinity" in base64.urlsafe_b64decode(token.split(".")[1] + "==")
    assert await verifier_with().verify(token) is None


async def test_clocks_may_differ_by_the_leeway_and_no_more(issuer: Any, verifier_with: Make) -> None:
    verifier = verifier_with(leeway_seconds=60)
    assert await verifier.verify(issuer.token(exp=NOW - 59)) is not None
    assert await verifier.verify(issuer.token(nbf=NOW + 60)) is not None
    assert await verifier.verify(issuer.token(exp=NOW - 60)) is None
    assert await verifier.verify(issuer.token(nbf=NOW + 61)) is None
    assert await verifier_with(leeway_seconds=0).verify(issuer.token(exp=NOW)) is None


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("PS256", lambda: OTHER),
        ("ES256", lambda: ECKey.generate_key("P-256", {"kid": "k", "alg": "ES256"})),
        ("ES512", lambda: ECKey.generate_key("P-521", {"kid": "k"})),
        ("EdDSA", lambda: OKPKey.generate_key("Ed25519", {"kid": "k"})),
    ],
)
async def test_other_signatures_are_taken_where_they_are_allowed(
    issuer: Any, verifier_with: Make, algorithm: str, key: Callable[[], Any]
) -> None:
    issuer.keys = [key()]
    token = issuer.token(header={"alg": algorithm})
    assert await verifier_with().verify(token) is not None
    assert await verifier_with(algorithms=["RS256"]).verify(token) is None


async def test_a_key_for_one_algorithm_checks_no_other(issuer: Any, verifier_with: Make) -> None:
    issuer.keys = [RSAKey.import_key(OTHER.as_dict(private=True) | {"alg": "RS512"})]
    assert await verifier_with().verify(issuer.token(header={"alg": "RS512"})) is not None
    assert await verifier_with().verify(issuer.token(header={"alg": "RS256"})) is None


async def test_a_key_for_encryption_and_a_short_one_check_nothing(issuer: Any, verifier_with: Make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = RSAKey.import_key(rsa.generate_private_key(65_537, 1_024), {"kid": "short"})
    issuer.keys = [RSAKey.import_key(OTHER.as_dict(private=True) | {"kid": "enc", "use": "enc"}), short]
    verifier = verifier_with()
    assert await verifier.verify(issuer.token(key=issuer.keys[0])) is None
    assert await verifier.verify(issuer.token(key=issuer.keys[1])) is None


async def test_a_token_without_a_key_id_is_taken_where_only_one_key_fits(
    issuer: Any, verifier_with: Make
) -> None:
    assert await verifier_with().verify(issuer.token(header={"kid": None})) is not None
    issuer.rotate()
    assert await verifier_with().verify(issuer.token(header={"kid": None})) is None


@pytest.mark.parametrize(
    ("typ", "types", "taken"),
    [
        ("application/at+JWT", None, True),
        ("JWT", None, True),
        (None, None, False),
        (None, ["at+jwt", ""], True),
        ("JWT", ["at+jwt"], False),
    ],
)
async def test_the_type_of_tokens_is_as_configured(
    issuer: Any, verifier_with: Make, typ: str | None, types: list[str] | None, taken: bool
) -> None:
    verifier = verifier_with(**({} if types is None else {"token_types": types}))
    assert (await verifier.verify(issuer.token(header={"typ": typ})) is not None) is taken


async def test_claims_are_mapped_as_configured(issuer: Any, verifier_with: Make) -> None:
    verifier = verifier_with(
        agent_claim="agent",
        owner_claim="https://example.com/person",
        scope_claim="scp",
        scopes={"board:post": "boards.write"},
        roles_claim="realm_access.roles",
        roles={"moderators": "steward", "everybody": "observer"},
        boards_claim="boards",
    )
    principal = await verifier.verify(
        issuer.token(
            agent="ann.cursor",
            **{"https://example.com/person": "auth0|5f7c8ec7c33c6c004bbafe82"},
            scope="board:admin",
            scp=["board:read", "boards.write", "board:post ", "openid"],
            realm_access={"roles": ["everybody", "moderators", "admin", 7]},
            boards=["alpha", "no board!", "beta", 3],
        )
    )
    assert principal is not None
    assert principal.agent == "ann.cursor"
    assert principal.owner.startswith("auth0-5f7c8ec7c33c6c004bbafe82.")
    assert principal.scopes == {Scope.READ, Scope.POST}
    assert principal.roles == {"alpha": Role.STEWARD, "beta": Role.STEWARD}
    assert principal.role_on("main") is None


async def test_an_object_of_boards_gives_a_role_on_each(issuer: Any, verifier_with: Make) -> None:
    verifier = verifier_with(boards_claim="boards", scope_claim="")
    principal = await verifier.verify(
        issuer.token(boards={"alpha": "admin", "beta": "observer", "gamma": "king", "*": "contributor"})
    )
    assert principal is not None
    assert principal.roles == {"alpha": Role.ADMIN, "beta": Role.OBSERVER, "*": Role.CONTRIBUTOR}
    assert principal.scopes == ALL_SCOPES


async def test_nobody_has_a_role_or_a_board_that_the_claims_do_not_name(
    issuer: Any, verifier_with: Make
) -> None:
    roles = verifier_with(roles_claim="roles", default_role="")
    for claimed in (None, "", "king", ["king"], {"admin": True}, 5):
        principal = await roles.verify(issuer.token(roles=claimed))
        assert principal is not None
        assert principal.roles == {}
    boards = verifier_with(boards_claim="boards")
    for claimed in (None, "", [], {}, 5, True):
        principal = await boards.verify(issuer.token(boards=claimed))
        assert principal is not None
        assert principal.role_on("main") is None
    assert await boards.verify(issuer.token(boards=[f"b{n}" for n in range(1_001)])) is None
    scopes = await verifier_with().verify(issuer.token(scope=None))
    assert scopes is not None
    assert scopes.scopes == frozenset()


async def test_new_keys_are_found_when_a_token_names_one(
    issuer: Any, verifier_with: Make, seconds: Seconds
) -> None:
    verifier = verifier_with()
    old = issuer.token()
    assert await verifier.verify(old) is not None
    issuer.rotate()
    seconds.now += issuer_keys.UNKNOWN_KEY_SECONDS
    assert await verifier.verify(issuer.token()) is not None
    assert await verifier.verify(old) is not None


async def test_a_withdrawn_key_is_no_good_within_minutes(
    issuer: Any, verifier_with: Make, seconds: Seconds
) -> None:
    verifier = verifier_with()
    old = issuer.token()
    assert await verifier.verify(old) is not None
    issuer.rotate(withdraw=True)
    seconds.now += issuer_keys.FRESH_SECONDS
    await verifier.verify(old)  # the keys are read again behind this answer
    assert await verifier.verify(issuer.token()) is not None
    assert await verifier.verify(old) is None


async def test_a_flood_of_unknown_keys_asks_the_issuer_once(
    issuer: Any, verifier_with: Make, seconds: Seconds
) -> None:
    verifier = verifier_with()
    good = issuer.token()
    assert await verifier.verify(good) is not None
    seconds.now += issuer_keys.UNKNOWN_KEY_SECONDS
    flood = [issuer.token(key=OTHER, header={"kid": f"kid-{n}"}) for n in range(50)]
    assert set(await asyncio.gather(*map(verifier.verify, flood))) == {None}
    assert await verifier.verify(good) is not None
    assert issuer.asked.count("/jwks") == 2


async def hang(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


@dataclass
class Hanging:
    """An answer that comes when it is let, and is of no use."""

    asked: asyncio.Event
    over: asyncio.Event

    async def __call__(self, request: Request) -> Response:
        self.asked.set()
        await self.over.wait()
        return Response(b"", 500)


async def endless(request: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"keys": ['
        for _ in range(100):
            yield b" " * 1_000_000

    return StreamingResponse(chunks(), media_type="application/json")


async def packed(request: Request) -> Response:
    return Response(gzip.compress(b"{" + b" " * 10_000_000 + b"}"), headers={"content-encoding": "gzip"})


def answers(status: int, body: bytes) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return Response(body, status)

    return answer


def announces(**more: Any) -> Callable[[Any], Callable[[Request], Any]]:
    def made(issuer: Any) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return JSONResponse({"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"} | more)

        return answer

    return made


def elsewhere(issuer: Any) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return RedirectResponse(f"{issuer.url}/other")

    return answer


METADATA = "/.well-known/oauth-authorization-server"
TROUBLE: dict[str, tuple[str, Callable[[Any], Callable[[Request], Any]]]] = {
    "hangs": ("/jwks", lambda i: hang),
    "sends 100 MB": ("/jwks", lambda i: endless),
    "sends a bomb": ("/jwks", lambda i: packed),
    "is broken": ("/jwks", lambda i: answers(500, b"")),
    "redirects": ("/jwks", elsewhere),
    "sends no JSON": ("/jwks", lambda i: answers(200, b"<html>")),
    "sends a deep list": ("/jwks", lambda i: answers(200, b"[" * 100_000)),
    "sends a list": ("/jwks", lambda i: answers(200, b"[]")),
    "has no list of keys": ("/jwks", lambda i: answers(200, b'{"keys": {}}')),
    "has endless keys": ("/jwks", lambda i: answers(200, b'{"keys": [' + b"{}," * 70 + b"{}]}")),
    "hides its metadata": (METADATA, lambda i: answers(404, b"")),
    "is another": (METADATA, announces(issuer="https://id.example.com")),
    "names no keys": (METADATA, announces(jwks_uri=None)),
    "names keys in the clear": (METADATA, announces(jwks_uri="http://id.example.com/jwks")),
    "names keys in a file": (METADATA, announces(jwks_uri="file:///etc/passwd")),
}


@pytest.mark.parametrize("case", TROUBLE)
async def test_an_issuer_that_cannot_be_asked_lets_nobody_in(
    issuer: Any,
    verifier_with: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    case: str,
) -> None:
    if case == "hangs":
        monkeypatch.setattr(issuer_keys, "READ_SECONDS", 0.6)
    path, answer = TROUBLE[case]
    issuer.answers[path] = answer(issuer)
    verifier = verifier_with()
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            with pytest.raises(IssuerUnavailable):
                await verifier.verify(issuer.token())
    assert len(issuer.asked) <= 3
    assert ("no answer within" in caplog.text) is (case == "hangs")


async def test_an_issuer_in_trouble_stops_nobody_whose_key_is_known_until_the_keys_are_too_old(
    issuer: Any, verifier_with: Make, seconds: Seconds
) -> None:
    verifier = verifier_with()
    good = issuer.token()
    stranger = issuer.token(key=OTHER)
    assert await verifier.verify(good) is not None
    hanging = issuer.answers["/jwks"] = Hanging(asyncio.Event(), asyncio.Event())
    seconds.now += issuer_keys.UNKNOWN_KEY_SECONDS
    asking = asyncio.create_task(verifier.verify(stranger))
    await asyncio.wait_for(hanging.asked.wait(), PATIENCE)
    assert await verifier.verify(good) is not None
    assert not asking.done(), "whose key is known waited for the issuer"
    hanging.over.set()
    with pytest.raises(IssuerUnavailable):
        await asking
    seconds.now += issuer_keys.MAX_AGE_SECONDS - 60
    assert await verifier.verify(good) is not None
    seconds.now += 60
    with pytest.raises(IssuerUnavailable):
        await verifier.verify(good)
    del issuer.answers["/jwks"]
    seconds.now += issuer_keys.UNKNOWN_KEY_SECONDS
    assert await verifier.verify(good) is not None


async def test_the_keys_can_be_named_instead_of_announced(issuer: Any, verifier_with: Make) -> None:
    assert await verifier_with(jwks_url=f"{issuer.url}/jwks").verify(issuer.token()) is not None
    assert issuer.asked == ["/jwks"]


async def test_the_metadata_is_looked_for_where_the_standards_say() -> None:
    assert issuer_keys.metadata_addresses("https://id.example.com/realms/a") == [
        "https://id.example.com/.well-known/oauth-authorization-server/realms/a",
        "https://id.example.com/.well-known/openid-configuration/realms/a",
        "https://id.example.com/realms/a/.well-known/openid-configuration",
    ]
