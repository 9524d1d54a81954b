"""Settings: command line over environment (`BLACKBOARD_…`) over a TOML file over the defaults."""

from __future__ import annotations

import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.protocols.summaries import AGENT, ENDPOINTS, EXTRACTIVE, SUMMARISERS
from blackboard_mcp.protocols.values import dataclass

from ..access.reading import read_rules
from ..access.registry import AccessPolicies
from ..access.tables import AccessTable, access_tables, named_classes
from ..checks.running import Check
from ..input.secrets import MASK, REFUSE, check_patterns
from ..input.syntax import KINDS, check_kinds
from ..limits.limits import Limits, limits_of
from ..plugins.loading import CLASS
from ..pruning.policies import Policies
from .boards import check_settings
from .oauth import OAuthSettings, oauth_settings

PREFIX = "BLACKBOARD_"
WORKER_VARIABLE = "_" + PREFIX + "CHANNEL"
"""The variable with a worker's end of the channel to its parent. It is no setting."""
TOOL_SETS = ("core", "run", "plan", "memory", "workspace", "messages", "admin")
"""Sets of tools there are."""
PATTERNS, MODEL = "patterns", "model"
"""Sources of rules that are proposed from messages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one server runs. Tokens are those of the board's tokenizer; `data` holds everything it keeps."""

    transport: str = "stdio"
    host: str = "127.0.0.1"
    port: int = 8420
    workers: int = 1
    data: Path | None = None
    store: str | None = None
    archive: str | None = None
    index_at: str | None = None
    index_every_seconds: int = 10
    board: str = "main"
    agent: str | None = None
    owner: str | None = None
    tools: tuple[str, ...] = ("core",)
    tool_prefix: str = ""
    target_tokens: int = 6_000
    structured: str = "ask"
    arguments: str = "common"
    tokenizer: str = "o200k_base"
    deciders: tuple[str, ...] = ()
    stewards: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    validator: tuple[str, ...] = ()
    access: tuple[AccessTable, ...] = ()
    read: tuple[ReadRule, ...] | None = None
    protocol: tuple[str, ...] = ()
    strategy: tuple[str, ...] = ()
    secrets: str = "mask"
    secret_patterns: tuple[str, ...] = ()
    syntax: tuple[str, ...] = KINDS
    check: tuple[Check, ...] = ()
    board_settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    retention: Retention | None = None
    synchronous: str = "FULL"
    auth: str = "auto"
    oauth: OAuthSettings | None = None
    allow_open_folder: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    log_level: str = "WARNING"
    embedder: str = "wordllama"
    embedding_url: str | None = None
    embedding_model: str | None = None
    embedding_query_prefix: str = ""
    embedding_passage_prefix: str = ""
    summariser: str = EXTRACTIVE
    summary_url: str | None = None
    summary_model: str | None = None
    summary_timeout_seconds: int = 20
    capture: str = PATTERNS

    @property
    def folder(self) -> Path:
        """The data folder: as set, else the platform's user data folder."""
        if self.data is not None:
            return self.data.expanduser()
        from platformdirs import user_data_path

        return user_data_path("blackboard-mcp", appauthor=False)

    @property
    def database(self) -> Path:
        return self.folder / "board.sqlite3"

    @property
    def store_shown(self) -> str:
        """The name of the store for messages: an address without its password."""
        if self.store is None or not self.on_postgres:
            return self.store or ""
        from blackboard_mcp.storage.postgres.address import Address

        return Address.parse(self.store).shown

    @property
    def on_postgres(self) -> bool:
        """Whether the boards are in a PostgreSQL database."""
        return self.store is not None and "://" in self.store

    @property
    def index(self) -> Path:
        return self.folder / "archive.lance"

    @property
    def repositories(self) -> Path:
        """The folder with the Git repository of each board that has files."""
        return self.folder / "workspaces"

    @property
    def checking(self) -> Path:
        """The folder in which checks of files run, and that has the output of the last run of each."""
        return self.folder / "checks"

    def board_config(
        self, policies: Policies, validators: Sequence[str] = (), access: AccessPolicies | None = None
    ) -> BoardConfig:
        """The configuration of boards created from now on.

        Raises:
            InvalidInput: `board_settings` holds one that is none, or that clashes.
        """
        plain = BoardConfig(target_tokens=self.target_tokens, tokenizer=self.tokenizer)
        for name in ("target_tokens", "tokenizer"):
            if name in self.board_settings:
                raise InvalidInput(f"board_settings: {name} is a setting of its own; use that.")
        try:
            fields = check_settings(
                plain, self.board_settings, policies, (EXTRACTIVE, AGENT, self.summariser), validators, access
            )
            return replace(plain, **fields)
        except InvalidInput as error:
            raise InvalidInput(
                f"board_settings: {error.message.removesuffix(' Nothing was changed.')}"
            ) from None


