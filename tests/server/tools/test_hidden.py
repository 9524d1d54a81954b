"""Hidden looks the same as absent: the same script on two boards, one with hidden items, gives the same answers.

The script drives every tool, resource, template and completion that the server has, and hears what it is told of
changes. What one board has and the other has not is private to alice, shared by her team, or kept by a rule. Answers
may differ in ids and sequences, which are named here by what they stand for, and in nothing else; and no answer has a
word of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boards
import mcp.types as types
import pytest
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.read_rules import READ, ReadRule
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.resources.announcements import Announcer
from blackboard_mcp.server.settings.server import TOOL_SETS
from blackboard_mcp.storage.operations.access.visibility import TIMES, expanded
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.reading import items as reading
from click.testing import CliRunner
from mcp.shared.exceptions import MCPError
from patience import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

OWNERS = {"alice": "acme", "dave": "acme", "erin": "acme", "bob": "other", "carol": "carol"}
TOOLS = TOOL_SETS
CANARY = re.compile("kanari|zeisig", re.IGNORECASE)
"""In all that is private, and in all that the team shares."""
PRIVATE, TEAM = "kanari", "zeisig"
NEST = "nest"
RULE = ReadRule("birds", ("dave", "role:steward"), tags=(NEST,))
"""Alice writes for its readers, and is none."""
NOWHERE = "F-900"
FINDING = "The build breaks when the clock is set back."
MAIN = "board://main"
WITNESS = f"{MAIN}/core"
HEARD = ("working", "agenda", "threads", "agents", "constraints", "hot-issues", "answer", "outline")
"""Resources that the core has no part in."""

Args = dict[str, Any]
PLAIN = [
    (re.compile(pattern, re.MULTILINE), stands)
    for pattern, stands in (
        (r'\\*"(seq|cursor|next_cursor|since|after|lease|number|pass)\\*": ?\\*"?\d+\\*"?', r"\1 N"),
        (r"\b(seq|since|pass|after|lease|cursor|from)([ =\"\\]+)\d+", r"\1\2N"),
        (r'(^|")\d+(?:\.\d+)?(?= [a-z]+\.[a-z_]+ )', r"\1N"),
        (r'"\d+\.\d+\\?"', '"N.N"'),
        (r'(live · version |"live\\*":\d+,\\*"version\\*":)\d+', r"\1N"),
        (r'("(?:\$board|[^"]*\*\*)"):\d+', r"\1:N"),
        (r"messages:request:\d+", "messages:request:N"),
        (r"sub-[\w-]{8}", "sub-N"),
    )
]
"""Sequences, and what is drawn by lot, in any answer."""


class Found(Exception):
    """An answer is the one that was sought."""


class World:
    """A board, those on it, and what the numbers of public items stand for."""

    def __init__(self, place: Any, agents: dict[str, Any], prober: str, inbox: Any) -> None:
        self.place = place
        self.agents = agents
        self.prober = agents[prober]
        self.name = prober
        self.inbox = inbox
        self.ids: dict[str, str] = {}
        self.hidden: list[str] = []
        self.answers: list[tuple[str, str]] = []
        self.listening: asyncio.Task[None] | None = None
        self.exported = ""
        self.sought: Callable[[World], str] = lambda world: ""

    # What happens on the board

    async def say(
        self, label: str, agent: str, text: str | None, type: str | None = None, **more: Any
    ) -> None:
        """A public post; edges name labels."""
        if "edges" in more:
            more["edges"] = {k: [self.ids[name] for name in names] for k, names in more["edges"].items()}
        item = await self.agents[agent].post(text, type, **more)
        self.ids.setdefault(label, item["id"])

    async def hide(self, agent: str, visibility: str, text: str, type: str = "FACT", **more: Any) -> str:
        """A hidden post; edges name labels, or hidden ids."""
        word = PRIVATE if visibility == "private" else TEAM
        if "edges" in more:
            more["edges"] = {k: [self.ids.get(n, n) for n in names] for k, names in more["edges"].items()}
        said: Args = {"visibility": visibility, "tags": [f"{word}-tag"]}
        if visibility == "readers":
            said = {"tags": [f"{word}-tag", NEST]}
        item = await self.agents[agent].post(
            f"{word} {text}" if text != FINDING else text,
            type,
            **{**said, "metadata": {word: [f"{word} note"]}, **more},
        )
        self.hidden.append(item["id"])
        return str(item["id"])

    # What is asked

    def plain(self, answer: str) -> str:
        """An answer with what ids stand for in their place, and without sequences."""
        labels = {id_.partition("-")[2]: label for label, id_ in self.ids.items()}
        absent = {id_.partition("-")[2] for id_ in (*self.hidden, NOWHERE)}

        def named(match: re.Match[str]) -> str:
            if match[2] in labels:
                return f"{match[1]}-<{labels[match[2]]}>"
            return "<absent>" if match[2] in absent else match[0]

        answer = answer.replace("\\n", "\n")
        for pattern, stands in PLAIN:
            answer = pattern.sub(stands, answer)
        answer = re.sub(r"\b([A-Z]{1,2})-(\d+)", named, answer)
        return re.sub(
            r'(\b[Nn]o item |thread of |"missing":\["?)(\d+)',
            lambda found: found[1] + ("<absent>" if found[2] in absent else found[2]),
            answer,
        )

    def keep(self, what: str, answer: str) -> None:
        self.answers.append((what, answer))
        if self.sought(self):
            raise Found

    async def ask(self, tool: str, arguments: Args) -> None:
        result = await self.prober.client.call_tool(tool, arguments, meta=boards.STRUCTURED)
        self.keep(f"{tool} {self.plain(json.dumps(arguments))}", result.model_dump_json(exclude_none=True))
        if tool in ("post", "transaction"):
            for item in (result.structured_content or {}).get("items", ()):
                if item["id"] not in (*self.ids.values(), *self.hidden):
                    self.ids[f"asked {len(self.ids)}"] = item["id"]
        if tool == "turn" and (problem := (result.structured_content or {}).get("problem")) is not None:
            self.ids.setdefault("problem", problem)

    async def look(self, uri: str) -> None:
        try:
            text = (await self.prober.client.read_resource(uri)).model_dump_json()
        except MCPError as error:
            text = f"{error.error.code} {error.error.message} {error.error.data}"
        self.keep(f"resource {self.plain(uri)}", text)


async def listen(world: World, mode: str) -> None:
    """The prober subscribes to resources, by the means of its generation."""
    await world.place.announcing()
    items = [f"{MAIN}/items/{id_}" for id_ in world.ids.values()] + [
        f"{MAIN}/items/{n}" for n in range(28, 36)
    ]
    uris = [*(f"{MAIN}/{part}" for part in HEARD), *items, f"{MAIN}/view/{world.name}", WITNESS]
    if mode == boards.LEGACY:
        for uri in uris:
            await world.prober.client.subscribe_resource(uri)
        return
    ready = asyncio.Event()

    async def hear() -> None:
        async with world.prober.client.listen(resource_subscriptions=uris) as stream:
            ready.set()
            async for event in stream:
                world.inbox.uris.append(event.uri)
                world.inbox._news.set()

    world.listening = asyncio.create_task(hear())
    await asyncio.wait_for(ready.wait(), PATIENCE)


async def heard(world: World, what: str) -> None:
    """Keeps what was heard up to a change of the core."""
    core = await world.agents["carol"].do("core")
    await world.agents["carol"].do("core", objective=what, expected_version=core["version"])
    await world.inbox.until(WITNESS)
    named = sorted({world.plain(uri) for uri in world.inbox.uris})
    world.keep(f"heard: {what}", " ".join(named))
    world.inbox.uris.clear()


async def begin(world: World) -> None:
    """What is public before anything is hidden."""
    for agent, owner in OWNERS.items():
        await world.place.opened.store.set_owner(agent, owner)
    await world.place.opened.store.set_read_rules([RULE])
    await world.agents["alice"].do("board", settings={"panels": [NEST]})
    for number in range(10):
        await world.say(f"filler {number}", "carol", f"filler {number}", "LOG")
    await world.say("fact", "alice", "A fact.", tags=["shown"])
    await world.say("bobs", "bob", "What bob thinks.", "HYPOTHESIS")
    await world.say("law", "carol", "Never on Fridays.", "CONSTRAINT")
    await world.say("plan", "dave", "Do it.", "PLAN", edges={"derived_from": ["fact"]})
    await world.say("entry", "alice", "one", key="shared:entry")
    await world.say("entry", "erin", "two", key="shared:entry")
    await world.say("doubt", "carol", "I doubt it.", "CRITIQUE", edges={"critiques": ["bobs"]})
    await world.say("old", "alice", "Old news.", status="WITHDRAWN")
    await world.say("gone", "alice", "Deleted soon.", key="gone:key")
    await world.agents["alice"].do("post", key="gone:key", status="DELETED")
    await world.prober.do("subscribe", filter={}, name="all")
    world.place.clock.advance(1)
    await world.prober.do("subscribe", filter={"mentions": True}, name="mine")
    await world.prober.do("consume", group="workers", filter={"event": "item.posted"}, seconds=0, limit=0)


async def conceal(world: World, visibility: str) -> None:
    """What alice, and dave of her team, hide: every type, edge, version, and what becomes of them."""
    alice = world.agents["alice"]
    other = "alice" if visibility == "private" else "dave"
    hide, word = world.hide, PRIVATE if visibility == "private" else TEAM
    first = await hide("alice", visibility, "note @bob @erin", key=f"{word}:a:note", importance=5)
    await hide("alice", visibility, "note again", key=f"{word}:a:note")
    await hide("alice", visibility, "beside the shared", key="shared:entry")
    for type_ in (
        "LOG",
        "PLAN",
        "DECISION",
        "QUESTION",
        "ANSWER",
        "PROBLEM",
        "CONSTRAINT",
        "HOT_ISSUE",
        "RESULT",
    ):
        await hide("alice", visibility, f"{type_} of mine", type_, edges={"derived_from": ["fact"]})
    await hide("alice", visibility, FINDING)
    critique = await hide(
        other, visibility, "no", "CRITIQUE", edges={"critiques": ["bobs"], "refutes": ["fact"]}
    )
    answering = "dave" if visibility == "readers" else "alice"
    await hide(answering, visibility, "but", "REPLY", edges={"replies_to": [critique]})
    await hide(
        "alice", visibility, "rests", edges={"depends_on": ["fact", "plan"], "supports": ["bobs", "law"]}
    )
    await hide("alice", visibility, "instead", edges={"supersedes": ["fact"]})
    await hide("alice", visibility, "short", ttl_seconds=30)
    gone = await hide("alice", visibility, "deleted", key=f"{word}:gone")
    await alice.do("post", id=gone, status="DELETED")
    kept = [NEST] if visibility == "readers" else []
    await hide("alice", visibility, "in a panel", tags=[f"panel:{NEST}", *kept])
    left = await hide("alice", visibility, "archived words", "LOG")
    await alice.do("post", id=left, status="WITHDRAWN")
    await alice.do("debate", op="watch", id=first)
    await alice.do("post", id=first, importance=4, tags=[f"{word}-again"])
    await world.agents[other].do("post", id=critique, status="RESOLVED")
    seen_by = {"tags": [NEST]} if visibility == "readers" else {"visibility": visibility}
    writes = [{"text": f"{word} in one go", **seen_by, "key": f"{word}:t"}]
    world.hidden += [
        item["id"] for item in (await alice.do("transaction", writes=writes, reads={f"{word}:t": 0}))["items"]
    ]


async def go_on(world: World) -> None:
    """What is public after that."""
    await world.say("twin", "carol", FINDING)
    await world.say("nested", "bob", "In the nest.", tags=[f"panel:{NEST}"])
    await world.say("reply", "bob", "Because.", "REPLY", edges={"replies_to": ["doubt"]})
    await world.say("same key", "carol", "carol's", key="kan:other")
    for agent in ("alice", "dave"):  # that they were there shows, whatever they did
        await world.say(f"again {agent}", agent, "Here again.", "LOG")
    await world.say("late", "erin", "Late. @bob", tags=["shown"])
    asked = await world.agents["carol"].do("request", to="bob", text="Which one?", seconds=0)
    world.ids["question"] = asked["question"]["id"]
    world.place.clock.advance(60)
    await world.place.opened.store.expire()
    await world.place.opened.store.spread_retractions()
    await world.place.settled()


def drivers(world: World) -> dict[str, list[Args]]:
    """What the prober asks of each tool; a tool without a line here fails the test."""
    ids = world.ids
    unseen, other = (
        world.hidden[0] if world.hidden else NOWHERE,
        world.hidden[-2] if world.hidden else NOWHERE,
    )
    return {
        "read": [
            {},
            {"budget": 400},
            {"since": 0},
            {"ids": [*ids.values()]},
            {"ids": [unseen, other, f"{unseen}@1", f"{other}@*"]},
            {"ids": [ids["fact"], ids["bobs"], ids["law"], ids["entry"]], "explain": True},
            {"ids": [unseen], "explain": True},
            {"keys": ["shared:entry", "shared:entry@*", "gone:key", "gone:key@*"]},
            {"keys": [f"{PRIVATE}:a:note", f"{TEAM}:a:note@*", f"{PRIVATE}:gone@1"]},
        ],
        "query": [
            *({"zone": zone, "limit": 200} for zone in ("working", "archive", "all")),
            *(
                {"key": key, "zone": "all"}
                for key in ("**", "kan*:**", "shared:*", f"{PRIVATE}:**", f"{TEAM}:a:*")
            ),
            *({"text": word, "zone": "all"} for word in (PRIVATE, TEAM, FINDING)),
            *({"author": agent, "zone": "all", "limit": 4} for agent in OWNERS),
            {"thread": ids["bobs"], "zone": "all"},
            {"thread": unseen, "zone": "all"},
            {"tags": [f"{PRIVATE}-tag"]},
            {"any_tags": [f"{TEAM}-tag", "shown"]},
            {"status": "DELETED"},
            {"type": "CONSTRAINT"},
            {"limit": 3},
            {"status": "RESOLVED", "zone": "all"},
        ],
        "query_archive": [
            {},
            {"text": PRIVATE},
            {"text": f"{TEAM} archived words", "neighbours": True},
            {"text": "filler old news", "limit": 3, "neighbours": True},
            {"text": unseen},
            {"text": f"{unseen} {other}", "restore": True},
            {"thread": unseen},
            {"author": "alice"},
        ],
        "subscribe": [
            {},
            {"filter": {"thread": unseen}},
            {"filter": {"thread": ids["bobs"]}, "name": "thread"},
        ],
        "wait": [
            {"subscription": "all", "seconds": 0, "limit": 200},
            {"subscription": "mine", "seconds": 0, "limit": 200},
            {"since": 0, "seconds": 0, "limit": 7},
            {"seconds": 0},
        ],
        "debate": [
            *(
                {"op": op, "id": id_, "reason": "because"}
                for op in (
                    *("status", "open", "acknowledge", "vote", "concede", "withdraw"),
                    *("confirm", "watch", "unwatch"),
                )
                for id_ in (unseen,)
            ),
            {"op": "decide", "id": unseen, "reason": "because", "outcome": "falls"},
            {"op": "decide", "id": ids["bobs"], "reason": "because", "outcome": "amended", "to": unseen},
            {"op": "concede", "id": ids["fact"], "to": unseen},
            {"op": "status", "id": ids["bobs"]},
            {"op": "status", "id": ids["fact"]},
            {"op": "watch", "id": f"thread:{unseen}"},
            {"op": "watch", "id": "key:kan*"},
            {"op": "open", "id": ids["fact"]},
        ],
        "post": [
            {"text": "reply", "edges": {"supports": [unseen]}},
            {"text": "in it", "thread": unseen},
            {"id": unseen, "status": "RESOLVED"},
            {"id": other, "text": "over it"},
            {"text": "mine", "key": "shared:entry", "expected_version": 1},
            {"text": "mine", "key": f"{PRIVATE}:a:note", "expected_version": 3},
            {"text": "mine", "key": "kan:b", "expected_version": 0},
            {"key": f"{TEAM}:a:note", "status": "DELETED"},
            {"text": FINDING},
            {
                "text": "a second reply",
                "type": "REPLY",
                "edges": {"replies_to": [ids["bobs"]]},
                "idempotency_key": "k",
            },
            {
                "text": "a second reply",
                "type": "REPLY",
                "edges": {"replies_to": [ids["bobs"]]},
                "idempotency_key": "k",
            },
        ],
        "transaction": [
            {"reads": {f"{PRIVATE}:**": 5, "$board": 5, "shared:entry": 1, unseen: 1}, "writes": []},
            {"reads": {f"{TEAM}:a:note": 1}, "writes": [{"text": "x"}]},
            {"writes": [{"text": "x", "edges": {"depends_on": [unseen]}}]},
            {"writes": [{"text": "x", "key": f"{TEAM}:c"}], "debates": [{"op": "watch", "id": unseen}]},
        ],
        "request": [{}, {"id": unseen, "seconds": 0}, {"id": unseen, "cancel": True}, {"protocols": True}],
        "respond": [{}, {"id": unseen}, {"skills": ["sql"], "seconds": 0}, {"skills": [], "seconds": 0}],
        "plan": [{}, {"why": "T-1"}, {"items": [{"title": "probe"}]}, {"cancel": ["T-1"]}],
        "stage": [{}, {"define": {"title": "probe", "exit": "flag(go)"}}, {"id": "G-1", "op": "terminate"}],
        "claim": [
            {"seconds": 0},
            {"op": "extend", "text": "it", "cites": [unseen]},
            {"op": "done", "text": "found", "cites": [unseen]},
            {"op": "done", "text": "found"},
            {"paths": ["key:shared:**"]},
        ],
        "join": [{}, {"role": "prober", "interests": [{"type": "FACT"}]}, {"leave": "done"}],
        "turn": [
            {"seconds": 0},
            {"text": "probe", "seconds": 0},
            {"start": {"problem": "probe"}},
            {"seconds": 0},
        ],
        "finalize": [{}, {"text": "probe", "cites": [unseen]}],
        "consume": [
            {},
            {"group": "workers", "seconds": 0, "limit": 50},
            {"group": "workers", "op": "dead"},
            {"group": "workers", "seconds": 0, "limit": 0},
        ],
        "summarize": [{}, {"thread": unseen}, {"thread": ids["bobs"]}],
        "constraint": [
            {},
            {"confirm": [unseen]},
            {"id": unseen, "retire": "no"},
            {"message": "All is well."},
        ],
        "get_context": [{}, {"query": "probe secret"}, {"path": "src/probe.py", "budget": 2000}],
        "artifact_write": [{"path": "probe.md", "content": "probe"}],
        "artifact_read": [{"path": "probe.md"}],
        "artifact_list": [{}, {"outline": True}],
        "artifact_search": [{"text": "probe"}],
        "artifact_history": [{}, {"path": "probe.md", "diff": True}],
        "report_result": [{"check": "lint", "ok": True}, {"check": "lint", "ok": False, "cites": [unseen]}],
        "core": [{}],
        "board": [{}, {"title": "Ours"}],
        "prune": [{"dry_run": True}],
    }


FIRST = ("wait", "read", "query", "query_archive", "consume", "summarize")
"""What is asked before anything that changes the board."""


async def probe(world: World) -> None:
    """Everything the prober can ask of the server."""
    assert await world.place.opened.archive.drain()
    client, asked = world.prober.client, drivers(world)
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert {*tools} == {*asked}
    for tool in [*FIRST, *(name for name in tools if name not in FIRST), "read", "query"]:
        for arguments in asked[tool]:
            await world.ask(tool, arguments)
    for prompt in (await client.list_prompts()).prompts:
        wanted = [a.name for a in prompt.arguments or () if a.required]
        given = {name: "T-1" if name == "task" else world.ids["fact"] for name in wanted}
        world.keep(f"prompt {prompt.name}", (await client.get_prompt(prompt.name, given)).model_dump_json())
    for resource in (await client.list_resources()).resources:
        await world.look(str(resource.uri))
    unseen = world.hidden[0] if world.hidden else NOWHERE
    said = {
        "board": ["main"],
        "agent": [world.name, "alice"],
        "name": [NEST],
        "id": [*(world.ids[name] for name in ("fact", "bobs", "law", "entry")), unseen],
    }
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) > 30
    for template in templates:
        uris = [template.uri_template.replace("{?after}", "?after=0")]
        for name, values in said.items():
            uris = [uri.replace(f"{{{name}}}", value) for uri in uris for value in values]
        for uri in dict.fromkeys(uris):
            assert "{" not in uri
            await world.look(uri)
        for name in sorted(
            {*re.findall(r"{\??(\w+)}", template.uri_template)} - {"after"}
        ):  # which is a sequence
            for begun in ("", "F", "k"):
                reference = types.ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
                found = await client.complete(reference, {"name": name, "value": begun}, {"board": "main"})
                world.keep(f"complete {template.uri_template} {name}", found.model_dump_json())


@asynccontextmanager
async def world_of(folder: Path, mode: str, prober: str) -> AsyncIterator[World]:
    settings: Any = {"tools": TOOLS, "summariser": "agent"}
    async with boards.open_boards(folder, mode, **settings) as place:
        inbox = boards.Inbox()
        agents = {name: await place.join(name, mode=mode) for name in OWNERS if name != prober}
        agents[prober] = await place.join(prober, mode=mode, inbox=inbox)
        yield World(place, agents, prober, inbox)


async def play(
    folder: Path, mode: str, prober: str, hidden: Sequence[str], sought: Callable[[World], str] | None = None
) -> World:
    """Plays the script to its end, or until an answer is the one that is sought."""
    async with world_of(folder, mode, prober) as world:
        world.sought = sought or world.sought
        try:
            await begin(world)
            await listen(world, mode)
            for visibility in hidden:
                await conceal(world, visibility)
            await heard(world, "hidden")
            await go_on(world)
            await heard(world, "shown")
            await probe(world)
        except Found:
            return world
        finally:
            if world.listening is not None:
                world.listening.cancel()
                await asyncio.gather(world.listening, return_exceptions=True)
    await asyncio.to_thread(at_the_prompt, world, folder)
    return world


def at_the_prompt(world: World, folder: Path) -> None:
    """What another principal gets from the commands, and what is in a public export."""
    ids = world.ids
    unseen = world.hidden[0] if world.hidden else NOWHERE
    copied = folder / "copy.jsonl"
    for words in (
        ["show", "--agent", world.name],
        ["show", "--agent", world.name, "--json"],
        ["show", "--agent", world.name, unseen, ids["fact"]],
        ["query", "--agent", world.name, "--limit", "200"],
        ["query", "--agent", world.name, "--limit", "200", "--zone", "all", "--json"],
        ["archive", "--agent", world.name, f"{TEAM} {PRIVATE}"],
        ["explain", "--agent", world.name, unseen, ids["fact"], ids["law"]],
        ["export", "--public", str(copied)],
    ):
        done = CliRunner().invoke(cli, [words[0], "--data", str(folder), *words[1:]])
        world.keep(
            f"prompt {words[0]} {len(words)}", f"{done.exit_code} {done.output}".replace(str(folder), "")
        )
    world.exported = copied.read_text("utf-8")


def leak(bare: World, full: World, place: int) -> str:
    """Returns the answer in a place if the board with hidden items differs there, or has a word of them; else ""."""
    (asked, answer), (also, answered) = bare.answers[place], full.answers[place]
    assert asked == also or CANARY.search(answered)
    differs = full.plain(answered) != bare.plain(answer)
    if differs or (CANARY.search(answered) and not CANARY.search(asked)):
        return f"{asked}: {full.plain(answered)}"
    return ""


def leaks(bare: World, full: World) -> list[str]:
    """Answers in which the board with hidden items differs from the one without, or that have a word of them."""
    assert len(full.hidden) > 15
    assert len(bare.answers) == len(full.answers) > 250
    found = [told for place in range(len(full.answers)) if (told := leak(bare, full, place))]
    if CANARY.search(full.exported) or len(full.exported.splitlines()) != len(bare.exported.splitlines()):
        found.append("export")
    return found


def is_noticed(bare: World, folder: Path, hidden: Sequence[str], by: str) -> bool:
    """Plays as far as it takes to find a leak by which a mistake is noticed; tells whether there is one."""
    found = ""

    def sought(full: World) -> str:
        nonlocal found
        # Only now is it known what the ids in the answer before stand for.
        told = leak(bare, full, len(full.answers) - 2) if len(full.answers) > 1 else ""
        found = told if told.startswith(by) else ""
        return found

    full = asyncio.run(play(folder, boards.MODERN, "bob", hidden, sought))
    return bool(found) or any(told.startswith(by) for told in leaks(bare, full))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What bob is told where nothing is hidden."""
    return asyncio.run(play(tmp_path_factory.mktemp("bare"), boards.MODERN, "bob", ()))


