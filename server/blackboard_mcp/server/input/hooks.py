"""Reports of coding agents' hooks, as the fields of a line to hand over.

Claude Code says what it sends in https://code.claude.com/docs/en/hooks, Gemini CLI in
https://geminicli.com/docs/hooks/reference. What a tool gave has no shape of its own: a text, an object, or a list.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput

_MESSAGES: Final = ("UserPromptSubmit", "BeforeAgent")
_TOOLS: Final = ("PostToolUse", "PostToolUseFailure", "AfterTool")
_SUBJECTS: Final = (
    "command",
    "file_path",
    "notebook_path",
    "absolute_path",
    "path",
    "url",
    "pattern",
    "query",
)
"""Arguments that name the object of a tool's run; the first one given counts."""
_SAID: Final = ("error", "stdout", "stderr", "content", "llmContent", "text")
"""Parts of a result that are texts for the model."""
_FAILED: Final = ("is_error", "isError", "error", "timed_out")
_CODES: Final = ("exit_code", "exitCode", "returncode")


def fields_of(said: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of the line for what a hook reports. Its texts are whole.

    A call that was interrupted neither passed nor failed, so it is a call without a result.

    Raises:
        InvalidInput: it is another event.
    """
    event, thread = said["hook_event_name"], str(said.get("session_id") or "hooks")[:100]
    if event in _MESSAGES:
        text = _plain(str(said.get("prompt") or ""))
        return {"id": _named(thread, text), "kind": "message", "text": text, "thread": _plain(thread)}
    if event not in _TOOLS:
        raise InvalidInput(
            f"hook_event_name is {', '.join(_MESSAGES + _TOOLS[:-1])} or {_TOOLS[-1]}; hand over anything else as id, "
            "kind, text. Nothing was changed."
        )
    asked, gave = said.get("tool_input"), said.get("tool_response")
    if event == "PostToolUseFailure":
        gave = {"error": said.get("error") or "It failed.", "interrupted": said.get("is_interrupt")}
    tool, call = _plain(str(said.get("tool_name") or "tool"))[:100], _plain(_json(asked))
    made = _named(
        thread, str(said.get("timestamp") or ""), tool, call, *([] if gave is None else [_json(gave)])
    )
    line = {"id": _plain(str(said.get("tool_use_id") or made))[:100], "tool": tool, "thread": _plain(thread)}
    if gave is None or (isinstance(gave, dict) and gave.get("interrupted")):
        return {**line, "kind": "call", "text": call}
    result = _plain(_texts(gave)).strip() or "(no output)"
    return {
        **line,
        "kind": "result",
        "text": result,
        "input": call,
        "ok": not _failed(gave),
        "subject": _subject(asked),
    }


def _subject(asked: Any) -> str | None:
    for name in _SUBJECTS if isinstance(asked, dict) else ():
        if isinstance(asked.get(name), str) and asked[name].strip():
            return " ".join(_plain(asked[name]).split())
    return _plain(_json(asked)) if asked else None


def _failed(gave: Any) -> bool:
    match gave:
        case str():
            return gave.lstrip().startswith("<tool_use_error>")
        case list():
            return any(isinstance(part, dict) and _failed(part) for part in gave)
        case dict():
            return (
                any(gave.get(name) for name in _FAILED)
                or gave.get("success") is False
                or any(gave.get(name) not in (None, 0) for name in _CODES)
            )
    return False


def _texts(gave: Any) -> str:
    """Returns the texts in what a tool gave; other parts as JSON, and pictures by name alone."""
    match gave:
        case str():
            return gave
        case list():
            return "\n".join(_texts(part) for part in gave)
        case dict() if gave.get("type") == "image" or gave.get("isImage"):
            return "[image]"
        case dict():
            found = [_texts(gave[name]) for name in _SAID if gave.get(name)]
            return "\n".join(found) if found or any(name in gave for name in _SAID) else _json(gave)
    return "" if gave is None else _json(gave)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> str:
    """Returns a text that may be stored: output of programs holds NULs and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _named(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:32]
