"""Objects as files below a folder. A key is the path; an object gets its name when it is whole, and only once."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from core.adapters.blob_keys import UNFINISHED
from core.errors import EngineError, Misconfigured, NotFound, Refused, Unavailable
from core.ports import BlobInfo

PAGE = 1000
NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
FOR_A_PERSON = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.EXDEV, errno.ENOTSUP}
MKDIR_TRIES = 20


class FolderObjects:
    """Files below `root`, through an fsspec `LocalFileSystem` where that does what is asked.

    It does not write atomically nor once: so an object is written to a name of its own in `.uploads`,
    synced, and linked to its place, which fails if something is there. What a killed writer leaves in
    `.uploads` is removed at the next opening. Symbolic links below the root raise Misconfigured.
    """

    def __init__(self, files: Any, root: Path) -> None:
        self._files = files
        try:
            self._root = root.resolve()
            self._unfinished = self._root / UNFINISHED
            for folder in (self._root, self._unfinished):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(self._unfinished)
        except OSError as error:
            raise Misconfigured(f"the object folder {root} cannot be used: {error.strerror}") from error

    @property
    def exclusive(self) -> bool:
        """Of two writers one links its file."""
        return True

    async def create(self, key: str, data: bytes) -> bool:
        """Store an object whole unless something is there under this key (False)."""
        return await asyncio.to_thread(self._create, key, data)

    async def read(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""
        return await asyncio.to_thread(self._read, key)

    async def info(self, key: str) -> BlobInfo | None:
        """What is there under a key now."""
        return await asyncio.to_thread(self._info, key)

    async def pages(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Everything under a prefix, folder by folder, in no order."""
        found = self._walk(prefix)
        while page := await asyncio.to_thread(lambda: list(islice(found, PAGE))):
            yield page

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove objects, and the folders that are empty without them."""
        await asyncio.to_thread(self._remove, keys)

    async def purge(self, key: str) -> None:
        """Remove an object: a folder keeps one version."""
        await self.remove([key])

    def versions(self, prefix: str) -> AsyncGenerator[list[BlobInfo], None]:
        """Everything under a prefix: a folder keeps one version."""
        return self.pages(prefix)

    async def close(self) -> None:
        """Nothing is held."""

    def _create(self, key: str, data: bytes) -> bool:
        with self._translated():
            path = self._path(key)
            with _written(self._unfinished, data) as whole:
                return self._link(whole, path)

    def _link(self, whole: Path, path: Path) -> bool:
        for _ in range(MKDIR_TRIES):
            try:
                self._make_folders(path.parent)
                os.link(whole, path)
            except (FileExistsError, NotADirectoryError):
                return False
            except FileNotFoundError:  # a delete took the empty folder away
                continue
            _sync(path.parent)
            return True
        raise Unavailable(f"the folder of {path.name} is removed again and again")

    def _make_folders(self, folder: Path) -> None:
        if folder == self._root or folder.is_dir():
            return
        self._make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _sync(folder.parent)
        if not folder.is_dir() and folder.exists():
            raise NotADirectoryError(folder)

    def _read(self, key: str) -> bytes:
        with self._translated():
            try:
                return bytes(self._files.cat_file(str(self._path(key))))
            except NOT_THERE as error:
                self._still_here()
                raise NotFound(f"no object {key}") from error

    def _info(self, key: str) -> BlobInfo | None:
        with self._translated():
            try:
                found = self._files.info(str(self._path(key)))
            except NOT_THERE:
                self._still_here()
                return None
            if found["type"] != "file":
                return None
            return BlobInfo(key, found["size"], datetime.fromtimestamp(found["mtime"], UTC))

    def _walk(self, prefix: str) -> Iterator[BlobInfo]:
        with self._translated():
            start = self._path(prefix.removesuffix("/")) if prefix else self._root
            yield from self._walk_folder(start, prefix)
            self._still_here()

    def _walk_folder(self, folder: Path, prefix: str) -> Iterator[BlobInfo]:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise _symlink(entry.path)
                    if entry.is_dir():
                        if entry.name != UNFINISHED:
                            yield from self._walk_folder(Path(entry.path), f"{prefix}{entry.name}/")
                    else:
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            found = entry.stat(follow_symlinks=False)
                            yield BlobInfo(
                                prefix + entry.name, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC)
                            )
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile, or never there
            return

    def _remove(self, keys: Sequence[str]) -> None:
        with self._translated():
            for key in keys:
                path = self._path(key)
                try:
                    self._files.rm_file(str(path))
                except NOT_THERE:
                    self._still_here()
                    continue
                _sync(path.parent)
                self._remove_empty(path.parent)

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):  # not empty, or gone already
            while folder != self._root:
                folder.rmdir()
                folder = folder.parent

    def _path(self, key: str) -> Path:
        path = self._root / key
        for part in (path, *path.parents):
            if part == self._root:
                return path
            if part.is_symlink():
                raise _symlink(part)
        raise Refused("not a key of an object: it leaves the folder", where="key")

    def _still_here(self) -> None:
        """An unmounted or deleted folder must not look like one that is empty."""
        try:
            there = self._unfinished.is_dir()
        except OSError:
            there = False
        if not there:
            raise Misconfigured(f"the object folder {self._root} is gone, or closed to us")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._still_here()
            raise _translation(error) from error


@contextmanager
def _written(folder: Path, data: bytes) -> Iterator[Path]:
    """A synced file with these bytes, gone at the end. Its lock says that its writer lives."""
    path = folder / uuid.uuid4().hex
    with path.open("xb") as file:
        path.chmod(0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            yield path
        finally:
            path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove what writers left that were killed."""
    for path in folder.iterdir():
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _sync(folder: Path) -> None:
    """Make what was done to the names in a folder last; the folder may be gone already."""
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _symlink(path: object) -> Misconfigured:
    return Misconfigured(f"{path} in the object folder is a symbolic link")


def _translation(error: OSError) -> EngineError:
    said = f"the object folder says: {error.strerror or type(error).__name__}"
    if error.errno == errno.ENAMETOOLONG:
        return Refused(said, where="key")
    return Misconfigured(said) if error.errno in FOR_A_PERSON else Unavailable(said)
