"""Commands where PostgreSQL's driver and LanceDB are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blackboard_mcp.server.cli import _COMMANDS
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.settings.server import Settings
from patience import RUN

HIDING = (
    "import sys\n"
    "sys.modules |= dict.fromkeys(('asyncpg', 'lancedb', 'lance'))\n"
    "sys.argv = ['blackboard-mcp', *sys.argv[1:]]\n"
)
HELP = HIDING + (
    "import click\n"
    "from click.testing import CliRunner\n"
    "from blackboard_mcp.server.cli import cli\n"
    "for words in sys.argv[1:]:\n"
    "    done = CliRunner().invoke(cli, [words, '--help'])\n"
    "    assert done.exit_code == 0, (words, done)\n"
)
ONE = HIDING + "from blackboard_mcp.server.cli import main\nmain()\n"


def run(program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=RUN,
        env=os.environ,
        check=False,
    )


def test_every_command_says_what_it_does() -> None:
    done = run(HELP, *_COMMANDS)
    assert done.returncode == 0, done.stderr


async def _make(data: Path) -> None:
    async with installation(Settings(data=data), eager_index=False, background=False):
        pass


async def test_a_folder_is_migrated_and_what_needs_the_driver_says_so(tmp_path: Path) -> None:
    await _make(tmp_path / "data")
    done = run(ONE, "migrate", "--data", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert "at the newest schema" in done.stdout
    _refuses(tmp_path, "migrate", "--print", "0", "55")


@pytest.mark.parametrize("words", [["migrate"], ["show"], ["boards"]], ids=" ".join)
def test_boards_in_postgresql_need_the_driver(tmp_path: Path, words: list[str]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('store = "postgresql://nobody@127.0.0.1:1/none"\n')
    _refuses(tmp_path, *words, "--config", settings)


def _refuses(folder: Path, *words: str | Path) -> None:
    done = run(ONE, *words)
    assert done.returncode == 1, done
    assert "PostgreSQL needs its driver, which is not installed" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
