"""The steps of a walk that repeat earlier findings, in other spelling or with a change of meaning."""

from __future__ import annotations

from collections.abc import Callable

from blackboard_mcp.protocols.remarks import RemarkKind
from hypothesis import strategies as st
from hypothesis.stateful import rule

from ..harness import draft
from .footing import spelt
from .invariants import Invariants
from .walking import agents, grouped, near, ordered

RESPELT: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: f" {text.lower()} ",
    lambda text: text.replace(" ", "\n  "),
    lambda text: f"{text}.",
)
"""Changes of a text that leave it the same finding."""
CHANGED: tuple[Callable[[str], str], ...] = (
    lambda text: f"{text.rstrip()}?",
    lambda text: f"not {text}",
    lambda text: f"{text.rstrip()} by half",
    lambda text: f"{text.rstrip()} ²",
)
"""Changes of a text that make it another finding. None of them makes the indentation uneven."""


class Finding(Invariants):
    """The steps in which agents repeat findings of others."""

    @rule(
        agent=agents,
        back=near,
        respelt=st.sampled_from(RESPELT),
        changed=st.sampled_from([None, None, None, *CHANGED]),
        leaning=st.sampled_from(["on nothing", "on the same", "on another"]),
    )
    def find_again(
        self,
        agent: str,
        back: int,
        respelt: Callable[[str], str],
        changed: Callable[[str], str] | None,
        leaning: str,
    ) -> None:
        findings = [t for t in self.model.things.values() if t.type in ("FACT", "HYPOTHESIS")]
        first = findings[max(0, len(findings) - 1 - back)]
        pairs: list[tuple[str, int]] = []
        if leaning == "on the same":
            pairs = sorted((kind, target) for n, kind, target in self.model.edges if n == first.number)
        elif leaning == "on another":
            pairs = [("depends_on", self.pick(back))]
        text = respelt(first.texts[-1])
        if changed is not None:
            text = changed(text)
        posted = self.both(
            "find again",
            self.at.batch(agent, draft(text, first.type, **grouped(pairs))),
            lambda m: m.post(agent, text, first.type, ordered(pairs)),
        )
        if posted is not None:
            known = len(self.before.things)
            same = any(remark.kind is RemarkKind.SAME for remark in posted.remarks)
            self.check("I40", (bool(posted.endorsed) or same) == (posted.items[0].number <= known), posted)
            self.check("I40", spelt(text) == spelt(posted.items[0].text), (text, posted))
            self.outcome.happened["endorsed"] += len(posted.endorsed)
            self.outcome.happened["same"] += same
