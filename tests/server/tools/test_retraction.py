"""Retraction through real clients: F67; what rests on something retracted says so wherever it is shown."""

from __future__ import annotations

from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.pruning import Move, Plan, Workspace

board, mode, both = boards.board, boards.mode, boards.both

MARK = "⚠ rests on H-1 WITHDRAWN"


ANEW = 'posts it anew on other grounds: post(edges={"supersedes": ["F-2"]}, type="FACT", text="…")'


async def chain(board_: Any) -> tuple[Any, Any, Any]:
    """Ada's H-1, Ben's F-2 derived from it, Eve's E-3 that depends on that."""
    ada, ben, eve = await board_.join("ada", "ben", "eve")
    await ada.post("The cache is stale", "HYPOTHESIS")
    await ben.post("Readers see old prices", edges={"derived_from": ["H-1"]})
    await eve.post("Flush it hourly", "RESULT", edges={"depends_on": ["F-2"]})
    return ada, ben, eve


def moving(*numbers: int) -> Any:
    def decide(_: Workspace) -> Plan:
        return Plan(moves=tuple(Move(n, 4, "named") for n in numbers))

    return decide


@both
@pytest.mark.parametrize(
    ("status", "shown"), [("WITHDRAWN", "WITHDRAWN"), ("INVALIDATED", "(stands no more)")]
)
async def test_what_rests_on_a_retracted_item_says_so_everywhere(
    board: Any, mode: str, status: str, shown: str
) -> None:
    ada, ben, eve = await chain(board)
    await ben.do("read")
    await ada.post(id="H-1", status=status)
    mark = MARK.replace("WITHDRAWN", shown)
    for said in (
        await ada.say("query", type="FACT"),
        await ada.say("read"),
        await ada.say("read", ids=["F-2"]),
        await ada.resource("board://main/working"),
        await ada.resource("board://main/items/F-2"),
        await ada.resource("board://main/outline"),
    ):
        assert mark in said, said
    assert f"{mark} via F-2" in await ada.say("read", ids=["E-3"])
    notice = {"id": "H-1", "status": status, "kind": "derived_from", "via": "H-1", "by": None}
    assert (await ada.item("F-2"))["retracted"] == [notice]
    assert (await ada.facts("board://main/items/F-2.json"))["retracted"] == [notice]
    assert (await ada.item("E-3"))["retracted"] == [{**notice, "kind": "depends_on", "via": "F-2"}]
    assert (await ada.item("H-1"))["retracted"] == []
    for agent, doubted in ((ben, "F-2"), (eve, "E-3")):
        told = [
            e["item"] for e in (await agent.do("wait", seconds=0))["events"] if e["event"] == "item.doubted"
        ]
        assert doubted in told


async def test_a_retraction_reaches_the_archive_and_what_is_found_there(board: Any) -> None:
    ada, ben, _eve = await chain(board)
    await board.opened.store.prune("main", moving(2, 3))
    assert (await ben.item("F-2"))["zone"] == "archive"
    await ada.post(id="H-1", status="WITHDRAWN")
    assert MARK in await ben.say("query_archive", text="old prices")
    found = await ben.do("query_archive", text="old prices")
    assert found["items"][0]["retracted"][0]["id"] == "H-1"
    assert MARK in await ben.say("query_archive")
    assert (await ben.item("F-2"))["zone"] == "archive"


async def test_citing_what_is_retracted_warns_at_once(board: Any) -> None:
    ada, ben, eve = await chain(board)
    await ada.post(id="H-1", status="WITHDRAWN")
    text = await eve.say("post", text="so do I", edges={"depends_on": ["F-2"]})
    assert text.splitlines()[0] == f"F-4 {MARK} via F-2"
    answer = await ben.do("post", text="and I", edges={"supports": ["H-1"]})
    assert answer["items"][0]["retracted"] == [
        {"id": "H-1", "status": "WITHDRAWN", "kind": "supports", "via": "H-1", "by": None}
    ]
    assert "⚠ supports H-1 WITHDRAWN" in await ben.say("query", author="ben")


async def test_a_superseded_item_names_what_took_its_place(board: Any) -> None:
    ada, ben, _eve = await chain(board)
    await ada.post("The cache is cold", "HYPOTHESIS", edges={"supersedes": ["H-1"], "derived_from": ["H-1"]})
    assert "⚠ rests on H-1 SUPERSEDED by H-4" in await ben.say("query", type="FACT")
    assert (await ben.item("H-4"))["retracted"] == []


