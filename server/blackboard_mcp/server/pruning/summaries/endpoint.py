"""A client for language models behind HTTP, which may hang, fail, lie or never stop sending.

`ChatEndpoint` speaks the chat protocol of OpenAI and of Ollama. The time for an answer is bounded, queue and
retries included, and so are the bytes read. Redirects, compressed bodies and proxies from the environment are
not accepted. After several failures in a row it makes no calls for a while. The key is sent only to the
configured address, and appears in no log and no error.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.errors import SummaryFailed
from blackboard_mcp.protocols.summaries import OLLAMA, SummaryTask

from .prompt import messages

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER = 256 * 1024
"""Most bytes of an answer that are read."""
MAX_CALLS = 2
"""Most calls at the same time."""
CONNECT_SECONDS = 5.0
RETRIES = 2
RETRY_AFTER_SECONDS = 5.0
"""Longest wait in seconds before another try, even when the server asks for more."""
FAILURES, PAUSE_SECONDS = 3, 60.0
"""Failed answers in a row after which calls stop, and the seconds that they stop for."""
_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})
_FIRST_WAIT = 0.25
_CONTEXT_STEP, _CONTEXT_MOST = 1_024, 32_768
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class _TryAgain(Exception):
    """Signals that the endpoint is busy or broken for the moment; `after` is the wait that it asks for, in
    seconds.
    """

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class ChatEndpoint:
    """A `Summariser` over HTTP. `url` is the base address, without `/chat/completions` or `/api/chat`.

    `seconds` bounds the time for one answer. `clock` returns seconds, for the pause after failures.
    """

    def __init__(
        self,
        kind: str,
        url: str,
        model: str,
        *,
        key: str | None = None,
        seconds: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = kind
        self.bytes_read = 0
        """Bytes of answers read so far."""
        self._path = url.rstrip("/") + ("/api/chat" if kind == OLLAMA else "/chat/completions")
        self._model = model
        self._key = key
        self._seconds = seconds
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._failures = 0
        self._closed_until = float("-inf")
        self._probing = False

    async def write(self, task: SummaryTask) -> str:
        """Returns the model's summary as `ask` gives it. Errors are those of `ask`."""
        return await self.ask(messages(task), task.limit_tokens)

    async def ask(
        self, asked: Sequence[Mapping[str, str]], limit_tokens: int, seconds: float | None = None
    ) -> str:
        """Returns the model's answer to messages, without NULs and halves of surrogate pairs: they cannot be stored.

        `limit_tokens` is about the length that is expected.
        `seconds` bounds the time for this answer, where it is less than that for any.

        Raises:
            SummaryFailed: there was no readable answer in time, or calls are stopped after failures.
        """
        if self.blocked():
            raise SummaryFailed(
                f"the {self.name} endpoint failed {self._failures} times in a row: left alone"
            )
        probing = self._probing = self._failures >= FAILURES
        seconds = self._seconds if seconds is None else min(seconds, self._seconds)
        try:
            async with asyncio.timeout(seconds), self._slots:
                answer = await self._ask(asked, limit_tokens)
        except TimeoutError:
            self._failed()
            raise SummaryFailed(f"the {self.name} endpoint took over {seconds:.3g} s") from None
        except SummaryFailed:
            self._failed()
            raise
        finally:
            if probing:
                self._probing = False
        self._failures = 0
        return answer

    def blocked(self) -> bool:
        """Tells whether calls are stopped, by failures or because the first call after them is still running."""
        if self._failures < FAILURES:
            return False
        return self._probing or self._clock() < self._closed_until

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            self._closed_until = self._clock() + PAUSE_SECONDS

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _opened(self) -> httpx2.AsyncClient:
        async with self._opening:
            if self._client is None:
                # Use a thread: the import and reading the certificates would block other requests for too long.
                self._client = await asyncio.to_thread(self._open)
            return self._client

    def _open(self) -> httpx2.AsyncClient:
        import httpx2

        headers = {"accept-encoding": "identity"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        return httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(self._seconds, connect=min(CONNECT_SECONDS, self._seconds)),
            limits=httpx2.Limits(max_connections=MAX_CALLS, keepalive_expiry=30.0),
            follow_redirects=False,
            trust_env=False,
            verify=self._path.startswith("https:"),
        )

    async def _ask(self, asked: Sequence[Mapping[str, str]], limit_tokens: int) -> str:
        client = await self._opened()
        body = self._body(asked, limit_tokens)
        for attempt in range(RETRIES + 1):
            try:
                return _content(self.name, await self._call(client, body))
            except _TryAgain as busy:
                if attempt == RETRIES:
                    raise SummaryFailed(str(busy)) from None
                wait = _FIRST_WAIT * 2**attempt if busy.after is None else busy.after
                await asyncio.sleep(min(RETRY_AFTER_SECONDS, wait) + random.uniform(0, 0.1))
        raise AssertionError("unreachable")

    def _body(self, asked: Sequence[Mapping[str, str]], limit_tokens: int) -> bytes:
        body: dict[str, Any] = {"model": self._model, "messages": list(asked), "stream": False}
        if self.name == OLLAMA:
            # Ollama's default context is a few thousand tokens, and it cuts longer prompts silently.
            needed = sum(len(m["content"]) for m in asked) // 2 + 4 * limit_tokens
            context = min(_CONTEXT_MOST, -(-needed // _CONTEXT_STEP) * _CONTEXT_STEP)
            body["options"] = {"temperature": 0, "num_ctx": context}
        return json.dumps(body, ensure_ascii=True).encode()

    async def _call(self, client: httpx2.AsyncClient, body: bytes) -> bytes:
        import httpx2

        try:
            async with client.stream(
                "POST", self._path, content=body, headers={"content-type": "application/json"}
            ) as response:
                self._check_head(response)
                read = bytearray()
                async for chunk in response.aiter_raw():
                    self.bytes_read += len(chunk)
                    read += chunk
                    if len(read) > MAX_ANSWER:
                        raise SummaryFailed(f"the {self.name} endpoint answered over {MAX_ANSWER:,} bytes")
                return bytes(read)
        except httpx2.ConnectError:
            raise _TryAgain(f"the {self.name} endpoint cannot be reached") from None
        except httpx2.TimeoutException:
            raise SummaryFailed(f"the {self.name} endpoint kept silent") from None
        except httpx2.HTTPError as error:
            raise SummaryFailed(f"the {self.name} endpoint broke off: {type(error).__name__}") from None

    def _check_head(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in _TRY_AGAIN:
            raise _TryAgain(
                f"the {self.name} endpoint answered {status}", _seconds(response.headers.get("retry-after"))
            )
        if 300 <= status < 400:
            raise SummaryFailed(f"the {self.name} endpoint answered {status}; redirects are not followed")
        if status != 200:
            raise SummaryFailed(f"the {self.name} endpoint answered {status}")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise SummaryFailed(f"the {self.name} endpoint compressed its answer, which was not asked for")


def _seconds(value: str | None) -> float | None:
    """Returns the seconds of a Retry-After header, or `None` without one or for a date."""
    if value is None or not value.strip().isdecimal():
        return None
    return float(value.strip()[:6])


def _content(kind: str, answer: bytes) -> str:
    try:
        data = json.loads(answer)
        message = data["message"] if kind == OLLAMA else data["choices"][0]["message"]
        text = message["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise SummaryFailed(f"the {kind} endpoint answered what is no chat completion") from None
    if isinstance(text, list):
        text = "".join(p["text"] for p in text if isinstance(p, dict) and isinstance(p.get("text"), str))
    if not isinstance(text, str) or not text.strip():
        raise SummaryFailed(f"the {kind} endpoint answered without words")
    storable = text.replace("\0", "\ufffd").encode(errors="replace").decode()
    return _THOUGHT.sub("", storable)
