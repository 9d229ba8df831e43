"""What an engine is given: the open stores, and the models that can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from core.model.quality import Checker
from core.model.space import EmbeddingSpace
from core.ports import (
    BatchEmbedder,
    BlobStore,
    BulkLoads,
    Cache,
    Embedder,
    EventStream,
    KeyProvider,
    Locks,
    VectorIndex,
)
from core.record.database import Database
from core.write.working import Scratch


class Models(Protocol):
    """The embedding models that can be asked. `of` and `named` raise Misconfigured for one that cannot."""

    @property
    def default(self) -> Embedder:
        """The model new tenants are embedded with."""

    def of(self, space: EmbeddingSpace) -> Embedder:
        """The model of a space. A query or record never goes to a model of another space."""

    def batches_of(self, space: EmbeddingSpace) -> BatchEmbedder | None:
        """The batch jobs of a space's model; None: it has none."""

    def cooling(self) -> frozenset[str]:
        """Fingerprints of the spaces whose provider cools down now."""

    def named(self, name: str, dimensions: int | None = None) -> Embedder:
        """A model by its name in the settings or at the default's provider, at another width if one is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open stores an engine works on."""

    database: Database
    index: VectorIndex
    cache: Cache
    models: Models
    blobs: BlobStore
    locks: Locks
    keys: KeyProvider | None = None
    receipt_key: bytes | None = None
    loads: BulkLoads | None = None
    scratch: Scratch | None = None
    events: EventStream | None = None
    checker: Checker | None = None
