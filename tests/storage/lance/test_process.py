"""The archive index in a process of its own: its answers are those of the index, and its end ends nothing else."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery, Waiting
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.storage.lance import process as process_module
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.folder import IndexFolder
from blackboard_mcp.storage.lance.process import ProcessArchiveIndex
from patience import PATIENCE

Make = Callable[..., ArchiveDocument]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


LOOPS = [pytest.param(asyncio.new_event_loop, id="asyncio")]
with suppress(ImportError):
    import uvloop

    LOOPS.append(pytest.param(uvloop.new_event_loop, id="uvloop"))


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[ProcessArchiveIndex]:
    made = ProcessArchiveIndex(tmp_path / "archive", EmbedderChoice("none"))
    yield made
    await made.close()


async def numbers(index: ProcessArchiveIndex, text: str, *waiting: ArchiveDocument) -> list[int]:
    answer = await index.search(ArchiveQuery("main", text), Waiting(waiting))
    return sorted(hit.number for hit in answer.hits)


def pid(index: ProcessArchiveIndex) -> int:
    assert index._process.pid is not None
    return index._process.pid


async def soon(found: Callable[[], bool]) -> None:
    """Returns when it is so."""
    async with asyncio.timeout(PATIENCE):
        while not found():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_folder_without_an_index_needs_no_process(index: ProcessArchiveIndex) -> None:
    assert await numbers(index, "rust") == []
    assert (await index.keys(), await index.sums({}), await index.life()) == ({}, {}, "")
    assert await index.fits()
    await index.upsert([])
    await index.remove([("main", 1)])
    await index.maintain()
    assert index._process.pid is None


async def test_what_waits_is_found_before_there_is_an_index(
    index: ProcessArchiveIndex, document: Make
) -> None:
    assert await numbers(index, "rust", document(7, "rust eats iron")) == [7]


async def test_a_process_that_was_killed_is_begun_again_and_asked_again(
    index: ProcessArchiveIndex, document: Make, caplog: pytest.LogCaptureFixture
) -> None:
    await index.upsert([document(1, "rust eats iron")])
    first = pid(index)
    os.kill(first, signal.SIGSTOP)
    searching = asyncio.create_task(numbers(index, "rust"))
    await soon(lambda: bool(index._process._running and index._process._running.calls))
    os.kill(first, signal.SIGKILL)
    assert await searching == [1]
    assert pid(index) != first
    assert "the process of the archive index ended (code -9)" in caplog.text


async def test_a_process_that_always_ends_is_told_of(
    index: ProcessArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_PROGRAM", (sys.executable, "-c", "import sys; sys.exit(3)"))
    with pytest.raises(ArchiveUnavailable, match="ended twice before it answered") as told:
        await index.upsert([document(1, "rust")])
    assert told.value.facts == {"reason": "ended"}
    monkeypatch.undo()
    await index.upsert([document(1, "rust")])
    assert await numbers(index, "rust") == [1]


SAYS_JUNK = """
import sys
sys.stdout.buffer.write((5).to_bytes(8, "big") + b"junk!")
sys.stdout.flush()
sys.stdin.read()
"""
IS_SILENT = "import sys; sys.stdin.read()"


@pytest.mark.parametrize(
    ("program", "words"), [(SAYS_JUNK, "cannot be read"), (IS_SILENT, "hangs and is killed")]
)
async def test_a_process_that_cannot_be_understood_or_hangs_is_killed(
    index: ProcessArchiveIndex,
    document: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    program: str,
    words: str,
) -> None:
    monkeypatch.setattr(process_module, "_PROGRAM", (sys.executable, "-c", program))
    if program is IS_SILENT:
        monkeypatch.setattr(process_module, "_SILENT_SECONDS", 0.1)
    with pytest.raises(ArchiveUnavailable, match="ended twice before it answered"):
        await index.upsert([document(1, "rust")])
    assert caplog.text.count(words) == caplog.text.count("(code -9)") == 2
    assert index._process.pid is None


ANSWERS_WITHOUT_FORM = """
from blackboard_mcp.storage.lance.host import LanceArchiveIndex, main
async def search(self, *asked): return lambda: 0
LanceArchiveIndex.search = search
main()
"""


async def test_an_answer_that_cannot_be_told_is_an_error(
    index: ProcessArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_PROGRAM", (sys.executable, "-c", ANSWERS_WITHOUT_FORM))
    with pytest.raises(ArchiveUnavailable, match="The archive index failed"):
        await numbers(index, "rust", document(1, "rust"))


async def test_a_long_call_is_no_hang(
    index: ProcessArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_PROGRAM", (sys.executable, "-c", TAKES_LONG))
    monkeypatch.setattr(process_module, "_SILENT_SECONDS", 10.0)
    assert (await index.search(ArchiveQuery("main", "rust"), Waiting((document(1, "rust"),)))).life == "long"


TAKES_LONG = """
import asyncio
from blackboard_mcp.protocols.archive import ArchiveAnswer
from blackboard_mcp.storage.lance import host
async def search(self, *asked):
    await asyncio.sleep(13)  # a beat that is late by less than ten seconds does no harm
    return ArchiveAnswer((), "lexical", "", "long")
