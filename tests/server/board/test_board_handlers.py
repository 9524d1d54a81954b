"""Handlers of a consumer group: who gets what, what fails, hangs, dies and goes on, in-process and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, RateLimited, StoreBusy, Unreachable
from blackboard_mcp.protocols.messages.base import Address
from blackboard_mcp.protocols.messages.critique_exchange import CritiqueExchange
from blackboard_mcp.protocols.wire import WireEvent
from blackboard_mcp.server import Board, BoardAccess
from blackboard_mcp.server.board import ClaimHandlers, DebateHandlers, ProtocolHandlers, RequestHandlers
from blackboard_mcp.server.demo.process import environment
from opening import opened
from patience import PATIENCE

BOTH = pytest.mark.parametrize("kind", ["process", "http"])


async def until(said: Callable[[], Awaitable[bool]]) -> None:
    """Waits until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not await said():  # noqa: ASYNC110, other processes set no event of ours
            await asyncio.sleep(0.02)


async def begun(board: BoardAccess, group: str) -> None:
    """Waits until the group is there, so that it gets what comes from now on."""

    async def there() -> bool:
        return group in [known.group for known in await board.groups()]

    await until(there)


async def so(said: Callable[[], bool]) -> None:
    """Waits until it is so in this process."""

    async def now() -> bool:
        return said()

    await until(now)


