"""Requirements on a server before it listens to other machines."""

from __future__ import annotations

import os
import shlex
import ssl
import stat
import sys
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass

from ..access.identity import is_loopback

Network = IPv4Network | IPv6Network

_TOKENS: Final = (
    "access tokens, or anybody who reaches it could be any agent: make one with `blackboard-mcp token create`, or name "
    "an OAuth issuer in the table [oauth]"
)
_HOSTS: Final = (
    "the host names that clients use, exactly as in their URL: --allowed-hosts board.example.com:8420"
)
_TLS: Final = (
    "TLS, or tokens would go over the network in the clear: --tls-cert and --tls-key; or, where a proxy in front ends "
    "TLS, that proxy's address: --behind-proxy 10.0.0.5"
)


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its key, as PEM files."""

    cert: Path
    key: Path


def check_exposure(
    host: str,
    *,
    authenticated: bool,
    allowed_hosts: Sequence[str],
    tls: Tls | None,
    proxies: Sequence[Network],
) -> None:
    """Checks that a server has all it needs to listen on an address.

    Other machines can reach every address but loopback ones, so the server needs tokens, host names and TLS
    there.

    Raises:
        InvalidInput: something is missing; the message names all of it.
    """
    if is_loopback(host):
        return
    there = ((authenticated, _TOKENS), (allowed_hosts, _HOSTS), (tls is not None or proxies, _TLS))
    missing = [what for given, what in there if not given]
    if missing:
        raise InvalidInput(
            f"The server did not start: {host} is not a loopback address. Missing: "
            + " ".join(f"({n}) {what}" for n, what in enumerate(missing, 1))
            + " Or serve on 127.0.0.1."
        )


def check_folder(folder: Path) -> None:
    """Checks that only the current user can read and write the data folder; others could bypass tokens.

    Raises:
        InvalidInput: other users of this machine have access to the folder.
    """
    mode = folder.stat().st_mode & 0o777
    if sys.platform != "win32" and mode & 0o077:
        raise InvalidInput(
            f"The server did not start: it asks for access tokens, and {folder} has mode {mode:o}, so other users of "
            f"this machine can get at everything in it without one. Close it: "
            f"chmod 700 {shlex.quote(str(folder))}. If that is meant, say --allow-open-folder."
        )


def tls_of(cert: Path | None, key: Path | None) -> Tls | None:
    """Returns the certificate and key of the settings after loading them once; `None` if neither is set.

    Raises:
        InvalidInput: one is missing, they cannot be read or do not belong together, or everybody can access the key.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        there, lacks = ("tls_key", "tls_cert") if cert is None else ("tls_cert", "tls_key")
        raise InvalidInput(f"{there} is given without {lacks}; TLS needs both.")
    tls = Tls(cert.expanduser(), key.expanduser())
    try:
        for file in (tls.cert, tls.key):
            file.open("rb").close()
        # Without this a key with a passphrase would stop the start to ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key, password=lambda: b"")
    except ssl.SSLError as error:
        raise InvalidInput(
            f"{tls.cert} and {tls.key} are no certificate in PEM and its key without a passphrase: "
            f"{error.reason or 'they cannot be read'}."
        ) from error
    except OSError as error:
        raise InvalidInput(f"Cannot read {error.filename or tls.cert}: {error.strerror}.") from error
    if os.name != "nt" and stat.S_IMODE(tls.key.stat().st_mode) & 0o007:
        raise InvalidInput(f"Everybody on this machine can read or write the key {tls.key}: chmod o-rwx it.")
    return tls


def networks_of(addresses: Sequence[str]) -> tuple[Network, ...]:
    """Returns the networks that the settings name as addresses or networks of proxies.

    Raises:
        InvalidInput: an entry is neither, or covers every address.
    """
    found = []
    for address in addresses:
        try:
            network = ip_network(address, strict=False)
        except ValueError:
            raise InvalidInput(
                f"behind_proxy names {address[:64]!a:.100}, which is no address and no network: give the proxy's own, "
                "as in 10.0.0.5 or 10.0.0.0/28."
            ) from None
        if network.prefixlen == 0:
            raise InvalidInput(f"behind_proxy names {address}, which is every address: give the proxy's own.")
        found.append(network)
    return tuple(found)


def is_in(peer: str, networks: Sequence[Network]) -> bool:
    """Tells whether the address of a connection's other end is in one of the networks."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)
