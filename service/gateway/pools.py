"""Models and pools as the gateway serves them, built once from the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from service.errors import ModelNotFoundError
from service.gateway.admission.gate import Gate
from service.gateway.backends import Backend
from service.gateway.routing import Routed, RoutingPolicy, routing_registry
from service.profiles.config import Config, Model, Pool
from service.profiles.kv_methods import kv_policy
from service.profiles.schema import Speculation, SpeculationMode
from service.profiles.speculation_args import deepest_draft, draft_label
from service.telemetry.metrics import Metrics, PoolMetrics


@dataclass(eq=False, slots=True)
class ServedPool:
    """One pool: its backends, the policy that orders them, who may use them, its series, and what compresses its KV."""

    name: str
    speculation: Speculation
    backends: tuple[Backend, ...]
    policy: RoutingPolicy
    metrics: PoolMetrics
    gate: Gate
    kv_policy: str | None = None
    drafts_per_step: int = field(init=False)
    """The most draft tokens that one verify step can accept: one a level of the tree."""

    def __post_init__(self) -> None:
        self.drafts_per_step = deepest_draft(self.speculation)

    def obeys(self, mode: SpeculationMode) -> bool:
        """Whether a request of this mode can be served as asked.

        The algorithm `specserve` obeys each request inside the engine; others do what they are started with.
        """
        if mode == "auto" or self.speculation.algorithm == "specserve":
            return True
        return (self.speculation.algorithm != "none") == (mode == "on")

    def lossy(self, mode: SpeculationMode) -> str | None:
        """What makes the texts of this pool differ from plain decoding, None when nothing does."""
        spec = self.speculation
        changed = spec.algorithm == "specserve" and spec.accept != "strict" and mode != "off"
        named = [f"accept={spec.accept}"] if changed else []
        named += [] if self.kv_policy is None else [f"kv={self.kv_policy}"]
        return ", ".join(named) or None

    def order(self, request: Routed) -> list[Backend]:
        """Backends worth a try, the first one in front; empty when there is none."""
        usable = [backend for backend in self.backends if backend.usable and backend.weight > 0]
        # With none usable, those that were away are tried: one that just came back need not wait for its check.
        usable = usable or [backend for backend in self.backends if backend.away and backend.weight > 0]
        if len(usable) < 2:
            return usable
        return [usable[index] for index in self.policy.order(usable, request)]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A public model; the first pool is the default one."""

    name: str
    aliases: tuple[str, ...]
    pools: tuple[ServedPool, ...]

    def pool(self, name: str) -> ServedPool | None:
        """The pool of this name, or None."""
        return next((pool for pool in self.pools if pool.name == name), None)


class Catalog:
    """Every served model, by name and alias."""

    def __init__(self, models: tuple[ServedModel, ...]) -> None:
        self.models = models
        self._by_name = {name: model for model in models for name in (model.name, *model.aliases)}

    def resolve(self, name: str) -> ServedModel:
        """The model of this name or alias. Raises ModelNotFoundError."""
        model = self._by_name.get(name)
        if model is None:
            raise ModelNotFoundError(name[:128], (known.name for known in self.models))
        return model

    def backends(self) -> Iterator[tuple[ServedPool, Backend]]:
        """Every backend with its pool."""
        for model in self.models:
            for pool in model.pools:
                for backend in pool.backends:
                    yield pool, backend


def build_catalog(config: Config, metrics: Metrics) -> Catalog:
    """The catalog of a configuration. Raises UnknownNameError for an unknown routing policy."""
    return Catalog(tuple(_model(model, config, metrics) for model in config.models))


def _model(model: Model, config: Config, metrics: Metrics) -> ServedModel:
    return ServedModel(
        name=model.name,
        aliases=model.aliases,
        pools=tuple(_pool(model.name, pool, config, metrics) for pool in model.pools),
    )


def _pool(model: str, pool: Pool, config: Config, metrics: Metrics) -> ServedPool:
    spec = pool.profile.speculation
    series = PoolMetrics(metrics, model=model, pool=pool.name, algorithm=spec.algorithm, draft=draft_label(spec))
    return ServedPool(
        name=pool.name,
        speculation=spec,
        backends=tuple(
            Backend(url.rstrip("/"), weight)
            for url, weight in zip(pool.backends, pool.weights or (1.0,) * len(pool.backends), strict=True)
        ),
        policy=routing_registry().load(config.gateway.routing)(),
        metrics=series,
        gate=Gate(config.admission, series, max_running=pool.max_running or config.admission.max_running),
        kv_policy=kv_policy(pool.profile.kv),
    )
