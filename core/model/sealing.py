"""Sealing: AES-256-GCM under a data key, with a nonce that is derived from what is sealed.

The nonce is HMAC-SHA256 of the associated data and the plaintext under a key of its own, cut to 96 bits: the
synthetic nonce of Rogaway and Shrimpton ("Deterministic Authenticated-Encryption", 2006) in front of GCM (NIST SP
800-38D). The same value in the same place is sealed to the same bytes, so that writing a memory again changes
nothing and a second put of an object is no other object. It tells no more than that: the place (tenant, id, field)
is part of the associated data, so that equal values of two memories look different, and none can be moved.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.errors import BadAnswer

KEY_BYTES = 32
_NONCE_BYTES = 12
_OBJECT = b"MEMORYSEALED1\n"


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key of one tenant. Its bytes are never shown."""

    id: str
    secret: bytes = field(repr=False)


def seal(key: DataKey, place: str, plain: bytes) -> bytes:
    """Nonce and ciphertext of a value at a place."""
    return seal_under(key.secret, place, plain)


def unseal(key: DataKey, place: str, sealed: bytes) -> bytes:
    """What was sealed at this place. Raises BadAnswer when it was not sealed there under this key, or was changed."""
    return unseal_under(key.secret, place, sealed)


def seal_text(key: DataKey, place: str, text: str) -> str:
    """A sealed text as text (base64)."""
    return base64.b64encode(seal(key, place, text.encode())).decode()


def unseal_text(key: DataKey, place: str, sealed: str) -> str:
    """What `seal_text` made a text of."""
    try:
        return unseal(key, place, base64.b64decode(sealed, validate=True)).decode()
    except binascii.Error:
        raise BadAnswer("a sealed text is damaged") from None


def seal_object(key: DataKey, place: str, data: bytes) -> bytes:
    """An object sealed as a whole; its first lines name the key, and nothing else is in the clear."""
    return _OBJECT + key.id.encode() + b"\n" + seal(key, place, data)


def object_key_id(data: bytes) -> str | None:
    """The id of the key an object is sealed under; None: it is not sealed."""
    if not data.startswith(_OBJECT):
        return None
    return data[len(_OBJECT) :].partition(b"\n")[0].decode(errors="replace")


def unseal_object(key: DataKey, place: str, data: bytes) -> bytes:
    """What `seal_object` sealed."""
    return unseal(key, place, data[len(_OBJECT) :].partition(b"\n")[2])


def seal_under(secret: bytes, place: str, plain: bytes) -> bytes:
    """Nonce and ciphertext under a key's bytes: also how a master key wraps data keys."""
    named = place.encode()
    nonce = hmac.new(_derived(secret, b"nonce"), _joined(named, plain), hashlib.sha256).digest()[:_NONCE_BYTES]
    return nonce + AESGCM(_derived(secret, b"seal")).encrypt(nonce, plain, named)


def unseal_under(secret: bytes, place: str, sealed: bytes) -> bytes:
    """What `seal_under` sealed. Raises BadAnswer."""
    try:
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        return AESGCM(_derived(secret, b"seal")).decrypt(nonce, body, place.encode())
    except (InvalidTag, ValueError):
        raise BadAnswer("what was sealed cannot be opened with its key: it is damaged, or was moved") from None


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of its own for each purpose (HKDF-Expand of RFC 5869, one block)."""
    return hmac.new(secret, purpose + b"\x01", hashlib.sha256).digest()


def _joined(place: bytes, plain: bytes) -> bytes:
    return len(place).to_bytes(8, "big") + place + plain
