"""The story that `demo` tells: four agents at work on an incident, through a real server and real clients.

Evidence, a wrong hypothesis and its critique, logs that are pruned while the debate goes on, the end of the
debate, an answer and agreement to it, a summary, and a question that the archive answers. Each step prints a
line. The story checks that nothing under debate leaves, that the archive finds what left, and that every post
can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp.client import Client

from ..text.lines import one_line
from .replay import SETTLE_SECONDS, call, events, read_items, resource, search_archive, working_items

AGENTS: Final = ("ana", "ben", "cleo", "dan")
TARGET_TOKENS: Final = 800
SERVER: Final = "server"
_LEFT: Final = frozenset({"item.archived", "item.superseded"})
_WIDTH: Final = 110
_POLL_SECONDS: Final = 0.1

_TALK: Final = (
    (
        "ben",
        "HYPOTHESIS",
        "Rolling Tuesday's deploy back would restore the pool at once, but it also takes back the tax fix that "
        "went live with it, and finance books by the new rates since Wednesday morning. The same artifact holds "
        "both, so they go together or not at all, unless we build a release by hand, which nobody here has done "
        "since spring.",
    ),
    (
        "cleo",
        "REPLY",
        "A rollback takes 40 minutes with the migration of the order table, and checkout would be read-only for "
        "all of it; changing the pool is one value and a restart of four hosts, one after the other. In spring "
        "the rollback took an hour longer, because two hosts kept the old table open and had to be found first.",
    ),
    (
        "dan",
        "REPLY",
        "I tried the restart on the test stack under load: each host drains in 20 seconds, and no cart failed "
        "while the other three took its share of the requests. Twice I restarted two hosts at the same time to "
        "see what that does: the others then answered in 900 ms, which is slow, but every cart went through.",
    ),
    (
        "ben",
        "REPLY",
        "Then the pool alone. The database allows 400 connections, four hosts with 50 each use half of them, and "
        "the nightly reports need 60 more, so there is room. With 80 each the reports would have to wait, and "
        "with 100 the database would refuse the last host, as it did in the load test of last year.",
    ),
    (
        "cleo",
        "REPLY",
        "Somebody has to watch the first hour: with 5 connections the queue hid how many requests the stock "
        "service really gets, so the load on the database will rise when the pool opens. If it goes beyond 70 % "
        "we can take the search index off it for the day, which costs nobody a sale.",
    ),
    (
        "ana",
        "DECISION",
        "We set the pool to 50 and restart host by host today; dan watches the database for the first hour. No "
        "rollback.",
    ),
)

Tell = Callable[[str, str], None]
"""Prints one line, given who did something and what."""


class Untrue(Exception):
    """Raised when something that the story claims is not so."""


class Story:
    """The story on one board. `clients` are those of `AGENTS`, by name."""

    def __init__(self, clients: dict[str, Client], board: str, tell: Tell) -> None:
        self._clients = clients
        self._board = board
        self._tell = tell
        self._posted: list[str] = []
        self._told = 0

    async def play(self) -> None:
        """Plays the story to its end.

        Raises:
            Untrue: something that the story claims is not so.
            ToolFailed: the server refused a step.
        """
        problem = await self._post(
            "ana",
            "PROBLEM",
            "Checkout fails for 4 % of carts since Tuesday 14:00. What broke, and how do we fix it?",
        )
        failures = await self._post(
            "ben",
            "FACT",
            "Every failed cart ends in 'reservation lost', always from the stock service.",
            derived_from=problem,
        )
        claim = await self._post(
            "cleo",
            "HYPOTHESIS",
            "The clocks of the stock service drift, so reservations expire before checkout.",
            derived_from=failures,
        )
        critique = await self._post(
            "dan",
            "CRITIQUE",
            "NTP shows 3 ms of drift at most; a reservation lasts 15 minutes.",
            critiques=claim,
        )
        self._tell(SERVER, f"a debate on {claim} is open: nothing it rests on can be pruned until it ends")
        await self._noise("ben", "checkout", 16)
        await self._pruned(held=(claim, critique, failures))
        await self._do(
            "cleo",
            "debate",
            "concedes: the clocks are not it",
            op="concede",
            id=claim,
            reason="3 ms explain nothing",
        )
        deploy = await self._post(
            "dan",
            "FACT",
            "The deploy of Tuesday 13:55 cut the stock service's pool from 50 connections to 5.",
            derived_from=problem,
        )
        await self._post(
            "ben",
            "RESULT",
            "With 50 connections on the test stack: 0 of 2,000 carts fail. With 5: 81 fail.",
            supports=deploy,
        )
        answer = await self._post(
            "ana",
            "ANSWER",
            "The pool of 5 runs dry at peak and drops reservations. Fix: back to 50, and alert at 80 % in use.",
            agree=["cleo", "dan"],
            replies_to=problem,
            derived_from=deploy,
        )
        for agent in ("cleo", "dan"):
            await self._do(agent, "debate", f"agrees to {answer}", op="agree", id=answer)
        await self._talk(answer)
        await self._do("ana", "post", f"closes {problem}: solved", id=problem, status="RESOLVED")
        await self._noise("dan", "pool", 8)
        await self._pruned()
        await self._asked(claim)
        await self._nothing_lost()

    async def _talk(self, answer: str) -> None:
        """Posts a conversation that ends in a decision, so that a summary can replace it."""
        way = await self._post("ben", *_TALK[0][1:], derived_from=answer)
        for agent, type_, text in _TALK[1:]:
            await self._post(agent, type_, text, replies_to=way)

    async def _post(self, agent: str, type_: str, text: str, agree: Sequence[str] = (), **edges: str) -> str:
        given: dict[str, Any] = {"edges": {kind: [id_] for kind, id_ in edges.items()}} if edges else {}
        if agree:
            given["agree"] = list(agree)
        answer = await call(self._clients[agent], "post", text=text, type=type_, board=self._board, **given)
        id_ = str(answer["items"][0]["id"])
        self._posted.append(id_)
        how = "".join(
            f" ({kind.replace('_', ' ')} {to})" for kind, to in edges.items() if kind == "critiques"
        )
        self._tell(
            agent, f"{id_} {type_.lower()}{how}: {text if len(text) <= _WIDTH else text[: _WIDTH - 1] + '…'}"
        )
        return id_

    async def _do(self, agent: str, tool: str, told: str, **arguments: Any) -> None:
        await call(self._clients[agent], tool, board=self._board, **arguments)
        self._tell(agent, told)

    async def _noise(self, agent: str, what: str, count: int) -> None:
        items = [
            {
                "type": "LOG",
                "text": f"{what} probe {n}: {200 + 7 * n} requests, {9 + n % 4} slow, p95 {610 + 13 * n} ms, "
                f"queue {n % 5}, retries {n % 3}, host stock-{n % 4}, build 2026.11.{n}",
            }
            for n in range(1, count + 1)
        ]
        answer = await call(self._clients[agent], "post", items=items, board=self._board)
        self._posted += [item["id"] for item in answer["items"]]
        self._tell(
            agent,
            f"{answer['items'][0]['id']} … {answer['items'][-1]['id']} logs: {count} lines of {what} probes",
        )

    async def _settled(self, client: Client) -> dict[str, Any]:
        """Waits until the board is within its budget, and returns its figures.

        Raises:
            Untrue: it stayed above.
        """
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while True:
                    stats = await resource(client, f"board://{self._board}/stats.json")
                    if stats["working_tokens"] <= stats["high_water_tokens"]:
                        return stats
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise Untrue("the board stayed above its budget") from None

    async def _pruned(self, held: Sequence[str] = ()) -> None:
        """Prints what pruning took since the last time; `held` are the ids that a debate protects.

        Raises:
            Untrue: pruning took nothing, or took one of those ids.
        """
        ana = self._clients["ana"]
        stats = await self._settled(ana)
        log = await events(ana, self._board)
        left = [event["item"] for event in log if event["event"] in _LEFT and event["seq"] > self._told]
        self._told = log[-1]["seq"]
        live = {item["id"]: item for item in await working_items(ana, self._board)}
        self._tell(
            SERVER,
            f"prunes {len(left)} items to the archive: {stats['working_tokens']} tokens of "
            f"{stats['target_tokens']} are left on the board",
        )
        if not left or missing(held, live):
            raise Untrue(f"pruned {len(left)}; of the debate left: {missing(held, live)}")
        if held:
            self._tell(SERVER, f"{', '.join(held)} stay: the debate holds them")
        for item in live.values():
            if item["type"] == "SUMMARY":
                self._tell(SERVER, f"{item['id']} summary: {one_line(item['text'])[:_WIDTH]}…")

    async def _asked(self, claim: str) -> None:
        """Asks a question that was settled before, and answers it from the archive.

        Raises:
            ToolFailed: the server refused a step.
        """
        await self._post("dan", "QUESTION", "Did anybody look at the clocks of the stock service?")
        found = await search_archive(self._clients["cleo"], self._board, "clock drift stock service")
        self._tell(
            "cleo", f"searches the archive ({found['mode']}): {', '.join(i['id'] for i in found['items'])}"
        )
        await self._post(
            "cleo",
            "ANSWER",
            f"Yes: {claim}, refuted by NTP's 3 ms and conceded.",
            replies_to=self._posted[-1],
        )

    async def _nothing_lost(self) -> None:
        """Checks that every post can be read.

        Raises:
            Untrue: a post cannot be read.
        """
        found = {item["id"] for item in await read_items(self._clients["ben"], self._board, self._posted)}
        if lost := missing(self._posted, found):
            raise Untrue(f"cannot be read: {', '.join(lost)}")
        self._tell(
            "ben", f"reads all {len(self._posted)} posts back by id, wherever they live now: nothing is lost"
        )


def missing(wanted: Sequence[str], found: Any) -> list[str]:
    """Returns the ids in `wanted` that are not in `found`."""
    return [id_ for id_ in wanted if id_ not in found]
