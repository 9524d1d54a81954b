"""Measures what is lost when a board is kept small: this product against four other ways to evict.

    python benchmarks/eviction.py [FOLDER] [--target-tokens 6000] [--seeds 3] [--sessions 4] [--json]

Replays recorded sessions (the logs of FOLDER; without one those that come with the package), several to a
board, with arguments woven in by seed (`eviction_workload`). Everybody gets the same posts in the same
order, the same target of tokens and the same water marks (`eviction_rivals`). Offline; the same seeds give
the same table. Ends with status 1 when this product lost a member of an open argument, or a constraint was
missing from a view, or a pruned post cannot be read.

Losses: members of an argument that left the board while it was open, each counted once an argument;
"critiques" are those of them that are critiques. Constraints: of all (view, constraint in force) pairs, those
where the view has it word for word. Tokens a view: what an agent is shown after each recorded step. Found
again: of the recorded steps that were evicted, those still readable by id, and those that their own longest
sentence finds among the first five hits of an archive search.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from blackboard_mcp.server.demo.session import Session, examples, load_session
from eviction_rivals import OTHERS, TOKENIZER, Competitor, ours
from eviction_workload import Action, Resolved, Said, Weaver

BUDGET = 1_500
"""The tokens of a view: the default of `read()`."""
_SENTENCE = re.compile(r"[^.!?\n]{30,240}[.!?\n]")


@dataclass
class Tally:
    """The counts of one competitor over all boards."""

    name: str
    arguments: int = 0
    critiques_lost: int = 0
    members_lost: int = 0
    arguments_cut: int = 0
    laws_due: int = 0
    laws_shown: int = 0
    evicted: int = 0
    by_id: int = 0
    by_sentence: int = 0
    views: list[int] = field(default_factory=list)
    board: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def row(self, target: int) -> dict[str, Any]:
        """Returns the figures of the table, by column."""
        return {
            "name": self.name,
            "arguments": self.arguments,
            "critiques_lost": self.critiques_lost,
            "members_lost": self.members_lost,
            "arguments_cut": self.arguments_cut,
            "constraints_percent": 100 * self.laws_shown / max(1, self.laws_due),
            "view_mean": mean(self.views),
            "view_max": max(self.views),
            "views_in_budget_percent": 100 * sum(v <= BUDGET for v in self.views) / len(self.views),
            "board_mean_percent": 100 * mean(self.board) / target,
            "board_peak_percent": 100 * max(self.board) / target,
            "evicted": self.evicted,
            "by_id_percent": 100 * self.by_id / max(1, self.evicted),
            "by_sentence_percent": 100 * self.by_sentence / max(1, self.evicted),
            "seconds": self.seconds,
        }

    @property
    def clean(self) -> bool:
        """Tells whether nothing was lost that must be kept."""
        kept = self.laws_shown == self.laws_due and self.by_id == self.evicted
        return kept and not self.members_lost and max(self.views) <= BUDGET


async def measure(competitor: Competitor, actions: Sequence[Action], tally: Tally) -> None:
    """Plays one board's actions on the competitor, and adds to its tally what is seen after each."""
    members: dict[int, set[int]] = {}
    critiques: set[int] = set()
    lost: set[tuple[int, int]] = set()
    laws: list[Said] = []
    posts: dict[int, Said] = {}
    there: set[int] = set()
    for action in actions:
        began = time.perf_counter()
        await competitor.act(action)
        tally.seconds += time.perf_counter() - began
        if isinstance(action, Said):
            posts[action.place] = action
            there.add(action.place)
            if action.type == "CONSTRAINT":
                laws.append(action)
            if action.argument is not None:
                members.setdefault(action.argument, set()).update({action.place, *action.also})
            if action.type == "CRITIQUE":
                critiques.add(action.place)
        now, tokens = await competitor.board()
        if not isinstance(action, Said | Resolved) and action.closes:
            # Items that a pass takes right after the end of an argument are no loss to the argument.
            tally.arguments += 1
            members.pop(action.argument, None)
        for argument, whole in members.items():
            lost |= {(argument, place) for place in whole & (there - now)}
        there = now
        tally.board.append(tokens)
        if isinstance(action, Said) and action.recorded:
            shown = await competitor.show(action.agent, laws)
            tally.views.append(shown.tokens)
            tally.laws_due += len(laws)
            tally.laws_shown += shown.whole
    tally.arguments += len(members)
    tally.members_lost += len(lost)
    tally.critiques_lost += len([place for _, place in lost if place in critiques])
    tally.arguments_cut += len({argument for argument, _ in lost})
    for said in posts.values():
        if said.recorded and said.place not in there:
            tally.evicted += 1
            tally.by_id += await competitor.by_id(said)
            sentence = longest_sentence(said.text)
            tally.by_sentence += await competitor.by_sentence(said, sentence)


