"""The plain model's part on questions: the agents that one asks, their answers, and what excuses them."""

from __future__ import annotations

import re
from typing import Any

from .footing import Edges

WEEK = 604_800.0
MOST = 8


class Wondering:
    """The part of the model about questions to agents.

    `questions` maps (agent, question) to the state of the answer.
    """

    things: dict[int, Any]
    now: float

    def __init__(self) -> None:
        self.questions: dict[tuple[str, int], str] = {}
        self.questioned: dict[tuple[str, int], float] = {}
        self.patience = WEEK

    def put(self, agent: str, number: int, said: Edges) -> None:
        """Notes a new or changed question, and which agents owe it an answer.

        They are those it names, or else the author of the item that it replies to.
        """
        thing = self.things[number]
        if thing.type != "QUESTION":
            return
        names = re.findall(r"@(\w+)", thing.texts[-1])
        if not names:
            names = [self.things[target].author for kind, target in said if kind == "replies_to"]
        seen = [n for n in dict.fromkeys(names) if n not in ("system", agent, thing.author)]
        for name in [] if thing.private else seen[:MOST]:
            self.questions[name, number] = "outstanding"
            self.questioned[name, number] = self.now

    def hear(self, agent: str, number: int, said: Edges) -> None:
        """Notes the questions that an item answers by replying to them."""
        thing = self.things[number]
        for kind, target in said:
            cited = self.things[target]
            heard = not thing.private or (cited.private and cited.author == thing.author)
            if kind != "replies_to" or thing.type in ("QUESTION", "CRITIQUE") or not heard:
                continue
            when = [self.questioned[key] for key in self.questions if key[1] == target]
            alone = when.count(max(when, default=0)) == 1
            for key in self.waiting_for(target):
                if key[0] == agent:
                    self.questions[key] = "acknowledged"
                elif thing.type == "ANSWER" and alone:
                    self.questions[key] = "waived"

    def waiting_for(self, number: int) -> list[tuple[str, int]]:
        """Returns the outstanding answers to a question, as pairs of agent and question."""
        return [key for key, state in self.questions.items() if key[1] == number and state == "outstanding"]

    def ask_no_more(self, number: int) -> None:
        """Waives all outstanding answers to a question that has ended."""
        for key in self.waiting_for(number):
            self.questions[key] = "waived"

    def tire(self) -> None:
        """Waives answers that are outstanding for longer than the board's patience."""
        for key, state in self.questions.items():
            late = self.patience and self.questioned[key] + self.patience <= self.now
            if state == "outstanding" and late:
                self.questions[key] = "waived"
