"""Requests that lose tokens while they run, on real engines, with freed slots full of NaN."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import torch

from service.kvcache.answer_keys import BEST_KEY, HELD_KEY, LOGPROB_KEY, last_value
from service.profiles.schema import KvCache, Profile, Speculation
from service.telemetry.adapters.sglang_kv import read_figures
from service.telemetry.kv import KvFigures
from tests.engine.conftest import SMALL
from tests.engine.host import Engine, EngineHost, wait_until
from tests.engine.texts import VARIED

SINKS, WINDOW, BUDGET, INTERVAL = 4, 16, 64, 8
RARELY = 64
"""Tokens above the budget that no answer here reaches: for verify steps, which commit several at once."""
ARTICLE = " ".join(f"Note {i}: {text}" for i, text in enumerate(VARIED * 3))


def evicting(policy: str, budget: int, algorithm: str = "none", interval: int = INTERVAL) -> Profile:
    kv = KvCache(
        max_tokens=4096,
        eviction=policy,
        budget=budget,
        sinks=SINKS,
        window=WINDOW,
        eviction_interval=interval,
    )
    drafting = {"drafter": "prompt_lookup", "controllers": ("fixed",)} if algorithm == "specserve" else {}
    return SMALL.model_copy(
        update={"kv": kv, "speculation": Speculation.model_validate({"algorithm": algorithm, **drafting})}
    )


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that start now fill freed slots with NaN, check pages, and take forced answers."""
    monkeypatch.setenv("SPECSERVE_KV_POISON", "1")
    monkeypatch.setenv("SGLANG_CHECK_KV_PAGE_INVARIANTS", "1")
    monkeypatch.setenv("SPECSERVE_TEACHER", "1")


def tokens_of(engine: Engine, text: str) -> list[int]:
    found: list[int] = engine.post("/tokenize", {"model": "test", "prompt": text})["tokens"]
    return found


def generate(engine: Engine, ids: list[int], count: int, rid: str | None = None, **wishes: Any) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": count, "ignore_eos": True, "custom_params": {"specserve": wishes}}
    body = {"input_ids": ids, "sampling_params": sampling}
    return engine.post("/generate", body if rid is None else body | {"rid": rid})


def free_tokens(engine: Engine) -> int:
    """Tokens of the pool that nobody holds, cached ones apart."""
    engine.flush()
    load = httpx.get(f"{engine.url}/v1/loads", timeout=10).json()["loads"][0]
    return int(load["max_total_num_tokens"]) - int(load["num_used_tokens"])


def retractions(engine: Engine) -> float:
    """Requests that the engine took back to its queue so far."""
    lines = httpx.get(f"{engine.url}/metrics", timeout=10).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sglang:num_retracted_requests_total{"))


def kv_figures(engine: Engine) -> KvFigures:
    """What the gateway would read."""
    loads, metrics = (httpx.get(f"{engine.url}{path}", timeout=10).content for path in ("/v1/loads", "/metrics"))
    return read_figures(loads, metrics)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("algorithm", "interval"), [("none", INTERVAL), ("specserve", RARELY)])
def test_streaming_equals_masked_dense_attention(host: EngineHost, algorithm: str, interval: int) -> None:
    engine = host.use(f"streaming-{algorithm}", evicting("streaming", BUDGET, algorithm, interval))
    prompt, whole = tokens_of(engine, ARTICLE)[:300], tokens_of(engine, ARTICLE)[300:340]
    answer = generate(engine, prompt, 40)
    assert answer["meta_info"][HELD_KEY][-1] < BUDGET + interval
    text = [*prompt, *answer["output_ids"]]
    logits = masked_logits(host, text, 300, interval)
    best = logits[299:-1].argmax(-1).tolist()
    differing = [i for i, (ours, theirs) in enumerate(zip(answer["output_ids"], best, strict=True)) if ours != theirs]
    for i in differing:
        # Two nearly equal tokens may change places between two ways to add.
        top = logits[299 + i].topk(2).values
        assert float(top[0] - top[1]) < 1e-3, (i, answer["output_ids"], best)
    if algorithm == "none":
        forced = generate(engine, prompt, 40, forced=whole)["meta_info"]
        expected = masked_logits(host, [*prompt, *whole], 300, interval)[299:-1].log_softmax(-1)
        ours = torch.tensor(forced[LOGPROB_KEY])
        torch.testing.assert_close(ours, expected[range(40), whole], atol=2e-3, rtol=0)
        assert forced[BEST_KEY] == (expected.argmax(-1) == torch.tensor(whole)).int().tolist()


