"""Master keys that are simply there: in a file, for trying; in the environment, where a secret store puts them.

A key management service implements the same port (`KeyProvider`) with calls of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from core.errors import Misconfigured
from core.model.sealing import KEY_BYTES, seal_under, unseal_under


class LocalKeys:
    """Wraps by a master key in this process. The older ones open what was wrapped under them before."""

    def __init__(self, keys: list[bytes]) -> None:
        """The keys, the one in use first. Raises Misconfigured for what is no key of 32 bytes."""
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise Misconfigured(f"a master key is {KEY_BYTES} bytes, in base64")
        self._keys = {_name_of(key): key for key in reversed(keys)}
        self._name = _name_of(keys[0])

    @property
    def name(self) -> str:
        """A digest of the key in use, from which it cannot be told."""
        return self._name

    def wrap(self, tenant: str, key: bytes) -> bytes:
        """A data key, sealed under the master key in use for this tenant."""
        return seal_under(self._keys[self._name], _place(tenant), key)

    def unwrap(self, tenant: str, wrapped: bytes, name: str) -> bytes:
        """The data key. Raises Misconfigured when its master key is not among ours."""
        if name not in self._keys:
            raise Misconfigured(f"the master key {name} is not among those in the settings")
        return unseal_under(self._keys[name], _place(tenant), wrapped)

    def destroy(self, tenant: str) -> None:
        """Nothing is kept for a tenant alone."""


def keys_from_text(text: str) -> LocalKeys:
    """Master keys from base64, one a line or parted by commas, the one in use first. Raises Misconfigured."""
    parts = [part.strip() for part in text.replace(",", "\n").splitlines() if part.strip()]
    try:
        return LocalKeys([base64.b64decode(part, validate=True) for part in parts])
    except binascii.Error:
        raise Misconfigured("a master key is no base64") from None


def keys_from_file(path: Path) -> LocalKeys:
    """Master keys from a file that its owner alone may read; made with a first key if it is not there."""
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077:
            raise Misconfigured(f"the key file {path} may be read by others: chmod 600")
        return keys_from_text(path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"the key file {path} cannot be used ({type(error).__name__})") from None


def _make(path: Path) -> None:
    """A file with a new key; of two that make it, one does, and it is whole when it has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    with open(whole, "w", encoding="ascii", opener=_private) as file:
        file.write(base64.b64encode(os.urandom(KEY_BYTES)).decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(whole, path)
    whole.unlink()


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"memory master key" + key).hexdigest()[:16]


def _place(tenant: str) -> str:
    return f"data key of {len(tenant)}:{tenant}"
