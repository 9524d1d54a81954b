"""The workload of `eviction.py`: recorded sessions with arguments woven in, the same for every competitor.

The recorded steps come as they were said. Around them, drawn by a seed: facts that a step depends on
(chains of 1 to 3), constraints, critiques of recent and of old steps, second critics, replies (chains of
0 to 6, the first up to 12 steps late), and the end of most arguments: by acknowledgement of every
critic once the author has answered each critique, by a judge, or by withdrawal; some are still open when
the board ends. Authors resolve part of what a session left behind once it is over.

The items of an open argument are recorded here as they are added, and not computed from edges, so that what
counts as a loss does not depend on any competitor's guard.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from blackboard_mcp.server.demo.session import Session

CRITICS = ("critic-a", "critic-b", "critic-c")
JUDGE, LAWGIVER = "judge", "lawgiver"
IMPORTANCE = {"LOG": 2, "HYPOTHESIS": 3, "PLAN": 3, "CRITIQUE": 3, "REPLY": 3, "FACT": 4, "ANSWER": 4}
"""The importance of posts that have none of their own, by type; 5 for types not listed."""
_LATE = 12


@dataclass
class Argument:
    """An argument. `members` are the item criticised, the items it depends on, its critiques and all replies."""

    number: int
    root: int
    critics: list[str]
    critiques: list[int] = field(default_factory=list)
    members: set[int] = field(default_factory=set)
    open: bool = True


@dataclass(frozen=True)
class Said:
    """A post. `place` is its index among the board's posts from 0, and `edges` lead to earlier places."""

    place: int
    agent: str
    type: str
    text: str
    importance: int
    edges: tuple[tuple[str, int], ...] = ()
    analyses: int | None = None
    argument: int | None = None
    """The number of the argument that the post belongs to."""
    also: tuple[int, ...] = ()
    """The places of items that join the argument with this post."""
    recorded: bool = False


@dataclass(frozen=True)
class Acknowledged:
    """A critic's agreement in an argument. `closes` says that it is the last one needed."""

    agent: str
    root: int
    argument: int
    closes: bool


@dataclass(frozen=True)
class Decided:
    """A judge's decision, which ends an argument."""

    root: int
    argument: int
    closes: bool = True


@dataclass(frozen=True)
class Withdrawn:
    """A critic's withdrawal, which ends an argument."""

    agent: str
    critique: int
    root: int
    argument: int
    closes: bool = True


@dataclass(frozen=True)
class Resolved:
    """An author's post that becomes resolved."""

    agent: str
    place: int


Action = Said | Acknowledged | Decided | Withdrawn | Resolved


def first_sentence(text: str, longest: int = 160) -> str:
    """Returns the first line of more than 20 characters, cut to `longest`."""
    line = next((line.strip() for line in text.splitlines() if len(line.strip()) > 20), text.strip())
    return line[:longest]


