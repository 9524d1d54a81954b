"""Names of any script over every wire, none that looks like another's, and none that means somebody else."""

from __future__ import annotations

import json
import subprocess
from locale import getencoding
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from blackboard_mcp.server.board import BoardClient
from blackboard_mcp.server.demo.process import command, environment, http_clients, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import STRUCTURED, call, say
from mcp.client import Client
from patience import PATIENCE, RUN

ANNA, JUERGEN, MING = "\u0430\u043d\u043d\u0430", "j\u00fcrgen", "\u5c0f\u660e"
ALICE = "\u0430lice"
"""With a Cyrillic first letter."""


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments, meta=STRUCTURED)
    assert result.is_error, result
    assert result.structured_content is not None
    assert result.structured_content["error"] == "refused"
    return str(result.structured_content["message"])


@pytest.mark.parametrize("wire", ["http", "stdio"])
async def test_agents_of_any_script_ask_and_answer_each_other(tmp_path: Path, wire: str) -> None:
    async with http_server(tmp_path) as served:
        connect = http_clients(served.url) if wire == "http" else stdio_clients(tmp_path)
        async with connect(ANNA) as anna, connect("ju\u0308rgen") as juergen, connect(MING) as ming:
            for client, name in ((juergen, JUERGEN), (ming, MING)):
                posted = await call(client, "post", text=f"{name} is here")
                assert posted["items"][0]["author"] == name
            await call(anna, "post", text=f"@{JUERGEN}, @{MING}: which port?", type="QUESTION")
            for client in (juergen, ming):
                assert "Q-3" in await say(client, "read")
                await call(client, "post", text="5432", type="ANSWER", edges={"replies_to": ["Q-3"]})
            found = await call(anna, "query", author="ju\u0308rgen")
            assert {item["author"] for item in found["items"]} == {JUERGEN}
            await call(anna, "post", text="5432 then", type="DECISION", agree=["ju\u0308rgen"])
            assert "you owe: agree or object to D-6" in await say(juergen, "query", type="LOG")


@pytest.mark.parametrize("wire", ["http", "stdio"])
async def test_nobody_new_is_mistaken_for_another(tmp_path: Path, wire: str) -> None:
    async with http_server(tmp_path) as served:
        connect = http_clients(served.url) if wire == "http" else stdio_clients(tmp_path)
        async with connect("alice") as alice, connect(ALICE) as other, connect("ALICE") as loud:
            await call(alice, "post", text="here")
            for client in (other, loud):
                assert (await call(client, "read"))["seq"] == 2
                for tool, arguments in (
                    ("post", {"text": "here too"}),
                    ("debate", {"op": "watch", "id": "F-1"}),
                ):
                    said = await refusal(client, tool, **arguments)
                    assert "looks like 'alice', who is on the board 'main' already" in said
                    assert "take a name that cannot be mistaken" in said
            assert (await call(alice, "read"))["seq"] == 2
        for name in ("me", "m\u0435"):
            async with connect(name) as nobody:
                for tool, given in (("read", {}), ("post", {"text": "here"})):
                    assert "no names of agents" in await refusal(nobody, tool, **given)


async def test_a_header_that_is_not_encoded_says_how(tmp_path: Path) -> None:
    async with http_server(tmp_path) as served:
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as http:
            for sent in (JUERGEN.encode(), b"j\xfcrgen", b"%FF%FE", b"a%20b"):
                reply = await http.post(served.url, headers=[(b"X-Blackboard-Agent", sent)], json={})
                assert reply.status_code == 400, sent
                assert "not an agent's name" in reply.text
            raw = [(b"X-Blackboard-Agent", JUERGEN.encode())]
            assert quote(JUERGEN) in (await http.post(served.url, headers=raw, json={})).text
        async with BoardClient.connect(served.url, agent="ju\u0308rgen") as board:
            assert (board.agent, (await board.post("here")).author) == (JUERGEN, JUERGEN)


def token(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command("token", "create", "--json", "--data", str(data)), *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN,
        env=environment() if getencoding().upper() == "UTF-8" else {**environment(), "PYTHONUTF8": "1"},
    )


async def test_tokens_are_made_for_names_of_any_script_and_for_none_that_looks_like_another(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    made = json.loads(token(data, "--agent", "ju\u0308rgen").stdout)
    assert made["agent"] == JUERGEN
    for wrong, why in (
        ("J\u00dcRGEN", "looks like"),
        ("me", "no names of agents"),
        ("a b", "not an agent's name"),
    ):
        refused = token(data, "--agent", wrong)
        assert (refused.returncode != 0, refused.stdout) == (True, "")
        assert why in refused.stderr
    assert token(data, "--agent", JUERGEN).returncode == 0, "another token of the same agent"
    async with (
        http_server(data) as served,
        BoardClient.connect(served.url, agent=JUERGEN, token=made["token"]) as board,
    ):
        assert (await board.post("here")).author == JUERGEN
