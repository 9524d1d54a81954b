"""The operator's checks on files, through real clients: results, hot issues, evidence, bound rules."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server import compose
from blackboard_mcp.server.checks.running import Check
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.usecases import checks
from blackboard_mcp.server.usecases.results import issue_key
from blackboard_mcp.server.usecases.retention import Keeper
from blackboard_mcp.storage.testing.harness import Table
from click.testing import CliRunner
from patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="checks need POSIX")
SETS = ("core", "plan", "memory", "workspace", "admin")
SUMS = """\
import pathlib, sys
text = pathlib.Path("sums.txt").read_text()
print("checking", text)
print(f"ValueError: {text!r} in {pathlib.Path.cwd()}/sums.txt", file=sys.stderr) if "bad" in text else None
sys.exit("bad" in text)
"""
CHECK = Check("sums", (sys.executable, "-S", "-c", SUMS), "**/sums.*")
SLOW = Check("slow", (sys.executable, "-S", "-c", "import time; time.sleep(600)"), "slow.txt")
mode, both = boards.mode, boards.both


async def news(agent: Any, words: str) -> str:
    """Waits until an answer of `wait` has the words, and returns it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if words in (said := await agent.say("wait", seconds=5)):
            return str(said)
    raise AssertionError(f"no news of {words!r}")


def copies(folder: Path) -> list[Path]:
    """Returns the folders with copies of files that a check runs on, or ran on."""
    # Unlike a pattern of paths, `walk` bears folders that go while it looks.
    return [
        Path(at, name)
        for at, names, _ in os.walk(folder)
        if Path(at).name == "checks"
        for name in names
        if name.startswith("run-")
    ]


@both
async def test_a_check_runs_after_a_write_and_its_failure_stands_until_it_passes(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode, tools=SETS, background=True, check=(CHECK,)) as board:
        ann, bob = await board.join("ann", "bob")
        await bob.say("read")
        said = await ann.say("artifact_write", path="sums.txt", content="bad")
        assert "checks: sums has not run yet → runs by itself, wait() tells" in said
        await news(bob, "sums fails")
        view = await bob.say("read")
        assert "sums fails: rev 1, exit 1, ValueError: 'bad' in sums.txt; E-1 has the output" in view
        whole = await bob.say("read", ids=["E-1"])
        assert "checking bad" in whole
        assert str(tmp_path) not in whole
        given = await bob.do("artifact_read", path="sums.txt")
        assert given["checks"] == [{"name": "sums", "item": "E-1", "revision": 1, "ok": False, "fresh": True}]
        # What the check is not for neither starts it nor makes its result stale.
        assert "checks:" not in await ann.say("artifact_write", path="notes.md", content="x")
        assert "checks: sums failed at rev 1 (E-1)\n" in await ann.say("artifact_list")
        said = await ann.say("artifact_write", path="sums.txt", content="good")
        assert "checks: sums failed at rev 1 (E-1), stale → runs by itself, wait() tells" in said
        said = await news(bob, "sums passed at rev 3")
        assert "checking good" in said
        assert "sums fails" not in await bob.say("read")
        results = await bob.say("query", type="RESULT")
        assert "E-3 result (newest of 2) by system" in results


async def test_a_write_has_only_its_own_board_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_LOOK", 3_600.0)
    looked: list[str] = []
    given = checks.Checks._look

    async def look(self: checks.Checks, board: Board) -> None:
        looked.append(board.id)
        await given(self, board)

    monkeypatch.setattr(checks.Checks, "_look", look)
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann = await board.join("ann")
        for name in ("one", "two", "three"):
            await ann.do("post", text="begun", board=name)
            await ann.do("artifact_write", path="notes.md", content="x", board=name)
        await ann.do("artifact_write", path="sums.txt", content="bad")
        await news(ann, "sums fails")
        looked.clear()
        await ann.do("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed")
        await ann.do("artifact_write", path="sums.txt", content="bad")
        await news(ann, "sums fails")
        assert set(looked) == {"main"}


