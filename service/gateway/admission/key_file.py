"""The file of API keys: YAML or JSON, with hashes in place of keys."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError, model_validator

from service.errors import ConfigError
from service.gateway.admission.tenant import Priority, Tenant
from service.settings import Section

_PREFIX = "sk-specserve-"

Bound = Annotated[int, Field(gt=0, strict=True)]


class KeyEntry(Section):
    """One key. Keys of one tenant must agree in everything but the hash."""

    tenant: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="name in metrics and logs")
    hash: str = Field(pattern=r"^sha256:[0-9a-f]{64}$", repr=False, description="sha256: and the key's SHA-256 in hex")
    models: tuple[str, ...] | None = Field(None, min_length=1, description="allowed models; none: all")
    priority: Priority = Field("normal", description="class in the queue: high, normal or low")
    weight: float = Field(1.0, gt=0, le=1000, allow_inf_nan=False, description="share of a busy pool")
    requests_per_minute: Bound | None = Field(None, description="requests that start in a minute; none: no limit")
    tokens_per_minute: Bound | None = Field(None, description="tokens, prompt and answer; none: no limit")
    max_concurrent: Bound | None = Field(None, description="requests that wait or run at once; none: no limit")

    def as_tenant(self) -> Tenant:
        """The entry without its hash."""
        return Tenant(
            name=self.tenant,
            models=None if self.models is None else frozenset(self.models),
            priority=self.priority,
            weight=self.weight,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            max_concurrent=self.max_concurrent,
        )


class KeyFile(Section):
    """The whole file."""

    keys: tuple[KeyEntry, ...]

    @model_validator(mode="after")
    def _entries_agree(self) -> KeyFile:
        if len({entry.hash for entry in self.keys}) != len(self.keys):
            raise ValueError("two entries have one `hash`: a key belongs to one tenant")
        tenants: dict[str, Tenant] = {}
        for entry in self.keys:
            if tenants.setdefault(entry.tenant, entry.as_tenant()) != entry.as_tenant():
                raise ValueError(f"two keys of tenant {entry.tenant!r} differ in their limits: give both the same")
        return self


def read_key_file(path: Path, models: frozenset[str]) -> Mapping[bytes, Tenant]:
    """Tenants by the SHA-256 of their keys.

    `models` are all names and aliases that are served. Raises ConfigError with a sentence for each fault, which
    names the field and holds no hash. Blocks for as long as the file takes.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"gateway.api_keys: {path} cannot be read: {error.strerror}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError([f"gateway.api_keys: {path}{where}: neither YAML nor JSON"]) from None
    try:
        entries = KeyFile.model_validate(raw).keys
    except ValidationError as error:
        # `str(error)` would quote the input.
        raise ConfigError(
            f"gateway.api_keys: {path}: {'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        ) from None
    unknown = [
        f"gateway.api_keys: {path}: keys.{index}.models: no model is called {name!r}, only {', '.join(sorted(models))}"
        for index, entry in enumerate(entries)
        for name in entry.models or ()
        if name not in models
    ]
    if unknown:
        raise ConfigError(unknown)
    return {bytes.fromhex(entry.hash.removeprefix("sha256:")): entry.as_tenant() for entry in entries}


def hash_of(key: bytes) -> bytes:
    """What the file holds of a key. Keys are random and long, so that a salt and a slow hash would add nothing."""
    return sha256(key).digest()


def new_key() -> str:
    """A key of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)
