"""Secrets in texts that clients hand over: found by patterns, then masked or refused as the operator says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from blackboard_mcp.protocols.errors import InvalidInput, Refused

MASK: Final = "mask"
REFUSE: Final = "refuse"
MAX_PATTERNS: Final = 50
MAX_PATTERN: Final = 300
MASKED: Final = "[secret]"
_KNOWN: Final = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,10000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b",
    r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
    r"\bglpat-[A-Za-z0-9_-]{20,255}\b",
    r"\bsk-[A-Za-z0-9_-]{20,255}\b",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,255}\b",
    r"\bAIza[0-9A-Za-z_-]{35}\b",
    r"\beyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}\b",
    r"(?i)\bbearer [A-Za-z0-9._~+/=-]{16,4000}",
    r"(?i)\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)\b[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?=[^\s\"',;]{0,500}\d)[^\s\"',;]{6,500}",
)


class Secrets:
    """What counts as a secret, and what becomes of a text that holds one.

    `patterns` are regular expressions of the operator, beside those for well-known credentials.
    """

    def __init__(self, rule: str = MASK, patterns: Sequence[str] = ()) -> None:
        self._refuses = rule == REFUSE
        self._patterns = [re.compile(pattern) for pattern in (*_KNOWN, *patterns)]

    def checked(self, text: str) -> tuple[str, int]:
        """Returns the text without its secrets, and their number.

        Raises:
            Refused: there is one, and the operator's rule is to refuse it. The message does not repeat it.
        """
        found = 0
        for pattern in self._patterns:
            text, times = pattern.subn(MASKED, text)
            found += times
        if found and self._refuses:
            raise Refused(
                "It holds what looks like a password, key or token, and this server's operator has such texts refused. "
                "Nothing of it was kept; take the secret out and hand it over again."
            )
        return text, found


def check_patterns(patterns: Sequence[str], where: str) -> None:
    """Checks that all patterns are regular expressions that match no empty text.

    Raises:
        InvalidInput: one is not, or there are too many or too long ones; `where` names the setting.
    """
    if len(patterns) > MAX_PATTERNS or any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise InvalidInput(
            f"{where} has at most {MAX_PATTERNS} patterns, each of at most {MAX_PATTERN} characters."
        )
    for pattern in patterns:
        try:
            matches_nothing = re.compile(pattern).search("") is not None
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(f"{where}: {pattern!r} is no regular expression: {error}.") from None
        if matches_nothing:
            raise InvalidInput(f"{where}: {pattern!r} matches an empty text, so it would match everywhere.")
