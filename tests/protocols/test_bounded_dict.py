"""A dict of bounded size forgets the key that was set longest ago."""

from __future__ import annotations

import copy

from blackboard_mcp.protocols.values import Newest
from cachetools import FIFOCache
from hypothesis import given
from hypothesis import strategies as st


def test_one_key_more_takes_the_place_of_the_one_that_was_set_longest_ago() -> None:
    kept: Newest[str, int] = Newest(2)
    kept["a"], kept["b"], kept["a"], kept["c"] = 1, 2, 3, 4
    assert dict(kept) == {"a": 3, "c": 4}


def test_a_copy_is_a_dict_of_its_own_with_the_same_bound() -> None:
    kept: Newest[str, int] = Newest(2)
    kept["a"], kept["b"] = 1, 2
    for copied in (kept.copy(), copy.copy(kept)):
        copied["c"] = 3
        assert (dict(copied), dict(kept)) == ({"b": 2, "c": 3}, {"a": 1, "b": 2})


STEPS = st.lists(st.tuples(st.sampled_from(("set", "default", "get", "pop")), st.integers(0, 6)), max_size=60)


@given(STEPS)
def test_it_keeps_what_a_first_in_first_out_cache_keeps(steps: list[tuple[str, int]]) -> None:
    kept: Newest[int, int] = Newest(4)
    model: FIFOCache[int, int] = FIFOCache(4)
    for at, (step, key) in enumerate(steps):
        for one in (kept, model):
            if step == "set":
                one[key] = at
            elif step == "default":
                one.setdefault(key, at)
            elif step == "get":
                one.get(key)
            else:
                one.pop(key, None)
        assert dict(kept) == dict(model)