class Weaver:
    """Makes the actions of one board: recorded sessions with arguments woven in.

    The same seed and sessions give the same actions.
    """

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.actions: list[Action] = []
        self.posts: list[Said] = []
        self.arguments: list[Argument] = []
        self.behind: dict[int, tuple[int, ...]] = {}
        self.later: list[tuple[int, int, Callable[[], None]]] = []
        self.order = count()
        self.now = 0

    def weave(self, sessions: Sequence[Session]) -> list[Action]:
        """Returns the actions of a board on which the sessions are played one after the other."""
        for session in sessions:
            began = len(self.posts)
            places: list[int] = []
            for post in session.posts:
                self.tick()
                edges = [(kind, places[place]) for kind, place in post.edges.items()]
                if post.type == "CRITIQUE":
                    places.append(self.criticise(post.agent, edges[0][1], post.text))
                    continue
                behind = self.facts(post.agent) if self.rng.random() < 0.35 else ()
                said = self.say(
                    post.agent,
                    post.type,
                    post.text,
                    (*edges, *(("depends_on", place) for place in behind[-1:])),
                    importance=post.importance,
                    analyses=None if post.analyses is None else places[post.analyses],
                    recorded=True,
                )
                self.behind[said] = behind
                places.append(said)
                if self.rng.random() < 0.12:
                    self.say(LAWGIVER, "CONSTRAINT", self.constraint())
                if self.rng.random() < 0.45:
                    self.pick_a_quarrel()
            self.after(3, partial(self.tidy, began, len(self.posts)))
        for _ in range(6):
            self.tick()
        return self.actions

    # Time, in recorded steps

    def tick(self) -> None:
        """Moves on by one recorded step, and does what is due."""
        self.now += 1
        while self.later and self.later[0][0] <= self.now:
            heapq.heappop(self.later)[2]()

    def after(self, steps: int, do: Callable[[], None]) -> None:
        """Plans an action for a later recorded step."""
        heapq.heappush(self.later, (self.now + steps, next(self.order), do))

    # What is said

    def say(
        self,
        agent: str,
        type_: str,
        text: str,
        edges: Sequence[tuple[str, int]] = (),
        *,
        importance: int | None = None,
        analyses: int | None = None,
        argument: int | None = None,
        also: Sequence[int] = (),
        recorded: bool = False,
    ) -> int:
        """Adds a post, and returns its place."""
        place = len(self.posts)
        weight = importance or IMPORTANCE.get(type_, 5)
        said = Said(
            place, agent, type_, text, weight, tuple(edges), analyses, argument, tuple(also), recorded
        )
        self.posts.append(said)
        self.actions.append(said)
        return place

    def constraint(self) -> str:
        """Returns the text of a new constraint."""
        n = len(self.posts)
        return f"Rule {n}: every figure taken from source {n * 7 % 97} is named with its date; no exception."

    def facts(self, agent: str) -> tuple[int, ...]:
        """Posts a chain of 1 to 3 facts, each depending on the one before, and returns their places."""
        chain: list[int] = []
        for _ in range(self.rng.randint(1, 3)):
            n = len(self.posts)
            text = (
                f"Measured in run {n}: the count is {self.rng.randint(100, 99_999)}, checked by hand twice."
            )
            chain.append(self.say(agent, "FACT", text, [("depends_on", chain[-1])] if chain else []))
        return tuple(chain)

    # Arguments

    def pick_a_quarrel(self) -> None:
        """Criticises a recent step or, one time in three, any step."""
        argued = {a.root for a in self.arguments if a.open}
        targets = [p.place for p in self.posts if p.recorded and p.type != "LOG" and p.place not in argued]
        if not targets:
            return
        recent = targets[-4:] if self.rng.random() < 0.67 else targets
        target = self.posts[self.rng.choice(recent)]
        start = first_sentence(target.text)
        text = f'This is not shown by what comes before it: "{start}". Critique {len(self.posts)}: why?'
        self.criticise(self.rng.choice(CRITICS), target.place, text)

    def criticise(self, critic: str, root: int, text: str) -> int:
        """Posts a critique, opens an argument or joins the open one, and returns the critique's place."""
        going_on = [a for a in self.arguments if a.open and a.root == root]
        argument = going_on[0] if going_on else Argument(len(self.arguments), root, [])
        also = () if going_on else (root, *self.behind.get(root, ()))
        place = self.say(critic, "CRITIQUE", text, [("critiques", root)], argument=argument.number, also=also)
        argument.critiques.append(place)
        if critic not in argument.critics:
            argument.critics.append(critic)
        if not going_on:
            self.arguments.append(argument)
            self.plan(argument, critic, place)
        return place

    def plan(self, argument: Argument, critic: str, critique: int) -> None:
        """Plans the replies in a new argument, and perhaps a second critic."""
        depth = 0 if self.rng.random() < 0.15 else self.rng.randint(1, 6)
        self.after(self.rng.randint(1, _LATE), lambda: self.reply(argument, critic, critique, depth))
        if self.rng.random() < 0.3:
            other = self.rng.choice([c for c in CRITICS if c != critic])
            text = f"I doubt it as well, for another reason ({argument.number}): the units do not agree."
            self.after(
                self.rng.randint(1, 5),
                lambda: self.criticise(other, argument.root, text) if argument.open else None,
            )

    def reply(self, argument: Argument, critic: str, to: int, depth: int) -> None:
        """Posts the next reply of a chain, by author and critic in turn, and plans the next or the argument's end."""
        if not argument.open:
            return
        if depth == 0:
            self.after(self.rng.randint(1, 8), lambda: self.end(argument))
            return
        author = self.posts[argument.root].agent
        agent = author if self.posts[to].agent != author else critic
        text = f"On {to}: the step holds, since run {self.rng.randint(10, 999)} gave the same; see its log."
        place = self.say(agent, "REPLY", text, [("replies_to", to)], argument=argument.number)
        self.after(self.rng.randint(1, 4), lambda: self.reply(argument, critic, place, depth - 1))

    def end(self, argument: Argument) -> None:
        """Ends an argument by withdrawal, acknowledgement or decision."""
        how = self.rng.random()
        if how < 0.2 and len(argument.critiques) == 1:
            argument.open = False
            critic, critique = argument.critics[0], argument.critiques[0]
            self.actions.append(Withdrawn(critic, critique, argument.root, argument.number))
        elif how < 0.65:
            self.acknowledge(argument, 0)
        else:
            argument.open = False
            self.actions.append(Decided(argument.root, argument.number))

    def acknowledge(self, argument: Argument, place: int) -> None:
        """Makes one critic agree after another, a few steps apart, once the author has answered every critique."""
        self.answer_the_rest(argument)
        last = place == len(argument.critics) - 1
        argument.open = not last
        self.actions.append(
            Acknowledged(argument.critics[place], argument.root, argument.number, closes=last)
        )
        if not last:
            self.after(self.rng.randint(1, 6), lambda: self.acknowledge(argument, place + 1))

    def answer_the_rest(self, argument: Argument) -> None:
        """Posts the author's replies to the critiques without one."""
        author = self.posts[argument.root].agent
        answered = {place for said in self.posts if said.agent == author for _, place in said.edges}
        for critique in argument.critiques:
            if critique not in answered:
                text = f"On {critique}: the step holds; the figures are those of the source, as it has them."
                self.say(author, "REPLY", text, [("replies_to", critique)], argument=argument.number)

    def tidy(self, began: int, ended: int) -> None:
        """Ends a session: resolves its question, and half of the claims that nobody argues about."""
        argued = {n for a in self.arguments if a.open for n in (a.root, *a.critiques)}
        for said in self.posts[began:ended]:
            done = said.type == "PROBLEM" or (
                said.type in ("HYPOTHESIS", "PLAN", "FACT") and self.rng.random() < 0.5
            )
            if done and said.place not in argued:
                self.actions.append(Resolved(said.agent, said.place))