_CHOICES: dict[str, tuple[str, ...]] = {
    "transport": ("stdio", "http"),
    "structured": ("ask", "always"),
    "arguments": ("common", "all"),
    "auth": ("auto", "token"),
    "synchronous": ("FULL", "NORMAL"),
    "secrets": (MASK, REFUSE),
    "embedder": ("wordllama", "openai", "none"),
    "summariser": SUMMARISERS,
    "capture": (PATTERNS, MODEL),
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
}
_TOOL_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,32}")
_RANGES: dict[str, tuple[int, int]] = {
    "port": (0, 65_535),
    "workers": (1, 64),
    "target_tokens": (200, 10_000_000),
    "summary_timeout_seconds": (1, 300),
    "index_every_seconds": (1, 600),
}
_PREFIXES = ("embedding_query_prefix", "embedding_passage_prefix")
_FLAGS = frozenset({"allow_open_folder"})
_AGENTS = frozenset({"deciders", "stewards"})
_LISTS = frozenset(
    {
        "tools",
        "deciders",
        "stewards",
        "policy",
        "validator",
        "protocol",
        "strategy",
        "secret_patterns",
        "syntax",
        "behind_proxy",
        "allowed_hosts",
        "allowed_origins",
    }
)
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
_PATTERNS = {
    "allowed_hosts": (re.compile(_HOST), "HOST or HOST:PORT, say board.example.com:8420"),
    "allowed_origins": (
        re.compile(f"[A-Za-z][A-Za-z0-9+.-]*://{_HOST}"),
        "SCHEME://HOST or SCHEME://HOST:PORT, say https://app.example.com",
    ),
}
NAMES = tuple(f.name for f in fields(Settings))
# Environment variables with our prefix that are no settings.
_OTHER_VARIABLES = frozenset({"CONFIG", "TOKEN", "TOKEN_FILE", "URL", "SUMMARY_KEY", "EMBEDDING_KEY"})


def load(
    given: Mapping[str, Any], environment: Mapping[str, str] | None = None, config: Path | None = None
) -> Settings:
    """The settings in force. `given` are those of the command line, `None` for what was not said.

    Raises:
        InvalidInput: an unknown setting, a wrong value, or a file that cannot be read; it names which.
    """
    environ = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    path = config or (Path(environ[PREFIX + "CONFIG"]) if environ.get(PREFIX + "CONFIG") else None)
    if path is not None:
        values.update(_from_file(path))
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and (key := name[len(PREFIX) :]) not in _OTHER_VARIABLES:
            if key.lower() not in NAMES or key != key.upper():
                raise InvalidInput(
                    f"Unknown setting {name} in the environment; there are: "
                    f"{', '.join(PREFIX + n.upper() for n in NAMES)}."
                )
            if value:  # an empty variable is one that somebody's template left out
                values[key.lower()] = _checked(key.lower(), value, f"{name}", values)
    for key, value in given.items():
        if value is not None:
            values[key] = _checked(key, value, "--" + key.replace("_", "-"), values)
    return replace(Settings(), **values)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.expanduser().open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"Cannot read the configuration {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}.") from error
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in NAMES:
            raise InvalidInput(f"Unknown setting '{key}' in {path}; there are: {', '.join(NAMES)}.")
        values[key] = _checked(key, value, f"{key} in {path}", values)
    return values


