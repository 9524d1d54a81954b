"""`POST /intake`: a client hands over what happened in it, as JSON lines, and gets one JSON object back.

`?board=` names the board. Whoever the request identifies is the author of everything that it adds.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, RateLimited, StoreError
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.server.access.acting import acting, as_member
from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.input.intake import lines_of
from blackboard_mcp.server.input.secrets import Secrets
from blackboard_mcp.server.limits.json_size import TOO_MUCH, holds_too_much
from blackboard_mcp.server.mcp.admission import REFUSED_SECONDS, Admission
from blackboard_mcp.server.tools.tool import Caller
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.intake import NEEDS, Intake
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from blackboard_mcp.server.usecases.message_reader import MessageReader

INTAKE_PATH: Final = "/intake"
_STATUSES: Final = {"not_found": 404, "forbidden": 403, "conflict": 409, "rate_limited": 429, "quota": 429}


class IntakeRoute:
    """The route of the intake."""

    def __init__(
        self,
        board: Blackboard,
        secrets: Secrets,
        reader: MessageReader | None = None,
        *,
        admission: Admission,
    ) -> None:
        self._board = board
        self._intake = Intake(board, secrets, reader)
        self._admission = admission

    def route(self) -> Route:
        return Route(INTAKE_PATH, self.take, methods=["POST"])

    async def take(self, request: Request) -> Response:
        """Answers with what came of the lines, or with an error that names the line."""
        principal: Principal = request.scope[PRINCIPAL_SCOPE_KEY]
        caller = Caller(principal, "http", True, request.headers)
        try:
            with self._admission.of_call(caller, waits=False):
                return await self._admission.in_turn(
                    caller, INTAKE_PATH, lambda: self._taken(request, principal)
                )
        except RateLimited as error:
            await asyncio.sleep(REFUSED_SECONDS)
            return _refusal(error)
        except BlackboardError as error:
            return _refusal(error)

    async def _taken(self, request: Request, principal: Principal) -> Response:
        grant = await self._board.rights.enter(principal, NEEDS, request.query_params.get("board"))
        body = await request.body()
        if holds_too_much(body):
            raise InvalidInput(f"{TOO_MUCH}. Nothing was changed.")
        lines = lines_of(_text(body))
        with under(grant), acting(as_member(principal, grant)):
            done = await self._intake.hand_over(principal.agent, grant.board, lines)
        return JSONResponse(done.facts)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            "The body is not UTF-8. Nothing was changed; send lines of JSON in UTF-8."
        ) from None


def _refusal(error: BlackboardError) -> Response:
    status = _STATUSES.get(error.code, 503 if isinstance(error, StoreError) else 400)
    headers = {}
    seconds = error.facts.get("retry_after_seconds")
    if isinstance(seconds, int | float):
        headers["Retry-After"] = str(max(1, math.ceil(seconds)))
    told = {"error": error.code, "message": error.message, **error.facts}
    return JSONResponse(told, status, headers=headers)
