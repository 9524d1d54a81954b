"""The choice of an embedding model, and the weight of its vectors."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from blackboard_mcp.protocols.archive import Embedder
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance.fusion import VECTOR_WEIGHT

ENDPOINT_WEIGHT = 0.4
"""The vectors' part for a transformer's embeddings, measured with `benchmarks/archive_recall.py`."""


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """The bundled model, an OpenAI-compatible endpoint, or none. `url` and `model` are the endpoint's."""

    kind: Literal["wordllama", "openai", "none"] = "wordllama"
    url: str = ""
    model: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    key: str = field(default="", repr=False)

    @property
    def vector_weight(self) -> float:
        return ENDPOINT_WEIGHT if self.kind == "openai" else VECTOR_WEIGHT

    def load(self) -> Embedder | None:
        """The model; `None` where none is wanted, or the bundled one is not there. Asks nobody yet.

        Raises:
            ValueError: the endpoint's address or key cannot be used.
        """
        if self.kind == "openai":
            from .endpoint import EndpointEmbedder

            return EndpointEmbedder(
                self.url,
                self.model,
                key=self.key,
                query_prefix=self.query_prefix,
                passage_prefix=self.passage_prefix,
            )
        if self.kind == "none":
            return None
        from .wordllama import load_bundled_embedder

        return load_bundled_embedder()
