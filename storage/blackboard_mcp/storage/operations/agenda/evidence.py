"""Evidence that goes stale: results of the operator's checks hold for the revision of the files that they ran on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.workspace import file_glob

from ..ledger.ledger import load
from ..ledger.rows import ItemRow, Steps, sql


def check_cited(no: int, number: int, agent: str) -> Steps[None]:
    """Does as `check_fresh` for what an item cites and the agent may see."""
    edges = yield sql("edges_touching"), (no, f"[{number}]")
    cited = yield from load(no, {target for source, _, target in edges if source == number}, agent)
    yield from check_fresh(no, cited.values())


def check_fresh(no: int, rows: Iterable[ItemRow]) -> Steps[None]:
    """Checks that none of the items is the result of a check whose files were written since.

    Raises:
        Conflict: one is; its facts carry the path and revision of the write.
    """
    for row in rows:
        told: Any = json.loads(row.metadata).get("check") if row.author == SYSTEM else None
        if not isinstance(told, dict):
            continue
        matches = file_glob(str(told["files"]))
        for path, revision in (yield sql("artifacts_since"), (no, int(told["revision"]))):
            if matches(path):
                raise Conflict(
                    f"{row.id} is what {told['name']} gave at rev {told['revision']}, and {path} was written in rev "
                    f"{revision} since. Nothing was changed; {told['name']} runs by itself: wait() tells its new "
                    "result, which you can cite instead.",
                    path=path,
                    revision=revision,
                )
