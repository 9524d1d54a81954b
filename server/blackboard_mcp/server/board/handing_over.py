"""Handing over what happened in an agent's client: lines of JSON, to a board in this process or to a server."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from blackboard_mcp.protocols.errors import InvalidInput, Unreachable, error_of

from ..access.identity import is_loopback
from .calls import Calls, maps

if TYPE_CHECKING:
    from blackboard_mcp.protocols.rule_wire import IntakeAnswer


class HandsOver(Calls):
    """The call to hand over what a user and an agent's client did. A server takes it over HTTP, whatever its tools."""

    async def hand_over(self, lines: Sequence[Mapping[str, Any]]) -> IntakeAnswer:
        """Writes at most 200 lines as LOG items, each once, and proposes what they hold of rules.

        A line has `id`, `kind` (message, call or result), `text` and `thread`; calls and results have `tool`, results
        `ok` and `subject`. A result that failed is a hot issue. A line that was handed over before adds nothing.

        Raises:
            InvalidInput: a line is wrong; nothing was changed.
            Refused: a line holds a secret, and none was written; or a limit, right or rule forbids one, and the lines
                before it were written.
        """
        document = "\n".join(_line(number, line) for number, line in enumerate(maps(lines), start=1))
        told = await self._hand_over(document)
        self.seq = max(self.seq, told.seq)
        return told

    @abstractmethod
    async def _hand_over(self, document: str) -> IntakeAnswer:
        """Hands over lines of JSON."""


def _line(number: int, line: Mapping[str, Any]) -> str:
    """Returns a line as JSON.

    Raises:
        InvalidInput: it holds what is no JSON value.
    """
    try:
        return json.dumps(dict(line))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Line {number}: it holds what is no JSON value ({error}). Nothing was changed.", line=number
        ) from None


async def post_lines(
    url: str, headers: Mapping[str, str], document: str, board: str | None = None
) -> dict[str, Any]:
    """Hands over lines of JSON to the server whose endpoint is `url`, and returns its answer.

    Raises:
        Unreachable: no answer came that can be read.
        BlackboardError: the server refused.
    """
    import httpx2

    parts = urlsplit(url)
    to = parts._replace(path=parts.path.removesuffix("/mcp") + "/intake", query="").geturl()
    sent = {**headers, "Content-Type": "application/x-ndjson"}
    asked = {} if board is None else {"board": board}
    try:
        async with httpx2.AsyncClient(timeout=60.0, trust_env=not is_loopback(parts.hostname or "")) as http:
            answer = await http.post(to, content=document.encode(), headers=sent, params=asked)
            told = answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise Unreachable(f"{to}: no answer that can be read ({type(error).__name__}).") from None
    if not isinstance(told, dict):
        raise Unreachable(f"{to}: no answer that can be read.")
    if answer.status_code != 200:
        more = {name: value for name, value in told.items() if name not in ("error", "message")}
        raise error_of(str(told.get("error")), str(told.get("message")), more)
    return told