async def test_the_mark_goes_when_the_author_cites_what_took_the_place(board: Any) -> None:
    ada, ben, _eve = await chain(board)
    await ada.post("The cache is cold", "HYPOTHESIS", edges={"supersedes": ["H-1"]})
    assert "SUPERSEDED by H-4" in await ada.say("read", ids=["F-2"])
    done = await ben.say("post", id="F-2", edges={"derived_from": ["H-4"]})
    for said in (done, await ada.say("read"), await ada.say("read", ids=["F-2"])):
        (line,) = (line for line in said.splitlines() if line.startswith("F-2"))
        assert "SUPERSEDED by H-4" not in line
    assert "⚠ rests on H-1 SUPERSEDED by H-4 via F-2" in await ada.say("read", ids=["E-3"])
    await ada.post(id="H-4", status="WITHDRAWN")
    assert "⚠ rests on H-4 WITHDRAWN" in await ada.say("read", ids=["F-2"])


async def test_each_marked_item_is_told_of_once_and_can_be_followed(board: Any) -> None:
    ada, _ben, eve = await chain(board)
    held = await eve.do("subscribe", filter={"event": "item.doubted"})
    await ada.post(id="H-1", status="WITHDRAWN")
    events = (await eve.do("wait", subscription=held["id"], seconds=0))["events"]
    assert [(e["item"], e["agent"], e["data"]) for e in events] == [
        ("F-2", "ada", {"rests_on": ["H-1 WITHDRAWN"]}),
        ("E-3", "ada", {"rests_on": ["H-1 WITHDRAWN via F-2"]}),
    ]
    assert (
        "doubted F-2: it rests on H-1 WITHDRAWN; look whether it still holds; if so, nothing is to do; the mark goes "
        f"when its author {ANEW}" in await eve.say("read", since=events[0]["seq"] - 1)
    )


async def test_a_new_version_of_an_entry_is_free_of_old_notices(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The cache is stale", "HYPOTHESIS")
    await ben.post("Flush it", "PLAN", key="plan/cache", edges={"depends_on": ["H-1"]})
    await ada.post(id="H-1", status="WITHDRAWN")
    assert MARK in await ben.say("read", keys=["plan/cache"])
    await ben.post("Leave it alone", "PLAN", key="plan/cache")
    assert "⚠" not in await ben.say("read", keys=["plan/cache"])
    assert (await ben.item("P-2"))["edges"] == {"depends_on": ["H-1"]}


async def test_who_adds_edges_to_a_marked_item_is_told_how_the_mark_goes_and_it_does(board: Any) -> None:
    ada, ben, eve = await chain(board)
    log = await eve.post("Line 5: an old price.", "LOG")
    await ada.post(id="H-1", status="WITHDRAWN")
    said = await ben.say("post", id="F-2", edges={"derived_from": [log["id"]]})
    assert f"they are added, none is taken away; ⚠ goes when its author {ANEW}" in said
    anew = await ben.say(
        "post", text="The log shows old prices", edges={"supersedes": ["F-2"], "derived_from": [log["id"]]}
    )
    assert "⚠" not in anew
    assert "⚠" not in await eve.say("read", ids=["F-5"])


async def test_who_adds_edges_to_a_marked_entry_is_told_that_a_new_version_has_no_mark(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The cache is stale", "HYPOTHESIS")
    await ada.post("Prices are old")
    await ben.post("Flush it", "PLAN", key="plan/cache", edges={"depends_on": ["H-1"]})
    await ada.post(id="H-1", status="WITHDRAWN")
    way = 'goes with its next version: post(key="plan/cache", text="…")'
    assert f"the mark {way}" in await ben.say("read", since=0)
    said = await ben.say("post", id="P-3", edges={"depends_on": ["F-2"]})
    assert f"⚠ {way}" in said
    said = await ben.say("post", key="plan/cache", text="Flush it at noon", edges={"derived_from": ["F-2"]})
    assert "none is taken away" in said
    assert "⚠" not in said


async def test_private_items_neither_leak_nor_are_leaked_to(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("secret premise", "HYPOTHESIS", visibility="private")
    await ada.post("public claim", edges={"derived_from": ["H-1"]})
    await ben.post("on it", edges={"depends_on": ["F-2"]})
    await ada.post(id="H-1", status="WITHDRAWN")
    for agent in (ada, ben):
        for id_ in ("F-2", "F-3"):
            assert (await agent.item(id_))["retracted"] == []
    events = (await ben.do("read", since=0))["events"]
    assert "item.doubted" not in {e["event"] for e in events}
    await ben.post(id="F-3", status="WITHDRAWN")
    note = await ada.post("my note", visibility="private", edges={"derived_from": ["F-3"]})
    assert note["retracted"][0]["id"] == "F-3"
    assert "item.doubted" not in {e["event"] for e in (await ben.do("read", since=0))["events"]}
