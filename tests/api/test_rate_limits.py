"""Rate limits at the service: headers, errors, settling, and a store that is away."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.api.test_api_keys import write_keys
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack
from tests.doubles.wait import wait_until

MESSAGES = [{"role": "user", "content": "Hi"}]
POOL = {"model": MODEL, "pool": "default"}
# What the fake tells: 7 of the prompt, 5 of the answer.
USED = 12


def left(answer: httpx.Response, unit: str = "tokens") -> int:
    return int(answer.headers[f"x-ratelimit-remaining-{unit}"])


def until_settled(stack: Stack) -> None:
    wait_until(lambda: not stack.gateway.admission._rates._tasks)


def own_minute() -> None:
    """Leaves the end of a minute to others: what is reserved there is not given back in the next one."""
    rest = 60 - time.time() % 60
    if rest < 5:
        time.sleep(rest)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_tell_what_is_left_and_real_use_counts(stream: bool) -> None:
    own_minute()
    with running_stack(admission={"requests_per_minute": 100, "tokens_per_minute": 1000}) as stack:
        first = stack.chat(max_tokens=500, stream=stream)
        assert first.headers["x-ratelimit-limit-requests"] == "100"
        assert left(first, "requests") == 99
        assert 480 <= left(first) < 500
        assert first.headers["x-ratelimit-reset-tokens"][-1] == "s"
        until_settled(stack)
        second = stack.chat(max_tokens=500, stream=stream)
        assert left(first) - left(second) == USED


def test_without_limits_no_header_speaks_of_them() -> None:
    with running_stack() as stack:
        assert not [name for name in stack.chat().headers if name.startswith("x-ratelimit")]


def test_limits_of_keys_in_the_openai_client(tmp_path: Path) -> None:
    keys = write_keys(
        tmp_path / "keys.yaml", acme={"requests_per_minute": 1}, other={}, tight={"tokens_per_minute": 300}
    )
    with running_stack(api_keys=keys) as stack:

        def client(name: str) -> openai.OpenAI:
            return openai.OpenAI(base_url=f"{stack.url}/v1", api_key=f"sk-{name}", max_retries=0)

        def ask(name: str, **extra: Any) -> Any:
            return client(name).chat.completions.create(model=MODEL, messages=MESSAGES, **extra)

        raw = client("acme").chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES)
        assert raw.headers["x-ratelimit-remaining-requests"] == "0"
        with pytest.raises(openai.RateLimitError) as refused:
            ask("acme")
        error = refused.value
        assert (error.code, error.type) == ("rate_limit_exceeded", "requests")
        assert 0 < int(error.response.headers["retry-after"]) <= 120
        assert error.response.headers["x-ratelimit-remaining-requests"] == "0"
        assert ask("other").usage.total_tokens == USED
        with pytest.raises(openai.BadRequestError) as never:
            ask("tight", max_completion_tokens=400)
        assert (never.value.code, never.value.param) == ("request_exceeds_rate_limit", "max_completion_tokens")
        with pytest.raises(anthropic.RateLimitError) as translated:
            anthropic.Anthropic(base_url=stack.url, api_key="sk-acme", max_retries=0).messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
        assert translated.value.response.json()["error"]["type"] == "rate_limit_error"
        assert translated.value.response.headers["x-ratelimit-limit-requests"] == "1"
        assert len(stack.fake.bodies) == 2
        assert stack.metric("specserve_requests_refused_total", **POOL, reason="request_rate") == 2
        assert stack.metric("specserve_requests_total", **POOL, outcome="refused") == 2


def test_the_openai_client_waits_for_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("openai._base_client.time", SimpleNamespace(**{**vars(time), "sleep": waits.append}))
    with running_stack(admission={"requests_per_minute": 1}) as stack:
        client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="x", max_retries=1)
        client.chat.completions.create(model=MODEL, messages=MESSAGES)
        with pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(model=MODEL, messages=MESSAGES)
        told = int(refused.value.response.headers["retry-after"])
        # It takes up to a minute at its word, and backs off by itself for longer.
        assert len(waits) == 1
        assert waits[0] == told if told <= 60 else waits[0] < 60


@pytest.mark.parametrize(
    ("knobs", "extra", "kept"),
    [
        ({"status": 400, "error_body": {"message": "no"}}, {}, False),
        ({"status": 500, "error_body": {"message": "no"}}, {"stream": True}, False),
        ({"die_after": 2, "delay": 0.01}, {"stream": True}, True),
    ],
)
def test_tokens_of_failed_requests(knobs: dict[str, Any], extra: dict[str, Any], kept: bool) -> None:
    """Where nothing was answered nothing is taken; a torn stream has used what nobody knows."""
    own_minute()
    fake = FakeSGLang(**knobs)
    with running_stack({"default": [fake]}, admission={"tokens_per_minute": 1000}) as stack:
        failed = stack.chat(max_tokens=500, **extra)
        assert 480 <= left(failed) < 500
        until_settled(stack)
        fake.knobs.status, fake.knobs.die_after = 200, None
        after = left(stack.chat(max_tokens=100))
        assert (after < 400) == kept


def test_a_refusal_at_the_gate_takes_no_tokens() -> None:
    own_minute()
    with running_stack(admission={"tokens_per_minute": 1000, "max_running": 1, "max_queued": 0}) as stack:
        gate: Any = stack.gateway.catalog.models[0].pools[0].gate
        gate.running = 1
        assert stack.chat(max_tokens=500).json()["error"]["code"] == "queue_full"
        until_settled(stack)
        gate.running = 0
        assert left(stack.chat(max_tokens=500)) > 480


def test_an_embedding_takes_its_prompt_and_a_tokenizer_nothing() -> None:
    own_minute()
    with running_stack(admission={"tokens_per_minute": 100, "requests_per_minute": 1}) as stack:
        for path in ("tokenize", "detokenize"):
            body = {"model": MODEL, "prompt": "x", "tokens": [1]}
            answer = stack.http.post(f"/v1/{path}", json=body)
            assert answer.status_code == 200
            assert "x-ratelimit-limit-tokens" not in answer.headers
        answer = stack.http.post("/v1/embeddings", json={"model": MODEL, "input": "word " * 16})
        assert (answer.status_code, left(answer)) == (200, 80)


@pytest.mark.parametrize(("away", "statuses"), [("local", [200, 429]), ("allow", [200, 200]), ("refuse", [503, 503])])
def test_a_redis_that_hangs_holds_nothing_up(away: str, statuses: list[int]) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"redis://:s3cret@127.0.0.1:{deaf.getsockname()[1]}/0"
        admission = {"requests_per_minute": 1, "rate_store": url, "rate_store_away": away}
        with running_stack(admission=admission) as stack:
            began = time.monotonic()
            answers = [stack.chat() for _ in statuses]
            assert time.monotonic() - began < 2
            assert [answer.status_code for answer in answers] == statuses
            if away == "refuse":
                assert answers[0].json()["error"]["code"] == "rate_store_away"
                assert answers[0].headers["retry-after"] == "1"
            assert (stack.metric("specserve_rate_store_errors_total") or 0) >= 2
            assert "s3cret" not in stack.http.get("/metrics").text
