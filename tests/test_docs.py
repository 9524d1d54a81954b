"""The docs hold: examples parse or run, everything is documented, the reference is current, links lead somewhere."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click
import jsonschema
import pytest
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.pruning import Candidate
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.settings import server as settings
from patience import RUN

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / "docs").rglob("*.md"),
]
COMMAND = Path(sys.executable).with_name("blackboard-mcp")


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def examples(language: str) -> Iterator[tuple[str, str]]:
    for page in sorted(PAGES):
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks, 1):
            yield f"{page.relative_to(ROOT)}-{number}", block


def parameters(language: str) -> pytest.MarkDecorator:
    found = list(examples(language))
    assert found
    return pytest.mark.parametrize("source", [block for _, block in found], ids=[name for name, _ in found])


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@parameters("json")
def test_json_examples_are_json(source: str) -> None:
    json.loads(source)


@parameters("toml")
def test_toml_examples_are_settings(source: str, tmp_path: Path) -> None:
    assert tomllib.loads(source)
    (tmp_path / "settings.toml").write_text(source, "utf-8")
    settings.load({}, {}, tmp_path / "settings.toml")


@parameters("python")
def test_python_examples_parse(source: str) -> None:
    ast.parse(source)


@parameters("sh")
def test_shell_examples_call_commands_with_options_that_exist(source: str) -> None:
    for line in source.splitlines():
        words = shlex.split(line)
        ours = [n for n, word in enumerate(words) if Path(word).name == "blackboard-mcp"]
        for place in ours:
            if words[place - 1] == "add":  # a server's name in a client's own command
                continue
            arguments = words[place + 1 :]
            arguments = arguments[: arguments.index("&&")] if "&&" in arguments else arguments
            group = cast(click.Group, cli)
            command = group.get_command(click.Context(group), arguments[0])
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), arguments[1])
            assert command is not None, line
            known = {option for parameter in command.params for option in parameter.opts}
            if "--" in arguments:  # what follows is for the command that a client starts
                serve = cast(click.Command, group.get_command(click.Context(group), "serve"))
                known |= {"--"} | {option for parameter in serve.params for option in parameter.opts}
            assert {word for word in arguments if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", ["README.md", "docs/howto/connect-clients.md"])
def test_client_configurations_start_our_command(name: str) -> None:
    group = cast(click.Group, cli)
    for block in re.findall(r"^```json\n(.*?)^```$", text_of(name), re.MULTILINE | re.DOTALL):
        given = json.loads(block)
        for server in {**given.get("mcpServers", {}), **given.get("servers", {})}.values():
            if "command" not in server:
                assert server["url"].endswith("/mcp")
                continue
            first, *rest = server["args"]
            command = group.get_command(click.Context(group), first)
            assert command is not None
            # Under its group: click remembers the names of the help option from the first context.
            command.make_context(
                first, list(rest), parent=click.Context(group, help_option_names=["-h", "--help"])
            )


@contextmanager
def served(data: Path, *options: str) -> Iterator[str]:
    """The address of a server on a data folder."""
    server = subprocess.Popen(
        [COMMAND, "serve", "--transport", "http", "--port", "0", "--data", data, *options],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=plain_environment(),
    )
    assert server.stderr is not None
    try:
        ready = re.search(r"serves (\S+)", server.stderr.readline())
        assert ready is not None
        yield ready[1]
    finally:
        server.terminate()
        server.communicate(timeout=20)


def test_the_quickstart_ends_in_consensus(tmp_path: Path) -> None:
    source = re.search(r"^```python\n(.*?)^```$", text_of("docs/quickstart.md"), re.MULTILINE | re.DOTALL)
    assert source is not None
    with served(tmp_path / "board") as url:
        script = tmp_path / "two_agents.py"
        script.write_text(source[1].replace("http://127.0.0.1:8420/mcp", url), "utf-8")
        done = subprocess.run(
            [sys.executable, script],
            capture_output=True,
            text=True,
            check=True,
            timeout=RUN,
            env=plain_environment(),
        )
    assert (
        "outstanding: ann to answer C-2\nwatching, asked once every critique is answered: bob" in done.stdout
    )
    assert "you owe: R-3 by ann answers your C-2: " in done.stdout
    assert "F-1 stands: debate CONSENSUS" in done.stdout


PYTHON = "docs/howto/use-from-python.md"


def python_examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text_of(PYTHON), re.MULTILINE | re.DOTALL)


IN_TURN = """
import contextlib, os, runpy, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    with open("printed", "w", encoding="utf-8") as printed, contextlib.redirect_stdout(printed):
        runpy.run_path("example.py", run_name="__main__")
