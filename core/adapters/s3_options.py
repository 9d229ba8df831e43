"""Where an S3 bucket is and how it is used."""

from __future__ import annotations

import ssl
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from core.adapters.blob_keys import MAX_KEY_BYTES, broken_rule
from core.errors import Misconfigured

MAX_PREFIX_BYTES = 1024 - MAX_KEY_BYTES


@dataclass(frozen=True, slots=True)
class S3Options:
    """Where the bucket is, and how it is used.

    Without a key id and secret the usual AWS chain is asked (environment, web identity, container,
    instance; s3fs also reads the files in ~/.aws). `conditional` False is for a server that ignores
    `If-None-Match`: put looks first then, which two writers at once can pass together. A server that
    says it does not know the header is treated so without being told. `read_timeout` is the longest
    silence, `request_timeout` the longest request: it has to leave time to send the largest object.
    """

    _: KW_ONLY
    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    kms_key: str | None = None
    connect_timeout: timedelta = timedelta(seconds=5)
    read_timeout: timedelta = timedelta(seconds=15)
    request_timeout: timedelta = timedelta(seconds=60)
    concurrency: int = 32
    conditional: bool = True
    client: Literal["s3fs", "obstore"] = "s3fs"

    @property
    def root(self) -> str:
        """What every key in the bucket begins with: empty, or a folder ending in `/`."""
        inner = self.prefix.strip("/")
        return f"{inner}/" if inner else ""


def check(options: S3Options) -> None:
    """Raises Misconfigured for options that cannot be meant; no message holds a secret."""
    if not options.bucket or "/" in options.bucket:
        raise Misconfigured("the bucket of the object store has no name, or a path for one")
    if options.root and (broken_rule(options.root[:-1]) or len(options.root.encode()) > MAX_PREFIX_BYTES):
        raise Misconfigured("the prefix in the bucket of the object store is no path, or longer than 124 bytes")
    if (options.key_id is None) != (options.secret is None):
        raise Misconfigured("the object store needs both the key id and its secret, or neither")
    if options.concurrency < 1:
        raise Misconfigured("the object store needs a concurrency of 1 or more")
    if min(options.connect_timeout, options.read_timeout, options.request_timeout) <= timedelta(0):
        raise Misconfigured("the timeouts of the object store must be longer than nothing")
    if options.endpoint is not None:
        _check_endpoint(options.endpoint)
    if options.ca_file is not None:
        try:
            ssl.create_default_context(cafile=str(options.ca_file))
        except (OSError, ValueError) as error:
            raise Misconfigured(f"{options.ca_file} is no file of CA certificates: {type(error).__name__}") from error


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise Misconfigured("the endpoint of the object store is no URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise Misconfigured("the endpoint of the object store is no URL such as https://s3.example.org")
    if parts.username is not None or parts.query:
        raise Misconfigured("the endpoint of the object store holds more than an address; keys have their own settings")
