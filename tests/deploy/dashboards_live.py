"""`make dashboards-live`: every query of the dashboards, asked of a Prometheus that watched real engines under load.

The services of docker-compose.yml run without Docker, one after the other with the settings of `RUNS`, since no one
engine does everything: a pool either evicts or selects pages. Prints a line a query; exits with 1 when one has no
number in any run. Ports 8000, 8001, 9090 and 30000 must be free.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.deploy.compose import RUNNER
from tests.deploy.programs import program
from tests.deploy.prometheus import Prometheus
from tests.deploy.promql import asked_by, dashboards, filled_in, recorded
from tests.e2e.live import MODEL, until

LOAD_SECONDS = 75
START_SECONDS = 400
WORDS = "The river rose in spring, and the miller counted sacks: one for the bridge, two for the town. " * 12
_POOL = """
admission: {max_running: 1, max_queued: 1}
models:
  - name: smollm2-135m-instruct
    pools: [{name: default, backends: ["http://engine:30000"], profile: PROFILE}]
"""
RUNS = {
    "as shipped": None,
    "evicting": "{kv: {eviction: streaming, budget: 64, prefix_cache: false}}",
    "selecting": "{speculation: {algorithm: none}, kv: {selector: quest, selector_tokens: 96, prefix_cache: false}}",
}


def chat(number: int, *, leave: bool) -> None:
    """One streamed chat, which may be refused; every second one plain where the pool speculates."""
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{number}. {WORDS} Tell it again."}],
        "max_tokens": 48,
        "temperature": 0,
        "stream": True,
    }
    if number % 2:
        body["speculation"] = {"mode": "off"}
    with httpx.stream("POST", "http://127.0.0.1:8000/v1/chat/completions", json=body, timeout=120) as answer:
        if answer.status_code != 200:
            time.sleep(1)  # three clients where one may run and one may wait
        for events, _ in enumerate(answer.iter_bytes()):
            if leave and events > 3:
                return


def load(seconds: float) -> int:
    """Chats from three clients for some seconds; how many were sent."""
    end, sent = time.monotonic() + seconds, iter(range(10**6))
    done: list[int] = []

    def client() -> None:
        while time.monotonic() < end:
            number = next(sent)
            chat(number, leave=number % 8 == 6)
            done.append(number)

    clients = [threading.Thread(target=client) for _ in range(3)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return len(done)


@contextmanager
def services(settings: Path | None) -> Iterator[None]:
    """The compose file's services until they are no longer needed. AssertionError when they do not start."""
    command = [sys.executable, str(RUNNER), *([] if settings is None else ["--settings", str(settings)])]
    path = os.pathsep.join((os.environ["PATH"], str(Path(program("prometheus").path).parent)))
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env={**os.environ, "PATH": path}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            until(lambda: process.poll() is not None or _ready(), START_SECONDS, pause=1)
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(log.read()[-3000:].decode("utf-8", "replace"))
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _ready() -> bool:
    try:
        places = ("http://127.0.0.1:8001/readyz", "http://127.0.0.1:9090/-/ready")
        return all(httpx.get(place, timeout=5).status_code == 200 for place in places)
    except httpx.TransportError:
        return False


def answers(settings: Path | None, name: str) -> dict[str, list[float]]:
    """The numbers that each query and recorded series gives after a load run."""
    queries = [filled_in(query, "1m") for board in dashboards().values() for _, query in asked_by(board)]
    with services(settings):
        sys.stderr.write(f"{name}: {load(LOAD_SECONDS)} chats\n")
        source = Prometheus("http://127.0.0.1:9090")
        return {query: source.numbers(query) for query in [*queries, *sorted(recorded())]}


def main() -> int:
    """Run all and print what came."""
    runs: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, profile in RUNS.items():
            settings = None
            if profile is not None:
                settings = Path(folder) / f"{name}.yaml"
                settings.write_text(_POOL.replace("PROFILE", profile), encoding="utf-8")
            runs[name] = answers(settings, name)
    asked = [
        (board, title, filled_in(query, "1m"))
        for board, found in dashboards().items()
        for title, query in asked_by(found)
    ]
    asked += [("rules", name, name) for name in sorted(recorded())]
    missing = 0
    for board, title, query in asked:
        given = {name: values for name, found in runs.items() if (values := found[query])}
        words = "; ".join(f"{name}: {len(values)} of {values[0]:.4g}" for name, values in given.items()) or "NO DATA"
        missing += not given
        sys.stdout.write(f"{board:12} {title:50} {words}\n")
    sys.stdout.write(f"{len(asked) - missing} of {len(asked)} queries have data\n")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
