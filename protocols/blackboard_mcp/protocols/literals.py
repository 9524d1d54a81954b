"""Words of enumerations as literal types: editors complete them, and type checkers find misspelt ones.

Tests compare each with its enumeration.
"""

from __future__ import annotations

from typing import Literal

PostTypeName = Literal[
    "FACT",
    "HYPOTHESIS",
    "LOG",
    "PLAN",
    "DECISION",
    "CRITIQUE",
    "REPLY",
    "QUESTION",
    "ANSWER",
    "PROBLEM",
    "CONSTRAINT",
    "HOT_ISSUE",
    "RESULT",
]
"""Types that agents post; only the server writes SUMMARY."""
TypeName = Literal[PostTypeName, "SUMMARY"]
StatusName = Literal["ACTIVE", "DEBATED", "RESOLVED", "WITHDRAWN", "INVALIDATED", "DELETED"]
"""Statuses of items, and DELETED, which deletes an entry."""
VisibilityName = Literal["board", "team", "private"]
"""Visibilities that authors choose."""
ZoneName = Literal["working", "archive", "all"]
OutcomeName = Literal["stands", "falls", "amended"]
LifecycleName = Literal["open", "settled", "closed"]
EdgeName = Literal[
    "depends_on",
    "replies_to",
    "critiques",
    "supports",
    "refutes",
    "derived_from",
    "supersedes",
    "analyzed_by",
]
DebateCallName = Literal[
    "open", "acknowledge", "concede", "withdraw", "vote", "decide", "confirm", "watch", "unwatch"
]
"""Calls in a debate that change something."""
