"""Texts of the server reworded for people: a command in place of each tool call.

Knows how calls look in texts, such as `debate(op="confirm", id="H-1")`, and which command does the same. A
call without such a command is left out, along with its clause.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

from blackboard_mcp.protocols.topics import is_topic

Given = dict[str, Any]
"""The arguments of a call by name. A function that turns them into a command removes those that it uses."""

_VALUE: Final = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|\[[^\[\]]*\]|\{(?:[^{}]|\{[^{}]*\})*\}|[^\s,()\[\]{}"\'=]+'
_ARGUMENT: Final = re.compile(rf"(?:(\w+)=)?({_VALUE})(?:, |(?=\)))")
_ARGUMENTS: Final = re.compile(rf"(?:(?:\w+=)?(?:{_VALUE})(?:, |(?=\))))*\)")
_CALL: Final = re.compile(
    r"\b(post|read|query|query_archive|subscribe|wait|debate|request|respond|consume|summarize|transaction|core|board"
    r"|prune)\("
)
_ID: Final = re.compile(r"[A-Za-z]-\d+(@\d+)?")
_BARE: Final = re.compile(r'(?<!")…(?!")')
_CLAUSES: Final = re.compile(r"(?<=[;.]) ")
_MARK: Final = re.compile("\0([0-9]+)\0")
_LONE: Final = re.compile(": \0[0-9]+\0([;.]?)$")
_PLACE: Final = re.compile(r"\bsince=(\d+)")
_ANY: Final = "…"
"""The placeholder for a value that the caller fills in."""


def error_for_people(text: str) -> str:
    """Returns an error's text with options and commands that a person can type."""
    text = for_people(text)
    for said, meant in _ERRORS:
        text = said.sub(meant, text)
    return text


def _option(field: str) -> str:
    return "TEXT" if field == "text" else "--" + _OPTIONS.get(field, field).replace("_", "-")


_OPTIONS: Final = {"agent": "by", "edges": "edge", "tags": "tag"}
"""Options by the field that they fill, where the names differ."""
_SERVED: Final = {
    **dict.fromkeys(("core", "board"), "core,admin"),
    **dict.fromkeys(("plan", "stage"), "core,plan"),
    "request": "core,messages",
}
"""The value of `--tools` with which a server has the tool, by tool name."""

_ERRORS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(r"send the header 'Authorization: Bearer …' with an access token on every request"),
        "put a token into BLACKBOARD_TOKEN, or into a file that --token-file names",
    ),
    (re.compile(r"; `blackboard-mcp connect` and BoardClient take it from BLACKBOARD_TOKEN"), ""),
    (
        re.compile(r"X-Blackboard-Agent says otherwise: leave the header out"),
        "--agent (or BLACKBOARD_AGENT) says otherwise: leave it out",
    ),
    (
        re.compile(r"^Item 1 of items: (?:post\.items: (\w+))?"),
        lambda found: _option(found[1]) if found[1] else "",
    ),
    (re.compile(r'\bedges \{"(\w+)": \["([^"]+)"\]\}'), r"--edge \1 \2"),
    (re.compile(r"\bfilter\.(\w+)"), lambda found: _option(found[1])),
    (re.compile(r'\boutcome="(stands|falls|amended)"'), r"\1"),
    (re.compile(r'\bto="…"'), "--to ID"),
    (
        re.compile(r"\bpost a REPLY or a CRITIQUE of it"),
        "answer it with `blackboard-mcp reply` or `blackboard-mcp critique`",
    ),
    (
        re.compile(r"(the tool '(\w+)'.*Start it with --tools )all"),
        lambda found: found[1] + _SERVED.get(found[2], "all"),
    ),
)


def for_people(text: str) -> str:
    """Returns the text with commands in place of calls; unchanged if nothing of it would be left."""
    return "\n".join(map(_line, text.split("\n")))


