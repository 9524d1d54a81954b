"""The address of a PostgreSQL database, as `--store` takes it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass

SCHEMES = ("postgresql", "postgres")
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """An address and what it says about this product.

    Attributes:
        dsn: the address for the driver, without the parameters below; it may hold a password.
        shown: the address without password and parameters, for messages.
        schema: the schema that holds the boards.
        pooled: connections lead through a transaction pooler: nothing is kept on them between transactions.
        listen: a direct address for news, for a pooled one; `None` polls instead.
    """

    dsn: str
    shown: str
    schema: str = "blackboard"
    pooled: bool = False
    listen: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads `postgresql://user@host:port/database?schema=…&statement_cache_size=0&listen=…`.

        All other parameters are the driver's, such as `sslmode`.

        Raises:
            InvalidInput: it is no such address; the message does not repeat a password.
        """
        try:
            parts = urlsplit(text)
            hosts = parts.netloc.rpartition("@")[2]
            for host in hosts.split(","):
                urlsplit(f"//{host}").port  # noqa: B018 - raises if it is none
        except ValueError:
            raise InvalidInput(f"The address of the store cannot be read. {_FORM}") from None
        if parts.scheme not in SCHEMES:
            raise InvalidInput(f"The address of the store has another scheme than postgresql. {_FORM}")
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = given.pop("schema", "blackboard")
        if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
            raise InvalidInput(
                f"schema={schema[:64]!a:.100}: a schema has 1 to 63 small letters, digits and underscores. {_FORM}"
            )
        cached = given.pop("statement_cache_size", None)
        if cached not in (None, "0"):
            raise InvalidInput(f"statement_cache_size can only be 0, for a transaction pooler. {_FORM}")
        listen = given.pop("listen", None)
        for name in _FILES:
            # The driver tells of a missing file like of a server that is away, without its name.
            if (path := given.get(name)) and not os.access(path, os.R_OK):
                raise InvalidInput(f"{name}={path[:200]!a}: this process can read no such file. {_FORM}")
        return cls(
            dsn=urlunsplit(parts._replace(query=urlencode(given))),
            shown=f"{parts.scheme}://{hosts}{parts.path}",
            schema=schema,
            pooled=cached is not None,
            listen=listen,
        )


_FORM = "It has the form postgresql://USER@HOST:PORT/DATABASE; put the password into ~/.pgpass or PGPASSWORD."


@contextmanager
def needing_driver() -> Iterator[None]:
    """Surrounds the import of what needs PostgreSQL's driver.

    Raises:
        InvalidInput: the driver is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise InvalidInput(
            "PostgreSQL needs its driver, which is not installed: pip install 'blackboard-mcp[postgres]'."
        ) from None
