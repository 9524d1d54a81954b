"""Measures how much of what matters agents see in their views of a board, and how much of what is over.

    python benchmarks/context.py [FOLDER] [--target-tokens 6000] [--sessions 3] [--seeds 1] [--budget 1500] [--json]

Plays recorded sessions (the logs of FOLDER; without one those that come with the package), several to a board and an
agent for each speaker, with questions, critiques, decisions and the rest woven in by seed (`context_workload`). Every
ten posts, and at the end of each task, every agent is shown its view, and the view is held against what the players
themselves know to be open. It reads nothing but the text of the view and the log. Offline; the same seeds give the same
figures.

"open": questions without an answer, problems and claims under debate; "duties": critiques to answer, answers to judge,
questions by name. Each counts as shown when at least its first sentence, or 20 tokens of it, stands in the view; of
a post with code, what is said before it. Where
all that is open and owed would take more than half of the view at 45 tokens each, it does not fit, and that checkpoint
counts for "when full" instead. "over": what was resolved, withdrawn or superseded by its author, or rejected.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blackboard_mcp.server.board.in_process import InProcess
from blackboard_mcp.server.compose import Installation, installation
from blackboard_mcp.server.demo.session import Session, examples, load_session
from blackboard_mcp.server.settings.server import load
from blackboard_mcp.server.text.lines import one_line
from blackboard_mcp.server.text.tokens import load_tokenizer
from context_workload import Checkpoint, Play, Said

TOKENIZER = load_tokenizer("o200k_base")
BUDGET = 1_500
A_LINE = 45
_SENTENCE = 20
_SAYS_SOMETHING = 12
_END = re.compile(r"[.!?](?=\s|$)")
_ID = re.compile(r"([A-Z]-\d+)(?=[ @])")
_NAMED = re.compile(r"\b[A-Z]-\d+\b")
_SINCE = re.compile(r"^new since seq (\d+)")
_OVER = "done with: "
_NEWS = {
    "came": ("item.posted",),
    "settled": ("debate.closed",),
    "left for room": ("item.archived",),
    "time ended": ("item.expired",),
}


class Board:
    """A board in this process, with its tools as agents call them."""

    def __init__(self, opened: Installation) -> None:
        self._opened = opened
        self._tools = InProcess(opened)

    async def call(self, agent: str, tool: str, **arguments: Any) -> Any:
        """Calls a tool as an agent, waits for pruning to settle, and returns the answer."""
        answer = await self._tools.call(tool, agent, {**arguments, "board": "main"}, None)
        await self._opened.pruner.settle()
        return answer

    async def post(self, agent: str, **said: Any) -> str:
        return str((await self.call(agent, "post", **said)).items[0].id)

    async def debate(self, agent: str, op: str, id_: str) -> str:
        return str((await self.call(agent, "debate", op=op, id=id_)).state)

    async def view(self, agent: str, budget: int) -> tuple[str, int]:
        """Returns the text of the agent's view, and its sequence."""
        answer = await self.call(agent, "read", budget=budget)
        return answer.view, answer.seq

    async def events(self, agent: str, since: int) -> list[Any]:
        """Returns the events after a sequence, read from the store so that they do not count as seen by the agent."""
        log = await self._opened.store.log("main", agent, since, 10_000)
        return list(log.events)

    async def standing(self, ids: Sequence[str]) -> tuple[set[str], set[str]]:
        """Returns the ids that are resolved, withdrawn or invalidated by now, and those in working memory."""
        over: set[str] = set()
        live: set[str] = set()
        for start in range(0, len(ids), 100):
            answer = await self.call("reader", "read", ids=list(ids[start : start + 100]))
            over |= {i.id for i in answer.items if i.status in ("RESOLVED", "WITHDRAWN", "INVALIDATED")}
            live |= {i.id for i in answer.items if i.zone == "working"}
        return over, live


@dataclass
class Share:
    """A sum of parts and a sum of wholes, for a percentage."""

    part: float = 0
    whole: float = 0

    def add(self, part: float, whole: float) -> None:
        self.part += part
        self.whole += whole

    @property
    def percent(self) -> float | None:
        """The parts as a percentage of the wholes, or `None` if there are none."""
        return 100 * self.part / self.whole if self.whole else None


