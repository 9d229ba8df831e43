"""The embedder over HTTP: what is asked of a provider, its space, and how calls end that get no answer."""

from __future__ import annotations

import base64
import logging
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.adapters.openai_embedder import OpenAIEmbedder, endpoint_of
from core.adapters.openai_failures import of_broken_call
from core.errors import EngineError, Misconfigured, Refused, Unavailable
from core.ports import EmbedLimits
from tests.contract.openai_calls import KEY, TEXTS, failure, options
from tests.openai_server import Fault, OpenAIServer, Request

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    opened = OpenAIServer()
    yield opened
    opened.stop()


@pytest.fixture
def embedder(server: OpenAIServer) -> Iterator[OpenAIEmbedder]:
    opened = OpenAIEmbedder(options(server))
    yield opened
    opened.close()


# What is asked.


def test_one_request_with_key_model_and_texts(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    assert embedder.embed(TEXTS, "document").tokens == 8
    (asked,) = server.requests
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "words", "input": TEXTS, "encoding_format": "float"}


def test_a_provider_without_a_key_is_sent_none(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    OpenAIEmbedder(options(server, api_key=None)).embed(TEXTS, "document")
    assert "authorization" not in server.requests[0].headers
    assert "from-the-environment" not in str(server.requests[0].headers)


def test_organization_headers_and_a_gateways_credentials(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    OpenAIEmbedder(options(server, organization="org-1", headers={"X-Team": "memory"})).embed(TEXTS, "document")
    own = {"Authorization": "Token abc"}
    OpenAIEmbedder(options(server, api_key=None, headers=own)).embed(TEXTS, "document")
    walled = server.url.replace("://", "://user:p%40ss@")
    OpenAIEmbedder(options(server, api_key=None, base_url=walled)).embed(TEXTS, "document")
    first, second, third = (request.headers for request in server.requests)
    assert (first["openai-organization"], first["x-team"]) == ("org-1", "memory")
    assert second["authorization"] == "Token abc"
    assert third["authorization"] == f"Basic {base64.b64encode(b'user:p@ss').decode()}"
    assert caplog.records
    logged = "".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
    assert [word for word in (KEY, "Token abc", "p@ss", "p%40ss", *TEXTS) if word in logged] == []


def test_dimensions_and_input_types_are_asked_for_by_their_names(server: OpenAIServer) -> None:
    told = {"input_type_parameter": "input_type", "document_input_type": "document", "query_input_type": "query"}
    opened = OpenAIEmbedder(options(server, dimensions=32, extra_body={"truncation": False}, **told))
    opened.embed(TEXTS, "document")
    opened.embed(TEXTS[:1], "query")
    assert [(body["input_type"], body["dimensions"], body["truncation"]) for body in bodies(server)] == [
        ("document", 32, False),
        ("query", 32, False),
    ]
    named = OpenAIEmbedder(options(server, dimensions=32, dimensions_parameter="output_dimension"))
    named.embed(TEXTS, "document")
    assert bodies(server)[-1] == {
        "model": "words", "input": TEXTS, "encoding_format": "float", "output_dimension": 32,
    }  # fmt: skip


def bodies(server: OpenAIServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests]


def test_azure_is_asked_at_its_deployment(server: OpenAIServer) -> None:
    def deployed(request: Request) -> tuple[int, Any]:
        return 200, server.embeddings(request, Fault())

    server.routes["/openai/deployments/mine/embeddings"] = deployed
    base = server.url.removesuffix("/v1")
    opened = OpenAIEmbedder(
        options(server, base_url=f"{base}/", model="mine", canonical_model="words", azure_api_version="2024-10-21")
    )
    assert opened.embed(TEXTS, "document").vectors.shape == (3, 32)
    (asked,) = server.requests
    assert asked.path == "/openai/deployments/mine/embeddings?api-version=2024-10-21"
    assert asked.headers["api-key"] == KEY
    assert (opened.space.model, opened.space.endpoint) == ("words", base)


def test_nothing_is_imported_before_the_first_text() -> None:
    source = """
import sys
from core.adapters.openai_embedder import OpenAIEmbedder, ProviderOptions
from core.ports import EmbedLimits
options = ProviderOptions(name="x", base_url="http://x", model="m", width=2, limits=EmbedLimits(items=1))
OpenAIEmbedder(options).close()
assert not {"openai", "httpx", "httpx2"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True)


# The space.


@pytest.mark.parametrize(
    ("spelt", "endpoint"),
    [
        ("https://API.OpenAI.com/v1/", "https://api.openai.com/v1"),
        ("HTTPS://api.openai.com:443/v1", "https://api.openai.com/v1"),
        ("https://user:secret@api.openai.com./v1", "https://api.openai.com/v1"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("http://[::1]:80/Path//", "http://[::1]/Path"),
    ],
)
def test_an_endpoint_is_written_one_way(spelt: str, endpoint: str) -> None:
    assert endpoint_of(spelt) == endpoint


def test_what_decides_a_vector_decides_the_space(server: OpenAIServer) -> None:
    usual = options(server)
    kinds = {"input_type_parameter": "input_type", "document_input_type": "document", "query_input_type": "query"}
    others: list[dict[str, Any]] = [
        {"name": "other"}, {"base_url": "http://127.0.0.1:1/v1"}, {"model": "other"}, {"width": 33},
        {"document_prefix": "d: "}, {"query_prefix": "q: "}, {"max_characters": 10}, {"max_tokens": 10},
        {"revision": "2"}, {"normalise": False}, kinds,
    ]  # fmt: skip
    names = {options(server, **other).space.fingerprint for other in others}
    assert len(names | {usual.space.fingerprint}) == len(others) + 1
    same: list[dict[str, Any]] = [
        {"api_key": None}, {"base_url": f"{server.url}/"}, {"encoding_format": "base64"}, {"organization": "o"},
        {"model": "vendor/words", "canonical_model": "words"}, {"limits": EmbedLimits(items=1)},
    ]  # fmt: skip
    assert {options(server, **other).space.fingerprint for other in same} == {usual.space.fingerprint}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "), ("model", ""), ("width", 0), ("dimensions", 16), ("max_characters", 0),
        ("api_key", f"{KEY}\n"), ("api_key", f"{KEY} x"), ("api_key", f"{KEY}é"), ("headers", {"a b": "c"}),
        ("base_url", "api.openai.com"), ("base_url", f"https://x/v1?key={KEY}"), ("base_url", f"https://{KEY}:x"),
        ("base_url", "ftp://x"), ("limits", EmbedLimits(items=0)), ("query_timeout", timedelta(0)),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant(server: OpenAIServer, field: str, value: Any) -> None:
    with pytest.raises(Misconfigured, match=field.removeprefix("query_")) as caught:
        OpenAIEmbedder(options(server, **{field: value}))
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_no_secret_is_shown(server: OpenAIServer) -> None:
    opened = OpenAIEmbedder(
        options(server, headers={"X-Key": KEY}, base_url=server.url.replace("://", f"://user:{KEY}@"))
    )
    shown = [repr(opened), repr(options(server)), repr(opened._options), str(opened.space), repr(opened.__dict__)]
    assert KEY not in "".join(shown)


# No answer.


@pytest.mark.parametrize(
    "fault", [Fault(reset=True), Fault(cut=0), Fault(cut=40)], ids=["reset", "no body", "truncated body"]
)
def test_a_broken_connection_is_worth_another_try(server: OpenAIServer, embedder: OpenAIEmbedder, fault: Fault) -> None:
    assert isinstance(failure(server, embedder, fault), Unavailable)
    server.told = lambda body: None
    assert embedder.embed(TEXTS, "document").vectors.shape == (3, 32)


def test_nobody_listens(server: OpenAIServer) -> None:
    opened = OpenAIEmbedder(options(server))
    server.stop()
    with pytest.raises(Unavailable) as caught:
        opened.embed(TEXTS, "document")
    assert caught.value.__context__ is None


def test_an_address_that_cannot_be_used(server: OpenAIServer) -> None:
    with pytest.raises((Misconfigured, Unavailable)):
        OpenAIEmbedder(options(server, base_url="http://a b/v1")).embed(TEXTS, "document")


def test_a_certificate_nobody_vouches_for_is_the_operators() -> None:
    outer = OSError("connect")
    outer.__cause__ = ssl.SSLCertVerificationError("unknown authority")
    assert isinstance(of_broken_call(outer, "local"), Misconfigured)
    outer.__cause__ = ssl.SSLEOFError("hung up")
    assert isinstance(of_broken_call(outer, "local"), Unavailable)


@pytest.mark.parametrize("fault", [Fault(delay=3), Fault(drip=0.05)], ids=["silent", "byte by byte"])
def test_a_query_waits_less_than_a_document(server: OpenAIServer, fault: Fault) -> None:
    opened = OpenAIEmbedder(options(server, query_timeout=timedelta(seconds=0.3)))
    opened.embed(TEXTS, "query")
    server.told = lambda body: fault
    began = time.monotonic()
    with pytest.raises(Unavailable, match="in time"):
        opened.embed(TEXTS, "query")
    assert time.monotonic() - began < 2.5
    server.told = lambda body: Fault(delay=0.6)
    assert opened.embed(TEXTS, "document").vectors.shape == (3, 32)


# Use.


@pytest.mark.parametrize("bad", ["", " \n", "\u3000", "bad \ud800"])
def test_what_cannot_be_sent_is_refused_by_its_place(server: OpenAIServer, embedder: OpenAIEmbedder, bad: str) -> None:
    with pytest.raises(Refused) as caught:
        embedder.embed(["good", bad], "document")
    assert (caught.value.details["index"], caught.value.__context__) == (1, None)
    assert not server.requests


def test_threads_share_one_client_and_ask_at_once(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    expected = embedder.embed(TEXTS, "document").vectors
    server.told = lambda body: Fault(delay=0.05)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: embedder.embed(TEXTS, "document").vectors, range(32)):
            np.testing.assert_array_equal(found, expected)
    assert server.most_at_once >= 4


def test_closed_is_closed(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    server.told = lambda body: Fault(delay=0.3)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            embedder.embed(TEXTS, "document")
        except EngineError as error:
            errors.append(error)

    under_way = threading.Thread(target=ask)
    under_way.start()
    while not server.requests:
        time.sleep(0.01)
    embedder.close()
    embedder.close()
    under_way.join(5)
    assert not under_way.is_alive()
    assert all(isinstance(error, Unavailable) for error in errors)
    with pytest.raises(Unavailable, match="closed"):
        embedder.embed(TEXTS, "document")


def test_a_full_request_of_wide_vectors_is_read(server: OpenAIServer) -> None:
    server.dimensions = 1536
    opened = OpenAIEmbedder(options(server, width=1536, encoding_format="base64", limits=EmbedLimits(items=2048)))
    found = opened.embed([f"memory number {number}" for number in range(2048)], "document")
    assert found.vectors.shape == (2048, 1536)
    assert found.vectors.dtype == np.float32
