"""The guard's closure as a pure function, against an oracle that does it the slow way."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.guard import closure, closure_of
from blackboard_mcp.protocols.items import Edge, EdgeKind
from hypothesis import given
from hypothesis import strategies as st

BOTH = {"replies_to", "critiques", "supports", "refutes"}

numbers = st.integers(1, 9)
edges = st.lists(st.builds(Edge, numbers, st.sampled_from(EdgeKind), numbers), max_size=16)
starts = st.dictionaries(numbers, st.sampled_from(["debate on 1", "debate on 2"]), max_size=3)


def ways(edge: Edge) -> set[tuple[int, int]]:
    """From where to where an edge protects, out of the words of DESIGN section 2."""
    if edge.kind.value in BOTH:
        return {(edge.source, edge.target), (edge.target, edge.source)}
    return {(edge.source, edge.target)} if edge.kind.value == "depends_on" else set()


def distances(begin: set[int], listed: list[Edge]) -> dict[int, int]:
    """How many edges each item is from the start, by relaxing all of them until nothing changes."""
    known = dict.fromkeys(begin, 0)
    for _ in range(20):
        for edge in listed:
            for here, there in ways(edge):
                if here in known and known.get(there, 99) > known[here] + 1:
                    known[there] = known[here] + 1
    return known


@given(starts, edges)
def test_the_closure_is_all_that_is_reachable(begin: dict[int, str], listed: list[Edge]) -> None:
    assert closure_of(begin, listed).keys() == distances(set(begin), listed).keys()


@given(starts, edges)
def test_a_chain_leads_from_its_reason_to_the_item_over_the_fewest_edges(
    begin: dict[int, str], listed: list[Edge]
) -> None:
    far = distances(set(begin), listed)
    for number, protection in closure_of(begin, listed).items():
        assert len(protection.chain) == far[number]
        ends = {start for start, reason in begin.items() if reason == protection.reason}
        for edge in protection.chain:
            assert edge in listed
            ends = {there for here, there in ways(edge) if here in ends}
        assert number in ends


@given(starts, edges, st.randoms())
def test_the_closure_does_not_hang_on_the_order_of_edges(
    begin: dict[int, str], listed: list[Edge], random: object
) -> None:
    shuffled = list(listed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert closure_of(begin, listed) == closure_of(begin, shuffled)


@given(starts, edges, st.builds(Edge, numbers, st.sampled_from(EdgeKind), numbers))
def test_another_edge_never_takes_protection_away(
    begin: dict[int, str], listed: list[Edge], another: Edge
) -> None:
    assert closure_of(begin, listed).keys() <= closure_of(begin, [*listed, another]).keys()


def test_the_closure_asks_for_each_item_once() -> None:
    ring = [Edge(n, EdgeKind.SUPPORTS, (n + 1) % 1000) for n in range(1000)]
    walk = closure({0: "debate"})
    asked: list[int] = []
    frontier = next(walk)
    try:
        while True:
            asked += frontier
            frontier = walk.send({e for e in ring if e.source in frontier or e.target in frontier})
    except StopIteration as end:
        reached = end.value
    assert sorted(asked) == sorted(reached) == list(range(1000))
    assert max(len(p.chain) for p in reached.values()) == 500


def test_without_a_start_nothing_is_asked() -> None:
    assert closure_of({}, [Edge(1, EdgeKind.SUPPORTS, 2)]) == {}
    with pytest.raises(StopIteration) as end:
        next(closure({}))
    assert end.value.value == {}
