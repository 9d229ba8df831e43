"""The embedding models the settings name, each opened when its space is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.adapters.local_throttle import LocalThrottle
from core.adapters.redis_server import RedisServer
from core.adapters.redis_throttle import RedisThrottle
from core.adapters.wordllama_embedder import MODEL, WHEEL, WIDTHS, WordLlamaEmbedder
from core.assembly.stores import CACHE_PREFIX
from core.errors import Misconfigured
from core.index.throttled import ThrottledEmbedder, Throttling
from core.model.quota import Quota, provider_key
from core.model.space import EmbeddingSpace
from core.ports import BatchEmbedder, Embedder, Throttle
from core.settings import EmbeddingModel, Settings

if TYPE_CHECKING:
    from core.adapters.openai_options import ProviderOptions


class SpaceModels:
    """Every model that can be asked, one embedder a space. Thread-safe; closed once.

    A space that was built with one model of an account is served by that account also when the settings name
    another model of it now: a tenant keeps its model until it is reindexed.
    """

    def __init__(self, settings: Settings, server: RedisServer | None) -> None:
        self._settings = settings
        self._server = server
        self._lock = threading.Lock()
        self._open: dict[str, Embedder] = {}
        self._accounts: dict[str, EmbeddingModel] = {}
        self._batches: dict[str, BatchEmbedder] = {}
        self._default = self._kept(settings.embedding_default)

    @property
    def default(self) -> Embedder:
        """The model new tenants are embedded with."""
        return self._default

    def of(self, space: EmbeddingSpace) -> Embedder:
        """The model of a space. Raises Misconfigured where the settings name none."""
        with self._lock:
            known = self._open.get(space.fingerprint)
        if known is not None:
            return known
        for model in self._candidates(space):
            try:
                embedder = self._kept(model)
            except Misconfigured:
                continue  # this account has no such model, or not at that width
            if embedder.space.fingerprint == space.fingerprint:
                return embedder
        ours = self._default.space
        raise Misconfigured(
            f"the generation was built with {space.provider} {space.model} at {space.dimensions} dimensions "
            f"({space.fingerprint[:8]}), the settings say {ours.provider} {ours.model} at {ours.dimensions} "
            f"({ours.fingerprint[:8]}): name the former in embedding_models, or reindex"
        )

    def named(self, name: str, dimensions: int | None = None) -> Embedder:
        """A model by its name in `embedding_models`, the bundled one, or one of the default's provider."""
        default = self._settings.embedding_default
        if name in self._settings.embedding_models:
            chosen = self._settings.embedding_models[name]
        elif name in {WHEEL, MODEL}:
            chosen = EmbeddingModel(provider=WHEEL)
        elif default.provider == WHEEL:
            raise Misconfigured(f"model: {name!r} is neither {WHEEL} nor in embedding_models")
        else:
            chosen = default.model_copy(update={"model": name, "dimensions": None, "deployment": None})
        if dimensions is not None:
            chosen = chosen.model_copy(update={"dimensions": dimensions})
        return self._kept(chosen)

    def cooling(self) -> frozenset[str]:
        """Fingerprints of the spaces whose provider asked for less, and that time is not over."""
        with self._lock:
            opened = list(self._open.items())
        return frozenset(name for name, one in opened if isinstance(one, ThrottledEmbedder) and one.cools)

    def batches_of(self, space: EmbeddingSpace) -> BatchEmbedder | None:
        """The batch jobs of a space's model; None: it has none. Raises Misconfigured as `of` does."""
        self.of(space)
        with self._lock:
            known = self._batches.get(space.fingerprint)
            if known is None and (known := open_batches(self._accounts[space.fingerprint], self._settings)) is not None:
                self._batches[space.fingerprint] = known
            return known

    def close(self) -> None:
        """Close every embedder that was opened."""
        with self._lock:
            opened: list[Embedder | BatchEmbedder] = [*self._open.values(), *self._batches.values()]
            self._open.clear()
            self._batches.clear()
        for embedder in opened:
            embedder.close()

    def _candidates(self, space: EmbeddingSpace) -> Iterator[EmbeddingModel]:
        if space.provider == WHEEL:
            yield EmbeddingModel(provider=WHEEL, dimensions=space.dimensions)
            return
        accounts = [*self._settings.embedding_models.values(), self._settings.embedding_default]
        yield from (one for one in accounts if one.provider == space.provider and one.model is not None)
        wanted = {"model": space.model, "dimensions": space.dimensions}
        yield from (one.model_copy(update=wanted) for one in accounts if one.provider == space.provider)

    def _kept(self, model: EmbeddingModel) -> Embedder:
        embedder = throttled(open_embedder(model, self._settings), model, self._settings, self._server)
        with self._lock:
            known = self._open.setdefault(embedder.space.fingerprint, embedder)
            self._accounts.setdefault(embedder.space.fingerprint, model)
        if known is not embedder:
            embedder.close()
        return known


