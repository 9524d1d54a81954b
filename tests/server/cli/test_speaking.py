"""What a person says and steers from the command line, to a folder and to a server with tokens."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.cli import _COMMANDS, cli
from blackboard_mcp.server.demo.process import environment
from commands import PROGRAM, answered, on_terminal, refused, run, said, serving, token
from patience import PATIENCE, RUN, until

GIVEN = {"speaking", "steering", "inspect", "watch"}
"""Modules of commands that have an example each."""


async def furnish(data: Path) -> None:
    """H-1 with the critique C-4, the question Q-2, D-3 that the operator is asked to agree to, and H-5 archived; H-7,
    which its critic decided on, and H-10 of the operator's."""
    async with Board.open(data=data, agent="ann", settings={"synchronous": "NORMAL"}) as ann:
        await ann.post("the release is safe", type="HYPOTHESIS")
        await ann.post("When did it burst?", type="QUESTION")
        await ann.post("we stop the line", type="DECISION", agree=["operator"])
        operator = ann.as_agent("operator")
        await operator.post("nobody tested it", type="CRITIQUE", edges={"critiques": ["H-1"]})
        await ann.post("it was the valve", type="HYPOTHESIS")
        await ann.post("it was the pump", type="HYPOTHESIS", edges={"supersedes": ["H-5"]})
        await ann.post("the seal held", type="HYPOTHESIS")
        cid = ann.as_agent("cid")
        await cid.post("it leaked", type="CRITIQUE", edges={"critiques": ["H-7"]})
        await ann.post("not before noon", type="REPLY", edges={"replies_to": ["C-8"]})
        await operator.post("the log is complete", type="HYPOTHESIS")
        await cid.decide("H-7", "the photo settles it", outcome="falls")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of a server that asks for tokens, and its folder."""
    data = tmp_path_factory.mktemp("served")
    data.chmod(0o700)
    with serving(data) as (url, _):
        yield url, data


@pytest.fixture(params=["folder", "server"])
def people(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What ann and ben have in their environment to speak on one board that has nothing but a note."""
    if request.param == "folder":
        asyncio.run(furnish(tmp_path))
        ann, ben = ({"BLACKBOARD_DATA": str(tmp_path), "BLACKBOARD_AGENT": name} for name in ("ann", "ben"))
        return ann, ben
    url, data = request.getfixturevalue("server")
    board = {"BLACKBOARD_URL": url, "BLACKBOARD_BOARD": f"b{len(list(tmp_path.parent.iterdir()))}"}
    ann = board | {"BLACKBOARD_TOKEN": token(data, "--agent", "ann", "--role", "admin")}
    file = tmp_path / "token"
    file.write_text(token(data, "--agent", "ben", "--role", "decider") + "\n")
    file.chmod(0o600)
    return ann, board | {"BLACKBOARD_TOKEN_FILE": str(file)}


