"""Ports for servers that are started later, or again after they ended."""

from __future__ import annotations

import contextlib
import secrets
import socket
from typing import Final

PORTS: Final = range(15_000, 30_000)
"""Below those that systems hand out for port 0: another test's server never comes to listen at one of them."""


def free_port() -> int:
    """Returns a port of loopback on which nothing listens."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := secrets.choice(PORTS)))
            return port
