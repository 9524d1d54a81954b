"""The example programs run as they stand there, and end as their pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml
from blackboard_mcp.server.settings.server import load
from patience import RUN

PROJECT = Path(__file__).parents[1]
EXAMPLES = PROJECT / "docs/examples"


def test_five_agents_in_processes_of_their_own_come_to_a_cited_answer() -> None:
    words = [sys.executable, str(EXAMPLES / "team.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN, check=False)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"A-\d+: We buy the blue pump: .* It rests on (L-\d+(?:, L-\d+)*)\.\n", done.stdout)
    assert found is not None, done.stdout
    assert len(found[1].split(", ")) == 6


def test_the_files_of_the_containers_fit_each_other() -> None:
    folder = EXAMPLES / "compose"
    described = yaml.safe_load((folder / "compose.yaml").read_text())
    services = described["services"]
    at = {
        name: service["networks"]["default"]["ipv4_address"]
        for name, service in services.items()
        if name != "db"
    }
    assert len(set(at.values())) == 3
    assert services["balancer"]["extra_hosts"] == [f"{name}:{at[name]}" for name in ("one", "two")]
    settings = load({}, services["one"]["environment"], folder / "server.toml")
    assert settings.behind_proxy == (at["balancer"],)
    assert settings.store == "postgresql://blackboard@db/boards"
    balancer = (folder / "nginx.conf").read_text()
    assert re.findall(r"server (\w+:\d+);", balancer) == [
        f"{name}:{settings.port}" for name in ("one", "two")
    ]
    assert re.findall(r"server_name (\S+);", balancer) == list(settings.allowed_hosts)
    context = (folder / services["one"]["build"]["context"]).resolve()
    assert context / services["one"]["build"]["dockerfile"] == folder / "Dockerfile"
    for copied in re.findall(r"^COPY (.*) /src\S*$", (folder / "Dockerfile").read_text(), re.M):
        assert all((context / path).exists() for path in copied.split())