def view_for_people(view: str) -> str:
    """Returns a view with commands in place of calls, and with the texts of items unchanged."""
    owed = False
    lines: list[str] = []
    for line in view.split("\n"):
        said = owed and '" → ' in line
        if said:  # others' texts are quoted, and cannot contain the closing mark
            words, mark, ways = line.rpartition('" → ')
            line = words + mark + for_people(ways)
        elif _TEXT.match(line):
            line = _OURS.sub(lambda call: for_people(call[0]), line)
        else:
            owed = line == _OWED
            line = for_people(line)
        lines.append(line)
    return "\n".join(lines)


_OWED: Final = "waits for you:"
_TEXT: Final = re.compile(r">|[A-Z]-\d+\b|objective:|constraint \d+:")
"""Matches the beginning of lines that end in a text by an agent."""
_OURS: Final = re.compile(
    r'(?<=lines \()all: read\(ids=\["[A-Z]-\d+"\]\)(?=\):)'
    r'|(?<=\(if that solves )[A-Z]-\d+: post\(id="[A-Z]-\d+", status="RESOLVED"\)(?=\)[:,])'
)
"""Matches the calls of the server's own in such lines."""


def _line(text: str) -> str:
    text = text.replace("\0", "")
    marked, at = "", 0
    commands: list[str | None] = []
    for begin, end, command in _calls(text):
        marked += f"{text[at:begin]}\0{len(commands)}\0"
        commands.append(command)
        at = end
    marked += text[at:]
    kept: list[str] = []
    for clause in _CLAUSES.split(marked):
        if None in [commands[int(number)] for number in _MARK.findall(clause)]:
            clause = _LONE.sub(r"\1", clause)  # drops a call at the end of a clause that is clear without it
            if _MARK.search(clause):
                if kept and clause.endswith("."):
                    kept[-1] = kept[-1].removesuffix(";").removesuffix(".") + "."
                continue
        kept.append(clause)
    said = _MARK.sub(lambda mark: f"`blackboard-mcp {commands[int(mark[1])]}`", " ".join(kept))
    return _PLACE.sub(r"--since \1", said).removesuffix(";") or text


