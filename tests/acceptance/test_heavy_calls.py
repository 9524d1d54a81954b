"""The dearest calls there are: each is answered, stays within its size and its work, and holds up nobody else.

What is dear was found by looking: texts at their bound of everything that is written or counted in an odd way,
full batches, edges and tags at their bounds, rules that a steward may set, messages of a million values. The work
of the server is counted, in all and in the longest turn of its event loop, during which nobody else is served;
`benchmarks/heavy_calls.py` sends the same calls and compares their CPU with that of a plain post.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import pytest
import wires
from profiles import NIGHTLY
from work import MOST_IN_A_TURN, Meter

MOST_BYTES = 1 << 20
QUIET = ("--embedder", "none", "--target-tokens", "10000000")
"""A server that does little by itself meanwhile."""


_RANDOM = random.Random(1)
_WORDS = ["".join(_RANDOM.choices(string.ascii_lowercase, k=_RANDOM.randint(2, 9))) for _ in range(5_000)]


def prose(characters: int) -> str:
    return " ".join(_RANDOM.choices(_WORDS, k=characters // 5))[:characters]


HIDDEN = {"tag characters", "turns of direction"}
"""Texts that as escapes are longer than an answer may be: the tool `read` gives them whole, a resource refuses."""
LONG: dict[str, str] = {
    "one letter": "x" * 200_000,
    "prose": prose(200_000),
    "emoji": "😀" * 200_000,
    "tag characters": "\U000e0041" * 200_000,
    "turns of direction": "\u202e" * 200_000,
    "combining": "a" + "\u0300" * 199_999,
    "ideographs": "".join(chr(0x4E00 + _RANDOM.randrange(20_000)) for _ in range(200_000)),
    "line ends": "a\r\n" * 66_666,
    "joiners": "👨\u200d" * 66_666,
    "marks": "!" * 200_000,
    "backslashes": "\\" * 200_000,
    "quotes": '"' * 200_000,
    "ids": "".join(f"F-{n} " for n in range(25_000)),
    "mentions": "@a " * 66_666,
}
"""Texts of a post at their bound."""


@dataclass
class Server:
    """A served folder whose work is counted."""

    modern: Any
    legacy: Any
    meter: Meter
    dear: list[str] = field(default_factory=list)
    most_in_a_turn: int = MOST_IN_A_TURN

    def measured(self, name: str, asking: Callable[[], Any]) -> Any:
        """The answer to what is asked; it is noted when it is too long or too dear."""
        self.meter.work()
        reply = asking()
        work = self.meter.work()
        told = f"{name}: {len(reply.raw):,} bytes, {work}"
        print(told)
        if work.dear or work.turn > self.most_in_a_turn or len(reply.raw) > MOST_BYTES:
            self.dear.append(told)
        return reply

    def call(self, name: str, tool: str, /, *, wire: Any = None, **arguments: Any) -> Any:
        raw = json.dumps(arguments)
        reply = self.measured(name, lambda: wires.call(wire or self.modern, tool, raw))
        assert reply.message is not None
        return reply.message

    def nothing_was_dear(self) -> None:
        assert not self.dear, "\n".join(self.dear)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("heavy")
    with ExitStack() as stack:
        meter = stack.enter_context(closing(Meter()))
        url, pid = stack.enter_context(
            wires.http_process(folder / "data", folder / "log", *QUIET, meter=meter)
        )
        modern, legacy = (wires.HttpWire(url, pid, "ada", modern=m) for m in (True, False))
        stack.callback(modern.close)
        stack.callback(legacy.close)
        for _ in range(10):  # what is loaded at first use is no request's cost
            wires.call(modern, "post", '{"text": "a fact", "board": "quiet"}')
            wires.call(modern, "read", '{"board": "quiet"}')
        yield Server(modern, legacy, meter)
    said = (folder / "log").read_text("utf-8", "replace")
    assert "Traceback" not in said, said[-4_000:]


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    running.dear.clear()
    running.most_in_a_turn = MOST_IN_A_TURN
    yield running
    running.nothing_was_dear()


def result(message: dict[str, Any]) -> dict[str, Any]:
    assert not message["result"].get("isError"), message["result"]["content"]
    facts: dict[str, Any] = message["result"]["structuredContent"]
    return facts


@pytest.mark.parametrize("name", LONG)
def test_a_text_at_its_bound_is_posted_and_read_whole_in_one_answer(server: Server, name: str) -> None:
    text = LONG[name]
    board = name.replace(" ", "-")
    wire = server.legacy if len(name) % 2 else server.modern
    posted = result(server.call(f"post {name}", "post", wire=wire, text=text, board=board))["items"][0]
    assert posted["text"] == text
    read = server.call(f"read {name}", "read", wire=wire, ids=[posted["id"]], budget=200_000, board=board)
    assert result(read)["items"][0]["text"] == text
    plain = json.dumps({"ids": [posted["id"]], "budget": 200_000, "board": board})
    words = server.measured(
        f"read {name} as text",
        lambda: wires.ask(
            server.legacy, "tools/call", f'"name": "read", "arguments": {plain}', of="read", meta="{}"
        ),
    )
    assert words.message["result"]["content"][0]["text"].splitlines()[-1].startswith("seq ")
    uri = json.dumps(f"board://{board}/items/{posted['id']}.json")
    asked = server.measured(
        f"resource {name}",
        lambda: wires.ask(server.modern, "resources/read", f'"uri": {uri}', of=json.loads(uri)),
    )
    if name in HIDDEN:
        assert "in parts instead" in asked.message["error"]["message"]
    else:
        assert json.loads(asked.message["result"]["contents"][0]["text"])["text"] == text


def test_a_text_that_no_answer_could_carry_is_refused(server: Server) -> None:
    message = server.call("control characters", "post", text="\x01" * 200_000)
    failure = message["result"]["structuredContent"]
    assert failure["error"] == "invalid"
    assert "800,000 bytes" in failure["message"]
    result(server.call("fewer of them", "post", text="\x01" * 130_000, board="controls"))


def test_full_batches_are_posted_and_answered_in_short_where_they_are_long(server: Server) -> None:
    texts = [prose(10_000) for _ in range(100)]
    answer = result(
        server.call("100 posts of 10,000", "post", items=[{"text": t} for t in texts], board="full")
    )
    assert len(answer["items"]) == 100
    assert answer["cut"] is True
    assert all(item["text"] == "" and item["tokens"] > 1_000 for item in answer["items"])
    read = result(
        server.call("some of them", "read", ids=[i["id"] for i in answer["items"][:20]], board="full")
    )
    assert [item["text"] for item in read["items"]] == texts[:20]
    writes = [{"text": t} for t in texts]
    assert result(server.call("the same in a transaction", "transaction", writes=writes, board="full2"))[
        "cut"
    ]
    small = result(server.call("100 small posts", "post", items=[{"text": f"a {n}"} for n in range(100)]))
    assert small["cut"] is False
    assert [item["text"] for item in small["items"]] == [f"a {n}" for n in range(100)]


ODD = {
    "a block after spaces": "a:\n  b\n" + " " * 9_900 + "c",
    "ticks": "```" * 3_300,
    "words in capitals": "Ab " * 3_300,
    "wide letters": "Ａ" * 9_999,
    "ligatures": "ﷺ" * 9_999,
}


@pytest.mark.parametrize("name", ODD)
def test_findings_are_compared_quickly_however_they_are_written(server: Server, name: str) -> None:
    items = [{"text": f"{n} {ODD[name]}"[:10_000]} for n in range(30)]
    result(server.call(f"30 of {name}", "post", items=items, board="odd"))


def test_tags_and_edges_at_their_bounds_are_written_quickly(server: Server) -> None:
    result(
        server.call(
            "30 targets", "post", items=[{"text": f"t {n} " + "x" * 33_000} for n in range(30)], board="edges"
        )
    )
    ids = [str(n) for n in range(1, 31)]
    tagged = [{"text": f"{n}", "tags": [f"{n}-{t}" for t in range(32)]} for n in range(100)]
    result(server.call("100 posts with 32 tags", "post", items=tagged, board="edges"))
    edged = [
        {"text": f"e {n}", "edges": {"depends_on": ids[:5], "supports": ids[n % 25 :][:5]}}
        for n in range(100)
    ]
    result(server.call("100 posts with 10 edges", "post", items=edged, board="edges"))
    for tool, name in (("post", "items"), ("transaction", "writes")):
        more = {name: [*edged, {"text": "one more", "edges": {"supports": ids[:1]}}][1:], "board": "edges"}
        more[name][0]["edges"] = {"depends_on": ids, "supports": ids}
        failure = server.call(f"too many edges for {tool}", tool, **more)["result"]["structuredContent"]
        assert "at most 1,000 edges" in failure["message"]
    for kind in ("read", "query"):
        given = {"ids": ids[:20]} if kind == "read" else {"limit": 200}
        result(server.call(f"{kind} of what has edges", kind, board="edges", **given))


def test_events_are_told_as_far_as_one_answer_goes(server: Server) -> None:
    tags = [f"{n}" + "😀" * 62 for n in range(32)]
    for first in range(0, 200, 50):
        items = [{"text": f"{n}", "tags": tags} for n in range(first, first + 50)]
        result(server.call("50 posts with long tags", "post", items=items, board="tags"))
    seen, since = 0, 0
    while True:
        news = result(server.call("their events", "wait", since=since, seconds=0, limit=200, board="tags"))
        if not news["events"]:
            break
        seen += len(news["events"])
        since = news["cursor"]
    assert seen == news["seq"] > 200


RULES: dict[str, list[Any]] = {
    "a list that refers to itself": [
        {
            "schema": {
                "$defs": {
                    "a": {
                        "anyOf": [
                            {"type": "array", "items": {"$ref": "#/$defs/a"}},
                            {"type": "integer"},
                            {"items": {"$ref": "#/$defs/a"}, "uniqueItems": True},
                        ]
                    }
                },
                "$ref": "#/$defs/a",
            }
        }
    ]
    * 30,
    "much that says nothing": [{"schema": {"allOf": [{}] * 600}}] * 2,
    "references": [{"schema": {"$defs": {"a": {}}, "allOf": [{"$ref": "#/$defs/a"}] * 500}}],
    "all members": [{"schema": {"items": {}}}] * 30,
    "a long enumeration": [{"schema": {"items": {"enum": list(range(2_000))}}}],
    "one long value": [{"schema": {"items": {"enum": [[0] * 5_000]}}}],
    "letters of all scripts": [{"schema": {"pattern": r"(?:\pL{1,20}\PL?){1,5}!"}}] * 10,
    "sizes": [{"max_depth": 5, "max_bytes": 800_000, "schema": True, "metadata_schema": True}] * 32,
}
TEXTS = (
    [f"[{'[1],' * 1_600}1]"] * 100,
    [f"[{'[1],' * 30_000}1]"],
    [json.dumps("ab" * 90_000)] * 5,
    ["1"] * 100,
    ["[" + json.dumps([0] * 5_000) + ",0]"] * 5,
)


@pytest.mark.parametrize("name", RULES)
def test_rules_of_a_board_are_checked_within_their_steps(server: Server, name: str) -> None:
    board = f"rules-{len(name)}"
    result(server.call("a post", "post", text="1", board=board))
    result(server.call(f"set {name}", "board", settings={"validation": RULES[name]}, board=board))
    for place, texts in enumerate(TEXTS):
        items = [{"text": text, "metadata": {"k": "v" * 1_000}} for text in texts]
        server.call(f"{name} on {place}", "post", items=items, board=board)


def test_rules_that_would_take_long_to_be_checked_themselves_are_refused(server: Server) -> None:
    patterns = [{"pattern": rf"(?:\pL{{1,{n}}}\PL?){{1,5}}!"} for n in range(1, 28)]
    for rules in ([{"schema": {"allOf": patterns}}] * 8, [{"schema": {"allOf": [{}] * 4_100}}]):
        failure = server.call("rules", "board", settings={"validation": rules})["result"]
        assert failure["isError"]
        assert "4,000 keywords" in failure["content"][0]["text"]


def icons(number: int) -> str:
    return (
        '{"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1", "icons": ['
        + "{}," * number
        + "{}]}}"
    )


CAPABILITIES = ",".join(f'"k{n}": {{}}' for n in range(200_000))
BOMBS = {
    "icons": icons(900_000),
    "fewer icons": icons(20_000),
    "capabilities": '{"io.modelcontextprotocol/clientCapabilities": {"experimental": {'
    + CAPABILITIES
    + "}}}",
    "strings": '{"x": [' + '"a",' * 700_000 + "1]}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_messages_of_a_million_values_are_refused_before_they_are_read(server: Server, name: str) -> None:
    for wire in (server.modern, server.legacy):
        reply = server.measured(
            f"{name} over {wire.name}",
            lambda wire=wire: wires.ask(
                wire, "tools/call", '"name": "read", "arguments": {}', of="read", meta=BOMBS[name]
            ),
        )
        said = reply.message["error"]["message"]
        assert name == "fewer icons" or "at most 50,000 JSON values" in said, said


def test_resources_of_a_board_full_of_long_items_are_read_quickly_or_refused(server: Server) -> None:
    result(server.call("a plan", "post", text="a plan", board="plans"))
    result(server.call("room", "board", settings={"target_tokens": 1_000_000}, board="plans"))
    for _ in range(3):
        items = [{"text": prose(33_000), "type": "PLAN"} for _ in range(30)]
        result(server.call("30 long plans", "post", items=items, board="plans"))
    for path in (
        "",
        "/working",
        "/working.json",
        "/agenda",
        "/agenda.json",
        "/threads",
        "/outline",
        "/stats.json",
    ):
        uri = json.dumps(f"board://plans{path}")
        reply = server.measured(
            path or "board",
            lambda uri=uri: wires.ask(server.modern, "resources/read", f'"uri": {uri}', of=json.loads(uri)),
        )
        if path in ("/working.json", "/agenda.json"):
            assert "one answer at most" in reply.message["error"]["message"]
        else:
            assert reply.message["result"]["contents"][0]["text"]


WANTED = {
    "stars": {"any": [{"key": "*a" * 60 + f"{n}"} for n in range(31)]},
    "doubled": {"any": [{"key": "**:" * 30 + f"*{n}*"} for n in range(31)]},
    "not": {"not": {"any": [{"key": "**:*" * 20 + "*"}, {"key": "*:**" * 20}]}},
}


def test_filters_of_events_let_others_have_their_turn_however_dear_they_are(server: Server) -> None:
    server.most_in_a_turn = 400_000  # the dearest wait takes more in all of its turns
    key = ":".join(["a" * 28] * 6)
    for first in range(0, 800 if NIGHTLY else 50, 50):
        items = [{"text": f"{n}", "key": f"{key}:{n}"} for n in range(first, first + 50)]
        result(server.call("50 entries", "post", items=items, board="keys"))
    for name, condition in WANTED.items():
        result(server.call(f"subscribe {name}", "subscribe", filter=condition, name=name, board="keys"))
        place = 0
        while True:
            news = result(
                server.call(f"wait {name}", "wait", subscription=name, since=place, seconds=0, board="keys")
            )
            assert name == "not" or not news["events"]
            if news["cursor"] == news["seq"]:
                break
            assert news["cursor"] > place
            place = news["cursor"]
        result(
            server.call(f"consume {name}", "consume", group=name, filter=condition, seconds=0, board="keys")
        )
    for glob in ("*a" * 60, "**:" * 30 + "z", "a" * 28 + ":**:zz"):
        result(server.call(f"query {glob[:9]}", "query", key=glob, limit=200, board="keys"))
