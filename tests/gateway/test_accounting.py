"""The counters equal, exactly, the sums over the objects that clients received."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack
from tests.doubles.wait import wait_until

DRAFT = {"model": MODEL, "pool": "default", "algorithm": "specserve", "draft": "goose"}
ASK = {"X-Speculation-Metrics": "1"}


def one(stack: Stack, number: int) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """One of the mixed requests: its speculation object and its usage."""
    stream = number % 2 == 0
    extra: dict[str, Any] = {"n": 2} if number % 3 == 0 else {}
    if number % 5 == 0:
        extra["speculation"] = {"mode": "off"}
    if stream:
        extra["stream_options"] = {"include_usage": True}
    answer = stack.chat(headers=ASK, stream=stream, **extra)
    assert answer.status_code == 200
    if not stream:
        body = answer.json()
    else:
        events = answer.text.strip().split("\n\n")
        body = orjson.loads(events[-2].removeprefix("data: "))
    return body["metrics"]["speculative_decoding"], body["usage"]


def leave(stack: Stack) -> None:
    """A streaming client that goes after the first bytes."""
    body = orjson.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "stream": True})
    host, port = stack.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        client.recv(100)


def test_forty_mixed_requests() -> None:
    with running_stack({"default": [FakeSGLang(delay=0.002, cached_tokens=2)]}) as stack:
        with ThreadPoolExecutor(8) as workers:
            results = list(workers.map(lambda number: one(stack, number), range(38)))
            list(workers.map(lambda _: leave(stack), range(2)))
        objects = [found for found, _ in results if found is not None]
        assert len(objects) == sum(number % 5 != 0 for number in range(38))

        outcome = {"model": MODEL, "pool": "default", "outcome": "aborted"}
        wait_until(lambda: stack.metric("specserve_requests_total", **outcome) == 2)

        def total(key: str) -> int:
            return sum(found[key] for found in objects)

        assert stack.metric("specserve_spec_decode_num_drafts_total", **DRAFT) == total("num_spec_steps")
        assert stack.metric("specserve_spec_decode_num_draft_tokens_total", **DRAFT) == total("num_draft_tokens")
        accepted = total("num_accepted_draft_tokens")
        assert stack.metric("specserve_spec_decode_num_accepted_tokens_total", **DRAFT) == accepted
        for position in range(3):
            name = "specserve_spec_decode_num_accepted_tokens_per_pos_total"
            expected = sum(sum(found["acceptance_histogram"][position + 1 :]) for found in objects)
            assert stack.metric(name, **DRAFT, position=str(position)) == expected
        assert stack.metric("specserve_spec_acceptance_length_count", **DRAFT) == len(objects)
        lengths = sum(found["mean_acceptance_length"] for found in objects)
        seen = stack.metric("specserve_spec_acceptance_length_sum", **DRAFT)
        assert seen is not None
        assert abs(seen - lengths) < 1e-9
        assert stack.metric("specserve_requests_total", model=MODEL, pool="default", outcome="ok") == 38
        count = stack.metric("specserve_overhead_seconds_count", model=MODEL, pool="default")
        assert count is not None
        assert count >= 38


def test_several_choices_are_summed_and_listed() -> None:
    with running_stack() as stack:
        found = stack.chat(n=3, headers=ASK).json()["metrics"]["speculative_decoding"]
        assert len(found["choices"]) == 3
        for key in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"):
            assert found[key] == sum(choice[key] for choice in found["choices"])


def test_a_batch_of_prompts_with_one_choice_each_has_no_figures() -> None:
    with running_stack() as stack:
        body = {"model": MODEL, "prompt": ["a", "b"]}
        answer = stack.http.post("/v1/completions", json=body, headers=ASK).json()
        assert len(answer["choices"]) == 2
        assert answer["metrics"] == {"speculative_decoding": None}
        assert stack.metric("specserve_spec_decode_num_drafts_total", **DRAFT) is None


def test_tokens_and_times_are_observed() -> None:
    with running_stack({"default": [FakeSGLang(ttft=0.05, delay=0.01, cached_tokens=2)]}) as stack:
        own = {"model": MODEL, "pool": "default"}
        assert stack.chat(stream=True).status_code == 200
        assert stack.metric("specserve_prompt_tokens_total", **own) == 7
        assert stack.metric("specserve_cached_prompt_tokens_total", **own) == 2
        assert stack.metric("specserve_completion_tokens_total", **own) == 5
        first = stack.metric("specserve_time_to_first_token_seconds_sum", **own)
        assert first is not None
        assert 0.05 <= first < 30
        pace = stack.metric("specserve_inter_token_latency_seconds_sum", **own)
        assert pace is not None
        assert 0.005 < pace < 30
        assert stack.metric("specserve_queue_seconds_count", **own) == 0


def test_requests_without_a_model_are_counted_without_labels() -> None:
    with running_stack() as stack:
        stack.chat(model="nope")
        assert stack.metric("specserve_requests_total", model="", pool="", outcome="client_error") == 1
