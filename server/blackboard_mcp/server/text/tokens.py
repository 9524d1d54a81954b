"""Counting tokens: the two built-in vocabularies, and a user's own counter by import path.

The vocabularies come inside this package, so nothing is fetched, and tiktoken counts by them, which has wheels wherever
this package is supported. It lets other threads go on meanwhile. At worst (long runs of one letter or space) it takes
0.5 µs a character and more for longer texts, which is why long texts go in pieces and equal pieces are counted once.
"""

from __future__ import annotations

import importlib.util
import re
import threading
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.tokens import DEFAULT_TOKENIZER, Count, Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..plugins.loading import load, make

if TYPE_CHECKING:
    from tiktoken import Encoding

_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORDS = {
    "o200k_base": "|".join(
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}",
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}",
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    ),
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s",
}
"""What each vocabulary takes for a word: no token reaches beyond one."""

VOCABULARIES = tuple(_WORDS)

PIECE = 8_192
"""Longest text, in characters, that is counted in one go. Longer ones are cut before a space where there
is one, so that the sum over their pieces is that of the whole for prose, and at most a token more a
piece otherwise."""

_SMALL = 256
_BOARDS = 10_000
_LONGEST = 200
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_loading = threading.Lock()


class BpeTokenizer:
    """Counts by one of `VOCABULARIES`, which is loaded at the first count (about 0.2 s, once a process).

    Lone surrogates, which no vocabulary has, count as one question mark each.
    """

    def __init__(self, name: str = "o200k_base") -> None:
        if name not in VOCABULARIES:
            raise InvalidInput(f"'{name}' is not a vocabulary: {', '.join(VOCABULARIES)}.", value=name)
        if importlib.util.find_spec("tiktoken") is None:
            raise Refused(
                "The package tiktoken, which counts tokens, is not installed: install blackboard-mcp anew."
            )
        self._name = name
        self._core: Any = None
        self._remember = lru_cache(maxsize=4_096)(self._count)
        self._remember_piece = lru_cache(maxsize=64)(self._count)

    def __repr__(self) -> str:
        return f"BpeTokenizer({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    def count(self, text: str) -> int:
        """How many tokens `text` has; 0 for the empty text."""
        if len(text) <= _SMALL:
            return self._remember(text)
        if len(text) <= PIECE:
            return self._count(text)
        return sum(map(self._remember_piece, pieces(text)))

    def _count(self, text: str) -> int:
        core = self._core or self._load()
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "replace").decode()
        return int(core.count(text))

    def _load(self) -> Any:
        with _loading:
            if self._core is None:
                self._core = Vocabulary(encoding(self._name))
            return self._core


class Vocabulary:
    """Counts by what tiktoken makes of a vocabulary."""

    def __init__(self, words: Encoding) -> None:
        self._encoding = words

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


@cache
def encoding(name: str) -> Encoding:
    """One of `VOCABULARIES`, from the files of this package."""
    import tiktoken

    packed = zlib.decompress((files(__package__) / "vocabularies" / f"{name}.zlib").read_bytes())
    ranks: dict[bytes, int] = {}
    place = 0
    while place < len(packed):
        end = place + 1 + packed[place]
        ranks[packed[place + 1 : end]] = len(ranks)
        place = end
    return tiktoken.Encoding(name, pat_str=_WORDS[name], mergeable_ranks=ranks, special_tokens={})


def pieces(text: str) -> Iterator[str]:
    """`text` in consecutive pieces of at most `PIECE` characters, cut before a space near the end if any."""
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        space = text.rfind(" ", end - 512, end)
        if space > start and not text[space - 1].isspace():
            end = space
        yield text[start:end]
        start = end
    yield text[start:]


@dataclass(frozen=True, slots=True)
class _Named:
    """A tokenizer under the name by which boards keep it."""

    name: str
    count: Count


