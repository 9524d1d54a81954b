r"""Characters that hide, turn, move or end text, shown as escapes: `\u202e`.

Text from agents, clients and people is untrusted. None of it may look like a line of the server's own, or control a
terminal.
"""

from __future__ import annotations

import re
from functools import lru_cache

SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
JOINERS = "\u200c\u200d"
HIDDEN = re.compile(
    # A region's flag emoji is spelt with tag characters: only there are these allowed.
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f)"
    "|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
    # Joiners belong inside emoji and inside words of scripts that need them, one at a time.
    rf"|(?<![^\x00-\x7f\s{JOINERS}])[{JOINERS}]|[{JOINERS}](?![^\x00-\x7f\s{JOINERS}])"
    # So do variation selectors; a row of them can carry a hidden message.
    rf"|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f\s{SELECTORS}])[{SELECTORS}]"
)
_SELECTING = re.compile(f"[{SELECTORS}]")
_SPACING = re.compile("[\t\n\r\v\f\x85\u2028\u2029]")


def visible(text: str) -> str:
    """Returns `text` with every control, invisible and direction-changing character escaped; line ends remain."""
    # What is hidden is not printable, but for selectors; and Python tells what is printable ten times as fast.
    if text.replace("\n", "").isprintable() and (text.isascii() or not _SELECTING.search(text)):
        return text
    return HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0] if match["flag"] else _escaped(match[0])


@lru_cache(maxsize=512)
def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape(text: str, keep: str = "") -> str:
    """Returns `visible(text)` with line ends and tabs escaped as well, except characters in `keep`."""
    shown = visible(text)
    if shown.isprintable():
        return shown
    return _SPACING.sub(lambda m: m[0] if m[0] in keep else _escaped(m[0]), shown)
