"""Hostile arguments for any tool: a corpus in raw JSON, and a seeded generator from the published schemas.

Everything here is JSON text, not values, so that it includes what a typed client refuses to build or send:
half a surrogate pair, NaN, repeated keys.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

CORPORA = Path(__file__).parents[1] / "acceptance" / "corpora"
"""The folder with a file for each subject: its description, what every answer must fulfil, and its cases."""


def corpus_of(subject: str) -> tuple[str, ...]:
    """Returns the cases of a subject: plain texts, or raw JSON where its file has `raw`.

    Long cases are stored as repetitions, and expanded here.
    """
    told = json.loads((CORPORA / f"{subject}.json").read_text("utf-8"))
    cases = told.get("words") or told["raw"]
    return tuple(
        case
        if isinstance(case, str)
        else case.get("begin", "") + case["of"] * case["times"] + case.get("end", "")
        for case in cases
    )


SQL = corpus_of("sql")
FTS = corpus_of("fts")
ARCHIVE = corpus_of("archive")
GLOBS = corpus_of("globs")
KEYS = corpus_of("keys")
REGEXES = corpus_of("regexes")
PATHS = corpus_of("paths")
URIS = corpus_of("uris")
MARKUP = corpus_of("markup")
GIT = corpus_of("git")
FORMATS = corpus_of("formats")
CONTROLS = corpus_of("unicode")
ODD = corpus_of("odd")
REFS = corpus_of("refs")
NAMES = corpus_of("names")
TIMES = corpus_of("times")
WORDS = (
    *SQL,
    *FTS,
    *ARCHIVE,
    *GLOBS,
    *KEYS,
    *REGEXES,
    *PATHS,
    *URIS,
    *MARKUP,
    *GIT,
    *FORMATS,
    *CONTROLS,
    *ODD,
    *REFS,
    *NAMES,
    *TIMES,
)

BROKEN_WORDS = corpus_of("strings")
NUMBERS = corpus_of("numbers")
SHAPES = corpus_of("shapes")
NESTED = tuple(
    opening * depth + inner + closing * depth
    for depth in (10, 33, 1_000, 100_000)
    for opening, inner, closing in (("[", "", "]"), ('{"a":', "1", "}"))
)
HUGE = (
    "[" + "0," * 899_999 + "0]",
    '["' + 'a","' * 300_000 + '"]',
    '{"' + "k" * 1_000_000 + '": 1}',
    "{" + ",".join(f'"k{n}":0' for n in range(100_000)) + "}",
    '{"' + '":0,"'.join("a" for _ in range(300_000)) + '":0}',
    "[" + "{}," * 900_000 + "{}]",
    "[" + "[]," * 30_000 + "[]]",
    '"' + "\\u00e4" * 600_000 + '"',
    "9" * 1_000_000,
)
"""The most expensive values for a server. `Calls.alone` tries them once for each tool, `Calls.dear` each argument."""

GOOD: dict[str, tuple[Any, ...]] = {
    "type": (
        "FACT",
        "HYPOTHESIS",
        "CRITIQUE",
        "DECISION",
        "CONSTRAINT",
        "HOT_ISSUE",
        "QUESTION",
        "ANSWER",
        "LOG",
    ),
    "status": ("ACTIVE", "RESOLVED", "DELETED", "WITHDRAWN", "INVALIDATED", "DEBATED"),
    "visibility": ("board", "private", "team"),
    "zone": ("working", "archive", "all"),
    "op": ("take", "extend", "dead", "retry", "drop", "set", "end"),
    "id": ("1", "2", "3", "F-1", "4", "5", "6", "$1", "7"),
    "ids": (["1"], ["1@1", "2"], ["1@*"], ["3", "4"], ["1.1"]),
    "ack": (["1.1"], ["2.1"], ["3.1"]),
    "fail": ({"1.1": "why"}, {"2.1": "why"}),
    "thread": ("1", "2", "3"),
    "key": ("a", "plan:a", "plan:b:c", "t:x"),
    "keys": (["a"], ["plan:a@1", "plan:b:c@*"]),
    "expected_version": (0, 1, 2, 3),
    "edges": (
        {"replies_to": ["1"]},
        {"critiques": ["2"]},
        {"depends_on": ["1", "3"]},
        {"supersedes": ["$1"]},
    ),
    "tags": (["a"], ["a", "b"]),
    "metadata": ({"a": 1}, {"a": {"b": [1, "c"]}}),
    "idempotency_key": ("k1", "k2"),
    "ttl_seconds": (0.5, 1, 3_600),
    "importance": (1, 5),
    "board": ("main", "side", "wild"),
    "author": ("ada", "ben"),
    "to": ("ben", "ada", "skill:maths"),
    "skills": (["maths"], []),
    "role": ("tester",),
    "interests": ([{"type": "FACT"}], []),
    "leave": (True, "done"),
    "subscription": ("s-1", "s-2"),
    "unsubscribe": ("s-1",),
    "group": ("g", "h"),
    "filter": (
        {},
        {"key": "plan:**"},
        {"agent": "me"},
        {"not": {"type": "FACT"}},
        {"any": [{"tags": ["a"]}, {"thread": "1"}]},
        {"mentions": True, "event": "item.posted"},
    ),
    "reads": ({"1": 1}, {"plan:a": 0}, {"plan:*": 1}, {"$board": 1}, {"1": {"seq": 1}}, {"a": 1, "2": 1}),
    "settings": (
        {"target_tokens": 400},
        {"quorum": 2},
        {"validation": [{"key": "v:**", "schema": {"type": "object"}}]},
        {"validation": []},
        {"policy": "lru"},
        {"idempotency_seconds": 60},
    ),
    "members": ({"ben": "contributor"}, {"ben": None}, {"cy": "observer", "ben": "decider"}),
    "lifecycle": ("open", "settled"),
    "after": ("2026-01-01",),
    "before": ("2030-01-01T00:00:00Z",),
    "watchers": (["ben"], ["ben", "cy"]),
    "text": ("words", "A fact about @ben.", '{"state": "todo"}'),
    "constraints": (["be brief"],),
    "flags": ({"a": True},),
    "lease": (1, 2),
    "parent": ("main", "side"),
    "tasks": (
        [{"title": "look"}, {"title": "saw", "after": ["$1"], "verify": True, "paths": ["key:plan:*"]}],
        [{"title": "compute", "trigger": "count(type=FACT, tag=a) >= 2 and exists(plan:a)", "cost": 2}],
        [{"title": "tides", "board": {"id": "low", "input": {"a": "F-1"}, "output": {"plan:a": "t:x"}}}],
        [{"kind": "stage", "title": "build", "exit": "milestone(beta)"}, {"title": "saw", "stage": "$1"}],
        [{"id": "T-1", "state": "PENDING"}, {"id": "T-2", "priority": 5}],
    ),
    "cancel": (["T-1"], ["T-2", "T-3"]),
    "define": (
        [{"title": "a", "entry": "done(T-1) or flag(a)", "manual": True}, {"title": "b", "parent": "$1"}],
        {"title": "beta", "kind": "milestone", "entry": 'milestone("all done") and not no_open_debates()'},
    ),
    "budget": ({"cost": 3}, {"steps": 2, "tokens": 9}, {}),
    "usage": ({"tokens": 5}, {"cost": 0.5}),
    "cites": (["1"], ["2", "3"]),
}
"""Valid values by the name of the argument, so that calls pass the first check."""
RULES = corpus_of("rules")
FILTERS = corpus_of("filters")
DRAFTS = corpus_of("drafts")
CONDITIONS = tuple(
    json.dumps(text)
    for word in (*ODD, *SQL, *GLOBS, *KEYS, *REFS)
    for text in (word, f"exists({word})", f"count(tag={word}) >= 1", f'not milestone("{word}")')
)
"""Hostile words as conditions and in them, in raw JSON."""
MAPPED = tuple(
    json.dumps(sub)
    for word in (*KEYS, *ODD, *SQL, *REFS, *GLOBS)
    for sub in ({"id": "low", "input": {word: "a"}}, {"id": "low", "output": {"a": word}}, word)
)
"""Hostile words as boards that do a task, and as keys and names in their mappings, in raw JSON."""
NAMED: dict[str, tuple[str, ...]] = {
    "settings": tuple(f'{{"validation": {rule}}}' for rule in RULES)
    + tuple(
        f'{{"{name}": {n}}}'
        for name in ("target_tokens", "quorum", "high_water")
        for n in ("NaN", "1e400", "-1")
    ),
    "filter": FILTERS,
    "items": tuple(f"[{draft}]" for draft in DRAFTS)
    + tuple(f'[{{"text": "ok"}}, {draft}]' for draft in DRAFTS)
    + tuple(f'[{{"title": "x", "trigger": {text}}}]' for text in CONDITIONS)
    + tuple(f'[{{"title": "x", "board": {sub}}}]' for sub in MAPPED),
    "define": tuple(f'[{{"title": "x", "entry": {text}, "exit": {text}}}]' for text in CONDITIONS),
    "writes": tuple(f"[{draft}]" for draft in DRAFTS)
    + tuple(f'[{{"text": "ok"}}, {draft}]' for draft in DRAFTS),
    "debates": (
        '[{"op": "open", "id": "$1"}]',
        '[{"op": "vote", "id": "1", "approve": 1}]',
        '[{"op": {}, "id": []}]',
    ),
    "reads": (
        *(json.dumps({word: 1}) for word in (*GLOBS, *REFS, *SQL)),
        '{"$board": {}}',
        '{"1": {"seq": -1}}',
        '{"1": {"seq": 1e400}}',
        '{"1": {"seq": 1, "x": 1}}',
        '{"1": true}',
    ),
    "edges": (
        *(json.dumps({"depends_on": [ref]}) for ref in REFS),
        '{"depends_on": [1]}',
        '{"replies_to": {}}',
    ),
    "fail": tuple(json.dumps({ref: "why"}) for ref in (*REFS, "1.1.1", "1.", ".1", "1.99999999999999999999")),
    "ack": tuple(
        json.dumps([ref]) for ref in (*REFS, "1.1.1", "1.", ".1", "1.99999999999999999999", "99999999999.1")
    ),
}
"""Raw JSON by the name of the argument, in addition to values tried with every argument."""
META = corpus_of("meta")


def corpus(name: str) -> list[str]:
    """Returns the raw JSON values to try for an argument of this name, without the expensive ones."""
    words = [json.dumps(word) for word in WORDS]
    lists = [json.dumps([word]) for word in WORDS]
    maps = [json.dumps({word: word}) for word in WORDS]
    return [*NAMED.get(name, ()), *SHAPES, *NUMBERS, *BROKEN_WORDS, *NESTED, *words, *lists, *maps]


def arguments(given: Mapping[str, str]) -> str:
    """Returns a JSON object with these raw values."""
    return "{" + ", ".join(f"{json.dumps(name)}: {raw}" for name, raw in given.items()) + "}"


class Calls:
    """Generates arguments for tools from their schemas; the same seed gives the same ones.

    `harm` is the share of values that are hostile; the others are of the argument's type.
    """

    def __init__(self, tools: Mapping[str, Schema], seed: int, harm: float = 0.15) -> None:
        self.tools = tools
        self._random = random.Random(seed)
        self._harm = harm
        self._corpora: dict[str, list[str]] = {}

    def alone(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yields a call for each value of the corpus and each argument of each tool.

        The other arguments of the call are valid.
        """
        for tool, schema in self.tools.items():
            for name in schema["properties"]:
                for raw in self._corpus(name):
                    yield tool, {**base(tool, schema), name: raw}
            for raw in (*HUGE, '{"a": 1}'):
                yield tool, {**base(tool, schema), "no such argument": raw}
            for word in WORDS:
                yield tool, {**base(tool, schema), word: "1"}

    def dear(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yields a call for each expensive value and each argument of each tool."""
        for tool, schema in self.tools.items():
            for name in schema["properties"]:
                for raw in HUGE:
                    yield tool, {**base(tool, schema), name: raw}

    def mixed(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yields calls with several arguments, most of them valid, without end."""
        names = list(self.tools)
        while True:
            tool = self._random.choice(names)
            yield tool, self.of_tool(tool)

    def of_tool(self, tool: str) -> dict[str, str]:
        """Returns random arguments for a tool."""
        schema = self.tools[tool]
        properties = list(schema["properties"])
        chosen = self._random.sample(properties, self._random.randint(0, min(5, len(properties))))
        given = dict(base(tool, schema))
        given |= {name: self._value(tool, name, schema["properties"][name]) for name in chosen}
        if tool in ("board", "core"):  # changes only one board, so that the others still accept calls
            given["board"] = '"wild"'
        if "seconds" in schema["properties"] and not quick(given.get("seconds", "0")):
            given["seconds"] = "0"
        return given

    def _value(self, tool: str, name: str, schema: Schema) -> str:
        if self._random.random() < self._harm:
            return self._random.choice(self._corpus(name))
        if "enum" in schema and name != "lifecycle":
            return json.dumps(self._random.choice(schema["enum"]))
        if (tool, name) == ("plan", "items"):
            return json.dumps(self._random.choice(GOOD["tasks"]))
        if name in ("items", "writes"):
            drafts = [self._draft() for _ in range(self._random.randint(1, 3))]
            return "[" + ", ".join(drafts) + "]"
        if name == "debates":
            given = self.of_tool("debate")
            return "[" + arguments({k: v for k, v in given.items() if k != "board"}) + "]"
        if name in GOOD:
            return json.dumps(self._random.choice(GOOD[name]))
        kind = schema.get("type")
        if kind == "boolean":
            return self._random.choice(["true", "false"])
        if kind in ("integer", "number"):
            return self._random.choice(["1", "2", "5", "100"])
        return {"array": '["a"]', "object": '{"a": 1}'}.get(str(kind), '"words"')

    def _draft(self) -> str:
        apart = ("items", "board", "idempotency_key")
        return arguments({k: v for k, v in self.of_tool("post").items() if k not in apart})

    def _corpus(self, name: str) -> list[str]:
        if name not in self._corpora:
            found = corpus(name)
            self._corpora[name] = [raw for raw in found if quick(raw)] if name == "seconds" else found
        return self._corpora[name]


def quick(seconds: str) -> bool:
    """Tells whether a call with this value of `seconds` does not wait: it is refused, or almost zero."""
    try:
        value = json.loads(seconds)
    except (ValueError, RecursionError):
        return True
    if value is None:
        return False
    return not isinstance(value, int | float) or isinstance(value, bool) or not value > 0.05


def base(tool: str, schema: Schema) -> dict[str, str]:
    """Returns the arguments of a valid or nearly valid call of a tool, which does not wait."""
    needed = {
        "post": {"text": '"a post"'},
        "wait": {"since": "0"},
        "debate": {"op": '"status"', "id": '"1"'},
        "core": {"objective": '"o"', "board": '"wild"'},
        "board": {"board": '"wild"'},
        "prune": {"dry_run": "true"},
        "consume": {"group": '"g"', "filter": "{}"},
        "transaction": {"writes": '[{"text": "a write"}]'},
        "constraint": {"text": '"a rule"'},
        "artifact_write": {"path": '"a.md"', "append": '"x"'},
        "artifact_read": {"path": '"a.md"'},
        "report_result": {"check": '"lint"', "ok": "false"},
        "join": {"role": '"tester"'},
        "turn": {"seconds": "0"},
        "finalize": {"text": '"an answer"'},
        "plan": {"items": '[{"title": "a task"}]'},
        "claim": {"seconds": "0"},
        "request": {"to": '"ben"', "text": '"a question"'},
        "respond": {"id": '"1"', "text": '"an answer"'},
    }.get(tool, {})
    return {**needed, **({"seconds": "0"} if "seconds" in schema["properties"] else {})}
