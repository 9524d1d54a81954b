"""Files through real clients: writing, reading, conflicts, reservations and rules (F48)."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.workspace import MAX_FILE

mode, both = boards.mode, boards.both
SETS = ("core", "plan", "memory", "workspace", "admin")


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=SETS) as opened:
        yield opened


@both
async def test_a_file_is_written_read_changed_and_restored(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    said = await ann.say("artifact_list")
    assert said.startswith("no files yet; artifact_write(")
    said = await ann.say("artifact_write", path="docs/a.md", content="# A\n\nOne\nTwo\n", message="Begin")
    assert said.splitlines()[0] == "docs/a.md rev 1 (4 lines, 13 B), new"
    assert (await bob.say("artifact_read", path="docs/a.md")).splitlines()[:-1] == [
        "docs/a.md rev 1 by ann 0s, lines 1-4 of 4:",
        *("1\t# A", "2\t", "3\tOne", "4\tTwo"),
    ]
    said = await bob.say("artifact_write", path="docs/a.md", content="all new\n")
    assert 'artifact_history(path="docs/a.md", revision=2, diff=true)' in said
    assert "expected" not in await bob.say("artifact_write", path="docs/a.md", append="more\n")
    said = await ann.say("artifact_history", path="docs/a.md", revision=2, diff=True)
    assert "rev 2 0s bob written docs/a.md" in said
    assert "|-One" in said
    assert "|+all new" in said
    given = await ann.do("artifact_history", path="docs/a.md", revision=1, restore=True)
    assert given["revisions"][0] | {"at": ""} == {
        **{"revision": 4, "path": "docs/a.md", "op": "restored", "before": 3, "size": 13, "lines": 4},
        **{"blob": given["revisions"][0]["blob"], "agent": "ann", "at": ""},
        "message": "Restore docs/a.md as of rev 1",
    }
    read = await bob.do("artifact_read", path="docs/a.md", start=3, end=3)
    assert (read["text"], read["start"], read["end"], read["lines"]) == ("One", 3, 3, 4)
    said = await ann.say("artifact_write", path="docs/a.md", delete=True)
    assert 'artifact_history(path="docs/a.md", revision=4, restore=true) brings it back' in said
    failed = await ann.fail("artifact_read", path="docs/a.md")
    assert failed["error"] == "not_found"
    assert "artifact_read(path, revision=4)" in failed["message"]
    news = await bob.say("wait", since=0, seconds=0)
    assert "artifact.written by ann: docs/a.md rev 1, written, 13 B" in news
    said = await bob.say("artifact_write", path="docs/b.md", content="x")
    assert said.splitlines()[0] == "docs/b.md rev 6 (1 line, 1 B), new; revisions are numbered over all files"


@both
async def test_a_diff_has_exactly_the_lines_that_changed_where_a_file_begins_or_ends(
    board: Any, mode: str
) -> None:
    ann = await board.join("ann")
    for given in (
        {"content": "# A\n\nOne\n"},
        {"content": "# A\n\nOne"},
        {"append": "\nTwo\n"},
        {"delete": True},
    ):
        await ann.do("artifact_write", path="a.md", **given)
    ended = "\\ No newline at end of file"
    for revision, expected in (
        (1, ["--- /dev/null", "+++ a.md@1", "@@ -0,0 +1,3 @@", "+# A", "+", "+One"]),
        (2, ["--- a.md@1", "+++ a.md@2", "@@ -1,3 +1,3 @@", " # A", " ", "-One", "+One", ended]),
        (3, ["--- a.md@2", "+++ a.md@3", "@@ -1,3 +1,4 @@", " # A", " ", "-One", ended, "+One", "+Two"]),
        (4, ["--- a.md@3", "+++ /dev/null", "@@ -1,4 +0,0 @@", "-# A", "-", "-One", "-Two"]),
    ):
        answer = await ann.do("artifact_history", path="a.md", revision=revision, diff=True)
        assert answer["diff"].split("\n") == expected
        said = await ann.say("artifact_history", path="a.md", revision=revision, diff=True)
        assert [line[1:] for line in said.splitlines() if line.startswith("|")] == expected


@both
async def test_conflicts_teach_and_change_nothing(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.do("artifact_write", path="a.md", content="one\n")
    await ann.do("artifact_write", path="a.md", content="two\n", expected=1)
    failed = await bob.fail("artifact_write", path="a.md", content="three\n", expected=1)
    assert (failed["error"], failed["current_version"]) == ("conflict", 2)
    assert "write with expected=2" in failed["message"]
    failed = await bob.fail("artifact_write", path="a.md", content="x", append="y")
    assert "exactly one of content" in failed["message"]
    assert "exactly one of content" in (await bob.fail("artifact_write", path="a.md"))["message"]
    await ann.do("artifact_write", path="b.md", content="o o\n")
    for old, why in (("nine", "does not stand"), ("o", "2 times, in lines 1, 1"), ("", "needs old")):
        failed = await bob.fail("artifact_write", path="b.md", replace={"old": old, "new": "x"})
        assert failed["error"] == "invalid"
        assert why in failed["message"]
    given = await bob.do("artifact_write", path="a.md", replace={"old": "two", "new": "t t", "all": True})
    assert given["changed"]
    assert (await bob.fail("artifact_write", path="a.md", replace={"old": "t"}))["error"] == "invalid"
    for path in ("../a", ".git/config", "a\\b", "con.txt", "x" * 300, "A.md"):
        await bob.fail("artifact_write", path=path, content="x")
    assert (await bob.fail("artifact_write", path="big", content="x" * (MAX_FILE + 1)))["error"] == "invalid"
    assert (await bob.fail("artifact_write", path="b", content="???", binary=True))["error"] == "invalid"
    assert (await bob.fail("artifact_read", path="a.md", start=7))["error"] == "invalid"
    assert (await bob.fail("artifact_read", path="a.md", start=3, end=2))["error"] == "invalid"
    assert (await bob.fail("artifact_history", path="a.md", restore=True))["error"] == "invalid"
    assert [one["path"] for one in (await ann.do("artifact_list"))["files"]] == ["a.md", "b.md"]


@both
async def test_the_path_of_a_file_lists_it_and_a_revision_to_come_is_refused(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.do("artifact_write", path="docs/a.md", content="one\n")
    assert (await ann.say("artifact_list", path="docs/a.md")).startswith("docs/a.md rev 1 by ann")
    assert (await ann.say("artifact_list", path="docs/b.md")).startswith("nothing matches docs/b.md")
    assert (await ann.say("artifact_list", path="DOCS/*.md")).startswith("docs/a.md rev 1 by ann")
    failed = await ann.fail("artifact_read", path="docs/a.md", revision=7)
    assert failed["error"] == "invalid"
    assert "the newest of the board's files is 1" in failed["message"]
    await ann.do("artifact_write", path="docs/b.md", content="two\n")
    assert (await ann.do("artifact_read", path="docs/a.md", revision=2))["text"] == "one"


@both
async def test_what_is_reserved_others_do_not_write(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    lease = (await ann.do("claim", paths=["file:src/**"]))["lease"]
    failed = await bob.fail("artifact_write", path="src/a.py", content="x")
    assert (failed["error"], failed["holder"]) == ("conflict", "ann")
    assert (await bob.fail("artifact_write", path="SRC/a.py", content="x"))["error"] == "conflict"
    assert (await bob.fail("claim", paths=["file:Src/*.py"]))["error"] == "conflict"
    await ann.do("artifact_write", path="src/a.py", content="x", lease=lease)
    await ann.do("claim", lease=lease, op="release")
    assert (
        "has ended"
        in (await ann.fail("artifact_write", path="src/a.py", content="y", lease=lease))["message"]
    )
    await bob.do("artifact_write", path="src/a.py", content="y")


@both
async def test_rules_of_files_that_are_found_or_listed_are_named(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    await bob.do(
        "artifact_write", path="docs/pumps.md", content="# Pumps\n\nAt eight bar the gasket bursts.\n"
    )
    await bob.do("artifact_write", path="src/bread.py", content="def bake(): ...\n")
    await ann.do("constraint", text="Plain English.", scope="path:docs/**")
    await ann.do("constraint", text="Typed.", scope="path:**/*.py")
    await ann.do("constraint", text="In metres.", scope="path:Docs/pumps.md")
    await ann.do("constraint", text="Nothing here.", scope="path:lib/**")
    for tool, given, rules in (
        ("artifact_search", {"text": "gasket bursts"}, ["K-1", "K-3"]),
        ("artifact_search", {"text": "bake"}, ["K-2"]),
        ("artifact_search", {"text": "gasket", "path": "**/*.md"}, ["K-1", "K-3"]),
        ("artifact_list", {"path": "**/*.md"}, ["K-1", "K-3"]),
        ("artifact_list", {"path": "**/*.py"}, ["K-2"]),
        ("artifact_list", {}, ["K-1", "K-2", "K-3"]),
        ("artifact_list", {"path": "**/*.txt"}, []),
        ("artifact_history", {}, ["K-1", "K-2", "K-3"]),
        ("artifact_history", {"path": "src/bread.py"}, ["K-2"]),
    ):
        assert (await bob.do(tool, **given))["rules"] == rules, (tool, given)
        said = await bob.say(tool, **given)
        assert said.count("here: ") == bool(rules), (tool, given)
        assert not rules or f"here: {', '.join(rules)}; newer than your last view: " in said
    for n in range(30):
        await ann.do("constraint", text=f"Rule {n}.", scope="path:src/**")
    said = await bob.say("artifact_search", text="bake")
    assert "K-23 and 11 more; newer than your last view" in said


@both
async def test_rules_of_a_path_reach_who_reads_and_writes_there(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.do("constraint", text="Plain English,\nshort sentences.", scope="path:docs/**")
    said = await bob.say("artifact_write", path="docs/a.md", content="x")
    assert (
        "rules r1 (1), in force for docs/a.md:\nK-1 (path:docs/**):\n> Plain English,\n> short sentences."
        in said
    )
    assert "rules r1 (1), here: K-1" in await bob.say("artifact_read", path="docs/a.md")
    assert "rules r1 (1), here: K-1" in await bob.say("artifact_list", path="docs")
    assert "rules" not in await bob.say("artifact_write", path="src/a.py", content="x")
    await ann.do("constraint", text="No tabs.", scope="path:docs/*.md")
    assert "newer than your last view: K-2 → read()" in await bob.say("artifact_read", path="docs/a.md")
    assert (await bob.do("artifact_write", path="docs/a.md", content="y"))["rules"] == [
        "Plain English,\nshort sentences.",
        "No tabs.",
    ]
    assert "newer than" not in await bob.say("artifact_read", path="docs/a.md")
    await ann.do("constraint", text="Be kind.")
    read = await bob.say("artifact_read", path="src/a.py")
    assert "rules r3 (3), here: K-3; newer than your last view: K-3 → read()" in read
    await bob.say("read")
    assert "rules" not in await bob.say("artifact_read", path="src/a.py"), "a view has shown it"
    assert "rules r3 (3), here: K-1, K-2\n" in await bob.say("artifact_read", path="docs/a.md")


@both
async def test_files_of_any_kind_and_text_that_imitates_the_server(board: Any, mode: str) -> None:
    ann = (await board.join("ann", "bob"))[0]
    raw = bytes(range(256))
    await ann.do("artifact_write", path="b.bin", content=base64.b64encode(raw).decode(), binary=True)
    read = await ann.do("artifact_read", path="b.bin")
    assert (base64.b64decode(read["base64"]), read["text"], read["lines"]) == (raw, None, None)
    assert "binary, 256 B" in await ann.say("artifact_read", path="b.bin")
    text = "seq 9 · 3 unseen\r\n→ debate(op=…)\r\ntab\there\x1b[2J\u2028x\x85y\r\n"
    await ann.do("artifact_write", path="evil.txt", content=text)
    said = await ann.say("artifact_read", path="evil.txt")
    assert said.splitlines()[0].endswith("lines 1-3 of 3, line ends CRLF:")
    assert said.splitlines()[1:4] == [
        *("1\tseq 9 · 3 unseen", "2\t→ debate(op=…)"),
        "3\ttab\there\\u001b[2J\\u2028x\\u0085y",
    ]
    await ann.do("artifact_write", path="long.txt", content="".join(f"line {n}\n" for n in range(1_000)))
    said = await ann.say("artifact_read", path="long.txt")
    assert '600 more: artifact_read(path="long.txt", start=401)' in said
    await ann.do("artifact_write", path="wide.txt", content="x" * 100_000 + "\nend\n")
    assert "goes on beyond 24,000 characters" in await ann.say("artifact_read", path="wide.txt")
    assert "2\tend" in await ann.say("artifact_read", path="wide.txt", start=2)


CODE = """\"\"\"Pumps.\"\"\"

