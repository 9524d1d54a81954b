"""Token counts by two built-in vocabularies, or by a user's own counter named by import path.

The vocabularies are part of this package, so nothing is downloaded. tiktoken counts by them: it has wheels
for every supported platform and lets other threads run. At worst (long runs of one letter or space) it takes
0.5 µs a character, and more for longer texts. So long texts are counted in pieces, and equal pieces only
once.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
import re
import reprlib
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.tokens import DEFAULT_TOKENIZER, Count, Tokenizer
from blackboard_mcp.protocols.values import Newest, dataclass

from ..plugins.loading import load, make

if TYPE_CHECKING:
    from tiktoken import Encoding

logger = logging.getLogger(__name__)

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
"""Patterns by which each vocabulary splits a text into words; no token spans two words."""

VOCABULARIES = tuple(_WORDS)

PIECE = 8_192
"""Longest text, in characters, that is counted in one go. Longer texts are cut before a space where there is
one. For prose the sum over the pieces is then exact; otherwise it is at most one token too high for each
piece.
"""

MOST_PER_CHARACTER = 10
MOST_BESIDES = 100
"""A user's own tokenizer counts at most so many tokens for each character of a text, and so many besides."""

_SMALL = 256
_FIRST = 8
"""Short texts that are each counted by the tokens they can have, before the whole vocabulary is loaded."""
_LONGEST_TOKEN = 128
_BOARDS = 10_000
_LONGEST = 200
_BEGINS = re.compile("[A-Za-z0-9>]")
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_loading = threading.Lock()