"""
"""Runs the example of each folder in one new interpreter."""


def test_the_python_examples_print_what_they_say(tmp_path: Path) -> None:
    folders = {tmp_path / str(number): source for number, source in enumerate(python_examples())}
    with served(tmp_path / "served", "--tools", "all") as url:
        for folder, source in folders.items():
            folder.mkdir()
            (folder / "example.py").write_text(source.replace("http://127.0.0.1:8420/mcp", url), "utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", IN_TURN, *folders],
            capture_output=True,
            text=True,
            timeout=RUN,
            env=plain_environment(),
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for folder, source in folders.items():
        printed = (folder / "printed").read_text("utf-8").splitlines()
        for wanted in re.findall(r"# prints: (.*)$", source, re.MULTILINE):
            assert wanted in printed, (wanted, printed)


def test_the_python_examples_are_strictly_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for number, source in enumerate((*python_examples(), readme_python())):
        (tmp_path / f"example_{number}.py").write_text(source, "utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *sorted(tmp_path.glob("*.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def readme_python() -> str:
    (source,) = re.findall(r"^```python\n(.*?)^```$", text_of("README.md"), re.MULTILINE | re.DOTALL)
    return str(source)


def test_the_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", readme_python()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "F-1" in done.stdout


def test_the_policies_of_the_how_to_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = text_of("docs/howto/choose-a-policy.md")
    source = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    named = re.search(r"--policy (\S+)", page)
    assert source is not None
    assert named is not None
    (tmp_path / "my_policies.py").write_text(source[1], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = Policies(named[1].split(","))

    def candidate(number: int, author: str, tokens: int, reads: int) -> Candidate:
        now = datetime(2026, 11, 21, tzinfo=UTC)
        kind, status = ItemType.FACT, Status.ACTIVE
        return Candidate(
            *(number, kind, status, 2, tokens, author, number, False, now, number),
            *(False, False, False, False, reads),
        )

    four = [
        candidate(1, "a", 9, 0),
        candidate(2, "a", 5, 3),
        candidate(3, "b", 7, 2),
        candidate(4, "a", 8, 0),
    ]
    for policy, order in {
        "keep-read": [1, 4, 3, 2],
        "turns": [1, 3, 2, 4],
        "keep-read+turns": [1, 4, 3, 2],
    }.items():
        known.check(policy)
        assert [c.number for c in known.composition(policy).order(four, {})] == order


TOOL_CALL = re.compile(r"(?<![\w.])([a-z_]+)\(")
WORDS = {"true": True, "false": False, "null": None}


def call_at(text: str, start: int) -> str:
    """The call that begins there, up to the parenthesis that closes it; what stands in quotes closes nothing."""
    depth, quoted = 0, False
    for place in range(start, len(text)):
        if text[place] == '"':
            quoted = not quoted
        elif not quoted and text[place] in "()":
            depth += 1 if text[place] == "(" else -1
            if depth == 0:
                return text[start : place + 1]
    return ""


def tool_calls(page: Path, tools: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of tools that a page shows in code, with their arguments; forms with a bare … are none."""
    text = page.read_text("utf-8")
    code = [
        block
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
        if language in ("", "text")
    ]
    code += re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for piece in code:
        for found in TOOL_CALL.finditer(piece):
            call = call_at(piece, found.start())
            if found[1] not in tools or not call or "…" in re.sub(r'"[^"]*"', "", call):
                continue
            try:
                node = ast.parse(call, mode="eval").body
            except SyntaxError:
                continue  # words, say `read(since=)`
            if isinstance(node, ast.Call) and not node.args:
                yield found[1], {one.arg or "": value_of(one.value) for one in node.keywords}
    for block in re.findall(r"^```json\n(\{\"settings\".*?)^```$", text, re.M | re.S):
        yield "board", json.loads(block)


def value_of(node: ast.expr) -> Any:
    """A value as JSON writes it."""
    if isinstance(node, ast.Name):
        return WORDS.get(node.id, 0)  # another name stands for a number: cursor
    if isinstance(node, ast.List):
        return [value_of(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(value_of(k)): value_of(v)
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        }
    return ast.literal_eval(node)


def test_the_calls_that_pages_show_are_what_the_tools_take(generator: ModuleType) -> None:
    server = generator.server(*settings.TOOL_SETS)
    schemas = {tool.name: server.whole_schema(tool.name) for tool in server.published_tools}
    shown = [
        (page, tool, given)
        for page in PAGES
        if page.name != "CHANGELOG.md" and "adr" not in page.parts
        for tool, given in tool_calls(page, schemas)
    ]
    assert len(shown) > 60
    assert {tool for _, tool, _ in shown} >= set(schemas) - {"core"}
    for page, tool, given in shown:
        assert given.keys() <= schemas[tool]["properties"].keys(), (page, tool, given)
        jsonschema.validate(given, {**schemas[tool], "required": []})


def plain_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("BLACKBOARD_")}


