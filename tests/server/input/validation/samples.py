"""Validation policies as an operator might name them at launch: one that works, and others that must deny."""

from __future__ import annotations

import threading

from blackboard_mcp.protocols.policy import Writing

RELEASE = threading.Event()
"""Set to let `Hangs` and `Pauses` go on."""
REACHED = threading.Event()
"""Set when `Pauses` was asked."""
ASKED: list[str | None] = []
"""The texts that `Pauses` was asked about."""


class NoShouting:
    """Texts in capitals are not written, except by editors."""

    def check(self, writing: Writing) -> str | None:
        if writing.text is None or not writing.text.isupper() or writing.agent == "editor":
            return None
        return f"must not shout in {writing.key} on {writing.board}: write in small letters"


class Raises:
    def check(self, writing: Writing) -> str | None:
        raise RuntimeError("secret of the operator")


class Hangs:
    def check(self, writing: Writing) -> str | None:
        RELEASE.wait(60)
        return None


class Pauses:
    """Takes its time, and then allows."""

    def check(self, writing: Writing) -> str | None:
        ASKED.append(writing.text)
        REACHED.set()
        RELEASE.wait(10)
        return None


class Meddles:
    """Changes what it is shown."""

    def check(self, writing: Writing) -> str | None:
        writing.metadata["list"].append("half of a pair: \ud800")
        writing.metadata["number"] = float("nan")  # type: ignore[index]
        return None


class Babbles:
    def check(self, writing: Writing) -> object:
        return 7


class Nothing:
    """Has no `check`."""


class Mumbles:
    def check(self, writing: Writing) -> str | None:
        return " "
