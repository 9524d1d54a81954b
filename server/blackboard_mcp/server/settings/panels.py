"""The panels of a board as its settings give them: a list of names and tables, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.panels import (
    EPISODIC,
    MAX_ABOUT,
    MAX_PANELS,
    MAX_WRITERS,
    PANEL_NAME,
    SEMANTIC,
    WORKING,
    Panel,
    panels_json,
    panels_of,
)
from blackboard_mcp.protocols.read_rules import EVERYBODY

from ..access.reading import principals_in

_NOTHING: Final = "Nothing was changed."
_KEYS: Final = ("name", "about", "writers")
_ABOUT: Final = {
    SEMANTIC: "what this board holds to be true",
    EPISODIC: "what came to an end here, written by the server",
}


def check_panels(given: Any) -> str:
    """Returns panels as a board stores them, from a list of names and of tables with `name`, `about` and `writers`.

    Raises:
        InvalidInput: a panel is wrong; the message says which, what is allowed, and that nothing was changed.
    """
    if not isinstance(given, list | tuple) or len(given) > MAX_PANELS:
        raise InvalidInput(f"panels is a list of at most {MAX_PANELS} panels; [] ends them. {_NOTHING}")
    found: dict[str, Panel] = {}
    for place, one in enumerate(given, 1):
        panel = _panel({"name": one} if isinstance(one, str) else one, f"panels, entry {place}")
        if panel.name in found:
            raise InvalidInput(f"panels names '{panel.name}' twice. {_NOTHING}")
        found[panel.name] = panel
    return panels_json(found.values())


def shown_panels(stored: str) -> list[dict[str, Any]]:
    """Returns stored panels as a list that `check_panels` takes."""
    return [
        {"name": panel.name, "about": panel.about}
        | ({} if panel.name == EPISODIC else {"writers": list(panel.writers)})
        for panel in panels_of(stored).values()
    ]


def _panel(given: Any, where: str) -> Panel:
    name = given.get("name") if isinstance(given, Mapping) else None
    if not isinstance(name, str) or not PANEL_NAME.match(name) or name == WORKING:
        raise InvalidInput(
            f"{where}: a panel is a name, or an object with name and, if you like, about and writers. A name is a "
            f"letter a-z, then up to 31 of a-z 0-9 and -; {WORKING} is there without being named. {_NOTHING}"
        )
    where = f"{where} ('{name}')"
    if unknown := [str(key)[:40] for key in given if key not in _KEYS]:
        raise InvalidInput(f"{where}: unknown key '{unknown[0]}'; there are {', '.join(_KEYS)}. {_NOTHING}")
    about = given.get("about", _ABOUT.get(name, ""))
    if not isinstance(about, str) or len(about) > MAX_ABOUT or not about.isprintable():
        raise InvalidInput(f"{where}: about is one line of at most {MAX_ABOUT} characters. {_NOTHING}")
    if name == EPISODIC and "writers" in given:
        raise InvalidInput(f"{where}: the server alone writes {EPISODIC}; leave writers out. {_NOTHING}")
    writers = given.get("writers", [] if name in _ABOUT else [EVERYBODY])
    if isinstance(writers, list) and len(writers) > MAX_WRITERS:
        raise InvalidInput(f"{where}: at most {MAX_WRITERS} writers. {_NOTHING}")
    try:
        return Panel(name, about, principals_in(writers, f"{where}, writers"))
    except InvalidInput as error:
        raise InvalidInput(f"{error.message} {_NOTHING}") from None
