"""Two agents on one board through the TypeScript clients of both protocol generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toolchain
from door import Door

NODE = Path(__file__).with_name("node")

pytestmark = pytest.mark.node

TOOLS = ["post", "read", "query", "query_archive", "subscribe", "wait", "debate"]
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@pytest.fixture(scope="module", params=[(g, t) for g in VERSIONS for t in ("stdio", "http")], ids="-".join)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two agents saw who went through one session with a TypeScript client."""
    generation, transport = request.param
    tools = toolchain.toolchain()
    data = tmp_path_factory.mktemp(f"{generation}-{transport}") / "data"
    config = data.with_name("board.toml")
    config.write_text('[board_settings]\npanels = ["notes"]\n')
    server = (*toolchain.SERVER, "--config", str(config))
    if transport == "http":
        with toolchain.http_server(data, server) as url:
            done = tools.run(NODE / "drive.mjs", generation, json.dumps({"url": url}))
    else:
        command = Door().words([*server, "--data", str(data)])
        done = tools.run(NODE / "drive.mjs", generation, json.dumps({"stdio": command}))
    assert done.status == 0, done.err[-3_000:]
    assert "Traceback" not in done.err, done.err
    facts: dict[str, Any] = done.document | {"generation": generation, "transport": transport}
    return facts


def test_the_client_speaks_its_generation_with_our_server(seen: dict[str, Any]) -> None:
    # The legacy client keeps the version on its HTTP transport only.
    if seen["version"] is not None or seen["generation"] == "modern":
        assert seen["version"] == VERSIONS[seen["generation"]]
    assert seen["server"]["name"] == "blackboard-mcp"
    assert "query_archive" in seen["instructions"]


def test_the_seven_tools_are_listed_and_answer(seen: dict[str, Any]) -> None:
    assert seen["tools"] == TOOLS
    assert set(seen["calls"]) == set(TOOLS)
    for name, answer in seen["calls"].items():
        assert not answer["error"], (name, answer)
        assert "seq " in answer["text"].splitlines()[-1], (name, answer)
        assert answer["facts"] is not None, name
    assert seen["calls"]["post"]["facts"]["items"][0]["author"] == "ts"
    assert seen["id"] in seen["calls"]["read"]["text"]
    assert [item["id"] for item in seen["calls"]["query"]["facts"]["items"]] == [seen["id"]]
    owed = seen["calls"]["debate"]["facts"]["outstanding"]
    assert ("ts", "respond") in [(o["agent"], o["duty"]) for o in owed]


def test_a_subscription_delivers_the_other_agents_critique(seen: dict[str, Any]) -> None:
    events = seen["calls"]["wait"]["facts"]["events"]
    assert [(e["item"], e["agent"]) for e in events if e["event"] == "item.posted"] == [
        (seen["critique"], "rival")
    ]


def test_an_unknown_argument_is_refused_by_name(seen: dict[str, Any]) -> None:
    assert seen["unknownArgument"]["error"]
    assert "colour" in seen["unknownArgument"]["text"]


def test_every_resource_is_offered_and_read_as_text_and_as_json(seen: dict[str, Any]) -> None:
    assert len(seen["resources"]) == len(seen["templates"]) == 38
    for uri, content in seen["resources"].items():
        if uri.endswith(".json"):
            assert content["mime"] == "application/json", uri
            assert isinstance(json.loads(content["text"]), dict), uri
        else:
            assert content["mime"] == "text/markdown", uri
            assert content["text"], uri
    assert seen["id"] in seen["resources"]["board://main/working"]["text"]
    assert seen["id"] in seen["resources"]["board://main/view/ts"]["text"]
    assert "cold after a restart" in seen["resources"][f"board://main/items/{seen['id']}"]["text"]


def test_a_subscriber_is_notified_of_another_clients_post(seen: dict[str, Any]) -> None:
    assert seen["notified"] == "board://main/working"


def test_a_waiting_call_ends_with_another_clients_post(seen: dict[str, Any]) -> None:
    assert [e["item"] for e in seen["waited"]["facts"]["events"]] == [seen["late"]]
    assert seen["waitedMs"] < 10_000