@dataclass
class Tally:
    """The counts over all views."""

    open: Share = field(default_factory=Share)
    live: Share = field(default_factory=Share)
    duties: Share = field(default_factory=Share)
    when_full: Share = field(default_factory=Share)
    decisions: Share = field(default_factory=Share)
    decisions_live: Share = field(default_factory=Share)
    over: Share = field(default_factory=Share)
    tasks: Share = field(default_factory=Share)
    news: Share = field(default_factory=Share)
    views: int = 0
    tokens: int = 0
    largest: int = 0
    one_item: float = 0
    missed: list[str] = field(default_factory=list)

    def row(self) -> dict[str, float | None]:
        """Returns the figures by column; `None` where nothing was counted."""
        return {
            "views": self.views,
            "open_percent": self.open.percent,
            "live_percent": self.live.percent,
            "duties_percent": self.duties.percent,
            "when_full_percent": self.when_full.percent,
            "decisions_percent": self.decisions.percent,
            "decisions_live_percent": self.decisions_live.percent,
            "over_percent": self.over.percent,
            "one_item_percent": self.one_item,
            "tasks_percent": self.tasks.percent,
            "news_percent": self.news.percent,
            "tokens_mean": self.tokens / max(1, self.views),
            "tokens_max": self.largest,
        }


def stands(said: Said, view: str) -> bool:
    """Tells whether a flattened view contains at least the first sentence of a post, or 20 tokens of it.

    A first sentence as short as `Agreed.` is not enough. Of a post with code, the text before the code
    counts.
    """
    before = said.text.partition("```")[0]
    text = flat(before if len(before.strip()) >= _SAYS_SOMETHING else said.text)
    first = next((end for end in _END.finditer(text) if end.end() >= _SAYS_SOMETHING), None)
    if first is not None and TOKENIZER.count(text[: first.end()]) <= _SENTENCE:
        return text[: first.end()] in view
    if TOKENIZER.count(text) <= _SENTENCE:
        return text in view
    cut = text
    while TOKENIZER.count(cut) > _SENTENCE:
        cut = cut[: max(1, int(len(cut) * 0.9))]
    return cut[: cut.rfind(" ") + 1 or len(cut)].rstrip(" ,;:—–-(") in view


def flat(text: str) -> str:
    """Returns a text on one line without marks of quotation, so that a quoted text can be found in it."""
    lines = (re.sub(r"^(?:> ?)+", "", line) for line in text.split("\n"))
    return one_line(" ".join(lines)).replace(": > ", ": ").replace('"', "'")


def tokens_by_item(view: str) -> dict[str, int]:
    """Returns the tokens of the view that each item takes, by id: lines beginning with it, and quotes below them."""
    found: dict[str, int] = {}
    current = ""
    for line in view.split("\n"):
        match = _ID.match(line)
        if match is not None:
            current = match[1]
        elif not line.startswith(">"):
            current = _OVER if line.startswith(_OVER) else ""
        if current:
            found[current] = found.get(current, 0) + TOKENIZER.count(line) + 1
    return found


async def look(
    board: Board, play: Play, point: Checkpoint, tally: Tally, budget: int, seen: dict[str, int]
) -> None:
    """Reads every agent's view, and adds to the tally what it shows. `seen` holds each agent's last sequence."""
    over = {said.id for said in play.said if said.over}
    fallen, live = await board.standing([said.id for said in play.said])
    over |= fallen
    open_ = [question for question, _ in play.questions.values()] + list(play.problems.values())
    open_ += [argument.root for argument in play.arguments.values()]
    for agent in play.agents:
        text, seq = await board.view(agent, budget)
        view, size = flat(text), TOKENIZER.count(text)
        owed = play.owed(agent)
        due = {said.id: said for said in (*open_, *owed)}
        shown = {id_ for id_, said in due.items() if stands(said, view)}
        if len(due) * A_LINE <= budget / 2:
            tally.open.add(sum(said.id in shown for said in open_), len(open_))
            there = [said for said in open_ if said.id in live]
            tally.live.add(sum(said.id in shown for said in there), len(there))
            tally.duties.add(sum(said.id in shown for said in owed), len(owed))
            tally.missed += [f"{seq} {agent} {id_}" for id_ in due if id_ not in shown]
        else:
            tally.when_full.add(len(shown) * A_LINE, min(len(due) * A_LINE, budget / 2))
        decisions = [said for said in play.lately(("DECISION", "ANSWER")) if said.id not in over]
        tally.decisions.add(sum(stands(said, view) for said in decisions), len(decisions))
        there = [said for said in decisions if said.id in live]
        tally.decisions_live.add(sum(stands(said, view) for said in there), len(there))
        spent = tokens_by_item(text)
        tally.over.add(sum(cost for id_, cost in spent.items() if id_ in over or id_ == _OVER), size)
        if size >= budget / 2:
            tally.one_item = max(tally.one_item, 100 * max(spent.values(), default=0) / budget)
        if point.task is not None:
            wanted = [said for said in point.task if said is not None]
            tally.tasks.add(sum(stands(said, view) for said in wanted), len(wanted))
        right, asked = await news(board, agent, text, seen.get(agent, 0))
        tally.news.add(right, asked)
        seen[agent] = seq
        tally.views += 1
        tally.tokens += size
        tally.largest = max(tally.largest, size)