async def test_results_of_checks_are_the_servers_alone(tmp_path: Path) -> None:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann, _ = await board.join("ann", "bob")
        await ann.say("artifact_write", path="sums.txt", content="bad")
        await news(ann, "sums fails")
        failed = await ann.fail("report_result", check="sums", ok=True)
        assert failed["error"] == "refused"
        assert "goes when it passes" in failed["message"]
        (issue,) = (await ann.do("query", type="HOT_ISSUE"))["items"]
        posts: list[dict[str, Any]] = [
            {"id": issue["id"], "status": "RESOLVED"},
            {"key": issue["key"], "status": "DELETED"},
            {"key": issue["key"], "text": "All is well."},
        ]
        for given in posts:
            assert (await ann.fail("post", **given))["error"] == "refused"
        failed = await ann.fail("post", id="E-1", text="sums passed at rev 1")
        assert failed["error"] in ("refused", "invalid")
        await ann.say("artifact_write", path="a.txt", content="x")
        # Another agent's item with the same tag counts for nothing.
        await ann.say("post", type="RESULT", text="sums passed at rev 9", tags=["check:sums"])
        assert "sums failed at rev 1 (E-1)" in await ann.say("artifact_list")


async def test_evidence_goes_stale_with_a_newer_write(tmp_path: Path) -> None:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("plan", items=[{"title": "Sum up", "verify": "agent"}])
        lease = (await ann.do("claim"))["lease"]
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 1")
        await ann.say("claim", op="done", lease=lease, text="Summed up.", cites=["E-1"])
        await bob.say("artifact_write", path="other.txt", content="x")
        await bob.say("artifact_write", path="sums.txt", content="good, too")
        failed = await bob.fail("claim", id="T-1", op="verify", ok=True, text="It passes.")
        assert failed["error"] == "conflict"
        assert "E-1 is what sums gave at rev 1, and sums.txt was written in rev 3 since" in failed["message"]
        said = await news(bob, "sums passed at rev 3")
        newer = next(word for word in said.split() if word.startswith("E-"))
        failed = await bob.fail("claim", id="T-1", op="verify", ok=True, text="It passes.", cites=["E-1"])
        assert failed["error"] == "conflict"
        await bob.say("claim", id="T-1", op="verify", ok=True, text="It passes.", cites=[newer])
        assert "T-1 COMPLETED" in await bob.say("plan", why="T-1")


async def test_what_was_due_when_a_server_ended_runs_after_the_next_start(tmp_path: Path) -> None:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(SLOW,)
    ) as board:
        ann, _ = await board.join("ann", "bob")
        await ann.say("artifact_write", path="slow.txt", content="x")
        async with asyncio.timeout(PATIENCE):
            while not copies(tmp_path):  # noqa: ASYNC110 - a check tells nothing before its end
                await asyncio.sleep(0.02)
    quick = Check("slow", ("true",), "slow.txt")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(quick,)
    ) as board:
        bob, _ = await board.join("bob", "ann")
        await news(bob, "slow passed at rev 1")
        assert not copies(tmp_path)


async def test_a_server_that_starts_leaves_the_copy_on_which_another_runs_a_check(tmp_path: Path) -> None:
    data, going, go = tmp_path / "data", tmp_path / "going", tmp_path / "go"
    waits = f"touch {going}; while [ ! -e {go} ]; do sleep 0.02; done; cat a.txt"
    check = Check("waits", ("sh", "-c", waits))
    opening: dict[str, Any] = {"tools": SETS, "background": True, "check": (check,)}
    left = data / "checks" / "run-left"
    async with boards.open_boards(data, boards.MODERN, **opening) as one:
        ann, _ = await one.join("ann", "bob")
        await ann.say("artifact_write", path="a.txt", content="all there")
        async with asyncio.timeout(PATIENCE):
            while not going.exists():  # noqa: ASYNC110 - a check tells nothing before its end
                await asyncio.sleep(0.02)
            left.mkdir()
            async with boards.open_boards(data, boards.LEGACY, **opening):
                while left.exists():  # noqa: ASYNC110 - nor does a server what it removes
                    await asyncio.sleep(0.02)
                go.touch()
                await news(ann, "waits passed at rev 1")
        assert "1\tall there" in await ann.say("artifact_read", path="check:waits")


