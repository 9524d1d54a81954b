"""References of a post to earlier posts of its batch."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.errors import InvalidInput


def earlier(placed: Sequence[int], place: int) -> int:
    """Returns the number of an earlier item of the batch; `place` is -1 for the first.

    Raises:
        InvalidInput: that item does not come earlier.
    """
    index = -place - 1
    if index >= len(placed):
        raise InvalidInput(
            f"'${index + 1}' names item {index + 1} of this batch, which does not come before the item that "
            "cites it. Nothing was changed."
        )
    return placed[index]
