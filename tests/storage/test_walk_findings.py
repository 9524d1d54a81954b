"""The plain model knows by itself which texts of the walk say the same: here it is asked about all of them."""

from __future__ import annotations

from itertools import product

from blackboard_mcp.protocols.findings import normal_form
from blackboard_mcp.storage.testing.walk.finding import CHANGED, RESPELT
from blackboard_mcp.storage.testing.walk.footing import spelt


def test_the_model_finds_the_same_texts_alike_as_the_store_does() -> None:
    ways = (*RESPELT, *CHANGED)
    texts = [
        second(first(begun)) for begun, first, second in product(("FACT", "FACT 3 of alice"), ways, ways)
    ]
    told = [[spelt(one) == spelt(other) for other in texts] for one in texts]
    kept = [[normal_form(one) == normal_form(other) for other in texts] for one in texts]
    unlike = [(texts[a], texts[b]) for a in range(len(texts)) for b in range(a) if told[a][b] != kept[a][b]]
    assert not unlike
    assert any(told[a][b] for a in range(len(texts)) for b in range(a)), "nothing was said twice"
