"""The arguments that tools accept but their published schemas leave out, and the schemas with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT, _LIST = {"type": "string"}, {"items": {"type": "string"}, "type": "array"}
UNLISTED: dict[str, dict[str, Mapping[str, Any]]] = {
    "post": {"idempotency_key": _TEXT, "thread": _TEXT},
    "query": {
        "any_tags": _LIST,
        "no_tags": _LIST,
        "latest": {"enum": ["tag", "key", "author", "thread"], "type": "string"},
    },
    "debate": {"watchers": _LIST},
    "query_archive": {
        "tags": _LIST,
        "author": _TEXT,
        "after": _TEXT,
        "before": _TEXT,
        "thread": _TEXT,
        "neighbours": {"type": "boolean"},
        "any_tags": _LIST,
        "no_tags": _LIST,
        "key": _TEXT,
        "status": _TEXT,
        "zone": {"enum": ["working", "archive", "all"], "type": "string"},
    },
    "board": {"expected_settings": {"type": "object"}},
    "stage": {"why": _TEXT},
    "claim": {
        "lease_seconds": {"maximum": 3600.0, "minimum": 1.0, "type": "number"},
        "usage": {"type": "object"},
    },
    "plan": {"budget": {"type": "object"}},
    "wait": {"limit": {"maximum": 200, "minimum": 1, "type": "integer"}},
}
"""The schemas of these arguments, by tool and name. `test_bounded_arguments` checks that these are all."""


def whole(tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the published schema of a tool with the arguments that it leaves out."""
    return {**schema, "properties": {**schema["properties"], **UNLISTED.get(tool, {})}}
