"""The view: a board for one agent, inside a budget of tokens.

`rendering` composes it and makes it fit. `law` has the part that is never shortened: where it does not fit,
the call fails. `news`, `sections` and `lines` choose and word the other parts. `standing` tells which items
still stand, `passages` choose how much of a text is shown, and `room` shares out the tokens.
"""

from .rendering import DEFAULT_BUDGET, View, render_view

__all__ = ["DEFAULT_BUDGET", "View", "render_view"]
