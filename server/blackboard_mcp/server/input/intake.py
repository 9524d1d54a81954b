"""Lines that a client hands over: messages of its user, calls of its tools and their results, as JSON lines."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Final, Literal

from blackboard_mcp.protocols.errors import InvalidInput
from pydantic import BaseModel, ConfigDict, Field

from .arguments import Arguments, refuse_monsters
from .hooks import fields_of
from .posts import check_text

MAX_LINES: Final = 200
"""Most lines in one hand-over."""
MAX_LINE_TEXT: Final = 20_000
_REPORTED: Final = 4_000_000
_INPUT: Final = 2_000
"""Most characters that are kept of the input of a tool that a hook reports."""
_OUTPUT: Final = 6_000
"""Most characters that are kept of what such a tool gave."""
_SUBJECT: Final = 200

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
    subject: Annotated[str, Field(min_length=1, max_length=_SUBJECT)] | None = None

    def kept(self) -> Line:
        """Returns the line as it is kept."""
        return self


class HookLine(Line):
    """A hook's report, whole, so that secrets in it are found before it is cut. `input` goes with a result."""

    text: Annotated[str, Field(min_length=1, max_length=_REPORTED)]
    subject: Annotated[str, Field(min_length=1, max_length=_REPORTED)] | None = None
    input: Annotated[str, Field(max_length=_REPORTED)] | None = None

    def kept(self) -> Line:
        """Returns the line with the middle of long texts left out."""
        most = {"message": MAX_LINE_TEXT - 100, "call": _INPUT, "result": _OUTPUT}[self.kind]
        subject = self.subject
        if subject is not None and len(subject) > _SUBJECT:  # two of the same beginning stay two
            subject = f"{subject[: _SUBJECT - 10]}…#{hashlib.sha256(subject.encode()).hexdigest()[:8]}"
        asked = None if self.input is None else _shortened(self.input, _INPUT)
        return self.model_copy(
            update={"text": _shortened(self.text, most), "subject": subject, "input": asked}
        )


_ARGUMENTS: Final = Arguments("a line", Line)
_REPORT: Final = Arguments("a line", HookLine)
_LEVELS: Final = 200
"""Most levels of what a hook reports, which is read by functions that call themselves."""


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
        if "hook_event_name" in raw:
            if _is_deep(raw):
                raise RecursionError
            line: Line = HookLine(**_REPORT.check(fields_of(raw)))
        else:
            refuse_monsters("a line", raw)
            line = Line(**_ARGUMENTS.check(raw))
        _check(line)
    except InvalidInput as error:
        raise InvalidInput(f"Line {place}: {error.message}", line=place, **error.facts) from None
    except RecursionError:
        raise InvalidInput(
            f"Line {place}: what the hook reports is nested too deeply. Nothing was changed; hand it over as id, kind, "
            "text.",
            line=place,
        ) from None
    return line


def _is_deep(raw: object) -> bool:
    """Tells whether a value is nested deeper than `_LEVELS`."""
    layer = [raw]
    for _ in range(_LEVELS):
        inside = [
            value.values() if isinstance(value, dict) else value
            for value in layer
            if isinstance(value, dict | list)
        ]
        layer = [one for values in inside for one in values]
    return bool(layer)


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


def _shortened(text: str, most: int) -> str:
    """Returns a text with its middle left out if it is long: errors stand at the end, causes at the beginning."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    return f"{text[: most // 2]} […{left_out} characters left out…] {text[-(most - most // 2) :]}"
