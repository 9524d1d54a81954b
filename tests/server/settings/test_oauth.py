"""Settings of sign-in by an OAuth issuer."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.settings.oauth import oauth_settings


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"issuer": None}, "needs 'issuer'"),
        ({"resource": None}, "needs 'resource'"),
        ({"isuer": "x"}, "Unknown setting 'isuer'"),
        ({"issuer": "http://id.example.com"}, "must be https"),
        ({"issuer": "id.example.com"}, "https address"),
        ({"issuer": "https://a:b@id.example.com"}, "https address"),
        ({"issuer": "https://id.example.com/?x=1"}, "https address"),
        ({"resource": "https://board.example.com/mcp#x"}, "https address"),
        ({"jwks_url": "ftp://id.example.com"}, "https address"),
        ({"algorithms": ["HS256"]}, "there are: RS256"),
        ({"algorithms": ["none"]}, "there are: RS256"),
        ({"algorithms": []}, "must be a list"),
        ({"scopes": {"board:rule": "x"}}, "our scopes are"),
        ({"scopes": {"board:read": 'a" b'}}, "printable ASCII"),
        ({"roles": {"x": "king"}}, "roles are observer"),
        ({"default_role": "king"}, "must be one of"),
        ({"agent_claim": ""}, "name of a claim"),
        ({"agent_claim": 5}, "must be a text"),
        ({"leeway_seconds": 301}, "0 to 300"),
        ({"leeway_seconds": True}, "0 to 300"),
    ],
)
def test_settings_that_are_not_in_order_are_refused_by_name(table: dict[str, Any], says: str) -> None:
    whole = {"issuer": "https://id.example.com", "resource": "https://board.example.com/mcp"} | table
    with pytest.raises(InvalidInput, match=says):
        oauth_settings({name: value for name, value in whole.items() if value is not None}, "oauth")
