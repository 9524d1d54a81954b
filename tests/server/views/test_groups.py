"""Kept groups of reports: the same views as with none kept, whatever the next snapshot holds and whoever reads it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from blackboard_mcp.protocols.items import Edge, EdgeKind, Item, ItemType
from blackboard_mcp.server.views import groups
from viewing import snapshot, view

Make = Callable[..., Item]
READERS = ("alice", "bob", "carol")


class Stale(AssertionError):
    """A view with kept groups that differs from one without."""


@pytest.fixture(autouse=True)
def none_kept() -> None:
    groups.forget()


def walk(make_item: Make, steps: int) -> None:
    """Compares the views of snapshots of much the same items, which get new versions and others that rest on them."""
    dice = random.Random(7)

    def made(number: int) -> Item:
        return make_item(
            number,
            dice.choice(("pump {} leaks", "valve {} is shut", "it {} all ends at the sea")).format(
                dice.randrange(90)
            ),
            dice.choice((ItemType.FACT, ItemType.FACT, ItemType.RESULT, ItemType.HYPOTHESIS)),
            author=dice.choice(READERS),
            importance=dice.choice((3, 3, 3, 5)),
            supporters=dice.choice(((), (), ("eve",))),
        )

    items = {number: made(number) for number in range(1, 60)}
    resting = [
        make_item(n, "so it is", ItemType.LOG, edges=(Edge(n, EdgeKind.SUPPORTS, dice.randrange(1, 60)),))
        for n in range(60, 70)
    ]
    for step in range(steps):
        match step % 3:
            case 0:
                number = dice.randrange(1, 60)
                items[number] = made(number)
            case 1:
                dice.shuffle(resting)
        listed = [item for item in items.values() if step % 7 or dice.random() < 0.9]
        look = dice.choice((0, 0, 30, 58))
        there = snapshot(*listed, *resting[: dice.randrange(4)], look=look)
        agent, budget = dice.choice(READERS), dice.choice((500, 1_500))
        got = view(there, budget, agent)
        kept = dict(groups._kept)
        groups.forget()
        fresh = view(there, budget, agent)
        groups._kept.update(kept)
        if got != fresh:
            raise Stale(f"step {step}: {got}\n{fresh}")


def test_views_with_kept_groups_are_those_without(make_item: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    kept = groups.LRUCache.get
    monkeypatch.setattr(
        groups.LRUCache, "get", lambda cache, key: found.append(key in cache) or kept(cache, key)
    )
    walk(make_item, 300)
    assert sum(found) > 100  # the walk has power


@pytest.mark.parametrize(
    "key",
    [
        lambda standing, items: (tuple(item.number for item in items), *standing.marks(items)),
        lambda standing, items: (tuple(map(id, items)), standing.marks(items)[0], ()),
        lambda standing, items: (tuple(map(id, items)), (), standing.marks(items)[1]),
    ],
    ids=["by number", "whatever rests on them", "whatever is unread"],
)
def test_the_walk_sees_groups_that_are_kept_by_less_than_they_depend_on(
    make_item: Make, monkeypatch: pytest.MonkeyPatch, key: Callable[..., object]
) -> None:
    monkeypatch.setattr(groups, "_key", key)
    with pytest.raises(Stale):
        walk(make_item, 300)


def test_kept_groups_take_bounded_room(make_item: Make) -> None:
    items = [make_item(n, f"pump {n} leaks") for n in range(1, 301)]
    for first in range(100):
        view(snapshot(*items[first:]))
        assert 0 < groups._kept.currsize <= groups.KEPT
    assert groups._kept.currsize > groups.KEPT - 300
    groups.forget()
    view(snapshot(*items, make_item(301, "word " * 500)))
    assert groups._kept.currsize == 0