def test_people_speak_and_settle_a_debate(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    claim = answered(ann, "post", "the pump burst at 9 bar", "--type", "hypothesis", "--tag", "pump")[
        "items"
    ][0]
    assert (claim["author"], claim["type"], claim["tags"]) == ("ann", "HYPOTHESIS", ["pump"])
    assert said(ann, "post", "-", "--edge", "supports", claim["id"], stdin="two\nlines\n").startswith(
        "posted fact F-"
    )
    assert f"no debate is open on {claim['id']}" in said(ann, "critique", claim["id"], "is it?")
    told = said(ben, "critique", claim["id"], "the log says 8 bar")
    assert f"a debate on {claim['id']} is open: its author answers" in told
    objection = re.search(r"C-\d+", told)[0]  # type: ignore[index]
    unanswered = refused(ben, "acknowledge", claim["id"])
    assert "has no answer yet" in unanswered
    assert f"add evidence (--edge supports {objection})" in unanswered
    owed = refused(ann, "acknowledge", claim["id"])
    assert f"`blackboard-mcp reply {objection} TEXT`" in owed
    assert said(ben, "debate", claim["id"]).splitlines()[1:] == [f"  waits for ann to respond {objection}"]
    assert "OPEN" in said(ann, "vote", claim["id"], "--against")
    assert f"Only ann, its author, may withdraw {claim['id']}" in refused(ben, "withdraw", claim["id"])
    assert said(ann, "reply", objection, "it is the other log").startswith("posted reply R-")
    assert "waits for ben to acknowledge" in said(ben, "pin", claim["id"]) + said(
        ben, "decide", claim["id"], "stands", "so"
    )
    settled = said(ben, "acknowledge", claim["id"], "--reason", "I see")
    assert settled.startswith(f"{claim['id']}: the debate is CONSENSUS: {claim['id']} stands")
    again = answered(ben, "critique", claim["id"], "still wrong")["items"][0]["id"]
    assert said(ben, "withdraw", again) == f"{again}: the debate is WITHDRAWN: {claim['id']} stands\n", (
        "the debated item stands, not the critique"
    )
    wrong = answered(ann, "post", "the pump burst at noon", "--type", "hypothesis")["items"][0]["id"]
    foreign = refused(ben, "concede", wrong)
    assert "No debate is open" in foreign
    assert "only ann, its author, gives it up" in foreign
    assert f"`blackboard-mcp critique {wrong} TEXT`" in foreign
    assert (
        said(ann, "concede", wrong, "--reason", "it was one")
        == f"{wrong}: the debate is CONSENSUS: {wrong} falls\n"
    )
    note = answered(ann, "post", "a note")["items"][0]["id"]
    assert said(ann, "withdraw", note) == f"{note} is WITHDRAWN\n"
    assert said(ann, "post", "--id", claim["id"], "--importance", "5").startswith(
        f"{claim['id']} is at version 1"
    )


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("post", "-"), b"one\ncaf\xe9\n"),
        (("ask", "ben", "-"), b"one\ncaf\xe9\n"),
        (("intake",), b'\n{"id": "m1", "kind": "message", "text": "caf\xe9", "thread": "s1"}\n'),
    ],
)
def test_text_on_standard_input_that_is_not_utf_8_is_refused(
    tmp_path: Path, words: tuple[str, ...], given: bytes
) -> None:
    asyncio.run(furnish(tmp_path))
    env = environment() | {"BLACKBOARD_DATA": str(tmp_path), "BLACKBOARD_AGENT": "ann"}
    before = said({"BLACKBOARD_DATA": str(tmp_path)}, "query")
    for coding in ("utf-8:strict", "utf-8:surrogateescape"):
        done = subprocess.run(
            [*PROGRAM, *words],
            input=given,
            capture_output=True,
            timeout=RUN,
            env=env | {"PYTHONIOENCODING": coding},
        )
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().splitlines() == [
            "blackboard-mcp: The text on standard input is not UTF-8: line 2 has the byte 0xe9. Nothing was changed; "
            "convert the text, say with `iconv -f latin1 -t utf-8`."
        ]
    assert said({"BLACKBOARD_DATA": str(tmp_path)}, "query") == before


