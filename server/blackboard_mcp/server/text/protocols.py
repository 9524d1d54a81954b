"""Communication protocols as text: one line for each protocol, then one for each of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .lines import one_line

_SHOWN: Final = 300


def protocol_lines(about: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns lines on protocols; `about` holds the descriptions that `Protocols.about` returns."""
    lines = ["scope: a word of yours that keeps conversations apart; * stands for any part in patterns"]
    for protocol in about:
        purpose = one_line(protocol["purpose"])[:_SHOWN]
        level = "" if protocol["level"] == "board" else f" ({protocol['level']})"
        lines.append(f"{protocol['name']} {protocol['version']}{level}: {purpose}")
        for key in protocol["keys"]:
            fields = ", ".join(name if needed else f"{name}?" for name, needed in key["fields"].items())
            lines.append(f"  {key['key']} by {one_line(key['writer'])[:_SHOWN]}: {{{fields}}}")
    return lines
