"""Where a provider that speaks the OpenAI protocol is, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from core.errors import Misconfigured
from core.model.space import EmbeddingSpace
from core.ports import EmbedLimits, TextKind

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """Where a provider is, what is asked of it, and what it takes.

    `model` is what is sent; `canonical_model` what the space is named by, where the two differ (an alias, or
    the name of a deployment). `dimensions` is asked for under the name `dimensions_parameter`, None: not at
    all; `width` is what answers have to have. `input_type_parameter` tells documents from queries, for
    providers that want to know. `max_characters` and `max_tokens` (estimated) cut the embedded text. With
    `azure_api_version` the base URL is that of an Azure resource and `model` the name of a deployment.
    `document_timeout` and `query_timeout` bound a call from connecting to the last byte. `batch_inputs` and
    `batch_bytes` are what one batch job takes (None: there are no batch jobs), `batch_tokens` what may wait in all.
    """

    _: KW_ONLY
    name: str
    base_url: str = field(repr=False)  # may hold the credentials of a gateway
    model: str
    width: int
    limits: EmbedLimits
    batch_inputs: int | None = None
    batch_bytes: int | None = None
    batch_tokens: int | None = None
    api_key: str | None = field(default=None, repr=False)
    canonical_model: str = ""
    revision: str = ""
    dimensions: int | None = None
    dimensions_parameter: str = "dimensions"
    document_prefix: str = ""
    query_prefix: str = ""
    input_type_parameter: str | None = None
    document_input_type: str | None = None
    query_input_type: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    encoding_format: Literal["float", "base64"] = "float"
    max_characters: int = 16_000
    max_tokens: int | None = None
    document_timeout: timedelta = timedelta(seconds=60)
    query_timeout: timedelta = timedelta(seconds=5)
    organization: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    azure_api_version: str | None = None
    normalise: bool = True

    @property
    def space(self) -> EmbeddingSpace:
        """The space of what such a provider answers. Raises Misconfigured for a base URL that is none."""
        kinds = f"{self.document_input_type}|{self.query_input_type}" if self.input_type_parameter else ""
        return EmbeddingSpace(
            provider=self.name,
            model=self.canonical_model or self.model,
            dimensions=self.width,
            endpoint=endpoint_of(self.base_url),
            # What kind of text the provider is told it is decides the vector too.
            revision=" ".join(filter(None, (self.revision, kinds))),
            normalised=self.normalise,
            document_prefix=self.document_prefix,
            query_prefix=self.query_prefix,
            max_characters=self.max_characters,
            max_tokens=self.max_tokens,
        )


def endpoint_of(base_url: str) -> str:
    """A base URL as one writes it: scheme and host in lower case, no credentials, usual port or slash at the end.

    Raises Misconfigured, without quoting it, for one that is no http or https URL, or has a query or fragment.
    """
    try:
        parts: SplitResult = urlsplit(base_url)
        port = parts.port
    except ValueError:
        raise Misconfigured("base_url: the provider's address is no URL") from None
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in PORTS or not host or port == 0:
        raise Misconfigured("base_url: the provider's address is no URL such as https://api.example.org/v1")
    if parts.query or parts.fragment:
        raise Misconfigured("base_url: the provider's address ends in a query or fragment; keys have their own setting")
    shown = f"[{host}]" if ":" in host else host
    suffix = "" if port in (None, PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{shown}{suffix}{parts.path.rstrip('/')}"


def check_options(options: ProviderOptions) -> None:
    """Raises Misconfigured, naming the field, for options that cannot be meant; no message holds a secret."""
    for name in ("name", "model"):
        if not str(getattr(options, name)).strip():
            raise Misconfigured(f"{name}: an embedding provider needs one")
    for name in ("width", "dimensions", "max_characters", "max_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise Misconfigured(f"{name}: must be 1 or more, not {value}")
    if options.dimensions is not None and options.dimensions != options.width:
        raise Misconfigured(f"dimensions: {options.dimensions} are asked for where {options.width} are expected")
    if min(options.document_timeout, options.query_timeout) <= timedelta(0):
        raise Misconfigured("timeout: must be longer than nothing")
    if options.limits.items < 1:
        raise Misconfigured("limits: a request takes one text or more")
    _check_secrets(options)
    endpoint_of(options.base_url)


def _check_secrets(options: ProviderOptions) -> None:
    if options.api_key is not None and not _fits_header(options.api_key):
        raise Misconfigured("api_key: holds a space, a line's end or other characters that no key has")
    if not all(
        _fits_header(name) and value.isprintable() and value.isascii() for name, value in options.headers.items()
    ):
        raise Misconfigured("headers: a name or value holds characters that no header has")
    if options.azure_api_version is not None and options.api_key is None:
        raise Misconfigured("api_key: Azure needs one")


def extra_body(options: ProviderOptions, kind: TextKind) -> dict[str, Any]:
    """What a request for embeddings of this kind says besides its texts, the model and the encoding."""
    extra = dict(options.extra_body)
    if options.dimensions is not None:
        extra[options.dimensions_parameter] = options.dimensions
    input_type = options.query_input_type if kind == "query" else options.document_input_type
    if options.input_type_parameter is not None and input_type is not None:
        extra[options.input_type_parameter] = input_type
    return extra


def _fits_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
