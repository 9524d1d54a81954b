"""The plain model's part on agreement: the agents that an item's author asked, and those who agreed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

HERE = 900
"""Seconds since its last call within which an agent is present, on a board where nobody counts as absent."""
FINISHED = ("RESOLVED", "WITHDRAWN", "INVALIDATED")


@dataclass
class Pact:
    """The request for agreement to an item.

    `words` maps agents to outstanding, acknowledged, away, or waived (not needed).
    """

    by: str
    enough: int
    reached: bool = False
    words: dict[str, str] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)


class Impossible(Exception):
    """The request for agreement must be refused."""


class Pacts:
    """The part of the model about agreement."""

    now: float
    things: dict[int, Any]
    last_seen: dict[str, float]
    lets_go: Callable[[str, str, float], bool]
    presence: float
    roles: dict[str, str]

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.pacts: dict[int, Pact] = {}

    def owner(self, agent: str) -> str:
        return self.owners.get(agent, agent)

    def here(self, agent: str) -> list[str]:
        """Returns the agents of other owners that are present and may do more than read; the server is none."""
        return [
            name
            for name, at in self.last_seen.items()
            if name != "system"
            and at >= self.now - (self.presence or HERE)
            and self.owner(name) != self.owner(agent)
            and self.roles.get(name) not in ("observer", "summariser")
        ]

    def ask_to_agree(
        self, agent: str, number: int, names: Sequence[str], *, everybody: bool = False, enough: int = 0
    ) -> None:
        thing = self.things[number]
        unfit = thing.private or thing.type in ("QUESTION", "CRITIQUE", "REPLY", "LOG", "SUMMARY")
        if thing.author != agent or unfit or thing.status in FINISHED:
            raise Impossible
        if any(self.owner(name) == self.owner(agent) for name in names):
            raise Impossible
        asked = [*names, *(self.here(agent) if everybody else ())]
        before = self.pacts.get(number, Pact(agent, 0))
        if not asked or enough > len({self.owner(name) for name in (*before.words, *asked)}):
            raise Impossible
        pact = self.pacts.setdefault(number, before)
        pact.by, pact.enough, pact.reached = agent, enough, False
        for name in asked:
            if pact.words.get(name) not in ("outstanding", "acknowledged"):
                pact.words[name], pact.since[name] = "outstanding", self.now
        self.settle_pact(number)

    def agree(self, agent: str, number: int) -> bool:
        """Notes that the agent agrees; tells whether it was asked and had not answered yet."""
        pact = self.pacts.get(number)
        if pact is None or self.things[number].status in FINISHED:
            return False
        if pact.words.get(agent) not in ("outstanding", "away"):
            return False
        pact.words[agent] = "acknowledged"
        self.settle_pact(number)
        return True

    def settle_pact(self, number: int) -> None:
        pact = self.pacts[number]
        agreed = {self.owner(name) for name, word in pact.words.items() if word == "acknowledged"}
        if pact.reached or not agreed:
            return
        if len(agreed) >= pact.enough if pact.enough else "outstanding" not in pact.words.values():
            pact.reached = True
            self.end_pact(number)

    def end_pact(self, number: int) -> None:
        """Waives the agreement of agents that is no longer needed."""
        pact = self.pacts.get(number)
        if pact is not None:
            for name, word in pact.words.items():
                pact.words[name] = "waived" if word == "outstanding" else word

    def renew_pact(self, number: int) -> None:
        """Asks all agents again, since the text is new."""
        pact = self.pacts.get(number)
        if pact is not None:
            pact.reached = False
            pact.words = dict.fromkeys(pact.words, "outstanding")
            pact.since = dict.fromkeys(pact.words, self.now)

    def go_on_without(self) -> None:
        """Excuses absent agents while the asker is present, on a board where agents can count as absent."""
        if not self.presence:
            return
        since = self.now - self.presence
        for number, pact in self.pacts.items():
            if self.last_seen.get(pact.by, 0.0) <= since:
                continue
            away = [
                name
                for name, word in pact.words.items()
                if word == "outstanding"
                and max(pact.since[name], self.last_seen.get(name, pact.since[name])) <= since
                and self.lets_go(pact.by, name, pact.since[name])
            ]
            pact.words.update(dict.fromkeys(away, "away"))
            if away:
                self.settle_pact(number)

    def word_of(self, agent: str, number: int) -> str | None:
        pact = self.pacts.get(number)
        return None if pact is None else pact.words.get(agent)

    def agreements(self, number: int) -> dict[str, set[str]]:
        """Returns a map from each answer to its agents, without those who were not needed."""
        pact = self.pacts.get(number)
        sides: dict[str, set[str]] = {}
        for name, word in (pact.words if pact is not None else {}).items():
            if word != "waived":
                sides.setdefault(word, set()).add(name)
        return sides
