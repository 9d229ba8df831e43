"""Rows of a snapshot as Parquet: zstd, vectors as fixed-size lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import BadAnswer
from core.model.point import Vector
from core.model.snapshot import Precision

UNKNOWN = -1  # in `moments`: the record had moved on
_ROW_GROUP = 8192
_KEYS = ("point", "version", "text_hash")


@dataclass(frozen=True, slots=True)
class Keys:
    """Point ids (16 bytes), versions and text hashes (16 bytes) of rows, in the order of point ids."""

    points: Sequence[bytes]
    versions: NDArray[np.int64]
    hashes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one bucket, in the order of point ids; one element a row in each field.

    `ids` are the memories' ids; `moments` when the record got this version, in microseconds since 1970, or
    UNKNOWN; `vectors` float32 of the shape (rows, dimensions).
    """

    keys: Keys
    ids: Sequence[str]
    moments: NDArray[np.int64]
    vectors: Vector

    def __len__(self) -> int:
        return len(self.ids)

    def chosen(self, places: Sequence[int]) -> Rows:
        """The rows at these places."""
        picked = np.asarray(places, dtype=np.intp)
        keys = Keys(
            [self.keys.points[place] for place in places],
            self.keys.versions[picked],
            [self.keys.hashes[place] for place in places],
        )
        return Rows(keys, [self.ids[place] for place in places], self.moments[picked], self.vectors[picked])


def merged(pieces: Sequence[Rows], width: int) -> Rows:
    """Several pieces as one, sorted by point id; no point may be in two."""
    points = [point for piece in pieces for point in piece.keys.points]
    whole = Rows(
        Keys(
            points,
            _joined([piece.keys.versions for piece in pieces], np.int64),
            [one for piece in pieces for one in piece.keys.hashes],
        ),
        [one for piece in pieces for one in piece.ids],
        _joined([piece.moments for piece in pieces], np.int64),
        np.concatenate([piece.vectors for piece in pieces]) if pieces else np.empty((0, width), dtype=np.float32),
    )
    order = sorted(range(len(points)), key=points.__getitem__)
    return whole if order == list(range(len(points))) else whole.chosen(order)


def kept(vectors: Vector, precision: Precision) -> Vector:
    """What is left of vectors at a precision, as float32."""
    return vectors if precision == "float32" else vectors.astype(np.float16).astype(np.float32)


def loss(vectors: Vector, precision: Precision) -> float:
    """The greatest 1 - cosine between a vector and what is kept of it; 0.0 for no vectors."""
    if precision == "float32" or not len(vectors):
        return 0.0
    before, after = vectors.astype(np.float64), kept(vectors, precision).astype(np.float64)
    cosines = np.einsum("ij,ij->i", before, after) / (np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1))
    return float(max(0.0, 1.0 - cosines.min()))


def encoded(rows: Rows, precision: Precision) -> bytes:
    """A part."""
    import pyarrow as pa

    flat = np.ascontiguousarray(rows.vectors, dtype=np.dtype(precision)).reshape(-1)
    columns = {
        **_key_columns(rows.keys),
        "id": pa.array(rows.ids, pa.string()),
        "moment": pa.array(rows.moments, pa.int64()),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat), rows.vectors.shape[1]),
    }
    return _written(pa.table(columns))


def encoded_keys(keys: Keys) -> bytes:
    """The keys of a part."""
    import pyarrow as pa

    return _written(pa.table(_key_columns(keys)))


def decoded(data: bytes) -> Rows:
    """The rows of a part. Raises BadAnswer for bytes that are none."""
    table = _read(data, (*_KEYS, "id", "moment", "vector"))
    vectors = table.column("vector").combine_chunks()
    if hasattr(vectors, "chunks"):  # of a table without rows
        vectors = vectors.chunk(0)
    width = vectors.type.list_size
    flat = vectors.flatten().to_numpy(zero_copy_only=False)
    return Rows(
        _keys(table),
        table.column("id").to_pylist(),
        table.column("moment").to_numpy(),
        np.asarray(flat, dtype=np.float32).reshape(-1, width),
    )


def decoded_keys(data: bytes) -> Keys:
    """The keys of a part, from either of its objects. Raises BadAnswer for bytes that are none."""
    return _keys(_read(data, _KEYS))


def _key_columns(keys: Keys) -> dict[str, Any]:
    import pyarrow as pa

    return {
        "point": pa.array(keys.points, pa.binary(16)),
        "version": pa.array(keys.versions, pa.int64()),
        "text_hash": pa.array(keys.hashes, pa.binary(16)),
    }


def _keys(table: Any) -> Keys:
    return Keys(
        table.column("point").to_pylist(), table.column("version").to_numpy(), table.column("text_hash").to_pylist()
    )


def _written(table: Any) -> bytes:
    import pyarrow.parquet as pq

    out = BytesIO()
    # Vectors have no value twice, so that a dictionary would only cost.
    pq.write_table(table, out, compression="zstd", compression_level=1, use_dictionary=False, row_group_size=_ROW_GROUP)
    return out.getvalue()


def _read(data: bytes, columns: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(pa.BufferReader(data), columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadAnswer("a part of a snapshot is no Parquet of ours") from error


def _joined(arrays: Sequence[NDArray[np.int64]], kind: type[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)
