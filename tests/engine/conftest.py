"""Engines by configuration, and the texts that all of them must give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.profiles.schema import KvCache, Profile, Runtime, Speculation, Target
from tests.engine.host import Engine, EngineHost, ids
from tests.engine.texts import VARIED

SMALL = Profile(
    # Short, so that a test can fill it.
    target=Target(context_length=2048),
    kv=KvCache(max_tokens=16384),
    # Short pieces, so that ordinary test prompts are prefilled in several.
    runtime=Runtime(chunked_prefill_tokens=256, max_running_requests=16),
)


Logits = Callable[[list[int], list[int]], Any]


def profile(**speculation: object) -> Profile:
    return SMALL.model_copy(update={"speculation": Speculation.model_validate(speculation)})


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    """Where engines run; see `EngineHost`."""
    running = EngineHost(tmp_path_factory.mktemp("engines"))
    yield running
    running.stop()


@pytest.fixture
def specserve(host: EngineHost) -> Engine:
    """Algorithm SPECSERVE with prompt lookup: the default profile."""
    return host.use("specserve", profile(algorithm="specserve", drafter="prompt_lookup", controllers=("fixed",)))


@pytest.fixture
def ngram(plain_ids: list[list[int]], host: EngineHost) -> Engine:
    """SGLang's own NGRAM."""
    return host.use("ngram", profile(algorithm="ngram"))


@pytest.fixture
def standalone(plain_ids: list[list[int]], host: EngineHost) -> Engine:
    """SGLang's own STANDALONE with a 26-layer draft and two branches a step."""
    draft = str(host.cut_draft)
    return host.use("standalone", profile(algorithm="standalone", draft_model=draft, topk=2, steps=3, draft_tokens=6))


@pytest.fixture(scope="session")
def plain_ids(host: EngineHost) -> list[list[int]]:
    """Greedy answers to `VARIED` without any drafts, 64 tokens each, four at a time."""
    engine = host.use("specserve", profile(algorithm="specserve", drafter="prompt_lookup", controllers=("fixed",)))
    answers = []
    for start in range(0, len(VARIED), 4):
        answers += engine.chats(VARIED[start : start + 4], ["off"], max_tokens=64)
    return [ids(answer) for answer in answers]


@pytest.fixture(scope="session")
def reference_logits(host: EngineHost) -> Logits:
    """transformers' logits behind a prompt and each token of an answer but the last: float [answer, vocabulary]."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(host.target, dtype=torch.float32)

    def logits(prompt: list[int], answer: list[int]) -> Any:
        with torch.no_grad():
            return model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]

    return logits


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/engine/" in item.path.as_posix():
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(600))