host.BEAT_SECONDS = 0.1
host.LanceArchiveIndex.search = search
host.main()
"""


async def test_a_process_that_cannot_be_begun_is_told_of(
    index: ProcessArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_PROGRAM", ("/no/such/program",))
    with pytest.raises(ArchiveUnavailable, match="No process can be begun"):
        await index.upsert([document(1, "rust")])


@pytest.mark.parametrize("broken", ["import", "run"])
async def test_a_process_that_cannot_run_says_why_and_is_left_alone_for_a_while(
    index: ProcessArchiveIndex,
    document: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    # As after an upgrade or a removal of the package under a running server.
    begun = tmp_path / "begun"
    module = "blackboard_mcp.storage.lance." + ("host" if broken == "import" else "embedders.choice")
    spoilt = f"import sys; sys.modules[{module!r}] = None; open({str(begun)!r}, 'a').write('x')\n"
    if broken == "run":
        spoilt = f"import blackboard_mcp.storage.lance.host\n{spoilt}"
    monkeypatch.setattr(
        process_module, "_PROGRAM", (*process_module._PROGRAM[:-1], spoilt + process_module._PROGRAM[-1])
    )
    for _ in range(3):
        with pytest.raises(ArchiveUnavailable, match=f"cannot run: ModuleNotFoundError: .*{module}") as told:
            await index.upsert([document(1, "rust")])
        assert told.value.facts == {"reason": "unreachable"}
    assert begun.read_text("utf-8") == "x"
    assert (caplog.text, capfd.readouterr().err) == ("", "")
    monkeypatch.undo()
    index._process._left_alone_until = 0.0
    await index.upsert([document(1, "rust eats iron")])
    assert await numbers(index, "rust") == [1]


@pytest.mark.parametrize("loop", LOOPS)
def test_one_that_ends_as_soon_as_it_is_begun_is_begun_again(
    tmp_path: Path, document: Make, monkeypatch: pytest.MonkeyPatch, loop: Any
) -> None:
    begin = asyncio.create_subprocess_exec
    begun: list[int] = []

    async def begin_and_kill_the_first(*words: Any, **more: Any) -> asyncio.subprocess.Process:
        process = await begin(*words, **more)
        begun.append(process.pid)
        if len(begun) == 1:
            process.kill()
            await process.wait()
            assert process.stdin is not None
            process.stdin.close()  # as the event loop does when it notices
        return process

    async def indexed() -> list[int]:
        index = ProcessArchiveIndex(tmp_path / "archive", EmbedderChoice("none"))
        await index.upsert([document(1, "rust eats iron")])
        found = await numbers(index, "rust")
        await index.close()
        return found

    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_and_kill_the_first)
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(indexed()) == [1]
    assert len(begun) == 2


async def test_a_process_of_which_nothing_is_asked_ends_and_begins_again(
    index: ProcessArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "IDLE_SECONDS", 0.0)
    await index.upsert([document(1, "rust eats iron")])
    first = pid(index)
    await soon(lambda: not lives(first))
    assert index._process.pid is None
    assert await numbers(index, "rust") == [1]


async def test_it_ends_with_the_index_and_refuses_what_comes_later(
    index: ProcessArchiveIndex, document: Make
) -> None:
    await index.upsert([document(1, "rust")])
    its = pid(index)
    searches = [asyncio.create_task(numbers(index, "rust")) for _ in range(5)]
    await asyncio.sleep(0)
    await index.close()
    assert not lives(its)
    for answer in await asyncio.gather(*searches, return_exceptions=True):
        assert answer == [1] or isinstance(answer, ArchiveUnavailable)
    with pytest.raises(ArchiveUnavailable, match="was closed") as told:
        await numbers(index, "rust")
    assert told.value.facts == {"reason": "closed"}
    await index.close()


async def test_signals_to_a_server_are_none_of_its_business(
    index: ProcessArchiveIndex, document: Make
) -> None:
    await index.upsert([document(1, "rust")])
    assert os.getpgid(pid(index)) != os.getpgid(0), "Ctrl-C in a terminal does not reach it"
    first = pid(index)
    for stop in (signal.SIGTERM, signal.SIGINT):
        os.kill(first, stop)
    assert await numbers(index, "rust") == [1]
    assert pid(index) == first


SERVER = """
import asyncio, sys
from pathlib import Path
sys.path.append(sys.argv[2])
import lance_journal
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.process import ProcessArchiveIndex

