"""The workload of `context.py`: recorded sessions played by agents who question, criticise, decide and take back.

The recorded steps come as they were said, one session after the other on the same board. Between them, drawn by a seed:
critiques, answers to them, acknowledgements and withdrawals; questions to named agents and answers; decisions that
others agree to; problems; newer versions of findings that supersede older ones; and posts that their authors resolve.
What is open, what was answered and who owes what is recorded here when it happens, and never read from a board.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from blackboard_mcp.protocols.errors import BlackboardError, QuotaExceeded, UnderPressure
from blackboard_mcp.server.demo.session import RecordedPost, Session

_SENTENCE = re.compile(r"[^.!?\n]{20,160}[.!?\n]")
CRITIC_DELAY = (1, 6)
_TAKEN = 4
"""The importance that a board under pressure still accepts when it refuses a higher one."""


class Table(Protocol):
    """A board to play on."""

    async def post(self, agent: str, **said: Any) -> str:
        """Posts, and returns the id."""
        ...

    async def debate(self, agent: str, op: str, id_: str) -> str:
        """Acts in a debate, and returns its state."""
        ...


@dataclass
class Said:
    """A post as its author knows it. `over` says that its author resolved, withdrew or superseded it."""

    id: str
    agent: str
    type: str
    text: str
    over: bool = False


@dataclass
class Argument:
    """An open debate: each critique's critic by its id, the critiques answered so far, and the critics who agreed."""

    root: Said
    critics: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Checkpoint:
    """A moment to look at the views: after every few posts, and at the end of a task with its question and answer."""

    task: tuple[Said, Said | None] | None = None


