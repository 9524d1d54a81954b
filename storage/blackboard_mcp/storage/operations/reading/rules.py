"""Rules in force as an agent may see them, the revision that it was last shown, and what else it is told beside an act.

A notice is read in one transaction, often in that of the act itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from blackboard_mcp.protocols.answers import BEGINNING, Notice, NoticeFor
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.rules import BOARD, Rule, RuleBook, Strength, bounds_of, check_of

from ...operation import Write
from ..agenda import rows as tasks
from ..agenda.reservations import listed, overlap
from ..ledger.ledger import attention, find_board, get_board, load
from ..ledger.rows import BoardRow, Steps, sql, versions_asked

_SCHEMES = {"path": "file", "key": "key"}
_CLAIMS = 10
"""Most tasks held by the agent that a notice names."""


def rules(now: int, board: str, agent: str, path: str = "") -> Steps[RuleBook]:
    """Returns the rules in force on a board; none if it does not exist.

    With the path of a file or folder, the agent also comes under the rules for it.
    """
    row = yield from find_board(board)
    return RuleBook() if row is None else (yield from rules_on(row, agent, now, path))


def rules_on(row: BoardRow, agent: str, now: int, path: str = "") -> Steps[RuleBook]:
    """Returns the rules in force on a board, as `rules` does."""
    no = row.no
    revision, seen, has_law = (yield sql("rules_known"), (no, agent))[0]
    changed = {}
    if revision:
        changed = {item: last for item, _, last in (yield sql("rule_changes"), (no,))}
    core = [
        Rule(f"core {place}", 0, text, Strength.STRICT, BOARD, "", 0, changed.get(0, 0), mine=True)
        for place, text in enumerate(row.core.constraints, 1)
    ]
    law = (yield sql("law"), (no, agent)) if has_law else []
    numbers = [n for n, type_ in law if type_ == ItemType.CONSTRAINT]
    if not numbers:
        return RuleBook(revision, seen, tuple(core))
    rows = yield from load(no, numbers, agent)
    held = [one.pattern for one in (yield from listed(no, now)) if one.agent == agent]
    held += [f"file:{path}", f"file:{path}/**"] if path else []
    found = []
    for number in numbers:
        item = rows[number]
        metadata = json.loads(item.metadata)
        strength, scope = bounds_of(metadata)
        last, mine = changed.get(number, 0), _comes_under(scope, agent, held)
        told = (item.id, number, item.text, strength, scope, item.author, item.version, last, mine)
        found.append(Rule(*told, check_of(metadata)))
    return RuleBook(revision, seen, (*core, *found))


def _comes_under(scope: str, agent: str, held: Sequence[str]) -> bool:
    kind, _, rest = scope.partition(":")
    if kind == "agent":
        return rest == agent
    scheme = _SCHEMES.get(kind)
    return scheme is None or any(overlap(f"{scheme}:{rest}", one) for one in held)


def saw(write: Write, board: str, agent: str, revision: int) -> Steps[None]:
    """Records that an agent was shown the rules of a revision; does nothing where a later one was shown."""
    row = yield from find_board(board)
    if row is not None:
        yield sql("rules_saw"), (row.no, agent, revision)


def notice(now: int, board: str, agent: str, wanted: NoticeFor) -> Steps[Notice]:
    """Returns what an agent is told beside what its call did, as of one moment."""
    return (yield from notice_on((yield from get_board(board)), agent, wanted, now))


def notice_on(
    row: BoardRow,
    agent: str,
    wanted: NoticeFor,
    now: int,
    rules: RuleBook | None = None,
    known: Mapping[int, str] | None = None,
) -> Steps[Notice]:
    """Returns the same for a board as it is after the changes of the transaction.

    `rules` are its rules if they were read already. `known` are whole texts by number that the agent may see: those
    that are wanted are not read again.
    """
    texts = {n: _beginning(text) for n, text in (known or {}).items() if n in wanted.texts}
    waiting = yield from attention(row.no, agent, wanted.look)
    if wanted.rules and rules is None:
        rules = yield from rules_on(row, agent, now)
    if missing := sorted(set(wanted.texts) - texts.keys()):
        asked = versions_asked((number, 1) for number in missing)
        texts |= {number: text for number, _, text in (yield sql("beginnings"), (row.no, asked, agent))}
    return Notice(
        seq=row.seq,
        attention=waiting,
        rules=rules,
        claims=(yield from tasks.held_by(row, agent, now, _CLAIMS)) if wanted.claims else (),
        texts=texts,
        pass_due=row.config.pass_due(row.working_tokens, row.pressure),
    )


def _beginning(text: str) -> str:
    """Returns the part of a text that the statement `beginnings` returns."""
    return text.lstrip("\t\n\r ")[: BEGINNING + 1]
