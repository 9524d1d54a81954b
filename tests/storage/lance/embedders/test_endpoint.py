"""The endpoint embedder against a real HTTP server on this machine that answers, lies, hangs and floods."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.lance import indexer as indexing
from blackboard_mcp.storage.lance.embedders import endpoint as endpoint_module
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.embedders.endpoint import BATCH, EndpointEmbedder, EndpointError
from blackboard_mcp.storage.lance.index import MODEL_DOWN, OTHER_MODEL, LanceArchiveIndex
from blackboard_mcp.storage.lance.indexer import Indexer
from index_searches import search_archive
from patience import PATIENCE

Make = Callable[..., ArchiveDocument]
Says = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(
            (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        )
        says = self.server.next.pop(0) if self.server.next else self.server.says
        says(self, body)

    def answer(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Endpoint(ThreadingHTTPServer):
    """What it says next, in order; then `says`, for ever. `asked` is every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.next: list[Says] = []
        self.says: Says = honest()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def vector(text: str, dimension: int) -> list[float]:
    """A bag of letters, so that equal words are near each other."""
    made = [0.1] * dimension
    for word in text.lower().split():
        made[sum(map(ord, word)) % dimension] += 1.0
    return made


def honest(dimension: int = 16, change: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows) -> Says:
    def says(handler: Handler, body: dict[str, Any]) -> None:
        rows = [{"index": i, "embedding": vector(t, dimension)} for i, t in enumerate(body["input"])]
        handler.answer(json.dumps({"data": change(rows[::-1])}).encode())

    return says


def raw(data: bytes, status: int = 200, **headers: str) -> Says:
    return lambda handler, _: handler.answer(data, status, **headers)


@pytest.fixture
def served() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def model(served: Endpoint, pauses: list[float]) -> Iterator[EndpointEmbedder]:
    made = EndpointEmbedder(served.url, "tiny", pause=pauses.append)
    yield made
    made.close()


def test_vectors_come_in_the_order_of_the_texts_in_batches_and_of_unit_length(
    served: Endpoint, model: EndpointEmbedder
) -> None:
    texts = [f"word{n} x" for n in range(BATCH * 2 + 3)]
    made: Any = model.embed_documents(texts)
    assert made.shape == (len(texts), 16)
    assert made.dtype == np.float32
    assert [len(body["input"]) for _, _, body in served.asked] == [BATCH, BATCH, 3]
    assert {path for path, _, _ in served.asked} == {"/v1/embeddings"}
    for place in (0, BATCH, len(texts) - 1):
        expected = np.array(vector(texts[place], 16))
        assert np.allclose(made[place], expected / np.linalg.norm(expected), atol=1e-6)
    assert model.dimension == 16


