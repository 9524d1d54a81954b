"""The server's own checks of files: a hot issue ends with the fault or the rule that it is about."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.server.usecases import file_checks
from blackboard_mcp.server.usecases.file_checks import FileChecks
from blackboard_mcp.server.usecases.results import Results
from patience import PATIENCE

SETS = ("core", "memory", "workspace", "admin")


async def busy(*given: object, **more: object) -> None:
    """Takes the place of a write that gets no lock."""
    raise StoreBusy("No write lock. Nothing was changed; try again.")


async def issues(agent: Any, status: str = "ACTIVE") -> list[str]:
    """Returns the first words of the hot issues of a status."""
    found = await agent.do("query", type="HOT_ISSUE", status=status)
    return [item["text"].split(":  ")[0] for item in found["items"]]


async def ruled(agent: Any, ending: str) -> tuple[str, str]:
    """Makes a rule that a file violates; returns the ids of both."""
    made = await agent.do("constraint", text=f"No {ending}.", check=f"absent:**/*.{ending}")
    await agent.do("artifact_write", path=f"x.{ending}", content="1")
    found = await agent.do("query", type="HOT_ISSUE", status="ACTIVE")
    return made["written"][0], found["items"][0]["id"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("post", {"id": "RULE", "status": "RESOLVED"}),
        ("post", {"id": "RULE", "status": "INVALIDATED"}),
        ("transaction", {"writes": [{"id": "RULE", "status": "RESOLVED"}]}),
        ("constraint", {"id": "RULE", "retire": "no more"}),
        ("constraint", {"id": "RULE", "text": "No others.", "check": "absent:**/*.other"}),
    ],
)
async def test_a_violation_ends_with_its_rule_however_that_ends(
    tmp_path: Path, tool: str, given: dict[str, Any]
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        rule, issue = await ruled(ann, "tmp")
        said = {
            name: [{**one, "id": rule} for one in value] if isinstance(value, list) else value
            for name, value in given.items()
        }
        await ann.do(tool, **(said if "id" not in said else {**said, "id": rule}))
        assert (await ann.item(issue))["status"] == "RESOLVED"
        assert await issues(ann) == []


async def test_a_violation_stays_while_another_rule_names_its_check(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        rule, issue = await ruled(ann, "tmp")
        again = await ann.do(
            "constraint", text="Really no tmp.", check="absent:**/*.tmp", scope="path:src/**"
        )
        await ann.do("post", id=rule, status="RESOLVED")
        assert (await ann.item(issue))["status"] == "ACTIVE"
        await ann.do("post", id=again["written"][0], status="RESOLVED")
        assert (await ann.item(issue))["status"] == "RESOLVED"


async def test_a_violation_ends_with_a_rule_that_falls_in_a_debate(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, ben = await board.join("ann", "ben")
        rule, issue = await ruled(ann, "tmp")
        await ben.post("That rule helps nobody.", "CRITIQUE", edges={"critiques": [rule]})
        await ann.do("debate", op="concede", id=rule, reason="right")
        assert (await ann.item(issue))["status"] == "RESOLVED"


async def test_a_violation_under_debate_ends_with_the_debate_if_its_rule_ended_meanwhile(
    tmp_path: Path,
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, ben = await board.join("ann", "ben")
        rule, issue = await ruled(ann, "tmp")
        await ben.post("That file is needed.", "CRITIQUE", edges={"critiques": [issue]})
        await ann.do("constraint", id=rule, retire="no more")
        assert (await ann.item(issue))["status"] == "DEBATED"
        await ben.do("debate", op="withdraw", id=issue, reason="settled")
        assert (await ann.item(issue))["status"] == "RESOLVED"


async def test_a_debate_about_a_failure_does_not_end_it(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, ben = await board.join("ann", "ben")
        await ann.do("artifact_write", path="a.json", content="{")
        issue = (await ann.do("query", type="HOT_ISSUE"))["items"][0]["id"]
        for mended in (False, True):
            await ben.post(f"The parser is wrong, {mended}.", "CRITIQUE", edges={"critiques": [issue]})
            if mended:
                await ann.do("artifact_write", path="a.json", content="{}")
            await ben.do("debate", op="withdraw", id=issue, reason="my mistake")
            assert (await ann.item(issue))["status"] == ("RESOLVED" if mended else "ACTIVE")


async def test_a_write_that_cannot_be_looked_at_is_told_as_written_and_is_looked_at_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        await ann.do("constraint", text="No tmp.", check="absent:**/*.tmp")
        with monkeypatch.context() as broken:
            broken.setattr(Results, "note", busy)
            for path in ("a.json", "x.tmp"):
                said = await ann.say("artifact_write", path=path, append="{")
                assert f"{path} rev" in said
                assert "Nothing was changed" not in said
            assert "written, but not checked yet" in said
        assert await issues(ann) == []
        await FileChecks(board.opened.blackboard, ("json",)).catch_up("main")
        assert len(await issues(ann)) == 2


async def test_writing_the_same_again_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def killed(*given: object, **more: object) -> None:
        raise asyncio.CancelledError

    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        files = {"path": "a.json", "content": "{"}
        with monkeypatch.context() as broken:
            broken.setattr(Results, "note", killed)
            with contextlib.suppress(BaseException):
                async with asyncio.timeout(0.5):
                    await ann.client.call_tool("artifact_write", files)
        said = await ann.say("artifact_write", **files)
        assert "has this content already, at rev 1" in said
        assert "syntax: line 1" in said


async def test_a_server_looks_at_what_others_wrote_and_did_not_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_checks, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(file_checks, "_IDLE_SECONDS", 0.02)
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        await (await board.join("ann")).do("artifact_write", path="mended.json", content="{")

    async def until(agent: Any, *wanted: str) -> None:
        end = time.monotonic() + PATIENCE
        while sorted(text.split(": ")[0] for text in await issues(agent)) != sorted(wanted):
            assert time.monotonic() < end, await issues(agent)
            await asyncio.sleep(0.02)

    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, background=True) as board:
        bob = await board.join("bob")

        async def write(path: str, content: str) -> None:
            """Writes a file as a server does that is killed before it looks."""
            from blackboard_mcp.protocols.workspace import Edit

            await board.opened.store.write_artifact("main", "bob", path, Edit(content=content.encode()))

        await until(bob, "syntax fails for mended.json")
        await write("mended.json", "{}")
        await write("broken.json", "{")
        await until(bob, "syntax fails for broken.json")
        await bob.do("constraint", text="Keep it.", check="exists:kept.md")
        await until(bob, "syntax fails for broken.json", "exists:kept.md fails")
        await write("kept.md", "kept")
        await until(bob, "syntax fails for broken.json")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, syntax=("toml",)
    ) as board:
        await until(await board.join("bob"))


async def test_a_board_that_takes_no_hot_issue_keeps_nothing_waiting(tmp_path: Path) -> None:
    kinds = [{"name": "short", "types": ["HOT_ISSUE"], "max_bytes": 1}]
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        for name in ("a", "main"):
            await ann.do("post", text="begin", board=name)
        checks = FileChecks(board.opened.blackboard, ("json",))
        await ann.do("board", board="a", settings={"validation": kinds})
        said = await ann.say("artifact_write", path="a.json", content="{", board="a")
        assert "a.json rev 1" in said
        await ann.do("artifact_write", path="b.json", content="{")
        for name in ("a", "main"):
            assert await checks.catch_up(name)
        assert len(await issues(ann)) == 1


async def test_a_fault_that_comes_back_in_a_debate_stands_after_it(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, ben = await board.join("ann", "ben")
        await ann.do("constraint", text="Keep a README.", check="exists:README.md")
        issue = (await ann.do("query", type="HOT_ISSUE"))["items"][0]["id"]
        await ben.post("Nobody reads it.", "CRITIQUE", edges={"critiques": [issue]})
        await ann.do("artifact_write", path="README.md", content="read me")
        await ann.do("artifact_write", path="README.md", delete=True)
        await ben.do("debate", op="withdraw", id=issue, reason="well")
        assert (await ann.item(issue))["status"] == "ACTIVE"


async def test_a_violation_that_is_found_as_its_rule_ends_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        rule = (await ann.do("constraint", text="No tmp.", check="absent:**/*.tmp"))["written"][0]
        honest = Results.note

        async def late(self: Results, *given: Any, **more: Any) -> Any:
            monkeypatch.setattr(Results, "note", honest)
            await ann.do("post", id=rule, status="RESOLVED")
            return await honest(self, *given, **more)

        monkeypatch.setattr(Results, "note", late)
        await ann.do("artifact_write", path="x.tmp", content="1")
        assert await issues(ann) == []


async def test_a_rule_that_could_not_be_looked_at_is_looked_at_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        with monkeypatch.context() as broken:
            broken.setattr(Results, "note", busy)
            await ann.do("constraint", text="Keep a README.", check="exists:README.md")
        blackboard = board.opened.blackboard
        assert blackboard.unlooked == {"main"}
        await FileChecks(blackboard).catch_up("main")
        assert len(await issues(ann)) == 1
        assert blackboard.unlooked == set()
