"""The choice of an embedding model, and the weight of its vectors."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from blackboard_mcp.protocols.archive import Embedder
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance.fusion import VECTOR_WEIGHT

ENDPOINT_WEIGHT = 0.4
"""The weight of vectors from a transformer, measured with `benchmarks/archive_recall.py`."""


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """The choice of an embedding model: the bundled one, an OpenAI-compatible endpoint, or none.

    `url`, `model`, `key` and the prefixes belong to the endpoint.
    """

    kind: Literal["wordllama", "openai", "none"] = "wordllama"
    url: str = ""
    model: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    key: str = field(default="", repr=False)

    @property
    def vector_weight(self) -> float:
        """The weight of the model's vectors in a search, 0 to 1."""
        return ENDPOINT_WEIGHT if self.kind == "openai" else VECTOR_WEIGHT

    def load(self) -> Embedder | None:
        """Returns the model; `None` if none is chosen or the bundled one is not installed. No endpoint is called yet.

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
