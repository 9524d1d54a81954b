"""Late building of the models by which the SDK checks messages on the wire.

The SDK has some 300 models, one set for each generation of the protocol. It builds them all on import, which
takes a third of the start time. A client needs a dozen.
"""

from __future__ import annotations


def build_later() -> None:
    """Makes each model wait for its first use. Must be called before the SDK's server is imported."""
    from mcp_types._wire_base import WireModel

    WireModel.model_config["defer_build"] = True
