"""The MCP Inspector's command line against a real server: strict schemas, every tool, resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toolchain
from door import Door

NODE = Path(__file__).with_name("node")

pytestmark = pytest.mark.node

CALLS: dict[str, dict[str, Any]] = {
    "post": {"text": "the index is stale", "tags": ["index"], "importance": 4},
    "read": {"ids": ["F-1"]},
    "query": {"tags": ["index"]},
    "query_archive": {"text": "index"},
    "subscribe": {"filter": {"mentions": True}},
    "wait": {"since": 0, "seconds": 1},
    "debate": {"op": "status", "id": "F-1"},
}
PLACES = ("", "/stats", "/events.json")
Inspect = Callable[..., list[Any]]


@pytest.fixture(scope="module", params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["stdio", "http"])
def inspect(
    request: pytest.FixtureRequest, era: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Inspect]:
    """Has the Inspector ask one board several questions, and gives what it prints for each."""
    transport = request.param
    tools = toolchain.toolchain()
    data = tmp_path_factory.mktemp(f"inspector-{era}-{transport}") / "data"

    # A busy machine takes longer than the Inspector's 15 seconds to start a server.
    options = ("--format", "json", "--connect-timeout", "60000", "--protocol-era", era)

    def run(target: list[str]) -> Inspect:
        def inspect(*questions: tuple[str, ...]) -> list[Any]:
            asked = [[*target, *options, *question] for question in questions]
            done = tools.run(NODE / "inspect.mjs", json.dumps(asked), seconds=600)
            assert done.status == 0, done.err[-3_000:]
            assert "Traceback" not in done.err, done.err
            return [answer["result"] for answer in done.document]

        return inspect

    if transport == "http":
        with toolchain.http_server(data) as url:
            yield run(
                ["--server-url", url, "--transport", "http", "--header", "X-Blackboard-Agent: inspector"]
            )
    else:
        server = Door().words([*toolchain.SERVER, "--data", str(data), "--agent", "inspector"])
        yield run([server[0], "--", *server[1:]])


def test_the_tools_pass_the_strict_check_and_answer(inspect: Inspect) -> None:
    listed, *answers = inspect(
        ("--method", "tools/list", "--strict"),
        *(
            ("--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))
            for name, arguments in CALLS.items()
        ),
    )
    assert [tool["name"] for tool in listed["tools"]] == list(CALLS)
    for name, answer in zip(CALLS, answers, strict=True):
        text = answer["content"][0]["text"]
        assert not answer.get("isError"), (name, text)
        assert "seq " in text.splitlines()[-1], (name, text)


def test_the_resources_are_offered_and_read(inspect: Inspect) -> None:
    listed, *read = inspect(
        ("--method", "resources/templates/list"),
        *(("--method", "resources/read", "--uri", f"board://main{place}") for place in PLACES),
    )
    offered = listed["resourceTemplates"]
    assert {"board://{board}/working", "board://{board}/stats.json"} <= {t["uriTemplate"] for t in offered}
    for one in read:
        (content,) = one["contents"]
        assert content["text"]


def test_the_command_line_itself_checks_a_server_that_starts_cold(era: str, tmp_path: Path) -> None:
    tools = toolchain.toolchain()
    script = tools.folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    done = tools.run(
        *(script, "--cli", *toolchain.SERVER, "--data", str(tmp_path / "data"), "--format", "json"),
        *("--connect-timeout", "60000", "--protocol-era", era, "--method", "tools/list", "--strict"),
    )
    assert done.status == 0, done.err[-3_000:]
    assert [tool["name"] for tool in done.document["result"]["tools"]] == list(CALLS)
