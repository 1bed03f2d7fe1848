"""Half of the clients leave at once: does the engine go on working for anybody who is gone?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import gevent
import orjson
from geventhttpclient import HTTPClient

from loadtests.caller import Caller

SHARE = 0.5
LIMIT_S = 1.0
"""When the engine must have stopped, seconds after the clients left."""
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Storm:
    """How it went. `running` are the engine's requests after `LIMIT_S`, `open` those that still have a client.

    `orphans` is the least of some looks, each between two counts of the clients; None when the engine was not asked.
    """

    open_before: int
    left: int
    running: int | None
    open: int
    orphans: int | None

    def write(self, folder: Path) -> None:
        """Into `FOLDER/storm.json`."""
        (folder / "storm.json").write_bytes(orjson.dumps(asdict(self)))


def strike(caller: Caller, engine: str | None) -> Storm:
    """Drop half of the requests under way, wait, and look. Blocks its greenlet."""
    before = caller.open
    left = caller.drop(SHARE)
    gevent.sleep(LIMIT_S)
    if engine is None:
        return Storm(before, left, None, caller.open, None)
    looks = []
    for _ in range(_LOOKS):
        open_then = caller.open
        running = running_requests(engine)
        open_now = max(open_then, caller.open)
        looks.append((max(running - open_now, 0), running, open_now))
        gevent.sleep(0.05)
    orphans, running, open_now = min(looks)
    return Storm(before, left, running, open_now, orphans)


def running_requests(engine: str) -> int:
    """Requests that SGLang runs or holds waiting. Raises OSError or ValueError when it does not tell."""
    client = HTTPClient.from_url(engine, connection_timeout=5, network_timeout=10, insecure=False)
    try:
        with client.get("/v1/loads") as answer:
            loads = orjson.loads(answer.read())["loads"]
        return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)
    finally:
        client.close()
