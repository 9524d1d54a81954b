"""The room that is kept free on a disk: the usual bytes give way to a small disk, other bytes do not."""

from __future__ import annotations

from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.storage.sqlite.free_space import USUAL_BYTES, kept_free


def test_of_a_small_disk_the_default_keeps_a_twentieth() -> None:
    assert Limits().free_bytes == USUAL_BYTES
    assert kept_free(1 << 30, USUAL_BYTES) == (1 << 30) // 20
    assert kept_free(1 << 40, USUAL_BYTES) == USUAL_BYTES


def test_what_the_operator_set_holds_on_every_disk() -> None:
    for bytes_ in (0, 100 << 20, 500 << 20, 3 << 30):
        assert kept_free(1 << 30, bytes_) == bytes_
