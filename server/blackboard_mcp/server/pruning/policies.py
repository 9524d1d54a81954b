"""Pruning policies by name: the built-in ones, and those that the operator named at launch."""

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
"""Most characters in the name of a composition."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of one pass and the name of its policy; `warning` says why it is not the policy that the
    board chose.
    """

    policy: str
    order: Order
    warning: str = ""
    wanted: str = ""
    """The board's policy for which this order was prepared."""


TOKEN_IMPORTANCE = Ranking(DEFAULT, Composition().order)


def _instead(wanted: str, why: str) -> Ranking:
    """Returns the default order, with a warning that says why the wanted policy is not available."""
    warning = f"policy '{wanted[:MAX_NAME]}' {why}; {DEFAULT} decided"
    return Ranking(DEFAULT, TOKEN_IMPORTANCE.order, warning, wanted)


class Policies:
    """Pruning policies that boards may choose in this process."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """Imports and instantiates the policies that `named` lists as `NAME=package.module:Class`.

        `named` comes from the launch configuration alone, because the classes are run.

        Raises:
            InvalidInput: a name or path is not valid or given twice, or a class cannot be instantiated or has
                no order.
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
        """Names of all policies, built in and the operator's."""
        return (*BUILT_IN, *self._own)

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the operator's policies."""
        return tuple(self._own)

    def check(self, policy: str) -> None:
        """Checks that a text names a policy, or several that may be combined, joined by `+`.

        Raises:
            InvalidInput: it does not.
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
        """Returns the composition that a checked name stands for."""
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
        """Tells whether one of the operator's classes is part of the policy."""
        return any(part in self._own for part in policy.split("+"))

    def reach(self, policy: str) -> Reach:
        """Returns how much of working memory the policy must see; owners' shares need all of it."""
        if policy == DEFAULT:
            return Reach.ENOUGH
        return Reach.ALL if self.foreign(policy) or SHARE in policy.split("+") else Reach.BAND

    async def prepare(
        self, policy: str, free: Sequence[Candidate], used: Mapping[str, int]
    ) -> Ranking | None:
        """Asks the operator's policy, outside any transaction, for its order of the candidates `free`.

        Returns `None` for a policy that needs no such preparation. Where the policy fails, the ranking is the
        default one with a warning.
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
        """Returns the order for a pass; the default order with a warning where the board's policy is not
        available.
        """
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