async def test_a_failure_whose_hot_issue_a_crash_prevented_is_one_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*given: Any) -> None:
        """Stands for a server that is killed before it opens the hot issue."""

    with monkeypatch.context() as patch:
        patch.setattr(checks.Checks, "_raise", killed)
        async with boards.open_boards(
            tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
        ) as board:
            ann, _ = await board.join("ann", "bob")
            await ann.say("artifact_write", path="sums.txt", content="bad")
            await news(ann, "sums failed at rev 1")
            assert "sums fails" not in await ann.say("read")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        bob, _ = await board.join("bob", "ann")
        await news(bob, "sums fails: rev 1, exit 1, ValueError: 'bad' in sums.txt; E-1 has the output")
        assert "sums fails" in await bob.say("read")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"lifecycle": "settled"}, {"lifecycle": "open"}),
        (
            {"settings": {"validation": [{"name": "short", "types": ["RESULT"], "max_bytes": 1}]}},
            {"settings": {"validation": []}},
        ),
    ],
)
async def test_a_check_whose_result_the_board_refuses_runs_again_when_the_board_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], after: dict[str, Any]
) -> None:
    monkeypatch.setattr(checks, "_LOOK", 0.02)
    look, looks = checks.Checks._look, asyncio.Queue[Board]()

    async def counted(self: checks.Checks, board: Board) -> None:
        await look(self, board)
        looks.put_nowait(board)

    monkeypatch.setattr(checks.Checks, "_look", counted)
    runs, go_on = tmp_path / "runs", tmp_path / "go-on"
    program = f"""\
import pathlib, time
with open({str(runs)!r}, "a") as file:
    file.write("x")
while not pathlib.Path({str(go_on)!r}).exists():
    time.sleep(0.01)
"""
    check = Check("waits", (sys.executable, "-S", "-c", program), "a.txt")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(check,)
    ) as board:
        ann = await board.join("ann")
        await ann.say("artifact_write", path="a.txt", content="x")
        async with asyncio.timeout(PATIENCE):
            while not runs.exists():  # noqa: ASYNC110 - a check tells nothing before its end
                await asyncio.sleep(0.02)
            await ann.do("board", **before)
            go_on.touch()
            while copies(tmp_path):  # noqa: ASYNC110 - nor does one whose result is refused
                await asyncio.sleep(0.02)
            for _ in range(looks.qsize() + 20):
                await looks.get()
        assert runs.read_text() == "x"
        await ann.do("board", **after)
        await news(ann, "waits passed at rev 1")
        assert runs.read_text() == "xx"


async def test_a_board_on_which_nothing_has_happened_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_LOOK", 0.02)
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, check=(CHECK,)) as board:
        ann = await board.join("ann")
        store = board.opened.store
        await ann.say("artifact_write", path="sums.txt", content="good")
        looks, read = asyncio.Queue[int](), 0
        boards_with_artifacts, query = store.boards_with_artifacts, store.query

        async def looked() -> Any:
            looks.put_nowait(read)
            return await boards_with_artifacts()

        async def counted(*given: Any) -> Any:
            nonlocal read
            read += 1
            return await query(*given)

        monkeypatch.setattr(store, "boards_with_artifacts", looked)
        monkeypatch.setattr(store, "query", counted)
        working = asyncio.create_task(
            compose.checks_of(board.opened.blackboard, board.opened.settings, "here").run()
        )
        await news(ann, "sums passed at rev 1")
        async with asyncio.timeout(PATIENCE):
            while True:
                before, *_, after = [await looks.get() for _ in range(20)]
                if before == after:
                    break
        await ann.say("artifact_write", path="sums.txt", content="bad")
        await news(ann, "sums fails")
        working.cancel()
        await asyncio.wait([working])


@pytest.mark.parametrize("turns", range(6))
async def test_work_that_is_cancelled_while_it_is_told_of_a_write_ends(tmp_path: Path, turns: int) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, check=(CHECK,)) as board:
        checks = compose.checks_of(board.opened.blackboard, board.opened.settings, "here")
        working = asyncio.create_task(checks.run())
        await asyncio.sleep(0.1)  # it waits for writes by then
        checks.poke("main")
        for _ in range(turns):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait({working}, timeout=PATIENCE)
        assert working.cancelled()


async def test_secrets_in_an_output_are_masked(tmp_path: Path) -> None:
    key = "ghp_" + "a1" * 20
    told = Check("told", (sys.executable, "-S", "-c", f"print('{key[:9]}' + '{key[9:]}')"))
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(told,)
    ) as board:
        ann, _ = await board.join("ann", "bob")
        await ann.say("artifact_write", path="a.txt", content="x")
        assert "[secret]" in await news(ann, "told passed at rev 1")


