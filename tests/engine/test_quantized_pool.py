"""KV pools of packed codes on real engines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.profiles.schema import KvCache, Speculation
from tests.engine.conftest import SMALL
from tests.engine.host import Engine, EngineHost, details, ids
from tests.engine.test_eviction import kv_figures
from tests.engine.texts import LONG, VARIED

BFLOAT16_BYTES = 2 * 30 * 3 * 64 * 2
"""Keys and values of one token of SmolLM2-135M: 30 layers, 3 KV heads, 64 channels."""


@pytest.fixture
def int8(host: EngineHost) -> Engine:
    """Eight bits a channel, rotated, with drafts."""
    speculation = Speculation(drafter="prompt_lookup", controllers=("fixed",))
    kv = KvCache(max_tokens=8192, quantization="int8", rotation="hadamard")
    return host.use("int8", SMALL.model_copy(update={"kv": kv, "speculation": speculation}))


@pytest.fixture
def int2(host: EngineHost) -> Engine:
    """Two bits a channel but for sinks and recent tokens, with drafts."""
    speculation = Speculation(drafter="prompt_lookup", controllers=("fixed",))
    kv = KvCache(
        max_tokens=65_536,
        dtype="bfloat16",
        quantization="int2",
        rotation="hadamard",
        full_sinks=4,
        full_recent=64,
        prefix_cache=False,
    )
    runtime = SMALL.runtime.model_copy(update={"max_running_requests": 4})
    return host.use("int2", SMALL.model_copy(update={"kv": kv, "speculation": speculation, "runtime": runtime}))


def test_drafts_change_nothing_behind_a_window(int2: Engine) -> None:
    """Answers of 48 tokens outgrow the window behind each prompt; where they part, two tokens were nearly alike."""
    texts = [*VARIED[:4], LONG]
    alone = [int2.chat(text, "off", logprobs=True, top_logprobs=2) for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        drafted = [job.result() for job in [pool.submit(int2.chat, text, "on") for text in texts]]
    margins = [margin_where_they_part(one, other) for one, other in zip(alone, drafted, strict=True)]
    assert margins.count(None) >= 2
    assert all(margin is None or margin < 0.25 for margin in margins)
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in drafted) > 10


def test_drafts_change_nothing_on_packed_rows(int8: Engine) -> None:
    """Trees read packed rows, accepted branches move them, prompts are read in chunks and prefixes shared.

    The last bits of a float differ between passes of different width. Where a channel lies between two codes that
    turns it by a whole step, so that texts may part where the two best tokens are nearly alike, and only there. With
    fewer bits steps are so large that this says nothing.
    """
    texts = [*VARIED[:4], LONG]
    alone = [int8.chat(text, "off", logprobs=True, top_logprobs=2) for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        drafted = [job.result() for job in [pool.submit(int8.chat, text, "on") for text in texts]]
    margins = [margin_where_they_part(one, other) for one, other in zip(alone, drafted, strict=True)]
    assert margins.count(None) >= 3
    assert all(margin is None or margin < 0.25 for margin in margins)
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in drafted) > 20


def margin_where_they_part(plain: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Between the plain answer's two best log-probabilities at the first token that differs; None without one."""
    pairs = enumerate(zip(ids(plain), ids(other), strict=True))
    place = next((i for i, (one, two) in pairs if one != two), None)
    if place is None:
        return None
    best, second = plain["choices"][0]["logprobs"]["content"][place]["top_logprobs"]
    return float(best["logprob"] - second["logprob"])


@pytest.mark.parametrize(("name", "least"), [("int8", 1.9), ("int2", 6.0)])
def test_tokens_cost_what_the_pool_says_while_requests_run(
    name: str, least: float, request: pytest.FixtureRequest
) -> None:
    """Of int2 with what its requests have in full precision."""
    engine: Engine = request.getfixturevalue(name)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(engine.chat, text, "on", max_tokens=160, ignore_eos=True) for text in VARIED[:4]]
        while engine.running() < 4 and not all(job.done() for job in jobs):
            pass
        figures = kv_figures(engine)
        assert not all(job.done() for job in jobs)
        for job in jobs:
            assert len(ids(job.result())) == 160
    assert figures.token_bytes is not None
    assert BFLOAT16_BYTES / figures.token_bytes >= least
