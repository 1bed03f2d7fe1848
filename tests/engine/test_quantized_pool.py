"""KV pools of packed codes on real engines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.profiles.schema import KvCache, Profile, Speculation
from tests.engine.conftest import SMALL
from tests.engine.host import Engine, EngineHost, details, ids
from tests.engine.test_eviction import kv_figures
from tests.engine.texts import LONG, REPEAT, VARIED

BFLOAT16_BYTES = 2 * 30 * 3 * 64 * 2
"""Keys and values of one token of SmolLM2-135M: 30 layers, 3 KV heads, 64 channels."""


def quantized(quantization: str, rotation: str) -> Profile:
    speculation = Speculation(drafter="prompt_lookup", controllers=("fixed",))
    kv = KvCache.model_validate({"max_tokens": 8192, "quantization": quantization, "rotation": rotation})
    return SMALL.model_copy(update={"kv": kv, "speculation": speculation})


@pytest.fixture
def int4(host: EngineHost) -> Engine:
    return host.use("int4", quantized("int4", "hadamard"))


def test_drafts_change_nothing_on_packed_rows(int4: Engine) -> None:
    """Trees read packed rows, accepted branches move them, prompts are read in chunks and prefixes shared."""
    texts = [*VARIED[:4], LONG]
    alone = [ids(int4.chat(text, "off")) for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        drafted = [job.result() for job in [pool.submit(int4.chat, text, "on") for text in texts]]
    assert [ids(answer) for answer in drafted] == alone
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in drafted) > 20


def test_tokens_cost_what_the_pool_says_while_requests_run(int4: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(int4.chat, text, "on", max_tokens=160, ignore_eos=True) for text in VARIED[:4]]
        while int4.running() < 4 and not all(job.done() for job in jobs):
            pass
        figures = kv_figures(int4)
        assert not all(job.done() for job in jobs)
        for job in jobs:
            assert len(ids(job.result())) == 160
    assert figures.token_bytes is not None
    assert BFLOAT16_BYTES / figures.token_bytes >= 3.5


@pytest.mark.parametrize(("quantization", "ratio"), [("int8", 1.9)])
def test_eight_bits_keep_the_text_of_a_repetition(host: EngineHost, quantization: str, ratio: float) -> None:
    engine = host.use(quantization, quantized(quantization, "none"))
    answer = engine.chat(REPEAT, "on")
    assert "quick brown fox jumps over the lazy dog" in answer["choices"][0]["message"]["content"]
    figures = kv_figures(engine)
    assert figures.token_bytes is not None
    assert BFLOAT16_BYTES / figures.token_bytes >= ratio
