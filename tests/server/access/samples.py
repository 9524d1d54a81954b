"""Access policies as an operator might write them, and some that nobody should."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.policy import Deny, Verdict

RELEASE = threading.Event()
"""Ends what hangs."""
REACHED = threading.Event()
SECRET = "the password is swordfish"
ASKED: list[tuple[str, str]] = []


class Quiet:
    """No deletions, whoever asks."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        ASKED.append((principal.agent, str(change.kind)))
        if change.kind is ChangeKind.DELETE:
            return Deny("nothing is deleted on this board; post a new version that says so")
        return Verdict.NO_OPINION


class FactsOnly:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        return Verdict.ALLOW if change.type == "FACT" else Verdict.NO_OPINION


class Raises:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        raise KeyError(SECRET)


class Leaves:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        raise SystemExit(SECRET)


class Hangs:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        RELEASE.wait()
        return Verdict.ALLOW


class Pauses:
    """Takes its time, and then allows."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        REACHED.set()
        RELEASE.wait(10)
        return Verdict.ALLOW


class Recurses:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        return self.decide(principal, change)


class Greedy:
    """Asks for more memory than any machine has."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        bytearray(1 << 62)
        return Verdict.ALLOW


class Babbles:
    """Something else each time that is no verdict, though it may count as true."""

    def __init__(self) -> None:
        self._said = itertools.cycle([True, 1, "allow", None, ["allow"], Verdict, object(), Deny])

    def decide(self, principal: Principal, change: Change) -> Any:
        return next(self._said)


class Wordy:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        return Deny("no\n\x1b[2J\u202e" + "x" * 5_000_000)


class Wordless:
    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        return Deny(["a list"])  # type: ignore[arg-type]


class Tampers:
    """Rewrites what it is given, so that what is committed would be something else."""

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        object.__setattr__(change, "author", "nobody")
        object.__setattr__(change, "kind", ChangeKind.PRUNE)
        object.__setattr__(principal, "agent", "root")
        try:
            principal.roles["main"] = "admin"  # type: ignore[index]
        except TypeError:
            return Verdict.ALLOW
        return Deny("the roles could be changed")


class NeedsAnArgument:
    def __init__(self, path: str) -> None:
        self.path = path

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        return Verdict.ALLOW


class NoPolicy:
    pass
