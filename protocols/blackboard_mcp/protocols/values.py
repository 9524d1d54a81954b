"""Frozen dataclasses whose methods are written at first use, and a dict of bounded size.

The standard library writes and compiles six methods for each class, which took a third of our part of a start,
although most starts use few of the classes. Here a class gets its fields, its slots and its protection against
assignment at once, and each other method when it is first called.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(given: type | None = None, /, **options: bool) -> Any:
        """Decorates a class like `dataclasses.dataclass`, but finishes it later if it is `frozen` with `slots`.

        A class that derives from a dataclass, or defines such methods itself, is finished at once.
        """

        def made(cls: type) -> type:
            derived = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
            if options != _VALUE or derived or not cls.__dict__.keys().isdisjoint(_WRITTEN):
                return dataclasses.dataclass(**options)(cls)
            return _later(cls)

        return made if given is None else made(given)


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
_VALUE: Final = {"frozen": True, "slots": True}
_WRITTEN: Final = ("__init__", "__repr__", "__eq__", "__hash__")


def _later(cls: type) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it would be the signature, which takes long
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__dataclass_params__.frozen = True
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    made.__getstate__, made.__setstate__ = _state, _restore
    for name in _WRITTEN:
        setattr(made, name, _first(made, name))
    return made


def _first(made: type, name: str) -> Any:
    """Returns a method that first writes the class's method of that name, and then calls it."""

    def method(self: object, *values: object, **named: object) -> Any:
        quick = name == "__init__" and _is_plain(made)
        written = _initializer(made) if quick else _write(made, name)
        written.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, written)
        return written(self, *values, **named)

    method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
    return method


def _write(made: Any, name: str) -> Any:
    fields = [(field.name, field.type, field) for field in dataclasses.fields(made)]
    more = {"__post_init__": made.__post_init__} if hasattr(made, "__post_init__") else {}
    model = dataclasses.make_dataclass(
        made.__name__,
        fields,
        namespace=more,
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in ("__eq__", "__hash__"),
        frozen=True,
    )
    return getattr(model, name)


def _is_plain(made: Any) -> bool:
    """Tells whether the fields are all there is: each given by place, and none from a base."""
    fields = dataclasses.fields(made)
    alone = made.__bases__ == (object,) and len(fields) == len(made.__dataclass_fields__)
    return alone and all(field.init and not field.kw_only for field in fields)


def _initializer(made: Any) -> Any:
    """Returns an `__init__` that sets fields while the instance is of a class that is not frozen: twice as fast."""
    fields = dataclasses.fields(made)
    names = [field.name for field in fields]
    makers = {field.name: field.default_factory for field in fields if callable(field.default_factory)}
    lines = [
        f"def __init__(self, {', '.join(names)}):",
        *(f" if {name} is UNSET: {name} = MAKERS[{name!r}]()" for name in makers),
        # An instance of a class that derives from this one may have another layout.
        f" if self.__class__ is not MADE: RESTORE(self, [{', '.join(names)}])",
        " else:",
        "  SET(self, '__class__', OPEN)",
        *(f"  self.{name} = {name}" for name in names),
        "  self.__class__ = MADE",
        " self.__post_init__()" if hasattr(made, "__post_init__") else "",
    ]
    known: dict[str, Any] = {
        "MADE": made,
        "OPEN": type(made.__name__, (), {"__slots__": names}),
        "SET": object.__setattr__,
        "RESTORE": _restore,
        "MAKERS": makers,
        "UNSET": _UNSET,
    }
    exec("\n".join(lines), known)
    written = known["__init__"]
    written.__defaults__ = tuple(
        _UNSET if field.name in makers else field.default
        for field in fields
        if field.name in makers or field.default is not dataclasses.MISSING
    )
    written.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return written


class _Unset:
    def __repr__(self) -> str:
        return "<factory>"


_UNSET: Final = _Unset()
"""The default of a field with a factory: the initializer calls the factory in its place."""


@cache
def unfrozen(made: type[T]) -> Callable[..., T]:
    """Returns a class with the same fields and slots, for those who make hundreds of values at a time.

    It sets its fields several times as fast as a frozen class. The maker then assigns `made` to `__class__` of each
    instance, and so freezes it.
    """
    given: Any = made
    fields = [(field.name, field.type, field) for field in dataclasses.fields(given)]
    return dataclasses.make_dataclass(made.__name__, fields, repr=False, eq=False, slots=True)


def changed(value: T, **fields: object) -> T:
    """Returns a copy of a frozen value with these fields, as `dataclasses.replace` does, in a third of the time.

    Its class makes it of its fields alone, by place. There are two at least.

    Raises:
        TypeError: it has no such field.
    """
    made: Any = type(value)
    names, values_of = _fields_of(made)
    if not fields.keys() <= names.keys():
        raise TypeError(f"{made.__name__} has no field {', '.join(fields.keys() - names.keys())}")
    copy: T = made(*map(fields.get, names, values_of(value)))
    return copy


@cache
def _fields_of(made: Any) -> tuple[dict[str, None], Callable[[object], tuple[object, ...]]]:
    """Returns the names of a class's fields in order, and a function that returns their values."""
    names = dict.fromkeys(field.name for field in dataclasses.fields(made))
    return names, attrgetter(*names)


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: Sequence[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class Newest(OrderedDict[K, V]):
    """A dict of the keys that were set last. Setting one more forgets the key that was set longest ago.

    Lookups cost no more than those of a dict.
    """

    def __init__(self, most: int) -> None:
        """Creates an empty dict of at most `most` keys, at least 1."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self._most:
            self.popitem(last=False)
        super().__setitem__(key, value)

    def copy(self) -> Newest[K, V]:
        """Returns a dict of its own with the same keys and as many at most."""
        made: Newest[K, V] = Newest(self._most)
        made.update(self)
        return made

    __copy__ = copy
