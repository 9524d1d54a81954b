"""A light import of the SDK: models are built when they are used, and what a server never needs is left out.

The SDK has some 500 models, builds them on import, and imports its client and an HTTP client with them. Together that
is a third of the start of a server over stdio. A client of ours needs a dozen of the models and none of the rest.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

_LATE: Final = ("mcp", "httpx2")
"""Packages that run when a name is first asked of them; their submodules are imported without that."""
_UNRUN: Final = "unrun spec"
_LOCK: Final = threading.RLock()
_T = TypeVar("_T")


def import_sdk(*, http: bool) -> None:
    """Imports the SDK's server, before anything else does; without `http` it can serve stdio only.

    Plugins of pydantic are not looked for, unless the environment says so: every start would read the metadata of
    every package that is installed.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in _LATE:
        if name not in sys.modules:
            _run_later(name)
    with _built_later(), nullcontext() if http else _absent("uvicorn"):
        import mcp.server.mcpserver  # noqa: F401


class _LateModule(ModuleType):
    """A module that is not run before a name is asked of it that an import does not need."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            spec = self.__dict__.pop(_UNRUN, None)
            if spec is not None:
                spec.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        if self.__class__ is ModuleType:
            return getattr(self, name)
        raise AttributeError(f"{self.__name__} has no {name} yet", name=name, obj=self)


def _run_later(name: str) -> None:
    """Puts the package where an import finds it, without running it."""
    if (spec := find_spec(name)) is not None:
        module = module_from_spec(spec)
        module.__dict__[_UNRUN] = spec
        module.__class__ = _LateModule
        sys.modules[name] = module


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Has imports of the package fail meanwhile, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _built_later() -> Iterator[None]:
    """Lets models and adapters that are made meanwhile wait for their first use to be built."""
    import pydantic

    later = pydantic.ConfigDict(defer_build=True)

    class LateAdapter(pydantic.TypeAdapter[_T], Generic[_T]):  # type: ignore[misc]
        def __init__(self, adapted: Any, **given: Any) -> None:
            # A class has a configuration of its own.
            super().__init__(adapted, **({} if isinstance(adapted, type) else {"config": later}) | given)

    kept = pydantic.BaseModel.model_config, pydantic.TypeAdapter
    pydantic.BaseModel.model_config, pydantic.TypeAdapter = later, LateAdapter  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        pydantic.BaseModel.model_config, pydantic.TypeAdapter = kept  # type: ignore[misc]
