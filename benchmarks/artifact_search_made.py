"""Search in files: questions that nobody wrote, made from this repository's docstrings, tests and commits.

    python benchmarks/artifact_search_made.py

Each is looked for as `benchmarks/artifact_search.py` looks for its own. Of the docstrings 400 are drawn by chance and
cut from their files; the first sentence of each asks for the part that it stood in. The names of 400 tests ask for the
file that their own file mirrors, and the subjects of commits for one of the at most four files that they changed.
"""

from __future__ import annotations

import ast
import asyncio
import random
import re
import subprocess
from collections.abc import Iterator, Sequence

from artifact_search import ROOT, by_parts, files

DRAWN = 400
Question = tuple[str, Sequence[str], str]
"""What is asked, the right files, and the title of the right part (empty: any)."""


def documented(body: Sequence[ast.stmt], above: str) -> Iterator[tuple[str, ast.Expr, str]]:
    """Yields titles of definitions with their docstrings, and the first sentence of each."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        title = f"{above} > {node.name}" if above else node.name
        first = node.body[0]
        if isinstance(first, ast.Expr) and len(node.body) > 1 and (said := ast.get_docstring(node)):
            sentence = re.split(r"(?<=[.])\s|\n\n", said)[0]
            if len(sentence.split()) >= 7:
                yield title, first, sentence
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, title)


def docstrings(texts: dict[str, str], chance: random.Random) -> tuple[dict[str, str], list[Question]]:
    """Returns the files without the docstrings that ask, and the questions."""
    found = [
        (path, *one)
        for path, text in texts.items()
        if path.endswith(".py")
        for one in documented(ast.parse(text).body, "")
    ]
    drawn = chance.sample(found, DRAWN)
    left = {path: text.split("\n") for path, text in texts.items()}
    for path, _, node, _ in drawn:
        for line in range(node.lineno - 1, node.end_lineno or node.lineno):
            left[path][line] = ""
    return {path: "\n".join(lines) for path, lines in left.items()}, [
        (sentence, [path], title) for path, title, _, sentence in drawn
    ]


def named_tests(texts: dict[str, str], chance: random.Random) -> list[Question]:
    """Returns names of tests, with the files that theirs mirror."""
    mirrored = {re.sub(r"/blackboard_mcp/\w+", "", path): path for path in texts}
    found: list[Question] = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        path = test.relative_to(ROOT / "tests").with_name(test.name[5:]).as_posix()
        if path in mirrored:
            names = re.findall(r"def test_(\w+)", test.read_text("utf-8"))
            found += [
                (name.replace("_", " "), [mirrored[path]], "") for name in names if name.count("_") >= 4
            ]
    return chance.sample(found, DRAWN)


def subjects(texts: dict[str, str]) -> list[Question]:
    """Returns subjects of commits, with the files of source that they changed."""
    said = subprocess.run(
        ["git", "log", "--no-merges", "--format=@@%s", "--name-only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: list[Question] = []
    for commit in said.split("@@")[1:]:
        subject, *changed = commit.split("\n")
        right = [path for path in changed if path in texts and not path.startswith("docs")]
        if 1 <= len(right) <= 4 and len(subject.split()) >= 5:
            found.append((subject, right, ""))
    return found


async def main() -> None:
    chance, texts = random.Random(7), files()
    cut, from_docstrings = docstrings(texts, chance)
    for name, searched, asked in (
        ("docstrings", cut, from_docstrings),
        ("names of tests", texts, named_tests(texts, chance)),
        ("subjects of commits", texts, subjects(texts)),
    ):
        found, _, _ = await by_parts(searched, [question for question, _, _ in asked], 0.0)
        right = [
            [title in hit.chunk.title for hit in hits if hit.revision.path in paths]
            for (_, paths, title), hits in zip(asked, found, strict=True)
        ]
        file, part = (sum(map(kind, right)) / len(asked) for kind in (bool, any))
        print(f"{len(asked)} {name}: right file {file:.2f}, right part {part:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
