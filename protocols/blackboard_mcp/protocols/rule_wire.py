"""Structured results about rules and about results of checks; see `wire`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .rules import Rule, Strength


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireRule(_Wire):
    id: str = Field(description="the item's id, or `core 1` for a constraint of the core")
    text: str
    strength: Strength
    scope: str
    author: str | None
    version: int
    revision: int = Field(description="the revision that last changed it")
    mine: bool = Field(description="whether you come under its scope")
    check: str | None = Field(default=None, description="what finds violations of it")


class WireProposal(_Wire):
    id: str
    text: str
    strength: Strength
    scope: str
    author: str
    check: str | None = None
    replaces: str | None = Field(description="the rule of which it would be the next version")
    by_model: bool = Field(default=False, description="whether a model found it in a message")


class ConstraintAnswer(_Wire):
    """The rules in force and the proposals."""

    revision: int
    rules: list[WireRule]
    proposals: list[WireProposal]
    written: list[str] = Field(default=[], description="what this call made, proposed or retired")
    more: int = Field(default=0, description="sentences of the message that were too many to be proposed")
    more_from: str | None = Field(
        default=None, description="the first of them: send the message from there on"
    )
    model: str | None = Field(
        default=None, description="why no model read the message, if the operator has one"
    )
    seq: int


class ResultAnswer(_Wire):
    """The hot issue of a check and its subject."""

    item: str | None = Field(description="id of the hot issue; null if the check never failed")
    open: bool = Field(description="whether it stands in every view")
    version: int
    seq: int


class WireEntry(_Wire):
    id: str
    part: str = Field(description="rules, hot_issues, decisions, dead_ends, yours or relevant")


class ContextAnswer(_Wire):
    """What an agent must know first: in a fixed order, within a budget, no item twice."""

    context: str
    tokens: int
    rules: int = Field(description="the revision of the rules")
    entries: list[WireEntry]
    seq: int


class IntakeAnswer(_Wire):
    """What came of a hand-over: ids of LOG items, of proposed rules, and of hot issues that failed or passed."""

    board: str
    items: list[str]
    proposed: list[str]
    issues: list[str]
    repeated: int = Field(description="lines that were handed over before")
    masked: int = Field(description="secrets that were taken out")
    unproposed: int = Field(
        default=0, description="sentences that read like rules, too many in their message"
    )
    model: str | None = Field(
        default=None, description="why no model read the messages, or not all, if the operator has one"
    )
    seq: int


def wire_rule(rule: Rule) -> WireRule:
    """Returns a rule as structured results show it."""
    return WireRule(
        id=rule.id,
        text=rule.text,
        strength=rule.strength,
        scope=rule.scope,
        author=rule.author or None,
        version=rule.version,
        revision=rule.revision,
        mine=rule.mine,
        check=rule.check or None,
    )
