"""Checks of a server that other machines can reach: tokens, host names, TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput

from ..access.identity import is_loopback
from ..http.exposure import check_exposure, networks_of, tls_of
from ..settings.server import Settings
from .findings import Finding, problem, warning

SOON = timedelta(days=14)


def look(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Yields what is wrong with the certificate, and what an address for other machines lacks beside tokens."""
    try:
        tls = tls_of(settings.tls_cert, settings.tls_key)
    except InvalidInput as error:
        yield problem(
            "tls-wrong", error.message, "Give PEM files that the server may read: a chain and its key."
        )
        return
    if tls is not None:
        yield from _expiry(tls.cert, now)
    try:
        check_exposure(
            settings.host if settings.transport == "http" else "127.0.0.1",
            authenticated=True,
            allowed_hosts=settings.allowed_hosts,
            tls=tls,
            proxies=networks_of(settings.behind_proxy),
        )
    except InvalidInput as error:
        yield problem(
            "exposure-refused", error.message, "Set what is missing; the server does not start without."
        )


def without_tokens(settings: Settings) -> Iterator[Finding]:
    """Yields a problem if the address needs tokens; called when there are no valid ones."""
    if settings.transport == "http" and not is_loopback(settings.host) and settings.oauth is None:
        yield problem(
            "tokens-missing",
            f"There are no good access tokens, and {settings.host} is no loopback address: the server does not start.",
            "`blackboard-mcp token create` makes one; or name an OAuth issuer in the table [oauth].",
            host=settings.host,
        )


def _expiry(cert: Path, now: datetime) -> Iterator[Finding]:
    # The only reader of certificates in the standard library; without it the expiry is not checked.
    read: Any = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)
    if read is None:
        return
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(read(str(cert))["notAfter"]), UTC)
    cure = "Renew it; a running server takes the new files by itself within ten seconds."
    if ends <= now:
        yield problem(
            "tls-expired", f"The certificate {cert} ended on {ends:%Y-%m-%d}.", cure, ends=ends.isoformat()
        )
    elif ends - now < SOON:
        yield warning(
            "tls-expiring", f"The certificate {cert} ends on {ends:%Y-%m-%d}.", cure, ends=ends.isoformat()
        )
