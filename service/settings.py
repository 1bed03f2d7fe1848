"""The settings tree. Order: CLI > `SPECSERVE_*` environment > YAML file > defaults; unknown keys are refused.

This leaf holds what needs no knowledge of models; `service.profiles.config.Config` adds the models and pools.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)


class Section(BaseModel):
    """Base of every settings section: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GatewaySettings(Section):
    """The HTTP gateway: addresses and bounds."""

    host: str = Field("127.0.0.1", description="address of the API and operations ports")
    port: int = Field(8000, ge=0, le=65535, description="API port: /v1/*, /health, /metrics")
    ops_port: int = Field(8001, ge=0, le=65535, description="operations port: /livez, /readyz, /metrics")
    max_body_bytes: int = Field(2 * 1024 * 1024, ge=1024, description="largest request body, bytes")
    max_choices: int = Field(16, ge=1, description="largest `n` of one request")
    max_prompts: int = Field(128, ge=1, description="largest list of prompts in one completion request")
    routing: str = Field("round_robin", description="registered policy that picks a backend of the pool")
    health_interval_s: float = Field(2.0, gt=0, description="between two health checks of a backend, seconds")
    health_timeout_s: float = Field(5.0, gt=0, description="one health check, seconds; SGLang's takes over 1")
    health_path: str = Field("/health", pattern="^/", description="path of a backend's health check")
    abort_grace_s: float = Field(0.8, ge=0, le=10, description="waiting for an aborted request's last figures, seconds")
    connect_timeout_s: float = Field(5.0, gt=0, description="opening a connection to a backend, seconds")
    first_byte_timeout_s: float = Field(600.0, gt=0, description="waiting for a backend's first byte, seconds")
    idle_timeout_s: float = Field(120.0, gt=0, description="longest silence inside a stream, seconds")
    body_timeout_s: float = Field(30.0, gt=0, description="reading the client's body, seconds")
    drain_timeout_s: float = Field(30.0, ge=0, description="finishing open requests at shutdown, seconds")
    api_key: SecretStr | None = Field(None, description="bearer token that clients must send; none: open")
    api_keys: Path | None = Field(None, description="file of API keys with their tenants, read again on SIGHUP")
    cors_origins: tuple[str, ...] = Field(
        (), description="web origins whose pages may call the API, `*` for all; none: browsers refuse"
    )
    backend_api_key: SecretStr | None = Field(None, description="bearer token that the backends ask for")


class AdmissionSettings(Section):
    """Which requests run, which wait and which are refused. Each gateway process counts its own."""

    max_running: int | None = Field(
        None, gt=0, description="requests of one pool that run at once, others wait; none: no bound"
    )
    max_queued: int = Field(256, ge=0, description="requests that wait for one pool; more are refused at once")
    queue_timeout_s: float = Field(30.0, gt=0, description="longest wait for a place, seconds; then 408")
    answer_tokens: int = Field(
        256, gt=0, description="tokens of an answer that are reckoned with where the request names no maximum"
    )
    kv_share: float | None = Field(
        None,
        gt=0,
        le=100,
        description="part of the backends' KV room that requests may fill by estimate, others wait; none: no bound",
    )
    requests_per_minute: int | None = Field(
        None, gt=0, description="of a tenant whose keys say nothing else, or of all without keys; none: no limit"
    )
    tokens_per_minute: int | None = Field(
        None, gt=0, description="likewise, tokens of prompts and answers; none: no limit"
    )
    rate_store: SecretStr | None = Field(
        None, description="redis:// or rediss:// URL where gateways count rates together; none: each by itself"
    )
    rate_store_timeout_s: float = Field(0.25, gt=0, le=10, description="waiting for `rate_store`, seconds")
    rate_store_away: Literal["local", "allow", "refuse"] = Field(
        "local",
        description="without `rate_store`: local counts in this process, allow limits nothing, refuse answers 503",
    )

    @field_validator("rate_store")
    @classmethod
    def _is_a_redis_url(cls, given: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(given.get_secret_value()) if given is not None else None
        if parts is not None and (parts.scheme not in ("redis", "rediss") or not parts.hostname):
            # The value may hold a password.
            raise ValueError("not the URL of a Redis: write it like redis://host:6379/0")
        return given


class EngineSettings(Section):
    """The launcher of local engines."""

    host: str = Field(
        "0.0.0.0", description="address of engines of pools with backends; others answer this machine only"
    )
    node_rank: int = Field(
        0, ge=0, description="this machine's place among `runtime.nodes`; 0 leads and answers requests"
    )
    leader_address: str | None = Field(
        None,
        pattern=r"^.+:[0-9]{1,5}$",
        description="host:port where the machines of one engine meet, on the one of rank 0; none: one machine",
    )
    first_port: int = Field(30000, ge=1, le=65535, description="port of the first pool; the next ones follow")
    ready_timeout_s: float = Field(600.0, gt=0, description="from start to the first generated token, seconds")
    stop_grace_s: float = Field(10.0, gt=0, description="between SIGTERM and SIGKILL of the process group, seconds")
    restart: bool = Field(True, description="start a crashed engine again; false: end with it, for supervisors outside")
    restart_backoff_s: float = Field(1.0, gt=0, description="first wait before a restart after a crash, seconds")
    restart_backoff_max_s: float = Field(60.0, gt=0, description="longest wait before a restart, seconds")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="least level of engine lines that reach the log"
    )
    max_restarts: int = Field(10, ge=0, description="crashes in a row without a ready engine before giving up")


class Settings(BaseSettings):
    """Sections without models; read `service.profiles.config.Config` for the whole tree."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="SPECSERVE_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    gateway: GatewaySettings = GatewaySettings()
    admission: AdmissionSettings = AdmissionSettings()
    engine: EngineSettings = EngineSettings()
    cache_dir: Path = Field(
        default_factory=lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specserve",
        description="prepared models; default specserve in $XDG_CACHE_HOME or ~/.cache",
    )
    log_format: Literal["console", "json"] = Field("console", description="console or json lines")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """CLI values arrive as init arguments; the YAML file is named by `yaml_file` in `model_config`."""
        del dotenv_settings
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls), file_secret_settings