@BOTH
async def test_each_event_goes_to_the_handlers_that_want_it(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,messages") as board:
        handlers = board.handlers("reviewers", workers=3)
        got: list[tuple[str, str | None]] = []

        @handlers.handler(key="plan:*", event="item.posted")
        async def plans(event: WireEvent) -> None:
            got.append(("plans", event.key))

        @handlers.handler(type="CRITIQUE", tags=["hard"])
        async def critiques(event: WireEvent) -> None:
            got.append(("critiques", event.item))

        @handlers.handler(event="item.posted", when=lambda event: event.item == "L-1")
        async def chosen(event: WireEvent) -> None:
            got.append(("chosen", event.item))

        async with handlers.running():
            await board.post("a log", type="LOG")
            await board.post("a plan", type="PLAN", key="plan:a")
            await board.post("no", type="CRITIQUE", edges={"critiques": ["L-1"]}, tags=["hard"])
            await so(lambda: len(got) == 3)
        assert sorted(got, key=str) == [("chosen", "L-1"), ("critiques", "C-3"), ("plans", "plan:a")]


@BOTH
async def test_a_class_handles_the_messages_of_its_protocol(kind: str, tmp_path: Path) -> None:
    class Judge(ProtocolHandlers):
        protocol = CritiqueExchange

        def __init__(self, scope: str) -> None:
            super().__init__(scope)
            self.heard: list[tuple[str, Any]] = []

        async def on_objection(self, event: WireEvent, address: Address) -> None:
            self.heard.append(("objection", dict(address.parts)))

        async def on_verdict(self, event: WireEvent, address: Address) -> None:
            self.heard.append(("verdict", dict(address.parts)))

    class Deaf(ProtocolHandlers):
        protocol = CritiqueExchange

    with pytest.raises(InvalidInput, match="has none of on_"):
        Deaf("team")
    async with opened(kind, tmp_path, "core,messages") as board:
        judge, speaks = Judge("team"), CritiqueExchange("team")
        handlers = board.handlers("judges")
        handlers.add(judge)
        shape = CritiqueExchange.shape("objection")
        parts: dict[str, str | int] = {part.name: 1 if part.name == "number" else "x" for part in shape.parts}
        async with handlers.running():
            await board.post("{}", key="team:elsewhere:x")
            await board.post("{}", key=speaks.key("objection", **parts))
            await so(lambda: len(judge.heard) == 1)
        assert judge.heard[0] == ("objection", parts)


@BOTH
async def test_functions_become_handlers_of_the_board(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,messages") as board:
        got: list[str | None] = []

        @board.handler(key="critique:*", type="CRITIQUE")
        async def reviewed(event: WireEvent) -> None:
            got.append(event.key)

        with pytest.raises(InvalidInput):
            board.handler(key="a b")(reviewed)
        await board.post("a plan", type="PLAN")
        async with board.handling("reviewers"):
            await board.post("no", type="CRITIQUE", key="critique:a", edges={"critiques": ["P-1"]})
            await board.post("no critique", key="critique:b")
            await so(lambda: got == ["critique:a"])
        async with board.handling("others", workers=2):
            await board.post("yes", type="CRITIQUE", key="critique:c", edges={"critiques": ["P-1"]})
            await so(lambda: got == ["critique:a", "critique:c"])


async def test_handlers_of_one_name_all_get_what_they_want(tmp_path: Path) -> None:
    async with opened("process", tmp_path, "core,messages") as board:
        got: list[str] = []

        def adding(said: str) -> Callable[[WireEvent], Awaitable[None]]:
            async def heard(event: WireEvent) -> None:
                got.append(said)

            return heard

        others = board.handlers("others")
        others.handler(type="FACT")(adding("theirs"))
        handlers = board.handlers("group")
        handlers.handler(type="FACT")(adding("ours"))
        handlers.take_over(others)
        async with handlers.running():
            await board.post("a fact")
            await so(lambda: sorted(got) == ["ours", "theirs"])
        for _ in range(30):
            others.handler(type="LOG")(adding("one more"))
        with pytest.raises(InvalidInput, match="at most 32 handlers"):
            handlers.take_over(others)


@BOTH
async def test_classes_handle_requests_debates_and_claims(kind: str, tmp_path: Path) -> None:
    heard: list[str] = []

    class Asked(RequestHandlers):
        async def on_opened(self, event: WireEvent) -> None:
            heard.append(f"asked {event.item}")

        async def on_cancelled(self, event: WireEvent) -> None:
            heard.append(f"cancelled {event.item}")

    class Argued(DebateHandlers):
        async def on_opened(self, event: WireEvent) -> None:
            heard.append(f"debate of {event.item}")

        async def on_closed(self, event: WireEvent) -> None:
            heard.append(f"settled {event.item}")

    class Worked(ClaimHandlers):
        async def on_taken(self, event: WireEvent) -> None:
            heard.append(f"taken {event.data['task']}")

        async def on_done(self, event: WireEvent) -> None:
            heard.append(f"done {event.data['task']}")

    class Wrong(ClaimHandlers):
        async def on_agreed(self, event: WireEvent) -> None:
            """It is an event of debates."""

    class Empty(RequestHandlers):
        pass

    with pytest.raises(
        InvalidInput, match="Wrong has on_agreed; its methods are named on_taken, on_extended"
    ):
        Wrong()
    with pytest.raises(InvalidInput, match="Empty has no method; its methods are named on_opened"):
        Empty()
    with pytest.raises(InvalidInput):
        Argued(key="a b")
    async with opened(kind, tmp_path, "core,messages,plan") as board:
        handlers = board.handlers("clerks", workers=1)
        handlers.add(Asked())
        handlers.add(Argued(type="FACT"))
        handlers.add(Worked())
        async with handlers.running():
            fact = await board.post("The pump leaks.")
            log = await board.post("Nobody argues about logs here.", type="LOG")
            asked = (await board.ask("ben", "Does it?", wait=False)).request.id
            await board.cancel_request(asked)
            for item in (log, fact):
                await board.open_debate(item.id)
            await board.concede(fact.id)
            (task,) = (await board.plan([{"title": "Mend it"}])).items
            taken = await board.claim(seconds=0)
            await board.settle("done", task.id, "Mended.", lease=taken.lease)
            await so(lambda: len(heard) >= 6)
        wanted = [f"asked {asked}", f"cancelled {asked}", f"debate of {fact.id}", f"settled {fact.id}"]
        assert heard == [*wanted, f"taken {task.id}", f"done {task.id}"]


@BOTH
async def test_what_fails_comes_again_alone_and_then_is_a_dead_letter(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, "core,messages") as board:
        handlers = board.handlers("group", workers=2, lease_seconds=4, seconds=0.3)
        tries: dict[str, int] = {}

        def count(name: str) -> int:
            tries[name] = tries.get(name, 0) + 1
            return tries[name]

        @handlers.handler(event="item.posted")
        async def good(event: WireEvent) -> None:
            count("good")

        @handlers.handler(event="item.posted")
        async def once(event: WireEvent) -> None:
            if count("once") == 1:
                raise ValueError("not yet")

        @handlers.handler(event="item.posted", when=lambda event: 1 / 0 > 1)
        async def never(event: WireEvent) -> None:
            count("never")

        @handlers.handler(event="item.posted")
        async def hangs(event: WireEvent) -> None:
            if count("hangs") == 1:
                await asyncio.sleep(PATIENCE)

        @handlers.handler(event="item.posted")
        def plain(event: WireEvent) -> Any:
            count("plain")

        async with handlers.running():
            await board.post("x")

            async def died() -> bool:
                return bool(await board.dead_letters("group"))

            await until(died)
            dead = await board.dead_letters("group")
        assert tries == {"good": 1, "once": 2, "hangs": 2, "plain": 5}
        assert "never: ZeroDivisionError" in dead[0].why
        assert "an async function" in dead[0].why
        assert "good" not in dead[0].why


async def test_no_more_is_in_hand_than_there_are_workers(tmp_path: Path) -> None:
    async with Board.open(agent="ann", data=tmp_path) as board:
        handlers = board.handlers("group", workers=2)
        inside, most, done, go = 0, 0, 0, asyncio.Event()

        @handlers.handler(event="item.posted")
        async def slow(event: WireEvent) -> None:
            nonlocal inside, most, done
            inside += 1
            most = max(most, inside)
            await go.wait()
            inside -= 1
            done += 1

        async with handlers.running():
            for number in range(8):
                await board.post(f"n{number}", type="LOG")
            await so(lambda: inside == 2)
            assert (await board.groups())[0].in_flight == 2
            go.set()
            await so(lambda: done == 8)
        assert most == 2


async def test_a_handler_that_is_cancelled_from_within_fails_alone(tmp_path: Path) -> None:
    async with Board.open(agent="ann", data=tmp_path) as board:
        handlers = board.handlers("group", workers=1)
        done: list[str | None] = []

        @handlers.handler(event="item.posted")
        async def handle(event: WireEvent) -> None:
            if event.item == "L-1" and not done:
                done.append(None)
                raise asyncio.CancelledError
            done.append(event.item)

        async with handlers.running():
            for number in range(3):
                await board.post(f"n{number}", type="LOG")
            await so(lambda: len(done) == 4)
        assert sorted(item or "" for item in done) == ["", "L-1", "L-2", "L-3"]


async def test_a_handler_that_catches_its_cancellation_keeps_nothing_running() -> None:
    async with Board.open(agent="ann") as board:
        begun = asyncio.Event()

        @board.handler(event="item.posted")
        async def returns(event: WireEvent) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                begun.set()
                await asyncio.Event().wait()

        async with asyncio.timeout(PATIENCE):
            async with board.handling("group"):
                await board.post("one", type="LOG")
                await begun.wait()
        assert (await board.groups())[0].in_flight == 0


async def test_handlers_go_on_after_what_could_not_be_answered_at_the_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Board.open(agent="ann") as board:
        handlers = board.handlers("group", workers=1)
        seen: asyncio.Queue[str | None] = asyncio.Queue()

        @handlers.handler(type="LOG")
        async def handle(event: WireEvent) -> None:
            seen.put_nowait(event.item)

        with caplog.at_level(logging.CRITICAL, "blackboard_mcp"):
            async with handlers.running():
                first = await board.post("one", type="LOG")
                assert await asyncio.wait_for(seen.get(), PATIENCE) == first.id
                left = [
                    StoreBusy("No answer."),
                    Unreachable("No answer."),
                    RateLimited("Too many calls wait."),
                ]
                reach = board._reach

                async def failing(tool: str, *given: Any, **more: Any) -> Any:
                    if tool == "consume" and left:
                        raise left.pop(0)
                    return await reach(tool, *given, **more)

                monkeypatch.setattr(board, "_reach", failing)
                for text in ("two", "three"):
                    posted = await board.post(text, type="LOG")
                    assert await asyncio.wait_for(seen.get(), PATIENCE) == posted.id
                assert left == []


async def test_a_board_that_is_gone_ends_the_handlers_with_its_error(tmp_path: Path) -> None:
    board = Board.open(agent="ann", data=tmp_path)
    async with board:
        handlers = board.handlers("group")

        @handlers.handler(event="item.posted")
        async def handle(event: WireEvent) -> None: ...

        running = asyncio.create_task(handlers.run())
        await begun(board, "group")
    with pytest.raises(BlackboardError):
        await asyncio.wait_for(running, PATIENCE)


def test_classes_are_narrowed_by_what_events_say_alone() -> None:
    class Heard(DebateHandlers):
        async def on_opened(self, event: WireEvent) -> None: ...

    assert Heard(key="plan:*", type="PLAN").filters == {
        "opened": {"key": "plan:*", "type": "PLAN", "event": "debate.opened"}
    }
    for unseen in ({"thread": "F-1"}, {"mentions": True}):
        with pytest.raises(TypeError):
            Heard(**unseen)  # type: ignore[arg-type]


def test_wrong_handlers_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with Board.open(agent="ann", data=tmp_path) as board:
            for wrong in ({"workers": 0}, {"workers": 33}, {"seconds": 0}, {"seconds": 61}):
                with pytest.raises(InvalidInput):
                    board.handlers("g", **wrong)  # type: ignore[arg-type]
            handlers = board.handlers("g")
            with pytest.raises(InvalidInput, match="There are no handlers"):
                await handlers.run()

            async def handle(event: WireEvent) -> None: ...

            with pytest.raises(InvalidInput):
                handlers.handler(event="item.dreamt")(handle)

            class Never:
                async def __call__(self, event: WireEvent) -> bool:
                    return False

            for awaited in (Never(), Never().__call__):
                with pytest.raises(InvalidInput, match="without awaiting"):
                    handlers.handler(type="LOG", when=awaited)(handle)  # type: ignore[arg-type]
            for _ in range(32):
                handlers.handler(type="LOG")(handle)
            with pytest.raises(InvalidInput, match="at most 32 handlers"):
                handlers.handler(type="LOG")(handle)

    asyncio.run(main())


PROGRAM = """
import asyncio, sys
from pathlib import Path
from blackboard_mcp.server import Board

async def main():
    async with Board.open(agent=sys.argv[2], data=Path(sys.argv[1])) as board:
        handlers = board.handlers("group", workers=2, lease_seconds=1)

        @handlers.handler(event="item.posted", type="LOG")
        async def work(event):
            if sys.argv[2] == "dies":
                print("took", flush=True)
                await asyncio.sleep(60)
            await board.post(f"did {event.item}", key=f"done:{event.item}", expected_version=0)

        print("ready", flush=True)
        await handlers.run()

asyncio.run(main())
"""


async def test_what_a_killed_program_had_in_hand_goes_to_another(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    async def started(agent: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(program), str(tmp_path / "data"), agent),
            stdout=asyncio.subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"ready\n"
        return process

    dying = await started("dies")
    async with Board.open(agent="ann", data=tmp_path / "data") as board:
        await begun(board, "group")
        logs = [(await board.post(f"n{number}", type="LOG")).id for number in range(4)]
        assert dying.stdout is not None
        assert await asyncio.wait_for(dying.stdout.readline(), PATIENCE) == b"took\n"
        dying.send_signal(signal.SIGKILL)
        await dying.wait()
        going = await started("goes-on")
        try:

            async def all_done() -> bool:
                return len(await board.query(key="done:*").all()) == len(logs)

            await until(all_done)
        finally:
            going.terminate()
            await going.wait()
        assert {item.key for item in await board.query(key="done:*").all()} == {f"done:{id_}" for id_ in logs}
