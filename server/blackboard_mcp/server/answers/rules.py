"""Rules as text: those in force, those proposed, and what a call changed."""

from __future__ import annotations

from blackboard_mcp.protocols.rules import bounds

from ..text.lines import flat, word
from ..usecases.rules import Proposal, Ruled
from ..views.law import labelled


def ruled_lines(done: Ruled, *, proposed: bool = False) -> list[str]:
    """Returns the rules in force and the open proposals, with what the call wrote first."""
    book = done.book
    fresh = [one for one in done.proposals if one.id in done.written]
    lines = []
    made = [id_ for id_ in done.written if id_ not in {one.id for one in fresh}]
    if made:
        in_force = [id_ for id_ in made if id_ in {rule.id for rule in book.rules}]
        ended = [id_ for id_ in made if id_ not in in_force]
        lines += [f"in force: {', '.join(in_force)}"] if in_force else []
        lines += [f"retired: {', '.join(ended)}"] if ended else []
    if proposed and not done.written and not done.left:
        lines.append(
            'no sentence of the message reads like a new rule; constraint(text="…") takes your own words'
        )
    if done.model:
        lines.append(f"{done.model}; only fixed patterns read the message")
    if done.left:
        lines += labelled(
            f"too many for one call: {len(done.left)} more of the message read like rules; call "
            "constraint(message=…) with the message from here on",
            done.left[0],
        )
    if not book.rules:
        lines.append('no rules; constraint(text="…") proposes one, or makes one if you are a steward')
    else:
        lines.append(book.label)
        for rule in book.rules:
            told = [f"by {word(rule.author)}"] if rule.author else []
            told += [flat(rule.bounds)] if rule.bounds else []
            lines += labelled(" ".join([rule.id, *told]), rule.text)
    if done.proposals:
        listed = ", ".join(f'"{one.id}"' for one in fresh or done.proposals[:3])
        lines.append(
            f"proposed, not in force; a steward makes rules of what the user meant: constraint(confirm=[{listed}])"
        )
        for one in done.proposals:
            lines += labelled(_lead(one), one.text)
    return lines


def _lead(one: Proposal) -> str:
    parts = [f"{one.id} by {word(one.author)}"]
    parts += [flat(told)] if (told := bounds(one.strength, one.scope, one.check)) else []
    parts += ["found by a model"] if one.by_model else []
    parts += [f"instead of {flat(one.replaces)}"] if one.replaces else []
    return " ".join(parts)
