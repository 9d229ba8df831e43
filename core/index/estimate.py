"""What it would take to embed all memories of a tenant in a space, before anything is begun or paid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.index.known import KnownVectors
from core.model.generation import Generation, GenerationState
from core.model.names import index_group
from core.model.space import EmbeddingSpace, text_hash
from core.model.tokens import estimated_tokens
from core.record import memories
from core.record.database import Database

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Of one tenant: its records, of these how many get a vector that is known already, and tokens for the rest.

    Equal texts count as known after the first. Tokens are estimates, as everywhere before a provider has counted.
    """

    tenant: str
    records: int
    reusable: int
    tokens: int

    def money(self, price: float | None) -> float | None:
        """What the tokens cost, at a price per million; None: the price is not known."""
        return None if price is None else self.tokens * price / 1_000_000

    def seconds(self, rate: int | None) -> float | None:
        """How long it takes at so many records a second; None: no rate is set."""
        return None if rate is None else self.records / rate


def estimate(database: Database, known: Sequence[KnownVectors], tenant: str, space: EmbeddingSpace) -> Estimate:
    """Read every record of the tenant once, in bounded memory (16 bytes a distinct text), and add up."""
    asked = Generation(
        tenant=tenant, number=0, index_group=index_group(tenant), space=space, state=GenerationState.BUILDING
    )
    records = reusable = tokens = 0
    seen: set[bytes] = set()
    for page in _texts(database, tenant, space):
        records += len(page)
        fresh: dict[str, str] = {}
        for key, text in page:
            if (short := bytes.fromhex(key)) not in seen:
                seen.add(short)
                fresh[key] = text
        have: set[str] = set()
        for source in known:
            if missing := [key for key in fresh if key not in have]:
                have |= source.vectors_of_texts(asked, missing).keys()
        to_embed = [text for key, text in fresh.items() if key not in have]
        tokens += sum(map(estimated_tokens, to_embed))
        reusable += len(page) - len(to_embed)
    return Estimate(tenant=tenant, records=records, reusable=reusable, tokens=tokens)


def _texts(database: Database, tenant: str, space: EmbeddingSpace) -> Iterator[list[tuple[str, str]]]:
    """Text hash and text of every record, a page a transaction."""
    after = ""
    while True:
        with database.tenant(tenant) as session:
            hash_key = memories.keys(session).hash_key
            rows = memories.texts(session, tenant, after, PAGE)
        texts = [space.document_text(title, content) for _, title, content in rows]
        if texts:
            yield [(text_hash(text, hash_key), text) for text in texts]
        if len(rows) < PAGE:
            return
        after = rows[-1][0]
