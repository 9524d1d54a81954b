"""Checks of the operator's own classes: each is imported and made as a server that starts would do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from blackboard_mcp.protocols.errors import InvalidInput

from ..access.registry import AccessPolicies
from ..input.validation.checking import Validators
from ..plugins.engines import check_classes
from ..plugins.protocols import Protocols
from ..pruning.policies import Policies
from ..settings.server import Settings
from ..strategies.strategies import Strategies
from ..text.tokens import VOCABULARIES, Tokenizers
from .findings import Finding, problem


def look(settings: Settings) -> Iterator[Finding]:
    """Yields a problem for each kind of class without which a server with these settings does not start."""
    for try_out in _trials(settings):
        try:
            try_out()
        except InvalidInput as error:
            yield problem(
                "settings-wrong",
                error.message,
                "A server does not start with it: correct the setting or the class. Python looks for classes where "
                "PYTHONPATH says.",
            )


def _trials(settings: Settings) -> list[Callable[[], object]]:
    return [
        lambda: None if settings.tokenizer in VOCABULARIES else Tokenizers(settings.tokenizer),
        lambda: Policies(settings.policy),
        lambda: Validators(settings.validator),
        lambda: AccessPolicies(settings.access),
        lambda: Protocols(settings.protocol),
        lambda: Strategies(settings.strategy),
        lambda: check_classes(None if settings.on_postgres else settings.store, settings.archive),
    ]