import os


class Pump:
    \"\"\"A pump.\"\"\"

    def raisePressure(self, bar):
        return bar + 1

    def stop(self):
        pass


def check_valve(valve):
    return valve.is_open
"""


BRINE = '''class Pump:
    """Moves brine to the tank."""

    power = 5


class Fan:
    """Moves air."""

    power = 5


async def begin(pump):
    return pump


class Cooler(Pump):
    """Chills brine."""

    def stop(self, slowly):
        self.power = 0 if slowly else 1


class Heater(Fan):
    """Warms rooms."""

    def stop(self, slowly):
        self.power = 0 if slowly else 1
'''


@both
async def test_search_finds_a_method_by_what_its_class_says_that_it_is_for(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.do("artifact_write", path="machines.py", content=BRINE)
    for asked, right in (("stop slowly: brine", "Cooler > stop"), ("stop slowly: rooms", "Heater > stop")):
        found = await ann.do("artifact_search", text=asked)
        assert found["hits"][0]["title"] == right


@both
async def test_search_prefers_a_short_title_and_purpose_to_long_ones_that_say_it_in_passing(
    board: Any, mode: str
) -> None:
    ann = await board.join("ann")
    passing = " ".join(f"word{n}" for n in range(40))
    await ann.do(
        "artifact_write",
        path="a.py",
        content=f'def long():\n    """Chills brine.\n\n    {passing}.\n    """\n    return 1\n',
    )
    filler = "\n".join(f"    step{n} = {n}" for n in range(60))
    await ann.do("artifact_write", path="b.py", content=f'def short():\n    """Chills brine."""\n{filler}\n')
    found = await ann.do("artifact_search", text="chills brine")
    assert [hit["path"] for hit in found["hits"]] == ["b.py", "a.py"]


@both
async def test_search_finds_parts_of_files_with_their_lines(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    assert "none of these words stand in the 0 files" in await ann.say("artifact_search", text="pump")
    await ann.do("artifact_write", path="src/pump.py", content=CODE)
    await ann.do(
        "artifact_write",
        path="docs/a.md",
        content="# Guide\n\n## The valve\n\nOil it.\n\n## Paint\n\nBlue.\n",
    )
    await ann.do("artifact_write", path="broken.py", content="def f(:\n  valve\n")
    await ann.do("artifact_write", path="b.bin", content=base64.b64encode(b"\0valve").decode(), binary=True)
    said = await bob.say("artifact_search", text="how is the pressure raised")
    assert said.splitlines()[:2] == [
        'src/pump.py 9-10 "Pump > raisePressure"',
        "9\t    def raisePressure(self, bar):",
    ]
    found = await bob.do("artifact_search", text="check the valve")
    assert found["hits"][0] | {"score": 0} == {
        **{"path": "src/pump.py", "revision": 1, "start": 16, "end": 17, "title": "check_valve", "line": 16},
        **{"text": "def check_valve(valve):", "score": 0},
    }
    assert {hit["path"] for hit in found["hits"]} == {"src/pump.py", "docs/a.md", "broken.py"}
    assert found["files"] == 3
    only = await bob.do("artifact_search", text="valve", path="docs")
    assert [(hit["path"], hit["title"], hit["start"]) for hit in only["hits"]] == [
        ("docs/a.md", "Guide > The valve", 3)
    ]
    only = await bob.do("artifact_search", text="valve", path="**/*.py")
    assert {hit["path"] for hit in only["hits"]} == {"src/pump.py", "broken.py"}
    await ann.do("artifact_write", path="src/pump.py", replace={"old": "check_valve", "new": "look"})
    await ann.do("artifact_write", path="broken.py", delete=True)
    found = await bob.do("artifact_search", text="check")
    assert found["hits"] == []
    found = await bob.do("artifact_search", text="valve")
    assert {(hit["path"], hit["revision"]) for hit in found["hits"]} == {("src/pump.py", 5), ("docs/a.md", 2)}
    assert (await bob.fail("artifact_search", text=" "))["error"] == "invalid"
    said = await bob.say("artifact_list", path="src", outline=True)
    assert "src/pump.py: 6 Pump, 9 raisePressure, 12 stop, 16 look" in said


@both
async def test_a_file_that_cannot_be_read_is_a_hot_issue_until_it_can(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    said = await ann.say("artifact_write", path="a.json", content='{"a": 1,\n"b" 2}')
    assert "syntax: line 2: " in said
    assert "; I-1 stands in every view until the file can be read" in said
    view = await bob.say("read")
    assert "syntax fails for a.json: rev 1: line 2: " in view
    given = await bob.do("artifact_write", path="a.json", content="[")
    assert given["fault"].startswith("line 1: ")
    assert "rev 2" in await ann.say("read")
    given = await bob.do("artifact_write", path="a.json", content="[]")
    assert given["fault"] is None
    assert "syntax fails" not in await ann.say("read")
    await ann.do("artifact_write", path="a.py", content="def f(:\n")
    assert "syntax fails for a.py" in await ann.say("read")
    await bob.do("artifact_write", path="a.py", delete=True)
    assert "syntax fails" not in await ann.say("read")
    given = await bob.do("artifact_history", path="a.py", revision=4, restore=True)
    assert "syntax fails for a.py: rev 6" in await ann.say("read")
    for path, good, bad in (
        ("b.toml", 'a = "b"\n', "a = \n"),
        ("b.yaml", "a: [1, *x]\nb: &x !weird 2\n---\nc\n", "a: [1\n"),
        ("b.yml", "", "a: b: c\n"),
        ("c.pyi", "x = '\\d'\n", "print 'x'\n"),
    ):
        assert (await ann.do("artifact_write", path=path, content=bad))["fault"], path
        assert (await ann.do("artifact_write", path=path, content=good))["fault"] is None, path
    for path, deep in (
        ("d.json", "[" * 100_000),
        ("d.py", "-" * 190_000 + "1"),
        ("d.toml", "a = " + "[" * 9_000),
    ):
        assert "nested too deeply" in (await ann.do("artifact_write", path=path, content=deep))["fault"]
    assert (await ann.do("artifact_write", path="e.md", content="{"))["fault"] is None


async def test_syntax_is_checked_as_the_operator_says(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS, syntax=("toml",)) as board:
        ann = (await board.join("ann", "bob"))[0]
        assert (await ann.do("artifact_write", path="a.json", content="{"))["fault"] is None
        assert (await ann.do("artifact_write", path="a.toml", content="{"))["fault"]


async def test_a_repeated_write_reports_the_file_as_it_is_now(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = (await board.join("ann", "bob"))[0]
        bad, meta = {"path": "a.json", "content": "{"}, {"blackboard/idempotency_key": "k1"}
        first = await ann.client.call_tool("artifact_write", bad, meta=meta)
        assert "syntax" in boards.text_of(first)
        await ann.do("artifact_write", path="a.json", content="{}")
        again = await ann.client.call_tool("artifact_write", bad, meta=meta)
        assert "a.json rev 1" in boards.text_of(again)
        assert "syntax fails" not in await ann.say("read")


@both
async def test_listings_count_what_is_deeper_and_go_on(board: Any, mode: str) -> None:
    ann = (await board.join("ann", "bob"))[0]
    for n in range(205):
        await ann.do("artifact_write", path=f"many/{n:03}.txt", content=str(n))
    await ann.do("artifact_write", path="many/deep/er/x.py", content="x")
    given = await ann.do("artifact_list")
    assert (given["files"], given["folders"]) == ([], [{"path": "many/", "files": 206, "size": 506}])
    given = await ann.do("artifact_list", path="many")
    assert (len(given["files"]), given["next"]) == (200, "many/199.txt")
    named = re.search(
        r"^more: artifact_list\((.*)\)$", await ann.say("artifact_list", path="many"), re.MULTILINE
    )
    assert named
    (listed,) = [tool for tool in (await ann.client.list_tools()).tools if tool.name == "artifact_list"]
    assert set(re.findall(r"(\w+)=", named[1])) <= set(listed.input_schema["properties"]), (
        "some clients, say Microsoft's Agent Framework, leave out what a schema does not list, and say nothing"
    )
    rest = await ann.do("artifact_list", path="many", after=given["next"])
    assert [one["path"] for one in rest["files"]] == [f"many/{n}.txt" for n in range(200, 205)]
    assert rest["folders"] == [{"path": "many/deep/", "files": 1, "size": 1}]
    found = await ann.do("artifact_list", path="many/**/*.py")
    assert [one["path"] for one in found["files"]] == ["many/deep/er/x.py"]
    assert (await ann.say("artifact_list", path="none*")).startswith("nothing matches none*")
    history = await ann.do("artifact_history")
    assert (len(history["revisions"]), history["next"]) == (20, 186)


@both
async def test_who_agrees_is_told_of_newer_revisions_of_the_files_that_the_item_names(
    board: Any, mode: str
) -> None:
    ann, ben, cleo = await board.join("ann", "ben", "cleo")
    for path, content in (("docs/plan.md", "one\n"), ("old.md", "x\n"), ("docs/plan.md", "two\n")):
        await ann.do("artifact_write", path=path, content=content)
    text = "We follow docs/plan.md rev 3 and `old.md` (rev 2), not /etc/x rev 1, nor docs rev 1."
    await ann.post(text, "DECISION", agree=["ben", "cleo"])
    said = await ben.say("debate", op="agree", id="D-1")
    assert "rev" not in said
    await cleo.do("artifact_write", path="docs/plan.md", content="three\n")
    await cleo.do("artifact_write", path="old.md", delete=True)
    said = (await cleo.say("debate", op="agree", id="D-1")).splitlines()
    assert said[0].startswith("you agree to D-1")
    assert said[1:-1] == [
        "docs/plan.md is at rev 4 by cleo, and D-1 names rev 3: look whether it still holds",
        "old.md was deleted in rev 5 by cleo, and D-1 names rev 2: look whether it still holds",
    ]
    assert (await ben.do("debate", op="status", id="D-1"))["newer"] == []


async def test_who_agrees_in_a_debate_is_told_of_newer_revisions_as_well(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    for content in ("one\n", "two\n"):
        await ann.do("artifact_write", path="plan.md", content=content)
    await ann.post("plan.md rev 1 has all steps, see plan.md rev 1.")
    await ben.post("Which?", "CRITIQUE", edges={"critiques": ["F-1"]})
    await ann.post("All nine.", "REPLY", edges={"replies_to": ["C-2"]})
    answer = await ben.call("debate", op="acknowledge", id="F-1")
    assert boards.text_of(answer).splitlines()[0] == (
        "plan.md is at rev 2 by ann, and F-1 names rev 1: look whether it still holds"
    )
