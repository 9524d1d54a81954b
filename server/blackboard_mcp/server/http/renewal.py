"""Renewal of TLS certificates while the server runs: new connections get the new one, and open ones stay."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.errors import InvalidInput

from .exposure import tls_of

if TYPE_CHECKING:
    from .exposure import Tls

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0

_Stamp = tuple[tuple[int, int, int], ...]


async def follow(serving: ssl.SSLContext, tls: Tls) -> None:
    """Watches the files of the certificate and key, and gives new connections each new pair. Never returns.

    A pair that is wrong or half written is logged, and the former one stays in use.
    """
    newest = serving

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = newest

    # A new context for each pair: one context would keep the former chain beside the new one if their keys are of
    # different types.
    serving.sni_callback = choose
    seen = _stamp(tls)
    told = ""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if (stamp := _stamp(tls)) == seen:
            continue
        try:
            tls_of(tls.cert, tls.key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key, password=lambda: b"")
        except (InvalidInput, OSError) as error:
            if str(error) != told:
                logger.error("the certificate changed and is not taken; the former stays in use: %s", error)
            told = str(error)
            continue
        seen, newest, told = stamp, context, ""
        logger.warning("the certificate was renewed: new connections get it")


def _stamp(tls: Tls) -> _Stamp | None:
    """Returns a value that changes when either file does, or `None` if one is missing."""
    try:
        found = [file.stat() for file in (tls.cert, tls.key)]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)