@both
async def test_a_rule_that_names_files_is_held_by_the_server(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=SETS) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("artifact_write", path="lib/requirements.txt", content="x")
        said = await ann.say(
            "constraint", text="Never a requirements.txt.", check="absent:**/requirements.txt"
        )
        assert "K-1 by ann check absent:**/requirements.txt: Never a requirements.txt." in said
        view = await bob.say("read")
        assert "K-1 constraint (check absent:**/requirements.txt) by ann" in view
        assert "there is lib/requirements.txt, which K-1 forbids" in view
        for check in ("absent:**/requirements.txt", "syntax"):
            assert (await bob.fail("report_result", check=check, ok=True))["error"] == "refused"
        await bob.say("artifact_write", path="dev-requirements.txt", content="x")
        said = await bob.say("artifact_write", path="requirements.txt", content="x")
        assert (
            "there is lib/requirements.txt, requirements.txt, which K-1 forbids; I-2 stands in every view"
            in said
        )
        assert (await bob.do("artifact_write", path="requirements.txt", content="y"))["violations"] == ["I-2"]
        await bob.say("artifact_write", path="requirements.txt", delete=True)
        assert "which K-1 forbids" in await ann.say("read")
        said = await bob.say("artifact_write", path="lib/requirements.txt", delete=True)
        assert "forbids" not in said
        assert "which K-1 forbids" not in await ann.say("read")
        await bob.say("artifact_write", path="Requirements.txt", content="x")
        assert "there is Requirements.txt, which K-1 forbids" in await ann.say("read")
        await ann.say("constraint", text="No drafts in docs.", check="absent:docs/*.tmp")
        await bob.say("artifact_write", path="docs/a.tmp", content="x")
        assert "there is docs/a.tmp, which K-" in await ann.say("read"), "named once"
        await ann.say("constraint", id="K-1", retire="It is no longer so.")
        assert "which K-1 forbids" not in await ann.say("read")


@pytest.mark.parametrize("check", ["syntax", "absent:*.log", "exists:NEWS"])
async def test_nobody_resolves_what_the_server_finds_but_a_later_state_does(
    tmp_path: Path, check: str
) -> None:
    files = {
        "syntax": ("a.json", "{", "{}"),
        "absent:*.log": ("a.log", "x", None),
        "exists:NEWS": ("NEWS", None, "x"),
    }
    path, bad, good = files[check]
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, stewards=("ann",)) as board:
        ann, bob = await board.join("ann", "bob")
        await bob.say("artifact_write", path=path, content=bad or "x")
        if check != "syntax":
            await ann.say("constraint", text="So be it.", check=check)
        if bad is None:
            await bob.say("artifact_write", path=path, delete=True)
        (issue,) = (await bob.do("query", type="HOT_ISSUE"))["items"]
        posts: list[dict[str, Any]] = [
            {"id": issue["id"], "status": "RESOLVED"},
            {"id": issue["id"], "status": "WITHDRAWN"},
            {"id": issue["id"], "tags": ["x"]},
            {"key": issue["key"], "status": "DELETED"},
            {"key": issue["key"], "text": "All is well."},
        ]
        for agent in (bob, ann):
            for given in posts:
                failed = await agent.fail("post", **given)
                assert failed["error"] in ("refused", "invalid"), given
                assert "Nothing was changed" in failed["message"]
            for words in ("resolves by itself when the check passes", "artifact_write(path=…)", "replies_to"):
                assert words in (await agent.fail("post", **posts[0]))["message"]
        for kind in ("supersedes", "refutes", "replies_to", "derived_from"):
            await bob.call("post", text=f"{kind}: it is well", type="FACT", edges={kind: [issue["id"]]})
        assert (await bob.item(issue["id"]))["status"] == "ACTIVE"
        edit = {"delete": True} if good is None else {"content": good}
        await bob.say("artifact_write", path=path, **edit)
        assert (await bob.item(issue["id"]))["status"] == "RESOLVED"


