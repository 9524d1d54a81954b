"""Limits on stored bytes: of an owner, of a board, and by the free space on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blackboard_mcp.protocols.board import RESERVE_BYTES
from blackboard_mcp.protocols.errors import QuotaExceeded, StoreLow
from blackboard_mcp.protocols.events import SYSTEM

from ...trouble import ROOM, DiskRoom
from .rows import Steps, sql

if TYPE_CHECKING:
    from .ledger import Ledger

_COUNTED = "texts, tags and metadata of every version, and 1,000 bytes for each"
_STILL = "Still taken: debate(…), status RESOLVED, WITHDRAWN or DELETED, and an answer that you owe, posted by itself"


def check(ledger: Ledger) -> Steps[None]:
    """Refuses a transaction that adds to what is stored, if it exceeds a limit.

    A single answer that the agent owes may exceed the limits a little, so that everybody can finish what was begun.

    Raises:
        StoreLow: the disk is nearly full.
        QuotaExceeded: the agent's owner, or all owners together, would have more bytes than the board allows.
    """
    if ledger.agent == SYSTEM:
        return
    owed = ledger.answering and ledger.grown == 1
    if ROOM.get() is not DiskRoom.ALL and not owed:
        raise StoreLow(
            f"The server's disk is nearly full, so nothing new is taken. Nothing was changed. {_STILL}; reading goes "
            "on. Who runs the server finds in its log what helps; send this again later."
        )
    config = ledger.board.config
    if not config.owner_bytes and not config.board_bytes:
        return
    beyond = RESERVE_BYTES if owed else 0
    own_most = config.owner_bytes and config.owner_bytes + beyond
    all_most = config.board_bytes and config.board_bytes + beyond
    over = yield sql("stored_here"), (ledger.no, ledger.agent, own_most, all_most)
    if not over:
        return
    ((owner, own, every),) = over
    for limit, whose, most, has in (
        ("owner_bytes", f"the agents of {owner} have written", config.owner_bytes, own),
        ("board_bytes", "everybody has written", config.board_bytes, every),
    ):
        if most and has > most + beyond:
            raise QuotaExceeded(
                f"With this, what {whose} on '{ledger.board.id}' would have more than {most:,} bytes ({_COUNTED}; "
                f"board setting {limit}). Nothing was changed. It all stays, so waiting does not help: post on another "
                f"board, or ask an admin of '{ledger.board.id}' to allow more. {_STILL}.",
                limit=limit,
                most=most,
            )


def check_room() -> None:
    """Checks that the disk has room for anything at all that agents write.

    Raises:
        StoreLow: there is no room.
    """
    if ROOM.get() is DiskRoom.NOTHING:
        raise StoreLow(
            "The server's disk is all but full, so it only reads. Nothing was changed. Who runs the server finds in "
            "its log what helps; send this again later."
        )
