"""Decode steps of long texts on a real engine, with the whole KV cache and under the engine's policy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from service.bench.client import Client, connected
from service.bench.kv_cost import Contest, Steps
from service.bench.servers import SERVED_NAME, Workshop
from service.kvcache.answer_keys import HELD_KEY, READ_KEY, last_value
from service.kvcache.selection import selector_registry
from service.profiles.facts import ModelShape
from service.profiles.kv_methods import kv_policy
from service.profiles.schema import KvCache, Profile, Speculation

TOKENS = 44
"""Of each timed answer: one evicting step comes in, with the usual interval."""
_UNSETTLED_STEPS = 5
_FLOAT_BYTES = 4


async def measure_contest(
    workshop: Workshop,
    profile: Profile,
    shape: ModelShape,
    text: Callable[[Client], Awaitable[list[int]]],
    contexts: Sequence[int],
    say: Callable[[str], None],
) -> Contest:
    """One engine; at each context a request with the whole cache, then one under the policy.

    The first fills an empty pool, so that its KV is one contiguous run, which the attention reads without a copy: the
    best that a whole cache can do. The second finds the prompt in the prefix cache and copies what it keeps to
    contiguous slots of its own; policies that must see the whole prompt read it again, and hold what they keep
    scattered. Decode steps go through the same attention code.
    """
    plain = profile.model_copy(update={"speculation": Speculation(algorithm="none")})
    policy = kv_policy(profile.kv) or "none"
    whole: list[Steps] = []
    own: list[Steps] = []
    async with (
        workshop.serving(f"kv-cost-{policy.partition(':')[0]}", plain) as url,
        connected(url, "engine", SERVED_NAME) as client,
    ):
        ids = await text(client)
        identical = await _is_identical(client, ids, _room(profile.kv))
        for context in contexts:
            await client.flush_cache()
            for steps, wish in ((whole, "full"), (own, None)):
                steps.append(await _timed(client, ids[:context], wish, profile.kv, shape))
            say(f"{policy}, {context} tokens: {whole[-1].typical_ms:.1f} ms whole, {own[-1].typical_ms:.1f} ms")
    return Contest(policy, tuple(whole), tuple(own), identical)


def _room(kv: KvCache) -> int:
    """Tokens of the longest text that the policy leaves whole."""
    return kv.budget if kv.selector == "none" else kv.selector_tokens


async def _is_identical(client: Client, ids: Sequence[int], room: int) -> bool:
    """Whether a text that just fits gets the same tokens and log-probabilities under the policy.

    Its last token is never read back, so one more than fits may be asked for: then the policy watches the request.
    """
    answers = []
    for wish in ("full", None):
        await client.flush_cache()
        body = _body(ids[: room - 16], 17, wish) | {"return_logprob": True}
        meta = (await client.post("/generate", body))["meta_info"]
        answers.append([entry[:2] for entry in meta["output_token_logprobs"]])
    return bool(answers[0] == answers[1])


async def _timed(client: Client, prompt: Sequence[int], wish: str | None, kv: KvCache, shape: ModelShape) -> Steps:
    arrivals: list[float] = []
    meta: dict[str, Any] = {}
    async for event in client.events("/generate", _body(prompt, TOKENS, wish) | {"stream": True}):
        arrivals.append(time.perf_counter())
        # The engine tells what was held and read with the last token.
        meta |= {key: value for key, value in event["meta_info"].items() if value is not None}
    gaps = tuple(1000 * (b - a) for a, b in pairwise(arrivals))[_UNSETTLED_STEPS:]
    held, read = last_value(meta, HELD_KEY), last_value(meta, READ_KEY)
    length = len(prompt) + TOKENS - 1
    tokens = length * (1.0 if read is None else read) if held is None else float(held)
    return Steps(
        len(prompt), gaps, tokens, 0 if read is None else summary_bytes(kv, shape) * (length // kv.selector_page)
    )


def summary_bytes(kv: KvCache, shape: ModelShape) -> int:
    """A page's summaries in all layers, bytes, as the selector makes them."""
    selector = selector_registry().load(kv.selector)(**kv.selector_options)
    return shape.layers * shape.kv_heads * _FLOAT_BYTES * selector.summary_size(kv.selector_page, shape.head_dim)


def _body(prompt: Sequence[int], tokens: int, wish: str | None) -> dict[str, Any]:
    custom = {} if wish is None else {"custom_params": {"specserve": {"kv": wish}}}
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True, **custom}
    return {"input_ids": list(prompt), "sampling_params": sampling}
