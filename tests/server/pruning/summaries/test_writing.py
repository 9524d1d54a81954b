"""Who writes the summaries of a pass, and what happens when the one asked does not deliver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import ItemType, Zone
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.server import compose
from blackboard_mcp.server.pruning.summaries.endpoint import MAX_CALLS
from blackboard_mcp.server.pruning.summaries.writing import SummaryWriter
from blackboard_mcp.server.settings.server import Settings, check_endpoint, load
from patience import PATIENCE

FILLER = "We looked at the seals, the flow and the price of every pump on the long list. " * 3


def small(folder: Path, model: Any, **settings: Any) -> Any:
    given = {"summariser": "ollama", "summary_url": model.url, "summary_model": "m", "target_tokens": 400}
    return boards.open_boards(folder, boards.MODERN, **{**given, **settings})


async def finished(agent: Any, name: str) -> None:
    """A thread that is finished as soon as it is there: in one post, so that no pass sees half of it."""
    on: dict[str, Any] = {"edges": {"replies_to": ["$1"]}}
    replies = [{"text": f"{name} {n}: {FILLER}", "type": "REPLY", **on} for n in range(6)]
    decision = {"text": f"We take the blue {name}.", "type": "DECISION", **on}
    await agent.do("post", items=[{"text": f"Which {name}?", "type": "QUESTION"}, *replies, decision])


async def told(agent: Any) -> list[Any]:
    """What the events of summaries say, oldest first."""
    events = (await agent.do("read", since=0))["events"]
    return [e["data"] for e in events if "summarises" in e["data"]]


async def test_all_threads_of_a_pass_share_one_bound_when_the_endpoint_hangs(
    tmp_path: Path, model: Any
) -> None:
    async def hang(asked: Any, reply: Any) -> None:
        await reply.hang()

    model.behave = hang
    async with small(tmp_path, model, summary_timeout_seconds=1) as opened:
        opened.opened.pruner.kick = lambda _: None
        alice = await opened.join("alice")
        for name in ("pump", "valve", "motor", "hose", "crane"):
            await finished(alice, name)
        async with asyncio.timeout(PATIENCE):
            await opened.opened.pruner.run_pass("main")
        assert len(model.asked) <= MAX_CALLS, "those who waited for their turn had the same second"
        events = await told(alice)
        assert [e["writer"] for e in events] == ["extractive"] * 5
        assert all("took over 1 s" in e["refused"] for e in events)
        assert (await opened.opened.store.find_board("main")).working_tokens <= 320


async def test_posts_go_on_while_an_endpoint_hangs(tmp_path: Path, model: Any) -> None:
    async def hang(asked: Any, reply: Any) -> None:
        await reply.hang()

    model.behave = hang
    async with small(tmp_path, model, summary_timeout_seconds=20) as opened:
        alice = await opened.join("alice")
        await finished(alice, "pump")
        await asyncio.wait_for(model.came.wait(), PATIENCE)
        for n in range(30):
            await alice.post(f"news {n}")
        assert not model.over.is_set()
        assert await told(alice) == []
        model.over.set()
        await opened.settled()
        assert [e["writer"] for e in await told(alice)] == ["extractive"]


async def test_a_board_chooses_among_what_its_server_has(
    tmp_path: Path, model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with small(tmp_path, model) as opened:
        writer: SummaryWriter = opened.opened.pruner.writer
        assert writer.configured == ("extractive", "agent", "ollama")
        assert writer.chosen(BoardConfig()) == "ollama"
        assert writer.chosen(BoardConfig(summariser="extractive")) == "extractive"
        with caplog.at_level(logging.WARNING):
            assert writer.chosen(BoardConfig(summariser="openai")) == "extractive"
            assert writer.chosen(BoardConfig(summariser="openai")) == "extractive"
        assert caplog.text.count("not configured here") == 1


async def test_what_a_summary_rests_on_besides_is_not_told_as_moved(
    tmp_path: Path, model: Any, make_item: Callable[..., Any], tokenizer: Tokenizer
) -> None:
    """The first item of a thread may be long in the archive."""
    first = make_item(1, "There are two pumps.", zone=Zone.ARCHIVE)
    rest = [make_item(n, f"Pump {n} is {n} bar.", ItemType.REPLY, thread=1) for n in (2, 3)]
    async with small(tmp_path, model) as opened:
        writer: SummaryWriter = opened.opened.pruner.writer
        written = writer.finished(
            (1, (2, 3)), [first, *rest], "Two pumps [F-1, R-2].", tokenizer, writer="ollama"
        )
    assert (written.sources, [*written.new.seen]) == (("R-2", "R-3"), [2, 3])
    assert "F-1" in written.new.text


async def test_a_dry_run_asks_nobody(tmp_path: Path, model: Any) -> None:
    async with small(tmp_path, model) as opened:
        opened.opened.pruner.kick = lambda _: None
        alice = await opened.join("alice")
        await finished(alice, "pump")
        said = await alice.say("prune", dry_run=True)
        assert "summarised" in said
        assert model.asked == []


async def test_a_thread_that_comes_under_debate_meanwhile_is_left_alone(
    tmp_path: Path, model: Any, make_item: Callable[..., Any]
) -> None:
    async with small(tmp_path, model) as opened:
        opened.opened.pruner.kick = lambda _: None
        alice, bob = await opened.join("alice", "bob")
        await finished(alice, "pump")

        async def and_then_a_critique(asked: Any, reply: Any) -> None:
            await bob.post("Wait!", "CRITIQUE", edges={"critiques": ["Q-1"]})
            await reply.completion(asked, "We take the blue pump [D-8].")

        model.behave = and_then_a_critique
        await opened.opened.pruner.run_pass("main")
        assert await told(alice) == []
        assert (await alice.item("Q-1"))["zone"] == "working"


# Settings

GIVEN = {"summariser": "openai", "summary_url": "https://api.example/v1", "summary_model": "small"}


def test_an_endpoint_is_named_by_kind_address_and_model() -> None:
    check_endpoint(load(GIVEN, {}))
    assert load(GIVEN, {}).summary_url == "https://api.example/v1"
    environment = {f"BLACKBOARD_{name.upper()}": value for name, value in GIVEN.items()}
    assert load({}, environment).summary_model == "small"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"summary_model": None}, "needs summary_model"),
        ({"summary_url": None, "summary_model": None}, "needs summary_url and summary_model"),
        ({"summariser": "agent"}, "summary_url is given, and summariser is agent"),
        ({"summariser": "gpt"}, "allowed: extractive, openai, ollama, agent"),
        ({"summary_url": "ftp://x"}, "http or https"),
        ({"summary_url": "http://"}, "http or https"),
        ({"summary_url": "http://x:port/"}, "http or https"),
        ({"summary_url": "http://x\n.org"}, "http or https"),
        ({"summary_url": "https://user:pw@x.org/v1"}, "no user"),
        ({"summary_url": "https://x.org/v1?key=s"}, "no user, query"),
        ({"summary_timeout_seconds": 0}, "from 1 to 300"),
        ({"capture": "all"}, "allowed: patterns, model"),
        (
            {"capture": "model", "summariser": "agent", "summary_url": None, "summary_model": None},
            "capture model needs summariser openai or ollama",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check_endpoint(load({**GIVEN, **change}, {}))


async def test_the_key_comes_from_the_environment_alone_and_not_over_plain_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Settings.__dataclass_fields__.keys() - {"tls_key"}  # that one names a file
    assert "key" not in " ".join(names)
    assert load({}, {"BLACKBOARD_SUMMARY_KEY": "sk-1"}) == load({}, {})
    monkeypatch.setenv("BLACKBOARD_SUMMARY_KEY", "sk-1")
    given = Settings(
        data=tmp_path, summariser="openai", summary_url="http://models.example", summary_model="m"
    )
    with pytest.raises(InvalidInput, match="in the clear") as caught:
        async with compose.installation(given, eager_index=False, background=False):
            pass
    assert "sk-1" not in str(caught.value)
