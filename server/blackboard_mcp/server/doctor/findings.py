"""Findings with stable names, each with its cure."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from blackboard_mcp.protocols.values import dataclass


class Severity(StrEnum):
    """`problem`: data is in danger or a server cannot do its work. `warning`: it will, or may, become one. `note`: it
    is as it should be here, and less than elsewhere."""

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
    """Whether `--repair` cures it."""


def problem(name: str, message: str, cure: str, *, repairable: bool = False, **facts: Any) -> Finding:
    return Finding(name, Severity.PROBLEM, message, cure, facts, repairable)


def warning(name: str, message: str, cure: str, *, repairable: bool = False, **facts: Any) -> Finding:
    return Finding(name, Severity.WARNING, message, cure, facts, repairable)


def note(name: str, message: str, cure: str) -> Finding:
    return Finding(name, Severity.NOTE, message, cure)
