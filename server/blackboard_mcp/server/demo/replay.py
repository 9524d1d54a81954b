"""The replay of a session over MCP and the reading of its result, by calls that any client could make."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from blackboard_mcp.protocols.errors import BlackboardError, StoreError, UnderPressure
from blackboard_mcp.protocols.items import FINISHED, content_hash
from blackboard_mcp.protocols.pruning import EXEMPT
from blackboard_mcp.protocols.values import dataclass
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent, TextResourceContents

from ..usecases.reading import MAX_EXPLAINED
from ..usecases.searching import BEHIND, SLOW
from .process import Connect
from .session import RecordedPost, Session

STRUCTURED: Any = {"blackboard/structured": True}
_CHUNK = 50
_POLL_SECONDS = 0.05
SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ReplayedPost:
    """A post that the server accepted, with its id and the SHA-256 of the text that must be read under that id."""

    post: RecordedPost
    id: str
    sha256: str


class ToolFailed(BlackboardError):
    """Raised when a tool answered with an error."""

    code = "tool"


async def search_archive(client: Client, board: str, text: str) -> dict[str, Any]:
    """Returns the answer to a search of the archive, after waiting until the index is up to date."""
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        answer = await call(client, "query_archive", text=text, limit=3, board=board)
        if answer["notice"] not in (BEHIND, SLOW) or time.monotonic() > until:
            return answer
        await asyncio.sleep(_POLL_SECONDS)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool and returns its structured answer.

    Raises:
        ToolFailed: the tool answered with an error, whose text and facts this carries.
    """
    result = await client.call_tool(tool, arguments, meta=STRUCTURED)
    if result.is_error:
        facts = dict(result.structured_content or {})
        facts.pop("message", None)
        raise ToolFailed(f"{tool}: {_text(result.content)}", **facts)
    return dict(result.structured_content or {})


async def say(client: Client, tool: str, **arguments: Any) -> str:
    """Calls a tool and returns the text of its answer, as a model reads it.

    Raises:
        ToolFailed: the tool answered with an error.
    """
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise ToolFailed(f"{tool}: {_text(result.content)}")
    return _text(result.content)


def _text(content: Iterable[Any]) -> str:
    return "\n".join(part.text for part in content if isinstance(part, TextContent))


async def resource(client: Client, uri: str) -> dict[str, Any]:
    """Returns the object in a JSON resource, such as `board://main/stats.json`."""
    found = await client.read_resource(uri)
    part = found.contents[0]
    assert isinstance(part, TextResourceContents)
    document: dict[str, Any] = json.loads(part.text)
    return document


@asynccontextmanager
async def connected(connect: Connect, agents: Sequence[str]) -> AsyncIterator[dict[str, Client]]:
    """Connects a client for each agent, and yields them by the agent's name."""
    async with AsyncExitStack() as stack:
        clients = {}
        for agent in agents:
            clients[agent] = await stack.enter_async_context(connect(agent))
        yield clients


async def replay(
    session: Session,
    clients: dict[str, Client],
    board: str,
    on_post: Callable[[ReplayedPost], None] = lambda _: None,
) -> list[ReplayedPost]:
    """Posts the session in order, each post by its agent's client in one call, and returns the accepted posts.

    `on_post` is called after each post.

    Raises:
        ToolFailed: the server refused a post for another reason than pressure.
    """
    done: list[ReplayedPost] = []
    for post in session.posts:
        item: dict[str, Any] = {"text": post.text, "type": post.type, "tags": list(post.tags)}
        if post.importance is not None:
            item["importance"] = post.importance
        if post.edges:
            item["edges"] = {kind: [done[place].id] for kind, place in post.edges.items()}
        items = [item]
        if post.analyses is not None:
            items.append({"id": done[post.analyses].id, "edges": {"analyzed_by": ["$1"]}})
        try:
            answer = await call(clients[post.agent], "post", items=items, board=board)
        except ToolFailed as refused:
            if refused.facts.get("error") != UnderPressure.code:
                raise
            # A recorded session cannot close its debates to relieve the pressure, so the post is repeated with an
            # importance that the board accepts: above the ceiling, or below 5 if 5 was refused.
            item["importance"] = refused.facts["ceiling"] + 1 if "ceiling" in refused.facts else EXEMPT - 1
            answer = await call(clients[post.agent], "post", items=items, board=board)
        stands = answer["items"][0]
        # If another agent has posted the same before, its wording is kept.
        sha256 = stands["sha256"] if answer["endorsed"] else content_hash(post.text)
        posted = ReplayedPost(post, stands["id"], sha256)
        done.append(posted)
        on_post(posted)
    return done


async def read_items(client: Client, board: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Returns whole items in the order of the ids, without those that are missing."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(ids), _CHUNK):
        answer = await call(client, "read", ids=list(ids[start : start + _CHUNK]), board=board)
        found += answer["items"]
    return found


async def verify(client: Client, board: str, posted: Sequence[ReplayedPost]) -> list[str]:
    """Returns the ids of posts that cannot be read back byte for byte; empty if all is well."""
    found = {item["id"]: item for item in await read_items(client, board, [p.id for p in posted])}
    return [
        p.id
        for p in posted
        if p.id not in found
        or found[p.id]["sha256"] != p.sha256
        or content_hash(found[p.id]["text"]) != p.sha256
    ]


async def working_items(client: Client, board: str) -> list[dict[str, Any]]:
    """Returns all items of working memory, newest first."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await call(client, "query", limit=200, board=board, **cursor)
        items += page["items"]
        if page["cursor"] is None:
            return items
        cursor = {"cursor": page["cursor"]}


async def held_items(
    client: Client, board: str, items: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], str]]:
    """Returns those of the items that no pass may take, each with the reason: a debate holds or cites it."""
    asked = [items[start : start + MAX_EXPLAINED] for start in range(0, len(items), MAX_EXPLAINED)]
    reasons: dict[str, str] = {}
    for chunk in asked:
        told = await call(client, "read", ids=[item["id"] for item in chunk], explain=True, board=board)
        reasons |= {said["id"]: said["reason"] for said in told["explanations"] if said["protected"]}
    return [(item, reasons[item["id"]]) for item in items if item["id"] in reasons]


async def settle(client: Client, board: str) -> dict[str, Any]:
    """Waits until no pruning pass is due, and returns the board's figures.

    None is due once working memory is not above the high-water mark, or no item is left that a pass may take.

    Raises:
        StoreError: a pass was still due after a minute.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                stats = await resource(client, f"board://{board}/stats.json")
                if stats["working_tokens"] <= stats["high_water_tokens"]:
                    return stats
                items = await working_items(client, board)
                movable = [i for i in items if i["importance"] < EXEMPT or i["status"] in FINISHED]
                if len(await held_items(client, board, movable)) == len(movable):
                    return stats
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StoreError(f"The board {board} is above its high-water mark and no pass came.") from None


async def events(client: Client, board: str) -> list[dict[str, Any]]:
    """Returns the board's whole log, as far as the client's agent may see it."""
    listed: list[dict[str, Any]] = []
    after = 0
    while True:
        page = await resource(client, f"board://{board}/events.json?after={after}")
        listed += page["events"]
        if page["cursor"] >= page["seq"]:
            return listed
        after = page["cursor"]


async def in_use(client: Client, board: str) -> bool:
    """Tells whether anything was ever posted to the board."""
    try:
        stats = await resource(client, f"board://{board}/stats.json")
    except MCPError:
        return False
    return bool(stats["working_items"] or stats["archived_items"])