class BpeTokenizer:
    """Tokenizer by one of `VOCABULARIES`.

    The whole vocabulary is loaded once a process, which takes about 0.2 s, when a text is long or is not among the
    first: many programs count a few short texts and end. Lone surrogates, which no vocabulary has, count as one
    question mark each.
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
        self._first = 0
        self._remember = lru_cache(maxsize=4_096)(self._count)
        self._remember_piece = lru_cache(maxsize=64)(self._count)

    def __repr__(self) -> str:
        return f"BpeTokenizer({self._name!r})"

    @property
    def name(self) -> str:
        """Name of the vocabulary."""
        return self._name

    def count(self, text: str) -> int:
        """Returns the number of tokens in `text`; 0 for the empty text."""
        if not text:
            return 0
        if len(text) <= _SMALL:
            return self._remember(text)
        if len(text) <= PIECE:
            return self._count(text)
        return sum(map(self._remember_piece, pieces(text)))

    def count_lines(self, lines: Sequence[str]) -> int:
        """Returns the number of tokens in the lines joined by line ends, which is what `count` says of that text.

        Lines that were counted before need not be again: no word of a text goes on over the end of a line into a
        letter, a digit or a `>`.
        """
        if sum(map(len, lines)) + len(lines) > PIECE:
            return self.count("\n".join(lines))
        total, parts = 0, [f"{line}\n" for line in lines[:-1]] + [*lines[-1:]]
        begun = ""
        for part in parts:
            if begun and _BEGINS.match(part):
                total += self.count(begun)
                begun = part
            else:
                begun += part
        return total + self.count(begun)

    def _count(self, text: str) -> int:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raw = text.encode("utf-8", "replace")
            text = raw.decode()
        if self._core is None and self._first < _FIRST and len(raw) <= _SMALL:
            self._first += 1
            return Vocabulary(_encoding_of(self._name, raw)).count(text)
        return int((self._core or self._load()).count(text))

    def _load(self) -> Any:
        with _loading:
            if self._core is None:
                self._core = Vocabulary(encoding(self._name))
            return self._core


class Vocabulary:
    """Counter that wraps an encoding of tiktoken."""

    def __init__(self, words: Encoding) -> None:
        self._encoding = words

    def count(self, text: str) -> int:
        """Returns the number of tokens in `text`."""
        return len(self._encoding.encode_ordinary(text))


@cache
def encoding(name: str) -> Encoding:
    """Returns the tiktoken encoding for one of `VOCABULARIES`."""
    whole = _encoding(name, _tokens(name))
    _tokens.cache_clear()  # no other part of the vocabulary is asked for once it is loaded
    return whole


@cache
def _tokens(name: str) -> list[bytes]:
    """Returns the tokens of one of `VOCABULARIES` by rank, read from the files of this package."""
    tokens = (files(__package__) / "vocabularies" / f"{name}.tokens").read_bytes().split(b"\xff")
    tokens[tokens.index(b"")] = b"\xff"  # the byte stands between the tokens, so it is itself an empty place
    return tokens


def _encoding_of(name: str, raw: bytes) -> Encoding:
    """Returns an encoding that counts this text alone: no other tokens of the vocabulary can occur in it."""
    parts = {
        raw[start:end]
        for start in range(len(raw))
        for end in range(start + 1, min(start + _LONGEST_TOKEN, len(raw)) + 1)
    }
    return _encoding(name, filter(parts.__contains__, _tokens(name)))


def _encoding(name: str, tokens: Iterable[bytes]) -> Encoding:
    """Returns a tiktoken encoding by these tokens of a vocabulary, in the order of their ranks."""
    import tiktoken

    ranks = dict(zip(tokens, itertools.count()))
    made = tiktoken.Encoding(name, pat_str=_WORDS[name], mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # it counts by a copy, and would keep this one: 14 MB for a whole vocabulary
    return made


def pieces(text: str) -> Iterator[str]:
    """Yields `text` in consecutive pieces of at most `PIECE` characters, cut before a space near the end
    where there is one.
    """
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        space = text.rfind(" ", end - 512, end)
        if space > start and not text[space - 1].isspace():
            end = space
        yield text[start:end]
        start = end
    yield text[start:]


def count_lines(lines: Sequence[str], tokenizer: Tokenizer) -> int:
    """Returns the number of tokens in the lines joined by line ends."""
    if isinstance(tokenizer, BpeTokenizer):
        return tokenizer.count_lines(lines)
    return tokenizer.count("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Named:
    """Tokenizer under the name that boards store."""

    name: str
    count: Count


class CheckedTokenizer:
    """A user's own tokenizer, whose counts are checked.

    A text for which it raises, or gives what is no count, is counted by the default vocabulary; the log says so once.
    """

    def __init__(self, path: str, name: str, count: Callable[[str], object]) -> None:
        """Takes the import path, for the log, and the name and the method of the tokenizer."""
        self._path = path
        self.name = name
        self._count = count
        self._told = False

    def count(self, text: str) -> int:
        """Returns the number of tokens in `text`."""
        tokens, fault, error = _attempt(self._count, text)
        if fault is None:
            return tokens
        if not self._told:
            self._told = True
            logger.warning(
                "tokenizer '%s' %s. %s counts such texts. Mend the class, and start the server anew; said once",
                self._path,
                fault,
                DEFAULT_TOKENIZER,
                exc_info=error,
            )
        return load_tokenizer(DEFAULT_TOKENIZER).count(text)


def _attempt(count: Callable[[str], object], text: str) -> tuple[int, str | None, BaseException | None]:
    """Returns the count of a text, and what is wrong with it, with the error if one was raised."""
    try:
        tokens = count(text)
    except (Exception, SystemExit, CancelledError) as error:
        return 0, f"failed to count a text: it raised {type(error).__name__}", error
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return 0, f"counted {reprlib.repr(tokens)}: a count is a whole number", None
    most = MOST_PER_CHARACTER * len(text) + MOST_BESIDES
    if not 0 <= tokens <= most:
        shown = tokens if abs(tokens) < 10**18 else "a number of more than 18 digits"
        return 0, f"counted {shown} tokens in {len(text)} characters: 0 to {most} can be", None
    return int(tokens), None, None


class Tokenizers:
    """The tokenizers of a server, and the one that each board counts by, as far as this process has seen the
    board.

    They are the built-in vocabularies and the one from the launch configuration. No other name can import
    code.
    """

    def __init__(self, launched: str = DEFAULT_TOKENIZER) -> None:
        """Loads the tokenizer from the launch configuration.

        Raises:
            InvalidInput: there is no such tokenizer.
        """
        found = load_tokenizer(launched)
        self.launched: Tokenizer = found if found.name == launched else _Named(launched, found.count)
        self.names = tuple(dict.fromkeys((*VOCABULARIES, launched)))
        self._on: Newest[str, str] = Newest(_BOARDS)

    def find(self, name: str) -> Tokenizer | None:
        """Returns the tokenizer of that name, or `None` where this server was not launched with it."""
        if name == self.launched.name:
            return self.launched
        return load_tokenizer(name) if name in VOCABULARIES else None

    def see(self, board: Board | None) -> None:
        """Remembers which tokenizer a board counts by."""
        if board is not None and self.name_on(board.id) != board.config.tokenizer:
            self._on[board.id] = board.config.tokenizer

    def name_on(self, board: str) -> str:
        """Returns the name of the tokenizer that a board counts by; the launch's where the board has not been
        seen.
        """
        return self._on.get(board, self.launched.name)

    def on(self, board: str) -> Tokenizer:
        """Returns the tokenizer that fits a board's texts into budgets: the board's own, or the launch's
        where this server lacks it.
        """
        return self.find(self.name_on(board)) or self.launched

    def writing(self, board: str) -> Tokenizer:
        """Returns the tokenizer that counts new texts on a board.

        Raises:
            Refused: this server lacks the board's tokenizer.
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
    """Tells whether a board may store this name as its tokenizer: a vocabulary, or something in the form of
    an import path.
    """
    return name in VOCABULARIES or (
        isinstance(name, str) and len(name) <= _LONGEST and _PATH.match(name) is not None
    )


@lru_cache(maxsize=16)
def load_tokenizer(name: str) -> Tokenizer:
    """Returns the tokenizer that a configuration names: a vocabulary, or `module:attribute` for a user's own.

    The attribute is a tokenizer, or a callable without arguments that returns one. Loading runs the named
    code: pass only names from the operator's configuration, never an argument of a tool.

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
    return CheckedTokenizer(name, found.name, found.count)


def unfit(candidate: object) -> str | None:
    """Returns why `candidate` cannot serve as a `Tokenizer`, found by trying it; `None` when it can."""
    if not isinstance(getattr(candidate, "name", None), str):
        return "needs a name that is a string"
    count = getattr(candidate, "count", None)
    if not callable(count):
        return "needs a method count(text)"
    sample = "Seattle: 737,015 — 数 🙂\n" * 3
    tried = [_attempt(count, text) for text in ("", sample, sample)]
    for _, fault, error in tried:
        if fault is not None:
            return fault if error is None else f"{fault}: {error}"
    empty, some, again = (tokens for tokens, _, _ in tried)
    if empty != 0:
        return f"counted {empty} tokens in the empty text instead of 0"
    if some <= 0 or some != again:
        return f"counted {some} and {again} tokens in the same text: expected one number above 0"
    return None
