"""`watch`: one readable sentence an event, from folders and servers, also those that go away."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.wire import WireEvent
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.cli.sentences import _SAID, sentence
from blackboard_mcp.server.demo.process import environment
from commands import PROGRAM, refused, said, serving, token
from patience import PATIENCE
from ports import free_port

NOW = ("watch", "--since", "0", "--seconds", "0")


async def furnish(data: Path) -> None:
    """A short debate, something else, and a second board."""
    async with Board.open(data=data, agent="ann", settings={"synchronous": "NORMAL"}) as ann:
        ben = ann.as_agent("ben")
        await ann.post("the pump burst at 9 bar", type="HYPOTHESIS", tags=["pump"])
        await ben.post("the log says 8 bar", type="CRITIQUE", edges={"critiques": ["H-1"]})
        await ann.post("it is the other log", type="REPLY", edges={"replies_to": ["C-2"]})
        await ben.acknowledge("H-1", reason="I see")
        await ann.post("red \x1b[31m \u202e\nsecond line", tags=["pump", "odd"])
        await ann.as_agent("ann", name="beside").post("elsewhere")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched")
    folder.chmod(0o700)
    asyncio.run(furnish(folder))
    return folder


@pytest.fixture(scope="module", params=["folder", "server"])
def ann(request: pytest.FixtureRequest, data: Path) -> Iterator[dict[str, str]]:
    """What ann has in her environment to watch."""
    if request.param == "folder":
        yield {"BLACKBOARD_DATA": str(data), "BLACKBOARD_AGENT": "ann"}
        return
    with serving(data) as (url, _):
        yield {"BLACKBOARD_URL": url, "BLACKBOARD_TOKEN": token(data, "--agent", "ann")}


def test_each_event_is_a_sentence_with_the_time_and_who_did_what(ann: dict[str, str]) -> None:
    lines = said(ann, *NOW).splitlines()
    told = [re.fullmatch(r"\d\d:\d\d:\d\d +(\d+)  (.*)", line) for line in lines]
    assert [int(line[1]) for line in told if line] == list(range(1, len(lines) + 1))
    sentences = [line[2] for line in told if line]
    assert sentences[:4] == [
        "ann made the board",
        "ann posted hypothesis H-1: the pump burst at 9 bar",
        "ben criticised H-1 in C-2: the log says 8 bar",
        "ben opened a debate on H-1 with C-2",
    ]
    assert "ann replied to C-2 in R-3: it is the other log" in sentences
    assert (
        "ben ended the debate on H-1, CONSENSUS: it stands (every critique was answered; agreed: ben)"
        in sentences
    )
    assert "ben acknowledged H-1 (I see)" in sentences
    assert sentences[-1] == r"ann posted fact F-4: red \u001b[31m \u202e second line"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--type", "critique", "--type", "reply", "--event", "item.posted"), ["C-2", "R-3"]),
        (("--by", "ben", "--event", "item.posted"), ["C-2"]),
        (("--thread", "R-3", "--event", "item.posted"), ["H-1", "C-2", "R-3"]),
        (("--tag", "pump", "--tag", "odd"), ["F-4"]),
        (("--event", "debate.*"), ["H-1", "H-1"]),
        (("--mentions", "--event", "item.posted"), ["C-2"]),
        (("--by", "nobody"), []),
    ],
)
def test_filters_leave_out_the_rest(ann: dict[str, str], words: tuple[str, ...], found: list[str]) -> None:
    events = [json.loads(line) for line in said(ann, *NOW, "--json", *words).splitlines()]
    assert [event["item"] for event in events] == found


def test_a_filter_that_matches_nothing_is_refused(ann: dict[str, str]) -> None:
    assert "no.such" in refused(ann, *NOW, "--event", "no.such")
    assert "is not an item id. Ids look like H-17" in refused(ann, *NOW, "--thread", "nope")
    assert "ahead of" in refused(ann, "watch", "--since", "9999", "--seconds", "0")


@contextmanager
def watching(given: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*PROGRAM, "watch", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | given,
        preexec_fn=heed_interrupts,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heed_interrupts() -> None:
    """Tests that run in the background of a shell are begun with interrupts ignored, and so is what they begin."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(process: subprocess.Popen[str]) -> str:
    """What is left on standard error of a command that Ctrl-C ends."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    return process.stderr.read()


def test_all_boards_are_watched_and_those_that_come(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    given = {"BLACKBOARD_DATA": str(tmp_path)}
    lines = said(given, "watch", "--all-boards", "--since", "0", "--seconds", "0").splitlines()
    assert {line.split()[0] for line in lines} == {"main", "beside"}
    assert "there are: " in refused(given, "watch", "--board", "none")
    assert "is not an item id. Ids look like H-17" in refused(given, *NOW, "--all-boards", "--thread", "nope")
    with watching(given, "--all-boards", "--json", "--event", "item.posted", "--since", "0") as process:
        assert process.stdout is not None
        first = [json.loads(process.stdout.readline()) for _ in range(5)]
        assert {event["board"] for event in first} == {"main", "beside"}
        asyncio.run(post_to(tmp_path, "brand-new"))
        event = json.loads(process.stdout.readline())
        assert (event["board"], event["item"]) == ("brand-new", "F-1")
        assert interrupted(process) == ""


@pytest.mark.parametrize("words", [(), ("--all-boards",)])
def test_a_reader_that_has_enough_ends_it_without_a_word(tmp_path: Path, words: tuple[str, ...]) -> None:
    asyncio.run(furnish(tmp_path))
    with subprocess.Popen(
        [*PROGRAM, "watch", "--data", str(tmp_path), "--since", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "made the board" in process.stdout.readline()
        process.stdout.close()
        asyncio.run(post_to(tmp_path, "main", "nobody reads this"))
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read() == ""


async def post_to(data: Path, name: str, text: str = "new", tags: Sequence[str] = ()) -> None:
    async with Board.open(name, data=data, agent="ann") as board:
        await board.post(text, tags=list(tags))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("words", [(), ("--all-boards",)])
def test_a_server_that_goes_away_is_waited_for_and_nothing_is_missed(
    tmp_path: Path, end: signal.Signals, words: tuple[str, ...]
) -> None:
    asyncio.run(furnish(tmp_path))
    port = free_port()
    given = {"BLACKBOARD_TOKEN": token(tmp_path, "--agent", "eve", "--role", "observer")}
    with serving(tmp_path, port) as (url, process):
        given["BLACKBOARD_URL"] = url
        with watching(given, "--event", "item.posted", "--tag", "odd", "--since", "0", *words) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            assert "F-4" in follower.stdout.readline()
            process.send_signal(end)
            process.wait()
            assert f"{url} does not answer" in follower.stderr.readline()
            asyncio.run(post_to(tmp_path, "main", "while it was away", ["odd"]))
            with serving(tmp_path, port):
                assert f"{url} answers again" in follower.stderr.readline()
                assert "while it was away" in follower.stdout.readline()
                assert interrupted(follower) == ""


def test_every_event_has_its_sentence() -> None:
    assert {*_SAID, "item.posted"} == set(EventType)
    for type_ in EventType:
        event = WireEvent(
            seq=1,
            event=type_,
            item="F-3",
            key=None,
            version=2,
            agent="ann",
            tags=[],
            at=datetime(2026, 11, 21, tzinfo=UTC),
            data={"reason": "so"},
        )
        told = "".join(part if isinstance(part, str) else part[0] for part in sentence(event, "text"))
        assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d +1  ann \w", told), told
        assert not re.search(r"[{}]|None", told), told
