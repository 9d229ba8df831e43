"""Receipts signed by the operator's key: Ed25519 (RFC 8032) over the receipt's canonical JSON."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.errors import Misconfigured


def signed(receipt: Mapping[str, Any], pem: bytes | None) -> dict[str, Any]:
    """The receipt with a signature and the public key that checks it; without a key, saying that it has none.

    Raises Misconfigured when the key is no Ed25519 private key in PEM without a password.
    """
    if pem is None:
        return {**receipt, "signature": None}
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Misconfigured("receipt_key_file holds no private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Misconfigured("receipt_key_file holds another kind of key than Ed25519")
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signature = {
        "algorithm": "Ed25519",
        "public_key": base64.b64encode(public).decode(),
        "value": base64.b64encode(key.sign(_canonical(receipt))).decode(),
    }
    return {**receipt, "signature": signature}


def is_genuine(receipt: Mapping[str, Any], public_key: bytes) -> bool:
    """Whether a receipt was signed by the owner of this public key (32 bytes) and says what it said then."""
    signature = receipt.get("signature")
    if not isinstance(signature, dict):
        return False
    said = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(base64.b64decode(signature["value"]), _canonical(said))
    except (InvalidSignature, binascii.Error, KeyError, ValueError):
        return False
    return True


def _canonical(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
