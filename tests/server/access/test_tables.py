"""Access policies in the configuration: what is off is named by file, table and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.policy import Deny, Verdict
from blackboard_mcp.server.access.built_in import OwnerPrefixes
from blackboard_mcp.server.access.registry import AccessPolicies
from blackboard_mcp.server.access.tables import access_tables
from blackboard_mcp.server.settings.server import load

SECTIONS = {"name": "sections", "policy": "owner-prefixes", "patterns": ["section:{owner}:**"]}


def config(folder: Path, text: str) -> Path:
    file = folder / "blackboard.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("policy = 'roles'", "table 1 needs a name: a letter a-z"),
        ("name = 'Bad Name'\npolicy = 'allow-all'", "table 1 needs a name: a letter a-z"),
        (
            "name = 'a'",
            "table 1 ('a') needs policy (one of allow-all, roles, owner-prefixes, deny-rest) or class",
        ),
        ("name = 'a'\npolicy = 'roles'\nclass = 'm:C'", "table 1 ('a') needs policy"),
        ("name = 'a'\npolicy = 'none'", "table 1 ('a'), policy: 'none' is none of allow-all"),
        ("name = 'a'\npolicy = 3", "table 1 ('a'), policy: 3 is none of"),
        (
            "name = 'a'\nclass = 'no path'",
            "table 1 ('a'), class: 'no path' is not of the form package.module:Class",
        ),
        (
            "name = 'a'\nclass = 'm:C'\npatterns = []",
            "table 1 ('a') has an unknown key 'patterns'; there are: name",
        ),
        ("name = 'a'\npolicy = 'allow-all'\nrules = []", "table 1 ('a') has an unknown key 'rules'"),
        (
            "name = 'a'\npolicy = 'allow-all'\nboards = 'main'",
            "table 1 ('a'), boards must be a list of boards",
        ),
        (
            "name = 'a'\npolicy = 'allow-all'\nboards = ['a b']",
            "table 1 ('a'), boards: 'a b' is not a board id",
        ),
        ("name = 'a'\npolicy = 'roles'", "table 1 ('a'), rules must be a list of 1 to 100 tables"),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{}]",
            "table 1 ('a'), rules[0] needs roles, a list of observer",
        ),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{ roles = ['admin'] }, { roles = ['king'] }]",
            "table 1 ('a'), rules[1], roles: 'king' is none of observer, summariser",
        ),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{ roles = ['admin'], kinds = [] }]",
            "table 1 ('a'), rules[0] has an unknown key 'kinds'; there are: roles, boards, key, types, what",
        ),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{ roles = ['admin'], what = ['read'] }]",
            "table 1 ('a'), rules[0], what: 'read' is none of post, version",
        ),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{ roles = ['admin'], types = ['fact'] }]",
            "table 1 ('a'), rules[0], types: 'fact' is none of FACT",
        ),
        (
            "name = 'a'\npolicy = 'roles'\nrules = [{ roles = ['admin'], key = 'a b' }]",
            "table 1 ('a'), rules[0], key: 'a b' is not a key pattern",
        ),
        (
            "name = 'a'\npolicy = 'owner-prefixes'\npatterns = ['own:**']",
            "table 1 ('a'), patterns: 'own:**' has neither {owner} nor {agent} in it",
        ),
        (
            "name = 'a'\npolicy = 'owner-prefixes'\nowners = { ann = 'x:**' }",
            "table 1 ('a'), owners.ann must be a list",
        ),
        (
            "name = 'a'\npolicy = 'owner-prefixes'\nfree = ['a b']",
            "table 1 ('a'), free: 'a b' is not a key pattern",
        ),
        ("name = 'deny-rest'\npolicy = 'deny-rest'", "there is an access policy 'deny-rest' already"),
        (
            "name = 'a'\npolicy = 'allow-all'\n[[access]]\nname = 'a'\npolicy = 'allow-all'",
            "table 2 ('a'), name: there is an access policy 'a' already",
        ),
    ],
)
def test_f56_a_mistake_in_a_file_is_named_by_file_table_and_key(tmp_path: Path, table: str, why: str) -> None:
    file = config(tmp_path, f"[[access]]\n{table}\n")
    with pytest.raises(InvalidInput) as told:
        load({}, {}, file)
    assert told.value.message.startswith(f"access in {file}, table ")
    assert why in told.value.message


@pytest.mark.parametrize(
    ("class_", "why"),
    [
        ("none_such_module:A", "importing 'none_such_module' failed"),
        ("json:none_such", "'json' has no 'none_such'"),
        ("json:dumps", "could not be made without arguments"),
        ("collections:OrderedDict", "needs a method decide"),
    ],
)
def test_a_class_that_cannot_be_had_ends_the_launch(tmp_path: Path, class_: str, why: str) -> None:
    file = config(tmp_path, f"[[access]]\nname = 'mine'\nclass = '{class_}'\n")
    settings = load({}, {}, file)
    with pytest.raises(InvalidInput) as told:
        AccessPolicies(settings.access)
    assert told.value.message.startswith(f"access in {file}, table 1 ('mine'), class: ")
    assert why in told.value.message


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("quiet", "'quiet' is not of the form NAME=package.module:Class"),
        ("[", "is not JSON"),
        ('["quiet"]', "'quiet' is not of the form"),
        ("[3]", "must be a table with name and policy"),
        ('[{"name": "a", "policy": "roles"}]', "rules must be a list"),
    ],
)
def test_a_mistake_in_the_environment_is_named_too(given: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="BLACKBOARD_ACCESS") as told:
        load({}, {"BLACKBOARD_ACCESS": given})
    assert why in told.value.message


def test_the_environment_and_the_command_line_take_names_and_tables() -> None:
    settings = load({}, {"BLACKBOARD_ACCESS": '[{"name": "all", "policy": "allow-all", "boards": ["main"]}]'})
    assert [(table.name, table.boards) for table in settings.access] == [("all", {"main"})]
    settings = load({"access": "a=m:A, b=m.n:B.C"}, {"BLACKBOARD_ACCESS": "c=m:C"})
    assert [(table.name, table.path) for table in settings.access] == [("a", "m:A"), ("b", "m.n:B.C")]


@pytest.mark.parametrize("setting", ["policy", "validator"])
def test_f56_eviction_and_validation_classes_are_tables_as_well(tmp_path: Path, setting: str) -> None:
    file = config(
        tmp_path, f"[[{setting}]]\nname = 'mine'\nclass = 'm:C'\n[[{setting}]]\nname = 'b'\nclass = 'm:D'\n"
    )
    assert getattr(load({}, {}, file), setting) == ("mine=m:C", "b=m:D")
    for wrong, why in (
        ("name = 'mine'", "table 1, class: None is not of the form"),
        ("class = 'm:C'", "table 1 needs a name"),
        (
            "name = 'mine'\nclass = 'm:C'\nboards = []",
            "table 1 has an unknown key 'boards'; there are: name, class",
        ),
    ):
        file = config(tmp_path, f"[[{setting}]]\n{wrong}\n")
        with pytest.raises(InvalidInput) as told:
            load({}, {}, file)
        assert told.value.message.startswith(f"{setting} in {file}, ")
        assert why in told.value.message


def test_a_board_setting_at_launch_names_policies_that_there_are(tmp_path: Path) -> None:
    file = config(tmp_path, "[board_settings]\naccess = ['sections']\n")
    settings = load({}, {}, file)
    from blackboard_mcp.server.pruning.policies import Policies

    with pytest.raises(InvalidInput, match="Unknown access policy 'sections'"):
        settings.board_config(Policies(), (), AccessPolicies())
    known = AccessPolicies(access_tables([SECTIONS], "access"))
    assert settings.board_config(Policies(), (), known).access == ("sections",)


def says(policy: OwnerPrefixes, owner: str, key: str, agent: str | None = None, kind: str = "version") -> Any:
    change = Change("main", ChangeKind(kind), key=key)
    said = policy.decide(Principal(agent or owner, owner, {"*": Role.CONTRIBUTOR}), change)
    return "deny" if isinstance(said, Deny) else said


def test_prefixes_by_owner_by_agent_and_by_table() -> None:
    own = OwnerPrefixes(("{owner}:**", "desk:{agent}:**"), {"ann": ("design:**",)}, ("shared:**",))
    allow, none = Verdict.ALLOW, Verdict.NO_OPINION
    assert [says(own, owner, "ann:a:b") for owner in ("ann", "an", "annn", "bob")] == [
        allow,
        "deny",
        "deny",
        "deny",
    ]
    assert says(own, "ann", "desk:ann-2:x", agent="ann-2") is allow
    assert says(own, "ann", "desk:ann-2:x", agent="ann-3") == "deny"
    assert says(own, "ann", "design:x", agent="ann-3") is allow
    assert says(own, "bob", "design:x") == "deny"
    assert says(own, "bob", "shared:x") is none
    assert says(own, "bob", "alone") is none
    for kind in ("edge", "vote", "acknowledge", "restore"):
        assert says(own, "bob", "ann:x", kind=kind) is none
    assert says(OwnerPrefixes(("own-{owner}:**",)), "ann", "own-ann:x") is allow
    assert says(OwnerPrefixes(("own-{owner}:**",)), "ann", "own-ann-2:x") == "deny"


@pytest.mark.parametrize("owner", ["*", "**", "a*", "a:b", "", "ann\n", "x" * 65, "{agent}"])
def test_a_name_that_is_no_segment_of_a_key_owns_none(owner: str) -> None:
    own = OwnerPrefixes()
    for key in ("ann:x", "a:b:x", "a:b", "x:y"):
        assert says(own, owner, key) == "deny"
