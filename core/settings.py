"""What the operator chose: `MEMORY_*` in the environment, then `memory.toml` in the working folder, then defaults.

The only reader of the environment. One frozen object, checked once; secrets print as stars.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from core.errors import Misconfigured, Refused
from core.model.ranking import PROFILES, Ranking
from core.model.reindex import GateBounds

SETTINGS_FILE = Path("memory.toml")


def _from_seconds(given: object) -> object:
    """A text that is a plain number counts seconds, as a number does; ISO 8601 (PT60S) is left to pydantic."""
    if isinstance(given, str):
        text = given.strip().removesuffix("s").rstrip()
        if text.replace(".", "", 1).isdecimal():
            return float(text)
    return given


Span = Annotated[timedelta, BeforeValidator(_from_seconds)]


class EmbeddingModel(BaseModel):
    """One embedding model and the account it is asked under. `provider` is the bundled model's or a preset's name."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    provider: str
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=1)
    url: SecretStr | None = None
    api_key: SecretStr | None = None
    deployment: str | None = None
    requests_a_minute: int | None = Field(default=None, ge=1)
    tokens_a_minute: int | None = Field(default=None, ge=1)
    at_once: int | None = Field(default=None, ge=1)
    batch_tokens: int | None = Field(default=None, ge=1)