async def test_who_has_the_key_of_a_check_first_resolves_it_no_more_than_others(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, bob = await board.join("ann", "bob")
        key = issue_key("syntax", "a.json")
        await bob.do("post", key=key, text="All is well.", type="HOT_ISSUE")
        failed = await bob.fail("post", key=issue_key("syntax", "b.json"), text="All is well.", type="FACT")
        assert (failed["error"], "use a key of your own" in failed["message"]) == ("invalid", True)
        said = await bob.say("artifact_write", path="a.json", content="{")
        assert "stands in every view" in said
        assert (await bob.fail("post", id="I-1", status="RESOLVED"))["error"] == "refused"
        assert "syntax fails for a.json" in await ann.say("read")


async def test_a_rule_may_ask_for_a_file(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, _ = await board.join("ann", "bob")
        await ann.say("constraint", text="Keep a README.", check="exists:README.md")
        assert "no file matches, and K-1 asks for one" in await ann.say("read")
        await ann.say("artifact_write", path="README.md", content="x")
        assert "asks for one" not in await ann.say("read")
        said = await ann.say("artifact_write", path="README.md", delete=True)
        assert "no file matches, and K-1 asks for one; I-2 stands in every view until that ends" in said
        # A new version without a check, and then with another.
        await ann.say("constraint", id="K-1", text="Keep a README or a NEWS.", check="none")
        assert "asks for one" not in await ann.say("read")
        await ann.say("constraint", id="K-1", text="Keep NEWS.", check="exists:NEWS")
        await ann.say("constraint", id="K-1", text="Keep a NEWS file.", strength="prefer")
        assert "(prefer, check exists:NEWS)" in await ann.say("read")


async def test_results_of_a_check_for_other_boards_are_reported_by_agents(tmp_path: Path) -> None:
    check = (replace(CHECK, boards=("side",)),)
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, check=check) as board:
        ann = await board.join("ann")
        said = await ann.say("report_result", check="sums", ok=False)
        assert said.startswith('I-1 stands in every view until report_result(check="sums", ok=true)\n')
        assert (await ann.say("report_result", check="sums", ok=True)).startswith("I-1 is resolved\n")
        await ann.post("there", board="side")
        failed = await ann.fail("report_result", check="sums", ok=False, board="side")
        assert "The server runs sums itself" in failed["message"]


async def test_a_rule_names_the_check_that_holds_it(tmp_path: Path) -> None:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann, _ = await board.join("ann", "bob")
        failed = await ann.fail("constraint", text="Sums add up.", check="sum")
        assert failed["error"] == "invalid"
        assert "or one that the server runs: sums. Nothing was changed" in failed["message"]
        await ann.say("constraint", text="Sums add up.", check="sums")
        await ann.say("artifact_write", path="sums.txt", content="bad")
        await news(ann, "sums fails")
        assert "(asked for by K-1)" in await ann.say("read")


async def test_a_debate_on_a_violation_keeps_no_one_from_writing(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("constraint", text="No logs.", check="absent:*.log")
        said = await bob.say("artifact_write", path="a.log", content="x")
        issue = next(word for word in said.split() if word.startswith("I-"))
        await bob.say("post", type="CRITIQUE", text="It is needed.", edges={"critiques": [issue]})
        assert issue in await bob.say("artifact_write", path="b.log", content="x")
        said = await bob.say("artifact_write", path="a.log", delete=True)
        assert said.startswith("deleted a.log")
        assert (await bob.do("artifact_write", path="b.log", delete=True))["changed"]


LONG = Check(
    "long",
    (sys.executable, "-S", "-c", "for n in range(9000): print('line', n)\nraise SystemExit(1)"),
    "a.txt",
)


@both
async def test_the_whole_output_of_the_last_run_can_be_read_by_lines(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=SETS, background=True, check=(LONG, CHECK)) as board:
        ann, bob = await board.join("ann", "bob")
        failed = await ann.fail("artifact_read", path="check:long")
        assert failed["error"] == "not_found"
        await ann.say("artifact_write", path="a.txt", content="x")
        await news(bob, "long fails")
        item = await bob.say("read", ids=["E-1"])
        assert 'characters left out; artifact_read(path="check:long") has all' in item
        said = await bob.say("artifact_read", path="check:long", start=1_500, end=1_501)
        assert "rev 1 by system" in said
        assert "1500\tline 1499\n1501\tline 1500\n" in said
        lines, start = [], 1
        while True:
            page = await bob.do("artifact_read", path="check:long", start=start)
            lines += page["text"].split("\n")
            if f"start={page['end'] + 1}" not in await bob.say(
                "artifact_read", path="check:long", start=start
            ):
                break
            start = page["end"] + 1
        whole = "\n".join(lines)
        assert 65_000 < len(whole) < 65_700  # 64 KiB, and a line on what is left out
        assert whole.startswith("line 0\nline 1\n")
        assert "bytes left out" in whole
        assert lines[-1] == "line 8999"
        failed = await bob.fail("artifact_read", path="check:long", revision=1)
        assert "Only the output of a check's last run is kept" in failed["message"]
        for path in ("check:sums", "check:", "check:../x", "check:nosuch"):
            assert (await bob.fail("artifact_read", path=path))["error"] == "not_found"
        assert (await bob.fail("artifact_write", path="check:long", content="x"))["error"] == "invalid"


async def test_a_read_rule_keeps_the_output_with_the_result(tmp_path: Path) -> None:
    rule = ReadRule("results", ("ann",), types=(ItemType.RESULT,))
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,), read=(rule,)
    ) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 1")
        assert "checking good" in await ann.say("artifact_read", path="check:sums")
        assert (await bob.fail("artifact_read", path="check:sums"))["error"] == "not_found"
        assert "checks:" not in await bob.say("artifact_list")
        assert "checks: sums passed at rev 1 (E-1)\n" in await ann.say("artifact_list")
        # It ran once: what is kept is still known to the server itself.
        await bob.say("artifact_write", path="other.txt", content="x")
        await ann.say("artifact_write", path="sums.txt", content="good, too")
        await news(ann, "sums passed at rev 3")
        assert len((await ann.do("query", type="RESULT", zone="all"))["items"]) == 2


