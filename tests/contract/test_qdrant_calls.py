"""What the adapter for a Qdrant server really sends, and what it makes of answers: shown on a recording server."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent import futures
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from qdrant_client import grpc as wire

from core.adapters.qdrant_requests import QdrantOptions
from core.adapters.qdrant_server import QdrantIndex
from core.errors import BadAnswer, Conflict, EngineError, Misconfigured, NotFound, Overloaded, Refused, Unavailable
from core.model.point import PAYLOAD_FIELDS
from core.model.query import Filters
from tests.contract.fake_qdrant_http import INFO, QdrantHttp
from tests.contract.vector_index import ONES, key, payload, point, selection

KEY = "a-key-nobody-may-see"
BATCH = "/collections/c.g1/points/batch"
ALIASES = "/collections/aliases"


@pytest.fixture
def server() -> Iterator[QdrantHttp]:
    started = QdrantHttp()
    yield started
    started.shutdown()
    started.server_close()


def opened(server: QdrantHttp, scheme: str = "http", **options: Any) -> QdrantIndex:
    given: dict[str, Any] = {"api_key": KEY, "timeout": timedelta(seconds=1), **options}
    return QdrantIndex(QdrantOptions(url=f"{scheme}://127.0.0.1:{server.server_port}", **given))


@pytest.fixture
def index(server: QdrantHttp) -> Iterator[QdrantIndex]:
    adapter = opened(server)
    yield adapter
    adapter.close()


def assign(alias: str, collection: str) -> dict[str, Any]:
    return {"create_alias": {"alias_name": alias, "collection_name": collection}}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"rename_alias": {"old_alias_name": old, "new_alias_name": new}}


def not_above(version: float) -> dict[str, Any]:
    return {"key": "version", "range": {"lte": version}}


class TestAliases:
    def test_a_first_pointing_and_a_swap_are_one_request_each(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.point_alias("c.live", "c.g1", None)
        index.point_alias("c.live", "c.g2", "c.g1")
        first, second = [body["actions"] for body in server.bodies(ALIASES)]
        (old, new) = (actions[-2]["create_alias"]["alias_name"] for actions in (first, second))
        assert first == [assign(old, "c.g1"), assign("c.live", "c.g1")]
        assert second == [rename(old, new), assign(new, "c.g2"), assign("c.live", "c.g2")]
        assert [method for method, path, _, _ in server.requests if path == ALIASES] == ["POST", "POST"]
        assert server.known.aliases == {"c.live": "c.g2", new: "c.g2"}

    @pytest.mark.parametrize("done", [0, 1, 2, 3])
    @pytest.mark.parametrize("then", ["c.g2", "c.g3"])
    def test_a_server_that_dies_in_mid_swap_is_no_end(
        self, server: QdrantHttp, index: QdrantIndex, done: int, then: str
    ) -> None:
        index.point_alias("c.live", "c.g1", None)
        server.known.dies_after = done
        with pytest.raises(Unavailable):
            index.point_alias("c.live", "c.g2", "c.g1")
        server.known.dies_after = None
        named = index.alias("c.live")
        assert named == ("c.g2" if done == 3 else "c.g1")
        index.point_alias("c.live", then, named)
        assert list(server.known.aliases.values()) == [then, then]

    @pytest.mark.parametrize("done", [0, 1, 2])
    @pytest.mark.parametrize("then", ["c.g1", "c.g2"])
    def test_a_server_that_dies_in_the_first_pointing_is_no_end(
        self, server: QdrantHttp, index: QdrantIndex, done: int, then: str
    ) -> None:
        server.known.dies_after = done
        with pytest.raises(Unavailable):
            index.point_alias("c.live", "c.g1", None)
        server.known.dies_after = None
        index.point_alias("c.live", then, index.alias("c.live"))
        assert list(server.known.aliases.values()) == [then, then]

    def test_a_target_that_vanishes_in_mid_swap_leaves_the_old_one_named(
        self, server: QdrantHttp, index: QdrantIndex
    ) -> None:
        index.point_alias("c.live", "c.g1", None)

        def vanish(path: str) -> None:
            if path == ALIASES:
                server.known.names.discard("c.g2")

        server.told = vanish
        with pytest.raises(NotFound):
            index.point_alias("c.live", "c.g2", "c.g1")
        assert list(server.known.aliases.values()) == ["c.g1", "c.g1"]
        index.point_alias("c.live", "c.g3", "c.g1")
        assert list(server.known.aliases.values()) == ["c.g3", "c.g3"]

    def test_a_swapper_who_sends_late_is_refused_by_the_server(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.point_alias("c.live", "c.g1", None)

        def others_swap(path: str) -> None:
            if path == ALIASES and len(server.bodies(ALIASES)) == 2:
                opened(server).point_alias("c.live", "c.g3", "c.g1")

        server.told = others_swap
        with pytest.raises(Conflict) as refusal:
            index.point_alias("c.live", "c.g2", "c.g1")
        assert refusal.value.details["current"] == "c.g3"
        assert list(server.known.aliases.values()) == ["c.g3", "c.g3"]

    def test_nothing_is_sent_for_a_target_that_is_not_there(self, server: QdrantHttp, index: QdrantIndex) -> None:
        with pytest.raises(NotFound):
            index.point_alias("c.live", "c.g9", None)
        assert server.bodies(ALIASES) == []


class TestWrites:
    def test_every_version_has_its_guard_in_one_request(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.upsert("c.g1", [point("a", 7), point("b", 9), point("c", 7), point("a", 3)])
        (body,) = server.bodies(BATCH)
        upserts = [operation["upsert"] for operation in body["operations"]]
        assert [made["update_filter"] for made in upserts] == [{"must": [not_above(7.0)]}, {"must": [not_above(9.0)]}]
        assert [[made["id"] for made in one["points"]] for one in upserts] == [
            [str(key("a")), str(key("c"))],
            [str(key("b"))],
        ]
        assert upserts[0]["points"][0]["vector"] == {"text": [0.5] * 4}
        assert "wait=true" in next(path for _, path, _, _ in server.requests if BATCH in path)

    def test_payloads_and_deletes_carry_theirs(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.set_payload("c.g1", [payload("a", 8)])
        index.delete("c.g1", {key("a"): 5, key("b"): 6, key("c"): 5})
        replaced, removed = [body["operations"] for body in server.bodies(BATCH)]
        assert replaced[0]["overwrite_payload"]["filter"]["must"] == [
            {"has_id": [str(key("a"))]},
            {"key": "text_hash", "match": {"value": "h"}},
            not_above(7.0),
        ]
        assert [one["delete"]["filter"]["must"] for one in removed] == [
            [{"has_id": [str(key("a")), str(key("c"))]}, not_above(5.0)],
            [{"has_id": [str(key("b"))]}, not_above(6.0)],
        ]

    def test_batches_stay_within_count_and_bytes(self, server: QdrantHttp) -> None:
        rng = np.random.default_rng(7)
        points = [
            point(str(n), 1 + n % 5, vector=rng.normal(size=4).astype(np.float32), tags=("é" * (n % 400),))
            for n in range(1100)
        ]
        for options in ({}, {"batch_bytes": 40_000}, {"batch_count": 7}):
            server.requests.clear()
            opened(server, timeout=timedelta(seconds=20), **options).upsert("c.g1", points)
            sent = [sum(len(one["upsert"]["points"]) for one in body["operations"]) for body in server.bodies(BATCH)]
            assert sum(sent) == 1100
            assert max(sent) <= options.get("batch_count", 500)
            assert max(len(body) for *_, body in server.requests) <= options.get("batch_bytes", 16 * 2**20)
            if not options:
                assert sent == [500, 500, 100]

    def test_what_cannot_be_sent_is_refused_whole(self, server: QdrantHttp, index: QdrantIndex) -> None:
        good = [point(str(n)) for n in range(600)]
        for bad in (point("x", importance=float("nan")), point("x", project="\ud800")):
            with pytest.raises(Refused):
                index.upsert("c.g1", [*good, bad])
        with pytest.raises(BadAnswer):
            index.upsert("c.g1", [*good, point("0", vector=ONES * np.float32("nan"))])
        with pytest.raises(Refused):
            index.search("c.g1", ONES, selection(Filters(min_importance=float("nan"))), 5)
        assert server.bodies(BATCH) == []

    def test_a_collection_is_made_whole_before_its_first_point(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.create("c.g1", 4)
        method, path, _, _ = server.requests[0]
        assert (method, path) == ("PUT", "/collections/c.g1")
        made = server.bodies("/collections/c.g1")[0]
        assert made["vectors"]["text"]["distance"] == "Cosine"
        assert made["optimizers_config"]["default_segment_number"] == made["wal_config"]["wal_capacity_mb"] == 1
        indexes = {body["field_name"]: body["field_schema"] for body in server.bodies("/collections/c.g1/index")}
        assert indexes.keys() == PAYLOAD_FIELDS.keys() | {"version"}
        assert indexes["tenant"] == {"type": "keyword", "is_tenant": True}
        assert (indexes["created_at"], indexes["importance"], indexes["version"]) == ("datetime", "float", "integer")

        opened(server, quantization="binary", on_disk_from=0).create("c.g1", 4)
        made = server.bodies("/collections/c.g1")[1]
        assert made["vectors"]["text"]["quantization_config"] == {"binary": {"always_ram": True}}
        assert made["vectors"]["text"]["on_disk"] is made["vectors"]["text"]["hnsw_config"]["on_disk"] is True

    def test_writes_that_are_taken_but_not_done_are_not_done(self, server: QdrantHttp, index: QdrantIndex) -> None:
        server.told = lambda path: (200, {"result": [{"status": "wait_timeout"}]}, {}) if path == BATCH else None
        with pytest.raises(Unavailable):
            index.upsert("c.g1", [point()])

    def test_a_half_made_collection_is_completed(self, server: QdrantHttp, index: QdrantIndex) -> None:
        half = {"tenant": {"data_type": "keyword", "points": 0}, "scope": {"data_type": "keyword", "points": 0}}
        taken = iter(
            [(409, {"status": {"error": "exists"}}, {}), (200, {"result": {**INFO, "payload_schema": half}}, {})]
        )
        server.told = lambda path: next(taken) if path == "/collections/c.g1" else None
        index.create("c.g1", 4)
        fields = {body["field_name"] for body in server.bodies("/collections/c.g1/index")}
        assert fields == (PAYLOAD_FIELDS.keys() | {"version"}) - half.keys()


def says(text: str) -> dict[str, Any]:
    """An error as a Qdrant server words it."""
    return {"status": {"error": text}, "time": 0.1}


STRICT = 'Index required but not found for "color" of one of the following types: [keyword]. Help: secret text'
FAILURES: list[tuple[int, Any, dict[str, str], type[EngineError]]] = [
    (404, says("Not found: Collection `c.g1` doesn't exist!"), {}, NotFound),
    (404, b"<html>nothing here</html>", {}, Misconfigured),
    (401, b"Must provide an API key", {}, Misconfigured),
    (403, says("Forbidden: Global manage access is required"), {}, Misconfigured),
    (403, says(f"Forbidden: {STRICT}"), {}, Refused),
    (400, says(f"Bad request: {STRICT}"), {}, Refused),
    (400, says("Wrong input: secret text"), {}, Refused),
    (422, says("secret text"), {}, Refused),
    (413, says("secret text"), {}, Refused),
    (409, says("Wrong input: Collection `c.g1` already exists!"), {}, Conflict),
    (429, says("Rate limiting exceeded"), {"Retry-After": "7"}, Overloaded),
    (429, says("Rate limiting exceeded"), {}, Overloaded),
    (429, says("Rate limiting exceeded"), {"Retry-After": "soon"}, Overloaded),
    (500, says("Service internal error: secret text"), {}, Unavailable),
    (503, b"no healthy upstream", {}, Unavailable),
    (200, b"<html>welcome</html>", {}, BadAnswer),
    (200, {"result": "secret text"}, {}, BadAnswer),
    (200, {"result": None}, {}, BadAnswer),
    (302, b"", {"Location": "https://elsewhere/"}, Misconfigured),
]


class TestAnswers:
    @pytest.mark.parametrize(("status", "body", "headers", "kind"), FAILURES)
    def test_each_status_is_an_error_of_ours(
        self, server: QdrantHttp, index: QdrantIndex, status: int, body: Any, headers: dict[str, str], kind: type
    ) -> None:
        server.told = lambda path: (status, body, headers) if "points" in path else None
        for call in (
            lambda: index.count("c.g1"),
            lambda: list(index.scroll("c.g1")),
            lambda: index.upsert("c.g1", [point()]),
            lambda: index.search("c.g1", ONES, selection(), 5),
        ):
            with pytest.raises(kind) as failure:
                call()
            assert type(failure.value) is kind
            assert KEY not in f"{failure.value!r}{failure.value.details}"
            assert "secret" not in str(failure.value)
            assert failure.value.__cause__ is None
            if kind is Refused and "color" in str(body):
                assert 'not found for "color"' in str(failure.value)
            if kind is Overloaded:
                assert failure.value.retry_after == (7 if headers.get("Retry-After") == "7" else None)  # type: ignore[attr-defined]

    def test_the_key_is_a_header_and_nothing_else(self, server: QdrantHttp, index: QdrantIndex) -> None:
        index.upsert("c.g1", [point()])
        assert {headers["api-key"] for _, _, headers, _ in server.requests} == {KEY}
        assert not any(KEY in path or KEY.encode() in body for _, path, _, body in server.requests)
        assert KEY not in repr(QdrantOptions(url="http://x", api_key=KEY))
        for bad in ("", "two\nlines", " space", "ключ"):
            with pytest.raises(Misconfigured) as refusal:
                opened(server, api_key=bad)
            assert not bad.strip() or bad not in str(refusal.value)

    def test_a_call_ends_within_its_bound(self, server: QdrantHttp, index: QdrantIndex) -> None:
        server.told = lambda path: time.sleep(4) if "points" in path else None  # type: ignore[func-returns-value]
        for call in (lambda: index.count("c.g1"), lambda: index.upsert("c.g1", [point()])):
            begun = time.monotonic()
            with pytest.raises(Unavailable, match="in time"):
                call()
            assert time.monotonic() - begun < 3

    def test_a_scroll_cut_short_is_no_end(self, server: QdrantHttp, index: QdrantIndex) -> None:
        record = {"id": str(key()), "payload": {"version": 1, "text_hash": "h"}}
        page = {"result": {"points": [record], "next_page_offset": str(key("b"))}}
        pages = iter([(200, page, {}), (500, b"", {})])
        server.told = lambda path: next(pages) if "scroll" in path else None
        seen = index.scroll("c.g1")
        assert next(seen)[0] == key()
        with pytest.raises(Unavailable):
            next(seen)

    def test_nobody_there_is_unavailable(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for options in ({}, {"prefer_grpc": True, "grpc_port": port}):
            given: dict[str, Any] = {"timeout": timedelta(seconds=1), **options}
            index = QdrantIndex(QdrantOptions(url=f"http://127.0.0.1:{port}", **given))
            with pytest.raises(Unavailable):
                index.count("c.g1")
            index.close()


class TestTls:
    def test_the_own_authority_and_a_client_certificate_are_used(self, server: QdrantHttp, tmp_path: Path) -> None:
        authority, ours = trustme.CA(), tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(ours))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
        mine = authority.issue_cert("worker")
        (tmp_path / "cert.pem").write_bytes(mine.cert_chain_pems[0].bytes())
        (tmp_path / "key.pem").write_bytes(mine.private_key_pem.bytes())
        own = {"client_certificate": tmp_path / "cert.pem", "client_key": tmp_path / "key.pem"}
        assert opened(server, "https", ca_file=ours, **own).collections() == {"c.g1", "c.g2", "c.g3"}
        for options in ({}, own):
            with pytest.raises(Misconfigured):
                opened(server, "https", **options).collections()

    def test_unusable_files_and_a_server_without_tls_are_said_so(self, server: QdrantHttp, tmp_path: Path) -> None:
        (tmp_path / "empty.pem").touch()
        for name in ("empty.pem", "missing.pem"):
            with pytest.raises(Misconfigured):
                opened(server, "https", ca_file=tmp_path / name)
        with pytest.raises(Misconfigured):
            opened(server, "https").collections()


def test_grpc_carries_the_guards_and_the_key_and_its_codes_are_errors_of_ours() -> None:
    sent: list[Any] = []
    codes = iter(
        [
            (grpc.StatusCode.NOT_FOUND, NotFound),
            (grpc.StatusCode.UNAUTHENTICATED, Misconfigured),
            (grpc.StatusCode.INVALID_ARGUMENT, Refused),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, Overloaded),
            (grpc.StatusCode.INTERNAL, Unavailable),
        ]
    )
    expected: list[type[EngineError]] = []

    def answer(request: Any, context: Any) -> Any:
        sent.append((request, dict(context.invocation_metadata())))
        if (failing := next(codes, None)) is None:
            time.sleep(3)
            return wire.UpdateBatchResponse()
        expected.append(failing[1])
        return context.abort(failing[0], "secret text")

    handler = grpc.unary_unary_rpc_method_handler(
        answer, wire.UpdateBatchPoints.FromString, wire.UpdateBatchResponse.SerializeToString
    )
    listener = grpc.server(futures.ThreadPoolExecutor(2))
    listener.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("qdrant.Points", {"UpdateBatch": handler})])
    port = listener.add_insecure_port("127.0.0.1:0")
    listener.start()
    options = QdrantOptions(
        url="http://127.0.0.1:1", api_key=KEY, prefer_grpc=True, grpc_port=port, timeout=timedelta(seconds=1)
    )
    index = QdrantIndex(options)
    index._widths["c.g1"] = 4
    for _ in range(5):
        with pytest.raises(EngineError) as failure:
            index.upsert("c.g1", [point("a", 7), point("b", 2**53 - 1)])
        assert type(failure.value) is expected[-1]
        assert "secret" not in str(failure.value)
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        index.upsert("c.g1", [point("a", 7)])
    assert time.monotonic() - begun < 2.5
    request, metadata = sent[0]
    assert metadata["api-key"] == KEY
    bounds = [one.upsert.update_filter.must[0].field for one in request.operations]
    assert [(bound.key, bound.range.lte) for bound in bounds] == [("version", 7.0), ("version", 2.0**53 - 1)]
    index.close()
    listener.stop(None)
