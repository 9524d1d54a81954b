"""The building of a board from the lines of its history, each of which is checked first.

The board is built in a store of its own that nobody uses, and nothing is trusted: log and items must agree with each
other, and everything that can be computed is computed again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.groups import group_filter
from blackboard_mcp.protocols.items import (
    MAX_METADATA,
    MAX_TAG,
    MAX_TAGS,
    MAX_TEXT,
    EdgeKind,
    ItemType,
    content_hash,
)
from blackboard_mcp.protocols.keys import check_key
from blackboard_mcp.protocols.tokens import Count
from blackboard_mcp.protocols.values import dataclass

from ..operations.items import endorsements
from ..operations.leaving import guard_index
from ..operations.ledger import token_counts
from ..operations.ledger.ledger import get_board
from ..operations.ledger.rows import FORGOTTEN, Steps, config_of, sql
from . import lines
from .files import wrong_files
from .forms import ITEM
from .lines import BadLine
from .tables import AT_END, BOARD, BY_NAME, CONTENT, EDGE, EVENT, ITEM_STANDING, OF_ITEMS, Table

Counting = Callable[[str], Count | None]
"""Returns the function that counts tokens for a tokenizer's name; `None` if there is none."""

_MAX_NAME = 256
_MAX_TOKENS = 1 << 32
"""Most tokens of one text, so that sums of them remain whole numbers."""
_LAST_SEQ = 1 << 53
_EVENTS, _TYPES = frozenset(EventType), frozenset(ItemType)
_HEAD = ("format", "format_version", "board", "complete")
_MEMBERS = frozenset({"seq", "told", "content", "edges", "standing", "rows", "end", *_HEAD, *EVENT})
_FILLED = (
    *("history_superseded", "history_analysed", "history_debated", "history_outbox"),
    *("history_answers", "history_owed_again", "history_watching", "history_unanswered", "history_outcomes"),
)
"""Statements that compute what the lines, or lines of older files, do not tell."""
_EMPTY: Mapping[str, Any] = {"owner": "", "tags": [], "data": {}, "concerns": []}
_UNBORN = {"zone": "archive", "importance": 1, "author": "", "created_at": 0, "seq": 0}
"""An item whose state no line has told yet: it has no author."""


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """The progress of reading a history: lines, sequence and items so far, and whether the last line was read."""

    board: str
    no: int = 1
    lines: int = 0
    seq: int = 0
    born: int = 0
    ended: bool = False
    sha256: str = ""
    """The hash that the last line gives for everything before it."""


def begin(raw: bytes, board: str | None) -> Steps[ImportProgress]:
    """Creates the board that the first line names, under the id `board` if that is given.

    Raises:
        BadLine: not a history, one of a newer version, or not that of a whole board.
    """
    line = lines.read(raw, 1)
    if line.get("format") != lines.FORMAT:
        raise BadLine(1, f'not the history of a board: its first line has no "format": "{lines.FORMAT}"')
    if (version := line.get("format_version")) != lines.VERSION:
        raise BadLine(
            1, f"written in version {str(version)[:20]} of the format, and this program reads {lines.VERSION}"
        )
    if line.get("complete") is not True:
        raise BadLine(1, "a public copy, from which what is private was left out; it rebuilds no board")
    name = line.get("board")
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise BadLine(1, "board must be the id of a board")
    progress = ImportProgress(board or name)
    yield sql("history_board_add"), (progress.board, progress.no)
    return progress


def load(progress: ImportProgress, batch: Sequence[bytes]) -> Steps[ImportProgress]:
    """Reads the next lines, including the first, and returns the new progress.

    Raises:
        BadLine: a line is not valid, or does not fit the lines before it.
    """
    for raw in batch:
        number = progress.lines + 1
        line = lines.read(raw, number)
        if progress.ended:
            raise BadLine(number, "it follows the line that says it is the last")
        progress = yield from _Line(progress, number, line).load()
    return progress