@boards.both
async def test_I25_hidden_items_change_no_answer_to_anybody_else(
    bare: World, tmp_path: Path, mode: str
) -> None:
    if mode != boards.MODERN:
        bare = await play(tmp_path / "bare", mode, "bob", ())
    assert leaks(bare, await play(tmp_path / "full", mode, "bob", ("private", "team"))) == []


async def test_I25_private_items_change_no_answer_to_a_teammate(tmp_path: Path) -> None:
    bare = await play(tmp_path / "bare", boards.MODERN, "erin", ())
    assert leaks(bare, await play(tmp_path / "full", boards.MODERN, "erin", ("private",))) == []


@pytest.mark.parametrize("prober", ["bob", "erin"])
async def test_I25_what_a_read_rule_keeps_changes_no_answer_to_who_is_no_reader(
    bare: World, tmp_path: Path, prober: str
) -> None:
    if prober != "bob":
        bare = await play(tmp_path / "bare", boards.MODERN, prober, ())
    assert leaks(bare, await play(tmp_path / "full", boards.MODERN, prober, ("readers",))) == []


def _indexed(text: str) -> str:
    """A statement without what only brings it to an index."""
    return re.sub(r"\bowner IN \(SELECT '' .*? FROM kept_mark\) AND ", "", text)


