"""Embeddings over HTTP, from anything that speaks the OpenAI protocol. One call is one request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from core.adapters.openai_answers import normalised, read_answer
from core.adapters.openai_client import OpenAIClient
from core.adapters.openai_options import ProviderOptions, check_options, endpoint_of, extra_body
from core.model.embeddable import refuse_unembeddable
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.ports import Embeddings, EmbedLimits, TextKind

__all__ = ["OpenAIEmbedder", "ProviderOptions", "check_options", "endpoint_of"]

logger = logging.getLogger(__name__)

BYTES_A_NUMBER = 40  # in an answer, at the most: floats written out in full, with spaces
BYTES_AROUND = 1_000_000


class OpenAIEmbedder:
    """A provider's model, asked over HTTP. Opening one is cheap and sends nothing. Thread-safe."""

    def __init__(self, options: ProviderOptions, *, now: Callable[[], datetime] | None = None) -> None:
        self._client = OpenAIClient(options, now)
        self._options = options
        self._space = options.space
        self._noted = False

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""
        return self._space

    @property
    def limits(self) -> EmbedLimits:
        """What one call takes at the most."""
        return self._options.limits

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of `texts`, in one request, and the tokens the provider counted (estimated where it does not say).

        Raises what the port says; see `openai_failures` for which answer means what.
        """
        refuse_unembeddable(texts)
        body = self._asked(texts, kind)
        answer = read_answer(body, count=len(texts), width=self._options.width, provider=self._options.name)
        self._note(answer.model)
        vectors = normalised(answer.vectors) if self._options.normalise else answer.vectors
        tokens = answer.tokens if answer.tokens is not None else sum(map(estimated_tokens, texts))
        return Embeddings(vectors, tokens)

    def close(self) -> None:
        """Close the connections; calls under way fail with Unavailable, and so does every later one."""
        self._client.close()

    def _asked(self, texts: Sequence[str], kind: TextKind) -> bytes:
        """The body of a successful answer, within the time for its kind, up to the size it may have."""
        options = self._options
        given = {"input": list(texts), "model": options.model, "encoding_format": options.encoding_format}
        return self._client.read(
            lambda client, said: client.embeddings.with_streaming_response.create(
                **given, extra_body=extra_body(options, kind), **said
            ),
            seconds=(options.query_timeout if kind == "query" else options.document_timeout).total_seconds(),
            room=BYTES_AROUND + len(texts) * options.width * BYTES_A_NUMBER,
            count=len(texts),
        )

    def _note(self, model: str) -> None:
        """Say once that another model's name came back: providers answer with the name behind an alias."""
        if not self._noted and model and model not in (self._options.model, self._space.model):
            self._noted = True
            logger.info("%s was asked for %s and names %.80r", self._options.name, self._options.model, model)
