"""What is known of providers: it loads, it is sound, and it becomes options that a server understands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from core.adapters.embedding_presets import (
    FILE,
    SAFE_PERCENT,
    facts_of,
    options_for,
    preset_of,
    providers,
    read_presets,
)
from core.adapters.openai_embedder import OpenAIEmbedder, endpoint_of
from core.errors import Misconfigured
from core.ports import EmbedLimits
from tests.openai_server import OpenAIServer

ROOT = Path(__file__).parents[2]
TEXT = resources.files("core.adapters").joinpath(FILE).read_text(encoding="utf-8")
KEY = "sk-very-secret-0123456789"
MODELS = [(provider, model) for provider in providers() for model in preset_of(provider).models]
EVERYBODY = {"azure", "compatible", "gemini", "mistral", "ollama", "openai", "tei", "vllm", "voyage"}
SMALL = "text-embedding-3-small"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    opened = OpenAIServer()
    yield opened
    opened.stop()


def address(provider: str) -> str | None:
    return None if preset_of(provider).base_url else "https://ours.example.org"


def test_every_provider_is_there() -> None:
    assert set(providers()) == EVERYBODY
    with pytest.raises(Misconfigured, match=r"provider: .*nobody.*openai"):
        preset_of("nobody")


@pytest.mark.parametrize("provider", sorted(EVERYBODY))
def test_every_preset_loads(provider: str) -> None:
    preset = preset_of(provider)
    assert preset.items >= 1
    assert preset.needs_key == (provider in {"azure", "gemini", "mistral", "openai", "voyage"})
    if preset.base_url:
        assert endpoint_of(preset.base_url) == preset.base_url, "written the one way, so that it shows as it is named"
        assert preset.base_url.startswith("https://") == preset.needs_key, "a key is never sent in the clear"
    opened = OpenAIEmbedder(options_for(provider, "any", dimensions=77, base_url=address(provider), api_key=KEY))
    assert (opened.space.dimensions, opened.limits.items) == (77, preset.items)


@pytest.mark.parametrize(("provider", "model"), MODELS)
def test_every_model_is_sound(provider: str, model: str) -> None:
    facts, preset = preset_of(provider).models[model], preset_of(provider)
    assert 64 <= facts.width <= 4096
    assert facts.takes(facts.width)
    assert not facts.takes(0)
    assert not facts.takes(100_000)
    assert not facts.dimensions or facts.width in facts.dimensions
    assert facts.price is None or 0 <= facts.price < 5
    assert facts.batch_price is None or (facts.price is not None and facts.batch_price == facts.price / 2)
    assert re.fullmatch(r"20\d\d-\d\d|", facts.checked)
    options = options_for(provider, model, base_url=address(provider), api_key=KEY)
    assert (options.width, options.dimensions, options.name) == (facts.width, None, provider)
    assert options.limits == EmbedLimits(items=preset.items, tokens=facts.tokens or preset.tokens)
    assert options.max_tokens is not None
    assert facts.text_tokens is not None
    assert options.max_tokens == facts.text_tokens * SAFE_PERCENT // 100
    assert options.space.max_tokens == options.max_tokens


def test_what_is_known_of_openai() -> None:
    """The figures the rest of the gateway counts on."""
    options = options_for("openai", SMALL, api_key=KEY)
    assert options.limits == EmbedLimits(items=2048, tokens=300_000)
    assert options.space.as_dict() == {
        "provider": "openai", "model": SMALL, "dimensions": 1536, "endpoint": "https://api.openai.com/v1",
        "revision": "", "normalised": True, "template": "{title}\n\n{content}", "document_prefix": "",
        "query_prefix": "", "max_characters": 16_000, "max_tokens": 7371,
    }  # fmt: skip


def test_prefixes_are_in_the_space() -> None:
    space = options_for("ollama", "nomic-embed-text").space
    assert space.document_text(None, "a cat") == "search_document: a cat"
    assert space.query_text("a cat") == "search_query: a cat"
    assert options_for("ollama", "bge-m3").space.query_text("a cat") == "a cat"


ALIASES = [(provider, alias) for provider in providers() for alias in preset_of(provider).aliases]


@pytest.mark.parametrize(("provider", "alias"), ALIASES)
def test_spellings_that_mean_the_same_give_one_fingerprint(provider: str, alias: str) -> None:
    model = preset_of(provider).aliases[alias]
    one, other = (options_for(provider, name, api_key=KEY) for name in (model, alias))
    assert one.space.fingerprint == other.space.fingerprint
    assert other.model == model, "the provider itself knows only its own spelling"
    assert facts_of(provider, alias) == facts_of(provider, model) != None  # noqa: E711


def test_another_name_or_width_is_another_space() -> None:
    names = {
        options_for("openai", model, dimensions=dimensions, api_key=KEY).space.fingerprint
        for model, dimensions in [(SMALL, None), (SMALL, 1536), (SMALL, 512), ("text-embedding-ada-002", None)]
    }
    assert len(names) == 3, "the model's own width is the same whether it is named or not"


def test_a_gateway_is_asked_by_the_name_it_was_given(server: OpenAIServer) -> None:
    options = options_for("openai", f"openai/{SMALL}", dimensions=48, base_url=server.url)
    opened = OpenAIEmbedder(options)
    assert opened.embed(["a cat"], "document").vectors.shape == (1, 48)
    assert server.requests[0].body["model"] == f"openai/{SMALL}"
    assert server.requests[0].body["dimensions"] == 48
    assert opened.space.model == SMALL


def test_voyage_is_asked_in_its_own_words(server: OpenAIServer) -> None:
    opened = OpenAIEmbedder(options_for("voyage", "voyage-3.5", dimensions=2048, base_url=server.url, api_key=KEY))
    server.dimensions = 2048
    opened.embed(["a cat"], "document")
    opened.embed(["a cat"], "query")
    first, second = (request.body for request in server.requests)
    assert first == {
        "model": "voyage-3.5", "input": ["a cat"], "encoding_format": "base64", "truncation": False,
        "output_dimension": 2048, "input_type": "document",
    }  # fmt: skip
    assert second["input_type"] == "query"


def test_azure_has_deployments() -> None:
    options = options_for(
        "azure", SMALL, base_url="https://ours.openai.azure.com/", api_key=KEY, deployment="embeddings-eu"
    )
    assert (options.model, options.canonical_model, options.azure_api_version) == ("embeddings-eu", SMALL, "2024-10-21")
    same = options_for("azure", SMALL, base_url="https://ours.openai.azure.com", api_key=KEY)
    assert options.space.fingerprint == same.space.fingerprint


def test_what_the_operator_chooses_wins() -> None:
    more: dict[str, Any] = {
        "query_timeout": timedelta(seconds=1),
        "limits": EmbedLimits(items=3),
        "query_prefix": "q: ",
    }
    options = options_for("openai", SMALL, api_key=KEY, **more)
    assert {name: getattr(options, name) for name in more} == more


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"provider": "openai", "model": SMALL, "dimensions": 1537, "api_key": KEY}, "dimensions"),
        ({"provider": "openai", "model": "text-embedding-ada-002", "dimensions": 512, "api_key": KEY}, "dimensions"),
        ({"provider": "voyage", "model": "voyage-3.5", "dimensions": 300, "api_key": KEY}, "dimensions"),
        ({"provider": "gemini", "model": "gemini-embedding-001", "dimensions": 64, "api_key": KEY}, "dimensions"),
        ({"provider": "openai", "model": "text-embedding-9", "api_key": KEY}, "dimensions"),
        ({"provider": "vllm", "model": "any"}, "dimensions"),
        ({"provider": "vllm", "model": "any", "dimensions": 0}, "width"),
        ({"provider": "vllm", "model": " ", "dimensions": 8}, "model"),
        ({"provider": "openai", "model": SMALL}, "api_key"),
        ({"provider": "openai", "model": SMALL, "api_key": ""}, "api_key"),
        ({"provider": "azure", "model": SMALL, "base_url": "https://x.example.org"}, "api_key"),
        ({"provider": "azure", "model": SMALL, "api_key": KEY}, "base_url"),
        ({"provider": "compatible", "model": "m", "dimensions": 8}, "base_url"),
        ({"provider": "tei", "model": "m", "dimensions": 8, "base_url": "tei:80"}, "base_url"),
    ],
)
def test_what_cannot_be_names_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Misconfigured, match=f"^{field}: ") as caught:
        options_for(**given)
    assert KEY not in caught.value.message


def test_no_secret_is_shown() -> None:
    options = options_for("openai", SMALL, api_key=KEY, headers={"X-Key": KEY})
    assert KEY not in repr(options) + repr(OpenAIEmbedder(options)) + repr(options.space)
    assert not re.search(r"(sk-|Bearer|@)", TEXT)


WRONG: dict[str, tuple[str, str]] = {
    "no TOML": ("[x", "cannot be read"),
    "no items": ("[x]\nbase_url = 'http://x'", "x.items must be there"),
    "items of 0": ("[x]\nitems = 0", "x.items must be a whole number"),
    "items true": ("[x]\nitems = true", "x.items must be a whole number"),
    "an unknown field": ("[x]\nitems = 1\nitem = 1", "x.item must be one of"),
    "no table": ("x = 1", "x must be a table"),
    "an encoding": ("[x]\nitems = 1\nencoding_format = 'int8'", "x.encoding_format must be float or base64"),
    "no width": ("[x]\nitems = 1\n[x.models.m]\nprice = 1", "x.models.m.width must be there"),
    "a price": ("[x]\nitems = 1\n[x.models.m]\nwidth = 1\nprice = -1", "x.models.m.price must be a price"),
    "a price as text": ("[x]\nitems = 1\n[x.models.m]\nwidth = 1\nprice = '1'", "x.models.m.price must be a price"),
    "dimensions": ("[x]\nitems = 1\n[x.models.m]\nwidth = 1\ndimensions = [0]", "x.models.m.dimensions must be a list"),
    "narrowest": ("[x]\nitems = 1\n[x.models.m]\nwidth = 1\nnarrowest = 2", "x.models.m.narrowest must be no more"),
    "a model that is no table": ("[x]\nitems = 1\n[x.models]\nm = 1", "x.models.m must be a table"),
    "an alias of nothing": ("[x]\nitems = 1\n[x.aliases]\na = 'b'", "x.aliases.a must be another spelling"),
    "an alias of a number": ("[x]\nitems = 1\n[x.aliases]\na = 1", "x.aliases must be a table of texts"),
    "an address": ("[x]\nitems = 1\nbase_url = 'x'", "base_url"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_file_that_is_wrong_names_the_field(text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(said)):
        read_presets(text)


def test_the_file_says_whose_the_prices_are() -> None:
    head = TEXT.partition("[openai]")[0]
    assert "operator's to verify" in head


def test_nothing_is_read_or_imported_before_it_is_asked_for() -> None:
    source = """
import sys
from core.adapters import embedding_presets
assert embedding_presets._presets.cache_info().currsize == 0
assert not {"openai", "httpx", "httpx2"} & set(sys.modules)
embedding_presets.options_for("ollama", "bge-m3")
assert not {"openai", "httpx", "httpx2"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True)
