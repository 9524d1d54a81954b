"""Filters of events prepared for speed, for followers that test each event of a log.

`EventFilter.matches` defines the meaning of a filter; a matcher gives the same answers several times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .events import Event
from .filters import ME, EventFilter
from .keys import compile_glob
from .visibility import Viewer

Matcher = Callable[[Event], bool]


def matcher(condition: EventFilter, viewer: Viewer) -> Matcher:
    """Returns a function that tells whether the viewer may see an event and the filter matches it."""
    tests = _tests(condition, viewer.agent)
    if not tests:
        return lambda event: event.visible_to(viewer)
    asked = _every(tests)
    return lambda event: asked(event) and event.visible_to(viewer)


def _tests(condition: EventFilter, subscriber: str) -> list[Matcher]:
    """Returns a test for each part of the filter, the cheapest first."""
    tests: list[Matcher] = []
    if condition.events:
        events = frozenset(condition.events)
        tests.append(lambda event: event.event in events)
    if condition.types:
        types = frozenset(condition.types)
        tests.append(lambda event: event.type in types)
    if condition.agents:
        agents = frozenset((*condition.agents, subscriber) if ME in condition.agents else condition.agents)
        tests.append(lambda event: event.agent in agents)
    if condition.thread is not None:
        thread = condition.thread
        tests.append(lambda event: event.thread == thread)
    if condition.mentions:
        tests.append(lambda event: subscriber in event.concerns)
    if len(condition.tags) == 1:
        tag = condition.tags[0]
        tests.append(lambda event: tag in event.tags)
    elif condition.tags:
        tags = frozenset(condition.tags)
        tests.append(lambda event: tags.issubset(event.tags))
    if condition.key is not None:
        tests.append(_key(condition.key))
    tests += [_part(part, subscriber) for part in condition.all]
    if condition.any:
        tests.append(_some([_part(part, subscriber) for part in condition.any]))
    if condition.none:
        unwanted = _some([_part(part, subscriber) for part in condition.none])
        tests.append(lambda event: not unwanted(event))
    return tests


def _part(condition: EventFilter, subscriber: str) -> Matcher:
    return _every(_tests(condition, subscriber))


def _key(text: str) -> Matcher:
    if "*" not in text:
        return lambda event: event.key == text
    prefix = text.split("*", 1)[0]
    glob = compile_glob(text)
    return lambda event: event.key is not None and event.key.startswith(prefix) and glob.matches(event.key)


def _every(tests: Sequence[Matcher]) -> Matcher:
    if len(tests) == 1:
        return tests[0]

    def every(event: Event) -> bool:
        for test in tests:  # noqa: SIM110 - a generator costs more than the tests
            if not test(event):
                return False
        return True

    return every


def _some(tests: Sequence[Matcher]) -> Matcher:
    if len(tests) == 1:
        return tests[0]

    def some(event: Event) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(event):
                return True
        return False

    return some