def test_prefixes_key_and_model_are_sent_and_nothing_of_the_environment(
    served: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    made = EndpointEmbedder(served.url, "tiny", key="secret", query_prefix="q: ", passage_prefix="p: ")
    made.embed_documents(["one", " ", "two"])
    made.embed_query("three")
    made.close()
    assert [body["input"] for _, _, body in served.asked] == [["p: one", "p: two"], ["q: three"]]
    assert {body["model"] for _, _, body in served.asked} == {"tiny"}
    assert all(headers["authorization"] == "Bearer secret" for _, headers, _ in served.asked)
    assert "secret" not in made.name
    assert made.name != EndpointEmbedder(served.url, "tiny").name


def test_texts_without_words_have_no_vector_and_are_not_sent(
    served: Endpoint, model: EndpointEmbedder
) -> None:
    model.embed_documents(["one"])
    made: Any = model.embed_documents(["", "  \n"])
    assert made.shape == (2, 16)
    assert not made.any()
    assert len(served.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_that_may_pass_is_asked_again(
    served: Endpoint, model: EndpointEmbedder, pauses: list[float], status: int
) -> None:
    served.next = [raw(b"{}", status), raw(b"{}", status, retry_after="3")]
    assert model.embed_documents(["one"]) is not None
    assert len(served.asked) == 3
    assert pauses == [0.5, 3.0]


def test_trouble_that_stays_is_an_error(
    served: Endpoint, model: EndpointEmbedder, pauses: list[float]
) -> None:
    served.says = raw(b"{}", 500, retry_after="999999")
    with pytest.raises(EndpointError, match="500"):
        model.embed_documents(["one"])
    assert len(served.asked) == 4
    assert max(pauses) <= 10


LIES: dict[str, Says] = {
    "too few": honest(change=lambda rows: rows[:-1]),
    "too many": honest(change=lambda rows: [*rows, rows[0] | {"index": len(rows)}]),
    "an index twice": honest(change=lambda rows: [rows[0], rows[0]]),
    "no index": honest(change=lambda rows: [{"embedding": r["embedding"]} for r in rows]),
    "dimensions that differ": honest(change=lambda rows: [rows[0], {"index": 0, "embedding": [1.0]}]),
    "NaN": honest(change=lambda rows: [r | {"embedding": [float("nan")] * 16} for r in rows]),
    "infinity": honest(change=lambda rows: [r | {"embedding": [1e308] * 16} for r in rows]),
    "zero": honest(change=lambda rows: [r | {"embedding": [0.0] * 16} for r in rows]),
    "no numbers": honest(change=lambda rows: [r | {"embedding": "AAAA"} for r in rows]),
    "nothing": honest(change=lambda rows: [r | {"embedding": []} for r in rows]),
    "deep": raw(b"[" * 100_000),
    "garbage": raw(b"\xff\x00 not json"),
    "a list": raw(b"[1, 2]"),
    "empty": raw(b""),
    "a refusal": raw(b"{}", 401),
    "a redirect": raw(b"", 302, location="http://127.0.0.1:9/"),
    "an encoding": raw(b"\x1f\x8b", content_encoding="gzip"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_cannot_be_right_is_refused_at_once(
    served: Endpoint, model: EndpointEmbedder, lie: str
) -> None:
    served.says = LIES[lie]
    with pytest.raises(EndpointError):
        model.embed_documents(["one", "two"])
    assert len(served.asked) == 1


def test_another_dimension_than_before_is_refused(served: Endpoint, model: EndpointEmbedder) -> None:
    model.embed_documents(["one"])
    served.says = honest(8)
    with pytest.raises(EndpointError, match="8 dimensions, before it were 16"):
        model.embed_documents(["two"])


def test_a_flood_is_cut_off(served: Endpoint, model: EndpointEmbedder) -> None:
    sent = []

    def flood(handler: Handler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" " * 1_000_000)
            sent.append(1_000_000)

    served.says = flood
    with pytest.raises(EndpointError, match="larger than"):
        model.embed_documents(["one"])
    assert sum(sent) < 60_000_000


def hang(handler: Handler, _: dict[str, Any]) -> None:
    handler.server.closing.wait()


def drip(handler: Handler, _: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.closing.wait(0.02):
        handler.wfile.write(b" ")


@pytest.mark.parametrize("says", [hang, drip])
def test_a_query_waits_for_its_limit_and_the_next_not_at_all(
    served: Endpoint, model: EndpointEmbedder, monkeypatch: pytest.MonkeyPatch, says: Says
) -> None:
    monkeypatch.setattr(endpoint_module, "_QUERY_SECONDS", 0.3)
    model.embed_documents(["the first connection"])
    served.asked.clear()
    served.says = says
    with pytest.raises(EndpointError):
        model.embed_query("one")
    with pytest.raises(EndpointError, match="a moment ago"):
        model.embed_query("two")
    assert len(served.asked) == 1


def test_after_a_rest_queries_are_sent_again(served: Endpoint) -> None:
    now = [0.0]
    made = EndpointEmbedder(served.url, "tiny", clock=lambda: now[0])
    served.next = [raw(b"{}", 500)]
    with pytest.raises(EndpointError):
        made.embed_query("one")
    now[0] = 31.0
    assert np.linalg.norm(np.asarray(made.embed_query("one"))) == pytest.approx(1.0)
    made.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "http://",
        "ftp://x/",
        "http://u:p@x/",
        "http://x/?k=1",
        "http://x/#a",
        "http://ü/",
    ],
)
def test_an_address_that_is_no_plain_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|port"):
        EndpointEmbedder(url, "m")


@pytest.mark.parametrize("key", ["a\nb", "ü", " a"])
def test_a_key_that_no_header_may_have_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="header") as caught:
        EndpointEmbedder("http://x", "m", key=key)
    assert key not in str(caught.value)
    assert key not in repr(EmbedderChoice("openai", "http://x", "m", key=key))


# With the index


async def test_search_goes_on_by_words_while_the_endpoint_is_down_and_by_meaning_after(
    served: Endpoint, tmp_path: Path, journal: Any, document: Make
) -> None:
    now = [0.0]
    model = EndpointEmbedder(served.url, "tiny", pause=lambda _: None, clock=lambda: now[0])
    index = LanceArchiveIndex(tmp_path / "archive", model, vector_weight=0.4)
    journal.archive([document(n) for n in range(1, 30)])
    await Indexer(journal, index, "me").drain()
    query = ArchiveQuery("main", "finding topic3")
    assert (await search_archive(journal, index, query)).mode == "hybrid"
    served.says = raw(b"{}", 500)
    journal.archive([document(40, "a finding that waits")])
    answer = await search_archive(journal, index, ArchiveQuery("main", "finding", limit=100))
    assert (answer.mode, len(answer.hits)) == ("lexical", 30)
    assert answer.notice.startswith(MODEL_DOWN)
    asked = len(served.asked)
    assert (await search_archive(journal, index, query)).mode == "lexical"
    assert len(served.asked) == asked
    served.says = honest()
    now[0] = 60.0
    await Indexer(journal, index, "me").drain()
    assert (await search_archive(journal, index, query)).mode == "hybrid"
    assert journal.outbox_size() == 0
    await index.close()


async def test_another_model_is_filled_beside_the_old_index_which_answers_by_words_meanwhile(
    served: Endpoint, tmp_path: Path, journal: Any, document: Make
) -> None:
    folder = tmp_path / "archive"
    journal.archive([document(n) for n in range(1, 150)])
    old = LanceArchiveIndex(folder, None)
    await Indexer(journal, old, "me").drain()
    life = await old.life()

    index = LanceArchiveIndex(folder, EndpointEmbedder(served.url, "tiny", pause=lambda _: None))
    indexer = Indexer(journal, index, "me")
    query = ArchiveQuery("main", "finding", limit=200)
    served.next = [honest(), raw(b"{}", 400)]
    with pytest.raises(Exception, match="400"):
        await indexer.repair()
    assert await index.life() == life
    answer = await index.search(query)
    assert (answer.mode, answer.notice, len(answer.hits)) == ("lexical", OTHER_MODEL, 149)

    repair = await indexer.repair()
    assert repair is not None
    assert repair.rebuilt
    assert await index.life() != life
    assert await index.keys() == await journal.archived_keys()
    assert (await index.search(query)).mode == "hybrid"
    assert {p.name for p in folder.iterdir() if p.is_dir()} == {(folder / "current").read_text()}
    await index.close()
    await old.close()


async def test_other_dimensions_under_the_same_name_are_never_mixed(
    served: Endpoint, tmp_path: Path, journal: Any, document: Make
) -> None:
    index = LanceArchiveIndex(tmp_path / "archive", EndpointEmbedder(served.url, "tiny"))
    journal.archive([document(n) for n in range(1, 9)])
    await Indexer(journal, index, "me").drain()
    await index.close()
    served.says = honest(8)
    again = LanceArchiveIndex(tmp_path / "archive", EndpointEmbedder(served.url, "tiny"))
    answer = await again.search(ArchiveQuery("main", "finding"))
    assert (answer.mode, len(answer.hits)) == ("lexical", 8)
    with pytest.raises(Exception, match="16 dimensions, the model makes 8"):
        await again.upsert([document(9)])
    rebuilt = await Indexer(journal, again, "me").rebuild()
    assert rebuilt == 8
    assert (await again.search(ArchiveQuery("main", "finding"))).mode == "hybrid"
    await again.close()


async def test_a_model_whose_dimension_changes_while_it_is_used_is_indexed_anew(
    served: Endpoint, tmp_path: Path, journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_BACKOFF_SECONDS", (0.01, 0.01))
    index = LanceArchiveIndex(tmp_path / "archive", EndpointEmbedder(served.url, "tiny"))
    journal.archive([document(n) for n in range(1, 9)])
    indexer = Indexer(journal, index, "me")
    await indexer.drain()
    served.says = honest(8)
    journal.archive([document(9)])
    working = asyncio.create_task(indexer.run())
    async with asyncio.timeout(PATIENCE):
        while journal.outbox_size():  # noqa: ASYNC110 - what is indexed is told by nothing else
            await asyncio.sleep(0.02)
    working.cancel()
    await asyncio.wait([working])
    answer = await index.search(ArchiveQuery("main", "finding"))
    assert (answer.mode, len(answer.hits)) == ("hybrid", 9)
    await index.close()
