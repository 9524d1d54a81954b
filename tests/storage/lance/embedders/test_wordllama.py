from __future__ import annotations

import logging
import socket
from typing import Any

import numpy as np
import pytest
from blackboard_mcp.storage.lance.embedders import wordllama
from blackboard_mcp.storage.lance.embedders.wordllama import StaticEmbedder, load_bundled_embedder


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StaticEmbedder:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the model reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    wordllama._read.cache_clear()  # it may have been read by an earlier test
    found = load_bundled_embedder()
    if found is None:
        pytest.skip("no bundled model on this platform")
    assert isinstance(found, StaticEmbedder)
    return found


def test_vectors_have_unit_length_and_empty_text_has_none(model: StaticEmbedder) -> None:
    handlers = list(logging.getLogger().handlers)
    vectors: Any = model.embed_documents(["a cat sleeps", "", "x" * 5000])
    assert vectors.shape == (3, model.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1], atol=1e-5)
    assert logging.getLogger().handlers == handlers


def test_its_data_are_read_once_in_a_process(model: StaticEmbedder) -> None:
    other = load_bundled_embedder()
    assert isinstance(other, StaticEmbedder)
    assert np.array_equal(model.embed_query("a cat"), other.embed_query("a cat"))
    assert wordllama._read.cache_info().misses == 1


def test_near_meanings_are_near(model: StaticEmbedder) -> None:
    query: Any = model.embed_query("feline nap")
    near, far = np.asarray(model.embed_documents(["the cat sleeps", "interest rates rose"])) @ query
    assert near > far


def test_the_weightier_word_pulls_the_query(model: StaticEmbedder) -> None:
    cat: Any = model.embed_query("cat")
    much, little = (
        float(np.asarray(model.embed_weighted([("cat", w), ("bank", 1.0)])) @ cat) for w in (3.0, 0.3)
    )
    assert much > little
    assert not np.asarray(model.embed_weighted([])).any()


def test_without_the_wheel_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "find_spec", lambda name: None)
    assert load_bundled_embedder() is None
