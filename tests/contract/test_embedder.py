"""What every embedder does, real ones and the fake alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from core.adapters.openai_embedder import OpenAIEmbedder, ProviderOptions
from core.adapters.wordllama_embedder import WordLlamaEmbedder, _normalised
from core.errors import BadAnswer, Misconfigured, Refused, Unavailable
from core.ports import Embedder, EmbedLimits
from tests.contract.fake_embedder import FakeEmbedder
from tests.openai_server import OpenAIServer

ROOT = Path(__file__).parents[2]


@cache
def provider() -> OpenAIServer:
    return OpenAIServer(dimensions=256)


def over_http(encoding: Literal["float", "base64"]) -> OpenAIEmbedder:
    limits = EmbedLimits(items=256)
    return OpenAIEmbedder(
        ProviderOptions(
            name="local", base_url=provider().url, model="words", width=256, limits=limits, encoding_format=encoding
        )
    )


EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "fake": FakeEmbedder,
    "wordllama": WordLlamaEmbedder,
    "wordllama-64": lambda: WordLlamaEmbedder(64),
    "openai": lambda: over_http("float"),
    "openai-base64": lambda: over_http("base64"),
}
TEXTS = [
    "The cat sleeps on the warm mat in the kitchen",
    "The cat sleeps on the cold mat in the garden",
    "Quarterly revenue exceeded every analyst forecast",
]
ODD_TEXTS = [
    "!", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "你好，世界", "ሰላም", "\U00012000",
    "\u0301", "\u200b", "\x00", "\uffff", "\U0010ffff", "<s>", "</s>", "<unk>", "x" * 20_000, "é" * 3_000,
]  # fmt: skip


@pytest.fixture(params=EMBEDDERS.values(), ids=EMBEDDERS.keys())
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    opened: Embedder = request.param()
    yield opened
    opened.close()


def test_one_normalised_row_a_text(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, "document").vectors
    assert vectors.shape == (len(TEXTS), embedder.space.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.space.normalised


def test_a_vector_does_not_depend_on_the_batch(embedder: Embedder) -> None:
    together = embedder.embed([*TEXTS, "x " * 500], "document").vectors
    for row, text in zip(together, TEXTS, strict=False):
        np.testing.assert_array_equal(embedder.embed([text], "document").vectors[0], row)
    backwards = embedder.embed(TEXTS[::-1], "document").vectors
    np.testing.assert_array_equal(backwards[::-1], together[: len(TEXTS)])


def test_queries_and_documents_share_the_space(embedder: Embedder) -> None:
    query = embedder.embed(["where does the cat sleep"], "query").vectors[0]
    cat, _, revenue = embedder.embed(TEXTS, "document").vectors
    assert query @ cat > query @ revenue


def test_what_is_alike_is_near(embedder: Embedder) -> None:
    one, two, other = embedder.embed(TEXTS, "document").vectors
    assert one @ two > one @ other


def test_a_full_batch(embedder: Embedder) -> None:
    texts = [f"memory number {number}" for number in range(embedder.limits.items)]
    assert len(embedder.embed(texts, "document").vectors) == len(texts)


def test_odd_texts_have_vectors(embedder: Embedder) -> None:
    vectors = embedder.embed(ODD_TEXTS, "document").vectors
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
def test_a_blank_text_is_refused_by_its_place(embedder: Embedder, blank: str) -> None:
    with pytest.raises(Refused) as caught:
        embedder.embed(["good", blank], "document")
    assert caught.value.details["index"] == 1
    assert caught.value.where == "texts[1]"


def test_threads_get_the_same_vectors(embedder: Embedder) -> None:
    expected = embedder.embed(TEXTS, "document").vectors
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: embedder.embed(TEXTS, "document").vectors, range(20)):
            np.testing.assert_array_equal(found, expected)


def test_spaces_differ_by_width() -> None:
    spaces = [WordLlamaEmbedder(width).space for width in (64, 128, 256)]
    assert len({space.fingerprint for space in spaces}) == 3
    assert spaces[0].revision
    with pytest.raises(Misconfigured, match="512"):
        WordLlamaEmbedder(512)


def test_a_lone_surrogate_is_refused_by_its_place() -> None:
    with pytest.raises(Refused) as caught:
        WordLlamaEmbedder().embed(["good", "bad \ud800"], "document")
    assert caught.value.details["index"] == 1


def test_a_row_without_direction_is_a_bad_answer() -> None:
    for bad in (0.0, np.nan, np.inf):
        rows = np.ones((3, 4), dtype=np.float32)
        rows[1] = bad
        with pytest.raises(BadAnswer) as caught:
            _normalised(rows)
        assert caught.value.details["index"] == 1


def test_the_same_vectors_as_the_library() -> None:
    import wordllama

    folder = Path(wordllama.__file__).parent
    library = wordllama.WordLlama.load(cache_dir=folder, disable_download=True, trunc_dim=128)
    texts = TEXTS + ODD_TEXTS
    np.testing.assert_allclose(
        WordLlamaEmbedder(128).embed(texts, "document").vectors, library.embed(texts, norm=True), atol=2e-4
    )


def test_nothing_is_loaded_before_the_first_text() -> None:
    source = """
import logging, sys
from core.adapters.wordllama_embedder import WordLlamaEmbedder
embedder = WordLlamaEmbedder()
assert not {"tokenizers", "safetensors", "wordllama"} & set(sys.modules)
embedder.embed(["text"], "query").vectors
assert not logging.getLogger().handlers
"""
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True)


def test_the_fake_counts_and_fails_when_told() -> None:
    fake = FakeEmbedder()
    fake.embed(TEXTS, "document")

    def out(texts: object) -> None:
        raise Unavailable("told to")

    fake.before = out
    with pytest.raises(Unavailable):
        fake.embed(["more"], "document")
    assert (fake.calls, fake.texts) == (2, [*TEXTS, "more"])
