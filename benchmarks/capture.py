"""Precision and recall of the rules that `constraint(message=…)` proposes, on labelled sentences of our own.

    python benchmarks/capture.py

The patterns were written with the parts `tuned` at hand, and never looked at the parts `held out`. The parts `later`
were written after a reader had found sentences that were missed, and before the patterns were mended for them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from blackboard_mcp.server.input.capture import judged

SENTENCES = Path(__file__).with_name("capture_sentences.tsv")


def labelled() -> list[tuple[str, bool, str]]:
    """Returns the sentences: their part, whether they are rules, and their text."""
    rows = [line.split("\t") for line in SENTENCES.read_text("utf-8").splitlines()]
    return [(part, label == "rule", text) for part, label, text in rows]


def scores(part: str) -> tuple[float, float, list[str]]:
    """Returns precision and recall on a part, and the sentences that were judged wrongly."""
    judgements = [(rule, judged(text) is not None, text) for of, rule, text in labelled() if of == part]
    right = sum(rule and found for rule, found, _ in judgements)
    proposed = sum(found for _, found, _ in judgements)
    rules = sum(rule for rule, _, _ in judgements)
    wrong = [
        f"{'missed' if rule else 'not a rule'}: {text}" for rule, found, text in judgements if rule != found
    ]
    return right / max(1, proposed), right / max(1, rules), wrong


def main() -> None:
    every = dict.fromkeys(part for part, _, _ in labelled())
    parts = [part for part in every if len(sys.argv) < 2 or part in sys.argv[1:]]
    for part in parts:
        precision, recall, wrong = scores(part)
        count = sum(of == part for of, _, _ in labelled())
        print(f"{part}: {count} sentences, precision {precision:.2f}, recall {recall:.2f}")
        if part.startswith("tuned"):
            print("\n".join(wrong))


if __name__ == "__main__":
    main()
