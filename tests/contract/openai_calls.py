"""What the tests of the embedder over HTTP share: options for the local server, and what a failed call raises."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from core.adapters.openai_embedder import OpenAIEmbedder, ProviderOptions
from core.errors import EngineError
from core.ports import EmbedLimits
from tests.openai_server import Fault, OpenAIServer

KEY = "sk-very-secret-0123456789"
TEXTS = ["the cat sleeps", "the dog barks", "revenue grew"]


def options(server: OpenAIServer, **given: Any) -> ProviderOptions:
    usual: dict[str, Any] = {
        "name": "local", "base_url": server.url, "model": "words", "width": 32,
        "limits": EmbedLimits(items=64), "api_key": KEY,
    }  # fmt: skip
    return ProviderOptions(**{**usual, **given})


def failure(server: OpenAIServer, embedder: OpenAIEmbedder, fault: Fault, texts: list[str] = TEXTS) -> EngineError:
    """What a call raises; nothing of the key, the texts or the library's own error is in it."""
    server.told = lambda body: fault
    with pytest.raises(EngineError) as caught:
        embedder.embed(texts, "document")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.details) + repr(embedder)
    assert KEY not in shown
    assert "SECRET-INPUT" not in shown
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value
