"""The public keys of an OAuth issuer, read over the network and kept for a while.

If the issuer is down, hangs or sends nonsense, tokens with known keys are still accepted. Keys that could not
be confirmed for `MAX_AGE_SECONDS` are dropped, or a withdrawn key would stay valid for ever. Tokens with
unknown keys cause at most one request to the issuer every `UNKNOWN_KEY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import jwt
from blackboard_mcp.protocols.errors import InvalidInput, IssuerUnavailable

from ...settings.oauth import OAuthSettings, check_address

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 300.0
"""Keys older than this are read again in the background."""
MAX_AGE_SECONDS: Final = 3_600.0
UNKNOWN_KEY_SECONDS: Final = 10.0
READ_SECONDS: Final = 6.0
"""The time limit for reading the keys, metadata included."""
MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 64
_NOBODY_IN: Final = (
    "The issuer of your access token cannot be asked for its keys now, so the token cannot be checked. Nothing was "
    "changed; try again in a minute."
)
_FAMILIES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class _Unreadable(Exception):
    """Raised when the issuer sends no usable answer; the message says why, and is empty for a timeout."""


class IssuerKeys:
    """The keys that an issuer signs with.

    `clock` returns seconds that only grow. `close` ends a reading under way.
    """

    def __init__(self, settings: OAuthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._documents: tuple[Mapping[str, Any], ...] = ()
        self._ready: dict[tuple[int, str], jwt.PyJWK | None] = {}
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._failed = False
        self._reading: asyncio.Task[None] | None = None
        self.questions = 0
        """How often the issuer was asked for its keys."""

    async def matching(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        """Returns the keys that may have signed a token with this key id and algorithm; an empty list if none fits.

        Raises:
            IssuerUnavailable: the known keys are too old, or the issuer could not be asked about an unknown one.
        """
        if self._age() >= MAX_AGE_SECONDS:
            await self._read_again()
            if self._age() >= MAX_AGE_SECONDS:
                raise IssuerUnavailable(_NOBODY_IN)
        elif self._age() >= FRESH_SECONDS and self._may_ask():
            self._start_reading()
        found = self._known(kid, algorithm)
        if not found:
            await self._read_again()
            found = self._known(kid, algorithm)
            if not found and self._failed:
                raise IssuerUnavailable(_NOBODY_IN)
        return found

    async def close(self) -> None:
        """Cancels a reading under way and waits for its end."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    def _age(self) -> float:
        return self._clock() - self._read_at

    def _may_ask(self) -> bool:
        return self._clock() - self._tried_at >= UNKNOWN_KEY_SECONDS

    async def _read_again(self) -> None:
        """Waits for a reading of the keys under way, or for a new one if the last is long enough ago."""
        if self._reading is None and not self._may_ask():
            return
        await asyncio.shield(self._start_reading())

    def _start_reading(self) -> asyncio.Task[None]:
        if self._reading is None:
            self._tried_at = self._clock()
            self._reading = asyncio.create_task(self._read(), name="issuer keys")
            self._reading.add_done_callback(self._read_done)
        return self._reading

    def _read_done(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        self._tried_at = self._clock()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the issuer's keys could not be read", exc_info=error)

    async def _read(self) -> None:
        self._failed = True
        self.questions += 1
        try:
            async with asyncio.timeout(READ_SECONDS):
                documents = _usable(await _document(self._settings.jwks_url or await self._announced()))
        except (_Unreadable, TimeoutError) as error:
            why = str(error) or f"no answer within {READ_SECONDS:g} s"
            logger.warning("the keys of %s cannot be read: %s", self._settings.issuer, why)
            return
        self._documents, self._ready = documents, {}
        self._read_at = self._clock()
        self._failed = False

    async def _announced(self) -> str:
        """Returns the address of the keys from the issuer's metadata.

        See [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414) and OpenID Connect Discovery.
        """
        why = ""
        for url in metadata_addresses(self._settings.issuer):
            try:
                metadata = await _document(url)
            except _Unreadable as error:
                why = why or str(error)
                continue
            if metadata.get("issuer") != self._settings.issuer:
                raise _Unreadable(f"{url} is of another issuer")
            try:
                return check_address(metadata.get("jwks_uri"), f"jwks_uri of {url}")
            except InvalidInput as error:
                raise _Unreadable(error.message) from None
        raise _Unreadable(why)

    def _known(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        fitting = [place for place, key in enumerate(self._documents) if _fits(key, algorithm)]
        if kid is None:
            # Trying each of several keys would let a token choose among them.
            chosen = fitting if len(fitting) == 1 else []
        else:
            chosen = [place for place in fitting if self._documents[place].get("kid") == kid]
        keys = [self._loaded(place, algorithm) for place in chosen[:2]]
        return [key for key in keys if key is not None]

    def _loaded(self, place: int, algorithm: str) -> jwt.PyJWK | None:
        if (place, algorithm) not in self._ready:
            try:
                self._ready[place, algorithm] = jwt.PyJWK(dict(self._documents[place]), algorithm)
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                self._ready[place, algorithm] = None
        return self._ready[place, algorithm]


def metadata_addresses(issuer: str) -> list[str]:
    """Returns the addresses where an issuer's metadata may be, in the order to try them."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    addresses = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]
    return list(dict.fromkeys(addresses))


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Tells whether a key claims to be a public key for signatures of this algorithm."""
    return (
        key.get("kty") == _FAMILIES[algorithm[:2]]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and "verify" in (operations if isinstance(operations := key.get("key_ops"), list) else ["verify"])
        and "d" not in key
    )


def _usable(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    keys = document.get("keys")
    if not isinstance(keys, list):
        raise _Unreadable("what should hold its keys holds none")
    if len(keys) > MAX_KEYS:
        raise _Unreadable(f"it has over {MAX_KEYS} keys")
    return tuple(key for key in keys if isinstance(key, dict))


def _client(url: str) -> httpx2.AsyncClient:
    # Runs in a thread: the import and the reading of certificates would block other requests for too long.
    import httpx2

    return httpx2.AsyncClient(
        headers={"accept": "application/json", "accept-encoding": "identity"},
        timeout=httpx2.Timeout(READ_SECONDS),
        follow_redirects=False,
        trust_env=False,
        verify=url.startswith("https:"),
    )


async def _document(url: str) -> Mapping[str, Any]:
    import httpx2

    try:
        async with await asyncio.to_thread(_client, url) as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                raise _Unreadable(f"{url} answered {response.status_code}")
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise _Unreadable(f"{url} compressed its answer, which was not asked for")
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > MAX_DOCUMENT_BYTES:
                    raise _Unreadable(f"{url} answered over {MAX_DOCUMENT_BYTES:,} bytes")
    except httpx2.HTTPError as error:
        raise _Unreadable(f"{url} cannot be read: {type(error).__name__}") from None
    try:
        document = json.loads(bytes(read))
    except (ValueError, RecursionError):
        raise _Unreadable(f"{url} is not JSON") from None
    if not isinstance(document, dict):
        raise _Unreadable(f"{url} is no JSON object")
    return document
