"""Where the gateway's time goes: `python -m service.bench.gateway.profile` loads it under cProfile and prints a table.

cProfile makes every call dearer, so that shares count and not seconds; `specserve bench gateway` measures those.
"""

from __future__ import annotations

import asyncio
import pstats
import sys
import tempfile
from pathlib import Path

from service.bench.gateway.client import closed_loop
from service.bench.gateway.peers import HOST, Place, own_command
from service.bench.gateway.plan import request_bytes
from service.bench.gateway.process import Server
from service.bench.gateway.rounds import Target, wait_ready
from service.bench.servers import free_port

_CONCURRENCY = 32
_REQUESTS = 20_000
_LOAD_S = 20.0
_ROWS = 60


async def run(folder: Path, order: str, requests: int = _REQUESTS) -> None:
    """Load the gateway with plain requests and print its dearest functions, by `tottime` or `cumtime`.

    Raises RuntimeError when it does not answer.
    """
    mock_port, place_port = free_port(), free_port()
    mock_url = f"http://{HOST}:{mock_port}"
    mock = Server.start(
        "mock", mock_url, [sys.executable, "-m", "service.bench.gateway.mock", str(mock_port)], folder, {}
    )
    stats = folder / "stats"
    program, _, _, *options = own_command(Place(mock_url, place_port, free_port(), folder))
    profiled = f"import cProfile; from service.cli import main; cProfile.run('main()', {str(stats)!r})"
    ours = Server.start("specserve", f"http://{HOST}:{place_port}", [program, "-c", profiled, *options], folder, {})
    try:
        if reason := await wait_ready(Target("specserve", ours.url, ours)):
            raise RuntimeError(reason)
        ask = request_bytes(f"{HOST}:{place_port}", None)
        await closed_loop(ours.url, ask, _CONCURRENCY, count=requests, limit_s=_LOAD_S)
    finally:
        await asyncio.gather(ours.stop(), mock.stop())
    pstats.Stats(str(stats)).strip_dirs().sort_stats(order).print_stats(_ROWS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run(Path(name), sys.argv[1] if len(sys.argv) > 1 else "tottime"))
