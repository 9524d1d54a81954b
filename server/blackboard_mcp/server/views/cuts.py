"""Choice of the part of a text to show: whole sentences of prose, three lines of code and logs.

The result is on one line, or on lines that all begin with `QUOTE`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from blackboard_mcp.protocols.items import Item, ItemType
from blackboard_mcp.protocols.tokens import Tokenizer

from ..text.lines import ELLIPSIS, QUOTE, clip, excerpt, flat, quoted

SENTENCE = 24
"""Tokens of whole sentences that each line gets before any line gets more."""
SUMMED_UP = 60
"""Tokens that a summary gets in place of `SENTENCE`: enough to say its subject and its result."""
LONGEST_SENTENCE = 44
"""Most tokens of a first sentence that is still shown whole."""
CODE_LINES = 3
_CODE_WIDTH = 100
_REACH = 900
_CODE_REACH = 10_000
_END = re.compile(
    r"(?<!\s\d)(?<!\s\d\d)[.!?](?=[\"'”’)\]*_]*(?:\s|$))|(?<=[.!?][\"'”’)\]*_])(?=\s|$)|[。！？]"
)
_KEPT_LENGTH = 2_000
"""Characters of the longest text whose sentences are kept for the next view."""
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_OUTPUT = frozenset({ItemType.LOG, ItemType.RESULT})


def sentences(text: str, tokenizer: Tokenizer, most: int = SENTENCE) -> str:
    """Returns the first whole sentences of `text` on one line, about `most` tokens; it ends with `…` when
    there is more.

    A first sentence that is too long is cut between words.
    """
    if len(text) > _KEPT_LENGTH or type(tokenizer).__hash__ is None:
        return _sentences(text, tokenizer, most)
    return _kept(text, cast(Any, tokenizer), most)


def _sentences(text: str, tokenizer: Tokenizer, most: int) -> str:
    start = text.lstrip()
    line = flat(start[:_REACH])
    whole = len(start) <= _REACH
    if whole and tokenizer.count(line) <= most:
        return line
    best = ""
    for match in _END.finditer(line):
        end = match.end()
        # The last sentence may go on beyond the part that was read.
        if end < SENTENCE // 2 or (end == len(line) and not whole):
            continue
        told = line[:end]
        size = tokenizer.count(told)
        if size > (most if best else max(most, LONGEST_SENTENCE)):
            break
        best = told
        if size > most:
            break
    if not best:
        return excerpt(text, most + 8, tokenizer)
    return best if whole and best == line else f"{best} {ELLIPSIS}"


@lru_cache(maxsize=4_096)
def _kept(text: str, tokenizer: Any, most: int) -> str:
    return _sentences(text, tokenizer, most)


def opening(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Returns the start of `text` on one line of at most `tokens` tokens, cut at the end of a sentence where
    one is near.
    """
    cut = excerpt(text, tokens, tokenizer)
    if not cut.endswith(ELLIPSIS):
        return cut
    ends = [match.end() for match in _END.finditer(cut)]
    return f"{cut[: ends[-1]]} {ELLIPSIS}" if ends and ends[-1] > 0.6 * len(cut) else cut


def is_code(item: Item) -> bool:
    """Tells whether an item's text is shown by lines: logs and results, and texts with a code block, of
    several lines.
    """
    many = item.text.count("\n") >= CODE_LINES
    return many and (item.type in _OUTPUT or _FENCE.search(item.text[:_CODE_REACH]) is not None)


def prose(item: Item) -> str:
    """Returns the text before the first code block; all of it where there is no block or the text begins with
    one.
    """
    fence = _FENCE.search(item.text[:_CODE_REACH]) if item.type not in _OUTPUT else None
    before = item.text[: fence.start()] if fence is not None else ""
    return before if before.strip() else item.text


def few_lines(item: Item) -> tuple[list[str], int]:
    """Returns up to `CODE_LINES` quoted lines of code or output, each cut where it is long, and the number of
    all lines.

    They are the first lines; of output the last one shown is the text's last line, which says how it ended.
    """
    begin = _telling(item.text[:_CODE_REACH])
    if item.type in _OUTPUT and len(begin) > CODE_LINES:
        begin[CODE_LINES - 1] = _telling(item.text[-_CODE_REACH:])[-1]
    return [QUOTE + clip(line, _CODE_WIDTH) for line in begin[:CODE_LINES]], item.text.count("\n") + 1


def _telling(text: str) -> list[str]:
    """Returns the lines of a text without empty lines and code fences; fences stay where there is nothing
    else.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    return [line for line in lines if not _FENCE.match(line)] or lines or [""]


def whole(text: str) -> list[str]:
    """Returns all lines of `text`, each quoted where there are several."""
    return quoted(text)
