"""Posts are made of checked fields without the model's own checks."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.server.input.posts import PostFields, unchecked


@pytest.mark.parametrize("given", [{}, {"text": "t"}, {"text": None, "tags": ["a"], "metadata": {"n": [1]}}])
def test_a_post_of_checked_fields_is_what_pydantic_makes_of_them(given: dict[str, Any]) -> None:
    made, expected = unchecked(**given), PostFields.model_construct(**given)
    assert made == expected
    assert list(vars(made).items()) == list(vars(expected).items())
    assert made.model_fields_set == expected.model_fields_set
    assert (made.digest_part(), repr(made)) == (expected.digest_part(), repr(expected))
    assert made.model_copy(update={"text": "u"}).text == "u"
