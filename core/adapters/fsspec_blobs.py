"""The object store over fsspec: what every engine of it has in common, and how each is opened.

The engines (a local folder, S3 through s3fs, S3 through obstore) do single requests. Here are putting
once with reading back, many at once, and the bound of every request.
"""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fsspec.asyn import get_loop
from fsspec.implementations.local import LocalFileSystem

from core.adapters.blob_folder import FolderObjects
from core.adapters.blob_keys import broken_rule, checked, checked_prefix
from core.adapters.blob_s3 import open_objects
from core.adapters.s3_options import S3Options
from core.errors import BadAnswer, Conflict, EngineError, Misconfigured, NotFound, Unavailable
from core.ports import BlobInfo

REMOVED_AT_ONCE = 1000  # what S3 takes in one request
FOLDER_CONCURRENCY = 8
FOLDER_SECONDS = 60.0

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Objects(Protocol):
    """One engine's single requests, all raising errors of `core.errors`. Keys are checked before."""

    @property
    def exclusive(self) -> bool:
        """Whether of two writers at the same moment `create` lets one through only."""

    async def create(self, key: str, data: bytes) -> bool:
        """Store an object whole unless something is there under this key (False)."""

    async def read(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""

    async def info(self, key: str) -> BlobInfo | None:
        """What is there under a key now."""

    def pages(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Everything under a prefix, in pieces of bounded size."""

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove up to REMOVED_AT_ONCE objects; gone already: nothing."""

    async def purge(self, key: str) -> None:
        """Remove an object in every version that is kept."""

    def versions(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """As `pages`, with every version that is kept."""

    async def close(self) -> None:
        """Give back what is held."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests are under way at once, and how long one may take."""

    _: KW_ONLY
    concurrency: int
    seconds: float


def open_folder(root: Path) -> FsspecBlobs:
    """Objects as files below a folder of this machine, which is made if missing. Raises Misconfigured."""
    limits = Limits(concurrency=FOLDER_CONCURRENCY, seconds=FOLDER_SECONDS)
    return FsspecBlobs(FolderObjects(LocalFileSystem(skip_instance_cache=True), root), limits)


def open_s3(options: S3Options) -> FsspecBlobs:
    """Objects in a bucket. Raises Misconfigured for options that cannot be meant; sends nothing yet."""
    limits = Limits(concurrency=options.concurrency, seconds=options.request_timeout.total_seconds())
    return FsspecBlobs(open_objects(options), limits)


class FsspecBlobs:
    """A `BlobStore` on one engine.

    Of a key this asks more than the port, so that it means the same in every store: at most 900 bytes,
    255 a part, no backslash (SeaweedFS reads a slash), no control character, no part `.uploads` (where
    stores keep what is not whole yet). Whether an object may lie below another one's key, as `a/b` below
    `a`, is up to the store; where it may not, the second put raises Conflict.

    Nothing is tried again here. A request ends within `limits.seconds`, and sooner when the other side
    falls silent; a put is two requests (three, where the store has no conditional write; twice that when
    the object vanishes between them), everything else is one, or two for what is not there. More requests
    than `limits.concurrency` at once wait for their turn first.
    """

    def __init__(self, objects: Objects, limits: Limits) -> None:
        self._objects = objects
        self._limits = limits
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop = get_loop()
        self._slots = asyncio.Semaphore(limits.concurrency)

    def put(self, key: str, data: bytes) -> None:
        """Store an object and read it back; there already with the same bytes: nothing.

        Raises Conflict when other bytes are there, BadAnswer when what is read back is not what was sent.
        """
        self._run(self._put(checked(key), data))

    def put_many(self, objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        """`put` each, many at once; the error of every object that is not safely there."""
        failed: dict[str, EngineError] = {}

        async def put(item: tuple[str, bytes]) -> None:
            try:
                await self._put(checked(item[0]), item[1])
            except EngineError as error:
                failed[item[0]] = error

        self._run(self._each(put, objects.items()))
        return failed

    def get(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""
        return self._run(self._bounded(self._objects.read(checked(key))))

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The objects that are there among `keys`, many at once; any other failure raises."""
        found: dict[str, bytes] = {}

        async def get(key: str) -> None:
            try:
                found[key] = await self._bounded(self._objects.read(key))
            except NotFound:
                return

        self._run(self._each(get, [checked(key) for key in dict.fromkeys(keys)]))
        return found

    def stat(self, key: str) -> BlobInfo | None:
        """What is there under a key now, or None."""
        return self._run(self._bounded(self._objects.info(checked(key))))

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Every object below `prefix` (a folder, ending in `/`, or empty: all), a page of 1,000 at a time.

        Objects under keys that break the rule are left out: nothing here can have put them.
        """
        return self._listed(self._objects.pages(checked_prefix(prefix)))

    def versions(self, prefix: str) -> Iterator[BlobInfo]:
        """Every kept version of every object below `prefix`, a page at a time. See the port `KeepsVersions`."""
        return self._listed(self._objects.versions(checked_prefix(prefix)))

    def delete(self, key: str) -> None:
        """Remove an object; gone already: nothing."""
        self.delete_many([key])

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects, many at once. All are tried; the first failure raises at the end."""
        known = [checked(key) for key in dict.fromkeys(keys)]
        pieces = [known[start : start + REMOVED_AT_ONCE] for start in range(0, len(known), REMOVED_AT_ONCE)]
        failed: builtins.list[EngineError] = []

        async def remove(piece: Sequence[str]) -> None:
            try:
                await self._bounded(self._objects.remove(piece))
            except EngineError as error:
                failed.append(error)

        self._run(self._each(remove, pieces))
        if failed:
            raise failed[0]

    def purge(self, keys: Sequence[str]) -> None:
        """Remove objects in every version the store keeps. All are tried; the first failure raises at the end."""
        failed: builtins.list[EngineError] = []

        async def purge(key: str) -> None:
            try:
                await self._bounded(self._objects.purge(key))
            except EngineError as error:
                failed.append(error)

        self._run(self._each(purge, [checked(key) for key in dict.fromkeys(keys)]))
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Close the connections."""
        self._run(self._bounded(self._objects.close()))

    async def _put(self, key: str, data: bytes) -> None:
        created = False
        for _ in range(2):  # what is there may be deleted just before it is read
            created = await self._bounded(self._objects.create(key, data))
            try:
                found = await self._bounded(self._objects.read(key))
            except NotFound:
                continue
            if sha256(found).digest() == sha256(data).digest():
                return
            if not created:
                raise Conflict(f"other bytes are stored under {key}")
            if self._objects.exclusive:  # else it may be another writer's, and safely there
                with suppress(EngineError):
                    await self._bounded(self._objects.remove([key]))
            raise BadAnswer(f"{key} reads back as other bytes than were sent")
        if created:
            raise BadAnswer(f"{key} is not there although the store took it")
        raise Conflict(f"something that is no object is in the way of {key}")

    def _listed(self, pages: AsyncGenerator[builtins.list[BlobInfo], None]) -> Iterator[BlobInfo]:
        try:
            while (page := self._run(self._bounded(anext(pages, None)))) is not None:
                for info in page:
                    if broken_rule(info.key) is None:
                        yield info
        finally:  # not waited for: a forgotten listing may be collected in any thread, also in the loop's own
            asyncio.run_coroutine_threadsafe(_close(pages), self._loop)

    async def _each(self, work: Callable[[Item], Coroutine[Any, Any, None]], items: Iterable[Item]) -> None:
        """Do `work` for every item, with as many tasks as requests may be under way."""
        waiting = iter(items)

        async def worker() -> None:
            for item in waiting:
                await work(item)

        tasks = [asyncio.create_task(worker()) for _ in range(self._limits.concurrency)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _bounded(self, request: Awaitable[Answer]) -> Answer:
        async with self._slots:
            try:
                async with asyncio.timeout(self._limits.seconds):
                    return await request
            except TimeoutError as error:
                raise Unavailable(f"the object store took longer than {self._limits.seconds:g} s") from error

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do it on fsspec's own loop and wait; an interrupted caller takes the work along."""
        if os.getpid() != self._process:
            work.close()
            raise Misconfigured("an object store was opened before a fork and used after it: open it in the child")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()


async def _close(pages: AsyncGenerator[Any, None]) -> None:
    await pages.aclose()
