"""A real Prometheus on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.programs import program
from tests.deploy.promql import RULES
from tests.doubles.wait import wait_until
from tests.e2e.live import free_port


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Series of an instant query. Raises AssertionError with Prometheus' words."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=20).json()
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def numbers(self, query: str) -> list[float]:
        """The values of an instant query that are numbers: a quantile of nothing is none."""
        values = (float(found["value"][1]) for found in self.ask(query))
        return [value for value in values if not isnan(value)]


@contextmanager
def prometheus(folder: Path, targets: dict[str, str], *, interval: str = "1s") -> Iterator[Prometheus]:
    """Scrapes `targets` (job to host:port) and evaluates the rules that are deployed. Skips where there is none."""
    binary = program("prometheus").path
    jobs = [{"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]
    config = folder / "prometheus.yml"
    pace = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    config.write_text(yaml.safe_dump({"global": pace, "rule_files": [str(RULES)], "scrape_configs": jobs}), "utf-8")
    port = free_port()
    places = (f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{port}")
    with subprocess.Popen([binary, *places], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            running = Prometheus(f"http://127.0.0.1:{port}")
            wait_until(lambda: _ready(running.url), seconds=20)
            yield running
        finally:
            process.terminate()
            process.wait(timeout=20)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
