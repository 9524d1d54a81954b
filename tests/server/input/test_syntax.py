"""Syntax of files: the line of what is wrong, and no file that stops the server."""

from __future__ import annotations

import pytest
from blackboard_mcp.server.input.syntax import KINDS, fault_of, kind_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.json", "json"),
        ("a/b.TOML", "toml"),
        ("b.yml", "yaml"),
        ("x.y.pyi", "python"),
        *((path, "") for path in ("json", "a.json/b", "a.jsonl", "Makefile", "a.", ".gitignore")),
    ],
)
def test_the_ending_names_the_kind(path: str, kind: str) -> None:
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    ("kind", "body", "fault"),
    [
        ("json", b'{"a": 1,\n"b" 2}', "line 2: "),
        ("json", b"\xef\xbb\xbf[1]", ""),
        ("json", b"1" * 5_000, "Exceeds the limit"),
        ("toml", b"a = \n", "Invalid value (at line 1"),
        ("yaml", b"a:\n  - b\n c: d\n", "line 3: "),
        ("yaml", b"x: &a [1]\ny: *a\nz: !!python/object:os.system {}\n", ""),
        ("python", b"x = 1\ndef f(:\n", "line 2: "),
        ("python", b"x = '\\d'\n", ""),
        ("python", b"a\0b", "source code string cannot contain null bytes"),
        *((kind, b"\xff\xfe", "it is not UTF-8 at byte 0") for kind in KINDS),
    ],
)
def test_a_fault_names_the_line(kind: str, body: bytes, fault: str) -> None:
    found = fault_of(kind, body)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


@pytest.mark.parametrize("size", [2_000, 190_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "part", ["[", "{", "(", "-", "- ", "a.", "not ", "lambda:", "{a: ", '{"a":', "&a ", "? ", '"', "'''"]
)
def test_deep_files_are_refused_or_left(kind: str, part: str, size: int) -> None:
    fault_of(kind, (part * (size // len(part))).encode())
    fault_of(kind, f"a = {part * (size // len(part))}1".encode())


@given(
    st.sampled_from(KINDS), st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode())
)
def test_any_file_gets_a_short_answer_on_one_line(kind: str, body: bytes) -> None:
    assert len(fault_of(kind, body)) <= 300
