"""Policies by name: those built in, and those the operator named at launch."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.pruning import Candidate, Reach, Workspace
from blackboard_mcp.protocols.values import dataclass

from ..plugins.bounded import Bounded, PolicyFailed
from ..plugins.loading import NAMED, load_instance
from .ordering import BUILT_IN, DEFAULT, KEYS, SHARE, Composition, Key, Order, token_importance

logger = logging.getLogger(__name__)

MAX_NAME = 100
"""Longest composition, in characters."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of one pass: the policy whose it is, and why it is not the one the board wants, if so."""

    policy: str
    order: Order
    warning: str = ""
    wanted: str = ""
    """The policy of the board that it was prepared for."""


TOKEN_IMPORTANCE = Ranking(DEFAULT, Composition().order)


def _instead(wanted: str, why: str) -> Ranking:
    """The default order where a policy cannot be had."""
    warning = f"policy '{wanted[:MAX_NAME]}' {why}; {DEFAULT} decided"
    return Ranking(DEFAULT, TOKEN_IMPORTANCE.order, warning, wanted)


class Policies:
    """What boards may choose from in this process."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """`named` are `NAME=package.module:Class`, of the launch configuration alone: they are imported and run.

        Raises:
            InvalidInput: a name or path that is none, or a class that cannot be made or has no order.
        """
        self._own: dict[str, Any] = {}
        self._bounded: dict[str, Bounded] = {}
        for said in named:
            match = NAMED.match(said)
            if match is None:
                raise InvalidInput(
                    f"policy: '{said[:80]}' is not of the form NAME=package.module:Class, the name in a-z 0-9 -. "
                    'Which policy new boards have is said in board_settings, {"policy": "lru"}.'
                )
            name, path = match["name"], match["path"]
            if name in BUILT_IN or name in self._own:
                raise InvalidInput(f"There is a policy '{name}' already; give yours another name.")
            self._own[name] = load_instance("Policy", name, path, ("key", "order"))

    @property
    def names(self) -> tuple[str, ...]:
        return (*BUILT_IN, *self._own)

    @property
    def own(self) -> tuple[str, ...]:
        """Those of the operator's."""
        return tuple(self._own)

    def check(self, policy: str) -> None:
        """
        Raises:
            InvalidInput: `policy` is no name, nor names joined by + that go together.
        """
        if len(policy) > MAX_NAME:
            raise InvalidInput(f"policy has at most {MAX_NAME} characters. Nothing was changed.")
        parts = policy.split("+")
        for part in parts:
            if part not in self.names:
                raise InvalidInput(
                    f"Unknown policy '{part[:40]}'; there are: {', '.join(self.names)}, alone or joined by + "
                    "(fair-share+lru: the first decides, the next among its equals). Nothing was changed."
                )
            if parts.count(part) > 1:
                raise InvalidInput(f"policy names '{part}' twice. Nothing was changed.")
        for part in parts[:-1]:
            if part in self._own and not hasattr(self._own[part], "key"):
                raise InvalidInput(
                    f"'{part}' has an order of its own and no key, so nothing can follow it: put it last. "
                    "Nothing was changed."
                )

    def composition(self, policy: str) -> Composition:
        """What a checked name stands for."""
        before: list[Key] = []
        after: list[Key] = []
        shares, last = False, None
        for part in policy.split("+"):
            keys = after if shares else before
            if part == SHARE:
                shares = True
            elif part in KEYS:
                keys.append(KEYS[part])
            elif hasattr(self._own[part], "key"):
                keys.append(self._own[part].key)
            else:
                last = self._own[part]
        return Composition(tuple(before), shares, tuple(after), last)

    def foreign(self, policy: str) -> bool:
        """Whether a class of the operator's has a part in it."""
        return any(part in self._own for part in policy.split("+"))

    def reach(self, policy: str) -> Reach:
        """How much of working memory an order has to see: the owners' shares are shares of all of it."""
        if policy == DEFAULT:
            return Reach.ENOUGH
        return Reach.ALL if self.foreign(policy) or SHARE in policy.split("+") else Reach.BAND

    async def prepare(
        self, policy: str, free: Sequence[Candidate], used: Mapping[str, int]
    ) -> Ranking | None:
        """The order that a policy of the operator's gives to `free`, asked for outside any transaction.

        `None` where `policy` needs no such preparation.
        """
        try:
            self.check(policy)
        except InvalidInput:
            return None
        if not self.foreign(policy):
            return None
        bounded = self._bounded.setdefault(policy, Bounded(policy))
        try:
            found = await bounded.ask(partial(self.composition(policy).order, tuple(free), used))
        except PolicyFailed as error:
            return _instead(policy, str(error))
        places = {(c.number, c.seq): place for place, c in enumerate(found)}
        last = len(places)

        def place(candidate: Candidate) -> tuple[Any, ...]:
            return places.get((candidate.number, candidate.seq), last), token_importance(candidate)

        return Ranking(policy, lambda candidates, _: sorted(candidates, key=place), wanted=policy)

    def ranking(self, space: Workspace, prepared: Ranking | None = None) -> Ranking:
        """The order for a pass; `token-importance`, with the reason, where the board's cannot be had."""
        policy = space.config.policy
        if policy == DEFAULT:
            return TOKEN_IMPORTANCE
        if prepared is not None and prepared.wanted == policy:
            return prepared
        try:
            self.check(policy)
        except InvalidInput:
            return _instead(policy, "is not known to this server")
        if self.foreign(policy):
            return _instead(policy, "was chosen while the pass began")
        return Ranking(policy, self.composition(policy).order)
