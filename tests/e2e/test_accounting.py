"""The counters of `/metrics` against the objects that the clients received: equal, exactly."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.e2e.live import MODEL, Service, until

COPYING = "Repeat exactly: The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog."
FIGURES = {
    "num_spec_steps": "specserve_spec_decode_num_drafts_total",
    "num_draft_tokens": "specserve_spec_decode_num_draft_tokens_total",
    "num_accepted_draft_tokens": "specserve_spec_decode_num_accepted_tokens_total",
}
HEADERS = {"X-Speculation-Metrics": "1"}


def body(number: int) -> dict[str, Any]:
    """Request number 0 to 37: every combination of drafted or plain, streamed or not, one choice or two."""
    drafted, stream, n = number % 2 == 0, number // 2 % 2 == 0, 1 + number // 4 % 2
    sampled = number % 3 == 0
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{COPYING} Number {number}."}],
        "max_tokens": 20,
        "n": n,
        "temperature": 1 if sampled else 0,
        "stream": stream,
        "stop": ["lazy"] if number % 5 == 0 else None,
        "speculation": {"mode": "on" if drafted else "off"},
    } | ({"stream_options": {"include_usage": True}} if stream else {})


def ask(service: Service, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Usage and speculation object of one request, from the body or the last chunk before [DONE]."""
    response = httpx.post(f"{service.api}/v1/chat/completions", json=request, headers=HEADERS, timeout=180)
    assert response.status_code == 200, response.text
    if not request["stream"]:
        answer = response.json()
        return answer["usage"], answer["metrics"]["speculative_decoding"]
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]" and all("sglext" not in event for event in events)
    last = json.loads(events[-2])
    return last["usage"], last["metrics"]["speculative_decoding"]


def leave(service: Service) -> None:
    """A client that leaves after the first chunk."""
    request = body(0) | {"max_tokens": 400, "ignore_eos": True, "n": 1}
    with httpx.stream("POST", f"{service.api}/v1/chat/completions", json=request, timeout=60) as response:
        next(response.iter_bytes())


def increase(before: dict[str, float], after: dict[str, float], prefix: str) -> float:
    """How much all samples of a series grew together."""
    return sum(after[name] - before.get(name, 0.0) for name in after if name.split("{")[0] == prefix)


def test_forty_mixed_requests(service: Service) -> None:
    before = service.samples()
    with ThreadPoolExecutor(4) as clients:
        leaving = [clients.submit(leave, service) for _ in range(2)]
        answers = list(clients.map(lambda number: ask(service, body(number)), range(38)))
        for left in leaving:
            left.result()
    until(lambda: increase(before, service.samples(), "specserve_requests_total") == 40, 10)
    after = service.samples()

    objects = [spec for _, spec in answers if spec is not None]
    assert [spec is None for _, spec in answers] == [number % 2 == 1 for number in range(38)]
    totals: Counter[str] = Counter()
    positions: Counter[int] = Counter()
    for spec in objects:
        totals.update({figure: spec[figure] for figure in FIGURES})
        histogram = spec["acceptance_histogram"]
        positions.update({p: sum(histogram[p + 1 :]) for p in range(len(histogram))})
    outcomes = {name: after[name] - before.get(name, 0.0) for name in after if "requests_total{" in name}
    assert sum(value for name, value in outcomes.items() if 'outcome="aborted"' in name) == 2
    assert sum(value for name, value in outcomes.items() if 'outcome="ok"' in name) == 38

    for figure, series in FIGURES.items():
        assert increase(before, after, series) == totals[figure], series
    assert totals["num_draft_tokens"] > totals["num_accepted_draft_tokens"] > 0
    per_position = "specserve_spec_decode_num_accepted_tokens_per_pos_total"
    counted = {name: after[name] - before.get(name, 0.0) for name in after if name.split("{")[0] == per_position}
    for position, accepted in positions.items():
        own = [value for name, value in counted.items() if f'position="{position}"' in name]
        assert sum(own) == accepted, position
    assert sum(counted.values()) == totals["num_accepted_draft_tokens"]
    for histogram in ("specserve_spec_acceptance_length_count", "specserve_spec_acceptance_rate_count"):
        assert increase(before, after, histogram) == sum(spec["num_spec_steps"] > 0 for spec in objects)