class Tokenizers:
    """The tokenizers of a server, and which of them counts on each board, as far as this process has seen.

    There are the vocabularies and the one that the launch names: code is imported by no other name than that.
    """

    def __init__(self, launched: str = DEFAULT_TOKENIZER) -> None:
        """
        Raises:
            InvalidInput: there is no such tokenizer.
        """
        found = load_tokenizer(launched)
        self.launched: Tokenizer = found if found.name == launched else _Named(launched, found.count)
        self.names = tuple(dict.fromkeys((*VOCABULARIES, launched)))
        self._on: dict[str, str] = {}

    def find(self, name: str) -> Tokenizer | None:
        """The tokenizer of that name; `None` where this server was not launched with it."""
        if name == self.launched.name:
            return self.launched
        return load_tokenizer(name) if name in VOCABULARIES else None

    def see(self, board: Board | None) -> None:
        """Remembers what counts on a board as it was found."""
        if board is not None and self.name_on(board.id) != board.config.tokenizer:
            if len(self._on) >= _BOARDS:
                self._on.pop(next(iter(self._on)))
            self._on[board.id] = board.config.tokenizer

    def name_on(self, board: str) -> str:
        return self._on.get(board, self.launched.name)

    def on(self, board: str) -> Tokenizer:
        """What fits texts of a board into budgets: its tokenizer, or the launch's own where this server lacks it."""
        return self.find(self.name_on(board)) or self.launched

    def writing(self, board: str) -> Tokenizer:
        """What counts what is written on a board.

        Raises:
            Refused: this server lacks it.
        """
        name = self.name_on(board)
        found = self.find(name)
        if found is None:
            raise Refused(
                f"'{board}' counts tokens by {name}, which this server was not launched with, so it can be read here "
                f"and not written. Nothing was changed; the operator launches the server with --tokenizer {name}, or "
                f'a steward chooses another: board(board="{board}", settings={{"tokenizer": "{DEFAULT_TOKENIZER}"}}).',
                tokenizer=name,
            )
        return found


def is_name(name: object) -> bool:
    """Whether a board may keep it as its tokenizer: a vocabulary, or the import path of one that some server has."""
    return name in VOCABULARIES or (
        isinstance(name, str) and len(name) <= _LONGEST and _PATH.match(name) is not None
    )


@lru_cache(maxsize=16)
def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer a configuration names: a vocabulary, or `module:attribute` for a user's own.

    The attribute is a tokenizer, or something that makes one when called without arguments. It runs
    code by name: pass only what the operator configured, never an argument of a tool.

    Raises:
        InvalidInput: there is no such tokenizer, or it does not do what `Tokenizer` says.
    """
    if name in VOCABULARIES:
        return BpeTokenizer(name)
    known = f"Known: {', '.join(VOCABULARIES)}, or an import path module:attribute of your own."
    if not _PATH.match(name):
        raise InvalidInput(f"'{name[:80]}' is not a tokenizer. {known}", value=name[:80])
    found = load(name, f"Tokenizer '{name}': ", value=name)
    if isinstance(found, type) or not hasattr(found, "count"):
        if not callable(found):
            raise InvalidInput(f"Tokenizer '{name}' has no method count(text).", value=name)
        found = make(found, f"Tokenizer '{name}' ", value=name)
    reason = unfit(found)
    if reason is not None:
        raise InvalidInput(f"Tokenizer '{name}' {reason}.", value=name)
    made: Tokenizer = found
    return made


def unfit(candidate: object) -> str | None:
    """What keeps `candidate` from being a `Tokenizer`, found by trying it; `None` when nothing does."""
    if not isinstance(getattr(candidate, "name", None), str):
        return "needs a name that is a string"
    count = getattr(candidate, "count", None)
    if not callable(count):
        return "needs a method count(text)"
    sample = "Seattle: 737,015 — 数 🙂\n" * 3
    try:
        empty, some, again = count(""), count(sample), count(sample)
    except Exception as error:
        return f"failed to count a text: {error!r}"
    for value in (empty, some):
        if not isinstance(value, int) or isinstance(value, bool):
            return f"counted {value!r}: a count is a whole number"
    if empty != 0:
        return f"counted {empty} tokens in the empty text instead of 0"
    if some <= 0 or some != again:
        return f"counted {some} and {again} tokens in the same text: expected one number above 0"
    return None
