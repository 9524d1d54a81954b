"""Loading of the operator's own classes by import path: `package.module:Class`.

Loading runs code by name: pass only what the operator configured at launch, never an argument of a tool.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
NAMED = re.compile(r"(?P<name>[a-z][a-z0-9-]{0,31})=(?P<path>[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)\Z")
"""A name and a class: `NAME=package.module:Class`."""


def load(path: str, before: str = "", **facts: Any) -> Any:
    """Returns the object at `module:attribute`. Error messages begin with `before`; errors carry `facts`.

    Raises:
        InvalidInput: the module cannot be imported, or has no such attribute.
    """
    module, _, attributes = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"{before}importing '{module}' failed: {type(error).__name__}: {error}.", **facts
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise InvalidInput(f"{before}'{module}' has no '{attributes}'.", **facts)
        found = getattr(found, attribute)
    return found


def make(found: Any, before: str, **facts: Any) -> Any:
    """Calls a class or function without arguments, and returns the result.

    Error messages begin with `before`; errors carry `facts`.

    Raises:
        InvalidInput: the call raised.
    """
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"{before}could not be made without arguments: {type(error).__name__}: {error}.", **facts
        ) from error


def load_instance(kind: str, name: str, path: str, methods: tuple[str, ...]) -> Any:
    """Returns an instance of the class at a path, after checking that it has at least one of the methods.

    `kind` and `name` describe it in error messages, as in "Validator 'size'".

    Raises:
        InvalidInput: it cannot be imported or made, or has none of the methods.
    """
    found = load(path, f"{kind} '{name}': ")
    if not callable(found):
        raise InvalidInput(f"{kind} '{name}': '{path}' is no class.")
    instance = make(found, f"{kind} '{name}' ")
    if not any(callable(getattr(instance, method, None)) for method in methods):
        raise InvalidInput(
            f"{kind} '{name}' needs a method {' or '.join(methods)}; see the how-to on {kind.lower()}s."
        )
    return instance
