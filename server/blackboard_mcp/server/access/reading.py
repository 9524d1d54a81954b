"""Read rules as the operator writes them: tables of a file, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.names import check_name
from blackboard_mcp.protocols.read_rules import EVERYBODY, MAX_PRINCIPALS, MAX_READ_RULES, ROLE, ReadRule
from blackboard_mcp.protocols.visibility import TEAM

from .tables import a_name, boards_of, from_text, globs_of, known_keys, words_of

KEYS: Final = ("name", "readers", "boards", "key", "types", "tags", "authors")
_CONDITIONS: Final = ("key", "types", "tags", "authors")
MAX_TAGS: Final = 100


def read_rules(value: Any, where: str) -> tuple[ReadRule, ...]:
    """Returns the read rules in a setting's value: a list of tables, or JSON of one. `where` names it in errors.

    Raises:
        InvalidInput: a table or key is wrong; the error names it and what is allowed.
    """
    if isinstance(value, str):
        value = from_text(value, where)
    if not isinstance(value, list | tuple) or len(value) > MAX_READ_RULES:
        raise InvalidInput(f"{where} must be a list of at most {MAX_READ_RULES} tables, [[read]] in a file.")
    found: list[ReadRule] = []
    for place, given in enumerate(value, 1):
        rule = given if isinstance(given, ReadRule) else _rule(given, f"{where}, table {place}")
        if any(rule.name == other.name for other in found):
            raise InvalidInput(f"{where}, table {place}, name: there is a read rule '{rule.name}' already.")
        found.append(rule)
    return tuple(found)


def _rule(given: Any, where: str) -> ReadRule:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a table with name, readers, and conditions.")
    name = a_name(given, where)
    where = f"{where} ('{name}')"
    known_keys(given, KEYS, where)
    if "readers" not in given:
        raise InvalidInput(
            f"{where} needs readers, a list of {_WHO}; [] leaves authors alone with what they write."
        )
    if not any(condition in given for condition in _CONDITIONS):
        raise InvalidInput(f"{where} needs at least one of {', '.join(_CONDITIONS)}: what it keeps.")
    return ReadRule(
        name=name,
        readers=principals_in(given["readers"], f"{where}, readers"),
        boards=tuple(sorted(boards_of(given.get("boards", []), f"{where}, boards") - {EVERYBODY})),
        key=globs_of([given["key"]], f"{where}, key")[0] if "key" in given else "",
        types=tuple(words_of(given["types"], ItemType, f"{where}, types")) if "types" in given else (),
        tags=_tags(given["tags"], f"{where}, tags") if "tags" in given else (),
        authors=principals_in(given["authors"], f"{where}, authors", some=True) if "authors" in given else (),
    )


_WHO: Final = f"agents' names, {TEAM}OWNER, {ROLE}ROLE ({', '.join(Role)}), or *"


def principals_in(value: Any, where: str, *, some: bool = False) -> tuple[str, ...]:
    """Returns the principals in a list, each once; with `some` the list may not be empty.

    Raises:
        InvalidInput: it is no such list; the error begins with `where`.
    """
    if not isinstance(value, list) or len(value) > MAX_PRINCIPALS or (some and not value):
        raise InvalidInput(f"{where} must be a list of {1 if some else 0} to {MAX_PRINCIPALS:,} of {_WHO}.")
    return tuple(dict.fromkeys(_principal(each, where) for each in value))


def _principal(given: Any, where: str) -> str:
    wrong = InvalidInput(f"{where}: {given!r:.80} is none of {_WHO}.")
    if not isinstance(given, str):
        raise wrong
    if given == EVERYBODY:
        return given
    if given.startswith(ROLE):
        if given.removeprefix(ROLE) not in {str(role) for role in Role}:
            raise wrong
        return given
    prefix = TEAM if given.startswith(TEAM) else ""
    try:
        return prefix + check_name(given.removeprefix(prefix))
    except InvalidInput:
        raise wrong from None


def _tags(value: Any, where: str) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or not 0 < len(value) <= MAX_TAGS
        or not all(isinstance(tag, str) and tag for tag in value)
    ):
        raise InvalidInput(f"{where} must be a list of 1 to {MAX_TAGS} tags.")
    return tuple(dict.fromkeys(value))
