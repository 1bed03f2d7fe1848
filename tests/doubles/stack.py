"""Fake backends behind a real gateway, both on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from service.api.app import create_app
from service.gateway.service import Gateway
from service.profiles.config import Config, Model, Pool
from service.profiles.schema import KvCache, Profile, Speculation
from service.settings import AdmissionSettings, GatewaySettings
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving

MODEL = "smollm2-135m-instruct"


@dataclass
class Stack:
    """A running gateway with its fakes, by pool name, and a client for it."""

    app: FastAPI
    url: str
    fakes: dict[str, list[FakeSGLang]]
    http: httpx.Client = field(repr=False)

    @property
    def gateway(self) -> Gateway:
        gateway = self.app.state.gateway
        assert isinstance(gateway, Gateway)
        return gateway

    @property
    def fake(self) -> FakeSGLang:
        """The first backend of the first pool."""
        return next(iter(self.fakes.values()))[0]

    def chat(self, *, headers: dict[str, str] | None = None, **extra: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **extra}
        return self.http.post("/v1/chat/completions", json=body, headers=headers)

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of one sample, None where it was never set."""
        return self.gateway.metrics.registry.get_sample_value(name, labels)


StackFactory = Callable[..., Stack]


def pool_config(
    name: str, urls: list[str], algorithm: str, accept: str = "strict", kv: dict[str, Any] | None = None
) -> Pool:
    speculation = Speculation(algorithm=algorithm, draft_tokens=4, accept=accept)  # type: ignore[arg-type]
    cache = KvCache.model_validate(kv or {})
    return Pool(name=name, profile=Profile(speculation=speculation, kv=cache), backends=tuple(urls))


@contextmanager
def running_stack(
    fakes: dict[str, list[FakeSGLang]] | None = None,
    algorithms: dict[str, str] | None = None,
    accept: str = "strict",
    kv: dict[str, Any] | None = None,
    admission: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[Stack]:
    """A gateway in front of `fakes` (pool name to backends); a pool without an algorithm runs `specserve`.

    `settings` are those of `gateway`, `admission` those of its own section.
    """
    fakes = fakes or {"default": [FakeSGLang()]}
    with ExitStack() as stack:
        pools = tuple(
            pool_config(
                name,
                [stack.enter_context(serving(fake.app)) for fake in group],
                (algorithms or {}).get(name, "specserve"),
                accept,
                kv,
            )
            for name, group in fakes.items()
        )
        gateway = GatewaySettings(**{"health_interval_s": 0.1, **settings})
        models = (Model(name=MODEL, aliases=("smol",), pools=pools),)
        config = Config(gateway=gateway, admission=AdmissionSettings(**(admission or {})), models=models)
        app = create_app(config)
        url = stack.enter_context(serving(app))
        http = stack.enter_context(httpx.Client(base_url=url, timeout=20))
        yield Stack(app, url, fakes, http)