def finish(progress: ImportProgress, sha256: str, counting: Counting | None = None) -> Steps[int]:
    """Computes derived data, and checks the whole against the rules of a board.

    With `counting`, tokens are counted again whatever the lines say. Returns the number of texts that had another
    count.

    Raises:
        BadLine: lines are missing, were changed or break a rule, or the board's tokenizer is not available.
    """
    no, last = progress.no, progress.lines
    if not progress.ended:
        raise BadLine(last, 'lines are missing after it: the last one has an "end"')
    if progress.sha256 != sha256:
        raise BadLine(
            last, "its sha256 is not that of what stands before it: the file was changed or damaged"
        )
    if rows := (yield sql("history_unfinished"), (no,)):
        raise BadLine(last, f"no line says how item {rows[0][0]} stands")
    if rows := (yield sql("history_debateless"), (no,)):
        raise BadLine(
            last, f"a row of {rows[0][0]} is of debate {rows[0][1]}, which no line says anything of"
        )
    if rows := (yield sql("history_unfit"), (no, progress.seq)):
        raise BadLine(
            last, f"the row {rows[0][1]} of {rows[0][0]} is denied by what the items and the log say"
        )
    if wrong := (yield from wrong_files(no)):
        raise BadLine(last, wrong)
    recounted = 0 if counting is None else (yield from _recount(progress, counting))
    for name in _FILLED:
        yield sql(name), (no,)
    yield sql("history_counters"), (no, progress.seq)
    yield sql("history_looks"), (no, SYSTEM)
    yield from endorsements.fill()
    yield from guard_index.rebuild()
    if rows := (yield sql("history_let_go"), (no,)):
        raise BadLine(last, f"item {rows[0][0]} is archived and protected, which cannot be")
    return recounted


def _recount(progress: ImportProgress, counting: Counting) -> Steps[int]:
    name = (yield from get_board(progress.board)).config.tokenizer
    count = counting(name)
    if count is None:
        raise BadLine(
            progress.lines,
            f"the board counts tokens by {name[:80]}, which is not to be had here, so its figures cannot be checked: "
            f"set tokenizer to that",
        )
    return (yield from token_counts.renew(progress.no, count, {}))


