"""A real Prometheus scrapes a running gateway: every query about it, of dashboards and rules, has an answer.

The gateway's backends are fakes; `make dashboards-live` asks the same of real engines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.prometheus import Prometheus, prometheus
from tests.deploy.promql import asked_by, dashboards, filled_in, names_in, recorded
from tests.deploy.test_compose import gateway_process
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.wait import wait_until

SETTINGS = """
log_level: error
admission: {max_running: 1, max_queued: 1}
models:
  - name: m
    pools:
      - {name: default, backends: [ENGINE], profile: {kv: {eviction: streaming, prefix_cache: false}}}
"""
ACCOUNT = {"sources": {"copy": {"proposed": 4, "accepted": 2}}, "draft_s": 0.01, "verify_s": 0.2, "choices": None}


def series(requests: int) -> str:
    """What our plugin adds to SGLang's exposition, after so many requests."""
    values = {
        "token_bytes": 1024,
        "evicted_now_tokens": 8,
        "evictions_total": requests,
        "evicted_tokens_total": 40 * requests,
        "rows_read_total": 500 * requests,
        "rows_visible_total": 2000 * requests,
    }
    return "\n".join(f"specserve_kv_{name} {float(value)}" for name, value in values.items())


def body(mode: str) -> dict[str, Any]:
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return {**chat, "speculation": {"mode": mode}}


def send(api: str, mode: str) -> int:
    return httpx.post(f"{api}/v1/chat/completions", json=body(mode), timeout=20).status_code


def crowd(api: str) -> None:
    """Three at once, of whom one is served, one waits and one is sent away."""
    with ThreadPoolExecutor(3) as clients:
        assert sorted(clients.map(partial(send, api), ["off"] * 3)) == [200, 200, 429]


def leave(api: str) -> None:
    with httpx.stream("POST", f"{api}/v1/chat/completions", json=body("auto"), timeout=20) as answer:
        next(answer.iter_bytes())


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has watched a gateway under load for some seconds."""
    folder = tmp_path_factory.mktemp("scraped")
    fake = FakeSGLang(delay=0.01, kv_tokens=(30, 100), series=series(0), account=ACCOUNT, cached_tokens=3)
    settings = folder / "settings.yaml"
    command = ["gateway", "--config", str(settings), "--host", "127.0.0.1"]
    with serving(fake.app) as engine:
        settings.write_text(SETTINGS.replace("ENGINE", engine), encoding="utf-8")
        with (
            gateway_process(command, folder, engine) as (api, ops),
            prometheus(folder, {"specserve-gateway": ops.removeprefix("http://")}) as running,
        ):
            wait_until(lambda: bool(running.ask("specserve_backend_up == 1")), seconds=20)
            until = time.monotonic() + 8
            while time.monotonic() < until:
                assert [send(api, mode) for mode in ("auto", "off")] == [200, 200]
                fake.knobs.delay = 0.1  # long enough for all three to be there at once
                crowd(api)
                fake.knobs.delay = 0.01
                leave(api)
                fake.knobs.series = series(len(fake.bodies))
            time.sleep(2)
            yield running


def test_every_query_of_the_dashboards_has_an_answer(scraped: Prometheus) -> None:
    boards = dashboards().items()
    asked = [(name, title, filled_in(query, "15s")) for name, board in boards for title, query in asked_by(board)]
    ours = [found for found in asked if not any(name.startswith("sglang:") for name in names_in(found[2]))]
    assert len(ours) > 35
    assert [found for found in ours if not scraped.numbers(found[2])] == []


def test_what_is_recorded_has_values(scraped: Prometheus) -> None:
    assert [name for name in sorted(recorded()) if not scraped.ask(name)] == []
    assert scraped.ask("backend:specserve_kv_used:ratio")[0]["value"][1] == "0.3"


def test_the_unproven_cache_and_the_refusals_are_about_to_alert_and_nothing_else_is(scraped: Prometheus) -> None:
    pending = {found["metric"]["alertname"] for found in scraped.ask("ALERTS")}
    assert pending == {"SpecserveQualityGateMissing", "SpecserveRequestsRefused"}


def test_prometheus_reads_the_exposition_without_complaint(scraped: Prometheus, tmp_path: Path) -> None:
    targets = httpx.get(f"{scraped.url}/api/v1/targets").json()["data"]["activeTargets"]
    assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]
