"""The authorisation matrix: every kind of call, who may make it, and the call itself.

There is a row for each tool and case of `server/access/needs.py`. The rights are written down a second time
here, by hand, so that an error there is noticed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from blackboard_mcp.protocols.access import Role, Scope
from blackboard_mcp.protocols.asking import NewRequest
from blackboard_mcp.protocols.debates import Outcome
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.server.input.posts import PostFields

EVERYBODY = frozenset(Role)
CONTRIBUTORS = frozenset({Role.CONTRIBUTOR, Role.DECIDER, Role.STEWARD, Role.ADMIN})
SUMMARISERS = CONTRIBUTORS | {Role.SUMMARISER}
DECIDERS = frozenset({Role.DECIDER, Role.ADMIN})
STEWARDS = frozenset({Role.STEWARD, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})

READ = frozenset({Scope.READ})
POST = frozenset({Scope.POST})
READ_POST = READ | POST
READ_ACKNOWLEDGE = READ | {Scope.ACKNOWLEDGE}
READ_MODERATE = READ | {Scope.MODERATE}
READ_ADMIN = READ | {Scope.ADMIN}

THIRD = "third"
"""An agent beside the caller and the author of the item that a call is about."""


class Stage:
    """Prepares the data that a call is about, by use cases directly, without checks of rights."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self._made = 0
        self._groups: set[str] = set()

    def fresh(self, word: str = "n") -> str:
        """Returns a word that was not used before."""
        self._made += 1
        return f"{word}{self._made}"

    async def seq(self, board: str = "main") -> int:
        """Returns the board's sequence, 0 if there is no board."""
        found = await self.opened.store.find_board(board)
        return 0 if found is None else int(found.seq)

    async def claim(self, author: str, board: str = "main") -> str:
        """Posts a hypothesis, and returns its id."""
        fields = PostFields(text=self.fresh("claim "), type="HYPOTHESIS")
        posted = await self.opened.blackboard.post(author, board, [fields])
        return str(posted.items[0].id)

    async def debated(self, author: str, critic: str) -> tuple[str, str]:
        """Posts a claim and a critique of it, and returns both ids."""
        claim = await self.claim(author)
        fields = PostFields(text=self.fresh("not so "), type="CRITIQUE", edges={"critiques": [claim]})
        posted = await self.opened.blackboard.post(critic, "main", [fields])
        return claim, str(posted.items[0].id)

    async def group(self, author: str, *, lasting: bool) -> str:
        """Makes a consumer group, and returns its name.

        A `lasting` group is made once for each author; others are new each time.
        """
        name = f"of-{author}" if lasting else self.fresh("g")
        if name in self._groups:
            return name
        self._groups.add(name)
        await self.opened.store.create_group("main", author, name, {"type": "LOG"})
        return name

    async def request(self, asker: str) -> str:
        """Opens a request to `THIRD`, and returns its id."""
        text = self.fresh("why ")
        new = NewRequest(text, 2, content_hash(text), THIRD, "", 600)
        asked = await self.opened.store.open_request("main", asker, new, config=self.opened.blackboard.config)
        return f"Q-{asked}"


Prepare = Callable[[Stage, str, str], Awaitable[dict[str, Any]]]
"""Returns the arguments of a call, given `(stage, caller, author of the item that the call is about)`."""


@dataclass(frozen=True)
class Row:
    """A kind of call, the roles and scopes that allow it, and its result.

    The caller needs one of `roles` and all of `scopes`. `own` and `others` are the results, `ok` or an
    error's code, if the item is the caller's own or another agent's.
    """

    tool: str
    case: str
    roles: frozenset[Role]
    scopes: frozenset[Scope]
    prepare: Prepare
    own: str = "ok"
    others: str = "ok"


def plain(**arguments: Any) -> Prepare:
    """Returns a preparation that always gives these arguments."""

    async def prepare(stage: Stage, caller: str, author: str) -> dict[str, Any]:
        return dict(arguments)

    return prepare