def masked_logits(host: EngineHost, text: list[int], prompt: int, interval: int) -> torch.Tensor:
    """transformers' logits [text, vocabulary] with the mask of `streaming`: the prompt is read whole, then cut."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(host.target, dtype=torch.float32, attn_implementation="sdpa")
    seen = torch.ones(len(text), len(text), dtype=torch.bool).tril()
    held = list(range(prompt))
    for position in range(prompt, len(text)):
        # Between two passes the policy is asked: first behind the prompt, then whenever `interval` more are held.
        if len(held) >= BUDGET + interval or position == prompt:
            held = [*held[:SINKS], *held[SINKS - BUDGET :]]
        held.append(position)
        seen[position] = False
        seen[position, held] = True
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))[None, None]
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([text]), attention_mask=mask).logits[0]
    return logits


@pytest.mark.usefixtures("poisoned")
def test_a_budget_of_the_whole_text_changes_nothing(host: EngineHost) -> None:
    engine = host.use("snapkv-large", evicting("snapkv", 420, algorithm="none"))
    prompt = tokens_of(engine, ARTICLE)[:400]
    # One that is never asked to lose anything, one that is watched and holds just all, one that keeps all of it.
    whole = generate(engine, prompt, 32, kv="full")
    engine.flush()
    watched = generate(engine, prompt, 20)
    assert watched["output_ids"] == whole["output_ids"][:20] and HELD_KEY not in watched["meta_info"]
    longer = generate(engine, prompt, 28)
    assert longer["output_ids"] == whole["output_ids"][:28] and longer["meta_info"][HELD_KEY][-1] == 427


@pytest.mark.usefixtures("poisoned")
def test_slots_come_back_after_mixed_requests_aborts_and_retractions(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make soak` sends more, under more policies."""
    # SGLang takes running requests back to the queue now and then, as it does when the pool is full.
    monkeypatch.setenv("SGLANG_TEST_RETRACT", "true")
    monkeypatch.setenv("SGLANG_TEST_RETRACT_INTERVAL", "25")
    engine = host.use("soak-dapq", evicting("dapq", BUDGET, algorithm="none"))
    text = tokens_of(engine, ARTICLE)
    before = free_tokens(engine)
    longest = [tokens_of(engine, f"{i}. ") + text[: 100 + 150 * (i % 4)] for i in range(16)]

    def one(i: int) -> dict[str, Any]:
        wishes = {"kv": "full"} if i % 4 == 3 else {}
        return generate(engine, longest[i], 40 + 10 * (i % 3), rid=f"soak-{i:02}", **wishes)

    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(one, i) for i in range(16)]
        wait_until(lambda: engine.running() >= 3, 60)
        for i in (0, 5, 10, 15):
            httpx.post(f"{engine.url}/abort_request", json={"rid": f"soak-{i:02}"}, timeout=30)
        answers = [job.result() for job in jobs]
    finished = [a["meta_info"] for a in answers if a["meta_info"]["finish_reason"]["type"] == "length"]
    assert len(finished) >= 12
    held = [held for meta in finished if (held := last_value(meta, HELD_KEY)) is not None]
    # A request is not cut again in the step that ends it.
    assert len(held) >= 6 and max(held) <= BUDGET + INTERVAL
    wait_until(lambda: engine.running() == 0, 30)
    assert retractions(engine) > 0
    assert free_tokens(engine) == before
    figures = kv_figures(engine)
    # Every compressed request lost at least what its prompt was above the budget; nobody runs now.
    least = sum(len(longest[i]) - BUDGET for i in range(16) if i % 4 != 3 and i not in (0, 5, 10, 15))
    assert figures.evicted_total is not None and figures.evicted_total >= least
    assert figures.evictions is not None and figures.evictions >= len(held)
    assert (figures.full, figures.evicted, figures.room) == (0, 0, before)
    assert figures.token_bytes == 2 * 30 * 3 * 64 * 4 and figures.rows_visible is None


@pytest.mark.usefixtures("poisoned")
def test_a_cached_prefix_is_read_and_stays_in_the_tree(host: EngineHost) -> None:
    engine = host.use("soak-dapq", evicting("dapq", BUDGET, algorithm="none"))
    prompt = tokens_of(engine, ARTICLE)[:300]
    first = generate(engine, prompt, 8, kv="full")
    again = generate(engine, prompt, 24)
    alone = (engine.flush(), generate(engine, prompt, 24))[1]
    assert first["meta_info"]["cached_tokens"] == 0 and again["meta_info"]["cached_tokens"] > 200
    # What was compressed entered no tree.
    assert alone["meta_info"]["cached_tokens"] == 0 and again["output_ids"] == alone["output_ids"]
    assert json.dumps(generate(engine, prompt, 8, kv="full")["output_ids"]) == json.dumps(first["output_ids"])