class PolicyRule(BaseModel):
    """A policy for one tenant (unset: all) and one type (unset: all); only what it names is changed by it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tenant: str | None = None
    type: str | None = None
    cold_after: Span | None = Field(None, gt=timedelta(0), description="Rest after which a memory is cold; null: never")
    archive_after: Span | None = Field(None, gt=timedelta(0), description="Rest after which it is archived")
    spare_importance: float = Field(0.9, ge=0, description="From this importance on, it stays warm")
    time_to_live: Span | None = Field(None, gt=timedelta(0), description="Time after creation at which it is reaped")


class Settings(BaseSettings):
    """Everything that can be chosen. Each field is `MEMORY_<NAME>` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="MEMORY_", frozen=True, extra="forbid", toml_file=SETTINGS_FILE, hide_input_in_errors=True
    )

    home: Path = Field(Path(".memory"), description="Folder of the embedded stores")
    postgres_url: SecretStr | None = Field(None, description="Your PostgreSQL; unset: an embedded one in home")
    redis_url: SecretStr | None = Field(None, description="Your Redis or Valkey; unset: an embedded one in home")
    qdrant_url: str | None = Field(
        None, description="Your Qdrant, such as https://host:6333; unset: Qdrant Edge in home"
    )
    qdrant_api_key: SecretStr | None = Field(None, description="API key of your Qdrant")
    qdrant_ca_file: Path | None = Field(None, description="Certificate of the authority your Qdrant is vouched for by")
    qdrant_certificate_file: Path | None = Field(None, description="Client certificate for your Qdrant")
    qdrant_certificate_key_file: Path | None = Field(None, description="Key of the client certificate")
    qdrant_grpc_port: int = Field(0, ge=0, le=65535, description="Port of gRPC, usually 6334; 0: over REST")
    qdrant_timeout: Span = Field(timedelta(seconds=10), gt=timedelta(0))
    qdrant_on_disk_from: int | None = Field(
        None, ge=0, description="Points from which a collection's vectors and graph are kept on disk; unset: never"
    )
    qdrant_quantization: Literal["none", "scalar", "binary"] = Field("none", description="Of new collections")
    objects_url: str | None = Field(
        None, description="s3://bucket/prefix, or a folder; unset: the folder objects in home"
    )
    s3_endpoint: str | None = Field(
        None, description="Address of an S3 server that is not AWS, such as https://host:9000"
    )
    s3_region: str | None = Field(None, description="Region of the bucket")
    s3_key_id: str | None = Field(None, description="Key id; without it the usual AWS chain is asked")
    s3_secret: SecretStr | None = Field(None, description="Secret of the key id")
    s3_ca_file: Path | None = Field(None, description="Certificate of the authority your S3 server is vouched for by")
    s3_kms_key_id: str | None = Field(
        None, description="Id of the KMS key objects are encrypted with; never a key itself"
    )
    s3_client: Literal["s3fs", "obstore"] = Field("s3fs", description="The library that speaks S3; obstore is faster")
    cache: bool = Field(True, description="Use the cache at all; without it everything works, some things slower")

    embedding_provider: str = Field("wordllama", description="Where vectors come from: the bundled model, or a preset")
    embedding_model: str | None = Field(None, description="The provider's model; the bundled one has none to choose")
    embedding_dimensions: int | None = Field(
        None, ge=1, description="Width of the vectors; unset: the model's own (bundled: 64, 128 or 256, which it is)"
    )
    embedding_url: SecretStr | None = Field(None, description="Address of the provider, where it is not the preset's")
    embedding_api_key: SecretStr | None = Field(None, description="The provider's API key")
    embedding_deployment: str | None = Field(None, description="Name of the deployment of the model, at Azure")
    embedding_timeout: Span = Field(timedelta(seconds=60), gt=timedelta(0), description="Of a request for documents")
    embedding_query_timeout: Span = Field(timedelta(seconds=5), gt=timedelta(0), description="Of a request for a query")
    embedding_requests_a_minute: int | None = Field(None, ge=1, description="What the provider allows for the key")
    embedding_tokens_a_minute: int | None = Field(None, ge=1, description="What the provider allows for the key")
    embedding_at_once: int | None = Field(None, ge=1, description="Requests under way at once, of all workers together")
    embedding_batch_tokens: int | None = Field(
        None, ge=1, description="Tokens the provider lets wait in batch jobs of the model at once"
    )
    embedding_kept_for_queries: float = Field(0.1, ge=0, lt=1, description="Share of these that only searches may use")
    embedding_models: dict[str, EmbeddingModel] = Field(
        default_factory=dict,
        description="Further models by names of your own: to reindex to, or that some tenants still stand in",
    )
    embedding_recent_bytes: int = Field(
        64 * 2**20, ge=0, description="Room for vectors of recent texts and queries in a process's memory; 0: none"
    )
    embedding_share: float = Field(
        0.25, gt=0, le=1, description="Share one worker takes while the cache is out of reach"
    )

    connections: int = Field(8, ge=2, le=200, description="Connections to PostgreSQL at the most")
    statement_timeout: Span = Field(timedelta(seconds=30), ge=timedelta(milliseconds=1))
    lock_timeout: Span = Field(timedelta(seconds=5), ge=timedelta(milliseconds=1))
    connect_timeout: Span = Field(timedelta(seconds=10), ge=timedelta(seconds=1))
    cache_timeout: Span = Field(timedelta(milliseconds=250), gt=timedelta(0))
    index_wait: Span = Field(
        timedelta(seconds=10), gt=timedelta(0), description="How long to wait for an index folder another process holds"
    )

    index_open: int = Field(
        64, ge=1, le=1000, description="Embedded index folders one process keeps open; each takes 8 threads"
    )

    search_profile: Literal["conversations", "plain"] = Field(
        "conversations", description="How searches rank: with what conversations know, or each record alone"
    )
    search_fusion: Literal["weighted", "rank"] | None = Field(None, description="How the legs are merged")
    search_vector: float | None = Field(None, ge=0, le=10, description="Weight of the vector leg")
    search_keyword: float | None = Field(None, ge=0, le=10, description="Weight of the keyword leg")
    search_threshold: float | None = Field(None, ge=0, le=10, description="What a merged score must reach")
    search_keyword_threshold: float | None = Field(
        None, ge=0, le=1, description="What a hit of the keyword leg alone must reach, as a part of the best one"
    )
    search_multiplier: int | None = Field(None, ge=1, le=50, description="Candidates of each leg, times the limit")
    search_decay_half_life: Span | None = Field(None, gt=timedelta(0), description="Usually 30 days; unset: no decay")
    search_decay_floor: float | None = Field(None, ge=0, le=1, description="What is left of a score at any age")
    search_evergreen: tuple[str, ...] | None = Field(None, description="Types that do not age")
    search_mmr: float | None = Field(None, ge=0, le=1, description="λ of diversity, usually 0.7; 1: relevance alone")
    search_neighbours: float | None = Field(None, ge=0, le=10, description="Lent to what stands beside a hit")
    search_session: float | None = Field(None, ge=0, le=10, description="For what stands in a session that answers")
    search_speaker: float | None = Field(None, ge=0, le=10, description="For what somebody said whom the query names")
    search_notes: float | None = Field(
        None, ge=0, le=10, description="What part of neighbours and session counts in notes"
    )
    search_graph: float | None = Field(
        None, ge=0, le=10, description="Lent to what speaks of the same entities as the best hits; unset: off"
    )
    search_deadline: Span = Field(timedelta(seconds=10), gt=timedelta(0), description="For both legs of a search")
    search_threads: int = Field(8, ge=2, le=128, description="Legs of searches under way at once in one process")
    search_queries_kept: Span = Field(
        timedelta(days=1), ge=timedelta(0), description="What was asked, to judge a new index by; 0: not kept"
    )
    search_answers_kept: Span = Field(timedelta(seconds=10), ge=timedelta(0), description="0: answers are not kept")

    working_kept: Span = Field(
        timedelta(days=1), gt=timedelta(0), description="How long a working memory stays after its last entry"
    )
    working_entries: int = Field(1000, ge=1, le=2000, description="Entries of a working memory at the most")

    lease: Span = Field(
        timedelta(seconds=60), ge=timedelta(seconds=1), description="How long a claimed batch is kept from others"
    )
    retry_wait: Span = Field(
        timedelta(seconds=2), ge=timedelta(0), description="First wait after a failed batch; it doubles up to 64 times"
    )
    embed_batch: int = Field(500, ge=1, le=10_000, description="Entries claimed and written at a time")
    embed_workers: int = Field(2, ge=1, le=32, description="Batches under way at once in one process")
    embed_portion: int = Field(10_000, ge=1, description="Entries one task of a flow does")
    embed_tokens_a_day: int | None = Field(None, ge=0, description="Tokens all workers may ask for a day (UTC)")
    embed_tokens_a_run: int | None = Field(None, ge=0, description="Tokens one run may ask for")
    batch_wait: Span = Field(
        timedelta(hours=25), gt=timedelta(0), description="How long texts wait for a batch job before they go normally"
    )
    tend_every: Span = Field(
        timedelta(seconds=2), gt=timedelta(0), description="How often the resident loop looks for what waits"
    )
    embed_tasks: int = Field(2, ge=1, le=64, description="Tasks of a flow under way at once")
    task_runner: Literal["threads", "dask"] = Field("threads", description="Where tasks of embed and reindex run")
    dask_address: str | None = Field(
        None, description="Scheduler of your Dask cluster, such as tcp://host:8786; unset: processes here"
    )

    reindex_grace: Span = Field(
        timedelta(hours=24), ge=timedelta(0), description="How long the old index is kept, written to, after a swap"
    )
    reindex_abandoned: Span = Field(
        timedelta(hours=24),
        ge=timedelta(minutes=1),
        description="When a half-built index is given up",
    )
    gate_set_aside: float = Field(0.001, ge=0, le=1, description="Share of a new index's records that may be set aside")
    gate_overlap: float = Field(0.2, ge=0, le=1, description="Share of the first ten hits both indexes must have")
    gate_slower: float = Field(3.0, gt=0, description="How many times the live index's search the new one may take")
    gate_fast_enough: float = Field(30.0, ge=0, description="Milliseconds of a search that are never too slow")
    gate_sample: int = Field(1000, ge=1, le=100_000, description="Points whose payload and vector the gate looks at")
    gate_probes: int = Field(50, ge=1, le=1000, description="Points and queries the gate searches for")
    snapshot_precision: Literal["float32", "float16"] = Field("float32", description="How exactly vectors are kept")
    snapshot_part_bytes: int = Field(16 * 2**20, ge=2**12, description="Size of a part of a snapshot at the most")
    snapshot_portion: int = Field(100_000, ge=1, description="Vectors written between two manifests")
    snapshot_compact_parts: int = Field(8, ge=1, description="Parts that may pile up before they are made one")
    snapshot_compact_after: Span = Field(
        timedelta(days=30), ge=timedelta(0), description="How long vectors of deleted memories may stay in a snapshot"
    )
    snapshot_keep: Span = Field(timedelta(days=7), ge=timedelta(0), description="How long older snapshots are kept")
    snapshot_grace: Span = Field(
        timedelta(days=1), ge=timedelta(0), description="Age from which what no snapshot names is removed"
    )

    event_stream_kept: int = Field(100_000, ge=1, description="Events a tenant's stream keeps, about")
    reconcile_every: Span = Field(
        timedelta(seconds=15), ge=timedelta(seconds=1), description="How often numbers are compared while watching"
    )
    reconcile_digests_every: Span = Field(
        timedelta(minutes=10), ge=timedelta(seconds=10), description="How often digests are, while watching"
    )
    reconcile_minimum_age: Span = Field(
        timedelta(seconds=10), ge=timedelta(0), description="Nothing younger than this is judged"
    )
    reconcile_cap: int = Field(20_000, ge=1, description="Memories of an index one run has done again, at the most")
    reconcile_removals: int = Field(1000, ge=0, description="Points a run may take out of an index, whatever its size")
    reconcile_removed_share: float = Field(0.05, ge=0, le=1, description="Or this share of its points, if that is more")
    reconcile_sample: int = Field(500, ge=1, le=100_000, description="Points whose payload and vector are looked at")
    reconcile_portion: int = Field(1_000_000, ge=1000, description="Records one piece of a run compares")
    reconcile_keep: Span = Field(timedelta(days=30), ge=timedelta(0), description="How long reports are kept")

    @property
    def gate_bounds(self) -> GateBounds:
        """What a new index has to reach before it is swapped in."""
        return GateBounds(
            set_aside=self.gate_set_aside,
            overlap=self.gate_overlap,
            slower=self.gate_slower,
            fast_enough=self.gate_fast_enough,
            sample=self.gate_sample,
            probes=self.gate_probes,
        )

    policies: list[PolicyRule] = Field(
        default_factory=list,
        description="When memories turn cold, are archived, are reaped",
    )
    archive_batch: int = Field(500, ge=1, le=10_000, description="Memories looked at and archived at a time")
    content_in_row: int | None = Field(
        None, ge=1024, description="Bytes of content above which a memory's text lives in an object; unset: never"
    )
    reap_batch: int = Field(2000, ge=1, le=20_000, description="Rows reaped at a time")
    purge_after: Span = Field(timedelta(days=1), ge=timedelta(0), description="How long a deleted row stays")
    tombstones_kept: Span = Field(timedelta(days=400), ge=timedelta(0), description="As long as your oldest backup")
    versions_kept: Span = Field(timedelta(days=90), ge=timedelta(0), description="How long old versions stay")
    events_kept: Span = Field(timedelta(days=30), ge=timedelta(days=1), description="How long events stay")
    objects_grace: Span = Field(
        timedelta(days=1), ge=timedelta(hours=1), description="How long an object that nothing points at is spared"
    )
    backups_kept: Span = Field(timedelta(days=35), ge=timedelta(0), description="Of PostgreSQL; named in receipts")
    key_provider: Literal["none", "file", "environment"] = Field(
        "none", description="Who holds the master key for sensitive memories and archives"
    )
    key_file: Path | None = Field(None, description="File of master keys; unset: master.key in home")
    master_key: SecretStr | None = Field(
        None, description="Master keys in base64, parted by commas, the one in use first"
    )
    receipt_key_file: Path | None = Field(None, description="Your Ed25519 key (PEM), which signs receipts of erasures")

    quality_rows: int = Field(5000, ge=10, le=100_000, description="Rows of a quality suite's sample, at the most")
    quality_tenants: int = Field(50, ge=1, le=1000, description="Tenants a quality run looks at, at the most")
    data_docs: Path | None = Field(None, description="Where quality runs write their pages; unset: quality in home")
    log_format: Literal["text", "json"] = Field("text", description="How lines are written to standard error")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "WARNING", description="Lines from this level on; INFO adds what flow and task runs say"
    )
    metrics_host: str = Field("127.0.0.1", description="Where `memory metrics` listens")
    metrics_port: int = Field(9464, ge=0, le=65535, description="Port of `memory metrics`; 0: any that is free")
    metrics_tenants: int = Field(50, ge=0, le=10_000, description="Tenants shown by name; the others are summed")
    metrics_fresh: Span = Field(timedelta(seconds=15), ge=timedelta(0), description="How long figures serve")
    metrics_timeout: Span = Field(
        timedelta(seconds=5), ge=timedelta(milliseconds=1), description="Of each statement that counts for metrics"
    )

    @property
    def embedding_default(self) -> EmbeddingModel:
        """The model new tenants are embedded with."""
        return EmbeddingModel(
            provider=self.embedding_provider,
            model=self.embedding_model,
            dimensions=self.embedding_dimensions,
            url=self.embedding_url,
            api_key=self.embedding_api_key,
            deployment=self.embedding_deployment,
            requests_a_minute=self.embedding_requests_a_minute,
            tokens_a_minute=self.embedding_tokens_a_minute,
            at_once=self.embedding_at_once,
            batch_tokens=self.embedding_batch_tokens,
        )

    @property
    def ranking(self) -> Ranking:
        """How searches rank: the profile, with what else was chosen. Raises Refused for what makes no sense."""
        names = (field.name for field in fields(Ranking))
        chosen = {name: getattr(self, f"search_{name}", None) for name in names}
        return replace(PROFILES[self.search_profile], **{k: v for k, v in chosen.items() if v is not None})

    @model_validator(mode="after")
    def _no_contradictions(self) -> Settings:
        """What can only be a mistake. `memory doctor` tells of what is merely unwise."""
        if (self.s3_key_id is None) != (self.s3_secret is None):
            raise ValueError("s3_key_id and s3_secret: give both or neither")
        if (self.qdrant_certificate_file is None) != (self.qdrant_certificate_key_file is None):
            raise ValueError("qdrant_certificate_file and qdrant_certificate_key_file: give both or neither")
        if (self.key_provider == "environment") != (self.master_key is not None):
            raise ValueError("master_key goes with key_provider = environment, and the other way round")
        if self.qdrant_url is None and self.qdrant_api_key is not None:
            raise ValueError("qdrant_api_key without qdrant_url: whose key is it?")
        if self.s3_kms_key_id is not None and not (self.objects_url or "").startswith("s3://"):
            raise ValueError("s3_kms_key_id without objects_url = s3://…: a folder is not encrypted by it")
        try:
            self.ranking  # noqa: B018
        except Refused as problem:
            raise ValueError(f"search: {problem.message}") from None
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the signature is the library's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over `memory.toml`."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(**chosen: Any) -> Settings:
    """The settings in force; `chosen` stand above all others. Raises Misconfigured, naming each wrong field."""
    try:
        return Settings(**chosen)
    except ValidationError as problem:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in error['loc']) or 'settings'}: {error['msg']}"
            for error in problem.errors(include_input=False, include_url=False)
        )
        raise Misconfigured(f"settings: {wrong}") from None
    except ValueError as problem:
        raise Misconfigured(f"{SETTINGS_FILE} cannot be read: {problem}") from problem