class _Line:
    """A line that is being read."""

    def __init__(self, progress: ImportProgress, number: int, line: dict[str, Any]) -> None:
        self.progress = progress
        self.number = number
        self.seq = progress.seq + 1
        self.line = line
        self.no = progress.no

    def bad(self, wrong: str) -> BadLine:
        return BadLine(self.number, wrong)

    def load(self) -> Steps[ImportProgress]:
        line, number = self.line, self.number
        if unknown := [name for name in line if name not in _MEMBERS]:
            raise self.bad(f"a member '{unknown[0][:40]}' that is unknown to this version")
        self._check_seq()
        if number > 1 and (again := [name for name in _HEAD if name in line]):
            raise self.bad(f"'{again[0]}' stands on the first line only")
        given = {name: line.get(name, _EMPTY.get(name)) for name in EVENT}
        event = lines.fields(given, EVENT, number, "the event")
        self._check_event(event)
        yield (
            sql("event_add"),
            (
                *(self.no, self.seq, event["event"], event["item"], event["type"], event["key"]),
                *(event["version"], event["thread"], event["agent"], event["tags"], event["at"]),
                *(event["data"], event["owner"], event["concerns"]),
            ),
        )
        item: int | None = event["item"]
        born = self.progress.born
        if item is None:
            for name in ("content", "edges", "standing", "told"):
                if name in line:
                    raise self.bad(f"{name} belongs to an item, and the event is about none")
        else:
            born = yield from self._item(event, item)
            yield from self._concerns(event, item)
        yield from self._rows(line.get("rows", {}), OF_ITEMS, born)
        progress = replace(self.progress, lines=number, seq=self.seq, born=born)
        if "end" in line:
            sha256 = yield from self._end(line["end"], born)
            progress = replace(progress, ended=True, sha256=sha256)
        return progress

    def _check_seq(self) -> None:
        line, given, last = self.line, self.line.get("seq"), self.progress.seq
        data = line.get("data")
        if line.get("event") == EventType.BOARD_RESTORED and isinstance(data, dict) and type(given) is int:
            # Only this event leaves sequences out; `after` is the last one before the gap.
            if type(data.get("after")) is int and data["after"] == last < given <= _LAST_SEQ:
                self.seq = given
                return
            raise self.bad(f"seq {given} is not after {last}, or data.after is not {last}")
        if given != self.seq or isinstance(given, bool):
            raise self.bad(f"seq must be {self.seq}, and is {str(given)[:20]}")

    def _check_event(self, event: dict[str, Any]) -> None:
        if event["event"] not in _EVENTS:
            raise self.bad(f"there is no event '{event['event'][:40]}'")
        about = [event[name] is None for name in ("item", "type", "version", "thread")]
        if len(set(about)) > 1 or (about[0] and (event["key"] or event["owner"])):
            raise self.bad("item, type, version and thread stand together, key and owner with them")
        if not about[0] and event["type"] not in _TYPES:
            raise self.bad(f"there is no type '{event['type'][:40]}'")
        for name in ("agent", "owner"):
            self._name(event[name], name)
        if event["key"] is not None:
            try:
                check_key(event["key"])
            except InvalidInput as error:
                raise self.bad(error.message.split(" Nothing was")[0].rstrip(".;")) from None

    def _name(self, value: str, what: str) -> None:
        if len(value) > _MAX_NAME:
            raise self.bad(f"{what} has {len(value):,} characters; {_MAX_NAME} are the most")

    # Data of items

    def _item(self, event: dict[str, Any], item: int) -> Steps[int]:
        line, born = self.line, self.progress.born
        content = line.get("content")
        if item > born + 1 or item < 1:
            raise self.bad(f"item {item} is not there yet; the next one is {born + 1}")
        new = item == born + 1
        if new:
            born = item
            if event["thread"] > item or event["thread"] < 1:
                raise self.bad(f"item {item} cannot stand in thread {event['thread']}, which is not there")
            version = 0
        else:
            rows = yield sql("history_item"), (self.no, item)
            *same, version, finished = rows[0]
            if same != [event[name] for name in ("type", "key", "owner", "thread")]:
                raise self.bad(f"type, key, owner or thread of item {item} are not what they were")
            if finished:
                raise self.bad(f"a former line says that it is the last about item {item}")
        if event["version"] != version + (content is not None):
            there = f"it is at version {version}" if version else "it has none"
            told = "its content" if content is not None else "no content"
            raise self.bad(f"version {event['version']} of item {item} with {told}, and {there}")
        if content is not None:
            yield from self._content(event, item, content)
        if "edges" in line:
            if not new:
                raise self.bad(f"edges stand on the first line of item {item}")
            yield from self._edges(line["edges"], item)
        if "standing" in line:
            yield from self._standing(line["standing"], item, event["version"])
        return born

    def _content(self, event: dict[str, Any], item: int, given: object) -> Steps[None]:
        content = lines.fields(given, CONTENT, self.number, "content")
        if content["version"] != event["version"]:
            raise self.bad(f"content of version {content['version']} with version {event['version']}")
        text = content["text"]
        if content["tokens"] > _MAX_TOKENS:
            raise self.bad(f"{content['tokens']:,} tokens in one text")
        if len(text) > MAX_TEXT:
            raise self.bad(f"a text of {len(text):,} characters; {MAX_TEXT:,} are the most")
        if len(content["metadata"]) > MAX_METADATA:
            raise self.bad(
                f"metadata of {len(content['metadata']):,} characters; {MAX_METADATA:,} are the most"
            )
        tags = json.loads(content["tags"])
        if len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in tags):
            raise self.bad(f"more than {MAX_TAGS} tags, or one of more than {MAX_TAG} characters")
        if content["deleted"] == FORGOTTEN:
            if (text, tags, content["metadata"], content["tokens"]) != ("", [], "{}", 0):
                raise self.bad(
                    f"version {content['version']} of item {item} is said to be forgotten, and is not"
                )
        elif content_hash(text) != content["sha256"]:
            raise self.bad(
                f"the sha256 of version {content['version']} of item {item} is not that of its text"
            )
        self._name(content["updated_by"], "updated_by")
        if content["version"] == 1:
            if event["key"] is not None and (
                yield (
                    sql("item_of_key"),
                    (self.no, event["owner"], event["key"]),
                )
            ):
                raise self.bad(f"key '{event['key']}' has an item already")
            born = {name: event[name] for name in ("type", "key", "owner", "thread")} | _UNBORN | content
            marks = ", ".join("?" * (len(born) + 2))
            yield (
                f"INSERT INTO item(board, number, {', '.join(born)}) VALUES ({marks})",  # noqa: S608 - names of ours
                (self.no, item, *born.values()),
            )
            return
        names = ", ".join(CONTENT)
        yield (
            f"INSERT INTO item_version(board, number, {names}) "  # noqa: S608 - names of ours
            f"SELECT board, number, {names} FROM item WHERE board = ?1 AND number = ?2",
            (self.no, item),
        )
        yield from self._update(item, content)

    def _edges(self, given: object, item: int) -> Steps[None]:
        if not isinstance(given, list):
            raise self.bad("edges must be a list")
        for one in given:
            edge = lines.fields(one, EDGE, self.number, "an edge")
            source, kind, target = edge.values()
            told = f"the edge {source} {kind} {target}"
            if max(source, target) != item or min(source, target) < 1:
                raise self.bad(f"{told} dangles, or stands on the wrong line")
            if source == target:
                raise self.bad(f"{told} leads back to its item")
            if not (yield sql("history_edge_add"), (self.no, source, kind, target)):
                raise self.bad(f"{told} stands there twice")
        for one in given:
            # Only an edge that leaves an earlier item can close a cycle.
            if (
                one["kind"] == EdgeKind.DEPENDS_ON
                and one["target"] == item
                and (yield sql("depends_reaches"), (self.no, item, one["source"]))
            ):
                raise self.bad(f"the edge {one['source']} depends_on {item} closes a circle")

    def _standing(self, given: object, item: int, version: int) -> Steps[None]:
        standing = lines.fields(given, ITEM_STANDING, self.number, "standing")
        if standing["version"] != version:
            raise self.bad(f"item {item} stands at version {standing['version']}, and the log at {version}")
        if not 1 <= standing["importance"] <= 5:
            raise self.bad(f"the importance {standing['importance']} of item {item} is not 1 to 5")
        for name in ("author", "updated_by"):
            self._name(standing[name], name)
        if not standing["author"]:
            raise self.bad(f"item {item} has no author")
        yield from self._update(item, standing)

    def _update(self, item: int, values: Mapping[str, Any]) -> Steps[None]:
        columns = ", ".join(f"{name} = ?" for name in values)
        statement = f"UPDATE item SET {columns} WHERE board = ? AND number = ?"  # noqa: S608 - names of ours
        yield statement, (*values.values(), self.no, item)

    def _concerns(self, event: dict[str, Any], item: int) -> Steps[None]:
        told = self.line.get("told", False)
        if not isinstance(told, bool):
            raise self.bad("told must be true or false")
        names = json.loads(event["concerns"])
        if len(names) > _MAX_NAME or len(set(names)) < len(names):
            raise self.bad("concerns names too many, or one twice")
        if not told:
            for name in names:
                yield sql("concern_add"), (self.no, name, self.seq, item)

    # Rows of tables without a member of their own

    def _rows(self, given: object, allowed: Sequence[Table], born: int) -> Steps[None]:
        if not isinstance(given, dict):
            raise self.bad("rows must be an object")
        known = {table.name for table in allowed} | {t.name for t in AT_END if t.beside_event}
        for name, rows in given.items():
            if name not in known:
                raise self.bad(f"rows of '{name[:40]}', which do not stand on such a line")
            if not isinstance(rows, list):
                raise self.bad(f"rows of {name} must be a list")
            table = BY_NAME[name]
            names = ", ".join(table.columns)
            marks = ", ".join("?" * (len(table.columns) + 1))
            statement = (
                f"INSERT INTO {name}(board, {names}) VALUES ({marks}) "  # noqa: S608 - names of ours
                "ON CONFLICT DO NOTHING RETURNING 1"
            )
            for row in rows:
                values = lines.fields(row, table.columns, self.number, f"a row of {name}")
                self._check_row(table, values, born)
                if not (yield statement, (self.no, *values.values())):
                    raise self.bad(f"a row of {name} stands there twice")

    def _check_row(self, table: Table, values: dict[str, Any], born: int) -> None:
        for column, form in table.columns.items():
            value = values[column]
            if form.name == ITEM.name and value is not None and not 1 <= value <= born:
                raise self.bad(f"a row of {table.name}: {column} {value} is no item that is there")
        if "filter" in table.columns:
            check = group_filter if table.name == "consumer_group" else parse_event_filter
            try:
                check(json.loads(values["filter"]))
            except BlackboardError as error:
                raise self.bad(f"a row of {table.name}: {error.message}") from None
        if table.name == "subscription" and values["cursor"] > self.seq:
            raise self.bad(f"the cursor {values['cursor']} of {values['id'][:40]} is beyond the last event")

    # The last line

    def _end(self, given: object, born: int) -> Steps[str]:
        if not isinstance(given, dict) or set(given) != {"board", "rows", "owners", "sha256"}:
            raise self.bad("end must be an object with board, rows, owners and sha256")
        board = lines.fields(given["board"], BOARD, self.number, "board")
        if board["last_number"] != born:
            raise self.bad(f"the last item is {board['last_number']}, and the lines end with {born}")
        if board["pressure"] > born:
            raise self.bad(f"pressure names item {board['pressure']}, which is not there")
        _check_core(json.loads(board["core"]), self)
        clash = _unlike(json.loads(board["config"])) or config_of(board["config"]).clash()
        if clash is not None:
            raise self.bad(clash.rstrip("."))
        columns = ", ".join(f"{name} = ?" for name in board)
        yield f"UPDATE board SET {columns} WHERE no = ?", (*board.values(), self.no)  # noqa: S608 - names of ours
        yield from self._rows(given["rows"], AT_END, born)
        owners = given["owners"]
        if not isinstance(owners, dict) or not all(isinstance(owner, str) for owner in owners.values()):
            raise self.bad("owners must be an object of texts")
        for agent, owner in owners.items():
            self._name(agent, "an agent")
            self._name(owner, "an owner")
            yield sql("owner_set"), (agent, owner)
        if not isinstance(given["sha256"], str):
            raise self.bad("sha256 must be a text")
        return given["sha256"]


def _unlike(config: dict[str, Any]) -> str | None:
    """Returns a sentence on a setting of the wrong type, or `None`; settings unknown to this version may have any."""
    for setting in dataclasses.fields(BoardConfig):
        value, usual = config.get(setting.name, setting.default), setting.default
        if isinstance(usual, tuple):
            fits = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        elif isinstance(usual, float):
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            fits = type(value) is type(usual)
        if not fits:
            return f"config: {setting.name} is not of the kind of {usual!r}"
    return None


def _check_core(core: Any, line: _Line) -> None:
    names = {"objective", "constraints", "flags", "version"}
    if not (
        set(core) == names
        and isinstance(core["objective"], str)
        and isinstance(core["constraints"], list)
        and all(isinstance(one, str) for one in core["constraints"])
        and isinstance(core["flags"], dict)
        and all(isinstance(one, bool) for one in core["flags"].values())
        and type(core["version"]) is int
    ):
        raise line.bad("core must have an objective, a list of constraints, flags and a version")