def test_the_reference_is_current(generator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    status = generator.main(["--check"])
    assert status == 0, f"{capsys.readouterr().out}; python docs/generate.py writes it"


def test_every_tool_is_in_the_readme_and_the_reference(generator: ModuleType) -> None:
    readme, reference = text_of("README.md"), text_of("docs/reference/tools.md")
    for tool in generator.server(*settings.TOOL_SETS).published_tools:
        assert f"`{tool.name}`" in readme, tool.name
        assert f"\n### {tool.name}\n" in reference, tool.name


def test_every_setting_is_documented() -> None:
    reference = text_of("docs/reference/settings.md")
    for field in dataclasses.fields(settings.Settings):
        assert f"`{field.name}`" in reference, field.name
        assert f"`{settings.PREFIX}{field.name.upper()}`" in reference, field.name


def test_the_tables_of_settings_name_every_set_of_tools() -> None:
    for page in ("README.md", "docs/reference/settings.md"):
        (row,) = [line for line in text_of(page).splitlines() if re.match(r"\|[^|]*`(--)?tools`", line)]
        assert [name for name in settings.TOOL_SETS if not re.search(rf"\b{name}\b", row)] == [], page


def test_every_command_is_documented() -> None:
    group = cast(click.Group, cli)
    reference, changelog = text_of("docs/reference/cli.md"), text_of("CHANGELOG.md")
    for name in group.list_commands(click.Context(group)):
        assert f"\n## {name}\n" in reference, name
        assert f"`{name}`" in changelog, name


def test_tests_that_pages_name_exist() -> None:
    named = {
        (p, *found) for p in PAGES for found in re.findall(r"`(tests/[^`:]+)::([^`]+)`", p.read_text("utf-8"))
    }
    assert len(named) > 20
    for page, path, name in named:
        file = ROOT / path
        assert file.exists(), (page, path)
        assert re.search(rf"def {re.escape(name)}\(", file.read_text("utf-8")), (page, path, name)


def test_the_readme_has_the_two_commands() -> None:
    lines = [line for line in text_of("README.md").splitlines() if line.startswith("python3 -m venv ")]
    assert [line.split()[-1] for line in lines] == ["demo", ".venv/bin/pytest"]


def test_the_changelog_knows_this_version() -> None:
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    assert f"## [{version}]" in text_of("CHANGELOG.md")


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    source = page.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?://|#)([^)\s]+)\)", source):
        path, _, anchor = target.partition("#")
        found = page.parent / path
        assert found.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            assert anchor in {head.lower().replace(" ", "-") for head in heads}, target


def test_decisions_are_numbered_one_after_the_other_and_called_by_their_numbers() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers)
    assert numbers == list(range(1, numbers[-1] + 1))
    for number, page in zip(numbers, pages, strict=True):
        assert page.read_text("utf-8").startswith(f"# {number}. "), page.name
    for page in PAGES:
        for told, linked in re.findall(r"\[ADR (\d+)\]\([^)]*?(\d{4})-", page.read_text("utf-8")):
            assert int(told) == int(linked), page


SECURITY = "docs/discussions/security.md"


def named_tests() -> list[str]:
    """The tests that the security page names, as `tests/…/test_x.py::test_y`."""
    return sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", text_of(SECURITY))))


@pytest.mark.parametrize("named", named_tests())
def test_the_security_page_names_tests_that_are_there_and_run(named: str) -> None:
    path, name = named.split("::")
    found = [
        node
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    assert found, f"{path} has no {name}"
    for node in found:
        marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
        assert not marks & {"pytest.mark.skip", "pytest.mark.xfail"}


def test_every_promise_and_every_threat_of_the_security_page_names_what_shows_it() -> None:
    rows = [
        row
        for row in re.findall(r"^\|(.+)\|$", text_of(SECURITY), re.MULTILINE)
        if not set(row) <= set("-| ") and not row.startswith((" promise", " threat"))
    ]
    assert len(rows) > 30
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py(::\w+)?`", row), f"no test named: {row}"
