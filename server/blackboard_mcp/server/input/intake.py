"""Lines that a client hands over: messages of its user, calls of its tools and their results, as JSON lines."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from blackboard_mcp.protocols.errors import InvalidInput
from pydantic import BaseModel, ConfigDict, Field

from .arguments import Arguments, refuse_monsters
from .posts import check_text

MAX_LINES: Final = 200
"""Most lines in one hand-over."""
MAX_LINE_TEXT: Final = 20_000
_HOOKED: Final = 2_000
"""Most characters that are kept of the input of a tool that a hook reports."""

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Line(BaseModel):
    """One thing that happened in a client. `id` is new for each, and the same when it is handed over again."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: Name
    kind: Literal["message", "call", "result"]
    text: Annotated[str, Field(min_length=1, max_length=MAX_LINE_TEXT)]
    thread: Name | None = None
    tool: Name | None = None
    ok: bool | None = None
    subject: Annotated[str, Field(min_length=1, max_length=200)] | None = None


_ARGUMENTS: Final = Arguments("a line", Line)


def lines_of(document: str) -> list[Line]:
    """Returns the lines of a document in which each line is a JSON object; empty lines are left out.

    Raises:
        InvalidInput: a line is wrong, or there are none or too many.
    """
    given = [(place, line) for place, line in enumerate(document.split("\n"), 1) if line.strip()]
    if not given or len(given) > MAX_LINES:
        raise InvalidInput(
            f"A hand-over has 1 to {MAX_LINES} lines of JSON, not {len(given)}. Nothing was changed; hand over more in "
            'several calls. A line: {"id":"m1","kind":"message","text":"Never use tabs.","thread":"s1"}'
        )
    return [_line(place, line) for place, line in given]


def _line(place: int, text: str) -> Line:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"Line {place} is no JSON object. Nothing was changed; write each on one line, as in "
            '{"id":"m1","kind":"message","text":"Never use tabs.","thread":"s1"}',
            line=place,
        )
    try:
        refuse_monsters("a line", raw)
        line = Line(**_ARGUMENTS.check(_of_hook(raw) if "hook_event_name" in raw else raw))
        _check(line)
    except InvalidInput as error:
        raise InvalidInput(f"Line {place}: {error.message}", line=place, **error.facts) from None
    return line


def _check(line: Line) -> None:
    for words in (line.id, line.text, line.thread, line.tool, line.subject):
        check_text(words or "")
    if not line.text.strip() or not line.id.strip():
        raise InvalidInput("id and text must not be blank. Nothing was changed.")
    if (line.kind == "message") != (line.tool is None):
        raise InvalidInput("tool goes with kind call and result, and both need it. Nothing was changed.")
    if (line.kind == "result") != (line.ok is not None):
        raise InvalidInput("ok (true or false) goes with kind result, which needs it. Nothing was changed.")
    if line.subject is not None and line.kind != "result":
        raise InvalidInput("subject goes with kind result: what the tool was run on. Nothing was changed.")


def _of_hook(said: dict[str, Any]) -> dict[str, Any]:
    """Returns the line for what a hook of Claude Code reports.

    Raises:
        InvalidInput: it is another event.
    """
    event, thread = said["hook_event_name"], str(said.get("session_id") or "hooks")[:100]
    if event == "UserPromptSubmit":
        text = str(said.get("prompt") or "")
        return {"id": _named(thread, text), "kind": "message", "text": text, "thread": thread}
    if event == "PostToolUse":
        text = json.dumps(said.get("tool_input"), ensure_ascii=False)[:_HOOKED]
        tool = str(said.get("tool_name") or "tool")[:100]
        id_ = str(said.get("tool_use_id") or _named(thread, tool, text))[:100]
        return {"id": id_, "kind": "call", "text": text, "tool": tool, "thread": thread}
    raise InvalidInput(
        "hook_event_name is UserPromptSubmit or PostToolUse; hand over anything else as id, kind, text. Nothing was "
        "changed."
    )


def _named(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