def _checked(key: str, value: Any, where: str, others: Mapping[str, Any]) -> Any:
    """`value` in the type of the setting; `others` are those said before, which tables are added to."""
    if key == "oauth":
        return oauth_settings(_table(value, where), where)
    if key == "retention":
        from .retention import retention_of

        return retention_of(_table(value, where), where)
    if key == "limits":
        return limits_of(value, where, others.get("limits"))
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            raise InvalidInput(f"{where} is {value!r}; allowed: {', '.join(_CHOICES[key])}.")
        return value
    if key in _RANGES:
        low, high = _RANGES[key]
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidInput(f"{where} is {value!r}; it must be a whole number.")
        if not low <= number <= high:
            raise InvalidInput(f"{where} is {value!r}; it must be from {low:,} to {high:,}.")
        return number
    if key == "access":
        return access_tables(value, where)
    if key == "read":
        return read_rules(value, where)
    if key == "check":
        from .checks import checks_of

        return checks_of(value, where)
    if key in ("policy", "validator", "strategy"):
        value = named_classes(value, where)
    if key in _FLAGS:
        said = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if said is None:
            raise InvalidInput(f"{where} is {value!r}; it must be true or false.")
        return said
    if key in _LISTS:
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not all(isinstance(v, str) for v in listed):
            raise InvalidInput(f"{where} must be a list of texts, or texts joined by commas.")
        names = tuple(v.strip() for v in listed if v.strip())
        if key == "secret_patterns":
            check_patterns(names, where)
        if key == "syntax":
            names = check_kinds(names, where)
        if key in _PATTERNS:
            pattern, form = _PATTERNS[key]
            for name in names:
                if not pattern.fullmatch(name):
                    raise InvalidInput(
                        f"{where} has {name[:100]!r}, which nobody can send; it has the form {form}."
                    )
        if key in _AGENTS:
            names = tuple(dict.fromkeys(_named(key, name, where) for name in names))
        return _tool_sets(names, where) if key == "tools" else names
    if key == "board_settings":
        return _table(value, where)
    if not isinstance(value, str | Path):
        raise InvalidInput(f"{where} is {value!r}; it must be a text.")
    if key in _PREFIXES:
        if len(str(value)) > 200 or not str(value).isprintable():
            raise InvalidInput(f"{where} must be at most 200 printable characters.")
        return str(value)
    if not str(value) and key != "tool_prefix":
        raise InvalidInput(f"{where} is empty; leave it out for the default.")
    if key == "tool_prefix" and not _TOOL_PREFIX.fullmatch(str(value)):
        raise InvalidInput(f"{where} is {value!r}; it may have 32 of A-Z a-z 0-9 _ - and no others.")
    if key in ("summary_url", "embedding_url"):
        return _url(str(value), where)
    if key == "store":
        if "://" in str(value):
            from blackboard_mcp.storage.postgres.address import Address

            Address.parse(str(value))
            return str(value)
        return _class(str(value), where, ", or an address postgresql://USER@HOST/DATABASE")
    if key == "index_at":
        return _location(str(value), where)
    if key == "archive":
        return _class(str(value), where)
    if key in ("agent", "owner", "board"):
        return _named(key, str(value), where)
    if key not in ("data", "tls_cert", "tls_key"):
        return str(value)
    if "\0" in str(value):
        raise InvalidInput(f"{where} is {str(value)!r}; no path has a NUL character.")
    return Path(value)


def _table(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{where} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidInput(f'{where} must be an object of settings by name, say {{"ceiling": 3}}.')
    return value


def _class(value: str, where: str, other: str = "") -> str:
    """The import path of a class; `other` names what else may stand there."""
    if not CLASS.match(value):
        raise InvalidInput(f"{where} is {value[:80]!r}; it must be of the form package.module:Class{other}.")
    return value


_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[\w.=-]+)*/?", re.ASCII)


def _location(value: str, where: str) -> str:
    """A folder or a bucket that several machines share, named the same on all of them."""
    found = value.rstrip("/")
    if not (
        _BUCKET.fullmatch(value) if "://" in value else Path(found).is_absolute() and found.isprintable()
    ):
        raise InvalidInput(
            f"{where} must be s3://BUCKET/PREFIX (letters, digits and . _ - = between slashes), or the absolute path "
            "of a folder that all servers mount. Keys go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
            "environment."
        )
    return found


