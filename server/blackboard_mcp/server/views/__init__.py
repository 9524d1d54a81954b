"""The view: a board for one agent, inside a budget of tokens.

`rendering` puts it together and makes it fit; `law` is what stands there word for word or the call fails; `news`,
`sections` and `lines` say what else there is to say and in which words; `standing` knows what of a board still stands;
`passages` choose how much of a text is shown; `room` shares out the tokens.
"""

from .rendering import DEFAULT_BUDGET, View, render_view

__all__ = ["DEFAULT_BUDGET", "View", "render_view"]
