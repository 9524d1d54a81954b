"""Panels: named groups of items on a board, each with writers of its own.

The panel of an item is its first tag: `panel:` with the panel's name. What has no such tag is in the panel `working`,
which every board has and everybody writes. The other panels are a setting of the board.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

from .read_rules import EVERYBODY
from .values import dataclass

PANEL = "panel:"
"""Beginning of the tag that puts an item into a panel; the name of the panel follows."""
WORKING = "working"
SEMANTIC = "semantic"
"""The panel of what the board holds to be true; only stewards write it, unless the board names writers."""
EPISODIC = "episodic"
"""The panel of what came to an end; the server alone writes it."""
PANEL_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
MAX_PANELS = 16
MAX_WRITERS = 100
MAX_ABOUT = 120


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel as a board defines it.

    Attributes:
        about: what it is for, one line of at most 120 characters.
        writers: principals as in read rules: agents' names, `team:OWNER`, `role:ROLE`, `*` for everybody. Stewards
            write too, except in `episodic`.
    """

    name: str
    about: str = ""
    writers: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """The tag of its items."""
        return PANEL + self.name


@dataclass(frozen=True, slots=True)
class PanelState:
    """A panel as one agent sees it.

    Attributes:
        items: its items in working memory that the agent may see.
        version: the sequence of the last event about one of its items that the agent may see; 0 before the first.
    """

    panel: Panel
    items: int
    version: int


def writers_of(panel: Panel) -> str:
    """Returns who writes a panel besides the server, in words: `everybody`, or `stewards, team:sre`."""
    return "everybody" if EVERYBODY in panel.writers else ", ".join(("stewards", *panel.writers))


def panel_of(tags: Iterable[str]) -> str:
    """Returns the name of the panel that these tags of an item put it in; empty for `working`."""
    first = next(iter(tags), "")
    return first.removeprefix(PANEL) if first.startswith(PANEL) else ""


def panels_json(panels: Iterable[Panel]) -> str:
    """Returns panels as a board's settings store them; empty for none."""
    listed = [{"name": one.name, "about": one.about, "writers": list(one.writers)} for one in panels]
    return json.dumps(listed, ensure_ascii=False) if listed else ""


@lru_cache(maxsize=64)
def panels_of(stored: str) -> dict[str, Panel]:
    """Returns the panels that `panels_json` wrote, by name and in their order."""
    return {
        each["name"]: Panel(each["name"], each["about"], tuple(each["writers"]))
        for each in (json.loads(stored) if stored else ())
    }
