"""The example programs run as they stand there, and end as their pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from patience import RUN

EXAMPLES = Path(__file__).parents[1] / "docs/examples"


def test_five_agents_in_processes_of_their_own_come_to_a_cited_answer() -> None:
    words = [sys.executable, str(EXAMPLES / "team.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN, check=False)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"A-\d+: We buy the blue pump: .* It rests on (L-\d+(?:, L-\d+)*)\.\n", done.stdout)
    assert found is not None, done.stdout
    assert len(found[1].split(", ")) == 6
