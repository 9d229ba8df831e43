"""A claim on its way into an index: what is wanted of each entry, what was made of it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.errors import EngineError
from core.model.batch import Wanted
from core.model.generation import Generation
from core.model.memory import Memory
from core.model.outbox import Claim
from core.model.point import Payload, Vector, payload_of
from core.model.space import text_hash
from core.model.use import Use


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a batch.

    `embedded` entries got the vector of an embedding made now, `reused` ones a vector that was already paid
    for; `truncated` ones of either have that of the beginning of their text only. `lost` ones had been taken
    over by another worker. `left` ones could not be embedded because of `problem` and are still leased, and so are
    those of `deferred` texts. `requests`, `texts` and `tokens` are what the embeddings took.
    """

    embedded: int = 0
    reused: int = 0
    truncated: int = 0
    payload_only: int = 0
    deleted: int = 0
    unchanged: int = 0
    requeued: int = 0
    lost: int = 0
    set_aside: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    problem: EngineError | None = None
    deferred: list[Wanted] = field(default_factory=list)
    requests: int = 0
    texts: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Batch:
    """A claim on its way: what the record wants of each entry, and what has been made of it."""

    claim: Claim
    wanted: dict[str, Memory]
    unwanted: dict[str, int]
    defer: bool = False
    came: dict[str, Vector] = field(default_factory=dict)
    payloads: dict[str, Payload] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    same_text: set[str] = field(default_factory=set)
    vectors: dict[str, Vector] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    spared: int = 0
    noted: Use = field(default_factory=Use)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def generation(self) -> Generation:
        """Whose work it is."""
        return self.claim.generation

    def prepare(self, memories_of: dict[str, Memory], hash_key: bytes) -> None:
        """Text and payload of memories that are whole and in the clear."""
        space = self.generation.space
        for memory_id, memory in memories_of.items():
            text = space.document_text(memory.title, memory.content)
            self.texts[memory_id] = text
            self.payloads[memory_id] = payload_of(memory, text_hash(text, hash_key))

    def hashes(self) -> list[str]:
        """Every text's hash, once."""
        return sorted({payload.stamp.text_hash for payload in self.payloads.values()})

    def drop(self, memory_ids: set[str]) -> None:
        """Leave entries alone from here on: they are set aside, or no longer ours."""
        for memory_id in memory_ids:
            for kept in (self.wanted, self.unwanted, self.texts, self.vectors):
                kept.pop(memory_id, None)
        self.same_text -= memory_ids
