"""Finds the tenant of a key in a time that tells nothing about the other keys."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from service.errors import ConfigError
from service.gateway.admission.key_file import hash_of, read_key_file
from service.gateway.admission.tenant import ANONYMOUS, Tenant

_NOBODY = bytes(32)


class Keyring:
    """Keys of a file, beside the single key of `gateway.api_key`.

    A key is looked up by a MAC of its hash under a secret of this process, which nobody outside can aim at, and then
    one digest is compared, in constant time: with one key or thousands, whichever matches and when none does.
    """

    def __init__(self, path: Path | None, single: str | None, models: frozenset[str]) -> None:
        """Read the file. Raises ConfigError."""
        self._path = path
        self._single = single
        self._models = models
        self._secret = secrets.token_bytes(32)
        self._by_mac = self._read()

    def tenant(self, key: bytes) -> Tenant | None:
        """Whose key this is, None for nobody's."""
        digest = hash_of(key)
        known, tenant = self._by_mac.get(self._mac(digest), (_NOBODY, None))
        return tenant if hmac.compare_digest(digest, known) else None

    def reload(self, log: FilteringBoundLogger) -> bool:
        """Read the file again, now. A faulty one changes nothing and is logged; False tells of that."""
        try:
            self._by_mac = self._read()
        except ConfigError as error:
            log.error("API keys not reloaded", reasons=list(error.reasons))
            return False
        log.info("API keys reloaded", keys=len(self._by_mac))
        return True

    def _read(self) -> Mapping[bytes, tuple[bytes, Tenant]]:
        keys = {} if self._path is None else dict(read_key_file(self._path, self._models))
        if self._single is not None:
            keys.setdefault(hash_of(self._single.encode()), ANONYMOUS)
        return {self._mac(digest): (digest, tenant) for digest, tenant in keys.items()}

    def _mac(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, sha256)
