"""What a machine allows at best: the same work on the bare libraries, without the engine."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psycopg
import qdrant_edge as edge
import wordllama
from numpy.typing import NDArray

from core.model.memory import Draft


def timed(call: Callable[[], object]) -> float:
    """Seconds a call took."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def two_insert_commits(url: str, texts: Sequence[str]) -> list[float]:
    """Seconds of each transaction that inserts a text into a plain table and a row into a second one."""
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("CREATE TABLE bare_text (id uuid PRIMARY KEY, content text)")
        session.execute("CREATE TABLE bare_work (id uuid PRIMARY KEY, at timestamptz DEFAULT now())")

        def commit(text: str) -> None:
            key = uuid.uuid4()
            with session.transaction():
                session.execute("INSERT INTO bare_text VALUES (%s, %s)", (key, text))
                session.execute("INSERT INTO bare_work (id) VALUES (%s)", (key,))

        seconds = [timed(lambda text=text: commit(text)) for text in texts]
        session.execute("DROP TABLE bare_text, bare_work")
    return seconds


def copy_rows(url: str, drafts: Sequence[Draft]) -> float:
    """Seconds of a COPY of ids and texts into a plain table."""
    with psycopg.connect(url) as session, session.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE bare (id text, content text)")

        def copy() -> None:
            with cursor.copy("COPY bare FROM STDIN") as rows:
                for draft in drafts:
                    rows.write_row((draft.id, draft.content))

        return timed(copy)


def library_model(texts: Sequence[str]) -> float:
    """Texts a second through the model's own library, in batches of 1,000."""
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    model.embed(["warm"])
    batches = [list(texts[start : start + 1000]) for start in range(0, len(texts), 1000)]
    return len(texts) / timed(lambda: [model.embed(batch) for batch in batches])


class BareShard:
    """A folder of the index's library with vectors and no payload."""

    def __init__(self, folder: Path, vectors: NDArray[np.float32]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        params = edge.EdgeVectorParams(size=vectors.shape[1], distance=edge.Distance.Cosine)
        self._shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors={"text": params}))
        for start in range(0, len(vectors), 1000):
            self._store(range(start, min(start + 1000, len(vectors))), vectors[start : start + 1000])

    def upserts(self, vectors: NDArray[np.float32]) -> list[float]:
        """Seconds of each upsert of one point."""
        return [timed(lambda v=v: self._store([0], [v])) for v in vectors]

    def queries(self, vectors: NDArray[np.float32], limit: int) -> list[float]:
        """Seconds of each query without a filter."""
        return [timed(lambda v=v: self._query(v, limit)) for v in vectors]

    def close(self) -> None:
        """Close and remove the folder."""
        self._shard.close()
        shutil.rmtree(self._folder)

    def _store(self, numbers: Sequence[int], vectors: Sequence[NDArray[np.float32]] | NDArray[np.float32]) -> None:
        points = [
            edge.Point(uuid.UUID(int=number + 1), {"text": vector.tolist()}, {})
            for number, vector in zip(numbers, vectors, strict=True)
        ]
        self._shard.update(edge.UpdateOperation.upsert_points(points))

    def _query(self, vector: NDArray[np.float32], limit: int) -> object:
        nearest = edge.Query.Nearest(vector.tolist(), using="text")
        return self._shard.query(edge.QueryRequest(query=nearest, limit=limit, with_payload=False))
