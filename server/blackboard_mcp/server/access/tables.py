"""Access policies as the operator writes them: tables of a file, checked key by key. Nothing is imported
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, TypeVar

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.changes import EVERYWHERE, ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.keys import check_glob
from blackboard_mcp.protocols.policy import AccessPolicy
from blackboard_mcp.protocols.values import dataclass

from ..plugins.loading import CLASS, NAME, NAMED
from .built_in import AGENT, OWNER, PATTERNS, WRITES, AllowAll, DenyRest, OwnerPrefixes, RoleRule, Roles

ALLOW_ALL: Final = "allow-all"
DENY_REST: Final = "deny-rest"
ROLES: Final = "roles"
OWNER_PREFIXES: Final = "owner-prefixes"
BUILT_IN: Final = (ALLOW_ALL, ROLES, OWNER_PREFIXES, DENY_REST)
READY: Final[Mapping[str, AccessPolicy]] = {
    ALLOW_ALL: AllowAll(),
    OWNER_PREFIXES: OwnerPrefixes(),
    DENY_REST: DenyRest(),
}
"""Built-in policies that need no table, by name."""
MAX_TABLES: Final = 32
MAX_RULES: Final = 100
MAX_PATTERNS: Final = 100
_COMMON = ("name", "policy", "class", "boards")
_OWN: dict[str, tuple[str, ...]] = {ROLES: ("rules",), OWNER_PREFIXES: ("patterns", "owners", "free")}
RULE: Final = ("roles", "boards", "key", "types", "what")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class AccessTable:
    """One access policy from the operator's configuration: a built-in one, or the import path of a class.

    It applies to `boards` whatever a board chooses; `*` stands for every board. `where` is its name in
    errors.
    """

    name: str
    where: str = field(compare=False)
    policy: AccessPolicy | None = None
    kind: str = ""
    path: str = ""
    boards: frozenset[str] = frozenset()


def access_tables(value: Any, where: str) -> tuple[AccessTable, ...]:
    """Returns the access policies in a setting's value.

    `value` is a list of tables and of texts `NAME=package.module:Class`, or one text: JSON, or such texts
    with commas between them. `where` names the setting in errors.

    Raises:
        InvalidInput: a table or key is wrong; the error names it and the allowed values.
    """
    if isinstance(value, str):
        value = from_text(value, where)
    if not isinstance(value, list | tuple) or len(value) > MAX_TABLES:
        raise InvalidInput(f"{where} must be a list of at most {MAX_TABLES} tables, [[access]] in a file.")
    found: list[AccessTable] = []
    for place, given in enumerate(value, 1):
        table = given if isinstance(given, AccessTable) else _table(given, f"{where}, table {place}")
        if table.name in (*READY, *(other.name for other in found)):
            raise InvalidInput(f"{table.where}, name: there is an access policy '{table.name}' already.")
        found.append(table)
    return tuple(found)


def named_classes(value: Any, where: str) -> Any:
    """Returns a setting's `[[policy]]` or `[[validator]]` tables as texts `NAME=package.module:Class`.

    A value without tables is returned unchanged.

    Raises:
        InvalidInput: a table or key is wrong; the error names it.
    """
    if not isinstance(value, list) or not any(isinstance(given, dict) for given in value):
        return value
    return [
        _class_table(given, f"{where}, table {place}") if isinstance(given, dict) else given
        for place, given in enumerate(value, 1)
    ]


def _class_table(given: Mapping[str, Any], where: str) -> str:
    known_keys(given, ("name", "class"), where)
    return f"{a_name(given, where)}={_path(given.get('class'), where)}"


def from_text(text: str, where: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} is not JSON: {str(error)[:200]}.") from None
        return value if isinstance(value, list) else [value]
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(given: Any, where: str) -> AccessTable:
    if isinstance(given, str):
        match = NAMED.match(given)
        if match is None:
            raise InvalidInput(f"{where}: '{given[:80]}' is not of the form NAME=package.module:Class.")
        return AccessTable(match["name"], f"{where} ('{match['name']}')", path=match["path"])
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a table with name and policy, or name and class.")
    name = a_name(given, where)
    where = f"{where} ('{name}')"
    if ("policy" in given) == ("class" in given):
        raise InvalidInput(f"{where} needs policy (one of {', '.join(BUILT_IN)}) or class, and not both.")
    boards = boards_of(given.get("boards", []), f"{where}, boards")
    if "class" in given:
        known_keys(given, ("name", "class", "boards"), where)
        return AccessTable(name, where, path=_path(given["class"], where), boards=boards)
    kind = given["policy"]
    if kind not in BUILT_IN:
        raise InvalidInput(f"{where}, policy: {kind!r:.60} is none of {', '.join(BUILT_IN)}.")
    known_keys(given, ("name", "policy", "boards", *_OWN.get(kind, ())), where)
    return AccessTable(name, where, _built_in(kind, given, where), kind, boards=boards)


def _built_in(kind: str, given: Mapping[str, Any], where: str) -> AccessPolicy:
    if kind == ROLES:
        rules = given.get("rules")
        if not isinstance(rules, list) or not 0 < len(rules) <= MAX_RULES:
            raise InvalidInput(f"{where}, rules must be a list of 1 to {MAX_RULES} tables.")
        return Roles(tuple(_rule(rule, f"{where}, rules[{place}]") for place, rule in enumerate(rules)))
    if kind == OWNER_PREFIXES:
        owners = given.get("owners", {})
        if not isinstance(owners, Mapping) or len(owners) > MAX_PATTERNS:
            raise InvalidInput(
                f'{where}, owners must be a table of globs by owner, say {{alice = ["design:**"]}}.'
            )
        by_owner = {
            str(owner): globs_of(globs, f"{where}, owners.{str(owner)[:40]}")
            for owner, globs in owners.items()
        }
        patterns = given.get("patterns", [] if owners else list(PATTERNS))
        return OwnerPrefixes(
            _patterns(patterns, f"{where}, patterns"),
            by_owner,
            globs_of(given.get("free", []), f"{where}, free"),
        )
    return READY[kind]


def _rule(given: Any, where: str) -> RoleRule:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a table.")
    known_keys(given, RULE, where)
    if "roles" not in given:
        raise InvalidInput(f"{where} needs roles, a list of {', '.join(Role)}.")
    key = given.get("key")
    return RoleRule(
        roles=tuple(words_of(given["roles"], Role, f"{where}, roles")),
        boards=boards_of(given["boards"], f"{where}, boards") if "boards" in given else None,
        key=None if key is None else globs_of([key], f"{where}, key")[0],
        types=frozenset(words_of(given["types"], ItemType, f"{where}, types")) if "types" in given else None,
        what=frozenset(words_of(given["what"], ChangeKind, f"{where}, what")) if "what" in given else WRITES,
    )


def known_keys(given: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise InvalidInput(
                f"{where} has an unknown key '{str(key)[:40]}'; there are: {', '.join(allowed)}."
            )


def a_name(given: Mapping[str, Any], where: str) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not NAME.match(name):
        raise InvalidInput(f"{where} needs a name: a letter a-z, then up to 31 of a-z 0-9 and -.")
    return name


def _path(path: Any, where: str) -> str:
    if not isinstance(path, str) or not CLASS.match(path):
        raise InvalidInput(f"{where}, class: {path!r:.80} is not of the form package.module:Class.")
    return path


def boards_of(value: Any, where: str) -> frozenset[str]:
    from ..input.posts import check_board

    if not isinstance(value, list) or not all(isinstance(board, str) for board in value):
        raise InvalidInput(f'{where} must be a list of boards, or ["*"] for every board.')
    for board in value:
        if board != EVERYWHERE:
            try:
                check_board(board)
            except InvalidInput as error:
                raise InvalidInput(
                    f"{where}: {error.message.removesuffix(' Nothing was changed.')}"
                ) from None
    return frozenset(value)


def words_of(value: Any, words: type[E], where: str) -> list[E]:
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"{where} must be a list of {', '.join(words)}.")
    found = []
    for word in value:
        if not isinstance(word, str) or word not in {str(known) for known in words}:
            raise InvalidInput(f"{where}: {word!r:.60} is none of {', '.join(words)}.")
        found.append(words(word))
    return found


def globs_of(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_PATTERNS:
        raise InvalidInput(f"{where} must be a list of at most {MAX_PATTERNS} key patterns.")
    for glob in value:
        try:
            check_glob(glob if isinstance(glob, str) else "")
        except InvalidInput:
            raise InvalidInput(
                f"{where}: {glob!r:.80} is not a key pattern: segments joined by ':', * within a segment, ** across."
            ) from None
    return tuple(value)


def _patterns(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidInput(f"{where} must be a list of key patterns with {OWNER} or {AGENT}.")
    for pattern in value:
        if not isinstance(pattern, str) or (OWNER not in pattern and AGENT not in pattern):
            raise InvalidInput(f"{where}: {pattern!r:.80} has neither {OWNER} nor {AGENT} in it.")
    globs_of([pattern.replace(OWNER, "x").replace(AGENT, "x") for pattern in value], where)
    return tuple(value)