def check_workers(settings: Settings) -> None:
    """Refuses several workers where they could not serve the same boards to the same clients.

    Raises:
        InvalidInput: it says why.
    """
    if settings.workers == 1:
        return
    if settings.transport != "http":
        raise InvalidInput(
            f"workers is {settings.workers}, and transport is stdio: one client speaks to one process there. Serve "
            "with --transport http, or leave workers out."
        )
    if settings.store is not None and not settings.on_postgres:
        raise InvalidInput(
            f"workers is {settings.workers}, and store is {settings.store_shown}: each worker would open a store of "
            "its own, and nothing says that several can share its boards. Boards in the built-in file or in "
            "PostgreSQL can; or leave workers out."
        )
    if not hasattr(socket, "send_fds"):
        raise InvalidInput(
            f"workers is {settings.workers}: this system cannot hand connections from one process to another. Leave "
            "workers out, and start several servers on one data folder, each with a port of its own."
        )


def check_index(settings: Settings) -> None:
    """Refuses a shared index without machines that could share it, or beside an index of the operator's own.

    Raises:
        InvalidInput: it says what is missing or clashes.
    """
    if settings.index_at is None:
        return
    if not settings.on_postgres:
        raise InvalidInput(
            "index_at is for servers that share boards in PostgreSQL: name the database with store."
        )
    if settings.archive is not None:
        raise InvalidInput("index_at and archive are both given; name one search index.")


def _url(value: str, where: str) -> str:
    """An address to ask at: scheme, host and path, and nothing that could carry a secret into a log."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    plain = value.isascii() and value.isprintable() and " " not in value
    if not (plain and parts.scheme in ("http", "https") and parts.hostname):
        raise InvalidInput(f"{where} must be an http or https address, such as http://127.0.0.1:11434.")
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in value or "#" in value:
        raise InvalidInput(
            f"{where} must have no user, query or fragment; a key goes into "
            f"{PREFIX}SUMMARY_KEY or {PREFIX}EMBEDDING_KEY in the environment."
        )
    return value


def check_endpoint(settings: Settings) -> None:
    """Refuses an endpoint without its address or model, and an address without its kind.

    Raises:
        InvalidInput: it names what is missing or idle.
    """
    given = {name: getattr(settings, name) for name in ("summary_url", "summary_model")}
    if settings.summariser in ENDPOINTS:
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InvalidInput(f"summariser {settings.summariser} needs {' and '.join(missing)}.")
    else:
        idle = [name for name, value in given.items() if value is not None]
        if idle:
            raise InvalidInput(
                f"{idle[0]} is given, and summariser is {settings.summariser}; name {' or '.join(ENDPOINTS)}."
            )
        if settings.capture == MODEL:
            raise InvalidInput(
                f"capture {MODEL} needs summariser {' or '.join(ENDPOINTS)}, with summary_url and summary_model."
            )


def check_embedder(settings: Settings) -> None:
    """Refuses an endpoint of embeddings without its address or model, and either without the kind.

    Raises:
        InvalidInput: it names what is missing or idle.
    """
    given = {name: getattr(settings, name) for name in ("embedding_url", "embedding_model")}
    if settings.embedder == "openai":
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InvalidInput(f"embedder openai needs {' and '.join(missing)}.")
    else:
        given |= {name: getattr(settings, name) or None for name in _PREFIXES}
        idle = [name for name, value in given.items() if value is not None]
        if idle:
            raise InvalidInput(f"{idle[0]} is given, and embedder is {settings.embedder}; name openai.")


def _named(key: str, name: str, where: str) -> str:
    """The name in the form in which it is kept."""
    from ..input.posts import check_addressed, check_agent, check_board

    try:
        if key in _AGENTS:
            return check_addressed(name, "List agents by name; left out, it is whoever has the role.")
        return (check_board if key == "board" else check_agent)(name)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message.removesuffix(' Nothing was changed.')}") from None


def _tool_sets(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    unknown = [name for name in names if name not in (*TOOL_SETS, "all")]
    if unknown:
        raise InvalidInput(f"{where} names {unknown[0]!r}; there are: {', '.join(TOOL_SETS)}, all.")
    return TOOL_SETS if "all" in names else tuple(dict.fromkeys(("core", *names)))