def longest_sentence(text: str) -> str:
    """Returns the longest sentence of 30 to 240 characters, or the text's beginning if there is none."""
    return max((m[0].strip() for m in _SENTENCE.finditer(text)), key=len, default=text.strip()[:240])


def boards(sessions: Sequence[Session], together: int, seeds: int) -> Iterator[list[Action]]:
    """Yields the actions of each board: `together` sessions, with each seed."""
    for seed in range(seeds):
        for start in range(0, len(sessions), together):
            yield Weaver(f"{seed} {start}").weave(sessions[start : start + together])


async def compare(woven: Sequence[list[Action]], target: int) -> list[Tally]:
    """Plays all boards on all competitors, and returns a tally for each, this product's first."""
    said = [action for actions in woven for action in actions if isinstance(action, Said)]
    size = mean(TOKENIZER.count(action.text) for action in said)
    tallies = [Tally("blackboard-mcp"), *(Tally(other.name) for other in OTHERS)]
    for actions in woven:
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            mine = await stack.enter_async_context(ours(Path(folder), target, BUDGET))
            for tally, competitor in zip(
                tallies, [mine, *(other(target, size) for other in OTHERS)], strict=True
            ):
                await measure(competitor, actions, tally)
    return tallies


COLUMNS = {
    "name": "",
    "critiques_lost": "critiques lost",
    "members_lost": "members lost",
    "arguments_cut": "arguments cut",
    "constraints_percent": "constraints %",
    "view_mean": "tokens a view",
    "view_max": "largest",
    "views_in_budget_percent": "in budget %",
    "board_mean_percent": "board mean % of target",
    "board_peak_percent": "peak %",
    "evicted": "steps evicted",
    "by_id_percent": "read by id %",
    "by_sentence_percent": "found by sentence %",
}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the rows as a table in Markdown."""
    lines = [list(COLUMNS.values())]
    for row in rows:
        lines.append([v if isinstance(v, str) else f"{v:,.0f}" for v in (row[key] for key in COLUMNS)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--target-tokens", type=int, default=6_000)
    parser.add_argument("--seeds", type=int, default=3, help="how often every session is replayed")
    parser.add_argument("--sessions", type=int, default=4, help="how many share a board")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    paths = examples().values() if chosen.folder is None else sorted(chosen.folder.glob("*.json"))
    sessions = [load_session(path) for path in paths]
    if not sessions:
        raise SystemExit(f"there are no logs in {chosen.folder}")
    woven = list(boards(sessions, chosen.sessions, chosen.seeds))
    tallies = asyncio.run(compare(woven, chosen.target_tokens))
    rows = [tally.row(chosen.target_tokens) for tally in tallies]
    if chosen.json:
        print(json.dumps({"rows": rows, "clean": tallies[0].clean}))
    else:
        posts = sum(isinstance(action, Said) for actions in woven for action in actions)
        print(
            f"{len(sessions)} sessions, {len(woven)} boards, {posts} posts, {tallies[0].arguments} arguments; "
            f"target {chosen.target_tokens} tokens, views of {BUDGET}\n"
        )
        print(table(rows))
    if not tallies[0].clean:
        print(f"something was lost: {asdict(tallies[0]) | {'views': 0, 'board': 0}}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
