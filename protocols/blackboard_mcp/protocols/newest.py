"""A dict of bounded size, whose lookups cost no more than those of a dict."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(OrderedDict[K, V]):
    """A dict of the keys that were set last. Setting one more forgets the key that was set longest ago."""

    def __init__(self, most: int) -> None:
        """Creates an empty dict of at most `most` keys, at least 1."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self._most:
            self.popitem(last=False)
        super().__setitem__(key, value)
