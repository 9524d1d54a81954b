"""What is built, what it needs, and what is pinned."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PARTS = ("server", "protocols", "storage")
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = CONFIGURATION["project"]
HOOK = CONFIGURATION["tool"]["hatch"]["metadata"]["hooks"]["custom"]
DEPENDENCIES = PROJECT["dependencies"]
# Distributions whose import name differs, and data that is read without importing its package.
IMPORTED_AS = {
    "pyyaml": "yaml",
    "pyjwt": "jwt",
    "ruamel-yaml": "ruamel",
    "tree-sitter": "tree_sitter",
}
GRAMMARS = {f"tree-sitter-{name}" for name in ("javascript", "typescript", "go", "rust", "java", "c", "cpp")}
FOUND_NOT_IMPORTED = {"wordllama", "pytest-asyncio", *GRAMMARS}


def sources(part: str) -> list[Path]:
    """Files of one part, relative to its root folder."""
    root = ROOT / part
    found = (p for p in (root / "blackboard_mcp").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(p.relative_to(root) for p in found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return built(tmp_path_factory.mktemp("wheel"), ROOT)


def built(folder: Path, project: Path, **environment: str) -> ZipFile:
    """The wheel of a project of ours, as an installer would build it."""
    build = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, env={**os.environ, **environment})
    (made,) = folder.glob("*.whl")
    return ZipFile(made)


def code_of(wheel: ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def needs_of(wheel: ZipFile) -> list[Requirement]:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return [
        Requirement(line)
        for line in Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist", [])
    ]


def test_the_wheel_holds_every_file_of_the_three_parts_but_our_walks_and_nothing_else(wheel: ZipFile) -> None:
    files = {path.as_posix() for part in PARTS for path in sources(part)}
    walks = {name for name in files if name.startswith("blackboard_mcp/storage/testing/walk/")}
    assert walks
    assert code_of(wheel) == files - walks


def test_a_wheel_for_musl_needs_nothing_that_has_no_wheels_for_it(wheel: ZipFile, tmp_path: Path) -> None:
    musl = built(tmp_path, ROOT, BLACKBOARD_MUSL="musllinux_1_2_x86_64")
    assert str(musl.filename).endswith("-py3-none-musllinux_1_2_x86_64.whl")
    assert code_of(musl) == code_of(wheel)
    archive = set(HOOK["without_on_musl"])
    assert {"lancedb", "pyarrow", "numpy"} <= archive
    assert {r.name for r in needs_of(wheel)} - {r.name for r in needs_of(musl)} == archive


@pytest.mark.parametrize(
    ("system", "machine", "python", "wanted"),
    [
        ("linux", "x86_64", "3.11", {"lancedb", "wordllama", "tiktoken"}),
        ("linux", "x86_64", "3.14", {"lancedb", "tiktoken"}),
        ("linux", "aarch64", "3.13", {"lancedb", "tiktoken"}),
        ("darwin", "arm64", "3.14", {"lancedb", "tiktoken"}),
        ("darwin", "x86_64", "3.13", {"tiktoken"}),
        ("win32", "AMD64", "3.11", {"lancedb", "wordllama", "tiktoken"}),
    ],
)
def test_each_platform_needs_what_has_wheels_for_it(
    wheel: ZipFile, system: str, machine: str, python: str, wanted: set[str]
) -> None:
    """`.ci/resolve.py` sees that they have, with the network."""
    there = {"sys_platform": system, "platform_machine": machine, "python_version": python, "extra": ""}
    needed = {r.name for r in needs_of(wheel) if r.marker is None or r.marker.evaluate(dict(there))}
    assert needed & {"lancedb", "wordllama", "tiktoken"} == wanted


def test_an_installation_gains_one_folder_beside_its_metadata(wheel: ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"blackboard_mcp"}


@pytest.mark.parametrize(
    "name",
    [
        *(f"blackboard_mcp/{part}/py.typed" for part in PARTS),
        "blackboard_mcp/storage/sqlite/queries/debates.sql",
        "blackboard_mcp/storage/sqlite/migrations/0001_initial.sql",
        "blackboard_mcp/storage/sqlite/migrations/0003_debates.sql",
        "blackboard_mcp/server/demo/logs/LICENSE",
    ],
)
def test_the_wheel_holds_what_is_no_code(wheel: ZipFile, name: str) -> None:
    assert name in wheel.namelist()


def test_the_wheel_holds_recorded_sessions_for_the_demo(wheel: ZipFile) -> None:
    logs = [n for n in wheel.namelist() if re.fullmatch(r"blackboard_mcp/server/demo/logs/[\w-]+\.json", n)]
    assert logs


def test_the_wheel_names_its_command_and_its_licence(wheel: ZipFile) -> None:
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    commands = wheel.read(f"{info}/entry_points.txt").decode()
    assert "blackboard-mcp = blackboard_mcp.server.cli:main" in commands
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == PROJECT["license"]
    for name in PROJECT["license-files"]:
        assert f"{info}/licenses/{name}" in wheel.namelist()


def test_no_link_of_the_packages_page_breaks_on_an_index(wheel: ZipFile) -> None:
    """There a relative link leads nowhere: each is absolute once the repository has an address, else its words."""
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = str(metadata.get_payload())
    assert "# blackboard-mcp" in page
    assert not re.findall(r"\]\((?!https?://)[^)]+\)", page)


def test_links_and_project_urls_follow_the_repository(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    metadata = {"version": "1.2.3"}
    hook.PackagePage(str(ROOT), {**HOOK, "repository": "https://git.example/ann/board/"}).update(metadata)
    page: Any = metadata["readme"]
    relative = re.findall(r"\]\((?!https?://|#)([^)\s]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert relative
    for target in relative:
        assert f"](https://git.example/ann/board/blob/v1.2.3/{target})" in page["text"]
    urls: Any = metadata["urls"]
    assert urls.keys() == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith("https://git.example/ann/board") for url in urls.values())


@pytest.mark.parametrize("part", PARTS)
def test_no_file_hides_the_other_parts_of_the_namespace(part: str) -> None:
    assert [p.name for p in (ROOT / part / "blackboard_mcp").iterdir() if p.is_file()] == []


@cache
def imported() -> dict[str, set[str]]:
    """Top-level modules that the sources import, each with the files that do."""
    found: dict[str, set[str]] = {}
    for part in PARTS:
        for path in sources(part):
            if path.suffix != ".py" or "walk" in path.parts:
                continue
            for node in ast.walk(ast.parse((ROOT / part / path).read_text("utf-8"))):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                for name in names:
                    found.setdefault(name.split(".")[0], set()).add(f"{part}/{path}")
    ours = {"blackboard_mcp", "__future__"}
    return {name: files for name, files in found.items() if name not in sys.stdlib_module_names | ours}


def requirements(lines: list[str]) -> dict[str, Requirement]:
    return {r.name: r for r in map(Requirement, lines)}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = requirements([*DEPENDENCIES, *extras["kit"], *extras["postgres"]])
    assert {IMPORTED_AS.get(name, name) for name in declared.keys() - FOUND_NOT_IMPORTED} == set(imported())


def test_protocols_import_nothing_but_pydantic() -> None:
    importers = {n: {f for f in files if f.startswith("protocols/")} for n, files in imported().items()}
    assert {name for name, files in importers.items() if files} <= {"pydantic"}


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for requirement in map(Requirement, [*DEPENDENCIES, *(line for e in extras for line in e)]):
        operators = {specifier.operator for specifier in requirement.specifier}
        assert {">=", "<"} <= operators, str(requirement)


def pins() -> list[tuple[Requirement, list[str]]]:
    """The pins of constraints.txt, each with its hashes."""
    text = (ROOT / "constraints.txt").read_text("utf-8").replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement, *hashes = line.split("--hash=")
            found.append((Requirement(requirement.strip()), [h.strip() for h in hashes]))
    return found


def test_the_constraints_name_versions_and_hashes_but_no_addresses() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    assert not re.search(r"://|^\s*-(?!-hash)|@\s", text, re.MULTILINE)
    for requirement, hashes in pins():
        assert [s.operator for s in requirement.specifier] == ["=="], str(requirement)
        assert hashes, str(requirement)
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), str(requirement)


def test_the_constraints_pin_every_dependency_inside_its_bounds() -> None:
    pinned: dict[str, list[Version]] = {}
    for requirement, _ in pins():
        (specifier,) = requirement.specifier
        pinned.setdefault(requirement.name, []).append(Version(specifier.version))
    extras = PROJECT["optional-dependencies"].values()
    declared = requirements([*DEPENDENCIES, *(line for e in extras for line in e)])
    for name, requirement in declared.items():
        assert pinned.get(name), f"{name} is not pinned"
        assert all(version in requirement.specifier for version in pinned[name]), name


def test_the_command_says_its_version() -> None:
    command = Path(sys.executable).with_name("blackboard-mcp")
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert PROJECT["version"] in said
