"""Every command that README and docs show is run as it stands there, page by page, in a folder of its own.

A page's commands share a home and a data folder. Folders of the test take the place of those that only an
administrator may write to; a server is started, has to serve, and is stopped.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from blackboard_mcp.server.board import Board
from door import Door
from patience import PATIENCE, until

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
DOOR = Door()
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
ELSEWHERE = {
    "claude": "another company's program",
    "ssh": "needs another machine",
    "curl": "reads a stream without end of a server on port 8420; the tests of the stream read it",
    "uv": "asks package indexes",
    "pip": "installs, which CI does in a clean environment",
    "python3": "makes the environment, which CI does",
    "pytest": "these tests",
    "coverage": "these tests once more",
    "ruff": "CI runs it first",
    "mypy": "CI runs it first",
    "lint-imports": "CI runs it first",
    "python": "benchmarks take minutes; their page says how long",
}
"""Programs that are not run here, and why."""


def commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def runnable(line: str) -> str:
    """What of a line is run: all but its parts that begin with a program of `ELSEWHERE`."""
    kept = []
    for part in line.split(" && "):
        words = [word for word in shlex.split(part, comments=True) if not re.match(r"\w+=", word)]
        if Path(words[0]).name not in ELSEWHERE:
            kept.append(part)
    return " && ".join(kept)


async def furnish(folder: Path) -> None:
    """A data folder whose board has something of what pages show."""
    async with Board.open(data=folder, agent="ann") as board:
        await board.post("the release is safe", type="HYPOTHESIS")
        await board.post("the pump burst at 8 bar", tags=["pump"])


class Machine:
    """A home, a data folder with a board, certificates, and the command where pages look for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = {
            "/srv/blackboard": str(folder / "srv"),
            "/etc/blackboard": str(folder / "etc" / "blackboard"),
            "/backups/": f"{folder}/backups/",
            "/backup/": f"{folder}/backups/",
            "~/boards": str(folder / "srv"),
            "~/other": str(folder / "other"),
            "…": "x",
        }
        clients = (
            ".claude",
            ".cursor",
            ".codex",
            ".gemini",
            ".config/Claude",
            ".config/Code/User",
            ".config/goose",
        )
        for place in (
            "home",
            "etc/blackboard",
            "backups",
            "work/.venv/bin",
            "bin",
            *(f"home/{name}" for name in clients),
        ):
            (folder / place).mkdir(parents=True, exist_ok=True)
        for data in ("srv", "work/quickstart-board"):
            asyncio.run(furnish(folder / data))
        for place in ("bin", "work/.venv/bin"):
            DOOR.program(folder / place / "blackboard-mcp", [str(BIN / "blackboard-mcp")])
        elsewhere = re.compile("BLACKBOARD|^XDG_|^CODEX_HOME$|^CLAUDE_CONFIG_DIR$")
        self.environment = {
            name: value for name, value in os.environ.items() if not elsewhere.search(name)
        } | {
            "HOME": str(folder / "home"),
            "PATH": os.pathsep.join([str(folder / "bin"), str(BIN), os.environ["PATH"]]),
            "BLACKBOARD_DATA": str(folder / "srv"),
            "BLACKBOARD_PORT": "0",
        }
        issued = trustme.CA().issue_cert("board.example.com")
        issued.private_key_pem.write_to_path(folder / "etc" / "blackboard" / "key.pem")
        (folder / "etc" / "blackboard" / "key.pem").chmod(0o600)
        for pem in issued.cert_chain_pems:
            pem.write_to_path(folder / "etc" / "blackboard" / "fullchain.pem", append=True)

    def here(self, text: str) -> str:
        """A page's text with its places on this machine."""
        for place, found in self.places.items():
            text = text.replace(place, found)
        return text

    def configure(self, page: str) -> None:
        """Writes the configuration file that a page shows, and the modules of classes."""
        for name, text in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            place = self.folder / "work" / self.here(name)
            if name.endswith(".py") or not place.exists():
                place.write_text(self.here(text), "utf-8")

    def run(self, line: str) -> None:
        """Runs a line to its end, or for as long as it takes a server to serve."""
        line = self.here(line)
        if line.startswith("blackboard-mcp watch") and "--seconds" not in line:
            line += " --seconds 0.1"  # it would go on for ever
        if " token revoke " in line:  # the page shows an id of its own
            line = re.sub(r"[0-9a-f]{12}$", self.token(), line)
        said = self.folder / "said"
        with said.open("w") as into:
            process = subprocess.Popen(
                [
                    "bash",
                    "-euc",
                    f"exec {line}" if line.startswith(("blackboard-mcp serve", ".venv")) else line,
                ],
                cwd=self.folder / "work",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=subprocess.STDOUT,
            )
            words = line.split()
            if "serve" in words and ("http" in words or "--config" in words):
                until(lambda: process.poll() is not None or " serves http" in said.read_text("utf-8"))
                assert process.poll() is None, f"{line}\n{said.read_text('utf-8')}"
                process.terminate()
            status = process.wait(3 * PATIENCE)
        allowed = {0, 1} if "doctor" in words else {0}  # 1: there are warnings, say of this machine's disk
        assert status in allowed, f"{line}\n{status}: {said.read_text('utf-8')}"
        assert not re.search("^Traceback", said.read_text("utf-8"), re.MULTILINE), (
            f"{line}\n{said.read_text('utf-8')}"
        )

    def token(self) -> str:
        """The id of a token that there is."""
        listing = [BIN / "blackboard-mcp", "token", "list", "--json"]
        listed = subprocess.run(listing, env=self.environment, capture_output=True, text=True, check=True)
        return str(re.search(r'"id": "(\w+)"', listed.stdout)[1])  # type: ignore[index]


WITH_COMMANDS = [page for page in PAGES if any(map(runnable, commands(page)))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_they_are_there_for(page: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.configure(page.read_text("utf-8"))
    for line in filter(None, map(runnable, commands(page))):
        machine.run(line)


def test_pages_show_commands() -> None:
    assert len(WITH_COMMANDS) > 10
    assert [line for line in commands(ROOT / "README.md") if runnable(line)] == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/blackboard-mcp demo",
        ".venv/bin/blackboard-mcp serve --transport http",
        ".venv/bin/blackboard-mcp install claude-code --url http://127.0.0.1:8420/mcp",
        ".venv/bin/blackboard-mcp install claude-desktop --url http://127.0.0.1:8420/mcp",
        ".venv/bin/blackboard-mcp doctor",
    ], "the command after the first is found where the first put it"
