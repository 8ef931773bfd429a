"""Keys of clients: random, shown once, kept as a salted hash, found by a part that is no secret."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.settings import KeySettings

CODE = "TL280"
_ID_BYTES, _SALT_BYTES, _SECRET_BYTES = 6, 16, 32
_HASH = re.compile(r"sha256:([0-9a-f]{12}):([0-9a-f]{32}):([0-9a-f]{64})")
_NOBODY = (bytes(_SALT_BYTES), bytes(32))
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class _Known:
    salt: bytes
    digest: bytes
    settings: KeySettings


def new_key(name: str) -> tuple[str, str]:
    """A key to hand to a client, which stands nowhere, and the lines of the gateway's file that know it again.

    It has 256 random bits: nobody can guess it from its hash, however fast that is, so SHA-256 with a salt will do.
    """
    known_by, salt = secrets.token_hex(_ID_BYTES), secrets.token_bytes(_SALT_BYTES)
    key = f"tl-{known_by}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    quoted = KeySettings(name=name, hash="-").name.replace("\\", "\\\\").replace('"', '\\"')
    kept = f"sha256:{known_by}:{salt.hex()}:{_digest(salt, key.encode()).hex()}"
    return key, f'[[key]]\nname = "{quoted}"\nhash = "{kept}"\n'


class Keys:
    """The keys of one gateway. Raises BadInput (TL280) for a hash that `new_key` did not write."""

    def __init__(self, settings: Sequence[KeySettings]) -> None:
        self._by_id: dict[str, _Known] = {}
        for each in settings:
            found = _HASH.fullmatch(each.hash)
            if found is None or found[1] in self._by_id:
                wrong = "twice in the file" if found else "none that `twinlens gateway --new-key` wrote"
                raise BadInput(f"the hash of key {each.name!r} is {wrong}; make a new key", code=CODE)
            self._by_id[found[1]] = _Known(bytes.fromhex(found[2]), bytes.fromhex(found[3]), each)

    def __len__(self) -> int:
        return len(self._by_id)

    def owner(self, authorization: str | None) -> KeySettings:
        """Whose key it is. Raises Refusal (401). An unknown key takes as long as a wrong one."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise Refusal(401, "no key was sent; send it as Authorization: Bearer KEY", code="invalid_api_key")
        known = self._by_id.get(key[3:15])
        salt, digest = (known.salt, known.digest) if known else _NOBODY
        same = hmac.compare_digest(_digest(salt, key[:_LONGEST].encode("utf-8", "replace")), digest)
        if known is None or not same or len(key) > _LONGEST:
            raise Refusal(401, "this key is not known here", code="invalid_api_key")
        return known.settings


def _digest(salt: bytes, key: bytes) -> bytes:
    return hashlib.sha256(salt + key).digest()


def refuse_model(settings: KeySettings, model: str) -> None:
    """Raises Refusal (403) for a model that a key may not name."""
    if settings.models and model not in settings.models:
        may = ", ".join(settings.models[:5])
        raise Refusal(403, f"this key may not ask for {model[:60]!r}; it may ask for {may}", param="model")