def _asks_nobody(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            text = rows.sql(name)
            text = _indexed(text)
            opened = re.sub(r"\bowner IN \('', (\?\d), .*?\), \?\d\)\)", r"owner = owner AND \1 = \1", text)
            assert opened != text
            patch.setitem(rows._statements(), name, opened)

    return mutate


def _tells_everybody(patch: pytest.MonkeyPatch) -> None:
    async def audience(self: Announcer, board: str, mark: str | None) -> list[str | None]:
        return [None]

    patch.setattr(Announcer, "_audience", audience)


MISTAKES: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = [
    ("events", _asks_nobody("events_after", "log_stamps", "news_at"), "resource"),
    ("logs read for all", lambda patch: patch.setattr(Event, "visible_to", lambda *_: True), "wait"),
    ("archive search", _asks_nobody("items_by_number"), "query_archive"),
    ("counts", _asks_nobody("status_counts"), "resource"),
    ("conflicts", _asks_nobody("events_between", "last_event"), "transaction"),
    (
        "completions",
        lambda patch: patch.setattr(
            reading, "expanded", lambda _: f"{' AND '.join(['? = ?'] * (TIMES // 2))} AND ? = 'bob'"
        ),
        "complete",
    ),
    ("notifications", _tells_everybody, "heard"),
]


@pytest.mark.parametrize(("mutate", "by"), [pytest.param(m, by, id=name) for name, m, by in MISTAKES])
def test_each_place_that_tells_too_much_is_noticed(
    bare: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Any, by: str
) -> None:
    mutate(monkeypatch)
    assert is_noticed(bare, tmp_path, ("private", "team"), by)


def _forgets_rules(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            text = rows.sql(name)
            text = _indexed(text)
            opened = re.sub(r"owner GLOB 'read:\*' AND \(", "owner GLOB 'read:*' AND (1 OR ", text)
            assert opened != text
            patch.setitem(rows._statements(), name, opened)

    return mutate


def _sees_all_that_rules_keep(patch: pytest.MonkeyPatch) -> None:
    sees = Viewer.sees
    patch.setattr(Viewer, "sees", lambda self, mark: mark.startswith(READ) or sees(self, mark))


def _exports_what_rules_keep(patch: pytest.MonkeyPatch) -> None:
    text = rows.sql("history_events")
    opened = text.replace("e.owner = ''", "(e.owner = '' OR e.owner GLOB 'read:*')")
    assert opened != text
    patch.setitem(rows._statements(), "history_events", opened)


FORGOTTEN: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = [
    ("events", _forgets_rules("events_after", "log_stamps", "news_at"), "resource"),
    ("viewers", _sees_all_that_rules_keep, "wait"),
    ("archive search", _forgets_rules("items_by_number"), "query_archive"),
    ("counts", _forgets_rules("status_counts"), "resource"),
    ("conflicts", _forgets_rules("events_between", "last_event"), "transaction"),
    ("completions", lambda patch: patch.setattr(reading, "expanded", _opened), "complete"),
    ("notifications", _tells_everybody, "heard"),
    ("keys", _forgets_rules("items_by_key"), "read"),
    ("rules in force", _forgets_rules("law"), "constraint"),
    ("rules in force, said with files", _forgets_rules("law"), "artifact_read"),
    ("edges", _forgets_rules("edges_visible"), "query"),
    ("figures of views", _forgets_rules("own_notes"), "read"),
    ("footers", _forgets_rules("unseen"), "wait"),
    ("successors", _forgets_rules("replaced_by"), "get_context"),
    ("what goes next", _forgets_rules("ahead_least"), "read"),
    ("what is protected", _forgets_rules("protected_figures_visible"), "resource"),
    ("read sets", _forgets_rules("standing_items", "standing_entries"), "transaction"),
    ("public exports", _exports_what_rules_keep, "export"),
]


def _opened(text: str) -> str:
    return expanded(text).replace("owner GLOB 'read:*' AND (", "owner GLOB 'read:*' AND (1 OR ")


@pytest.mark.parametrize(("mutate", "by"), [pytest.param(m, by, id=name) for name, m, by in FORGOTTEN])
def test_each_place_that_forgets_read_rules_is_noticed(
    bare: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Any, by: str
) -> None:
    mutate(monkeypatch)
    assert is_noticed(bare, tmp_path, ("readers",), by)


@pytest.mark.parametrize("hidden", [("private", "team"), ("readers",)])
def test_without_a_mistake_nothing_is_noticed_on_the_way(
    bare: World, tmp_path: Path, hidden: Sequence[str]
) -> None:
    assert not is_noticed(bare, tmp_path, hidden, "")
