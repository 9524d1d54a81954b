"""The settings of a board: what each may be, and what is wrong with one that is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from blackboard_mcp.protocols.board import STEPS, BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.summaries import AGENT, AS_LAUNCHED, EXTRACTIVE

from ..access.registry import MAX_CHOSEN, AccessPolicies
from ..input.validation.rules import check_rules, shown
from ..plugins.loading import NAME
from ..pruning.policies import Policies
from ..text.tokens import VOCABULARIES, is_name

FRACTIONS = {
    "high_water": "a pruning pass starts above this part of the target",
    "low_water": "and ends at this part of it",
    "owner_held": "so much of the target (of 6,000 where it is less) may be kept from leaving on one owner's "
    "account (debates its agents opened, their constraints, hot issues, watches, requests and items of importance 5) "
    "while others are there; 1: no such bound",
    "owner_share": "what one owner has beyond this part of the low-water mark goes before anything of others, whatever "
    "importance up to 4 it claims; of importance 5 no more than this is taken from it; 1: no such bound",
}
WHOLE = {
    "target_tokens": (200, 10_000_000, "working memory's target, in tokens"),
    "ceiling": (1, 4, "step 4 takes items up to this importance"),
    "hard_ceiling": (1, 4, "and up to this one while the board is above high_water"),
    "summarise_over": (2, 1000, "finished threads of more items than that become a summary"),
    "summary_wait_seconds": (10, 86_400, "how long a finished thread waits for an agent to summarise it"),
    "quorum": (
        0,
        1_000,
        "so many owners voting one way close a debate; 0: all its watchers by acknowledging",
    ),
    "owner_bytes": (
        0,
        1_000_000_000_000_000,
        "so many bytes may the agents of one owner have written that are kept for good: texts, tags and metadata of "
        "every version, and 1,000 for each; 0: no such bound",
    ),
    "board_bytes": (0, 1_000_000_000_000_000, "and so many all together; 0: no such bound"),
    "watch_lease_seconds": (0, 31_536_000, "a watcher away for longer is waited for no more; 0: for ever"),
    "request_lease_seconds": (
        1,
        86_400,
        "an agent that took a request has so long for the next part of its answer, then others get it",
    ),
    "skill_lease_seconds": (0, 31_536_000, "an agent away for longer offers its skills no more; 0: for ever"),
    "presence_seconds": (
        0,
        31_536_000,
        "who makes no call for so long while others in a debate are there is waited for no more; 0: for ever",
    ),
    "debate_expiry_seconds": (0, 31_536_000, "a debate that stands still for so long expires; 0: never"),
    "question_expiry_seconds": (
        0,
        31_536_000,
        "so long those whom a question asks owe an answer, and it stays; 0: for ever",
    ),
    "fresh_seconds": (
        0,
        31_536_000,
        "what was posted, changed, read or cited in so many seconds leaves after the rest of its step; 0: no such rule",
    ),
    "restored_seconds": (
        0,
        31_536_000,
        "so long no pass takes what came back from the archive or what a settled debate rested on; 0: not at all",
    ),
    "restored_events": (
        0,
        10_000,
        "and that ends after so many events of agents, if they come first; 0: time alone counts",
    ),
    "subscription_lease_seconds": (
        0,
        315_360_000,
        "a subscription unused for so long (60 or more) expires; 0: never",
    ),
    "idempotency_seconds": (
        60,
        31_536_000,
        "so long a call repeated with its idempotency key is answered as the first time; for keys used from then on",
    ),
}
OTHERS = {
    "steps": f"which steps run, of {', '.join(STEPS)}; their order is fixed",
    "summariser": f"who summarises finished threads: {AS_LAUNCHED} (as launched), {EXTRACTIVE} (sentences of the "
    f"thread), {AGENT} (an agent of the board), or the kind of the server's endpoint",
    "tokenizer": f"what counts tokens: {', '.join(VOCABULARIES)}, or the server's own that it was launched with; all "
    "items are counted anew",
    "policy": "the order of step 4: one policy, or several joined by +",
    "validation": "rules on what may be written, a list; [] ends them",
    "panels": "named groups of items with writers of their own, a list; [] ends them",
    "access": "access policies that every change must pass beside those of the launch, by name and in order; [] ends "
    "them",
}
NAMES = (*WHOLE, *FRACTIONS, *OTHERS)
_NOTHING = "Nothing was changed."


def said_settings(config: BoardConfig) -> dict[str, Any]:
    """Returns a configuration as the settings that make it: JSON values, which belong to the caller alone."""
    from .panels import shown_panels

    told = asdict(config) | {"validation": shown(config.validation), "panels": shown_panels(config.panels)}
    said: dict[str, Any] = json.loads(json.dumps(told))
    return said


def check_settings(
    config: BoardConfig,
    given: Mapping[str, Any],
    policies: Policies,
    summarisers: Sequence[str] = (EXTRACTIVE, AGENT),
    validators: Sequence[str] = (),
    access: AccessPolicies | None = None,
    tokenizers: Sequence[str] = VOCABULARIES,
) -> dict[str, Any]:
    """`given` as fields of a configuration, each in its type.

    `summarisers`, `validators`, `access` and `tokenizers` are those that the server has.

    Raises:
        InvalidInput: an unknown name, a value out of its range, or settings that clash with each other or
            with those of `config` that stay.
    """
    checked: dict[str, Any] = {
        name: check_rules(value, validators)
        if name == "validation"
        else (access or AccessPolicies()).check(value)
        if name == "access"
        else _panels(value)
        if name == "panels"
        else _checked(name, value, policies, summarisers, tokenizers)
        for name, value in given.items()
    }
    clash = replace(config, **checked).clash()
    if clash is not None:
        raise InvalidInput(f"{clash} {_NOTHING}")
    return checked


def _panels(value: Any) -> str:
    from .panels import check_panels

    return check_panels(value)


def check_kept(config: BoardConfig) -> None:
    """Refuses settings from elsewhere that no board can have.

    Policies of any kind, summarisers and tokenizers that this server was not launched with are let pass: another may
    be.

    Raises:
        InvalidInput: a value out of its range, or settings that clash.
    """
    for name in (*WHOLE, *FRACTIONS):
        _number(name, getattr(config, name))
    _steps(config.steps)
    if not is_name(config.tokenizer):
        raise InvalidInput(f"tokenizer is {', '.join(VOCABULARIES)} or module:attribute. {_NOTHING}")
    if len(config.access) > MAX_CHOSEN or not all(
        isinstance(name, str) and NAME.match(name) for name in config.access
    ):
        raise InvalidInput(f"access is a list of at most {MAX_CHOSEN} names of policies. {_NOTHING}")
    try:
        rules = json.loads(config.validation or "[]")
    except (ValueError, RecursionError):
        raise InvalidInput(f"validation is not JSON. {_NOTHING}") from None
    from .panels import check_panels, shown_panels

    try:
        check_panels(shown_panels(config.panels))
    except (ValueError, RecursionError, LookupError, TypeError):
        raise InvalidInput(f"panels is not a list of panels. {_NOTHING}") from None
    named = (
        [rule.get("validator") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    )
    check_rules(rules, [name for name in named if isinstance(name, str)])
    if (clash := config.clash()) is not None:
        raise InvalidInput(f"{clash} {_NOTHING}")


def _number(name: str, value: Any) -> Any:
    if name in FRACTIONS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 1:
            raise InvalidInput(f"{name} is a fraction from 0.05 to 1. {_NOTHING}")
        return float(value)
    low, high, _ = WHOLE[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(f"{name} is a whole number from {low:,} to {high:,}. {_NOTHING}")
    return value


def _checked(
    name: str, value: Any, policies: Policies, summarisers: Sequence[str], tokenizers: Sequence[str]
) -> Any:
    if name in FRACTIONS or name in WHOLE:
        return _number(name, value)
    if name == "steps":
        return _steps(value)
    if name in ("summariser", "tokenizer"):
        allowed = tokenizers if name == "tokenizer" else tuple(dict.fromkeys((AS_LAUNCHED, *summarisers)))
        if not isinstance(value, str) or value not in allowed:
            raise InvalidInput(f"{name} is one of {', '.join(allowed)} on this server. {_NOTHING}")
        return value
    if name == "policy":
        if not isinstance(value, str):
            raise InvalidInput(
                f"policy is a text; there are: {', '.join(policies.names)}, alone or joined by +. {_NOTHING}"
            )
        policies.check(value)
        return value
    raise InvalidInput(f"Unknown setting '{name[:40]}'; there are: {', '.join(NAMES)}. {_NOTHING}")


def _steps(value: Any) -> tuple[str, ...]:
    allowed = f"of {', '.join(STEPS)}"
    if not isinstance(value, list | tuple) or not all(isinstance(step, str) for step in value):
        raise InvalidInput(f"steps is a list {allowed}. {_NOTHING}")
    for step in value:
        if step not in STEPS:
            raise InvalidInput(f"There is no step '{step[:40]}'; steps is a list {allowed}. {_NOTHING}")
    if not value:
        raise InvalidInput(
            f"steps needs at least one {allowed}; a board on which nothing may go only needs a large "
            f"target_tokens. {_NOTHING}"
        )
    return tuple(step for step in STEPS if step in value)
