"""HTTP to the backends: one shared session, and errors in words that the request flow understands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp
import orjson

from service.gateway.backends import Backend
from service.settings import GatewaySettings

# uvicorn, which serves SGLang, closes idle connections after 5 s; reuse must stop before that.
_KEEPALIVE_S = 4.0
_ABORT_TIMEOUT_S = 2.0


class UnreachableError(Exception):
    """No connection could be opened: the backend did not see the request."""


class BrokenError(Exception):
    """The connection broke before an answer: the backend may have begun the work."""


class Upstream:
    """The client side of the gateway. `start` and `close` belong to the event loop that serves requests."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s)
        self._health_path = settings.health_path
        key = settings.backend_api_key
        self._headers = {"Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S, ttl_dns_cache=10),
            timeout=self._timeout,
            headers=self._headers,
            # A backend's cookie would go along with every client's requests, and pin them to one replica.
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept"),
            auto_decompress=False,
            read_bufsize=2**18,
        )

    async def close(self) -> None:
        """Close the session and every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, backend: Backend, path: str, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """Send a request and wait for the answer's headers, without a time limit of its own.

        Raises UnreachableError or BrokenError. The caller must release or close the response.
        """
        try:
            return await self._open().post(backend.url + path, data=body, headers=headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise UnreachableError(f"{backend.url}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenError(f"{backend.url}: {error or type(error).__name__}") from error

    async def abort(self, backend: Backend, rids: Sequence[str]) -> bool:
        """Ask the backend to stop these requests; false when it could not be told. Never raises for that."""
        results = await asyncio.gather(*(self._abort(backend, rid) for rid in rids))
        return all(results)

    async def _abort(self, backend: Backend, rid: str) -> bool:
        try:
            async with self._open().post(
                f"{backend.url}/abort_request",
                data=orjson.dumps({"rid": rid}),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_ABORT_TIMEOUT_S),
            ) as response:
                return response.status < 400
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def health(self, backend: Backend, timeout_s: float) -> int:
        """Status of the backend's health check. Raises TimeoutError, aiohttp.ClientError or OSError."""
        async with self._open().get(
            backend.url + self._health_path, timeout=aiohttp.ClientTimeout(total=timeout_s)
        ) as response:
            return response.status

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the upstream session is not open: run the application's lifespan")
        return self._session
