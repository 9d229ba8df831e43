"""Bulk loads on a Qdrant server: no graph while they last, and afterwards what fits the size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.adapters.qdrant_requests import QdrantOptions
from core.adapters.qdrant_server import QdrantIndex
from tests.contract.fake_qdrant_http import QdrantHttp


@pytest.fixture
def server() -> Iterator[QdrantHttp]:
    started = QdrantHttp()
    yield started
    started.shutdown()
    started.server_close()


@pytest.mark.parametrize(("points", "segments", "on_disk"), [(10, 1, None), (99_999, 1, True), (100_000, 0, True)])
def test_bulk_load_raises_the_indexing_threshold_and_ends_as_fits_the_size(
    server: QdrantHttp, points: int, segments: int, on_disk: bool | None
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    index = QdrantIndex(QdrantOptions(url=url, on_disk_from=50_000))
    counted = (200, {"result": {"count": points}}, {})
    server.told = lambda path: counted if path.endswith("/points/count") else None
    for call in (index.begin_bulk, index.begin_bulk, index.end_bulk, index.end_bulk):
        call("c.g1")
    sent = server.bodies("/collections/c.g1")
    assert [body["optimizers_config"]["indexing_threshold"] for body in sent] == [10**9, 10**9, 10_000, 10_000]
    assert sent[2] == sent[3]
    assert sent[3]["optimizers_config"]["default_segment_number"] == segments
    assert sent[3].get("vectors", {}).get("text", {}).get("on_disk") is on_disk
    index.close()
