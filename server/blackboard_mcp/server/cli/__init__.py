"""The command line. A command's module is imported when the command is called, so that each starts fast."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.importing import uncollected
from blackboard_mcp.protocols.visible import escape

_COMMANDS = {
    "serve": ("serve", "Serve boards to MCP clients over stdio or HTTP."),
    "connect": ("connect", "Join a running server from a client that only starts local processes."),
    "install": ("install", "Connect an MCP client: an entry in its configuration file."),
    "uninstall": ("install", "Take that entry out again."),
    "token": ("token", "Make, list and revoke access tokens."),
    "demo": ("demo", "Watch four agents solve an incident, or replay a recorded session."),
    "show": ("inspect", "Show a board as one agent sees it."),
    "explain": ("inspect", "Say why items stay, what would take them, or why they left."),
    "query": ("inspect", "List items of a board."),
    "archive": ("inspect", "Search what was pruned from a board."),
    "watch": ("watch", "Follow a board's events."),
    "post": ("speaking", "Post to a board, or change what you posted."),
    "reply": ("speaking", "Reply to an item, or answer a question."),
    "critique": ("speaking", "Object to an item, which opens a debate."),
    "acknowledge": ("speaking", "Agree that a debate is settled."),
    "decide": ("speaking", "Decide a debate: the item stands, falls or is amended."),
    "debate": ("speaking", "Say how a debate stands."),
    "vote": ("speaking", "Vote in a debate."),
    "confirm": ("speaking", "Confirm what a critic decided."),
    "concede": ("speaking", "Give up an item of yours."),
    "withdraw": ("speaking", "Take back what you posted."),
    "ask": ("speaking", "Ask an agent, who owes an answer."),
    "pin": ("speaking", "Keep an item on the board, or be asked in debates on a topic."),
    "unarchive": ("speaking", "Bring an archived item back to the board."),
    "plan": ("planning", "Show a board's plan, plan what a file holds, or write such a file."),
    "core": ("steering", "Print or change a board's objective, constraints and flags."),
    "board": ("steering", "Print or change a board's settings."),
    "boards": ("steering", "List the boards."),
    "agents": ("steering", "List the agents of a board."),
    "work": ("work", "Start a command-line agent whenever something on a board waits for it."),
    "hook": ("hook", "Answer a hook of Claude Code or Gemini CLI from a board."),
    "intake": ("intake", "Hand over what happened in an agent's client."),
    "policies": ("policies", "Say which policies are in force on a board."),
    "members": ("members", "List the roles that a board gives agents, or change them."),
    "prune": ("maintain", "Run a pruning pass, or say what it would move."),
    "forget": ("maintain", "Forget what the settings say is to be forgotten, or say what that is."),
    "reclassify": ("maintain", "Bring what stands under the present read rules, or say what that is."),
    "export": ("history", "Write a board's whole history to a file."),
    "import": ("history", "Make a new board from the file of a history."),
    "verify": ("history", "Say whether a board is what its history says."),
    "check": ("check", "Run a check of the settings on a board's files, or print its last output."),
    "workspace": ("workspace", "Bring the Git repository of a board's files up to date."),
    "backup": ("backups", "Write all boards to one file while servers go on."),
    "restore": ("backups", "Put a backup in the place of a data folder's boards."),
    "migrate": ("migrate", "Bring the boards' schema to this version, or print the SQL that does."),
    "kit": ("kit", "Check a board store or an archive index of your own."),
    "doctor": ("doctor", "Say what is wrong with an installation, and how to cure it."),
    "rebuild-index": ("maintain", "Drop the archive's search index and build it anew."),
    "compact": ("maintain", "Write the boards' file anew without its gaps."),
}


_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Escapes control characters in click's errors, which repeat the command line and could steer the terminal."""
    try:
        yield
    except click.ClickException as error:
        setattr(error, "message", escape(error.message))  # noqa: B010, click calls it final
        raise


class _Lazy(click.Group):
    """A group that imports a command when it is called. The list of commands needs no import."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _plain_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Calls the command; Ctrl-C ends it with exit code 130, where click would say 1."""
        with _plain_errors():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise SystemExit(130) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with uncollected():
            module = import_module(f"blackboard_mcp.server.cli.{_COMMANDS[cmd_name][0]}")
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(module, name + "_" if iskeyword(name) else name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `blackboard-mcp demo`, then `blackboard-mcp serve --transport http`.",
)
@click.version_option(package_name="blackboard-mcp", prog_name="blackboard-mcp")
def cli() -> None:
    """A shared blackboard for AI agents, served over MCP."""


def _occupy_closed_streams() -> None:
    """Opens the null device for standard streams that are closed, else the next file or socket gets their numbers.

    libuv ends the process when it closes such a socket.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)


def main() -> None:
    """Runs a command. A `BlackboardError` is printed on one line of standard error, with exit code 1."""
    _occupy_closed_streams()
    os.umask(0o077)  # files in a data folder are for their owner only, also those that libraries make
    try:
        cli.main(standalone_mode=True)
    except BlackboardError as error:
        from .advice import error_for_people

        said = escape(error_for_people(error.message), keep="\n")  # a server may have sent the message
        click.echo(f"blackboard-mcp: {said}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        if sys.stderr is not None:
            sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        click.echo(f"blackboard-mcp: cannot write the output: {error.strerror}", err=True)
        sys.stdout = None  # the interpreter must not try to flush it again at exit
        sys.exit(1)
    finally:
        try:
            if sys.stderr is not None:  # whoever started us may have closed it
                sys.stderr.flush()
        except (OSError, ValueError):  # a log on a full disk is no failure of the command
            sys.stderr = None  # the interpreter must not try to flush it again at exit
