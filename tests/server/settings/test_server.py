"""Settings: what wins over what, what is refused and how it is named."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server.access.tables import AccessTable
from blackboard_mcp.server.checks.running import Check
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.settings.oauth import OAuthSettings
from blackboard_mcp.server.settings.server import NAMES, Settings, load


def written(folder: Path, text: str) -> Path:
    path = folder / "blackboard.toml"
    path.write_text(text, "utf-8")
    return path


def test_without_anything_said_the_defaults_are_in_force() -> None:
    settings = load({}, {})
    assert settings == Settings()
    assert (settings.transport, settings.host, settings.port, settings.board) == (
        "stdio",
        "127.0.0.1",
        8420,
        "main",
    )
    assert (settings.target_tokens, settings.tools, settings.structured) == (6_000, ("core",), "ask")
    assert settings.board_config(Policies()) == BoardConfig()


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path: Path) -> None:
    config = written(tmp_path, 'port = 1\nboard = "of-file"\nhost = "10.0.0.1"\ndeciders = ["f"]\n')
    environment = {"BLACKBOARD_PORT": "2", "BLACKBOARD_BOARD": "of-environment", "PATH": "/bin"}
    settings = load({"port": 3, "board": None, "agent": None}, environment, config)
    assert (settings.port, settings.board, settings.host) == (3, "of-environment", "10.0.0.1")
    assert settings.deciders == ("f",)
    assert settings.agent is None


def test_the_environment_names_the_file_unless_the_command_line_does(tmp_path: Path) -> None:
    environment = {"BLACKBOARD_CONFIG": str(written(tmp_path, "port = 1"))}
    other = tmp_path / "other.toml"
    other.write_text("port = 2")
    assert load({}, environment).port == 1
    assert load({}, environment, other).port == 2
    assert load({}, {"BLACKBOARD_CONFIG": ""}).port == 8420


def test_every_setting_is_read_from_each_place(tmp_path: Path) -> None:
    values: dict[str, tuple[str, str, Any]] = {
        "transport": ("http", '"http"', "http"),
        "host": ("::1", '"::1"', "::1"),
        "port": ("0", "0", 0),
        "workers": ("64", "64", 64),
        "data": ("/x/y", '"/x/y"', Path("/x/y")),
        "store": ("m.n:C", '"m.n:C"', "m.n:C"),
        "archive": ("m:C.D", '"m:C.D"', "m:C.D"),
        "index_at": ("s3://b-1/p.q/", '"s3://b-1/p.q/"', "s3://b-1/p.q"),
        "index_every_seconds": ("1", "1", 1),
        "board": ("b.1", '"b.1"', "b.1"),
        "agent": ("me@x", '"me@x"', "me@x"),
        "owner": ("team.a", '"team.a"', "team.a"),
        "tools": ("admin", '["admin"]', ("core", "admin")),
        "tool_prefix": ("bb_", '"bb_"', "bb_"),
        "target_tokens": ("200", "200", 200),
        "structured": ("always", '"always"', "always"),
        "arguments": ("all", '"all"', "all"),
        "tokenizer": ("cl100k_base", '"cl100k_base"', "cl100k_base"),
        "deciders": ("a, b", '["a", "b"]', ("a", "b")),
        "stewards": ("a,,ju\u0308rgen,jürgen", '["a", "ju\u0308rgen"]', ("a", "jürgen")),
        "policy": ("a=m:C,b=n:D", '["a=m:C", "b=n:D"]', ("a=m:C", "b=n:D")),
        "validator": ("a=m:C,b=n:D", '["a=m:C", "b=n:D"]', ("a=m:C", "b=n:D")),
        "access": ("a=m:C", '[{name = "a", class = "m:C"}]', (AccessTable("a", "", path="m:C"),)),
        "protocol": ("m:C,n:D", '["m:C", "n:D"]', ("m:C", "n:D")),
        "strategy": ("a=m:C", '["a=m:C"]', ("a=m:C",)),
        "syntax": ("json,yaml", '["json", "yaml"]', ("json", "yaml")),
        "check": (
            '[{"name": "a", "run": ["true"], "seconds": 9}]',
            '[{name = "a", run = ["true"], seconds = 9}]',
            (Check("a", ("true",), seconds=9),),
        ),
        "secrets": ("refuse", '"refuse"', "refuse"),
        "secret_patterns": ("a{2},b+", '["a{2}", "b+"]', ("a{2}", "b+")),
        "board_settings": ('{"ceiling": 3}', "{ceiling = 3}", {"ceiling": 3}),
        "retention": (
            '{"after_days": {"LOG": 9}, "decided_by": "Ada", "reason": "so"}',
            '{after_days = {LOG = 9}, decided_by = "Ada", reason = "so"}',
            Retention({ItemType.LOG: timedelta(days=9)}, "Ada", "so"),
        ),
        "limits": ('{"headers": 50}', "{headers = 50}", Limits(headers=50)),
        "oauth": (
            '{"issuer": "https://id.example", "resource": "https://b.example/mcp"}',
            '{issuer = "https://id.example", resource = "https://b.example/mcp"}',
            OAuthSettings("https://id.example", "https://b.example/mcp"),
        ),
        "synchronous": ("NORMAL", '"NORMAL"', "NORMAL"),
        "read": (
            '[{"name": "a", "readers": ["bob"], "key": "a:**"}]',
            '[{name = "a", readers = ["bob"], key = "a:**"}]',
            (ReadRule("a", ("bob",), key="a:**"),),
        ),
        "auth": ("token", '"token"', "token"),
        "allow_open_folder": ("true", "true", True),
        "tls_cert": ("/x/c.pem", '"/x/c.pem"', Path("/x/c.pem")),
        "tls_key": ("/x/k.pem", '"/x/k.pem"', Path("/x/k.pem")),
        "behind_proxy": ("10.0.0.5, ::1", '["10.0.0.5", "::1"]', ("10.0.0.5", "::1")),
        "allowed_hosts": ("h:1,h", '["h:1", "h"]', ("h:1", "h")),
        "allowed_origins": ("http://o", '["http://o"]', ("http://o",)),
        "log_level": ("DEBUG", '"DEBUG"', "DEBUG"),
        "embedder": ("none", '"none"', "none"),
        "embedding_url": ("http://h:1/v1", '"http://h:1/v1"', "http://h:1/v1"),
        "embedding_model": ("a b:7", '"a b:7"', "a b:7"),
        "embedding_query_prefix": ("query: ", '"query: "', "query: "),
        "embedding_passage_prefix": ("passage: ", '"passage: "', "passage: "),
        "summariser": ("agent", '"agent"', "agent"),
        "summary_url": ("http://[::1]:1/v1", '"http://[::1]:1/v1"', "http://[::1]:1/v1"),
        "summary_model": ("a b:7", '"a b:7"', "a b:7"),
        "summary_timeout_seconds": ("300", "300", 300),
        "capture": ("model", '"model"', "model"),
    }
    assert set(values) == set(NAMES)
    for name, (text, toml, value) in values.items():
        assert getattr(load({}, {f"BLACKBOARD_{name.upper()}": text}), name) == value
        assert getattr(load({}, {}, written(tmp_path, f"{name} = {toml}")), name) == value
        assert getattr(load({name: text}, {}), name) == value
        one = load({name: text}, {})
        assert pickle.loads(pickle.dumps(one)) == one, "workers get their settings so"


@pytest.mark.parametrize("said", ["all", "core,all", "all,admin"])
def test_all_sets_of_tools_hold_each_once(said: str) -> None:
    assert load({"tools": said}, {}).tools == (
        "core",
        "run",
        "plan",
        "memory",
        "workspace",
        "messages",
        "admin",
    )


def test_sets_of_tools_hold_the_core_and_each_once() -> None:
    assert load({"tools": "admin,core,admin"}, {}).tools == ("core", "admin")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("transport", "tcp", "allowed: stdio, http"),
        ("transport", "", "allowed: stdio, http"),
        ("structured", "yes", "ask, always"),
        ("arguments", "some", "common, all"),
        ("synchronous", "OFF", "FULL, NORMAL"),
        ("log_level", "debug", "DEBUG, INFO"),
        ("port", "x", "whole number"),
        ("port", "", "whole number"),
        ("port", 8420.5, "whole number"),
        ("port", True, "whole number"),
        ("port", -1, "from 0 to 65,535"),
        ("port", "65536", "from 0 to 65,535"),
        ("workers", 0, "from 1 to 64"),
        ("workers", "65", "from 1 to 64"),
        ("workers", "many", "whole number"),
        ("target_tokens", 199, "from 200 to 10,000,000"),
        ("tools", "core,plans", "'plans'"),
        ("tools", ["all", "x"], "'x'"),
        ("tools", 5, "list of texts"),
        ("deciders", ["a", 5], "list of texts"),
        ("deciders", "a b", "'a b' is not an agent's name"),
        ("stewards", ["system"], "Nobody is called 'system'. List agents by name"),
        ("deciders", "ana,Everyone", "Nobody is called 'Everyone'. List agents by name"),
        ("board_settings", "ceiling", "is not JSON"),
        ("board_settings", "[3]", "an object of settings"),
        ("board_settings", 5, "an object of settings"),
        ("agent", "not a name", "'not a name' is not an agent's name"),
        ("agent", "system", "not an agent's name"),
        ("agent", "a" * 65, "not an agent's name"),
        ("agent", "", "empty"),
        ("agent", 5, "must be a text"),
        ("board", "no board", "'no board' is not a board id"),
        ("board", "", "empty"),
        ("data", "", "empty"),
        ("data", 5, "must be a text"),
        ("tool_prefix", "böse ", "A-Z a-z 0-9 _ -"),
        ("tool_prefix", "x" * 33, "32"),
        ("allowed_hosts", ["a.example", "http://b.example"], "'http://b.example', which nobody can send"),
        ("allowed_hosts", "board.example.com/mcp", "HOST or HOST:PORT"),
        ("allowed_hosts", "*", "HOST or HOST:PORT"),
        ("allowed_origins", "app.example.com", "SCHEME://HOST or SCHEME://HOST:PORT"),
        (
            "allowed_origins",
            ["https://app.example.com/"],
            "'https://app.example.com/', which nobody can send",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_where_it_stands(
    tmp_path: Path, name: str, value: Any, words: str
) -> None:
    if value is not None:
        with pytest.raises(InvalidInput) as caught:
            load({name: value}, {})
        assert words in caught.value.message
        assert "--" + name.replace("_", "-") in caught.value.message
    if isinstance(value, str) and value:
        with pytest.raises(InvalidInput) as caught:
            load({}, {f"BLACKBOARD_{name.upper()}": value})
        assert words in caught.value.message
        assert f"BLACKBOARD_{name.upper()}" in caught.value.message
    if value is not None:
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        config = written(tmp_path, f"{name} = {shown}")
        with pytest.raises(InvalidInput) as caught:
            load({}, {}, config)
        assert words in caught.value.message
        assert f"{name} in {config}" in caught.value.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target_tokens": 900}, "target_tokens is a setting of its own"),
        ({"tokenizer": "cl100k_base"}, "tokenizer is a setting of its own"),
        ({"colour": "red"}, "Unknown setting 'colour'"),
        ({"low_water": 0.9}, "low_water (0.9) must be below high_water (0.8)"),
        ({"policy": "mru"}, "there are: token-importance, lru, lfu, size, fair-share"),
    ],
)
def test_wrong_settings_for_new_boards_are_refused_at_launch(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load({"board_settings": given}, {}).board_config(Policies())
    assert words in caught.value.message
    assert caught.value.message.startswith("board_settings: ")


def test_new_boards_begin_with_the_settings_said_at_launch() -> None:
    settings = load({"board_settings": {"policy": "lru", "steps": ["importance", "logs"]}}, {})
    assert settings.board_config(Policies()) == BoardConfig(policy="lru", steps=("logs", "importance"))


def test_an_empty_variable_is_one_that_was_left_out() -> None:
    assert load({}, {f"BLACKBOARD_{name.upper()}": "" for name in NAMES}) == Settings()


@pytest.mark.parametrize(
    "name", ["BLACKBOARD_PROT", "BLACKBOARD_port", "BLACKBOARD_", "BLACKBOARD_TARGET-TOKENS"]
)
def test_an_unknown_variable_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InvalidInput, match=name) as caught:
        load({}, {name: "1"})
    assert "BLACKBOARD_TARGET_TOKENS" in caught.value.message


def test_variables_that_are_no_settings_are_left_alone() -> None:
    assert load({}, {"BLACKBOARD_TOKEN": "secret", "BLACKBOARDX": "1"}) == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "Unknown setting 'prot'"),
        ("[server]\nport = 1", "Unknown setting 'server'"),
        ("port = ", "is not TOML"),
        ("port 1", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    config = written(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        load({}, {}, config)
    assert words in caught.value.message
    assert str(config) in caught.value.message


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidInput, match="Cannot read the configuration"):
            load({}, {}, path)
    path = tmp_path / "latin.toml"
    path.write_bytes(b'agent = "\xe9"')
    with pytest.raises(InvalidInput, match="is not TOML"):
        load({}, {}, path)


def test_everything_of_one_installation_lives_in_its_folder() -> None:
    settings = load({"data": "/somewhere"}, {})
    assert {settings.database.parent, settings.index.parent} == {settings.folder} == {Path("/somewhere")}
    assert load({"data": "~/boards"}, {}).folder == Path.home() / "boards"
    assert load({}, {}).folder.name == "blackboard-mcp"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('[{"run": ["true"]}]', "needs a name"),
        ('[{"name": "a"}]', "run must be a list of 1 to 100 texts"),
        ('[{"name": "a", "run": "true"}]', "run must be a list"),
        ('[{"name": "a", "run": [""]}]', "must begin with a program"),
        ('[{"name": "a", "run": ["a\\u0000b"]}]', "run must be a list"),
        (
            '[{"name": "a", "run": ["true"], "shell": true}]',
            "unknown key 'shell'; there are: name, run, files",
        ),
        (
            '[{"name": "a", "run": ["true"], "seconds": 0}]',
            "seconds is 0; it must be a whole number from 1 to 3,600",
        ),
        ('[{"name": "a", "run": ["true"], "seconds": true}]', "must be a whole number"),
        ('[{"name": "a", "run": ["true"], "files": "file:a"}]', "is no glob of files"),
        ('[{"name": "a", "run": ["true"], "boards": ["a b"]}]', "boards"),
        ('[{"name": "syntax", "run": ["true"]}]', "there is a check 'syntax' already"),
        ('[{"name": "a", "run": ["true"]}, {"name": "a", "run": ["true"]}]', "there is a check 'a' already"),
        (
            "[" + ",".join(f'{{"name": "a{n}", "run": ["true"]}}' for n in range(21)) + "]",
            "at most 20 tables",
        ),
        ("a=b", "must be a table"),
    ],
)
def test_checks_are_read_key_by_key(given: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="BLACKBOARD_CHECK") as caught:
        load({}, {"BLACKBOARD_CHECK": given})
    assert why in caught.value.message
