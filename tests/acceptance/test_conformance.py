"""The protocol's own conformance suite against a real server, for both generations, with nothing excepted.

What a revision requires is the suite's list (`list --requirements`), frozen when the revision came out; the
lists below are compared with it. The suite calls fixtures by name, so the server is started by
`conformance/serve.py`, which adds them to what `serve` builds.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import toolchain
from blackboard_mcp.server.demo.process import http_clients

HERE = Path(__file__).parent

pytestmark = pytest.mark.node

SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SERVE_WITH_FIXTURES = (sys.executable, str(HERE / "conformance" / "serve.py"))
COMMON = """
    completion-complete tools-list tools-call-simple-text tools-call-image tools-call-audio
    tools-call-embedded-resource tools-call-mixed-content tools-call-error tools-call-with-progress
    server-sse-multiple-streams resources-list resources-read-text resources-read-binary
    resources-templates-read prompts-list prompts-get-simple prompts-get-with-args
    prompts-get-embedded-resource prompts-get-with-image dns-rebinding-protection
"""
REQUIRED = {
    "2025-11-25": f"""{COMMON}
        server-initialize ping logging-set-level tools-call-with-logging tools-call-sampling
        tools-call-elicitation elicitation-sep1034-defaults elicitation-sep1330-enums resources-subscribe
        resources-unsubscribe
    """.split(),
    "2026-07-28": f"""{COMMON}
        server-stateless caching sep-2164-resource-not-found input-required-result-basic-elicitation
        input-required-result-basic-sampling input-required-result-basic-list-roots
        input-required-result-request-state input-required-result-multiple-input-requests
        input-required-result-multi-round input-required-result-missing-input-response
        input-required-result-non-tool-request input-required-result-result-type
        input-required-result-unsupported-methods input-required-result-tampered-state
        input-required-result-capability-check input-required-result-ignore-extra-params
        input-required-result-validate-input
    """.split(),
}
# The suite runs these too and counts them for nothing; they hold here as well.
BEYOND = {
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12"],
    "2026-07-28": ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
}
# And these are about what the server does not offer: streams that can be resumed, and tasks.
TASKS = "lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers \
    dispatch-and-envelope status-notifications required-task-error mrtr-composition"
NOT_OFFERED = {
    "2025-11-25": ["server-sse-polling"],
    "2026-07-28": [f"tasks-{name}" for name in TASKS.split()],
}
# Skipped by the suite itself, since the server does not promise news of its lists: they never change.
NOT_PROMISED = {
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
}


class Verdict:
    """What the suite said of one revision: its exit code, and its checks by scenario."""

    def __init__(self, done: Any, results: Path) -> None:
        self.done = done
        self.checks: dict[str, list[dict[str, Any]]] = {}
        for folder in results.iterdir():
            named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", folder.name)
            assert named is not None, folder.name
            self.checks[named.group(1)] = json.loads((folder / "checks.json").read_text())


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Verdict]:
    """Gives the suite's verdict on the server for a revision; it is run once for each."""

    @cache
    def judge(revision: str) -> Verdict:
        tools = toolchain.toolchain()
        folder = tmp_path_factory.mktemp(f"conformance-{revision}")
        with toolchain.http_server(folder / "data", SERVE_WITH_FIXTURES) as url:
            options = ("--url", url, "--requirements", revision, "--output-dir", str(folder / "results"))
            done = tools.run(tools.folder / SUITE, "server", *options, seconds=240)
        return Verdict(done, folder / "results")

    return judge


def scenarios() -> list[tuple[str, str]]:
    return [(revision, name) for revision in REQUIRED for name in (*REQUIRED[revision], *BEYOND[revision])]


@pytest.mark.parametrize(("revision", "scenario"), scenarios())
def test_the_scenario_holds(verdict: Callable[[str], Verdict], revision: str, scenario: str) -> None:
    checks = verdict(revision).checks[scenario]
    wrong = [
        f"{check['status']} {check['id']}: {check.get('errorMessage')} {json.dumps(check.get('details'))[:2_000]}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO")
        and not (check["status"] == "SKIPPED" and check["id"] in NOT_PROMISED)
    ]
    assert not wrong, "\n".join(wrong)
    assert any(check["status"] == "SUCCESS" for check in checks), checks


@pytest.mark.parametrize("revision", REQUIRED)
def test_the_suite_finds_that_the_server_conforms(verdict: Callable[[str], Verdict], revision: str) -> None:
    done = verdict(revision).done
    assert done.status == 0, done.out[-3_000:] + done.err[-1_000:]


@pytest.mark.parametrize("revision", REQUIRED)
def test_the_scenarios_are_those_that_the_revision_requires(revision: str) -> None:
    tools = toolchain.toolchain()
    done = tools.run(tools.folder / SUITE, "list", "--requirements", revision)
    assert done.status == 0, done.err
    required, unscored = done.out.split("Run and reported, but never scored:")
    server = required.split("Server scenarios")[1].split("Client scenarios")[0]
    assert set(re.findall(r"^  - (\S+)$", server, re.M)) == set(REQUIRED[revision])
    assert set(re.findall(r"^    - (\S+) \[server\]$", unscored, re.M)) == {
        *BEYOND[revision],
        *NOT_OFFERED[revision],
    }


async def test_the_server_that_people_run_has_none_of_the_fixtures(tmp_path: Path) -> None:
    tools = toolchain.toolchain()
    with toolchain.http_server(tmp_path / "data") as url:
        async with http_clients(url)("ada") as ada:
            names = {tool.name for tool in (await ada.list_tools()).tools}
            prompts = [prompt.name for prompt in (await ada.list_prompts()).prompts]
            places = [str(resource.uri) for resource in (await ada.list_resources()).resources]
            assert ada.server_capabilities.logging is None
        done = tools.run(tools.folder / SUITE, "server", "--url", url, "--scenario", "tools-call-simple-text")
    assert names == {"post", "read", "query", "query_archive", "subscribe", "wait", "debate"}
    assert not [name for name in (*prompts, *places) if "test" in name]
    assert done.status == 1
    assert "unknown tool 'test_simple_text'" in done.out
