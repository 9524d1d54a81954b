"""Findings of the diagnosis: each has a stable name and a cure."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from blackboard_mcp.protocols.values import dataclass


class Severity(StrEnum):
    """The severity of a finding.

    `problem`: data is in danger or a server cannot work. `warning`: that will or may happen. `note`: all is
    well, but with less function than elsewhere.
    """

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth a note. `name` is stable; `facts` hold JSON values only."""

    name: str
    severity: Severity
    message: str
    cure: str
    facts: dict[str, Any] = field(default_factory=dict)
    repairable: bool = False
    """`True` if `--repair` cures it."""


def problem(name: str, message: str, cure: str, *, repairable: bool = False, **facts: Any) -> Finding:
    """Returns a finding of severity `problem`."""
    return Finding(name, Severity.PROBLEM, message, cure, facts, repairable)


def warning(name: str, message: str, cure: str, *, repairable: bool = False, **facts: Any) -> Finding:
    """Returns a finding of severity `warning`."""
    return Finding(name, Severity.WARNING, message, cure, facts, repairable)


def note(name: str, message: str, cure: str) -> Finding:
    """Returns a finding of severity `note`."""
    return Finding(name, Severity.NOTE, message, cure)
