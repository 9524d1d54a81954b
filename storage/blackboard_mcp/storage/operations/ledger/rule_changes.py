"""The revision of a board's rules, which grows with every transaction that changes one."""

from __future__ import annotations

from .rows import Steps, dumps, sql


def record(no: int) -> Steps[None]:
    """Gives the rules that changed the next revision; a rule no longer in force has an empty mark."""
    now: dict[int, str] = dict((yield sql("rules_standing"), (no,)))
    before = {item: (mark, revision) for item, mark, revision in (yield sql("rule_changes"), (no,))}
    changed = {
        item: now.get(item, "")
        for item in sorted(now.keys() | before.keys())
        if now.get(item, "") != before.get(item, ("", 0))[0]
    }
    if changed:
        revision = 1 + max((revision for _, revision in before.values()), default=0)
        yield sql("rule_changed"), (no, dumps(changed), revision)