async def news(board: Board, agent: str, view: str, before: int) -> tuple[int, int]:
    """Compares the view's lines on what is new with the log, and returns how many are right and how many there are.

    The view starts at the first event that the agent was not shown, so it may repeat events from before the
    agent's last look. It must name all that others did since, and nothing that is not in the log.
    """
    if not before:
        return 0, 0
    lines = view.split("\n")
    heading = next((place for place, line in enumerate(lines) if _SINCE.match(line)), None)
    match = None if heading is None else _SINCE.match(lines[heading])
    begin = before if match is None else int(match[1])
    others = [e for e in await board.events(agent, min(begin, before)) if e.agent != agent]
    told: dict[str, str] = {}
    for line in [] if heading is None else lines[heading + 1 :]:
        name, _, rest = line.partition(": ")
        if name not in (*_NEWS, "changed", "debates opened", "agreed to"):
            break
        told[name] = rest
    right = 0
    for name, events in _NEWS.items():
        may = {e.item for e in others if e.event in events and e.seq > begin}
        must = {e.item for e in others if e.event in events and e.seq > before}
        line = re.sub(r" → query_archive\([^)]*\)| \([^)]*\)", "", told.get(name, ""))
        ids = set(_NAMED.findall(line))
        more = sum(map(int, re.findall(r" \+(\d+)\b", line)))
        all_ = must <= ids or (more > 0 and len(ids) + more >= len(must))
        right += ids <= may and bool(all_)
    return right, len(_NEWS)


async def measure(sessions: Sequence[Session], seed: str, target: int, budget: int, tally: Tally) -> None:
    """Plays sessions on one board, and adds to the tally what agents see."""
    async with AsyncExitStack() as stack:
        settings = load({"board": "main", "target_tokens": target}, {})
        opened = await stack.enter_async_context(installation(settings, eager_index=False, memory=True))
        board = Board(opened)
        play = Play(board, seed)
        seen: dict[str, int] = {}
        async for point in play.play(sessions):
            await look(board, play, point, tally, budget, seen)


async def compare(sessions: Sequence[Session], together: int, seeds: int, target: int, budget: int) -> Tally:
    """Plays all sessions, `together` on each board, with each seed, and returns the tally."""
    tally = Tally()
    for seed in range(seeds):
        for start in range(0, len(sessions), together):
            await measure(sessions[start : start + together], f"{seed} {start}", target, budget, tally)
    return tally


COLUMNS = {
    "views": "views",
    "open_percent": "open questions, problems and debates shown, of those that fit (%)",
    "live_percent": "the same, of those that are in working memory (%)",
    "duties_percent": "duties shown, of those that fit (%)",
    "when_full_percent": "half of the view given to them when they do not fit (%)",
    "decisions_percent": "decisions and answers of the last fifty posts shown (%)",
    "decisions_live_percent": "the same, of those that are in working memory (%)",
    "over_percent": "tokens on what is resolved or superseded (%)",
    "one_item_percent": "most tokens on one item (% of the budget)",
    "tasks_percent": "question and answer of a task shown at its end (%)",
    "news_percent": "lines on what happened since that agree with the log (%)",
    "tokens_mean": "tokens a view",
    "tokens_max": "largest view",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--target-tokens", type=int, default=6_000)
    parser.add_argument(
        "--sessions", type=int, default=3, help="how many are played on a board, one after the other"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how often every session is played")
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--first", type=int, default=0, help="play so many of the logs only; 0: all")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    paths = sorted(examples().values() if chosen.folder is None else chosen.folder.glob("*.json"))
    sessions = [load_session(path) for path in paths[: chosen.first or None]]
    tally = asyncio.run(compare(sessions, chosen.sessions, chosen.seeds, chosen.target_tokens, chosen.budget))
    row = tally.row()
    if chosen.json:
        print(json.dumps(row | {"missed": tally.missed[:20]}))
        return
    for name, heading in COLUMNS.items():
        value = row[name]
        print(f"{heading:75}{'—' if value is None else f'{value:,.1f}'.removesuffix('.0'):>9}")


if __name__ == "__main__":
    main()
