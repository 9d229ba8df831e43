"""Objects in an S3 bucket: through s3fs, or through obstore, which does the same work in a third of the time.

Both are used below their file-system surface, request by request: s3fs' paths cut a key at `?versionId=`,
and obstore's fsspec store overwrites what it is told to create.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from hashlib import md5
from typing import Any, Literal

import aiohttp
import s3fs
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from core.adapters.s3_errors import PreconditionFailed, Unsupported, translation
from core.adapters.s3_options import S3Options, check
from core.errors import EngineError, Misconfigured, NotFound
from core.ports import BlobInfo

__all__ = ["S3Options", "ThroughObstore", "ThroughS3fs", "open_objects"]

logger = logging.getLogger(__name__)

LIBRARY_ERRORS = (OSError, ValueError, BotoCoreError, ClientError, ResponseParserError, aiohttp.ClientError, BaseError)
PAGE = 1000


def open_objects(options: S3Options) -> ThroughS3fs | ThroughObstore:
    """The client the options name. Raises Misconfigured for options that cannot be meant."""
    check(options)
    with translated():
        return ThroughObstore(options) if options.client == "obstore" else ThroughS3fs(options)


class PutsOnce(ABC):
    """Storing what is new only, on servers that have the conditional write of S3 (`If-None-Match: *`) and others.

    Without it put looks first: two writers at once can both find nothing, and the later one's bytes
    stay. The earlier one notices when it reads back, unless it was done by then.
    """

    def __init__(self, options: S3Options) -> None:
        self._root = options.root
        self._conditional = options.conditional

    @property
    def exclusive(self) -> bool:
        """Whether of two writers at the same moment `create` lets one through only."""
        return self._conditional

    async def create(self, key: str, data: bytes) -> bool:
        """Store an object whole unless something is there under this key (False)."""
        if self._conditional:
            try:
                await self._put(key, data, only_new=True)
            except PreconditionFailed:
                return False
            except Unsupported:
                logger.warning("the object store has no conditional write: every put looks first from now on")
                self._conditional = False
            else:
                return True
        if await self.info(key) is not None:
            return False
        await self._put(key, data, only_new=False)
        return True

    @abstractmethod
    async def info(self, key: str) -> BlobInfo | None:
        """What is there under a key now. What is not costs a second request: does the bucket exist?"""

    @abstractmethod
    async def _put(self, key: str, data: bytes, *, only_new: bool) -> None:
        """Send an object in one request. Raises PreconditionFailed, Unsupported."""


class ThroughS3fs(PutsOnce):
    """S3 through s3fs, on its event loop. No cache, no second try: neither in s3fs nor in botocore.

    Only aiohttp below them sends a request again, once, when a connection it had kept turns out to be
    dead; `request_timeout` bounds both together.
    """

    def __init__(self, options: S3Options) -> None:
        super().__init__(options)
        self._bucket = options.bucket
        self._fs: Any = s3fs.S3FileSystem(
            key=options.key_id,
            secret=options.secret,
            endpoint_url=options.endpoint,
            use_listings_cache=False,
            skip_instance_cache=True,
            client_kwargs=_named(region_name=options.region, verify=options.ca_file and str(options.ca_file)),
            config_kwargs=_botocore_config(options),
            s3_additional_kwargs=_named(
                ServerSideEncryption=options.kms_key and "aws:kms", SSEKMSKeyId=options.kms_key
            ),
        )
        self._fs.retries = 1

    async def read(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""
        with translated():
            answer = await self._call("get_object", Key=self._root + key)
            async with answer["Body"] as body:
                return bytes(await body.read())

    async def info(self, key: str) -> BlobInfo | None:
        """What is there under a key now. What is not costs a second request: does the bucket exist?"""
        try:
            with translated():
                found = await self._call("head_object", Key=self._root + key)
        except NotFound:
            await self._check_bucket()
            return None
        return BlobInfo(key, found["ContentLength"], found["LastModified"])

    async def pages(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Everything under a prefix, a page of 1,000 at a time."""
        token: dict[str, str] = {}
        while True:
            with translated():
                page = await self._call("list_objects_v2", Prefix=self._root + prefix, MaxKeys=PAGE, **token)
            yield [
                BlobInfo(found["Key"].removeprefix(self._root), found["Size"], found["LastModified"])
                for found in page.get("Contents", [])
            ]
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove up to 1,000 objects."""
        with translated(), suppress(NotFound):
            if len(keys) == 1:
                await self._call("delete_object", Key=self._root + keys[0])
                return
            named = {"Objects": [{"Key": self._root + key} for key in keys], "Quiet": True}
            answer = await self._call("delete_objects", Delete=named)
            for refused in answer.get("Errors", []):  # the request as a whole succeeds
                raise translation(ClientError({"Error": refused}, "DeleteObjects"))

    async def purge(self, key: str) -> None:
        """Remove an object with every version and delete marker of it that the bucket keeps."""
        await self.remove([key])
        name = self._root + key
        marker: dict[str, str] = {}
        while True:
            with translated():
                page = await self._call("list_object_versions", Prefix=name, MaxKeys=PAGE, **marker)
                for found in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                    if found["Key"] == name and found.get("VersionId") not in (None, "null"):
                        await self._call("delete_object", Key=name, VersionId=found["VersionId"])
            if not page.get("IsTruncated"):
                return
            marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    async def versions(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Every version under a prefix that the bucket keeps, a page of 1,000 at a time."""
        marker: dict[str, str] = {}
        while True:
            with translated():
                page = await self._call("list_object_versions", Prefix=self._root + prefix, MaxKeys=PAGE, **marker)
            yield [
                BlobInfo(found["Key"].removeprefix(self._root), found["Size"], found["LastModified"])
                for found in page.get("Versions", [])
            ]
            if not page.get("IsTruncated"):
                return
            marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    async def close(self) -> None:
        """Close the connections."""
        with translated():
            client = await self._fs.set_session()
            await client.close()

    async def _put(self, key: str, data: bytes, *, only_new: bool) -> None:
        condition = {"IfNoneMatch": "*"} if only_new else {}
        # SeaweedFS keeps an empty object when a request breaks off before its first byte, unless it knows better.
        digest = b64encode(md5(data, usedforsecurity=False).digest()).decode()
        with translated():
            await self._call("put_object", Key=self._root + key, Body=data, ContentMD5=digest, **condition)

    async def _check_bucket(self) -> None:
        try:
            with translated():
                await self._call("head_bucket")
        except NotFound as error:
            raise Misconfigured(f"there is no bucket {self._bucket}") from error

    async def _call(self, method: str, **arguments: Any) -> Any:
        return await self._fs._call_s3(method, Bucket=self._bucket, **arguments)  # noqa: SLF001  its asynchronous name


