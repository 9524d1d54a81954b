"""Two processes post the same finding at the same moment: one item, and everybody else its support."""

from __future__ import annotations

import asyncio
from pathlib import Path

from blackboard_mcp.server import compose
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import call, events
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings

ROUNDS = 20


async def test_of_two_processes_that_find_the_same_at_once_one_stores_it(tmp_path: Path) -> None:
    async with (
        http_server(tmp_path) as server,
        http_clients(server.url)("ada") as ada,
        compose.installation(Settings(data=tmp_path), eager_index=False, background=False) as opened,
    ):

        async def here(text: str) -> tuple[int, bool]:
            fields = PostFields.model_construct(text=text)
            posted = await opened.blackboard.post("ben", None, [fields])
            return posted.items[0].number, bool(posted.endorsed)

        async def there(text: str) -> tuple[int, bool]:
            answer = await call(ada, "post", text=text)
            return answer["items"][0]["number"], bool(answer["endorsed"])

        for n in range(ROUNDS):
            text = f"after {n} hours the pool is full"
            both = (here(text), there(text)) if n % 2 else (there(text), here(text))
            first, second = await asyncio.gather(*both)
            assert first[0] == second[0] == n + 1
            assert sorted((first[1], second[1])) == [False, True]
        items = (await call(ada, "query", limit=100))["items"]
        log = await events(ada, "main")
    assert [item["support"] for item in items] == [1] * ROUNDS
    assert all({item["author"], *item["supporters"]} == {"ada", "ben"} for item in items)
    kinds = [event["event"] for event in log]
    assert (kinds.count("item.posted"), kinds.count("item.endorsed")) == (ROUNDS, ROUNDS)