def on_claim(**arguments: Any) -> Prepare:
    """Returns a preparation that gives these arguments and the id of a new claim of the author's."""

    async def prepare(stage: Stage, caller: str, author: str) -> dict[str, Any]:
        return {**arguments, "id": await stage.claim(author)}

    return prepare


def argued(op: str, *, as_critic: bool = False) -> Prepare:
    """Returns a preparation of a debate's operation on a claim of the author's.

    With `as_critic` the operation is on the author's critique of a third agent's claim.
    """

    async def prepare(stage: Stage, caller: str, author: str) -> dict[str, Any]:
        if as_critic:
            _, target = await stage.debated(THIRD, author)
        else:
            target, _ = await stage.debated(author, THIRD)
        return {
            "op": op,
            "id": target,
            **({"reason": "so be it", "outcome": "stands"} if op == "decide" else {}),
        }

    return prepare


async def up_for_debate(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """Prepares an acknowledgement that is owed at once, in a debate without a critique."""
    claim = await stage.claim(author)
    await stage.opened.store.debate_open("main", THIRD, int(claim.removeprefix("H-")), [])
    return {"op": "acknowledge", "id": claim}


async def decided_by_a_critic(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """Prepares the confirmation of a critic's decision."""
    claim, _ = await stage.debated(author, THIRD)
    number = int(claim.removeprefix("H-"))
    await stage.opened.store.debate_decide("main", THIRD, number, "so be it", [], outcome=Outcome.STANDS)
    return {"op": "confirm", "id": claim}


async def watched(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """Prepares the end of the caller's watch."""
    claim = await stage.claim(author)
    await stage.opened.store.debate_watch("main", caller, int(claim.removeprefix("H-")))
    return {"op": "unwatch", "id": claim}


DEBATES: dict[str, Prepare] = {
    "open": on_claim(op="open"),
    "acknowledge": up_for_debate,
    "vote": argued("vote"),
    "withdraw": argued("withdraw", as_critic=True),
    "concede": argued("concede"),
    "decide": argued("decide"),
    "confirm": decided_by_a_critic,
    "status": argued("status"),
    "watch": on_claim(op="watch"),
    "unwatch": watched,
}


def in_transaction(op: str) -> Prepare:
    """Returns a preparation of a debate's operation inside a transaction."""

    async def prepare(stage: Stage, caller: str, author: str) -> dict[str, Any]:
        return {"debates": [await DEBATES[op](stage, caller, author)]}

    return prepare


async def acknowledging(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """Prepares a transaction that acknowledges a delivery of the author's group."""
    return {"group": await stage.group(author, lasting=True), "ack": IDS}


def of_group(op: str, **arguments: Any) -> Prepare:
    """Returns a preparation of an operation on a group of the author's."""

    async def prepare(stage: Stage, caller: str, author: str) -> dict[str, Any]:
        return {"group": await stage.group(author, lasting=op != "end"), "op": op, **arguments}

    return prepare


async def core_write(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    board = await stage.opened.store.find_board("main")
    return {"objective": stage.fresh("win "), "expected_version": board.core.version}


async def retitled(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"title": stage.fresh("title ")}


async def members(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"members": {stage.fresh("agent"): "observer"}}


async def cancelling(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"id": await stage.request(author), "cancel": True}


async def defining(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """A stage with a title of its own."""
    return {"define": {"title": stage.fresh("stage ")}}


async def following(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"id": await stage.request(author), "seconds": 0}


async def subscribing(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"filter": {"type": "FACT"}, "name": stage.fresh("one")}


async def transacting(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"writes": [{"text": stage.fresh("written ")}]}


async def summarising(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    thread = await stage.claim(author)
    number, store = int(thread.removeprefix("H-")), stage.opened.store
    (item,) = await store.thread_sources("main", [number])
    await store.request_summary("main", number, {number: item.seq}, wait_seconds=600)
    return {"thread": thread}


async def proposed(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    """Prepares the confirmation of a rule that the author proposes."""
    fields = PostFields(text=f"Proposed rule: {stage.fresh('keep ')}", type="PLAN", tags=["proposed-rule"])
    posted = await stage.opened.blackboard.post(author, "main", [fields])
    return {"confirm": [posted.items[0].id]}


async def reading(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"ids": [await stage.claim(author)]}


async def held(stage: Stage, caller: str, author: str) -> dict[str, Any]:
    return {"reads": {await stage.claim(author): 1}}


IDS = ["1.1"]
"""The handle of a delivery that the caller does not hold."""

ROWS: tuple[Row, ...] = (
    Row("post", "", CONTRIBUTORS, POST, on_claim(tags=["x"]), others="refused"),
    Row("read", "", EVERYBODY, READ, reading),
    Row("query", "", EVERYBODY, READ, plain(text="claim")),
    Row("query_archive", "search", EVERYBODY, READ, plain(text="claim")),
    Row("query_archive", "restore", CONTRIBUTORS, READ_POST, plain(text="claim", restore=True)),
    Row("subscribe", "", EVERYBODY, READ, subscribing),
    Row("wait", "", EVERYBODY, READ, plain(seconds=0)),
    Row("debate", "open", CONTRIBUTORS, READ_POST, DEBATES["open"]),
    Row("debate", "acknowledge", CONTRIBUTORS, READ_ACKNOWLEDGE, DEBATES["acknowledge"]),
    Row("debate", "vote", CONTRIBUTORS, READ_ACKNOWLEDGE, DEBATES["vote"]),
    Row("debate", "withdraw", CONTRIBUTORS, READ_POST, DEBATES["withdraw"], others="refused"),
    Row("debate", "concede", CONTRIBUTORS, READ_POST, DEBATES["concede"], others="refused"),
    Row("debate", "decide", DECIDERS, READ_MODERATE, DEBATES["decide"], own="refused"),
    Row("debate", "confirm", CONTRIBUTORS, READ_ACKNOWLEDGE, DEBATES["confirm"], own="refused"),
    Row("debate", "status", EVERYBODY, READ, DEBATES["status"]),
    Row("debate", "watch", CONTRIBUTORS, READ_ACKNOWLEDGE, DEBATES["watch"]),
    Row("debate", "unwatch", CONTRIBUTORS, READ_ACKNOWLEDGE, DEBATES["unwatch"]),
    Row("core", "read", EVERYBODY, READ, plain()),
    Row("core", "write", STEWARDS, READ_MODERATE, core_write),
    Row("board", "read", EVERYBODY, READ, plain()),
    Row("board", "change", STEWARDS, READ_MODERATE, retitled),
    Row("board", "settings", ADMINS, READ_ADMIN, plain(settings={"quorum": 1_000})),
    Row("board", "members", ADMINS, READ_ADMIN, members),
    Row("prune", "dry run", EVERYBODY, READ, plain(dry_run=True)),
    Row("prune", "pass", STEWARDS, READ_MODERATE, plain()),
    Row("transaction", "reads", EVERYBODY, READ, held),
    Row("transaction", "writes", CONTRIBUTORS, READ_POST, transacting),
    Row("transaction", "ack", CONTRIBUTORS, READ_POST, acknowledging, "conflict", "conflict"),
    Row("transaction", "debates open", CONTRIBUTORS, READ_POST, in_transaction("open")),
    Row("transaction", "debates acknowledge", CONTRIBUTORS, READ_ACKNOWLEDGE, in_transaction("acknowledge")),
    Row("transaction", "debates vote", CONTRIBUTORS, READ_ACKNOWLEDGE, in_transaction("vote")),
    Row(
        "transaction",
        "debates withdraw",
        CONTRIBUTORS,
        READ_POST,
        in_transaction("withdraw"),
        others="refused",
    ),
    Row(
        *("transaction", "debates concede", CONTRIBUTORS, READ_POST, in_transaction("concede")),
        others="refused",
    ),
    Row("transaction", "debates decide", DECIDERS, READ_MODERATE, in_transaction("decide"), own="refused"),
    Row(
        *("transaction", "debates confirm", CONTRIBUTORS, READ_ACKNOWLEDGE, in_transaction("confirm")),
        own="refused",
    ),
    Row(
        "transaction",
        "debates status",
        EVERYBODY,
        READ,
        in_transaction("status"),
        own="invalid",
        others="invalid",
    ),
    Row("transaction", "debates watch", CONTRIBUTORS, READ_ACKNOWLEDGE, in_transaction("watch")),
    Row("transaction", "debates unwatch", CONTRIBUTORS, READ_ACKNOWLEDGE, in_transaction("unwatch")),
    Row("constraint", "list", EVERYBODY, READ, plain()),
    Row("constraint", "propose", CONTRIBUTORS, READ_POST, plain(message="Never guess a figure.")),
    Row("constraint", "confirm", STEWARDS, READ_MODERATE, proposed),
    Row("get_context", "", EVERYBODY, READ, plain(query="pump")),
    Row("report_result", "", CONTRIBUTORS, READ_POST, plain(check="lint", ok=True)),
    Row("artifact_write", "", CONTRIBUTORS, READ_POST, plain(path="a.md", content="x")),
    Row("artifact_read", "", EVERYBODY, READ, plain(path="none.md"), "not_found", "not_found"),
    Row("artifact_list", "", EVERYBODY, READ, plain()),
    Row("artifact_search", "", EVERYBODY, READ, plain(text="pump")),
    Row("artifact_history", "look", EVERYBODY, READ, plain()),
    Row(
        "artifact_history",
        "restore",
        CONTRIBUTORS,
        READ_POST,
        plain(path="none.md", revision=1, restore=True),
        "not_found",
        "not_found",
    ),
    Row("summarize", "list", EVERYBODY, READ, plain()),
    Row("summarize", "take", SUMMARISERS, READ_POST, summarising),
    Row("request", "look", EVERYBODY, READ, following),
    Row("request", "ask", CONTRIBUTORS, READ_POST, plain(to=THIRD, text="why?", seconds=0)),
    Row("request", "cancel", CONTRIBUTORS, READ_POST, cancelling, others="refused"),
    Row("respond", "list", EVERYBODY, READ, plain()),
    Row("respond", "answer", CONTRIBUTORS, READ_POST, plain(skills=["sql"], seconds=0)),
    Row("join", "list", EVERYBODY, READ, plain()),
    Row("join", "join", CONTRIBUTORS, READ_POST, plain(role="tester")),
    Row("turn", "look", EVERYBODY, READ, plain(seconds=0)),
    Row("turn", "act", CONTRIBUTORS, READ_POST, plain(text="So."), "not_found", "not_found"),
    Row("finalize", "look", EVERYBODY, READ, plain(), "not_found", "not_found"),
    Row("finalize", "answer", CONTRIBUTORS, READ_POST, plain(text="So."), "not_found", "not_found"),
    Row("plan", "look", EVERYBODY, READ, plain()),
    Row("plan", "plan", CONTRIBUTORS, READ_POST, plain(items=[{"title": "one"}])),
    Row("stage", "look", EVERYBODY, READ, plain()),
    Row("stage", "act", CONTRIBUTORS, READ_POST, defining),
    Row("claim", "", CONTRIBUTORS, READ_POST, plain(paths=["key:mine?shared"])),
    Row("consume", "list", EVERYBODY, READ, plain()),
    Row("consume", "take", CONTRIBUTORS, READ_POST, of_group("take", seconds=0)),
    Row("consume", "extend", CONTRIBUTORS, READ_POST, of_group("extend", ids=IDS), "conflict", "conflict"),
    Row("consume", "release", CONTRIBUTORS, READ_POST, of_group("release", ids=IDS), "conflict", "conflict"),
    Row("consume", "dead", EVERYBODY, READ, of_group("dead")),
    Row("consume", "retry", CONTRIBUTORS, READ_POST, of_group("retry", ids=IDS), "conflict", "conflict"),
    Row("consume", "drop", CONTRIBUTORS, READ_POST, of_group("drop", ids=IDS), "conflict", "conflict"),
    Row(
        "consume", "set", CONTRIBUTORS, READ_POST, of_group("set", filter={"type": "FACT"}), others="refused"
    ),
    Row("consume", "end", CONTRIBUTORS, READ_POST, of_group("end"), others="refused"),
)
