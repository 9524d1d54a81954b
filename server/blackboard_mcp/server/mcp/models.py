"""The models by which the SDK checks messages on the wire, built when the first message of their kind comes.

The SDK has some 300 of them, one set for each generation of the protocol, and builds them all while it is imported,
which takes a third of a start. A client needs a dozen.
"""

from __future__ import annotations


def build_later() -> None:
    """From now on such models wait for their first use; to be called before the SDK's server is imported."""
    from mcp_types._wire_base import WireModel

    WireModel.model_config["defer_build"] = True
