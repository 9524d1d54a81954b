"""Panels: named groups of items on a board, with writers, a version and a resource of their own."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import boards
import commands
import pytest
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server.answers.events import plainly
from blackboard_mcp.server.usecases.episodes import Episodes
from blackboard_mcp.server.usecases.retention import Keeper
from blackboard_mcp.server.usecases.stewardship import Stewardship
from mcp.shared.exceptions import MCPError

board, mode, LEGACY, MODERN = boards.board, boards.mode, boards.LEGACY, boards.MODERN
PANELS = [
    "semantic",
    "episodic",
    {"name": "incident", "about": "the outage", "writers": ["ben", "team:sre"]},
    "free",
]
INCIDENT = "panel:incident"


async def at_work(board: Any) -> tuple[Any, Any, Any]:
    """Ada is a steward; ben writes the panel of the incident, cleo reads it."""
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.do("board", members={"ben": "contributor", "cleo": "contributor"}, settings={"panels": PANELS})
    return ada, ben, cleo


async def ids(agent: Any, **asked: Any) -> list[str]:
    return [item["id"] for item in (await agent.do("query", **asked))["items"]]


async def states(agent: Any) -> dict[str, tuple[int, int]]:
    listed = json.loads(await agent.resource("board://main/panels.json"))["panels"]
    return {one["name"]: (one["live"], one["version"]) for one in listed}


async def test_a_tag_puts_an_item_into_a_panel_where_queries_views_and_filters_find_it(board: Any) -> None:
    _, ben, cleo = await at_work(board)
    following = await cleo.do("subscribe", filter={"tags": [INCIDENT]})
    fact = await ben.post("The pool has 400 sockets.", tags=["pool", INCIDENT])
    await ben.post("Lunch is at noon.")
    assert fact["tags"] == [INCIDENT, "pool"]
    assert await ids(cleo, tags=[INCIDENT]) == [fact["id"]]
    view = await cleo.say("read")
    assert 'panels: semantic 0, episodic 0, incident 1, free 0 → query(tags=["panel:semantic"])' in view
    news = await cleo.do("wait", subscription=following["subscription"], seconds=0)
    assert [event["item"] for event in news["events"]] == [fact["id"]]


async def test_a_board_without_panels_says_nothing_of_them_and_takes_no_such_tag(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("A fact.")
    assert "panel" not in await ben.say("read")
    told = await ben.fail("post", text="A fact of an incident.", tags=[INCIDENT])
    assert told["message"] == (
        "There is no panel 'incident' on board 'main': tags that begin so are for panels, and this board has none; a "
        "steward names them with board(). Nothing was changed."
    )


async def test_only_writers_and_stewards_write_a_panel(board: Any) -> None:
    ada, ben, cleo = await at_work(board)
    theirs = await ben.post("The pool is full.", key="state", tags=[INCIDENT])
    seq = await board.seq()
    for refused in (
        {"text": "Mine.", "tags": [INCIDENT]},
        {"text": "Mine.", "tags": ["panel:semantic"]},
        {"text": "The pool is empty.", "key": "state"},
        {"key": "state", "status": "DELETED"},
        {"id": theirs["id"], "status": "RESOLVED"},
        {"id": theirs["id"], "tags": ["other"]},
    ):
        told = await cleo.fail("post", **refused)
        assert told["error"] == "refused", refused
        assert "is read-only for cleo: stewards" in told["message"]
        assert "Nothing was changed; post without this tag" in told["message"]
    told = await cleo.fail(
        "transaction", writes=[{"text": "A note."}, {"text": "The pool is empty.", "key": "state"}]
    )
    assert "read-only" in told["message"]
    assert await board.seq() == seq
    await ben.post("The pool is half full.", key="state")
    await ada.post("The pool has 400 sockets.", tags=["panel:semantic"])
    await cleo.post("It was full at noon.", "CRITIQUE", edges={"critiques": [theirs["id"]]})


async def test_writers_may_be_named_by_role_and_by_team(tmp_path: Path, mode: str) -> None:
    panels = [{"name": "law", "writers": ["role:decider"]}, {"name": "ops", "writers": ["team:sre"]}]
    given = {"board_settings": {"panels": panels}, "deciders": ("dora",)}
    async with boards.open_boards(tmp_path, mode, **given) as board:
        ada, dora, eve = await board.join("ada", "dora", "eve")
        await ada.do("board", members={"eve": "decider", "dora": "contributor"})
        await eve.post("As a member with this role.", tags=["panel:law"])
        assert (
            "read-only for dora" in (await dora.fail("post", text="No more.", tags=["panel:law"]))["message"]
        )
        await board.opened.store.set_owner("dora", "sre")
        await dora.post("For the team.", tags=["panel:ops"])
        assert (
            "read-only for eve" in (await eve.fail("post", text="Not ours.", tags=["panel:ops"]))["message"]
        )


async def test_a_transaction_holds_while_the_panel_that_it_read_is_as_it_was(board: Any) -> None:
    _, ben, cleo = await at_work(board)
    await ben.post("The pool is full.", tags=[INCIDENT])
    read = {"$panel:incident": (await states(cleo))["incident"][1]}
    await ben.post("Lunch is at noon.")
    await cleo.do("transaction", reads=read, writes=[{"text": "Restart it."}])
    await ben.post("The pool is empty.", tags=[INCIDENT])
    told = await cleo.fail("transaction", reads=read, writes=[{"text": "Restart it again."}])
    now = (await states(cleo))["incident"][1]
    assert told["moved"] == {"$panel:incident": now}
    assert f"panel incident changed at seq {now}, after {read['$panel:incident']}" in told["message"]
    told = await cleo.fail("transaction", reads={"$panel:incident": 9_999}, writes=[{"text": "Again."}])
    assert "as of seq 9999" in told["message"]
    told = await cleo.fail("transaction", reads={"$panel:a b": 1}, writes=[{"text": "Again."}])
    assert "no panel can have that name" in told["message"]


async def test_the_server_alone_writes_what_came_to_an_end(board: Any) -> None:
    ada, ben, _ = await at_work(board)
    for agent in (ada, ben):
        told = await agent.fail("post", text="It ended well.", tags=["panel:episodic"])
        assert told["message"].startswith("The server alone writes panel 'episodic'")


async def test_an_item_stays_in_its_panel_and_its_other_tags_change(board: Any) -> None:
    _, ben, _ = await at_work(board)
    fact = await ben.post("The pool is full.", tags=[INCIDENT, "pool"])
    told = await ben.fail("post", id=fact["id"], tags=["panel:free"])
    assert "is in panel 'incident', and an item stays in its panel" in told["message"]
    told = await ben.fail("post", id=fact["id"], tags=["panel:working"])
    assert "an item stays in its panel" in told["message"]
    told = await ben.fail("post", text="Both.", tags=[INCIDENT, "panel:free"])
    assert "An item is in one panel" in told["message"]
    await ben.post(id=fact["id"], tags=["sockets"])
    assert (await ben.item(fact["id"]))["tags"] == [INCIDENT, "sockets"]
    plain = await ben.post("Into the panel later.", tags=["panel:working", "x"])
    assert plain["tags"] == ["x"]
    await ben.post(id=plain["id"], tags=[INCIDENT])
    assert await ids(ben, tags=[INCIDENT]) == [plain["id"], fact["id"]]
    told = await ben.fail("post", id=fact["id"], tags=[f"t{n}" for n in range(32)])
    assert "at most 32 tags" in told["message"]
    assert (await ben.item(fact["id"]))["tags"] == [INCIDENT, "sockets"]


async def test_the_same_words_for_another_panel_are_another_item_and_else_support_the_first(
    board: Any,
) -> None:
    ada, ben, cleo = await at_work(board)
    said = "The connection pool of the payment client has 400 sockets."
    plain = await ben.post(said)
    known = await ada.post(said, tags=["panel:semantic"])
    free = await cleo.post(said, tags=["panel:free"])
    assert len({plain["id"], known["id"], free["id"]}) == 3
    assert (await ada.post(said, tags=["panel:semantic"]))["id"] == known["id"]
    assert (await cleo.post(said, tags=["panel:free"]))["id"] == free["id"]
    assert (await ada.post(said))["id"] == known["id"]
    assert len((await ada.do("query", text="sockets"))["items"]) == 3
    other = await ada.post("Orders wait for a free connection of the pool.", tags=["panel:semantic"])
    assert (await ben.post("Orders wait for a free connection of the pool."))["id"] == other["id"]


async def test_the_version_of_a_panel_moves_with_its_own_items_alone(board: Any) -> None:
    _, ben, cleo = await at_work(board)
    assert await states(cleo) == dict.fromkeys(("semantic", "episodic", "incident", "free"), (0, 0))
    fact = await ben.post("The pool is full.", tags=[INCIDENT])
    first = (await states(cleo))["incident"]
    assert first == (1, await board.seq())
    await ben.post("Lunch is at noon.")
    await ben.post("Free for all.", tags=["panel:free"])
    assert (await states(cleo))["incident"] == first
    await cleo.post("It is not.", "CRITIQUE", edges={"critiques": [fact["id"]]})
    debated = (await states(cleo))["incident"]
    assert debated[1] > first[1]
    assert (await cleo.do("read", since=first[1]))["events"][0]["item"] != fact["id"]


async def test_a_panel_can_be_read_and_followed_as_a_resource(board: Any) -> None:
    await board.announcing()
    _, ben, _ = await at_work(board)
    dora = await board.join("dora", mode=MODERN)
    assert "nothing here yet" in await dora.resource("board://main/panels/incident")
    uri, other = "board://main/panels/incident", "board://main/panels/free"
    async with dora.client.listen(resource_subscriptions=[uri, other]) as heard:
        fact = await ben.post("The pool is full.", tags=[INCIDENT])
        assert (await anext(aiter(heard))).uri == uri
        await ben.post("Lunch is at noon.")
        await ben.post("Free.", tags=["panel:free"])
        assert (await anext(aiter(heard))).uri == other
    text = await dora.resource(uri)
    assert text.startswith(
        'panel "incident": the outage · written by stewards, ben, team:sre · 1 live · version '
    )
    assert f"{fact['id']} fact by ben" in text
    facts = json.loads(await dora.resource(f"{uri}.json"))
    assert [item["id"] for item in facts["items"]] == [fact["id"]]
    with pytest.raises(MCPError, match="there are: semantic, episodic, incident, free"):
        await dora.resource("board://main/panels/nope")


async def test_settings_of_panels_are_checked_and_shown(board: Any) -> None:
    ada, _, _ = await at_work(board)
    for wrong, says in (
        ("semantic", "panels is a list of at most 16 panels"),
        (["working"], "working is there without being named"),
        (["a b"], "A name is a letter a-z"),
        ([{"name": "x", "reader": []}], "unknown key 'reader'"),
        ([{"name": "x", "about": "two\nlines"}], "about is one line"),
        ([{"name": "x", "writers": "ben"}], "must be a list of 0 to 1,000 of agents' names"),
        ([{"name": "x", "writers": ["role:king"]}], "'role:king' is none of agents' names"),
        ([{"name": "x", "writers": [f"a{n}" for n in range(101)]}], "at most 100 writers"),
        ([{"name": "episodic", "writers": ["ben"]}], "the server alone writes episodic"),
        (["x", "x"], "names 'x' twice"),
        ([f"p{n}" for n in range(17)], "at most 16 panels"),
        ([7], "a panel is a name, or an object"),
    ):
        told = await ada.fail("board", settings={"panels": wrong})
        assert says in told["message"], told["message"]
        assert told["message"].endswith("Nothing was changed.")
    shown = (await ada.do("board"))["settings"]["panels"]
    assert [one["name"] for one in shown] == ["semantic", "episodic", "incident", "free"]
    assert (
        'panel {"name": "incident", "about": "the outage", "writers": ["ben", "team:sre"]}'
        in await ada.say("board")
    )
    await ada.do("board", settings={"panels": shown})
    assert (await ada.do("board"))["settings"]["panels"] == shown


async def test_what_came_to_an_end_is_told_once_in_the_order_of_the_log_and_wakes_nobody(board: Any) -> None:
    ada, ben, cleo = await at_work(board)
    claim = await ben.post("@cleo The index is the cause.", "HYPOTHESIS")
    await cleo.post("Its locks were short.", "CRITIQUE", edges={"critiques": [claim["id"]]})
    await ben.do("debate", op="concede", id=claim["id"], reason="@cleo is right")
    other = await ben.post("The flag is the cause.", "HYPOTHESIS")
    critique = await cleo.post("No.", "CRITIQUE", edges={"critiques": [other["id"]]})
    await cleo.do("debate", op="withdraw", id=critique["id"])
    for agent in (ada, ben, cleo):
        await agent.say("read")
        await agent.do("wait", seconds=0)
    before = {agent: (await agent.do("wait", seconds=0))["events"] for agent in (ada, cleo)}
    first, second = (Episodes(board.opened.blackboard, plainly) for _ in range(2))
    assert await first.sweep() == 1
    assert await second.sweep() == 1
    assert await first.sweep() == 1
    told = (await cleo.do("query", tags=["panel:episodic"], zone="all"))["items"]
    assert [item["metadata"]["event"] for item in told] == ["debate.closed", "debate.closed"]
    assert told[1]["text"].startswith(f"debate on {claim['id']}: ")
    assert told[0]["text"].startswith(f"debate on {other['id']}: ")
    assert {item["author"] for item in told} == {"system"}
    assert before == {agent: (await agent.do("wait", seconds=0))["events"] for agent in (ada, cleo)}
    assert "unseen" not in (await cleo.say("read")).rsplit("\n", 1)[-1]


async def cancelled(agent: Any, *titles: str) -> None:
    """Brings tasks to an end."""
    for title in titles:
        task = (await agent.do("plan", items=[{"title": title}]))["items"][0]["id"]
        await agent.do("plan", cancel=[task], why=f"no {title}")


async def test_an_episode_that_was_forgotten_is_not_told_again(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "plan", "admin")) as board:
        ada = await board.join("ada")
        await ada.post("begin")
        await ada.do("board", settings={"panels": ["episodic", "free"]})
        await cancelled(ada, "one", "two", "three")
        blackboard = board.opened.blackboard
        await Episodes(blackboard, plainly).sweep()
        told = (await ada.do("query", tags=["panel:episodic"], zone="all"))["items"]
        assert len(told) == 3
        # The first is cited, so it stays when the others are forgotten.
        await ada.post("see there", importance=5, edges={"derived_from": [told[-1]["id"]]})
        chosen = {"tag": "panel:episodic"}
        await Stewardship(blackboard).prune("ada", "main", dry_run=False, chosen=chosen)
        board.clock.advance(40 * 86_400)
        month = Retention({ItemType.LOG: timedelta(days=30)}, "op", "law")
        assert len(await Keeper(board.opened.store, month, "test").round("main")) == 2
        await board.opened.store.sweep_once()
        await cancelled(ada, "four")
        await Episodes(blackboard, plainly).sweep()
        told = (await ada.do("query", tags=["panel:episodic"], zone="all"))["items"]
        assert [item["text"].split(": ")[1] for item in told] == ["four (no four)", "one (no one)"]


async def test_a_rule_of_one_board_keeps_no_episodes_of_another(tmp_path: Path) -> None:
    sets = ("core", "plan", "admin")
    async with boards.open_boards(tmp_path, boards.MODERN, tools=sets) as board:
        ada = await board.join("ada")
        for name in ("a", "main"):
            await ada.do("post", text="begin", board=name)
            await ada.do("board", settings={"panels": ["episodic", "free"]}, board=name)
            task = (await ada.do("plan", items=[{"title": "job"}], board=name))["items"][0]["id"]
            await ada.do("plan", cancel=[task], why="no", board=name)
        short = [{"name": "short", "types": ["LOG"], "max_bytes": 3}]
        await ada.do("board", settings={"validation": short}, board="a")
        await Episodes(board.opened.blackboard, plainly).sweep()
        assert len((await ada.do("query", tags=["panel:episodic"], zone="all"))["items"]) == 1


@pytest.fixture
def rules(tmp_path: Path) -> list[ReadRule]:
    return [ReadRule("incident", ("ben",), tags=(INCIDENT,))]


async def test_a_read_rule_hides_a_panel_its_items_and_its_version(board: Any, rules: list[ReadRule]) -> None:
    await board.opened.store.set_read_rules(rules)
    _, ben, cleo = await at_work(board)
    fact = await ben.post("The pool is full.", tags=[INCIDENT])
    assert (await states(ben))["incident"] == (1, await board.seq())
    assert (await states(cleo))["incident"] == (0, 0)
    assert not await cleo.sees(fact["id"])
    assert "incident 0" in await cleo.say("read")
    assert fact["id"] not in await cleo.resource("board://main/panels/incident")


def test_the_command_on_policies_names_panels_and_their_writers(tmp_path: Path) -> None:
    config = tmp_path / "board.toml"
    config.write_text('[board_settings]\npanels = ["semantic", "episodic", "free"]\n')
    given = {"BLACKBOARD_DATA": str(tmp_path / "data")}
    told = commands.said(given, "policies", "--config", str(config)).splitlines()
    assert told[told.index("panels, and who writes them:") + 1 :][:3] == [
        "  semantic: stewards",
        "  episodic: the server alone",
        "  free: everybody",
    ]
    facts = json.loads(commands.said(given, "policies", "--json", "--config", str(config)))
    assert [one["name"] for one in facts["panels"]] == ["semantic", "episodic", "free"]
