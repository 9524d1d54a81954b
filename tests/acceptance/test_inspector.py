"""The MCP Inspector's command line against a real server: strict schemas, every tool, resources."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).with_name("node")
_spec = importlib.util.spec_from_file_location("node_toolchain", NODE / "toolchain.py")
assert _spec is not None
assert _spec.loader is not None
toolchain = sys.modules["node_toolchain"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toolchain)

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
Inspect = Callable[..., Any]


@pytest.fixture(
    scope="module", params=[(e, t) for e in ("legacy", "modern") for t in ("stdio", "http")], ids="-".join
)
def inspect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspect]:
    """Runs the Inspector on one board and gives the JSON it prints."""
    era, transport = request.param
    tools = toolchain.toolchain()
    script = tools.folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    data = tmp_path_factory.mktemp(f"inspector-{era}-{transport}") / "data"

    # A busy machine takes longer than the Inspector's 15 seconds to start a server.
    options = ("--format", "json", "--connect-timeout", "60000")

    def run(target: list[str]) -> Inspect:
        def inspect(*arguments: str) -> Any:
            done = tools.run(
                script, "--cli", *target, *options, "--protocol-era", era, *arguments, seconds=120
            )
            assert done.status == 0, done.err[-3_000:]
            assert "Traceback" not in done.err, done.err
            return done.document["result"]

        return inspect

    if transport == "http":
        with toolchain.http_server(data) as url:
            yield run(
                ["--server-url", url, "--transport", "http", "--header", "X-Blackboard-Agent: inspector"]
            )
    else:
        yield run([*toolchain.SERVER, "--data", str(data), "--agent", "inspector"])


def test_the_tools_pass_the_strict_check_and_answer(inspect: Inspect) -> None:
    listed = inspect("--method", "tools/list", "--strict")
    assert [tool["name"] for tool in listed["tools"]] == list(CALLS)
    for name, arguments in CALLS.items():
        answer = inspect(
            "--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)
        )
        text = answer["content"][0]["text"]
        assert not answer.get("isError"), (name, text)
        assert "seq " in text.splitlines()[-1], (name, text)


def test_the_resources_are_offered_and_read(inspect: Inspect) -> None:
    offered = inspect("--method", "resources/templates/list")["resourceTemplates"]
    assert {"board://{board}/working", "board://{board}/stats.json"} <= {t["uriTemplate"] for t in offered}
    for place in ("", "/stats", "/events.json"):
        (content,) = inspect("--method", "resources/read", "--uri", f"board://main{place}")["contents"]
        assert content["text"]