class ThroughObstore(PutsOnce):
    """S3 through obstore (Rust). No cache, no second try.

    Always in one request: above 5 MB obstore would send parts, and forget that it must not overwrite.
    """

    def __init__(self, options: S3Options) -> None:
        super().__init__(options)
        self._options = options
        self._versions: ThroughS3fs | None = None
        self._store = self._open(options, read_timeout=_milliseconds(options.read_timeout))
        # obstore counts sending as silence, and an object may be large: its whole bound is request_timeout.
        self._sender = self._open(options)

    @staticmethod
    def _open(options: S3Options, **client_options: str) -> S3Store:
        return S3Store(
            options.bucket,
            config=_named(  # type: ignore[arg-type]
                access_key_id=options.key_id,
                secret_access_key=options.secret,
                endpoint=options.endpoint,
                region=options.region or "us-east-1",
                checksum_algorithm="SHA256",  # as with s3fs: what breaks off must not be kept
                server_side_encryption=options.kms_key and "aws:kms",
                sse_kms_key_id=options.kms_key,
            ),
            client_options=_named(  # type: ignore[arg-type]
                allow_http=(options.endpoint or "").startswith("http://"),
                connect_timeout=_milliseconds(options.connect_timeout),
                timeout=_milliseconds(options.request_timeout),
                root_certificate=options.ca_file and options.ca_file.read_bytes(),
                **client_options,
            ),
            retry_config={"max_retries": 0},
        )

    async def read(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""
        with translated():
            answer = await self._store.get_async(self._root + key)
            return (await answer.bytes_async()).to_bytes()

    async def info(self, key: str) -> BlobInfo | None:
        """What is there under a key now. What is not costs a second request: does the bucket exist?"""
        try:
            with translated():
                return self._described(await self._store.head_async(self._root + key))
        except NotFound:
            async for _ in self.pages(f"{key}/"):
                break
            return None

    async def pages(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Everything under a prefix, a page of 1,000 at a time."""
        with translated():
            async for page in self._store.list(self._root + prefix or None, chunk_size=PAGE):
                yield [self._described(found) for found in page]

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove up to 1,000 objects."""
        with translated(), suppress(NotFound):
            await self._store.delete_async(
                [self._root + key for key in keys] if len(keys) > 1 else self._root + keys[0]
            )

    async def purge(self, key: str) -> None:
        """Remove an object in every version: obstore knows of none, s3fs does."""
        await self._knowing().purge(key)

    async def versions(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Every version under a prefix, as s3fs lists them."""
        async for page in self._knowing().versions(prefix):
            yield page

    async def close(self) -> None:
        """The connections close with the client, when nothing holds it any more."""
        if self._versions is not None:
            await self._versions.close()

    def _knowing(self) -> ThroughS3fs:
        if self._versions is None:
            self._versions = ThroughS3fs(self._options)
        return self._versions

    async def _put(self, key: str, data: bytes, *, only_new: bool) -> None:
        mode: Literal["create", "overwrite"] = "create" if only_new else "overwrite"
        with translated():
            await self._sender.put_async(self._root + key, data, mode=mode, use_multipart=False)

    def _described(self, found: Any) -> BlobInfo:
        modified: datetime = found["last_modified"]
        return BlobInfo(found["path"].removeprefix(self._root), found["size"], modified)


@contextmanager
def translated() -> Iterator[None]:
    """What a client library raises inside comes out as an error of the engine."""
    try:
        yield
    except EngineError:
        raise
    except AlreadyExistsError as error:
        raise translation(error, exists=True) from error
    except LIBRARY_ERRORS as error:
        raise translation(error) from error


def _botocore_config(options: S3Options) -> dict[str, Any]:
    return {
        "connect_timeout": options.connect_timeout.total_seconds(),
        "read_timeout": options.read_timeout.total_seconds(),
        "max_pool_connections": options.concurrency,
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        # Every put is read back; checksums in trailers are what other servers than AWS stumble over.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        **({"s3": {"addressing_style": "path"}} if options.endpoint else {}),
    }


def _milliseconds(duration: timedelta) -> str:
    return f"{duration // timedelta(milliseconds=1)}ms"


def _named(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