async def test_who_may_see_an_older_result_alone_gets_no_output_of_a_newer_run(tmp_path: Path) -> None:
    rule = ReadRule("results", ("ann",), types=(ItemType.RESULT,))
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 1")
        assert "checking good" in await bob.say("artifact_read", path="check:sums")
        await board.opened.store.set_read_rules([rule])
        await ann.say("artifact_write", path="sums.txt", content="good as gold")
        await news(ann, "sums passed at rev 2")
        assert "checking good as gold" in await ann.say("artifact_read", path="check:sums")
        refused = await bob.fail("artifact_read", path="check:sums")
        assert (refused["error"], "gold" in str(refused)) == ("not_found", False)
        assert "checks: sums passed at rev 1 (E-1), stale" in await bob.say("artifact_list")


async def test_a_hot_issue_tells_nothing_of_a_result_that_a_read_rule_keeps(tmp_path: Path) -> None:
    rule = ReadRule("results", ("ann",), types=(ItemType.RESULT,))
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,), read=(rule,)
    ) as board:
        ann, bob = await board.join("ann", "bob")
        await ann.say("artifact_write", path="sums.txt", content="bad, and so on")
        await news(bob, "sums fails: rev 1")
        (issue,) = (await bob.do("query", type="HOT_ISSUE"))["items"]
        assert (issue["text"], issue["metadata"]["result"]["cites"]) == ("sums fails: rev 1", [])
        assert "ValueError: 'bad, and so on'" in await ann.say("read", ids=["E-1"])
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 2")
        assert (await bob.item(issue["id"]))["status"] == "RESOLVED"


async def test_after_compacting_no_file_holds_the_output_of_a_check_that_was_forgotten(
    tmp_path: Path,
) -> None:
    month = Retention({ItemType.RESULT: timedelta(days=30)}, "Ada", "a month is enough")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        ann = await board.join("ann")
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 1")
        await Table(board.opened.store).prune()
        board.clock.advance(40 * 86_400)
        assert "E-1" in [one.id for one in await Keeper(board.opened.store, month, "test").round("main")]
        folder = board.opened.settings.folder
    done = await asyncio.to_thread(CliRunner().invoke, cli, ["compact", "--data", str(folder)])
    assert done.exit_code == 0, done.output
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert [file.name for file in files if b"checking good" in file.read_bytes()] == []


async def test_with_its_result_an_output_is_forgotten_and_the_check_runs_again(tmp_path: Path) -> None:
    month = Retention(dict.fromkeys(ItemType, timedelta(days=30)), "Ada", "a month is enough")
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=SETS, background=True, check=(CHECK,)
    ) as board:
        (ann,) = (await board.join("ann"),)
        await ann.say("artifact_write", path="sums.txt", content="good")
        await news(ann, "sums passed at rev 1")
        assert "checking good" in await ann.say("artifact_read", path="check:sums")
        await Table(board.opened.store).prune()
        board.clock.advance(40 * 86_400)
        assert "E-1" in [one.id for one in await Keeper(board.opened.store, month, "test").round("main")]
        assert (await ann.fail("artifact_read", path="check:sums"))["error"] == "not_found"
        assert "checks: sums has not run yet" in await ann.say("artifact_list")
        await ann.say("artifact_write", path="other.txt", content="x")  # it is due, and the server looks now
        await news(ann, "sums passed at rev 2")
        assert "checking good" in await ann.say("artifact_read", path="check:sums")