def open_embedder(model: EmbeddingModel, settings: Settings) -> Embedder:
    """A model of the settings; nothing is loaded or asked yet. Raises Misconfigured."""
    if model.provider == WHEEL:
        return WordLlamaEmbedder(model.dimensions or WIDTHS[-1])
    # Importing its client takes most of a second, which the bundled model does not need to wait.
    from core.adapters.openai_embedder import OpenAIEmbedder

    return OpenAIEmbedder(_options_of(model, settings))


def open_batches(model: EmbeddingModel, settings: Settings) -> BatchEmbedder | None:
    """The batch jobs of a model of the settings; None where its provider is not known to have any."""
    if model.provider == WHEEL:
        return None
    from core.adapters.openai_batches import OpenAIBatches

    options = _options_of(model, settings)
    return None if options.batch_inputs is None else OpenAIBatches(options)


def _options_of(model: EmbeddingModel, settings: Settings) -> ProviderOptions:
    from core.adapters.embedding_presets import options_for

    if model.model is None:
        raise Misconfigured(f"embedding_model: say which model of {model.provider}")
    return options_for(
        model.provider,
        model.model,
        dimensions=model.dimensions,
        base_url=None if model.url is None else model.url.get_secret_value(),
        api_key=None if model.api_key is None else model.api_key.get_secret_value(),
        deployment=model.deployment,
        document_timeout=settings.embedding_timeout,
        query_timeout=settings.embedding_query_timeout,
        batch_tokens=model.batch_tokens,
    )


def price_of(provider: str, model: str, *, batch: bool = False) -> float | None:
    """List price of a million tokens, in US dollars, in requests or in batch jobs; None: not known."""
    from core.adapters.embedding_presets import facts_of, providers

    if (provider, model) == (WHEEL, MODEL):
        return 0.0
    facts = facts_of(provider, model) if provider in providers() else None
    if facts is None:
        return None
    return facts.batch_price if batch else facts.price


def throttled(embedder: Embedder, model: EmbeddingModel, settings: Settings, server: RedisServer | None) -> Embedder:
    """The embedder, kept to its provider's limits with all workers on the same key; as it is where it has none."""
    if model.provider == WHEEL:
        return embedder
    quota = Quota(
        requests_per_minute=model.requests_a_minute,
        tokens_per_minute=model.tokens_a_minute,
        at_once=model.at_once,
        kept_for_queries=settings.embedding_kept_for_queries,
    )
    share, key = settings.embedding_share, model.api_key
    alone = LocalThrottle(share=share)
    throttle: Throttle = alone if server is None else RedisThrottle(server, prefix=f"{CACHE_PREFIX}limit:", share=share)
    named = provider_key(embedder.space.endpoint, "" if key is None else key.get_secret_value())
    return ThrottledEmbedder(embedder, Throttling(throttle=throttle, key=named, quota=quota))
