"""The conformance kit for board stores, which the command `kit` runs.

It needs pytest, and pytest-asyncio in auto mode: the extra `kit`. To test a backend by
pytest, subclass `kit.BoardStoreKit` under a name that begins with `Test`, and define how to open a store.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.harness", f"{__name__}.kit")
