"""Embeddings over HTTP, from anything that speaks the OpenAI protocol, through the library `openai`.

One call is one request: the library's own retries are off, because whoever calls retries, and two layers
that do so multiply. The library takes most of a second to import: that is done at the first text.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from core.adapters.openai_answers import normalised, read_answer
from core.adapters.openai_failures import of_answer, of_broken_call
from core.errors import BadAnswer, EngineError, Misconfigured, Unavailable
from core.model.embeddable import refuse_unembeddable
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.ports import Embeddings, EmbedLimits, TextKind

if TYPE_CHECKING:
    from openai import OpenAI

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
BYTES_A_NUMBER = 40  # in an answer, at the most: floats written out in full, with spaces
BYTES_AROUND = 1_000_000
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """Where a provider is, what is asked of it, and what it takes.

    `model` is what is sent; `canonical_model` what the space is named by, where the two differ (an alias, or
    the name of a deployment). `dimensions` is asked for under the name `dimensions_parameter`, None: not at
    all; `width` is what answers have to have. `input_type_parameter` tells documents from queries, for
    providers that want to know. `max_characters` and `max_tokens` (estimated) cut the embedded text. With
    `azure_api_version` the base URL is that of an Azure resource and `model` the name of a deployment.
    `document_timeout` and `query_timeout` bound a call from connecting to the last byte.
    """

    _: KW_ONLY
    name: str
    base_url: str = field(repr=False)  # may hold the credentials of a gateway
    model: str
    width: int
    limits: EmbedLimits
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


class OpenAIEmbedder:
    """A provider's model, asked over HTTP. Opening one is cheap and sends nothing. Thread-safe."""

    def __init__(self, options: ProviderOptions, *, now: Callable[[], datetime] | None = None) -> None:
        check_options(options)
        self._options = options
        self._space = options.space
        self._now = now or (lambda: datetime.now(UTC))
        self._opening = threading.Lock()
        self._client: OpenAI | None = None
        self._closed = False
        self._noted = False

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""
        return self._space

    @property
    def limits(self) -> EmbedLimits:
        """What one call takes at the most."""
        return self._options.limits

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of `texts`, in one request, and the tokens the provider counted (estimated where it does not say).

        Raises what the port says; see `openai_failures` for which answer means what.
        """
        refuse_unembeddable(texts)
        body = self._asked(texts, kind)
        answer = read_answer(body, count=len(texts), width=self._options.width, provider=self._options.name)
        self._note(answer.model)
        vectors = normalised(answer.vectors) if self._options.normalise else answer.vectors
        tokens = answer.tokens if answer.tokens is not None else sum(map(estimated_tokens, texts))
        return Embeddings(vectors, tokens)

    def close(self) -> None:
        """Close the connections; calls under way fail with Unavailable, and so does every later one."""
        with self._opening:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _asked(self, texts: Sequence[str], kind: TextKind) -> bytes:
        """The body of a successful answer. What failed is raised outside of the handlers.

        So no error carries the library's along, which quotes what the server said.
        """
        import httpx2
        import openai

        failure: EngineError
        try:
            return self._read(self._opened(), texts, kind)
        except openai.APIStatusError as error:
            failure = of_answer(
                error.status_code,
                error.response.headers,
                error.response.content,
                provider=self._options.name,
                count=len(texts),
                now=self._now(),
            )
        except httpx2.InvalidURL:
            failure = Misconfigured("base_url: the provider's address cannot be used")
        except openai.APIConnectionError as error:
            failure = of_broken_call(error.__cause__ or error, self._options.name)
        except (httpx2.HTTPError, openai.OpenAIError, OSError) as error:
            failure = of_broken_call(error, self._options.name)
        except RuntimeError:  # what the client says when it was closed in the meantime
            failure = Unavailable(f"the embedder of {self._options.name} is closed")
        raise failure

    def _read(self, client: OpenAI, texts: Sequence[str], kind: TextKind) -> bytes:
        """Send the request and read the answer, within the time for its kind, up to the size it may have."""
        import openai

        options = self._options
        seconds = (options.query_timeout if kind == "query" else options.document_timeout).total_seconds()
        ends = time.monotonic() + seconds
        room = BYTES_AROUND + len(texts) * options.width * BYTES_A_NUMBER
        body = bytearray()
        with client.embeddings.with_streaming_response.create(
            input=list(texts),
            model=options.model,
            encoding_format=options.encoding_format,
            extra_headers={} if _is_known(options) else {"Authorization": openai.Omit()},
            extra_body=self._extra_body(kind),
            timeout=openai.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        ) as response:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > room:
                    raise BadAnswer(f"{options.name} answered more than {room} bytes to {len(texts)} texts")
                if time.monotonic() > ends:  # the library's timeout is for each piece
                    raise Unavailable(f"{options.name} did not answer in time")
        return bytes(body)

    def _extra_body(self, kind: TextKind) -> dict[str, Any]:
        options = self._options
        extra = dict(options.extra_body)
        if options.dimensions is not None:
            extra[options.dimensions_parameter] = options.dimensions
        input_type = options.query_input_type if kind == "query" else options.document_input_type
        if options.input_type_parameter is not None and input_type is not None:
            extra[options.input_type_parameter] = input_type
        return extra

    def _opened(self) -> OpenAI:
        with self._opening:
            if self._closed:
                raise Unavailable(f"the embedder of {self._options.name} is closed")
            if self._client is None:
                self._client = _open(self._options)
            return self._client

    def _note(self, model: str) -> None:
        """Say once that another model's name came back: providers answer with the name behind an alias."""
        if not self._noted and model and model not in (self._options.model, self._space.model):
            self._noted = True
            logger.info("%s was asked for %s and names %.80r", self._options.name, self._options.model, model)


def _open(options: ProviderOptions) -> OpenAI:
    """The library's client. Where we have no value it would take one from the environment: that is kept out."""
    import openai

    address = endpoint_of(options.base_url)
    headers: dict[str, Any] = {
        "OpenAI-Organization": options.organization or openai.Omit(),
        "OpenAI-Project": openai.Omit(),
        **_from_address(options.base_url),
        **options.headers,
    }
    given: dict[str, Any] = {
        "api_key": options.api_key or "none",
        "organization": options.organization or "",
        "project": "",
        "max_retries": 0,
        "default_headers": headers,
        # Texts go to the address the operator named, and are not sent on to where that one points.
        "http_client": openai.DefaultHttpxClient(
            follow_redirects=False, timeout=options.document_timeout.total_seconds()
        ),
    }
    if options.azure_api_version is not None:
        return openai.AzureOpenAI(azure_endpoint=address, api_version=options.azure_api_version, **given)
    return openai.OpenAI(base_url=address, **given)


def _from_address(base_url: str) -> dict[str, str]:
    """The header that says what stands before the host of an address; in the address itself it would be logged."""
    parts = urlsplit(base_url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _is_known(options: ProviderOptions) -> bool:
    """Whether requests say who we are; the library insists on being told when they do not."""
    names = {name.lower() for name in (*_from_address(options.base_url), *options.headers)}
    return options.api_key is not None or "authorization" in names


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # it holds the text: nothing is raised from here
        return False
    return True


def _fits_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
