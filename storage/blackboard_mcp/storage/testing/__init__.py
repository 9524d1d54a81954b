"""The conformance kit for board stores, shipped for backends outside this project as `blackboard-mcp-testing`.

It needs pytest, and pytest-asyncio in auto mode. A backend is a subclass
of `kit.BoardStoreKit` whose name begins with `Test` and that says how to open a store.
"""

import pytest

_REWRITTEN = "debates events fixtures guarding handles leaving posting privacy reading versions"

pytest.register_assert_rewrite(
    f"{__name__}.harness", *(f"{__name__}.kit.{module}" for module in _REWRITTEN.split())
)
