"""Embeddings without a network: the static model in the wheel `wordllama`, a table of token vectors.

A text's vector is the normalised sum of its tokens' vectors. That is done here and not by the library,
which pads every text to the longest of its batch: 30,000 short texts a second instead of 12,000 on two
cores. Its import, which would set up logging for the whole process, is not needed either.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.adapters.wheel import wheel_folder
from core.errors import BadAnswer, Misconfigured
from core.model.embeddable import refuse_unembeddable
from core.model.point import Vector
from core.model.space import EmbeddingSpace
from core.ports import Embeddings, EmbedLimits, TextKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WHEEL = "wordllama"
MODEL = "l2_supercat"
WEIGHTS = Path("weights") / f"{MODEL}_256.safetensors"
TOKENIZER = Path("tokenizers") / f"{MODEL}_tokenizer_config.json"
WIDTHS = (64, 128, 256)  # the model was trained so that its first 64 or 128 numbers serve alone
MAX_ITEMS = 1024


@dataclass(frozen=True, slots=True)
class _Model:
    tokenizer: Tokenizer
    table: Vector


class WordLlamaEmbedder:
    """The bundled model at one of its widths. Opening one is cheap: the model is read at the first text."""

    def __init__(self, dimensions: int = WIDTHS[-1]) -> None:
        if dimensions not in WIDTHS:
            raise Misconfigured(f"the bundled model has {WIDTHS} dimensions, not {dimensions}")
        self._space = EmbeddingSpace(provider=WHEEL, model=MODEL, dimensions=dimensions, revision=version(WHEEL))
        self._model: _Model | None = None
        self._loading = threading.Lock()

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""
        return self._space

    @property
    def limits(self) -> EmbedLimits:
        """What one call takes at the most."""
        return EmbedLimits(items=MAX_ITEMS)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:  # noqa: ARG002  one model for both
        """Vectors of `texts`, normalised. Its tokens cost nothing and are not counted."""
        refuse_unembeddable(texts)
        model = self._loaded()
        # Without padding, and pooled text by text: a vector never depends on its neighbours in the batch.
        encoded = model.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        sums = np.empty((len(texts), self._space.dimensions), dtype=np.float32)
        for row, encoding in zip(sums, encoded, strict=True):
            np.add.reduce(model.table[encoding.ids], axis=0, out=row)
        return Embeddings(_normalised(sums))

    def close(self) -> None:
        """Forget the model."""
        self._model = None

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                self._model = _load(self._space.dimensions)
            return self._model


def _normalised(sums: Vector) -> Vector:
    """Rows of length one. Unknown characters are spelt in bytes, so no text we know of comes out as zero."""
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    if not usable.all():
        index = int(np.argmin(usable))
        raise BadAnswer(f"the model has no vector for text {index}", where=f"texts[{index}]", index=index)
    vectors: Vector = sums / norms
    return vectors


def _load(dimensions: int) -> _Model:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = wheel_folder(WHEEL)
    try:
        table = load_file(folder / WEIGHTS)["embedding.weight"]
        tokenizer = Tokenizer.from_buffer((folder / TOKENIZER).read_bytes())
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise Misconfigured(f"the bundled model in {folder} cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Model(tokenizer, np.ascontiguousarray(table[:, :dimensions], dtype=np.float32))
