"""Globs of files, and revisions that texts name."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.workspace import file_glob, named_revisions


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("**", "a/b", True),
        ("*", "a", True),
        ("*", "a/b", False),
        ("src", "src", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/**", "src/x/a.py", True),
        ("src/**", "source/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/requirements.txt", "requirements.txt", True),
        ("**/requirements.txt", "a/b/requirements.txt", True),
        ("**/requirements.txt", "dev-requirements.txt", False),
        ("a/**/b/**/c", "a/b/c", True),
        ("a/**/b/**/c", "a/x/b/y/z/c", True),
        ("a/**/b/**/c", "a/x/c", False),
        ("**.py", "a/b.py", True),
        ("a.c", "abc", False),
    ],
)
def test_stars_stay_within_a_name_and_double_stars_stand_for_folders(
    glob: str, path: str, matches: bool
) -> None:
    assert file_glob(glob)(path) is matches


def test_a_hostile_glob_costs_no_more_than_its_length() -> None:
    glob = "/".join(["**", "*a*"] * 40)
    assert not file_glob(glob)("/".join(["aaaaaaaaab"] * 19))


def test_a_text_names_files_with_revisions_as_answers_write_them() -> None:
    text = (
        "a.md rev 3, a.md rev 12, `b/c.py` (rev 4), d.txt at rev 5, e.md, rev 6; g.md revision 7 and h.md r8"
    )
    assert named_revisions(text) == {"a.md": 12, "b/c.py": 4, "d.txt": 5, "e.md": 6, "g.md": 7}
    assert named_revisions("x" * 100_000 + " rev 1; rev 2 " + "a rev " * 20_000) == {}
