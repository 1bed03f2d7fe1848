"""A client that keeps its connection and reads no more."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from service.gateway.flow import Flow
from service.gateway.service import Gateway
from service.profiles.config import Config, Model
from service.settings import GatewaySettings
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.stack import MODEL, pool_config


class Client:
    """Sends one request, reads the answer up to its last bytes, and stays."""

    def __init__(self) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        self._body: bytes | None = orjson.dumps(body)
        self.read = b""

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.read += message.get("body", b"")  # a quick backend's answer may come in one piece
        if not message.get("more_body", True):
            await asyncio.Event().wait()


async def test_the_last_bytes_hold_no_backend() -> None:
    with serving(FakeSGLang().app) as url:
        settings = GatewaySettings(idle_timeout_s=1.5)
        model = Model(name=MODEL, pools=(pool_config("default", [url], "specserve"),))
        gateway = Gateway(Config(gateway=settings, models=(model,)), CollectorRegistry())
        await gateway.start()
        client = Client()
        async with asyncio.timeout(20):
            await Flow(gateway, "chat", request_id="r", headers={}).serve(client.receive, client.send)
        assert b"Par" in client.read
        assert [backend.in_flight for _, backend in gateway.catalog.backends()] == [0]
        await gateway.stop()
