"""Files are cut into parts that have all of their lines once, with titles; the index follows the revisions."""

from __future__ import annotations

import gc
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.server.input.syntax import fault_of
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.workspace import grammars, search
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
    assert [c.title for c in outline_of("a.txt", other)] == ["load", "run", "item"]
    assert [c.title for c in chunks_of("a.py", "def f(:\n")] == ["f"], "what cannot be parsed is cut by lines"


def test_threads_that_parse_python_at_once_all_get_its_definitions() -> None:
    class Slow:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            time.sleep(0)  # lets other threads in while the collector is at work inside a parser

    def cut(_: int) -> tuple[int, str]:
        for _ in range(20):
            Slow()
        return len(outline_of("a.py", code)), fault_of("python", code.encode())

    code = "\n".join(f"def f{n}(a, b):\n    return [a + {n}, (b, {{'x': a}})]" for n in range(60))
    before = gc.get_threshold()
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(cut, range(100))) == {(60, "")}
    finally:
        gc.set_threshold(*before)


SOURCES = {
    "a.ts": (
        """import x from "y";

// Keeps items.
@Injectable()
export class Store extends Base {
  n = 1;

  // Adds one.
  async add(item: Item): Promise<void> {
    const inner = () => 1;
  }
}

export const run = async (a) => {
  return a;
};
const SMALL = 1;
namespace N {
  export function deep() {}
}
""",
        [(3, "Store"), (8, "Store > add"), (14, "run"), (18, "N"), (19, "N > deep")],
    ),
    "a.js": ("function a() {}\nclass B {\n  m() {}\n}\n", [(1, "a"), (2, "B"), (3, "B > m")]),
    "a.tsx": ("export function App() {\n  return <div onClick={() => 1}>x</div>;\n}\n", [(1, "App")]),
    "a.go": (
        "package a\n\n// Serves.\ntype Server struct {\n\ta int\n}\n\nfunc (s *Server) Run() error {\n\treturn nil\n}\n"
        "\nfunc (l List[T]) Len() int { return 0 }\n",
        [(3, "Server"), (8, "Server.Run"), (12, "List.Len")],
    ),
    "a.rs": (
        "/// A point.\n#[derive(Debug)]\npub struct P { x: i32 }\n\nimpl P {\n    /// Makes one.\n    fn new() {}\n}\n"
        "impl Display for P {\n    fn fmt() {}\n}\n",
        [(1, "P"), (6, "P > new"), (9, "P: Display"), (10, "P: Display > fmt")],
    ),
    "A.java": (
        "package a;\n/** Doc. */\n@Entity\npublic class A<T> {\n  A() {}\n  @Override\n  String s() { return null; }\n"
        "  enum E { X }\n}\n",
        [(2, "A"), (5, "A > A"), (6, "A > s"), (8, "A > E")],
    ),
    "a.c": (
        "#ifdef X\nint hidden(void) { return 1; }\n#endif\n/* Adds. */\nstatic int *add(int a)\n{\n}\n"
        "struct P { int x; };\nint g = 1;\n",
        [(2, "hidden"), (4, "add"), (8, "P")],
    ),
    "a.cpp": (
        "namespace n {\ntemplate <class T>\nclass A {\n public:\n  void m() { }\n};\nvoid A::q() {}\n}\n",
        [(1, "n"), (2, "n > A"), (5, "n > A > m"), (7, "n > A::q")],
    ),
}


@pytest.mark.parametrize("path", SOURCES)
def test_sources_are_cut_where_their_grammar_sees_definitions(path: str) -> None:
    text, parts = SOURCES[path]
    assert [(one.start, one.title) for one in outline_of(path, text)] == parts
    broken = outline_of(path, text + "\n) ] function (((\n")
    assert parts[0] in [(one.start, one.title) for one in broken], "a mistake hides not all the others"


def test_a_source_without_its_grammar_is_cut_like_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    grammars._parser.cache_clear()
    monkeypatch.setattr(grammars, "find_spec", lambda name: None)
    try:
        assert [one.title for one in outline_of("a.ts", "export class A {\n  m() {}\n}\n")] == ["A"]
    finally:
        grammars._parser.cache_clear()