def _calls(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yields the start, end and command of each call in a text; the command is `None` if there is none."""
    at = 0
    for call in _CALL.finditer(text):
        arguments = _ARGUMENTS.match(text, call.end())
        if call.start() < at or arguments is None:
            continue
        at = arguments.end()
        told = {name or _ANY: _value(value) for name, value in _ARGUMENT.findall(arguments[0])}
        yield call.start(), at, _command(call[1], told)


def _value(written: str) -> Any:
    try:
        return json.loads(_BARE.sub(f'"{_ANY}"', written))
    except ValueError:
        return written.strip("'")


def _command(tool: str, given: Given) -> str | None:
    """Returns the words of the command that does the same as a call, or `None` if there is no such command."""
    given.pop(_ANY, None)
    words = _TOLD[tool](given) if tool in _TOLD else None
    return None if words is None or given else " ".join(words)


def _word(value: Any, meant: str) -> str:
    """Returns a value quoted for the shell, or `meant`, such as "ID", if a person has to fill it in."""
    if value in (None, _ANY):
        return meant
    return f"{{{value}}}" if "|" in str(value) else shlex.quote(str(value))


def _options(given: Given, *names: str) -> list[str]:
    """Removes the named arguments from `given`, and returns them as options for a command line."""
    told = [(name, given.pop(name)) for name in names if name in given]
    return [word for name, value in told for word in (f"--{name}", _word(value, name.upper()))]


def _ids(given: list[Any]) -> list[str] | None:
    """Returns ids as words for a command line, or `None` if one is not an id, for example a topic."""
    return (
        [_word(id_, "ID") for id_ in given]
        if all(id_ == _ANY or _ID.fullmatch(str(id_)) for id_ in given)
        else None
    )


def _debate(given: Given) -> list[str] | None:
    op, reason, on = given.pop("op", None), given.pop("reason", None), given.pop("id", _ANY)
    topic = op in ("watch", "unwatch") and is_topic(str(on))
    ids = [_word(on, "ID")] if topic else _ids([on])
    if ids is None or op not in _DEBATES:
        return None
    words = [_DEBATES[op], *ids]
    if op == "decide":
        words += [_word(given.pop("outcome", None), "OUTCOME"), _word(reason, "REASON")]
    elif op == "confirm":
        given.pop("outcome", None)
    elif op == "vote" and given.pop("approve", None) is False:
        words.append("--against")
    elif op == "open":
        words.append("TEXT")
    elif op == "unwatch":
        words.append("--off")
    return words


_DEBATES: Final = {
    "acknowledge": "acknowledge",
    "agree": "acknowledge",
    "confirm": "confirm",
    "concede": "concede",
    "decide": "decide",
    "open": "critique",
    "status": "debate",
    "unwatch": "pin",
    "vote": "vote",
    "watch": "pin",
    "withdraw": "withdraw",
}


def _post(given: Given) -> list[str] | None:
    edges = [(kind, id_) for kind, ids in given.pop("edges", {}).items() for id_ in ids]
    ids = _ids([id_ for _, id_ in edges] + [given.get("id", _ANY)])
    if ids is None:
        return None
    text = [_word(given.pop("text"), "TEXT")] if "text" in given else ["TEXT"] if "id" not in given else []
    for kind, command, types in (
        ("critiques", "critique", ("CRITIQUE",)),
        ("replies_to", "reply", (None, "REPLY", "ANSWER")),
    ):
        if [kind for kind, _ in edges] == [kind] and given.get("type") in types and "id" not in given:
            given.pop("type", None)
            return [command, ids[0], *text]
    if given.get("status") == "WITHDRAWN":
        given.clear()
        return ["withdraw", ids[-1]]
    joined = [word for (kind, _), id_ in zip(edges, ids, strict=False) for word in ("--edge", kind, id_)]
    return ["post", *text, *_options(given, "id", "type", "key", "status", "importance", "board"), *joined]


def _read(given: Given) -> list[str] | None:
    ids, budget = _ids(given.pop("ids", [])), given.pop("budget", None)
    if ids is None:
        return None
    if given.pop("explain", False):
        return ["explain", *ids] if ids else None
    if "since" in given:
        return ["watch", *_options(given, "since"), "--seconds", "0"]
    return ["show", *ids, *([] if ids or budget is None else ["--budget", _word(budget, "TOKENS")])]


def _query(given: Given) -> list[str] | None:
    text = [_word(given.pop("text"), "TEXT")] if "text" in given else []
    return ["query", *text, *_options(given, "type", "key", "zone", "limit")]


def _query_archive(given: Given) -> list[str] | None:
    text, ids = _word(given.get("text"), "TEXT"), _ids(str(given.pop("text", _ANY)).split())
    if not given.pop("restore", False):
        return ["archive", text]
    return None if ids is None else ["unarchive", *ids]


def _wait(given: Given) -> list[str] | None:
    mentions = given.get("filter") == {"mentions": True} and given.pop("filter")
    return ["watch", *_options(given, "since"), *(["--mentions"] if mentions else [])]


def _respond(given: Given) -> list[str] | None:
    ids = _ids([given.pop("id", _ANY)])
    return None if ids is None or "text" not in given else ["reply", *ids, _word(given.pop("text"), "TEXT")]


def _board(given: Given) -> list[str] | None:
    settings = [f"{name}={_word(value, 'VALUE')}" for name, value in given.pop("settings", {}).items()]
    return ["board", *settings, *_options(given, "title", "parent", "lifecycle", "board")]


_TOLD: Final[dict[str, Callable[[Given], list[str] | None]]] = {
    "board": _board,
    "core": lambda given: ["core"],
    "debate": _debate,
    "post": _post,
    "prune": lambda given: ["prune", *(["--dry-run"] if given.pop("dry_run", False) else [])],
    "query": _query,
    "query_archive": _query_archive,
    "read": _read,
    "respond": _respond,
    "wait": _wait,
}
