"""The library `openai`, called the same way by all that speak its protocol: opened late, bounded, errors translated.

The library's own retries are off, because whoever calls retries, and two layers that do so multiply. It takes
most of a second to import: that is done at the first question.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from core.adapters.openai_failures import of_answer, of_broken_call
from core.adapters.openai_options import ProviderOptions, check_options, endpoint_of
from core.errors import BadAnswer, EngineError, Misconfigured, Unavailable

if TYPE_CHECKING:
    from openai import OpenAI

CONNECT_SECONDS = 5.0

# What the library is asked: given its client and what every request says (headers, time limits), an answer to stream.
Asked = Callable[[Any, dict[str, Any]], AbstractContextManager[Any]]


class OpenAIClient:
    """One provider's client. Opening one is cheap and sends nothing. Thread-safe; closed once.

    Every error is one of `core.errors` and carries nothing of what was sent or answered but short names.
    """

    def __init__(self, options: ProviderOptions, now: Callable[[], datetime] | None = None) -> None:
        check_options(options)
        self._options = options
        self._now = now or (lambda: datetime.now(UTC))
        self._opening = threading.Lock()
        self._client: OpenAI | None = None
        self._closed = False

    def close(self) -> None:
        """Close the connections; calls under way fail with Unavailable, and so does every later one."""
        with self._opening:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def read(self, asked: Asked, *, seconds: float, room: int, count: int) -> bytes:
        """The body of a successful answer about `count` texts: of `room` bytes at the most, within `seconds`.

        Raises what `openai_failures` makes of the answer; BadAnswer for more bytes, Unavailable for a later end.
        """
        body = bytearray()
        for piece in self.pieces(asked, seconds=seconds, count=count):
            body += piece
            if len(body) > room:
                raise BadAnswer(f"{self._options.name} answered more than {room} bytes to {count} texts")
        return bytes(body)

    def pieces(self, asked: Asked, *, seconds: float, count: int, silence: float | None = None) -> Iterator[bytes]:
        """The body of a successful answer as it comes, within `seconds` from the first byte sent to the last one.

        `silence` is how long the other side may say nothing in between (None: as long as all of it may take).
        What failed is raised outside of the handlers, so that no error carries the library's along, which quotes
        what the server said.
        """
        ends = time.monotonic() + seconds
        with closing(self._received(asked, seconds if silence is None else silence)) as received:
            while True:
                piece, failure = self._next(received, count)
                if failure is not None:
                    raise failure
                if piece is None:
                    return
                if time.monotonic() > ends:  # the library's timeout is for each piece
                    raise Unavailable(f"{self._options.name} did not answer in time")
                yield piece

    def _received(self, asked: Asked, seconds: float) -> Generator[bytes]:
        import openai

        said = {
            "extra_headers": {} if _is_known(self._options) else {"Authorization": openai.Omit()},
            "timeout": openai.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        }
        with asked(self._opened(), said) as response:
            yield from response.iter_bytes()

    def _next(self, received: Iterator[bytes], count: int) -> tuple[bytes | None, EngineError | None]:
        """The next piece (None: that was all), or what the failure means."""
        import httpx2
        import openai

        name = self._options.name
        try:
            return next(received, None), None
        except openai.APIStatusError as error:
            told = (error.status_code, error.response.headers, error.response.content)
            return None, of_answer(*told, provider=name, count=count, now=self._now())
        except httpx2.InvalidURL:
            return None, Misconfigured("base_url: the provider's address cannot be used")
        except openai.APIConnectionError as error:
            return None, of_broken_call(error.__cause__ or error, name)
        except (httpx2.HTTPError, openai.OpenAIError, OSError) as error:
            return None, of_broken_call(error, name)
        except RuntimeError:  # what the client says when it was closed in the meantime
            return None, Unavailable(f"the client of {name} is closed")

    def _opened(self) -> OpenAI:
        with self._opening:
            if self._closed:
                raise Unavailable(f"the client of {self._options.name} is closed")
            if self._client is None:
                self._client = _open(self._options)
            return self._client


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
