"""Files are cut into parts that have all of their lines once, with titles; the index follows the revisions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.workspace import search
from blackboard_mcp.storage.workspace.chunks import MAX_CHARACTERS, chunks_of, outline_of
from blackboard_mcp.storage.workspace.search import ArtifactIndex
from hypothesis import given
from hypothesis import strategies as st

LINES = st.lists(
    st.sampled_from(
        [
            "",
            "  ",
            "class A:",
            "    def f(self):",
            "        return 1",
            "# Head",
            "## Deep",
            "```",
            "x = (",
            "text",
            "y" * 900,
        ]
    )
    | st.text(max_size=20).filter(lambda text: "\n" not in text),
    max_size=40,
)
HERE = Path(__file__).resolve().parents[3]


@given(LINES, st.sampled_from(["a.py", "a.md", "a.txt", "a.sql"]))
def test_every_line_that_is_not_empty_is_in_one_chunk(lines: list[str], path: str) -> None:
    text = "\n".join(lines)
    chunks = chunks_of(path, text)
    found = [number for chunk in chunks for number in range(chunk.start, chunk.end + 1)]
    assert found == sorted(set(found))
    assert set(found) >= {number for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    for chunk in chunks:
        size = sum(len(line) + 1 for line in text.split("\n")[chunk.start - 1 : chunk.end])
        assert size <= MAX_CHARACTERS or chunk.start == chunk.end


def test_definitions_and_headings_are_titles() -> None:
    code = (
        "import os\n\n\nclass A:\n    x = 1\n\n    @property\n    def f(self):\n        pass\n\n\ndef g():\n"
        "    def inner(): ...\n\n\nz = 2\n"
    )
    assert [(c.start, c.end, c.title) for c in chunks_of("a.py", code)] == [
        *((1, 1, ""), (4, 5, "A"), (7, 9, "A > f"), (12, 13, "g"), (16, 16, "")),
    ]
    guide = "intro\n\n# One\n\na\n\n```\n# no heading\n```\n\n## Two #\n\nb\n\n# Three\n"
    assert [(c.start, c.title) for c in chunks_of("a.md", guide)] == [
        *((1, ""), (3, "One"), (11, "One > Two"), (15, "Three")),
    ]
    other = "export async function load(x) {\n}\n\npub fn run() {\n}\n\nCREATE TABLE item (\n);\n"
    assert [c.title for c in outline_of("a.ts", other)] == ["load", "run", "item"]
    assert [c.title for c in chunks_of("a.py", "def f(:\n")] == ["f"], "what cannot be parsed is cut by lines"


@pytest.mark.parametrize("path", ["server/blackboard_mcp/server/compose.py", "README.md"])
def test_our_own_files_are_cut_in_proportion(path: str) -> None:
    text = (HERE / path).read_text("utf-8")
    chunks = chunks_of(path, text)
    assert len(text) / MAX_CHARACTERS <= len(chunks) <= len(text) / 100


async def test_an_index_that_follows_equals_a_fresh_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_memory_store()
    try:
        await store.ensure_board("main", "ann", BoardConfig())
        chance = random.Random(7)
        following = ArtifactIndex(store)
        words = ["pump", "valve", "paint", "oil", "bar"]
        for step in range(60):
            path = f"{chance.choice('abc')}/{chance.randint(0, 4)}.md"
            there = {one.path for one in await store.artifacts("main")}
            if path in there and chance.random() < 0.3:
                edit = Edit(delete=True)
            else:
                text = "\n\n".join(
                    f"# {chance.choice(words)}\n{' '.join(chance.choices(words, k=5))}" for _ in range(4)
                )
                edit = Edit(content=text.encode())
            await store.write_artifact("main", "ann", path, edit)
            if step % 5 == 0:
                for word in words:
                    one = await following.search("main", word, lambda path: True, 8)
                    assert one == await ArtifactIndex(store).search("main", word, lambda path: True, 8)
        monkeypatch.setattr(search, "MAX_CHUNKS", 10)
        _, files = await ArtifactIndex(store).search("main", "pump", lambda path: True, 8)
        assert 0 < files <= 10
    finally:
        await store.close()
