"""The whole settings tree: the sections of `service.settings` plus models and their pools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from service.profiles.schema import Profile, Runtime
from service.settings import Section, Settings


class Pool(Section):
    """One profile on one or more backends."""

    name: str = Field("default", pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="unique in its model")
    profile: Profile = Profile()
    prefill: Runtime | None = Field(
        None, description="runtime of engines that only prefill; those of `profile` then only decode; none: no such"
    )
    backends: tuple[str, ...] = Field((), description="base URLs; none: `specserve serve` starts a local engine")
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = Field(
        (), description="shares of `backends` in their order, 0: nothing new is sent there; none: equal shares"
    )
    max_running: int | None = Field(
        None, gt=0, description="requests that run at once, others wait; none: `admission.max_running`"
    )

    @model_validator(mode="after")
    def _each_backend_has_a_weight(self) -> Pool:
        if self.weights and len(self.weights) != len(self.backends):
            raise ValueError(f"{len(self.weights)} weights for {len(self.backends)} backends: give each backend one")
        if self.weights and not any(self.weights):
            raise ValueError("every backend has weight 0, so that nothing serves: give one a weight above 0")
        return self

    @model_validator(mode="after")
    def _prefill_engines_are_paired(self) -> Pool:
        if self.prefill is not None and not self.backends:
            raise ValueError(
                f"pool {self.name!r} has prefill engines and no backends: give the URL of SGLang's router that pairs "
                "them with the decode engines"
            )
        return self

    @field_validator("backends")
    @classmethod
    def _backends_are_base_urls(cls, backends: tuple[str, ...]) -> tuple[str, ...]:
        for url in backends:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{url!r} is no base URL: write it like http://host:30000")
            if parts.username or parts.password:
                raise ValueError("a backend URL must not hold a password: set gateway.backend_api_key")
        return backends


class Model(Section):
    """A public model name, its aliases and its pools; the first pool is the default one."""

    name: str = Field("smollm2-135m-instruct", min_length=1, description="the name that clients ask for")
    aliases: tuple[str, ...] = Field((), description="further names")
    pools: tuple[Pool, ...] = Field((Pool(),), min_length=1)

    @model_validator(mode="after")
    def _pool_names_are_unique(self) -> Model:
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            raise ValueError(f"model {self.name!r} has two pools of one name: {', '.join(names)}")
        return self


class Config(Settings):
    """Everything that one service is told."""

    models: tuple[Model, ...] = Field((Model(),), min_length=1)

    @model_validator(mode="after")
    def _model_names_are_unique(self) -> Config:
        names = [name for model in self.models for name in (model.name, *model.aliases)]
        if len(set(names)) != len(names):
            raise ValueError(f"two models share a name or alias: {', '.join(sorted(names))}")
        return self


def load_config(path: Path | None = None, **overrides: Any) -> Config:
    """Read the tree from CLI overrides, environment and an optional YAML file, in that order.

    Raises pydantic's ValidationError for unknown keys and bad values, FileNotFoundError for a missing file.
    """
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"no configuration file at {path}")

    class FromFile(Config):
        model_config = SettingsConfigDict(yaml_file=path)

    return FromFile(**overrides)
