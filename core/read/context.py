"""What was found, as a block of text for a prompt: with sources, within a token budget. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.errors import Refused
from core.model.memory import Memory
from core.model.query import Answer
from core.model.tokens import estimated_tokens

Order = Literal["best", "oldest"]
HEADER = "Memories that may help (each with its source):"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A block of text with what stands in it, in order, how many memories found no room, and its estimated tokens.

    `degraded` is what the search it was made from says of itself.
    """

    text: str
    memories: tuple[Memory, ...]
    left_out: int
    tokens: int
    degraded: str | None = None

    def message(self, role: Literal["system", "user"] = "system") -> dict[str, str]:
        """The block as one message of a chat."""
        return {"role": role, "content": self.text}


def context_of(answer: Answer, budget: int, order: Order = "best") -> Context:
    """The best of an answer that fit into `budget` tokens (estimated), each text once, whole or not at all.

    Passages stay together. Raises Refused for a budget that has no room for anything.
    """
    if budget < 1:
        raise Refused("a budget of at least one token is needed", where="budget")
    groups = [one.memories for one in answer.passages] or [(one.memory,) for one in answer.found]
    tokens, left_out = estimated_tokens(HEADER), 0
    seen: set[str] = set()
    taken: list[tuple[tuple[Memory, ...], str]] = []
    for group in groups:
        fresh = tuple(memory for memory in group if _same(memory) not in seen)
        if not fresh:
            continue
        block = "\n".join(_line(memory) for memory in fresh)
        cost = estimated_tokens(block) + 1
        if tokens + cost > budget:
            left_out += len(fresh)
            continue
        seen |= {_same(memory) for memory in fresh}
        tokens += cost
        taken.append((fresh, block))
    if order == "oldest":
        taken.sort(key=lambda one: (one[0][0].created_at, one[0][0].id))
    text = "\n".join([HEADER, *(block for _, block in taken)]) if taken else ""
    kept = tuple(memory for group, _ in taken for memory in group)
    return Context(
        text=text,
        memories=kept,
        left_out=left_out,
        tokens=estimated_tokens(text) if text else 0,
        degraded=answer.degraded,
    )


def _same(memory: Memory) -> str:
    return " ".join(memory.content.split()).casefold()


def _line(memory: Memory) -> str:
    return f"- [{source_of(memory)}] {memory.content.strip()}"


def source_of(memory: Memory) -> str:
    """Where a memory is from, in a few words: its id, who said it or which lines of which file, and the day."""
    parts: Sequence[str | None] = (
        memory.id,
        memory.speaker or memory.role,
        None if memory.source is None else f"{memory.source.path}:{memory.source.first_line}",
        f"{memory.created_at:%Y-%m-%d}",
    )
    return ", ".join(part for part in parts if part)
