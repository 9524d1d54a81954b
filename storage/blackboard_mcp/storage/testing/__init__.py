"""The conformance kit for board stores, published as `blackboard-mcp-testing` for backends outside this project.

It needs pytest, and pytest-asyncio in auto mode. To test a backend, subclass `kit.BoardStoreKit` under a name that
begins with `Test`, and define how to open a store.
"""

import pytest

_REWRITTEN = "debates events fixtures guarding handles leaving posting privacy reading versions"

pytest.register_assert_rewrite(
    f"{__name__}.harness", *(f"{__name__}.kit.{module}" for module in _REWRITTEN.split())
)
