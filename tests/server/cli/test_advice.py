"""Texts that name tool calls, as a person reads them."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import blackboard_mcp.protocols.errors
import blackboard_mcp.server.compose
import blackboard_mcp.storage.archive
import click
import pytest
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.cli.advice import _CALL, error_for_people, for_people, view_for_people
from blackboard_mcp.server.http.auth.authenticating import MISSING, WRONG

PARTS = [
    Path(str(part.__file__)).parent
    for part in (
        blackboard_mcp.protocols.errors,
        blackboard_mcp.server.compose,
        blackboard_mcp.storage.archive,
    )
]


class _Texts(ast.NodeVisitor):
    """Texts of a module with calls in them, `H-1` wherever a value is put in; no docstrings."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._note(
            "".join(str(part.value) if isinstance(part, ast.Constant) else "H-1" for part in node.values)
        )

    def visit_Constant(self, node: ast.Constant) -> None:
        self._note(str(node.value))

    def _note(self, text: str) -> None:
        if _CALL.search(text):
            self.found.append(text)


def texts() -> list[str]:
    """What the product says to agents with calls in it."""
    reader = _Texts()
    quoted = re.compile(rf"""["'].*{_CALL.pattern}""")
    for file in sorted(file for part in PARTS for file in part.rglob("*.py")):
        source = file.read_text("utf-8")
        if not {"testing", "demo", "tools", "cli"} & set(file.parts) and quoted.search(source):
            reader.visit(ast.parse(source))
    return reader.found


def commands(text: str) -> list[list[str]]:
    return [shlex.split(told)[1:] for told in re.findall(r"`(blackboard-mcp [^`]*)`", text)]


def test_no_call_of_a_tool_is_left_and_each_command_is_one() -> None:
    found = texts()
    assert len(found) > 80
    group = cli
    assert isinstance(group, click.Group)
    values = re.compile(r"H-1\]|\"H-1|=H-1")  # in the place of words that are no value
    for text in found:
        told = for_people(f"So it is. {text}")
        assert not _CALL.search(told) or values.search(told), told
        assert "\0" not in told
        for name, *words in commands(told):
            command = group.get_command(click.Context(group), name)
            assert command is not None, told
            taken = {option for param in command.params for option in param.opts}
            assert {word for word in words if word.startswith("--")} <= taken, told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'Nothing was changed; debate(op="concede", id="H-1", reason="…") gives H-1 up.',
            "Nothing was changed; `blackboard-mcp concede H-1` gives H-1 up.",
        ),
        (
            'You answer with post(type="REPLY", edges={"replies_to": ["C-4"]}, text="…"); an acknowledgement is none.',
            "You answer with `blackboard-mcp reply C-4 TEXT`; an acknowledgement is none.",
        ),
        (
            'debate(op="decide", id="H-1", outcome="stands|falls|amended", reason="…") decides',
            "`blackboard-mcp decide H-1 {stands|falls|amended} REASON` decides",
        ),
        (
            'its author takes it back with post(id="F-1", status="WITHDRAWN").',
            "its author takes it back with `blackboard-mcp withdraw F-1`.",
        ),
        ("No group. Nothing was changed; consume(group='a', filter={…}) makes it.", "No group. Nothing was changed."),
        ("read() shows it; then subscribe(unsubscribe=\"s\"). Go on.", "`blackboard-mcp show` shows it. Go on."),
        ('waits for ann: request(id="Q-1", cancel=true)', "waits for ann"),
        ('more: query(…, cursor="12")', "more"),
        ("read() shows it, and since=12 goes on.", "`blackboard-mcp show` shows it, and --since 12 goes on."),
        ('board(board="b", settings={"tokenizer": "x"})', "`blackboard-mcp board tokenizer=x --board b`"),
        ('debate(op="watch", id="tag:db") says.', "`blackboard-mcp pin tag:db` says."),
        ('debate(op="decide", id="tag:db") says.', 'debate(op="decide", id="tag:db") says.'),
        ('B-8 L-9 → query_archive(text="B-8 L-9", restore=true)', "B-8 L-9 → `blackboard-mcp unarchive B-8 L-9`"),
        ('the text "post(" is none', 'the text "post(" is none'),
        ('query(text="a b; rm -rf ~")', "`blackboard-mcp query 'a b; rm -rf ~'`"),
        ("two\nlines: wait()", "two\nlines: `blackboard-mcp watch`"),
    ],
)  # fmt: skip
def test_a_call_becomes_the_command_that_does_the_same_or_is_left_out(text: str, told: str) -> None:
    assert for_people(text) == told


@pytest.mark.parametrize("text", [MISSING, WRONG])
def test_who_has_no_token_that_counts_reads_where_a_command_takes_it_from(text: str) -> None:
    told = error_for_people(text)
    assert "put a token into BLACKBOARD_TOKEN, or into a file that --token-file names. Whoever runs" in told
    assert "`blackboard-mcp token create`. Nothing was changed." in told
    assert not re.search("header|BoardClient|connect", told)


@pytest.mark.parametrize(
    ("tool", "sets"),
    [
        ("core", "core,admin"),
        ("request", "core,messages"),
        ("stage", "core,plan"),
        ("plan", "core,plan"),
        ("consume", "all"),
    ],
)
def test_a_tool_that_is_not_served_is_told_with_the_least_that_serves_it(tool: str, sets: str) -> None:
    text = f"The server does not serve the tool '{tool}': unknown tool. Start it with --tools all."
    assert error_for_people(text).endswith(f" Start it with --tools {sets}.")


def test_lines_of_a_view_have_commands_where_they_had_calls_of_the_server() -> None:
    line = 'B-1 by you 9m, decided in D-2 (if that solves B-1: post(id="B-1", status="RESOLVED")): ask read() first'
    assert view_for_people(line) == (
        "B-1 by you 9m, decided in D-2 (if that solves B-1: `blackboard-mcp post --id B-1 --status RESOLVED`): "
        "ask read() first"
    )


def test_a_text_that_goes_on_and_on_is_read_quickly() -> None:
    text = "post(" * 20_000 + "a=" * 20_000
    assert for_people(text) == text
