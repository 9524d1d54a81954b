"""The commands, each as a person runs it: a process, its exit code, and what it says where."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.cli import _COMMANDS
from blackboard_mcp.server.demo.process import environment
from blackboard_mcp.server.demo.session import examples, load_session
from blackboard_mcp.storage.lance.indexer import LEASE
from blackboard_mcp.storage.store import SqlBoardStore
from patience import PATIENCE, RUN

PROGRAM = (sys.executable, "-m", "blackboard_mcp.server")
LOG = "newtons-method"
BOARD = ("--board", "demo")


def run(*words: str | Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,  # the demo has a dozen programs' work to do
        env=environment() | variables,
    )


def said(*words: str | Path) -> str:
    """What a command prints, which must succeed without a word on standard error."""
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A data folder with a replayed session in it, and what the demo said."""
    data = tmp_path_factory.mktemp("demo") / "data"
    return data, run("demo", LOG, "--data", data, "--target-tokens", "1500")


@pytest.fixture
def data(demonstrated: tuple[Path, Any]) -> Path:
    return demonstrated[0]


# The demo


def test_the_demo_replays_a_session_and_shows_what_became_of_it(
    demonstrated: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    data, done = demonstrated
    assert done.returncode == 0, done
    for heading in (
        f"Replayed {LOG}: 11 posts by 6 agents",
        "The board now, as an agent reads it",
        "What was pruned, and why",
        "What the guard holds",
        "A search of the archive",
        "Nothing was lost",
    ):
        assert f"\n{heading}" in done.stdout, heading
    assert re.search(r"log analysed|importance \d", done.stdout), "as the passes came during the replay"
    assert "← the pruned step" in done.stdout
    assert "nothing that it reached has left" in done.stdout
    assert "11 of 11 posts read back by id" in done.stdout
    assert "6 clients connected" in done.stderr
    assert f"show --data {data} --board demo" in done.stderr


def test_the_demo_tells_a_story_needs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("demo", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done
    story, _, rest = done.stdout.partition("\n\nNow connect your client.")
    lines = [line.split(maxsplit=1) for line in story.splitlines()]
    assert {who for who, _ in lines} == {"ana", "ben", "cleo", "dan", "server"}
    told = [what for _, what in lines]
    for step in (
        r"B-1 problem: ",
        r"F-2 fact: ",
        r"H-3 hypothesis: ",
        r"C-4 critique \(critiques H-3\): ",
        r"a debate on H-3 is open",
        r"prunes [1-9]\d* items to the archive",
        r"H-3, C-4, F-2 stay",
        r"concedes",
        r"A-\d+ answer: ",
        r"agrees to A-",
        r"D-\d+ decision: ",
        r"closes B-1",
        r"prunes [1-9]\d* items to the archive",
        r"S-\d+ summary: ",
        r"Q-\d+ question: ",
        r"searches the archive \(\w+\): .*H-3",
        r"A-\d+ answer: Yes: H-3",
        r"reads all \d+ posts back",
    ):
        while not re.match(step, told.pop(0)):
            assert told, f"{step} is not told in its turn: {story}"
    assert "serve --transport http" in rest
    assert "install claude-code --url http://127.0.0.1:8420/mcp" in rest
    assert list(tmp_path.iterdir()) == []


def test_the_story_works_over_stdio_and_again_on_the_same_folder(tmp_path: Path) -> None:
    for board, transport in (("demo", "--stdio"), ("demo-2", "--http")):
        done = run("demo", transport, "--data", tmp_path)
        assert done.returncode == 0, done
        assert "posts back by id" in done.stdout
        assert f"--board {board}" in done.stderr


def test_the_story_has_the_board_that_it_needs() -> None:
    done = run("demo", "--target-tokens", "5000")
    assert done.returncode == 2
    assert "--target-tokens goes with a LOG" in done.stderr


def test_the_demo_keeps_its_folder_on_request_and_takes_a_log_of_ones_own(tmp_path: Path) -> None:
    log = tmp_path / "mine.json"
    steps = [{"name": "Ann Lee", "content": "it is 4\nTERMINATE"}, {"name": "system", "content": "hm \0"}]
    log.write_text(json.dumps({"question": "2 + 2?", "history": steps}))
    kept = tmp_path / "kept"
    kept.mkdir()
    done = run("demo", log, "--keep", TMPDIR=str(kept))
    assert done.returncode == 0, done
    assert "3 posts by 3 agents" in done.stdout
    assert "Ann-Lee, system-2" in done.stderr
    (folder,) = kept.iterdir()
    assert "2 + 2?" in said("show", "--data", folder, *BOARD)


def test_the_demo_works_with_a_server_for_each_agent_over_stdio(tmp_path: Path) -> None:
    log = tmp_path / "short.json"
    history = json.loads(examples()[LOG].read_text())["history"][:3]
    log.write_text(json.dumps({"question": "?", "history": history}))
    done = run("demo", log, "--stdio")
    assert done.returncode == 0, done
    assert "4 of 4 posts read back by id" in done.stdout


def test_the_demo_takes_a_log_in_which_one_agent_goes_on_and_on_under_one_critique(tmp_path: Path) -> None:
    log = tmp_path / "long.json"
    text = " ".join(f"word{n}" for n in range(130))
    history = [{"name": "Solver", "content": f"Step {n}: {text}"} for n in range(24)]
    critic = {"mistake_step": "1", "mistake_reason": "It looked in the wrong place."}
    log.write_text(json.dumps({"question": "?", "history": history, **critic}))
    done = run("demo", log)
    assert done.returncode == 0, done
    assert "26 of 26 posts read back by id" in done.stdout


def test_the_examples_are_named_and_there_is_a_long_one() -> None:
    listed = said("demo", "--list").splitlines()
    assert [line.split(":")[0] for line in listed] == list(examples())
    assert max(sum(len(p.text) for p in load_session(path).posts) for path in examples().values()) > 20_000


# A person's look at the data of agents


def test_show_prints_the_view_whole_items_and_json(data: Path) -> None:
    assert said("show", "--data", data, *BOARD).startswith("board demo · seq ")
    whole = said("show", "--data", data, *BOARD, "H-3", "999")
    assert "H-3@1 HYPOTHESIS by NumericalAlgorithms_Expert" in whole
    assert re.search(r"^archived \d+[smhd] ago: ", whole, re.MULTILINE)
    assert "not found: 999" in whole
    item = json.loads(said("show", "--data", data, *BOARD, "--json", "H-3"))["items"][0]
    assert item["text"] == load_session(examples()[LOG]).posts[2].text
    view = json.loads(said("show", "--data", data, *BOARD, "--json", "--budget", "300"))
    assert view["tokens"] <= 300


def test_explain_says_what_holds_an_item_why_it_left_and_what_comes_next(data: Path) -> None:
    told = said("explain", "--data", data, *BOARD, "C-6", "H-3", "999")
    assert "C-6 critique, " in told
    assert "back with `blackboard-mcp unarchive H-3`" in told
    assert "not found: 999" in told
    assert re.search(r"^  (never )?seen by ", told, re.MULTILINE)
    answer = json.loads(said("explain", "--data", data, *BOARD, "--json", "H-3"))
    assert answer["explanations"][0]["left"]["of_pass"] > 0
    ids = json.loads(said("query", "--data", data, *BOARD, "--json"))["items"]
    assert all(
        line.startswith(("stays: ", "goes ", "importance 5: "))
        for e in json.loads(said("explain", "--data", data, *BOARD, "--json", *(i["id"] for i in ids)))[
            "explanations"
        ]
        for line in e["says"][:1]
    )
    refused = run("explain", "--data", data, *BOARD, *(str(n) for n in range(1, 30)))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "up to 20" in refused.stderr


def test_query_lists_by_type_zone_and_words(data: Path) -> None:
    listed = said("query", "--data", data, *BOARD, "--zone", "all", "--type", "critique").splitlines()
    assert listed[0].startswith("C-6 critique")
    page = json.loads(said("query", "--data", data, *BOARD, "--json", "--zone", "archive"))
    assert page["items"]
    assert {item["zone"] for item in page["items"]} == {"archive"}
    assert said("query", "--data", data, *BOARD, "no such words") == "nothing matches\n"
    assert "--limit 1 leaves" in said("query", "--data", data, *BOARD, "--zone", "all", "--limit", "1")


def test_archive_finds_what_was_pruned_and_says_why_it_left(data: Path) -> None:
    told = said("archive", "--data", data, *BOARD, "derivative of the function")
    assert re.search(r"\(left: (log analysed|importance \d)", told), "as the passes came during the replay"
    found = json.loads(said("archive", "--data", data, *BOARD, "--json", "newton derivative"))
    assert found["mode"] == ("hybrid" if find_spec("wordllama") else "lexical")
    assert "H-3" in [item["id"] for item in found["items"]]


def test_prune_tells_first_and_then_does_the_same(demonstrated: tuple[Path, Any]) -> None:
    data, _ = demonstrated
    would = said("prune", "--data", data, *BOARD, "--dry-run")
    assert "would move" in would
    done = said("prune", "--data", data, *BOARD)
    assert "moved" in done
    again = said("prune", "--data", data, *BOARD)
    assert "moved 0 items" in again


def test_rebuild_index_counts_what_is_archived(data: Path) -> None:
    archived = json.loads(
        said("query", "--data", data, *BOARD, "--zone", "archive", "--limit", "200", "--json")
    )
    count = len(archived["items"])
    assert said("rebuild-index", "--data", data) == f"indexed {count} archived items\n"
    assert "H-3" in said("archive", "--data", data, *BOARD, "derivative")


def test_rebuild_index_waits_for_whoever_indexes(data: Path) -> None:
    async def hold() -> bool:
        store = await SqlBoardStore.open(data / "board.sqlite3")
        try:
            return await store.lease(LEASE, "another", 4.0)
        finally:
            await store.close()

    assert asyncio.run(hold())
    assert said("rebuild-index", "--data", data).startswith("indexed ")


def test_compact_says_what_the_file_took_and_takes_and_leaves_the_boards_alone(data: Path) -> None:
    before = said("query", "--data", data, *BOARD, "--zone", "all", "--limit", "200", "--json")
    assert re.fullmatch(r"board\.sqlite3: [\d.]+ MB before, [\d.]+ MB now\n", said("compact", "--data", data))
    assert said("query", "--data", data, *BOARD, "--zone", "all", "--limit", "200", "--json") == before


def test_watch_follows_events_and_ends_when_told(data: Path) -> None:
    lines = said("watch", "--data", data, *BOARD, "--since", "0", "--seconds", "0").splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d +1  \S+ made the board", lines[0])
    events = said("watch", "--data", data, *BOARD, "--since", "0", "--seconds", "0", "--json").splitlines()
    assert [json.loads(line)["seq"] for line in events] == list(range(1, len(lines) + 1))


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT")
def test_ctrl_c_ends_a_command_as_the_reference_says(tmp_path: Path) -> None:
    file = tmp_path / "history"
    os.mkfifo(file)
    words = [*PROGRAM, "import", "--data", tmp_path / "data", file]
    command = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    with command, file.open("wb"):  # the file opens when the command reads it
        command.send_signal(signal.SIGINT)
        _, rest = command.communicate(timeout=PATIENCE)
    assert (command.returncode, "Aborted" in rest) == (130, False)


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT")
def test_watch_shows_what_another_process_posts_and_ends_on_an_interrupt(tmp_path: Path) -> None:
    assert call_over_stdio(tmp_path, "serve", "--data", str(tmp_path), text="first")
    words = [*PROGRAM, "watch", "--data", str(tmp_path), "--since", "1"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert "ada posted fact F-1: first" in watching.stdout.readline()
            assert call_over_stdio(tmp_path, "serve", "--data", str(tmp_path), text="second")
            assert "ada posted fact F-2: second" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            assert watching.wait(PATIENCE) == 130
            assert "Traceback" not in watching.stderr.read()
        finally:
            watching.kill()


def heed_interrupts() -> None:
    """Tests that run in the background of a shell are begun with interrupts ignored, and so is what they begin."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def call_over_stdio(folder: Path, *words: str, text: str) -> str:
    """Posts over the stdio of a command; the answer's text. It ends with its input."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "post", "arguments": {"text": text}, "_meta": meta}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    done = run(*words, stdin=line + "\n", BLACKBOARD_AGENT="ada")
    assert done.returncode == 0, done
    message = json.loads(done.stdout)
    assert "result" in message, message
    answer: str = message["result"]["content"][0]["text"]
    return answer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server over HTTP: its URL and its data folder."""
    words = [*PROGRAM, "serve", "--transport", "http", "--port", "0", "--data", str(tmp_path / "served")]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stdout is not None
    line = process.stderr.readline()
    draining = threading.Thread(target=process.stderr.read)
    draining.start()
    try:
        yield line.removeprefix("blackboard-mcp serves ").strip(), tmp_path / "served"
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        draining.join()
        process.stderr.close()
        assert process.stdout.read() == "", "standard output is not for talk"
        process.stdout.close()


def test_connect_relays_to_a_server_and_other_commands_see_its_data(served: tuple[str, Path]) -> None:
    url, folder = served
    assert call_over_stdio(folder, "connect", url, text="over the relay").startswith("F-1")
    assert "over the relay" in said("show", "--data", folder)
    assert "F-1 fact by ada" in said("query", "--data", folder, "relay")


def test_settings_come_from_a_file_below_the_environment_below_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'data = "{(tmp_path / "file").as_posix()}"\nboard = "filed"\n')
    call_over_stdio(tmp_path, "serve", "--config", str(config), text="a")
    assert "a" in said("show", "--config", config)
    missing = run("show", "--config", config, BLACKBOARD_BOARD="environed")
    assert "'environed'" in missing.stderr
    missing = run("show", "--config", config, "--board", "said", BLACKBOARD_BOARD="environed")
    assert "'said'" in missing.stderr
    assert "there are: filed" in missing.stderr


# What goes wrong is one line that teaches


OURS, USAGE = 1, 2
WRONG: dict[str, tuple[tuple[str, ...], dict[str, str], int, str]] = {
    "unknown variable": (("serve",), {"BLACKBOARD_NONSENSE": "1"}, OURS, "BLACKBOARD_PORT"),
    "word for a number": (("serve",), {"BLACKBOARD_PORT": "x"}, OURS, "must be a whole number"),
    "wrong choice in a variable": (("serve",), {"BLACKBOARD_TRANSPORT": "tcp"}, OURS, "stdio, http"),
    "wrong choice": (("serve", "--transport", "tcp"), {}, USAGE, "'stdio', 'http'"),
    "number out of range": (("serve", "--port", "99999"), {}, OURS, "from 0 to 65,535"),
    "unknown set of tools": (("serve", "--tools", "none"), {}, OURS, "there are: core"),
    "unknown tokenizer": (("serve", "--tokenizer", "nope", "--data", "{tmp}/t"), {}, OURS, "o200k_base"),
    "name of an agent": (("serve", "--agent", "a b", "--data", "{tmp}/a"), {}, OURS, "an agent's name"),
    "name of a board": (("serve", "--board", "a b", "--data", "{tmp}/b"), {}, OURS, "not a board id"),
    "no config file": (("serve", "--config", "{tmp}/none.toml"), {}, OURS, "Cannot read"),
    "no TOML": (("show", "--config", "{tmp}/bad.toml"), {}, OURS, "is not TOML"),
    "unknown setting in TOML": (("show", "--config", "{tmp}/odd.toml"), {}, OURS, "Unknown setting 'prot'"),
    "a file for a folder": (("serve", "--data", "{tmp}/bad.toml"), {}, OURS, "Cannot use the data folder"),
    "a public address": (
        ("serve", "--transport", "http", "--host", "0.0.0.0", "--data", "{tmp}/h"), {}, OURS, "not a loopback address"
    ),
    "no data folder to show": (("show", "--data", "{tmp}/none"), {}, OURS, "serve --transport http` makes it"),
    "no data folder to query": (("query", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no data folder to search": (("archive", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no data folder to watch": (("watch", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no data folder to prune": (("prune", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no data folder to index": (("rebuild-index", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no data folder to compact": (("compact", "--data", "{tmp}/none"), {}, OURS, "there is no board in"),
    "no board to show": (("show", "--data", "{data}", "--board", "none"), {}, OURS, "there are: demo"),
    "no board to prune": (("prune", "--data", "{data}", "--board", "none"), {}, OURS, "there are: demo"),
    "no id": (("show", "--data", "{data}", "--board", "demo", "nope"), {}, OURS, "id. Ids look like H-17"),
    "no pattern": (("query", "--data", "{data}", "--board", "demo", "--key", "a b"), {}, OURS, "not a key pattern"),
    "ahead of the log": (
        ("watch", "--data", "{data}", "--board", "demo", "--since", "9999"), {}, OURS, "ahead of 'demo'"
    ),
    "no URL": (("connect", "nope"), {}, USAGE, "like http://127.0.0.1:8420/mcp"),
    "no name to connect as": (("connect", "http://127.0.0.1:9/mcp", "--agent", "a b"), {}, USAGE, "agent's name"),
    "no log": (("demo", "nope"), {}, OURS, "with the package come: ai-regulation"),
    "no JSON": (("demo", "{tmp}/bad.toml"), {}, OURS, "is not JSON"),
    "no history": (("demo", "{tmp}/empty.json"), {}, OURS, "has no history"),
    "no command": (("frobnicate",), {}, USAGE, "No such command 'frobnicate'"),
    "no option": (("show", "--frob"), {}, USAGE, "No such option '--frob'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_one_line_that_teaches(name: str, data: Path, tmp_path: Path) -> None:
    words, variables, code, part = WRONG[name]
    (tmp_path / "bad.toml").write_text("port = [\n")
    (tmp_path / "odd.toml").write_text("prot = 1\n")
    (tmp_path / "empty.json").write_text("{}")
    done = run(*(word.format(tmp=tmp_path, data=data) for word in words), **variables)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert part in done.stderr
    # click shows how a command is used before it says what is wrong; what is missing is a list.
    beside = ("Usage:", "Try ", "  (", "Or ")
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith(beside)]
    assert len(lines) == 1, done.stderr
    assert not (tmp_path / "none").exists()


# Help, and what starting costs


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help(name: str) -> None:
    text = said(name, "--help")
    assert text.startswith("Usage: ")
    assert len(text.splitlines()) > 4
    assert said(name, "-h") == text


def test_help_names_every_command_and_loads_none_of_the_heavy_parts() -> None:
    code = (
        "import sys; from blackboard_mcp.server.cli import cli; cli.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'mcp', 'lancedb', 'pyarrow', 'numpy', 'aiosqlite', 'uvicorn', 'starlette', 'pydantic'}\n"
        "print('loaded', sorted(heavy & sys.modules.keys()))"
    )
    for words in (["--help"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=RUN
        )
        assert done.stdout.endswith("loaded []\n"), done
    listed = said("--help")
    for name in _COMMANDS:
        assert f"\n  {name}" in listed


INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "cold", "version": "0"},
}
LOADED = (
    "import json, sys; from blackboard_mcp.server.cli import main\n"
    "heavy, calls = map(json.loads, sys.argv[1:])\n"
    "for words in calls:\n"
    "    sys.argv[1:] = words\n"
    "    try:\n"
    "        main()\n"
    "    except SystemExit as ended:\n"
    "        assert not ended.code, (words, ended.code)\n"
    "    loaded = [name for name in heavy if name in sys.modules]\n"
    "    assert not loaded, (words, loaded)"
)
"""Calls of commands one after the other in one new interpreter, which load none of the modules that are named."""


def loads_none(heavy: Sequence[str], calls: Sequence[Sequence[str]]) -> str:
    """What these calls of commands print, which load none of these modules."""
    words = [sys.executable, "-c", LOADED, json.dumps(heavy), json.dumps(calls)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN)
    assert done.returncode == 0, done
    return done.stdout


INDEX = ("lancedb", "lance", "pyarrow", "numpy", "wordllama", "tokenizers", "safetensors")
WITHOUT_INDEX = [
    *(
        ["show"],
        ["explain", "F-1"],
        ["query"],
        ["boards"],
        ["agents"],
        ["core"],
        ["plan"],
        ["board"],
        ["policies"],
        ["members"],
    ),
    *(
        ["prune", "--dry-run"],
        ["export", "{folder}/history.jsonl"],
        ["verify"],
        ["backup", "{folder}/copy.db"],
    ),
    *(["token", "list"], ["token", "create", "--agent", "ada"], ["post", "--agent", "ada", "found it"]),
]


LISTED = (
    "import atexit, sys; from blackboard_mcp.server.cli import main\n"
    "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    "main()"
)


def test_a_list_of_tools_needs_no_models_of_answers_and_few_modules(tmp_path: Path) -> None:
    sent = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [sys.executable, "-c", LISTED, "serve", "--data", str(tmp_path)],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in sent),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert len(json.loads(done.stdout.splitlines()[-1])["result"]["tools"]) > 5, done
    every = set(done.stderr.split())
    assert every.isdisjoint({"mcp.client", "httpx2._client", "uvicorn", "multiprocessing"}), (
        "the SDK's client, an HTTP client and a web server take a tenth of a start"
    )
    loaded = {name.removeprefix("blackboard_mcp.") for name in every if name.startswith("blackboard_mcp.")}
    assert loaded.isdisjoint(
        {"protocols.wire", "protocols.group_wire", "protocols.version_wire", "server.tools.transaction"}
    )
    loaded -= {"server.usecases.episodes", "storage.allocator"}  # work in the background loads them later
    assert len(loaded) < 320, (len(loaded), "each module costs every start of every client")


OWN_BOARD = """
import asyncio, gc, sys
from blackboard_mcp.server import Board
from blackboard_mcp.storage.operations.ledger import rows

async def main():
    async with Board.open("main", agent="ada", data=sys.argv[1]) as board:
        await board.post("x", type="FACT")

asyncio.run(main())
assert gc.isenabled()
assert rows._ready.cache_info().currsize < 60, "statements are expanded when they are first run"
print(*sys.modules)
"""
"""A program that opens a board of its own, posts and ends."""


def test_a_program_with_a_board_of_its_own_loads_few_modules(tmp_path: Path) -> None:
    words = [sys.executable, "-c", OWN_BOARD, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN)
    assert done.returncode == 0, done
    every = set(done.stdout.split())
    assert every.isdisjoint({"mcp", "httpx2", "uvicorn", "multiprocessing", *INDEX})
    loaded = {name.removeprefix("blackboard_mcp.") for name in every if name.startswith("blackboard_mcp.")}
    assert loaded.isdisjoint(
        {
            *("server.board.client", "server.tools.admin", "server.tools.plan", "server.tools.run"),
            *("protocols.group_wire", "protocols.plan_wire", "protocols.rule_wire", "protocols.run_wire"),
            *(
                "protocols.board_wire",
                "protocols.debate_wire",
                "protocols.request_wire",
                "protocols.summary_wire",
            ),
        }
    ), "a program starts with what it uses"
    assert len(loaded) < 320, (len(loaded), "each module costs every start of every program")


UNBUILT = (
    "import atexit, sys; from blackboard_mcp.server.cli import main\n"
    "def built():\n"
    "    import mcp_types._types as own, mcp_types._v2025_11_25 as wire\n"
    "    known = [*vars(own).values(), *vars(wire).values()]\n"
    "    models = {m for m in known if isinstance(m, type) and hasattr(m, 'model_fields')}\n"
    "    print(sum(m.__pydantic_complete__ for m in models), len(models), file=sys.stderr)\n"
    "atexit.register(built)\n"
    "main()"
)


def test_of_the_sdks_models_of_messages_those_are_built_that_are_used(tmp_path: Path) -> None:
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    done = subprocess.run(
        [sys.executable, "-c", UNBUILT, "serve", "--data", str(tmp_path)],
        input=first + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "serverInfo" in done.stdout, done
    built, models = map(int, done.stderr.split()[-2:])
    assert 0 < built < models / 10, (built, models)


def test_commands_that_search_nothing_load_nothing_of_the_index(tmp_path: Path) -> None:
    data = tmp_path / "data"
    call_over_stdio(data, "serve", "--data", str(data), text="the cache is cold")
    calls = [
        [*(word.format(folder=tmp_path) for word in words), "--data", str(data)] for words in WITHOUT_INDEX
    ]
    printed = loads_none(INDEX, calls)
    assert "the cache is cold" in printed


def test_help_of_a_command_needs_neither_the_sdk_nor_the_index() -> None:
    printed = loads_none(["mcp", "lancedb", "pyarrow", "uvicorn"], [[name, "--help"] for name in _COMMANDS])
    assert printed.count("Usage: ") == len(_COMMANDS)
