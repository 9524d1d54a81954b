"""Runs the product's command; each answer over HTTP says how many others the server gave while it was under way.

A client on a busy machine reads answers late and many at once, so that it cannot count this itself.
"""

from __future__ import annotations

import sys
from typing import Any

from blackboard_mcp.server.cli import main
from blackboard_mcp.server.http import run

HEADER = "x-answers-meanwhile"


class Counted:
    """ASGI application that numbers the answers of another."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._given = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        came = self._given

        async def counted(message: Any) -> None:
            if message["type"] == "http.response.start":
                meanwhile = (HEADER.encode(), str(self._given - came).encode())
                message = {**message, "headers": [*message["headers"], meanwhile]}
                self._given += 1
            await send(message)

        await self._app(scope, receive, counted)


def _build(*args: Any, **options: Any) -> Counted:
    return Counted(_given(*args, **options))


if __name__ == "__main__":
    _given, run.build_application = run.build_application, _build  # type: ignore[assignment]
    sys.exit(main())
