"""What an agent is told beside what its call did: read in one transaction, often in that of the call itself."""

from __future__ import annotations

from collections.abc import Mapping

from blackboard_mcp.protocols.answers import Notice, NoticeFor
from blackboard_mcp.protocols.rules import RuleBook

from ..agenda import rows as tasks
from ..ledger.ledger import attention, get_board
from ..ledger.rows import BoardRow, Steps, dumps, sql
from .rules import rules_on

_CLAIMS = 10
"""Most tasks held by the agent that a notice names."""


def notice(now: int, board: str, agent: str, wanted: NoticeFor) -> Steps[Notice]:
    """Returns what an agent is told beside what its call did, as of one moment."""
    return (yield from notice_on((yield from get_board(board)), agent, wanted, now))


def notice_on(
    row: BoardRow, agent: str, wanted: NoticeFor, now: int, rules: RuleBook | None = None
) -> Steps[Notice]:
    """Returns the same for a board as it is after the changes of the transaction; `rules` if they are known."""
    texts: Mapping[int, str] = {}
    waiting = yield from attention(row.no, agent, wanted.look)
    if wanted.rules and rules is None:
        rules = yield from rules_on(row, agent, now)
    if wanted.texts:
        asked = dumps([(number, 1) for number in sorted(set(wanted.texts))])
        texts = {number: text for number, _, text in (yield sql("beginnings"), (row.no, asked, agent))}
    return Notice(
        seq=row.seq,
        attention=waiting,
        rules=rules,
        claims=(yield from tasks.held_by(row, agent, now, _CLAIMS)) if wanted.claims else (),
        texts=texts,
        pass_due=row.value().pass_due,
    )
