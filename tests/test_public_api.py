"""What others build on, and must not change unnoticed: arguments, facts, modules, light starts."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import blackboard_mcp.protocols
import blackboard_mcp.server
import blackboard_mcp.storage
import pytest
from blackboard_mcp.protocols import wire
from blackboard_mcp.server import board
from blackboard_mcp.server.input import queries
from blackboard_mcp.server.tools import core
from blackboard_mcp.server.tools.core import CoreTools
from blackboard_mcp.server.tools.debate import DebateTool

ARGUMENTS = {
    "post": "text type importance tags edges key expected_version id visibility ttl_seconds metadata "
    "idempotency_key items",
    "read": "ids keys budget since",
    "query": "text type key tags author status thread zone limit cursor",
    "query_archive": "text type tags author after before limit restore",
    "subscribe": "filter name unsubscribe",
    "wait": "subscription since seconds limit",
    "debate": "op id",
}
DEFAULTS = {
    ("query_archive", "restore"): False,
}
# Left out of the schemas, where every client would pay for them.
UNPUBLISHED_DEFAULTS = {
    (queries, "HITS"): 10,
    (queries, "QUERY_PAGE"): 20,
    (core, "EVENTS_PAGE"): 50,
    (core, "WAIT_SECONDS"): 25,
}
FACTS = {
    "WireItem": "id number key version type status zone importance author text tags edges metadata tokens "
    "created_at updated_at sha256 thread debate",
    "ItemsAnswer": "items cursor seq",
    "WireEvent": "seq event item key version agent tags at",
    "PostAnswer": "items seq",
    "Failure": "error",
}
PARTS = (blackboard_mcp.protocols, blackboard_mcp.storage, blackboard_mcp.server)


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_the_core_tools_keep_their_arguments_and_take_a_board(tool: str) -> None:
    tools = DebateTool if tool == "debate" else CoreTools
    parameters = inspect.signature(getattr(tools, tool)).parameters
    assert set(ARGUMENTS[tool].split()) <= set(parameters)
    assert parameters["board"].default is None


@pytest.mark.parametrize(("tool", "argument"), DEFAULTS)
def test_the_core_tools_keep_their_defaults(tool: str, argument: str) -> None:
    default = inspect.signature(getattr(CoreTools, tool)).parameters[argument].default
    assert default == DEFAULTS[tool, argument]


@pytest.mark.parametrize(("module", "name"), UNPUBLISHED_DEFAULTS)
def test_the_defaults_that_no_schema_tells_stay_the_same(module: ModuleType, name: str) -> None:
    assert getattr(module, name) == UNPUBLISHED_DEFAULTS[module, name]


@pytest.mark.parametrize("model", FACTS)
def test_structured_results_keep_their_fields(model: str) -> None:
    assert set(FACTS[model].split()) <= set(getattr(wire, model).model_fields)


def modules() -> list[str]:
    """Every module but those that are programs."""
    found = []
    for part in PARTS:
        for module in pkgutil.walk_packages(part.__path__, part.__name__ + "."):
            if not module.name.endswith("__main__"):
                found.append(module.name)
    return sorted(found)


@pytest.mark.parametrize("name", modules())
def test_every_module_imports_and_says_what_it_knows(name: str) -> None:
    module = importlib.import_module(name)
    empty = module.__file__ is None or Path(module.__file__).stat().st_size == 0
    assert empty or module.__doc__, f"{name} has no docstring"


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `code`."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*{{m.split('.')[0] for m in sys.modules}})"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    heavy = {"mcp", "lancedb", "pyarrow", "numpy", "starlette", "uvicorn", "pydantic"}
    assert not loaded_by("import blackboard_mcp.server.cli") & heavy


def test_the_relay_starts_without_the_heavy_libraries() -> None:
    heavy = {"mcp", "lancedb", "pyarrow", "numpy", "starlette", "uvicorn", "pydantic", "aiosqlite"}
    assert not loaded_by("import blackboard_mcp.server.relay.stdio") & heavy


def test_a_server_is_ready_without_the_archive_libraries() -> None:
    heavy = {"lancedb", "pyarrow", "numpy"}
    assert not loaded_by("import blackboard_mcp.server.compose, blackboard_mcp.server.mcp.server") & heavy


def test_boards_for_programs_are_imported_without_the_heavy_libraries() -> None:
    heavy = {"mcp", "lancedb", "pyarrow", "numpy", "starlette", "uvicorn", "httpx2", "aiosqlite"}
    assert not loaded_by("from blackboard_mcp.server.board import Board, BoardClient") & heavy


def test_a_board_in_process_needs_no_mcp() -> None:
    code = (
        "import asyncio\nfrom blackboard_mcp.server.board import Board\nasync def main():\n"
        "    async with Board.open(agent='a') as board:\n        await board.post('x')\nasyncio.run(main())"
    )
    assert not loaded_by(code) & {"mcp", "lancedb", "pyarrow", "numpy", "starlette", "uvicorn"}


ACCESS = {
    "post": "text type importance tags edges key expected_version id status visibility ttl_seconds metadata "
    "idempotency_key",
    "post_all": "posts idempotency_key",
    "clear": "pattern expected idempotency_key",
    "delete": "key id expected_version idempotency_key",
    "read": "ids keys",
    "get": "key",
    "find": "key",
    "item": "id",
    "versions": "key id",
    "query": "text type key tags any_tags no_tags author status thread zone after before page",
    "query_archive": "text type tags author thread after before limit any_tags no_tags neighbours restore",
    "view": "budget",
    "explain": "ids keys",
    "changes": "since",
    "agents": "",
    "panels": "",
    "statistics": "",
    "boards": "",
    "transaction": "",
    "transact": "work attempts",
    "open_debate": "id watchers idempotency_key",
    "acknowledge": "id reason idempotency_key",
    "vote": "id approve reason idempotency_key",
    "withdraw": "id reason idempotency_key",
    "concede": "id reason to idempotency_key",
    "decide": "id reason outcome to idempotency_key",
    "confirm": "id outcome idempotency_key",
    "debate": "id",
    "watch": "id idempotency_key",
    "unwatch": "id idempotency_key",
    "watch_topic": "topic idempotency_key",
    "unwatch_topic": "topic idempotency_key",
    "subscribe": "filter name idempotency_key",
    "unsubscribe": "id_or_name idempotency_key",
    "subscriptions": "",
    "wait": "subscription since seconds limit",
    "events": "filter since name page",
    "queue": "filter maxsize since name",
    "on": "filter callback since name on_error page",
    "worker": "group filter lease_seconds limit",
    "groups": "",
    "dead_letters": "group after",
    "retry_dead": "group handles",
    "drop_dead": "group handles",
    "end_group": "group",
    "ask": "to text deadline_seconds wait idempotency_key",
    "answer_to": "id",
    "cancel_request": "id reason idempotency_key",
    "requests": "",
    "next_request": "skills seconds",
    "take_request": "id idempotency_key",
    "respond": "id text lease partial idempotency_key",
    "decline": "id reason lease idempotency_key",
    "core": "",
    "set_core": "expected_version objective constraints flags idempotency_key",
    "join": "role skills interests protocols idempotency_key",
    "leave": "note idempotency_key",
    "participants": "",
    "plan": "items cancel why idempotency_key",
    "agenda": "",
    "task": "id",
    "stages": "",
    "define_stages": "stages idempotency_key",
    "move_stage": "id op why idempotency_key",
    "start_run": "problem agents strategy fallback max_rounds budget coordinator decider coordinate decide sealed "
    "idle_seconds idempotency_key",
    "turn": "text decision offer lease usage run seconds idempotency_key",
    "finalize": "text cites run idempotency_key",
    "constraint": "text strength scope id confirm retire message check idempotency_key",
    "get_context": "query budget path",
    "artifact_write": "path content append replace delete expected lease message idempotency_key",
    "artifact_read": "path start end revision",
    "artifact_list": "path depth outline after",
    "artifact_search": "text path",
    "artifact_history": "path revision diff",
    "restore_artifact": "path revision idempotency_key",
    "report_result": "check ok subject text cites idempotency_key",
    "claim": "id skills paths seconds lease_seconds idempotency_key",
    "settle": "op id text lease ok cites paths lease_seconds idempotency_key",
    "info": "",
    "change": "title parent lifecycle settings idempotency_key",
    "prune": "tag thread author dry_run",
    "hand_over": "lines",
    "handler": "key type event agent tags when",
    "handling": "group workers lease_seconds seconds",
    "handlers": "group workers lease_seconds seconds",
    "models": "model key pattern type",
}
BESIDE = {
    board.Board: {
        "open": "name agent data settings clock",
        "as_agent": "agent name",
        "within": "opened agent name",
        "aclose": "",
    },
    board.BoardClient: {
        "connect": "url agent name headers mode tool_prefix patience",
        "stdio": "command agent name env mode tool_prefix patience",
        "aclose": "",
    },
}


@pytest.mark.parametrize("kind", BESIDE)
def test_programs_find_the_same_calls_on_every_board(kind: type[board.BoardAccess]) -> None:
    for name, wanted in {**ACCESS, **BESIDE[kind]}.items():
        given = [p for p in inspect.signature(getattr(kind, name)).parameters if p != "self"]
        assert set(wanted.split()) <= set(given), name
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    assert public == ACCESS.keys() | BESIDE[kind].keys()


def test_what_programs_import_is_named() -> None:
    assert set(board.__all__) >= {
        *("Board", "BoardAccess", "BoardClient", "EventQueue", "EventStream", "Hook", "Post", "Query"),
        *("Transaction", "Worker"),
    }