class Play:
    """Plays sessions on a table, and records what is open on it."""

    def __init__(self, table: Table, seed: str, every: int = 10) -> None:
        self.said: list[Said] = []
        self.questions: dict[str, tuple[Said, str]] = {}
        self.problems: dict[str, Said] = {}
        self.arguments: dict[str, Argument] = {}
        self.agents: list[str] = []
        self._table = table
        self._dice = random.Random(seed)
        self._every = every
        self._later: list[tuple[int, Any]] = []

    # What is open

    def owed(self, agent: str) -> list[Said]:
        """Returns the posts that wait for the agent.

        These are critiques of its posts, answers to its critiques, and questions to it by name.
        """
        owed = [question for question, asked in self.questions.values() if asked == agent]
        by_id = {said.id: said for said in self.said}
        for argument in self.arguments.values():
            if argument.root.agent == agent:
                owed += [by_id[id_] for id_ in argument.critics if id_ not in argument.answered]
            mine = {id_ for id_, critic in argument.critics.items() if critic == agent}
            if mine and set(argument.critics) <= argument.answered and agent not in argument.judged:
                owed.append(argument.root)
        return owed

    def lately(self, types: Sequence[str], posts: int = 50) -> list[Said]:
        """Returns those of the last `posts` posts that are of these types and not over."""
        return [said for said in self.said[-posts:] if said.type in types and not said.over]

    # Playing

    async def play(self, sessions: Sequence[Session]) -> Any:
        """Plays all sessions, and yields a checkpoint whenever it is time to look."""
        for session in sessions:
            self.agents += [agent for agent in session.agents if agent not in self.agents]
            places: list[Said] = []
            question, answer = None, None
            for post in session.posts:
                said = await self._record(post, places)
                places.append(said)
                question = question or said
                answer = said if post.type == "ANSWER" else answer
                async for _ in self._between(said, session):
                    yield Checkpoint()
                if len(self.said) % self._every == 0:
                    yield Checkpoint()
            assert question is not None
            yield Checkpoint((question, answer))
            await self._finish(places)

    async def _record(self, post: RecordedPost, places: list[Said]) -> Said:
        edges = {kind: [places[place].id] for kind, place in post.edges.items()}
        more = {"tags": list(post.tags), "importance": post.importance}
        if post.type == "CRITIQUE":
            target = places[post.edges["critiques"]]
            return await self._criticise(post.agent, target, post.text) or target
        try:
            said = await self._say(post.agent, post.type, post.text, edges=edges, **more)
        except QuotaExceeded:  # the agent's debates hold too much: it posts without joining one
            said = await self._say(post.agent, post.type, post.text, **more)
        if post.type == "PROBLEM":
            self.problems[said.id] = said
        return said

    async def _say(self, agent: str, type_: str, text: str, **more: Any) -> Said:
        given = {name: value for name, value in more.items() if value}
        try:
            id_ = await self._table.post(agent, text=text, type=type_, **given)
        except UnderPressure as refused:
            given["importance"] = refused.facts.get("ceiling", _TAKEN - 1) + 1
            id_ = await self._table.post(agent, text=text, type=type_, **given)
        said = Said(id_, agent, type_, text)
        self.said.append(said)
        return said

    async def _between(self, last: Said, session: Session) -> Any:
        """Makes what happens after a recorded step, and yields after each delayed action that was due."""
        dice = self._dice
        for act in self._due():
            await act()
            yield
        others = [agent for agent in session.agents if agent != last.agent]
        if not others:
            return
        somebody = dice.choice(others)
        if dice.random() < 0.15 and last.type in ("HYPOTHESIS", "FACT", "DECISION"):
            await self._criticise(somebody, last)
        if dice.random() < 0.12:
            await self._ask(somebody, last)
        if dice.random() < 0.10:
            await self._decide(somebody, others, last)
        if dice.random() < 0.05:
            said = await self._say(somebody, "PROBLEM", f"We lack a source for this: {fragment(last.text)}")
            self.problems[said.id] = said
            if dice.random() < 0.5:
                self._in(10, lambda: self._over(said, "RESOLVED"))
        if dice.random() < 0.08:
            first = await self._say(
                somebody, "FACT", f"Checked at step {len(self.said)}: {fragment(last.text)}"
            )
            if first is not None:
                self._in(dice.randint(3, 9), lambda: self._supersede(first))

    def _in(self, posts: int, act: Any) -> None:
        self._later.append((len(self.said) + posts, act))

    def _due(self) -> Iterator[Any]:
        due = [act for at, act in self._later if at <= len(self.said)]
        self._later = [(at, act) for at, act in self._later if at > len(self.said)]
        yield from due

    async def _criticise(self, critic: str, target: Said, text: str = "") -> Said | None:
        doubt = f"I doubt it: {fragment(target.text)} Nothing on the board supports that."
        try:
            said = await self._say(critic, "CRITIQUE", text or doubt, edges={"critiques": [target.id]})
        except QuotaExceeded:
            return None  # the critic holds too much already
        self._criticised(said, target)
        return said

    def _criticised(self, critique: Said, target: Said) -> None:
        argument = self.arguments.setdefault(target.id, Argument(target))
        argument.critics[critique.id] = critique.agent
        argument.judged.clear()
        if self._dice.random() < 0.75:
            self._in(self._dice.randint(*CRITIC_DELAY), lambda: self._answer(argument, critique))
        elif self._dice.random() < 0.3:
            self._in(4, lambda: self._withdraw(argument, critique))

    async def _answer(self, argument: Argument, critique: Said) -> None:
        if argument.root.id not in self.arguments:
            return
        text = f"It follows from the step before: {fragment(argument.root.text)}"
        try:
            await self._say(argument.root.agent, "REPLY", text, edges={"replies_to": [critique.id]})
        except QuotaExceeded:
            return
        argument.answered.add(critique.id)
        if set(argument.critics) <= argument.answered and self._dice.random() < 0.7:
            for critic in dict.fromkeys(argument.critics.values()):
                self._in(self._dice.randint(1, 4), lambda critic=critic: self._judge(argument, critic))

    async def _judge(self, argument: Argument, critic: str) -> None:
        if argument.root.id in self.arguments and set(argument.critics) <= argument.answered:
            argument.judged.add(critic)
            await self._debate(argument, critic, "acknowledge", argument.root.id)

    async def _withdraw(self, argument: Argument, critique: Said) -> None:
        if argument.root.id in self.arguments and critique.id not in argument.answered:
            critique.over = True
            argument.critics.pop(critique.id, None)
            await self._debate(argument, critique.agent, "withdraw", critique.id)

    async def _debate(self, argument: Argument, agent: str, op: str, id_: str) -> None:
        try:
            state = await self._table.debate(agent, op, id_)
        except BlackboardError:
            return
        if state not in ("OPEN", ""):
            self.arguments.pop(argument.root.id, None)

    async def _ask(self, asker: str, last: Said) -> None:
        text = f"@{last.agent} how sure are you of this: {fragment(last.text)}"
        asked = last.agent
        try:
            said = await self._say(asker, "QUESTION", text)
        except (
            UnderPressure
        ):  # a question by name would be protected: it asks everybody, as the error advises
            said, asked = await self._say(asker, "QUESTION", text.removeprefix("@")), ""
        self.questions[said.id] = (said, asked)
        if self._dice.random() < 0.6:
            self._in(self._dice.randint(3, 8), lambda: self._reply(said, last.agent))

    async def _reply(self, question: Said, agent: str) -> None:
        text = f"Sure enough to go on: {fragment(question.text)}"
        await self._say(agent, "ANSWER", text, edges={"replies_to": [question.id]})
        self.questions.pop(question.id, None)
        question.over = True

    async def _decide(self, agent: str, others: Sequence[str], last: Said) -> None:
        said = await self._say(agent, "DECISION", f"We build on this from now on: {fragment(last.text)}")
        for other in others[:2]:
            if other != agent:
                await self._say(
                    other, "REPLY", "Agreed.", edges={"replies_to": [said.id], "supports": [said.id]}
                )

    async def _supersede(self, first: Said) -> None:
        if not first.over:
            text = f"Checked again at step {len(self.said)}: {fragment(first.text)}"
            await self._say(first.agent, "FACT", text, edges={"supersedes": [first.id]})
            first.over = True

    async def _over(self, said: Said, status: str) -> None:
        try:
            await self._table.post(said.agent, id=said.id, status=status)
        except BlackboardError:
            return
        said.over = True
        self.problems.pop(said.id, None)

    async def _finish(self, places: Sequence[Said]) -> None:
        """Ends a task: resolves its question and some of its other posts."""
        for act in [act for _, act in self._later]:
            await act()
        self._later.clear()
        for said in places:
            left = said.type in ("HYPOTHESIS", "PLAN") and self._dice.random() < 0.3
            if (left or said.type == "PROBLEM") and said.id not in self.arguments:
                await self._over(said, "RESOLVED")


def fragment(text: str) -> str:
    """Returns the first sentence of 20 to 160 characters in a text, or the text's beginning."""
    found = _SENTENCE.search(text)
    return " ".join((found[0] if found else text[:120]).split())
