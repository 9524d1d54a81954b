"""A recorded session of agents as posts to a board: a pure function of the log.

A log is a JSON object with a `question` and a `history` of steps `{name, content}`, as in the data set
Who&When; `mistake_step` and `mistake_reason` are a person's note on where it went wrong.

| in the log                                      | on the board                                        |
|-------------------------------------------------|-----------------------------------------------------|
| the question                                    | PROBLEM of importance 5 by `manager`                |
| the manager's instructions, step 0              | PLAN, replies to the PROBLEM                        |
| output of the terminal                          | LOG, replies to the step that was run               |
| the terminal had nothing to run; bare TERMINATE | LOG of importance 1                                 |
| a step with text and TERMINATE                  | DECISION of importance 3; the last of them: ANSWER  |
| the last step, when it runs nothing any more    | ANSWER                                              |
| a step that reports something as verified       | FACT                                                |
| any other step                                  | HYPOTHESIS                                          |
| the note on the mistake                         | CRITIQUE by `reviewer`, right after the step        |

What follows output of the terminal is derived from that LOG and marks it as analysed; every other step
replies to the one before it. So a debate holds its own part of the conversation, between one output of
the terminal and the next, and not the whole session. Every post has the tag `step:N`, LOGs of the
terminal also `exit:N`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import MAX_TEXT
from blackboard_mcp.protocols.names import alike, is_reserved
from blackboard_mcp.protocols.values import dataclass

MANAGER, REVIEWER = "manager", "reviewer"
_TERMINAL = "computer_terminal"
_END = "TERMINATE"
_EXIT = re.compile(r"exitcode: (-?\d{1,3})\b")
_VERIFIED = re.compile(r"\b(verified|confirmed|confirms|validated|double-checked)\b", re.IGNORECASE)
_INSTRUCTIONS = "You are given: (1) a task"
_NOTHING_TO_RUN = "There is no code from the last"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._@-]+")


@dataclass(frozen=True, slots=True)
class RecordedPost:
    """One post of a session. Places are indexes of the session's posts from 0; `edges` lead to earlier places.

    `step` is the index in the log, `None` for the question. `analyses` is the place of the LOG that this post
    analyses. With `importance` `None` the post gets its type's usual one.
    """

    agent: str
    type: str
    text: str
    step: int | None
    importance: int | None = None
    edges: dict[str, int] = field(default_factory=dict)
    analyses: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A whole session: its posts in order, and its question."""

    name: str
    question: str
    posts: tuple[RecordedPost, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents, in the order of their first posts."""
        return tuple(dict.fromkeys(post.agent for post in self.posts))


def examples() -> dict[str, Path]:
    """Returns the paths of the logs that come with the package, by name."""
    folder = Path(str(files("blackboard_mcp.server.demo") / "logs"))
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def load_session(path: Path) -> Session:
    """Returns the session in a log file.

    Raises:
        InvalidInput: the file cannot be read or is no such log; the message says why.
    """
    try:
        log = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"Cannot read the log {path}: {error.strerror}; with the package come: {', '.join(examples())}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The log {path} is not JSON: {error}.") from error
    return session_of(log, path.stem)


def session_of(log: Any, name: str) -> Session:
    """Returns the session in a parsed log.

    Raises:
        InvalidInput: it has no steps, or its question or a step is too long for a post.
    """
    history = log.get("history") if isinstance(log, dict) else None
    if not isinstance(history, list) or not history or not all(isinstance(s, dict) for s in history):
        raise InvalidInput(f"The log {name} has no history: a list of steps {{name, content}} is needed.")
    question = _clean(str(log.get("question") or "")) or "(the log names no question)"
    speakers = agent_names(str(step.get("name") or step.get("role") or "agent") for step in history)
    texts = [_clean(str(step.get("content") or "")) or "(nothing said)" for step in history]
    for place, text in enumerate([question, *texts]):
        if len(text) > MAX_TEXT:
            where = f"step {place - 1}" if place else "the question"
            raise InvalidInput(
                f"In the log {name}, {where} has {len(text)} characters; {MAX_TEXT} fit a post."
            )
    return Session(name, question, tuple(_posts(question, speakers, texts, _note(log, len(history)))))


def agent_names(names: Iterable[str]) -> list[str]:
    """Returns a valid agent name for each of the names.

    Equal names get the same one, and no two of them look alike.
    """
    given: dict[str, str] = {}
    taken = {MANAGER, REVIEWER, SYSTEM}
    listed = []
    for name in names:
        if name not in given:
            base = _NOT_IN_A_NAME.sub("-", name).strip("-")[:58] or "agent"
            free, count = base, 2
            while is_reserved(free) or any(alike(free, other) for other in taken):
                free, count = f"{base}-{count}", count + 1
            taken.add(free)
            given[name] = free
        listed.append(given[name])
    return listed


def _clean(text: str) -> str:
    """Returns the text without characters that a post may not have; "" if it is blank."""
    whole = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return whole if whole.strip() else ""


def _note(log: dict[str, Any], steps: int) -> tuple[int, str] | None:
    """Returns the step that a person marked as mistaken, and the reason, or `None`."""
    reason = _clean(str(log.get("mistake_reason") or ""))
    step = str(log.get("mistake_step", ""))
    if not reason or not step.isdecimal() or int(step) >= steps:
        return None
    return int(step), reason[:MAX_TEXT]


def _posts(
    question: str, speakers: Sequence[str], texts: Sequence[str], note: tuple[int, str] | None
) -> list[RecordedPost]:
    posts = [RecordedPost(MANAGER, "PROBLEM", question, None, 5, tags=("question",))]
    final = _final(speakers, texts)
    said = 0  # place of the last post that is not terminal output
    output: int | None = None  # place of the last terminal output, until an agent follows it
    for step, (agent, text) in enumerate(zip(speakers, texts, strict=True)):
        tags: tuple[str, ...] = (f"step:{step}",)
        if _is_terminal(agent):
            ran = not text.startswith(_NOTHING_TO_RUN)
            code = _EXIT.match(text)
            tags += (f"exit:{code[1]}",) if code else ()
            posts.append(
                RecordedPost(agent, "LOG", text, step, 2 if ran else 1, {"replies_to": said}, tags=tags)
            )
            output = len(posts) - 1 if ran else output
        else:
            kind, importance = _kind(text, step, final)
            edges = {"replies_to": said} if output is None else {"derived_from": output}
            analyses = output if kind != "LOG" else None
            posts.append(RecordedPost(agent, kind, text, step, importance, edges, analyses, tags))
            said, output = len(posts) - 1, None
        if note is not None and note[0] == step:
            at = len(posts) - 1
            tags = (f"step:{step}", "mistake")
            posts.append(
                RecordedPost(REVIEWER, "CRITIQUE", note[1], step, None, {"critiques": at}, tags=tags)
            )
    return posts


def _is_terminal(agent: str) -> bool:
    return agent.casefold().startswith(_TERMINAL)


def _ends(text: str) -> bool:
    return _END in text


def _final(speakers: Sequence[str], texts: Sequence[str]) -> int | None:
    """Returns the step that gives the answer, or `None`.

    That is the last step with both words and TERMINATE, else the last of all unless it runs something.
    """
    ending = [
        step
        for step, (agent, text) in enumerate(zip(speakers, texts, strict=True))
        if not _is_terminal(agent) and _ends(text) and text.strip() != _END
    ]
    if ending:
        return ending[-1]
    last = len(texts) - 1
    runs_on = _is_terminal(speakers[last]) or "```" in texts[last] or texts[last].strip() == _END
    return None if runs_on else last


def _kind(text: str, step: int, final: int | None) -> tuple[str, int | None]:
    """Returns the type and importance for a step of an agent other than the terminal."""
    if text.strip() == _END or text == "(nothing said)":
        return "LOG", 1
    if step == final:
        return "ANSWER", None
    if step == 0 and text.startswith(_INSTRUCTIONS):
        return "PLAN", None
    if _ends(text):
        return "DECISION", 3
    return ("FACT", None) if _VERIFIED.search(text) and "```" not in text else ("HYPOTHESIS", None)
