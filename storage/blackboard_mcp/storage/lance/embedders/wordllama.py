"""The bundled embedding model: static token vectors, without network or key.

It reads the 256-dimension data inside the `wordllama` wheel directly. The wheel's own loader is never imported: it
looks elsewhere, tries the network and reconfigures logging.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.archive import Embedder

_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_BATCH = 256
_lock = threading.Lock()


def load_bundled_embedder() -> Embedder | None:
    """Returns the bundled model, or `None` if its packages are not installed. Its data are read at first use."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    if not all((folder / name).is_file() for name in (_WEIGHTS, _TOKENIZER)):
        return None
    if find_spec("tokenizers") is None:
        return None
    return StaticEmbedder(folder)


class StaticEmbedder:
    """An embedder that takes the mean of a text's token vectors. Safe to call from several threads."""

    name = "wordllama-l2-supercat-256"
    dimension = 256

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def embed_documents(self, texts: Sequence[str]) -> object:
        """Returns vectors as `Embedder` describes them."""
        import numpy as np

        table, tokenizer = self._load()
        out = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            for row, encoding in enumerate(tokenizer.encode_batch(batch, add_special_tokens=False)):
                if encoding.ids:
                    out[start + row] = table[encoding.ids].mean(axis=0, dtype=np.float32)
        return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)

    def embed_query(self, text: str) -> object:
        """Returns a vector as `Embedder` describes it."""
        return self.embed_documents([text])[0]  # type: ignore[index]

    def embed_weighted(self, parts: Sequence[tuple[str, float]]) -> object:
        """Returns the vector of a query whose words weigh differently: `(dimension,) float32`, unit length.

        The parts are pairs of word and weight (at least 0) in the query's order. The vector is zero if no word counts.
        """
        import numpy as np

        table, tokenizer = self._load()
        total = np.zeros(self.dimension, dtype=np.float32)
        encoded = tokenizer.encode_batch([word for word, _ in parts], add_special_tokens=False)
        for encoding, (_, weight) in zip(encoded, parts, strict=True):
            if encoding.ids:
                total += table[encoding.ids].sum(axis=0, dtype=np.float32) * weight
        return total / max(float(np.linalg.norm(total)), 1e-9)

    def _load(self) -> tuple[Any, Any]:
        with _lock:
            return _read(self._folder)


@functools.lru_cache(maxsize=1)
def _read(folder: Path) -> tuple[Any, Any]:
    """Returns the vectors of all tokens, and the tokenizer; embedders of one process share them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # It caches whole texts, since this model does not split them first: kilobytes for each, and slower than none.
    if (resize := getattr(tokenizer.model, "_resize_cache", None)) is not None:
        resize(0)
    return _table(folder / _WEIGHTS), tokenizer


def _table(file: Path) -> Any:
    """Returns the vectors of all tokens, mapped from the file: `(tokens, dimension) float16`.

    The file begins with the length of its description, eight bytes, and the description as JSON.
    """
    import numpy as np

    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        described = json.loads(opened.read(length))["embedding.weight"]
    assert described["dtype"] == "F16"
    begin, shape = 8 + length + described["data_offsets"][0], tuple(described["shape"])
    return np.memmap(file, np.float16, "r", begin, shape)
