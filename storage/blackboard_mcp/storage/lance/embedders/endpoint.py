"""Embeddings from an OpenAI-compatible endpoint: `POST {base}/embeddings`.

The endpoint is not trusted: its answer is bounded in bytes and in time, and accepted only if it has one finite vector
of the same dimension for every text. `httpx2` is imported at the first call.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

BATCH = 64
MOST_BYTES = 32_000_000
LONGEST_TEXT = 8_000
"""Most characters of a text that are sent; a window of two hundred words has about a fifth of that."""

_MOST_DIMENSIONS = 8_192
_LARGEST = 1e12
_ATTEMPTS = 4
_BATCH_SECONDS = 60.0
_QUERY_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_REST_SECONDS = 30.0


class EndpointError(RuntimeError):
    """The endpoint returned no vectors. The message says why, without the endpoint's own words."""


class _Passing(EndpointError):
    """A failure that may pass. `pause` is the number of seconds for which the endpoint asked not to be called."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class EndpointEmbedder:
    """The model named `model` at `url`, the base of an OpenAI-compatible API. Safe for threads.

    The prefixes are put before every query and every passage, as some models require. After a failed query, further
    queries fail at once for half a minute, so that searches do not wait for an endpoint that is down.

    Raises:
        ValueError: `url` is not a plain http or https address, or `key` cannot be sent.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        query_prefix: str = "",
        passage_prefix: str = "",
        pause: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = f"{checked_url(url)}/embeddings"
        self._model = model
        if not key.isascii() or not (key.isprintable() and key == key.strip()):
            raise ValueError("the key has characters that no header may have")
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._query_prefix, self._passage_prefix = query_prefix, passage_prefix
        self._over = threading.Event()
        # By default a pause ends when the embedder is closed.
        self._pause, self._clock = pause or self._over.wait, clock
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._client: Any = None
        self._dimension = 0
        self._rests_until = float("-inf")

    @property
    def name(self) -> str:
        """The model, with a hash of the prefix for passages: another prefix gives other vectors."""
        if not self._passage_prefix:
            return f"endpoint:{self._model}"
        mark = hashlib.sha256(self._passage_prefix.encode("utf-8", "replace")).hexdigest()[:8]
        return f"endpoint:{self._model}:{mark}"

    @property
    def dimension(self) -> int:
        """The length of the vectors in the last answer; calls the endpoint if there was none yet."""
        if not self._dimension:
            self.embed_documents(["dimension"])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> object:
        """Returns vectors as `Embedder` describes them.

        Raises:
            EndpointError: the endpoint returned none, after several attempts.
        """
        import numpy as np

        said = [self._prepared(self._passage_prefix, text) for text in texts]
        asked = [place for place, text in enumerate(said) if text]
        found: list[tuple[list[int], Any]] = []
        for start in range(0, len(asked), BATCH):
            places = asked[start : start + BATCH]
            found.append((places, self._patiently([said[place] for place in places])))
        out = np.zeros((len(said), self._dimension), dtype=np.float32)
        for places, vectors in found:
            out[places] = vectors
        return out

    def embed_query(self, text: str) -> object:
        """Returns a vector as `Embedder` describes it.

        Raises:
            EndpointError: the endpoint returned none, or did not a short while ago.
        """
        import numpy as np

        said = self._prepared(self._query_prefix, text)
        if not said:
            return np.zeros(self._dimension, dtype=np.float32)
        if self._clock() < self._rests_until:
            raise EndpointError("the endpoint failed a moment ago")
        try:
            return self._ask([said], _QUERY_SECONDS)[0]
        except EndpointError:
            self._rests_until = self._clock() + _REST_SECONDS
            raise

    def close(self) -> None:
        """Closes the embedder for good; calls under way fail at once, even if the endpoint is silent."""
        self._over.set()
        with self._lock:
            client, self._client = self._client, None
            sockets, self._sockets = self._sockets, set()
        for end in sockets:
            # Only a shutdown wakes a thread that waits for an answer.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if client is not None:
            client.close()

    def _prepared(self, prefix: str, text: str) -> str:
        """Returns what is sent for a text, without what UTF-8 cannot encode; empty for a blank text."""
        kept = text[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")
        return prefix + kept if kept.strip() else ""

    def _patiently(self, texts: list[str]) -> Any:
        """Returns the vectors of a batch, and repeats the request after failures that may pass."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._ask(texts, _BATCH_SECONDS)
            except _Passing as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                self._pause(min(max(_FIRST_PAUSE * 2**attempt, error.pause), _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _ask(self, texts: list[str], seconds: float) -> Any:
        """Returns the endpoint's vectors of the texts, rows unit length, from one request."""
        import httpx2

        if self._over.is_set():
            raise EndpointError("the embedder was closed")
        deadline = time.monotonic() + seconds
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        timeout = httpx2.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
        try:
            with self._wire().stream(
                "POST", self._url, json=body, timeout=timeout, extensions={"trace": self._note_socket}
            ) as answer:
                if answer.status_code == 429 or answer.status_code >= 500:
                    raise _Passing(f"the endpoint answered {answer.status_code}", _asked_pause(answer))
                if answer.status_code != 200:
                    raise EndpointError(f"the endpoint answered {answer.status_code}")
                data = _body(answer, deadline)
        except (httpx2.HTTPError, OSError, RuntimeError) as error:
            if self._over.is_set():
                raise EndpointError("the embedder was closed") from error
            if isinstance(error, EndpointError) or not isinstance(error, httpx2.HTTPError):
                raise
            raise _Passing(f"the endpoint did not answer ({type(error).__name__})") from error
        return self._vectors(data, len(texts))

    def _wire(self) -> Any:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(
                    follow_redirects=False,
                    trust_env=False,
                    headers=self._headers,
                    verify=self._url.startswith("https:"),
                )
            return self._client

    def _note_socket(self, step: str, told: Mapping[str, Any]) -> None:
        """Keeps the socket of each new connection, so that `close` can end it under a waiting thread."""
        if step not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        end = told["return_value"].get_extra_info("socket")
        if isinstance(end, socket.socket):
            with self._lock:
                self._sockets = {known for known in self._sockets if known.fileno() >= 0} | {end}
        if self._over.is_set():
            raise EndpointError("the embedder was closed")

    def _vectors(self, data: bytes, count: int) -> Any:
        import numpy as np

        try:
            rows = sorted(json.loads(data)["data"], key=lambda row: row["index"])
            indices = [row["index"] for row in rows]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float64)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
            raise EndpointError("the endpoint's answer is no list of vectors") from error
        if indices != list(range(count)):
            raise EndpointError(f"the endpoint answered {len(rows)} vectors to {count} texts, or others")
        if vectors.ndim != 2 or not 1 <= vectors.shape[1] <= _MOST_DIMENSIONS:
            raise EndpointError("the endpoint's vectors have no usable dimension")
        if not np.isfinite(vectors).all() or np.abs(vectors).max() > _LARGEST:
            raise EndpointError("the endpoint's vectors are not finite")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if (lengths < 1 / _LARGEST).any():
            raise EndpointError("the endpoint's vectors have no direction")
        with self._lock:
            before, self._dimension = self._dimension, int(vectors.shape[1])
        if before not in (0, vectors.shape[1]):
            # If the next answers are so as well, it is another model, for which the index is built anew.
            raise EndpointError(
                f"the endpoint's vectors have {vectors.shape[1]} dimensions, before it were {before}"
            )
        return (vectors / lengths).astype(np.float32)


def checked_url(url: str) -> str:
    """Returns `url` without a slash at its end.

    Raises:
        ValueError: it is not a plain http or https address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("it must not hold a name, a password, a query or a fragment")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("it must be plain ASCII")
    return url.rstrip("/")


def _asked_pause(answer: Any) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


def _body(answer: Any, deadline: float) -> bytes:
    """Returns the answer's body.

    Raises:
        EndpointError: it is compressed, too large or too slow.
    """
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise EndpointError("the endpoint's answer is encoded, which was not asked for")
    parts: list[bytes] = []
    size = 0
    for part in answer.iter_raw():
        size += len(part)
        if size > MOST_BYTES:
            raise EndpointError(f"the endpoint's answer is larger than {MOST_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise _Passing("the endpoint was too slow")
        parts.append(part)
    return b"".join(parts)