def test_an_empty_name_speaks_for_nobody(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, _ = people
    told = run(ann, "post", "who says so?", "--agent", "")
    assert told.returncode == 2
    assert "'--agent': it is empty; leave it out for the default" in told.stderr
    answered(ann, "post", "so say I")
    assert "who says so?" not in said(ann, "query")


def test_people_ask_and_answer(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    answered(ben, "post", "here I am")
    told = said(ann, "ask", "ben", "which log?")
    asked = re.match(r"(Q-\d+) to ben: OPEN, until ", told)[1]  # type: ignore[index]
    with subprocess.Popen(
        [*PROGRAM, "ask", "ben", "and which line?", "--wait"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | ann,
    ) as waiting:
        second = f"Q-{int(asked[2:]) + 1}"
        until(lambda: run(ben, "reply", second, "the third line").returncode == 0)
        assert waiting.stdout is not None
        assert "the third line" in waiting.stdout.read()
        assert waiting.wait(PATIENCE) == 0
    assert said(ben, "reply", asked, "the second").startswith("posted answer A-")


def test_people_bring_back_what_was_archived(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, _ = people
    old = answered(ann, "post", "it was the valve", "--type", "plan")["items"][0]["id"]
    answered(ann, "post", "it was the pump", "--type", "plan", "--edge", "supersedes", old)
    assert said(ann, "unarchive", old).startswith(f"{old} is on ")
    assert "H-999 is in the archive" in refused(ann, "unarchive", "H-999")
    assert said(ann, "unarchive", old).startswith("not archived"), "it is on the board, as was wanted"
    assert "Nothing was changed; ids look like H-17" in refused(ann, "unarchive", "the", "valve")


def test_a_number_brings_back_no_other_item_that_holds_it(
    people: tuple[dict[str, str], dict[str, str]],
) -> None:
    ann, _ = people
    live = answered(ann, "post", "it is the pump")["items"][0]["id"]
    number = live.partition("-")[2]
    old = answered(ann, "post", f"valves {number} and 999 leak", "--type", "plan")["items"][0]["id"]
    answered(ann, "post", "they were mended", "--type", "plan", "--edge", "supersedes", old)
    assert said(ann, "unarchive", number) == f"not archived, `blackboard-mcp show` has it: {live}\n"
    assert "nothing of the id 999 is in the archive" in refused(ann, "unarchive", "999")
    assert said(ann, "unarchive", old.partition("-")[2]).startswith(f"{old} is on ")


def test_people_watch_topics(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    claim = answered(ben, "post", "the pump burst at 9 bar", "--tag", "pump")["items"][0]["id"]
    assert said(ann, "pin", "tag:pump") == "debates that open on these ask you: tag:pump\n"
    assert set(answered(ann, "pin", "type:PLAN")["watches"]) == {"tag:pump", "type:PLAN"}
    said(ann, "critique", claim, "it was 8 bar")
    assert answered(ann, "pin", "--off", "tag:pump")["watches"] == ["type:PLAN"]
    assert said(ann, "pin", "--off", "type:PLAN") == "no topic asks you any more\n"
    assert "tag:pump" in refused(ann, "pin", "--off", "tag:pump")
    assert "is no topic" in refused(ann, "pin", "song:pump")


def test_a_decision_does_not_say_that_what_it_is_about_is_settled(
    people: tuple[dict[str, str], dict[str, str]],
) -> None:
    ann, ben = people
    problem = answered(ann, "post", "the pump leaks", "--type", "problem")["items"][0]["id"]
    question = answered(ann, "post", "which seal?", "--type", "question")["items"][0]["id"]
    told = said(ben, "post", f"we mend {problem}", "--type", "decision", "--edge", "derived_from", question)
    closes = f"still open; what is solved: `blackboard-mcp post --id {problem} --status RESOLVED`"
    assert f"  {problem}, {question}: {closes}\n" in told
    assert f"  {question} is settled by an answer only\n" in said(
        ben, "post", "we look it up", "--type", "decision", "--edge", "replies_to", question
    )
    told = said(ann, "post", "I look, too", "--type", "reply", "--edge", "replies_to", question)
    assert f"  {question} waits for nobody any more, unless you asked it yourself\n" in told
    answer = said(ben, "post", "the upper", "--type", "answer", "--edge", "replies_to", question)
    assert f"  {question} waits for nobody any more\n" in answer


def test_a_shown_board_names_commands_and_leaves_texts_as_they_are(
    people: tuple[dict[str, str], dict[str, str]],
) -> None:
    ann, ben = people
    text = 'to end it call debate(op="withdraw", id="C-1"); "so" → agree: wait()'
    claim = answered(ann, "post", text, "--type", "hypothesis")["items"][0]["id"]
    objection = answered(ben, "critique", claim, "it does not: read() shows that")["items"][0]["id"]
    question = answered(ben, "post", "which log?", "--type", "question")["items"][0]["id"]
    wanted = answered(ben, "post", "we stop", "--type", "decision", "--agree", "ann")["items"][0]["id"]
    for who in (ann, ben):
        told = said(who, "show")
        assert text in told
        assert "it does not: read() shows that" in told
        ours = told.replace(text, "").replace("read() shows", "")
        assert not re.search(r"\b(post|read|query|query_archive|wait|debate|respond)\(", ours), told
    told = said(ann, "show")
    assert (
        f"→ answer: `blackboard-mcp reply {objection} TEXT`; it is right: `blackboard-mcp concede {claim}`"
        in told
    )
    assert (
        f"agree: `blackboard-mcp acknowledge {wanted}`; object: `blackboard-mcp critique {wanted} TEXT`"
        in told
    )
    assert f"(answer: `blackboard-mcp reply {question} TEXT`):" in told
    assert text in answered(ann, "show")["view"]


def test_versions_are_shown_a_line_each(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    entry = answered(ann, "post", "draft", "--key", "plan:show", "--type", "plan")["items"][0]["id"]
    answered(ann, "post", "better", "--key", "plan:show")
    said(ann, "post", "--id", entry, "--importance", "2")
    first, newest, older, changed = said(ben, "show", f"{entry}@*").splitlines()[:4]
    assert first == f"{entry} key plan:show: 2 versions"
    assert (newest[:9], older[:9]) == ("@2 by ann", "@1 by ann")
    assert "importance" in changed
    assert [v["newest"] for v in answered(ben, "show", f"{entry}@*")["versions"]] == [2]
    none = run(ben, "show", "P-999@*")
    assert (none.returncode, "not found: P-999@*" in none.stdout) == (1, True), none


def test_people_look_for_what_there_is_and_was(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    said(ann, "post", "the valve of the second line", "--type", "plan", "--tag", "pump")
    old = answered(ann, "query", "second line", "--type", "plan", "--tag", "pump")["items"][0]["id"]
    assert re.fullmatch(
        rf"{old} plan by ann, [\d:]+: the valve of the second line\n", said(ben, "query", "valve of")
    )
    answered(ann, "post", "the pump of the second line", "--type", "plan", "--edge", "supersedes", old)
    assert said(ben, "query", "valve of") == "nothing matches\n"
    told = said(ben, "archive", "valve of the second line", "--author", "ann", "--neighbours")
    assert re.search(rf"{old} plan by ann, archive, .*valve.* \(left: superseded", told), told
    assert answered(ben, "archive", old)["mode"] == "exact"
    why = said(ben, "explain", old, "H-999")
    assert why.startswith(f"{old} plan, archive\n  left ")
    assert f"back with `blackboard-mcp unarchive {old}`\n" in why
    for words in (("explain", "H-999"), ("show", "H-999"), ("show", "H-999", "--json")):
        none = run(ben, *words)
        assert (none.returncode, none.stderr, "999" in none.stdout) == (1, "", True), none
    assert answered(ben, "explain", old)["explanations"][0]["left"]["event"] == "item.superseded"


def test_the_first_post_makes_its_board(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, _ = people
    new = ann | {"BLACKBOARD_BOARD": "b-new"}
    assert "b-new" in refused(new, "agents")
    assert said(new, "post", "first").startswith("posted fact F-1 on b-new")
    assert said(new, "agents").startswith("ann")


def test_an_address_without_a_path_is_that_of_the_server(server: tuple[str, Path]) -> None:
    url, data = server
    given = {"BLACKBOARD_TOKEN": token(data, "--agent", "eve", "--role", "admin")}
    assert said(given, "boards", "--url", url.removesuffix("/mcp")) == said(given, "boards", "--url", url)
    elsewhere = refused(given, "boards", "--url", url.removesuffix("/mcp") + "/foo")
    assert "the address of a board server ends in /mcp" in elsewhere
    safe = refused(given, "boards", "--url", url.replace("http:", "https:"))
    assert "try the address with http:// in the place of https://" in safe


def test_commands_find_the_prefix_of_a_servers_tools(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with serving(data, 0, "--tool-prefix", "bb_") as (url, _):
        ann = {"BLACKBOARD_URL": url, "BLACKBOARD_TOKEN": token(data, "--agent", "ann", "--role", "admin")}
        assert said(ann, "post", "a note").startswith("posted fact F-1")
        assert "a note" in said(ann, "show")
        assert "a note" in said(ann, "query")
        assert said(ann, "core").startswith("core of ")
        assert "a note" in said(ann, "hook", "session-start", stdin="{}")


def test_people_steer_a_board(people: tuple[dict[str, str], dict[str, str]]) -> None:
    ann, ben = people
    answered(ann, "post", "a note")
    answered(ben, "post", "another")
    said(
        ann,
        "core",
        "--objective",
        "find why",
        "--constraint",
        "no tests",
        "--constraint",
        "be kind",
        "--flag",
        "hot=on",
    )
    told = said(ann, "core", "--drop", "1", "--constraint", "write it down", "--flag", "new=off")
    assert told.splitlines()[1:] == [
        "objective: find why",
        "constraint 1: be kind",
        "constraint 2: write it down",
        "flag hot: on",
        "flag new: off",
    ]
    assert answered(ann, "core", "--flag", "hot=")["flags"] == {"new": False}
    assert said(ann, "core").startswith("core of ")
    assert answered(ann, "board", "target_tokens=12000", "policy=lru", "--title", "Pumps")["title"] == "Pumps"
    assert "target_tokens\t12000\n" in said(ann, "board")
    assert "\nann\t" in "\n" + said(ann, "agents")
    assert {one["name"] for one in answered(ann, "agents")["agents"]} >= {"ann", "ben"}
    assert "\tPumps\n" in said(ann, "boards")
    assert "Unknown setting 'no_such'" in refused(ann, "board", "no_such=1")
    said(ann, "board", "--lifecycle", "settled")
    assert "settled" in refused(ann, "post", "too late")
    said(ann, "board", "--lifecycle", "open")
    unsure = run(ann, "board", "--lifecycle", "closed")
    assert unsure.returncode == 2
    assert "closed is for good" in unsure.stderr
    assert "--yes closes it" in unsure.stderr
    said(ann, "post", "it is still open")
    assert "closed" in said(ann, "board", "--lifecycle", "closed", "--yes")
    assert "a closed board stays closed" in refused(ann, "board", "--lifecycle", "open")


def test_a_token_decides_who_speaks_where_and_how_much(server: tuple[str, Path], tmp_path: Path) -> None:
    url, data = server
    asyncio.run(furnish(data))
    at = {"BLACKBOARD_URL": url}
    for shown, why in (
        ({}, "asks for an access token"),
        ({"BLACKBOARD_TOKEN": "bbt_wrong"}, "does not count"),
    ):
        for words in (("post", "nobody"), ("watch", "--seconds", "0")):
            told = refused(at | shown, *words)
            assert why in told
            assert "into a file that --token-file names" in told
            assert "header" not in told
    watcher = at | {"BLACKBOARD_TOKEN": token(data, "--agent", "eve", "--role", "observer")}
    assert "you are its observer" in refused(watcher, "post", "may I?")
    assert said(watcher, "boards").startswith("main\topen\t")
    other = refused(watcher, "boards", "--agent", "ann")
    assert (
        "says that the caller is eve, and --agent (or BLACKBOARD_AGENT) says otherwise: leave it out" in other
    )
    assert "in the clear" in refused(watcher, "boards", "--url", "http://example.com/mcp")
    # The folder that the server serves can be spoken to beside it.
    assert said({"BLACKBOARD_DATA": str(data)}, "post", "by hand").startswith("posted fact F-")
    wins = said(watcher, "post", "by hand", "--data", str(data))
    assert "says the same already, by you" in wins, "the command line wins"
    empty = tmp_path / "empty"
    empty.touch(0o600)
    assert "is empty" in refused(at, "boards", "--token-file", str(empty))
    assert "cannot be read" in refused(at, "boards", "--token-file", str(tmp_path / "none"))
    if os.name == "posix":
        empty.chmod(0o644)
        assert "chmod 600" in refused(at, "boards", "--token-file", str(empty)), "as `connect` has it"


def test_a_board_of_a_server_is_shown_without_its_folder(server: tuple[str, Path]) -> None:
    url, data = server
    ann = {"BLACKBOARD_URL": url, "BLACKBOARD_BOARD": "shown"} | {
        "BLACKBOARD_TOKEN": token(data, "--agent", "ann", "--role", "admin")
    }
    answered(ann, "post", "red \x1b[31m\nsecond line")
    assert said(ann, "show").startswith("board shown · seq ")
    assert answered(ann, "show", "--budget", "300")["tokens"] <= 300
    told = said(ann, "show", "F-1", "F-9")
    assert told.splitlines() == [
        "F-1@1 fact by ann, ACTIVE, importance 4, working",
        r"  red \u001b[31m",
        "  second line",
        "not found: F-9",
    ]
    assert answered(ann, "show", "F-1")["items"][0]["author"] == "ann"


def test_a_server_that_is_not_there_or_none_of_ours_is_said_in_one_line(tmp_path: Path) -> None:
    at = {"BLACKBOARD_URL": "http://127.0.0.1:9/mcp"}
    told = refused(at, "post", "x")
    assert "http://127.0.0.1:9/mcp: No board server answers" in told
    assert "a server is started by `blackboard-mcp serve --transport http`" in told
    for words in (("--url", "nope"), ("--url", "http://127.0.0.1:9/mcp", "--data", str(tmp_path))):
        done = run({}, "post", "x", *words)
        assert (done.returncode, done.stdout) == (2, ""), done


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("reply", "nope", "x"), 1, "Nothing was changed; ids look like H-17"),
        (("reply", "H-99", "x"), 1, "H-99"),
        (("critique", "H-1"), 2, "Missing argument"),
        (("post",), 1, "text"),
        (("post", "-"), 2, "no text on standard input"),
        (("post", "x", "--type", "song"), 2, "'song'"),
        (("post", "x", "--edge", "eats", "H-1"), 2, "'eats'"),
        (("agents", "--board", "none"), 1, "there are: main"),
        (("decide", "H-1", "explodes", "x"), 2, "'stands'"),
        (("withdraw", "F-2", "--reason", "x"), 2, "--reason goes with a critique"),
        (("core", "--flag", "x"), 2, "NAME=on"),
        (("core", "--drop", "7"), 2, "there is no constraint 7"),
        (("board", "x"), 2, "NAME=VALUE"),
        (("ask", "a b", "x"), 1, "a b"),
        (("post", "x", "--agent", "\x1b[31m"), 1, "agent's name"),
        (("post", "x", "--status", "\x1b[31m\u202e"), 2, "tatus"),
        (("post", "x", "--status", "foo"), 2, "'active'"),
        (("post", "x", "--ttl-seconds", "-4"), 2, "--ttl-seconds"),
        (("post", "x", "--ttl-seconds", "1e12"), 1, "blackboard-mcp: --ttl-seconds must"),
        (("post", "--id", "H-1", "--importance", "5"), 1, "answer it with `blackboard-mcp reply`"),
        (("decide", "H-1", "amended", "x"), 1, "amended goes with --to ID"),
        (("watch", "--event", "foo", "--seconds", "0"), 1, "--event: 'foo'"),
        (("watch", "--thread", "F-999", "--seconds", "0"), 1, "--thread: no item 999"),
    ],
)
def test_what_is_wrong_is_taught_and_nothing_raw_comes_back(
    words: tuple[str, ...], code: int, part: str, data: Path
) -> None:
    done = run({"BLACKBOARD_DATA": str(data)}, *words)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not re.search("[\x1b\u202e]", done.stderr)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no test of this file changes."""
    folder = tmp_path_factory.mktemp("furnished")
    asyncio.run(furnish(folder))
    return folder


def test_text_of_agents_cannot_speak_to_a_terminal(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    given = {"BLACKBOARD_DATA": str(tmp_path)}
    said(given, "core", "--objective", "red \x1b[31m \u202e turned", "--constraint", "two\nlines")
    told = said(given, "core")
    assert r"objective: red \u001b[31m \u202e turned" in told
    assert "constraint 1: two\\u000alines\n" in told
    shown = on_terminal(given, "core")
    assert r"\u001b[31m \u202e turned" in shown
    assert "\x1b[31m" not in shown


def test_brackets_and_colons_in_texts_mean_nothing_to_a_terminal(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    given = {"BLACKBOARD_DATA": str(tmp_path), "COLUMNS": "200"}
    text = "[bold]loud[/bold] [link=http://x.y]here[/link] [/] :smile:"
    said(given, "board", "--title", text)
    said(given, "core", "--objective", text)
    for words in (("boards",), ("core",)):
        assert text in on_terminal(given, *words), words


def test_a_terminal_gets_colours_and_a_pipe_none(data: Path) -> None:
    given = {"BLACKBOARD_DATA": str(data)}
    assert "\x1b[" not in said(given, "agents")
    coloured = on_terminal(given, "agents")
    assert "\x1b[" in coloured
    assert "last seen" in coloured
    plain = on_terminal(given | {"NO_COLOR": "1"}, "agents")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain)
    assert "ann" in plain


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("words", [["show"], ["boards"], ["boards", "--json"], ["export"]], ids=" ".join)
def test_a_full_device_ends_a_command_with_one_line(data: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *words, "--data", str(data)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["blackboard-mcp: cannot write the output: No space left on device"]


@pytest.mark.skipif(os.name == "nt", reason="no shell")
def test_a_reader_that_goes_away_ends_a_command_without_a_word(data: Path) -> None:
    command = " ".join([*PROGRAM, "board", "--data", str(data)])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (1, ""), "not all was told"


def test_a_pipe_and_a_folder_cost_no_terminal_and_no_client(data: Path) -> None:
    code = (
        "import sys; from blackboard_mcp.server.cli import cli; cli.main(sys.argv[1:], standalone_mode=False)\n"
        "print('loaded', sorted({'rich', 'mcp', 'lancedb', 'pyarrow'} & sys.modules.keys()))"
    )
    for words in (("agents",), ("watch", "--seconds", "0"), ("verify",)):
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--data", str(data)], capture_output=True, text=True
        )
        assert done.stdout.endswith("loaded []\n"), done


def test_the_example_of_every_command_does_what_it_says(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    group = cli
    assert isinstance(group, click.Group)
    for name in [name for name, (module, _) in _COMMANDS.items() if module in GIVEN and name != "show"]:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        example = str(command.epilog).removeprefix("Example: ")
        assert example.startswith(f"blackboard-mcp {name}")
        assert said({"BLACKBOARD_DATA": str(tmp_path)}, *shlex.split(example)[1:])


def test_a_shell_completes_commands_options_and_choices(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("blackboard-mcp")

    def completed(words: str) -> list[str]:
        told = {
            "_BLACKBOARD_MCP_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = subprocess.run([program], capture_output=True, text=True, env=environment() | told)
        return [line.split(",")[-1] for line in done.stdout.splitlines()]

    assert completed("blackboard-mcp crit") == ["critique"]
    assert set(completed("blackboard-mcp ")) == set(_COMMANDS)
    assert completed("blackboard-mcp decide H-1 ") == ["stands", "falls", "amended"]
    assert "--token-file" in completed("blackboard-mcp post --t")
    for shell in ("bash", "zsh", "fish"):
        told = {"_BLACKBOARD_MCP_COMPLETE": f"{shell}_source"}
        done = subprocess.run([program], capture_output=True, text=True, env=environment() | told)
        assert "blackboard-mcp" in done.stdout, done


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process waits")
def test_one_ctrl_c_ends_the_question_whether_to_close_a_board(tmp_path: Path) -> None:
    import pty

    asyncio.run(furnish(tmp_path))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "board", "--lifecycle", "closed"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment() | {"BLACKBOARD_DATA": str(tmp_path), "BLACKBOARD_AGENT": "ann"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as asking:
        os.close(theirs)
        found = b""
        while b"Close it? [y/N]" not in found:
            found += os.read(ours, 4096)
        # Between the question and its read, the interpreter would note a signal and read all the same.
        until(lambda: Path(f"/proc/{asking.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
        try:
            asking.send_signal(signal.SIGINT)
            assert asking.wait(PATIENCE) == 1
        finally:
            asking.kill()
            os.close(ours)
