"""The page that a browser gets at `/` of a real server: boards, what to give each client, and nothing that acts."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import httpx2
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import call
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
EVIL = "<script>alert(1)</script>\u202e"


class Shown(HTMLParser):
    """What stands on the page: text by tag, and the tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.pre: list[str] = []
        self.code: list[str] = []
        self.given: list[tuple[str, dict[str, str | None]]] = []
        self._into: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.given.append((tag, dict(attrs)))
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href", "style")]
        self._into = {"pre": self.pre, "code": self.code}.get(tag)
        if self._into is not None:
            self._into.append("")

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._into = None


def check_headers(answer: httpx2.Response) -> None:
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers


async def test_a_browser_is_shown_the_boards_and_what_to_give_each_client(tmp_path: Path) -> None:
    async with (
        http_server(tmp_path, "--tools", "core,admin") as server,
        http_clients(server.url)("ada") as ada,
        httpx2.AsyncClient(trust_env=False, verify=False, headers=BROWSER) as browser,
    ):
        await call(ada, "board", title=EVIL)
        await call(ada, "post", text="SECRET finding", board="side")
        root = server.url.removesuffix("mcp")
        answer = await browser.get(root)
        head = await browser.head(root)
        strange = await browser.get(root, headers={"Host": "evil.example"})
        posted = await browser.post(root)
    assert answer.status_code == head.status_code == 200
    check_headers(answer)
    shown = Shown(answer.text)
    assert not shown.tags & {"script", "img", "link", "iframe", "form", "a"}
    assert {"main", "side"} <= set(shown.code)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in answer.text
    for command in ("show", "watch"):  # on any machine, and whatever folder the server has
        assert f"blackboard-mcp {command} --url {server.url} --board NAME" in shown.code
    assert "td:not(:last-child),p{overflow-wrap:anywhere}" in answer.text, "a long name hides no other column"
    # For keys and screen readers: one landmark holds all, columns have names, and what scrolls takes the focus.
    assert [tag for tag, _ in shown.given if tag in ("body", "main", "h1")] == ["body", "main", "h1"]
    assert re.findall(r"<th[^>]*>(\w*)</th>", answer.text) == ["board", "title", "state"]
    assert {given.get("scope") for tag, given in shown.given if tag == "th"} == {"col"}
    assert {given.get("tabindex") for tag, given in shown.given if tag == "pre"} == {"0"}
    assert "SECRET" not in answer.text
    assert str(tmp_path) not in answer.text
    assert strange.status_code == 421
    assert posted.status_code == 405
    address, install, claude, *files = shown.pre
    assert address == server.url
    assert install == f"blackboard-mcp install CLIENT --url {server.url}"
    assert shlex.split(claude)[-3:] == [server.url, "--header", "X-Blackboard-Agent: claude-code"]
    for text in files:
        given = json.loads(text)
        (one,) = {**given.get("mcpServers", {}), **given.get("servers", {})}.values()
        assert one.get("url", one.get("args", [None, None])[1]) == server.url
        assert "BLACKBOARD_TOKEN" not in text


async def test_without_a_token_where_one_is_asked_for_the_page_names_no_board(tmp_path: Path) -> None:
    async with compose.credentials(Settings(data=tmp_path)) as store:
        made, token = new_access_token(
            agent="eve", owner="eve", roles={"side": Role.CONTRIBUTOR}, now=datetime.now(UTC), expires_at=None
        )
        await store.add_token(made)
    async with compose.installation(Settings(data=tmp_path), eager_index=False, background=False) as opened:
        for name in ("side", "hidden"):
            await opened.blackboard.post("ada", name, [PostFields(text="x")])
    async with (
        http_server(tmp_path) as server,
        httpx2.AsyncClient(trust_env=False, verify=False, headers=BROWSER) as browser,
    ):
        root = server.url.removesuffix("mcp")
        nobody = await browser.get(root)
        named = await browser.get(root, headers={"X-Blackboard-Agent": "eve"})
        eve = await browser.get(root, headers={"Authorization": f"Bearer {token}"})
        wrong = await browser.get(root, headers={"Authorization": "Bearer bbt_wrong"})
        program = await browser.get(root, headers={"Accept": "*/*"})
    for refused in (wrong, program):
        assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
    for answer in (nobody, named):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="blackboard"'
        check_headers(answer)
        assert not re.search(r"side|hidden", answer.text.partition("<h1>")[2])
        assert "asks for an access token" in answer.text
    assert eve.status_code == 200
    assert "side" in Shown(eve.text).code
    assert "hidden" not in eve.text.partition("<h1>")[2]
    assert token not in eve.text
    _, install, *others = Shown(eve.text).pre
    assert install.endswith("/mcp --token")
    for text in others:
        assert "BLACKBOARD_TOKEN" in text or "blackboard-token" in text
        assert "X-Blackboard-Agent" not in text
