"""Measures the cost of a text against one a quarter as long: 4 if time is proportional to length, 16 if quadratic.

    python benchmarks/proportion.py [characters]

For what is written in C or Rust and cannot be counted step by step, as tests do with everything else. Prints the least
CPU time of five runs for each kind of text and the ratio of the two.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from blackboard_mcp.server.input.validation import schemas
from blackboard_mcp.server.limits.json_size import holds_too_much
from blackboard_mcp.server.text.tokens import BpeTokenizer, pieces

TIMES = 5
UNITS = ("the cache was cold after each deploy. ", "a", "-", " ", "\n", "|\t", "e\u0301", "\u1a5d", "\ud800")
VOCABULARY = BpeTokenizer()


def count_tokens(text: str) -> object:
    """Counts the tokens of a text without the cache of pieces."""
    return [VOCABULARY._count(piece) for piece in pieces(text)]


def match_pattern(text: str) -> object:
    """Checks a text against a pattern on which a backtracking matcher would take exponential time."""
    return list(schemas.faults({"pattern": "^(a+)+$"}, text + "!"))


def weigh_message(text: str) -> object:
    """Checks the number of values in a message of as many elements as the text has characters."""
    return holds_too_much(("[" + '"a",' * len(text) + "0]").encode())


def least(work: Callable[[str], object], text: str) -> float:
    """Returns the least CPU milliseconds of five runs."""
    taken = []
    for _ in range(TIMES):
        begun = time.process_time()
        work(text)
        taken.append(time.process_time() - begun)
    return 1_000 * min(taken)


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    cases = [(count_tokens, unit) for unit in UNITS] + [(match_pattern, "a"), (weigh_message, "a")]
    for work, unit in cases:
        few, many = (least(work, (unit * length)[:length]) for length in (size, 4 * size))
        print(f"{work.__name__:14} {unit!a:45} {few:8.2f} {many:8.2f} ms  ×{many / few:.1f}")


if __name__ == "__main__":
    main()