async def main():
    index = ProcessArchiveIndex(Path(sys.argv[1]), EmbedderChoice("none"))
    await index.upsert([lance_journal.document(1, "rust")])
    print(index._process.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_it_ends_when_its_server_is_killed(tmp_path: Path, journal_script: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(tmp_path / "archive"), str(journal_script.parent)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    its = int(await asyncio.wait_for(server.stdout.readline(), PATIENCE))
    assert lives(its)
    server.kill()
    await server.wait()
    await soon(lambda: not lives(its))


async def test_errors_keep_their_words_and_their_reason(
    index: ProcessArchiveIndex, document: Make, tmp_path: Path
) -> None:
    await index.upsert([document(1, "rust")])
    (tmp_path / "archive" / "current").write_text("../elsewhere", encoding="ascii")
    with pytest.raises(ArchiveUnavailable, match="does not name a generation") as told:
        await numbers(index, "rust")
    assert told.value.facts == {"reason": "damaged"}
    await index.reset()
    await index.upsert([document(2, "rust")])
    assert await numbers(index, "rust") == [2]


async def test_a_replacement_is_filled_beside_the_index(index: ProcessArchiveIndex, document: Make) -> None:
    await index.upsert([document(1, "rust")])
    draft = index.draft()
    await draft.upsert([document(2, "rust too")])
    assert (await numbers(index, "rust"), await draft.keys()) == ([1], {("main", 2): 1})
    os.kill(pid(index), signal.SIGKILL)
    await draft.upsert([document(3, "rust as well")])
    await draft.publish()
    await draft.close()
    assert await numbers(index, "rust") == [2, 3]


async def test_its_work_is_charged_to_whoever_asked(index: ProcessArchiveIndex, document: Make) -> None:
    meter = Meter()
    token = METER.set(meter)
    try:
        writing = asyncio.create_task(index.upsert([document(n, f"rust {n}") for n in range(50)]))
        await soon(lambda: meter.working == 1)
        await writing
    finally:
        METER.reset(token)
    assert (meter.seconds > 0, meter.working) == (True, 0)


async def test_messages_of_the_process_are_in_the_log(
    document: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Nothing answers there: an endpoint that is down costs the meaning, not the words.
    choice = EmbedderChoice("openai", "http://127.0.0.1:1", "tiny")
    index = ProcessArchiveIndex(tmp_path / "archive", choice)
    try:
        answer = await index.search(ArchiveQuery("main", "rust"), Waiting((document(1, "rust"),)))
    finally:
        await index.close()
    assert [hit.number for hit in answer.hits] == [1]
    assert "matched by words only" in answer.notice
    (told,) = [
        r for r in caplog.records if r.getMessage().startswith("the embedding model failed on a query")
    ]
    assert (told.name, told.levelno) == ("blackboard_mcp.storage.lance.index", logging.WARNING)


async def test_modules_of_the_folder_that_a_server_was_started_in_are_not_run(
    index: ProcessArchiveIndex, document: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit(9)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    await index.upsert([document(1, "rust")])
    assert IndexFolder(tmp_path / "archive").exists("g-first")
