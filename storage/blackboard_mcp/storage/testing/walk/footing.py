"""The plain model's part on support and retraction: which items say the same, and what rests on what.

Like the rest of the model it shares no code with the stores, and is written to be read, not to be fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .pacts import Pacts

FINDINGS = ("FACT", "HYPOTHESIS", "PROBLEM", "RESULT")
QUIET = ("depends_on", "derived_from", "analyzed_by")
LEANING = ("depends_on", "derived_from")
FALLEN = ("WITHDRAWN", "INVALIDATED")

Edges = Iterable[tuple[str, int]]


def spelt(text: str) -> str:
    """Returns a text in a normal spelling; the walk uses no units and no mixed case."""
    plain = " ".join(text.lower().split())
    return plain[:-1] if plain.endswith(".") and not plain.endswith(("..", " .", "?.")) else plain


class Footing(Pacts):
    """The part of the model about repeated findings and retracted items."""

    things: dict[int, Any]
    edges: set[tuple[int, str, int]]
    debates: list[Any]
    watches: dict[tuple[str, int], str]
    questions: dict[tuple[str, int], str]
    agreed: set[tuple[int, str, int]]

    def __init__(self) -> None:
        super().__init__()
        self.endorsed: dict[int, list[str]] = {}
        self.notices: dict[int, dict[int, bool]] = {}
        """Retracted items by the item that rests on them: true if it depends on one, false if it only supports it."""

    def fallen(self, number: int) -> bool:
        """Tells whether the item is withdrawn, invalidated, or superseded by its own author for all to see."""
        thing = self.things[number]
        return (
            thing.status in FALLEN
            or any(
                kind == "supersedes"
                and target == number
                and self.things[source].author == thing.author
                and not self.things[source].private
                for source, kind, target in self.edges
            )
            or self.given_up(number)
        )

    def given_up(self, number: int) -> bool:
        """Tells whether the item's author agreed that another author's item supersedes it."""
        return any(kind == "supersedes" and target == number for _, kind, target in self.agreed)

    # Repeated posts

    def versions(self, number: int) -> int:
        """Returns the number of versions of the item, without tombstones."""
        return sum(bool(text) for text in self.things[number].texts)

    def owing_to(self, agent: str, number: int) -> bool:
        """Tells whether the agent owes something to the item in a debate."""
        return any(
            who == agent and item == number and state == "outstanding"
            for debate in self.debates
            for (who, item, _), state in debate.duties.items()
        ) or "outstanding" in (
            self.watches.get((agent, number)),
            self.questions.get((agent, number)),
            self.word_of(agent, number),
        )

    def said_before(
        self, agent: str, text: str, type_: str, said: Sequence[tuple[str, int]], *, private: bool
    ) -> int | None:
        """Returns the newest item of the agent with just this content, if nothing has changed since; else `None`."""
        for number, thing in sorted(self.things.items(), reverse=True):
            words = thing.texts[-1]
            finding = type_ in FINDINGS and not private
            critique = type_ == "CRITIQUE"
            awaited = any(
                item == number and duty == "respond" and state == "outstanding"
                for debate in self.debates
                for (_, item, duty), state in debate.duties.items()
            )
            if (
                (thing.author, thing.type, thing.private) == (agent, type_, private)
                and type_ not in ("LOG", "RESULT", "SUMMARY")
                and (words == text or (finding and spelt(words) == spelt(text)))
                and thing.key is None
                and thing.status in ("ACTIVE", "DEBATED")
                and thing.expires is None
                and not self.replaced(number)
                and {(kind, target) for n, kind, target in self.edges if n == number} == set(said)
                and (awaited or private or not critique)
                and all(self.versions(target) == thing.then.get(target, 1) for _, target in said)
                and (critique or not any(self.owing_to(agent, target) for _, target in said))
            ):
                return number
        return None

    def replaced(self, number: int) -> bool:
        """Tells whether the item is superseded.

        It is if its own author superseded it for all who see it, or agreed that another's item does.
        """
        thing = self.things[number]
        return self.given_up(number) or any(
            kind == "supersedes"
            and target == number
            and self.things[source].author == thing.author
            and (not self.things[source].private or thing.private)
            for source, kind, target in self.edges
        )

    # Findings

    def found_before(self, agent: str, text: str, type_: str, said: Sequence[tuple[str, int]]) -> int | None:
        """Returns the oldest finding of another agent that says the same; else `None`."""
        if type_ not in FINDINGS or any(kind not in QUIET for kind, _ in said):
            return None
        for number, thing in sorted(self.things.items()):
            if (
                thing.type == type_
                and thing.author != agent
                and not thing.private
                and thing.key is None
                and thing.status in ("ACTIVE", "DEBATED")
                and (thing.ttl is None or thing.zone == "archive")
                and not self.fallen(number)
                and spelt(thing.texts[-1]) == spelt(text)
                and all((number, kind, target) in self.edges for kind, target in said)
            ):
                return number
        return None

    def endorse(self, agent: str, number: int) -> None:
        """Notes that the agent said the same as the item."""
        agents = self.endorsed.setdefault(number, [])
        if agent not in agents:
            agents.append(agent)

    def opponents(self, number: int) -> set[str]:
        """Returns the owners that oppose the item."""
        found = set()
        for source, kind, target in self.edges:
            thing = self.things[source]
            if target != number or kind not in ("refutes", "critiques") or thing.private:
                continue
            agreed = kind == "critiques" and any(
                source in d.critiques
                and d.outcome not in ("falls", "amended")
                and (d.root == number or number in d.critiques)
                and d.duties.get((thing.author, d.root, "acknowledge")) == "acknowledged"
                for d in self.debates
            )
            if thing.status != "RESOLVED" and not self.fallen(source) and not agreed:
                found.add(self.owner(thing.author))
        return found - {self.owner(self.things[number].author)}

    def supporters(self, number: int) -> set[str]:
        """Returns the owners that support the item."""
        found = {self.owner(agent) for agent in self.endorsed.get(number, ())}
        for source, kind, target in self.edges:
            thing = self.things[source]
            if target == number and kind == "supports" and not thing.private and not self.fallen(source):
                found.add(self.owner(thing.author))
        return found - {self.owner(self.things[number].author)} - self.opponents(number)

    # Retraction

    def took_over(self, number: int, source: int) -> bool:
        """Tells whether the item took the place of item `source` in a debate."""
        return any(debate.root == source and debate.gave_way_to == number for debate in self.debates)

    def hears(self, via: int, number: int) -> bool:
        """Tells whether a retraction notice may pass from item `via` to the item."""
        one, other = self.things[via], self.things[number]
        return not one.private or (other.private and other.author == one.author)

    def mark(self, number: int, source: int, leaning: bool) -> None:
        """Gives an item a retraction notice on `source`, and passes it on if it is new.

        `leaning` is true if the item depends on what gave the notice, false if it only supports that.
        """
        if number == source or (number, "supersedes", source) in self.edges or self.took_over(number, source):
            return
        known = self.notices.setdefault(number, {})
        if known.get(source) or (source in known and not leaning):
            return
        known[source] = leaning
        if leaning:
            self.pass_on(source, number)

    def pass_on(self, source: int, via: int) -> None:
        """Gives a retraction notice on `source` to the items that rest on item `via`."""
        for citing, kind, target in sorted(self.edges):
            if target == via and (kind in LEANING or (kind == "supports" and via == source)):
                if self.hears(via, citing):
                    self.mark(citing, source, kind in LEANING)
            elif citing == via == source and kind == "analyzed_by" and self.hears(via, target):
                self.mark(target, source, True)

    def retract(self, number: int) -> None:
        """Ends the agreement to a retracted item, and gives notice to the items that rest on it."""
        self.end_pact(number)
        self.pass_on(number, number)

    def cite(self, number: int, said: Edges, *, aware: bool = False) -> None:
        """Gives retraction notices to items that rest, by new edges, on something retracted before."""
        for kind, target in said:
            if kind in (*LEANING, "supports") and self.hears(target, number):
                if self.fallen(target) and not aware:
                    self.mark(number, target, kind in LEANING)
                if kind in LEANING:
                    for source, leaning in list(self.notices.get(target, {}).items()):
                        if leaning:
                            self.mark(number, source, True)
            elif kind == "analyzed_by" and self.fallen(number) and self.hears(number, target):
                self.mark(target, number, True)
