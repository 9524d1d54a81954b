"""Dataclasses that are finished at first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from blackboard_mcp.protocols import values


def make(decorator: Any) -> type[Any]:
    @decorator(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="", repr=False, kw_only=True)
        double: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

    return Point


def make_by_place(decorator: Any) -> type[Any]:
    """A class whose fields are all given by place, which has an `__init__` of our own."""

    @decorator(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="", repr=False)
        double: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

    return Point


def told(work: Callable[[type[Any]], object], of: Any, make: Callable[[Any], type[Any]]) -> object:
    """What comes of it, with errors in words."""
    try:
        return work(make(of))
    except Exception as error:
        return type(error), str(error)


FIRST: dict[str, Callable[[type[Any]], object]] = {
    "made": lambda p: dataclasses.astuple(p(1, secret="s")),
    "made wrongly": lambda p: p(),
    "one too many": lambda p: repr(p(1, 2, [], "s", 5)),
    "unknown": lambda p: p(1, z=2),
    "shown": lambda p: repr(p(1, names=["a"], secret="s")),
    "equal": lambda p: (p(1) == p(1, names=["other"]), p(1) == p(2), p(1) == (1, 2), p(1) != p(1)),
    "hashed": lambda p: hash(p(1, secret="s")),
    "in a set": lambda p: len({p(1), p(1), p(2)}),
    "set": lambda p: setattr(p(1), "x", 2),
    "deleted": lambda p: delattr(p(1), "x"),
    "replaced": lambda p: repr(dataclasses.replace(p(1, secret="s"), y=5)),
    "not replaced": lambda p: repr(dataclasses.replace(p(1), double=5)),
    "as a mapping": lambda p: dataclasses.asdict(p(1, names=["a"])),
    "copied": lambda p: copy.copy(p(1)) == p(1) and copy.deepcopy(p(1, names=["a"])).names == ["a"],
    "matched": lambda p: p.__match_args__,
    "fields": lambda p: [(f.name, f.type, f.init, f.compare, f.kw_only) for f in dataclasses.fields(p)],
    "slots": lambda p: (p.__slots__, hasattr(p(1), "__dict__")),
    "documented": lambda p: p.__doc__,
    "never made": lambda p: repr(p.__new__(p)),
    "derived": lambda p: repr(
        dataclasses.dataclass(frozen=True, slots=True)(type("Q", (p,), {"__annotations__": {"z": int}}))(
            1, z=3
        )
    ),
    "derived without a decorator": lambda p: (
        dataclasses.astuple(q := type("Q", (p,), {"z": 3})(1, names=["a"])),
        q.z,
        type(q).__name__,
        setattr(q, "x", 2),
    ),
    "anew": lambda p: (a := p(1).names, a.append("b"), p(1).names, p(2, names=a).names is a),
    "begun again": lambda p: (a := p(1, 3), a.__init__(5), dataclasses.astuple(a), setattr(a, "x", 2)),
    "told of": lambda p: (str(inspect.signature(p(1).__init__)), p.__init__.__annotations__),
    "derived unfrozen": lambda p: dataclasses.dataclass(type("Q", (p,), {})),
}


@pytest.mark.parametrize("make", [make, make_by_place])
@pytest.mark.parametrize("name", FIRST)
def test_whatever_comes_first_the_outcome_is_the_same(name: str, make: Callable[[Any], type[Any]]) -> None:
    assert told(FIRST[name], values.dataclass, make) == told(FIRST[name], dataclasses.dataclass, make)


@values.dataclass(frozen=True, slots=True)
class Kept:
    """Something to pickle."""

    x: int
    y: tuple[str, ...] = ()


def test_what_is_pickled_comes_back() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, ("a",)))) == Kept(1, ("a",))


def test_methods_are_written_once_and_with_the_first_instance() -> None:
    point = make(values.dataclass)
    before = point.__init__
    point(1)
    written = point.__init__
    assert before is not written
    assert written.__code__.co_varnames[:3] == ("self", "x", "y")
    point(2)
    assert point.__init__ is written


def test_what_is_not_frozen_with_slots_or_has_methods_of_its_own_is_the_standard_librarys() -> None:
    @values.dataclass
    class Plain:
        x: int

    @values.dataclass(frozen=True, slots=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "mine"

    @values.dataclass(frozen=True, slots=True)
    class Further(Kept):
        z: int = 0

    plain = Plain(1)
    plain.x = 2
    assert (plain.x, repr(Own(1)), Own(1) == Own(1)) == (2, "mine", True)
    assert repr(Further(1, z=2)).endswith("Further(x=1, y=(), z=2)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Further(1).z = 3  # type: ignore[misc]


@pytest.mark.parametrize("fields", [{}, {"x": 5}, {"y": None, "names": ["n"]}, {"secret": "s", "x": 0}])
def test_a_changed_copy_is_that_of_the_standard_library(fields: dict[str, Any]) -> None:
    made = make_by_place(values.dataclass)(1, names=["a"], secret="b")
    if "x" in fields:
        fields["double"] = 2 * fields["x"]
    copied, expected = values.changed(made, **fields), dataclasses.replace(made, **fields)
    assert copied == expected
    assert (copied.names, copied.secret) == (expected.names, expected.secret)


def test_a_copy_changed_in_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="Kept has no field z"):
        values.changed(Kept(1), x=2, z=3)
