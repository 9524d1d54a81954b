"""The communication protocols: keys there and back, bodies, states, and what a registry takes."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.keys import MAX_KEY, Glob, check_key
from blackboard_mcp.protocols.messages.base import (
    ID,
    MAX_BODY,
    Body,
    KeyShape,
    MessageProtocol,
    Part,
    States,
    Words,
)
from blackboard_mcp.protocols.messages.consistency_check import (
    ConsistencyCheck,
    Contradiction,
    Findings,
    Statement,
    StatementSet,
)
from blackboard_mcp.protocols.messages.critique_exchange import CritiqueExchange, Objection
from blackboard_mcp.protocols.messages.game_state import Game, GameState, GameStatus
from blackboard_mcp.protocols.messages.goal_alignment import Alignment, Goal, GoalAlignment
from blackboard_mcp.protocols.messages.grounding import Acceptance, Grounding, Meaning
from blackboard_mcp.protocols.messages.lifecycle import Lifecycle, Phase, Signal
from blackboard_mcp.protocols.messages.plan_publication import Plan, PlanPublication, Step, StepState
from blackboard_mcp.protocols.messages.registry import BUILT_IN, Registry
from blackboard_mcp.protocols.messages.request_result import Request, RequestResult
from blackboard_mcp.protocols.messages.work_assignment import Claim, WorkAssignment
from blackboard_mcp.protocols.messages.working_set import Focus, WorkingSet
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ConfigDict

EVERY = [(protocol, shape) for protocol in BUILT_IN for shape in protocol.shapes]
segments = st.text(st.sampled_from("abzAZ09_-./@#éк値"), min_size=1, max_size=12).filter(
    lambda s: not s.startswith("/")
)
numbers = st.integers(0, 999_999_999)
REGISTRY = Registry()


def parts_of(shape: KeyShape, draw: Any) -> dict[str, str | int]:
    return {part.name: draw(numbers if part.kind == "number" else segments) for part in shape.parts}


# Keys


@given(data=st.data(), which=st.sampled_from(EVERY), scope=segments)
def test_every_key_reads_back_as_what_it_was_built_from(data: Any, which: Any, scope: str) -> None:
    protocol, shape = which
    parts = parts_of(shape, data.draw)
    try:
        key = protocol(scope).key(shape.kind, **parts)
    except InvalidInput as error:
        assume("ends like a version" not in error.message)  # noise@2: the grammar of keys has no such key
        raise
    assert check_key(key) == key
    found = protocol(scope).parse(key)
    assert found is not None
    assert (found.scope, found.kind, dict(found.parts)) == (scope, shape.kind, parts)
    assert REGISTRY.parse(key) == found
    assert [p for p in BUILT_IN if p(scope).parse(key) is not None] == [protocol]
    assert protocol(scope + "x").parse(key) is None


@given(data=st.data(), which=st.sampled_from(EVERY), scope=segments)
def test_a_pattern_matches_the_keys_of_its_kind_and_no_others(data: Any, which: Any, scope: str) -> None:
    protocol, shape = which
    parts = parts_of(shape, data.draw)
    try:
        key = protocol(scope).key(shape.kind, **parts)
    except InvalidInput:
        assume(False)
    talk = protocol(scope)
    some = dict(list(parts.items())[:1])
    for pattern in (talk.pattern(), talk.pattern(shape.kind), talk.pattern(shape.kind, **some)):
        assert Glob(pattern).matches(key), pattern
    for other, kind in EVERY:
        if kind.kind != shape.kind:
            assert not Glob(other(scope).pattern(kind.kind)).matches(key)
    assert not Glob(protocol(scope + "x").pattern()).matches(key)


@given(st.text(max_size=40))
def test_no_hostile_text_reads_as_a_key_that_could_not_have_been_built(text: str) -> None:
    found = REGISTRY.parse(text)
    if found is not None:
        assert found.protocol(found.scope).key(found.kind, **found.parts) == text


@pytest.mark.parametrize(
    "key",
    [
        "",
        ":",
        "::",
        "research",
        "research:request",
        "research:request:",
        ":request:r1",
        "research:request:r1:more",
        "research:request:*",
        "research:*:r1",
        "research:part:r1:01",
        "research:part:r1:-1",
        "research:part:r1:٣",
        "research:part:r1:1e3",
        "research:part:r1:9999999999",
        "research:request:r 1",
        "research:request:/etc",
        "research:request:r1@2",
        "board://main:request:r1",
        "/research:request:r1",
        "research:request:" + "x" * MAX_KEY,
        "research:request:r1\n",
        "research:Request:r1",
        "research:nothing:r1",
        "request:r1",
    ],
)
def test_what_is_no_key_of_a_protocol_does_not_parse(key: str) -> None:
    assert REGISTRY.parse(key) is None
    for protocol in BUILT_IN:
        assert protocol.read_key(key) is None


@pytest.mark.parametrize(
    ("scope", "named"),
    [
        ("", "empty"),
        (":research", "begins or ends with ':'"),
        ("research:", "begins or ends with ':'"),
        ("*", "wildcard"),
        ("re**search", "wildcard"),
        ("board://main", "absolute"),
        ("/research", "absolute"),
        ("team:research", "whole key"),
        ("re search", "letters, digits"),
        ("x" * 65, "65 characters"),
    ],
)
def test_the_mistake_in_a_scope_or_a_part_is_named(scope: str, named: str) -> None:
    with pytest.raises(InvalidInput, match="scope") as caught:
        RequestResult(scope)
    assert named in caught.value.message
    assert "Nothing was changed" in caught.value.message
    with pytest.raises(InvalidInput, match="id") as caught:
        RequestResult("research").request_key(scope)
    assert named in caught.value.message


def test_parts_of_the_wrong_kind_or_name_are_refused() -> None:
    talk = RequestResult("research")
    for wrong in (-1, 1_000_000_000, True, "1", 1.0):
        with pytest.raises(InvalidInput, match="number is a whole number"):
            talk.part_key("r1", wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="takes id, not"):
        talk.key("request", name="r1")
    with pytest.raises(InvalidInput, match="has no 'nothing'; there are: request, part"):
        talk.key("nothing", id="r1")
    with pytest.raises(InvalidInput, match="no part agent"):
        talk.pattern("request", agent="bob")
    with pytest.raises(InvalidInput, match="ends like a version"):
        talk.request_key("r@2")


def test_the_keys_that_the_how_to_shows() -> None:
    assert RequestResult(scope="research").request_key("r1") == "research:request:r1"
    assert RequestResult("research").part_key("r1", 2) == "research:part:r1:2"
    assert RequestResult("research").result_key("r1") == "research:result:r1"
    assert RequestResult("research").error_key("r1") == "research:error:r1"
    assert RequestResult("research").cancel_key("r1") == "research:cancel:r1"
    assert WorkAssignment("crew").task_key("t1") == "crew:task:t1"
    assert WorkAssignment("crew").claim_key("t1", 2) == "crew:claim:t1:2"
    assert WorkAssignment("crew").progress_key("t1") == "crew:progress:t1:1"
    assert WorkAssignment("crew").done_key("t1") == "crew:done:t1:1"
    assert WorkAssignment("crew").failed_key("t1") == "crew:failed:t1:1"
    assert WorkAssignment("crew").reassign_key("t1", 1) == "crew:reassign:t1:1"
    assert Lifecycle("crew").signal_key("bob") == "crew:signal:bob"
    assert Lifecycle("crew").heartbeat_key("bob") == "crew:heartbeat:bob"
    assert GameState("go").game_key("g1") == "go:game:g1"
    assert GameState("go").move_key("g1", 3) == "go:move:g1:3"
    talk = CritiqueExchange("paper")
    assert [talk.thesis_key("a"), talk.verdict_key("a")] == ["paper:thesis:a", "paper:verdict:a"]
    assert [k("a", 1) for k in (talk.objection_key, talk.rebuttal_key, talk.concession_key)] == [
        "paper:objection:a:1",
        "paper:rebuttal:a:1",
        "paper:concession:a:1",
    ]
    check = ConsistencyCheck("spec")
    assert [check.statements_key("s"), check.check_key("s", 1), check.findings_key("s", 1)] == [
        "spec:statements:s",
        "spec:check:s:1",
        "spec:findings:s:1",
    ]
    words = Grounding("words")
    assert [words.term_key("done"), words.acceptance_key("done", "bob"), words.repair_key("done", 1)] == [
        "words:term:done",
        "words:acceptance:done:bob",
        "words:repair:done:1",
    ]
    goals = GoalAlignment("q3")
    assert [goals.goal_key("g"), goals.interpretation_key("g", "bob"), goals.alignment_key("g")] == [
        "q3:goal:g",
        "q3:interpretation:g:bob",
        "q3:alignment:g",
    ]
    assert WorkingSet("crew").focus_key("bob") == "crew:focus:bob"
    assert PlanPublication("crew").plan_key("p") == "crew:plan:p"
    assert PlanPublication("crew").step_key("p", "build") == "crew:step:p:build"
    assert RequestResult("research").pattern("part", id="r1") == "research:part:r1:*"
    assert RequestResult("research").pattern() == "research:**"


# Bodies


def test_a_message_reads_back_from_its_text() -> None:
    plan = Plan(
        goal="ship", revision=2, steps=(Step(name="a", text="x"), Step(name="b", text="y", after=("a",)))
    )
    address, read = PlanPublication("crew").decode("crew:plan:p", plan.to_text())
    assert read == plan
    assert address.kind == "plan"
    asked = Request(text="why?", skill="sql", facts={"rows": [1, {"deep": None}]})
    assert Request.from_text(asked.to_text()) == asked


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_body_refuses_what_it_does_not_know(protocol: type[MessageProtocol]) -> None:
    for shape in protocol.shapes:
        for text in ("", "null", "[]", "{", '{"unknown": 1}', '"text"', "[" * 5_000, '{"a":' * 5_000):
            with pytest.raises(InvalidInput, match=f"Not a {shape.body.__name__}"):
                shape.body.from_text(text)
        with pytest.raises(InvalidInput, match="at most"):
            shape.body.from_text(" " * (MAX_BODY + 1))


@pytest.mark.parametrize(
    ("body", "text", "named"),
    [
        (Request, '{"text": "why?"}', "exactly one of to and skill"),
        (Request, '{"text": " ", "to": "bob"}', "text"),
        (Request, '{"text": 5, "to": "bob"}', "text"),
        (Request, '{"text": "why?", "to": "b b"}', "to"),
        (Request, '{"text": "why?", "to": "bob", "facts": ' + '{"a":' * 9 + "1" + "}" * 9 + "}", "8 levels"),
        (Request, '{"text": "why?", "to": "bob", "facts": {"a": NaN}}', "facts"),
        (Signal, '{"phase": "ASLEEP"}', "phase"),
        (Claim, '{"holder": "bob", "lease_seconds": 0}', "lease_seconds"),
        (Objection, '{"text": "no", "severity": 6}', "severity"),
        (Plan, '{"goal": "x", "revision": 1, "steps": []}', "steps"),
        (Game, '{"status": "RUNNING", "turn": -1, "players": ["a"]}', "turn"),
    ],
)
def test_the_first_mistake_of_a_text_is_named(body: type[Body], text: str, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        body.from_text(text)
    assert named in caught.value.message
    assert "Its fields: " in caught.value.message


def test_a_message_that_is_too_long_has_no_text() -> None:
    huge = StatementSet(statements=tuple(Statement(name=f"s{n}", text="x" * 1_000) for n in range(150)))
    with pytest.raises(InvalidInput, match="100,000 are allowed"):
        huge.to_text()


def test_a_plan_has_steps_in_an_order_and_no_cycle() -> None:
    def plan(**after: tuple[str, ...]) -> Plan:
        return Plan(
            goal="g", revision=1, steps=tuple(Step(name=n, text="t", after=a) for n, a in after.items())
        )

    built = plan(c=("a", "b"), a=(), b=("a",))
    assert built.order() == ("a", "b", "c")
    assert built.ready({}) == ("a",)
    assert built.ready({"a": StepState.DONE}) == ("b",)
    assert built.ready({"a": StepState.DONE, "b": StepState.FAILED}) == ()
    for wrong, named in (
        ({"a": ("b",), "b": ("a",)}, "cycle"),
        ({"a": ("a",)}, "cycle"),
        ({"a": ("z",)}, "no step"),
    ):
        with pytest.raises(ValueError, match=named):
            plan(**wrong)
    with pytest.raises(ValueError, match="twice"):
        Plan(goal="g", revision=1, steps=(Step(name="a", text="t"),) * 2)


def test_a_game_says_whose_move_it_is() -> None:
    game = Game(status=GameStatus.RUNNING, turn=0, players=("ann", "ben"))
    assert game.to_move == "ann"
    after = game.after("ann", {"board": "x"})
    assert (after.turn, after.to_move, after.state) == (1, "ben", {"board": "x"})
    with pytest.raises(Conflict, match="it is ben's move"):
        after.after("ann", {})
    over = Game(status=GameStatus.OVER, turn=1, players=("ann", "ben"), winners=("ann",))
    with pytest.raises(Conflict, match="does not run"):
        over.after("ben", {})
    with pytest.raises(ValueError, match="winners are players"):
        Game(status=GameStatus.OVER, turn=1, players=("ann",), winners=("zoe",))


def test_findings_and_alignments_say_the_same_twice_over() -> None:
    pair = Contradiction(first="a", second="b", why="opposites")
    assert not Findings(version=1, consistent=False, contradictions=(pair,)).consistent
    with pytest.raises(ValueError, match="consistent exactly when"):
        Findings(version=1, consistent=True, contradictions=(pair,))
    with pytest.raises(ValueError, match="not itself"):
        Contradiction(first="a", second="a", why="x")
    with pytest.raises(ValueError, match="agreed exactly when"):
        Alignment(version=1, agreed=False)


def test_a_term_is_grounded_when_every_party_accepted_its_present_version() -> None:
    meaning = Meaning(meaning="merged and deployed", parties=("ann", "ben"))
    said = {"ann": Acceptance(version=2), "ben": Acceptance(version=1)}
    assert not Grounding.grounded(meaning, 2, said)
    assert Grounding.grounded(meaning, 2, {**said, "ben": Acceptance(version=2)})
    assert not Grounding.grounded(meaning, 2, {"ann": Acceptance(version=2)})


def test_working_sets_clash_where_one_of_two_wants_a_thing_alone() -> None:
    mine = Focus(doing="edit", paths=("src/a.py",), items=("F-3",))
    others = {
        "ben": Focus(doing="edit", paths=("src/a.py",), exclusive=True),
        "cyd": Focus(doing="read", items=("F-3",)),
    }
    assert WorkingSet.clashes(mine, others) == {"ben": ("src/a.py",)}


# States


@pytest.mark.parametrize("protocol", [p for p in BUILT_IN if p.states is not None])
def test_I29_states_move_only_along_declared_transitions(protocol: type[MessageProtocol]) -> None:
    states = protocol.states
    assert states is not None
    for new in (*states.moves, "NOWHERE"):
        for old in (None, *states.moves):
            allowed = states.first if old is None else states.moves[old]
            if new in allowed:
                states.check(old, new)
                continue
            with pytest.raises(Conflict, match="Nothing was changed"):
                states.check(old, new)
    reached = set(states.first)
    while more := {s for old in reached for s in states.moves[old]} - reached:
        reached |= more
    assert reached == set(states.moves), "a state that nothing leads to"
    assert Phase.STOPPED in Lifecycle.states.moves  # type: ignore[union-attr]


# The registry


class Vote(Body):
    """One voice."""

    text: Words


class Voting(MessageProtocol):
    """Count voices."""

    name: ClassVar[str] = "voting"
    shapes: ClassVar[tuple[KeyShape, ...]] = (KeyShape("vote", (ID, Part("agent")), Vote, "each agent once"),)


def variant(**changed: Any) -> type[MessageProtocol]:
    return type("Odd", (Voting,), {"__doc__": "Odd.", **changed})


def test_a_protocol_of_ones_own_stands_beside_the_ten() -> None:
    registry = Registry([Voting])
    assert registry.names == (*(p.name for p in BUILT_IN), "voting")
    assert len(BUILT_IN) == 10
    found = registry.parse("crew:vote:v1:bob")
    assert found is not None
    assert (found.protocol, dict(found.parts)) == (Voting, {"id": "v1", "agent": "bob"})
    assert REGISTRY.parse("crew:vote:v1:bob") is None
    assert Voting("crew").pattern("vote", id="v1") == "crew:vote:v1:*"
    assert registry.get("voting") is Voting
    with pytest.raises(InvalidInput, match="no protocol 'other'"):
        registry.get("other")


class Loose(Body):
    """Takes anything."""

    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (dict, "no subclass"),
        (3, "no subclass"),
        (variant(name="Bad Name"), "name must be"),
        (variant(name=5), "name must be"),
        (variant(version=0), "version"),
        (variant(version=True), "version"),
        (variant(__doc__=""), "docstring"),
        (variant(shapes=()), "shapes must be"),
        (variant(shapes=[1]), "shapes must be"),
        (variant(shapes=("x",)), "a kind is"),
        (variant(shapes=(KeyShape("a:b", (ID,), Vote, "w"),)), "a kind is"),
        (variant(shapes=(KeyShape("ballot", (), Vote, "w"),)), "parts are"),
        (variant(shapes=(KeyShape("ballot", (ID, ID), Vote, "w"),)), "parts are"),
        (variant(shapes=(KeyShape("ballot", (Part("a b"),), Vote, "w"),)), "a part is"),
        (variant(shapes=(KeyShape("ballot", (ID,), dict, "w"),)), "subclass of Body"),  # type: ignore[arg-type]
        (variant(shapes=(KeyShape("ballot", (ID,), Loose, "w"),)), "extra='forbid'"),
        (variant(shapes=(KeyShape("ballot", (ID,), Vote, " "),)), "writer says"),
        (variant(shapes=(KeyShape("ballot", (ID,), Vote, "w"),) * 2), "twice"),
        (variant(name="request-result", shapes=(KeyShape("x", (ID,), Vote, "w"),)), "already"),
        (variant(name="odd"), "collide with 'vote' of voting"),
        (variant(name="odd", shapes=(KeyShape("task", (ID,), Vote, "w"),)), "collide with 'task'"),
        (variant(states={"A": "B"}), "must be States"),
        (variant(states=States(frozenset({"A"}), {"A": frozenset({"B"})})), "every state stands in moves"),
        (variant(states=States(frozenset(), {})), "no first state"),
    ],
)
def test_what_a_registry_does_not_take_says_why_and_changes_nothing(own: Any, named: str) -> None:
    registry = Registry([Voting])
    before = registry.names
    with pytest.raises(InvalidInput) as caught:
        registry.register(own)
    assert named in caught.value.message
    assert registry.names == before


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_protocol_says_what_it_is_for_and_who_writes_what(protocol: type[MessageProtocol]) -> None:
    assert protocol.purpose().endswith(".")
    assert protocol.version >= 1
    for shape in protocol.shapes:
        assert shape.outline().startswith("{scope}:" + shape.kind)
        assert shape.body.__doc__
    assert Goal.__doc__