AMBIGUOUS = [
    "a<",
    "(a)(b)=>",
    "[{(<",
    "impl A {",
    "class A {",
    "a?b:",
    "f(a<b,c>(d))+",
    "#if X\n",
    "`${",
    "(",
    "<a>",
]


@pytest.mark.parametrize("ending", [".ts", ".tsx", ".js", ".go", ".rs", ".java", ".c", ".cpp"])
def test_texts_that_are_hard_to_parse_are_given_up_after_bounded_steps(ending: str) -> None:
    """Real sources take one step for 100 bytes; without the bound some of these fill the memory."""
    parser = grammars._parser(grammars.LANGUAGES[ending])
    assert parser is not None
    given_up = 0
    for part in AMBIGUOUS:
        text = part * (12_000 // len(part))
        given_up += grammars._parsed(parser, text.encode()) is None
        assert all(chunk.end <= text.count("\n") + 1 for chunk in chunks_of(f"a{ending}", text))
    assert given_up
    assert grammars.definitions(ending, "x" * (grammars.MAX_SOURCE + 1)) is None
    text, _ = next(source for path, source in SOURCES.items() if path.endswith(ending))
    assert grammars.definitions(ending, text), "the parser goes on afterwards"


async def test_what_did_not_change_is_not_counted_nor_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_memory_store()
    try:
        await store.ensure_board("main", "ann", BoardConfig())
        parts = [f"# Part {n}\n\nThe pump runs at {n} bar.\n" for n in range(40)]
        index = ArtifactIndex(store)
        counted: list[str] = []
        words = search.words
        monkeypatch.setattr(search, "words", lambda text: counted.append(text) or words(text))
        cut: list[str] = []
        outline = search.outline_of
        monkeypatch.setattr(search, "outline_of", lambda path, text: cut.append(path) or outline(path, text))

        async def look() -> tuple[int, int]:
            counted.clear()
            cut.clear()
            await index.search("main", "bar", lambda path: True, 1)
            await index.outline("main", await store.artifacts("main"))
            return sum("runs at" in text for text in counted), len(cut)

        for path in ("a.md", "b.md"):
            await store.write_artifact("main", "ann", path, Edit(content="\n".join([*parts, path]).encode()))
        first, _ = await look()
        assert first >= 80
        parts[7] += "And leaks.\n"
        await store.write_artifact("main", "ann", "a.md", Edit(content="\n".join([*parts, "a.md"]).encode()))
        again, cuts = await look()
        assert 1 <= again <= 4, "the changed part, and a line of each hit"
        assert cuts == 1
    finally:
        await store.close()


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


async def test_files_that_were_left_out_are_searched_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_CHUNKS", 4)
    store = await open_memory_store()
    try:
        await store.ensure_board("main", "ann", BoardConfig())
        following = ArtifactIndex(store)

        async def found() -> list[str]:
            hits, _ = await following.search("main", "pump", lambda path: True, 8)
            return sorted(hit.revision.path for hit in hits)

        for number in range(4):
            await store.write_artifact("main", "ann", f"{number}.md", Edit(content=b"the pump"))
        assert await found() == ["0.md", "1.md", "2.md", "3.md"]
        for number in range(4, 7):
            await store.write_artifact("main", "ann", f"{number}.md", Edit(content=b"the pump"))
        assert await found() == ["0.md", "1.md", "2.md", "3.md"]
        for number in range(2):
            await store.write_artifact("main", "ann", f"{number}.md", Edit(delete=True))
        assert await found() == ["2.md", "3.md", "4.md", "5.md"]
        reads = []
        given = store.read_artifact
        monkeypatch.setattr(store, "read_artifact", lambda *a, **k: reads.append(a) or given(*a, **k))
        assert await found() == ["2.md", "3.md", "4.md", "5.md"]
        assert not reads, "nothing is read anew while there is no room"
    finally:
        await store.close()
