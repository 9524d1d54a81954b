"""Verification of an OAuth issuer's access tokens: JSON Web Tokens signed by one of its keys.

Checks follow [RFC 9068](https://www.rfc-editor.org/rfc/rfc9068) section 4 with an exact audience ([RFC
8707](https://www.rfc-editor.org/rfc/rfc8707)). Before the signature is checked only the token's header is
used, and it can only choose among the allowed algorithms and keys.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import jwt
from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.clock import Clock

from ...settings.oauth import OAuthSettings
from .claims import UnfitClaims, principal_of
from .issuer_keys import IssuerKeys

if TYPE_CHECKING:
    from jwt.types import Options

logger = logging.getLogger(__name__)

MAX_TOKEN_CHARS: Final = 16_384
_LATEST: Final = 253_402_300_799  # the end of year 9999, which a datetime can still hold
_SIGNATURE_ONLY: Final = {
    "verify_signature": True,
    "enforce_minimum_key_length": True,
    **dict.fromkeys(
        ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub", "verify_jti"),
        False,
    ),
}


class JwtVerifier:
    """Finds the principal that an issuer's token stands for."""

    def __init__(self, settings: OAuthSettings, keys: IssuerKeys, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._jwt = jwt.PyJWT(cast("Options", _SIGNATURE_ONLY))

    async def verify(self, token: str) -> Principal | None:
        """Returns the principal of the token, or `None` if it is not valid; the log says why.

        Raises:
            IssuerUnavailable: the token cannot be checked now.
        """
        mark = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        try:
            claims = await self._signed(token)
            ends = self._checked(claims)
            return principal_of(claims, self._settings, credential=mark, expires_at=ends)
        except UnfitClaims as error:
            logger.info("token %s is refused: %s", mark, error)
            return None

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Ends a reading of keys under way when the context is left."""
        try:
            yield
        finally:
            await self._keys.close()

    async def _signed(self, token: str) -> Mapping[str, Any]:
        """Returns the claims of a token that one of the issuer's keys signed.

        Raises:
            UnfitClaims: the token is malformed, of a kind that is not allowed, or not signed by the issuer.
        """
        if len(token) > MAX_TOKEN_CHARS or not token.isascii() or token.count(".") != 2:
            raise UnfitClaims("it is no signed token")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise UnfitClaims("its header cannot be read") from None
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise UnfitClaims("its algorithm is not allowed")
        if (
            not isinstance(kind, str)
            or kind.lower().removeprefix("application/") not in self._settings.token_types
        ):
            raise UnfitClaims("its typ is not allowed")
        if "crit" in header or "b64" in header:
            raise UnfitClaims("it asks for extensions")
        if kid is not None and (not isinstance(kid, str) or len(kid) > 500):
            raise UnfitClaims("its kid is no text")
        for key in await self._keys.matching(kid, algorithm):
            try:
                claims: dict[str, Any] = self._jwt.decode(token, key, algorithms=[algorithm])
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                continue
            return claims
        raise UnfitClaims("no key of the issuer signed it")

    def _checked(self, claims: Mapping[str, Any]) -> datetime:
        """Returns when the token ends, leeway included, after checking its issuer, audience and times.

        Raises:
            UnfitClaims: one of them does not hold.
        """
        if claims.get("iss") != self._settings.issuer:
            raise UnfitClaims("another issuer gave it")
        audience = claims.get("aud")
        if self._settings.resource not in (audience if isinstance(audience, list) else [audience]):
            raise UnfitClaims("it is for another audience")
        if "cnf" in claims:
            raise UnfitClaims("it is bound to a key, and was shown without a proof of that")
        now, leeway = self._clock.now().timestamp(), self._settings.leeway_seconds
        ends = _instant(claims, "exp")
        if ends is None:
            raise UnfitClaims("it never expires")
        if now >= ends + leeway:
            raise UnfitClaims("it expired")
        for name in ("nbf", "iat"):
            starts = _instant(claims, name)
            if starts is not None and now < starts - leeway:
                raise UnfitClaims(f"its {name} is in the future")
        return datetime.fromtimestamp(min(ends + leeway, _LATEST), UTC)


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UnfitClaims(f"its {name} is no instant")
    return value if value <= _LATEST else float(_LATEST)
