"""Communication protocols of an operator's own: sound ones are taken at launch, others end it and say why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server import Board
from blackboard_mcp.server.plugins.protocols import Protocols
from blackboard_mcp.server.text.protocols import protocol_lines
from patience import RUN

SOUND = '''
from typing import ClassVar

from blackboard_mcp.protocols.messages.base import ID, Body, KeyShape, MessageProtocol, Part, Words


class Ballot(Body):
    """One voice."""

    choice: Words
    why: str = ""


class Voting(MessageProtocol):
    """Choose between proposals\u202e\\nseq 9."""

    name: ClassVar[str] = "voting"
    shapes: ClassVar[tuple[KeyShape, ...]] = (KeyShape("ballot", (ID, Part("agent")), Ballot, "each agent once"),)
'''
LEVELS = (
    SOUND.replace("Words", "Words\nfrom blackboard_mcp.protocols.items import Visibility", 1)
    + '''

class Huddle(MessageProtocol):
    """Talk within a team."""

    name = "huddle"
    level = Visibility.TEAM
    shapes = (KeyShape("aside", (ID, Part("agent")), Ballot, "anybody"),)


class Diary(Huddle):
    """Keep notes."""

    name = "diary"
    level = Visibility.PRIVATE
    shapes = (KeyShape("note", (ID,), Ballot, "its author"),)


class Nowhere(Huddle):
    """Talk to no one."""

    name = "nowhere"
    level = "readers"
'''
)
BAD = (
    SOUND
    + '''

class Clash(Voting):
    """Another."""

    name = "another"


class Takes(Voting):
    """Another."""

    name = "lifecycle"


class Loud(Voting):
    """Raises where it is asked what it is for."""

    name = "loud"
    shapes = (KeyShape("noise", (ID,), Ballot, "nobody"),)

    @classmethod
    def purpose(cls):
        raise RuntimeError("no purpose")


class Shapeless(MessageProtocol):
    """No shapes."""

    name = "shapeless"


class Plain:
    pass


thing = 3
'''
)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "sound_protocols.py").write_text(SOUND, "utf-8")
    (tmp_path / "bad_protocols.py").write_text(BAD, "utf-8")
    (tmp_path / "level_protocols.py").write_text(LEVELS, "utf-8")
    (tmp_path / "broken_protocols.py").write_text("1 / 0\n", "utf-8")
    (tmp_path / "leaving_protocols.py").write_text("raise SystemExit(3)\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in (
        "sound_protocols",
        "bad_protocols",
        "level_protocols",
        "broken_protocols",
        "leaving_protocols",
    ):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("modules")
def test_a_class_of_ones_own_stands_beside_the_ten_on_one_line() -> None:
    known = Protocols(["sound_protocols:Voting"])
    assert known.names[-1] == "voting"
    assert len(known.names) == 11
    lines = protocol_lines(known.about)
    assert lines[-2:] == [
        "voting 1: Choose between proposals\\u202e",
        "  {scope}:ballot:{id}:{agent} by each agent once: {choice, why?}",
    ]
    assert known.about[-1]["keys"][0]["pattern"] == "{scope}:ballot:*:*"


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("sound_protocols", "not of the form"),
        ("sound_protocols:", "not of the form"),
        ("../evil:Voting", "not of the form"),
        ("sound_protocols:Voting()", "not of the form"),
        ("no_such_module:Voting", "importing 'no_such_module' failed"),
        ("broken_protocols:Voting", "importing 'broken_protocols' failed: ZeroDivisionError"),
        ("leaving_protocols:Voting", "importing 'leaving_protocols' failed: SystemExit"),
        ("sound_protocols:Missing", "has no 'Missing'"),
        ("bad_protocols:Plain", "no subclass"),
        ("bad_protocols:thing", "no subclass"),
        ("bad_protocols:Shapeless", "shapes must be"),
        ("bad_protocols:Takes", "'lifecycle' already"),
        ("bad_protocols:Clash", "collide with 'ballot' of voting"),
        ("level_protocols:Nowhere", "level must be Visibility.BOARD, TEAM or PRIVATE"),
        ("bad_protocols:Loud", "RuntimeError: no purpose"),
        ("blackboard_mcp.protocols.messages.lifecycle:Lifecycle", "'lifecycle' already"),
    ],
)
def test_a_class_that_is_off_ends_the_launch_and_is_named(path: str, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Protocols(["sound_protocols:Voting", path])
    assert caught.value.message.startswith(f"protocol {path}")
    assert named in caught.value.message


def test_a_server_with_a_protocol_that_is_off_does_not_start(modules: Path) -> None:
    command = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--data", str(modules / "data")]
    done = subprocess.run(
        [*command, "--protocol", "bad_protocols:Clash,sound_protocols:Voting"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN,
        env={"PYTHONPATH": str(modules)},
    )
    assert done.returncode == 1
    assert "protocol sound_protocols:Voting" in done.stderr
    assert "collide with 'ballot' of another" in done.stderr
    assert "Traceback" not in done.stderr


async def test_messages_are_as_visible_as_the_level_of_their_protocol_says(modules: Path) -> None:
    named = ["level_protocols:Voting", "level_protocols:Huddle", "level_protocols:Diary"]
    async with (
        Board.open(agent="ann", data=modules, settings={"protocol": named}) as ann,
        Board.open(agent="ben", data=modules, settings={"protocol": named}) as ben,
    ):
        said = [
            await ann.post("{}", key=key)
            for key in (
                "s:aside:1:ann",
                "s:note:1",
                "s:ballot:1:ann",
                "s:aside:1",
                "aside:1:ann",
                "s:note:1:2",
            )
        ]
        assert [item.visibility for item in said] == ["team", "private", *["board"] * 4]
        again = await ann.post("{ }", key="s:note:1")
        assert (again.id, again.version) == (said[1].id, 2)
        for key, other in (("s:aside:1:ann", "board"), ("s:note:2", "team")):
            with pytest.raises(InvalidInput, match="leave visibility out"):
                await ann.post("{}", key=key, visibility=other)
        assert [item.key async for item in ben.query(key="s:**")] == [
            "s:note:1:2",
            "s:aside:1",
            "s:ballot:1:ann",
        ]
        async with ann.transaction() as wanted:
            wanted.put("s:note:3", "{}")
            wanted.delete("s:note:1")
        assert (await ann.get("s:note:3")).visibility == "private"
        assert await ann.find("s:note:1") is None
