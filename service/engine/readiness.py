"""When an engine is ready: it answers health checks and has generated a token."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

_POLL_S = 0.5
_HEALTH_TIMEOUT_S = 5.0
_PROBE = {"prompt": "Hello", "max_tokens": 1, "temperature": 0}


async def wait_ready(base_url: str, model: str | None) -> None:
    """Return once the engine at `base_url` is healthy and has generated one token of `model` (None: healthy only).

    Never gives up by itself: the caller bounds the time and watches the process.
    """
    async with aiohttp.ClientSession(base_url) as session:
        while not (await _healthy(session) and (model is None or await _generates(session, model))):
            await asyncio.sleep(_POLL_S)


async def _healthy(session: aiohttp.ClientSession) -> bool:
    timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT_S)
    try:
        async with session.get("/health", timeout=timeout) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _generates(session: aiohttp.ClientSession, model: str) -> bool:
    # No timeout: the first generation may compile, and a second probe beside it would only slow it down.
    timeout = aiohttp.ClientTimeout(total=None)
    try:
        async with session.post("/v1/completions", json={"model": model, **_PROBE}, timeout=timeout) as response:
            return response.status == 200 and _has_token(await response.json())
    except (aiohttp.ClientError, ValueError):
        return False


def _has_token(body: Any) -> bool:
    usage = body.get("usage") if isinstance(body, dict) else None
    return isinstance(usage, dict) and (usage.get("completion_tokens") or 0) >= 1
