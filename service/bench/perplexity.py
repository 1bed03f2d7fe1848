"""`specserve bench perplexity`: how much worse a model reads text when its KV cache is quantized."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.bench.client import Client, connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.errors import ConfigError, EngineError
from service.profiles.schema import KvCache, Profile, Speculation

REFERENCE = "bfloat16"
AT_ONCE = 2
"""Pieces in flight: prompts are read one after the other anyway."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One cache's text: predicted tokens and the sum of their log-probabilities, nats."""

    cache: str
    tokens: int
    logprob: float

    @property
    def perplexity(self) -> float:
        """Of the tokens behind the first one of each piece."""
        return math.exp(-self.logprob / self.tokens)


@dataclass(frozen=True, slots=True)
class Span:
    """Which text is read: `tokens` tokens behind the first `skip`, in pieces of `piece`."""

    tokens: int
    skip: int
    piece: int


def cache_of(name: str, base: KvCache) -> KvCache:
    """`bfloat16`, `auto` or another dtype, or a quantization, its rotation and its window: `int4`, `int2:oscar:16+128`.

    The window's two numbers are sinks and recent tokens in full precision, as bfloat16. `int2:oscar` takes the
    calibration of `base`, and ConfigError is raised where that has none.

    Raises ValidationError for a name that is neither.
    """
    quantization, _, rest = name.partition(":")
    rotation, _, window = rest.partition(":")
    sinks, _, recent = window.partition("+")
    chosen: dict[str, str | bool | None] = {"full_sinks": sinks or "0", "full_recent": recent or "0"}
    if quantization.startswith("int"):
        chosen |= {"dtype": "auto", "quantization": quantization, "rotation": rotation or "none"}
    else:
        chosen |= {"dtype": name, "quantization": "none", "rotation": "none", "group_size": None}
    if window:
        chosen |= {"dtype": REFERENCE, "prefix_cache": False}
    if rotation == "oscar" and base.calibration is None:
        raise ConfigError([f"--cache {name}: name the file of `specserve calibrate kv` as the pool's kv.calibration"])
    chosen["calibration"] = base.calibration if rotation == "oscar" else None
    return KvCache.model_validate(base.model_dump() | chosen)


async def measure_perplexity(
    workshop: Workshop,
    base: Profile,
    caches: Sequence[str],
    prompts: Sequence[Prompt],
    span: Span,
    say: Callable[[str], None],
) -> list[Reading]:
    """One engine after the other reads the same tokens of the prompts.

    Prompts are read in chunks, of which each sees the ones before as they are stored. Raises ConfigError when there is
    too little text.
    """
    readings = []
    pieces: list[list[int]] = []
    for name in caches:
        say(f"{name}: starting an engine")
        plain = {"speculation": Speculation(algorithm="none"), "kv": cache_of(name, base.kv)}
        async with (
            workshop.serving(f"perplexity-{name.replace(':', '-')}", base.model_copy(update=plain)) as url,
            connected(url, "engine", SERVED_NAME) as client,
        ):
            pieces = pieces or await _pieces(client, prompts, span)
            gate = asyncio.Semaphore(AT_ONCE)
            sums = await asyncio.gather(*(_read(client, gate, text) for text in pieces))
        readings.append(Reading(name, sum(len(text) - 1 for text in pieces), math.fsum(sums)))
        say(f"{name}: perplexity {readings[-1].perplexity:.4f}")
    return readings


async def _pieces(client: Client, prompts: Sequence[Prompt], span: Span) -> list[list[int]]:
    text = "\n\n".join(prompt.text for prompt in prompts)
    body = {"model": SERVED_NAME, "prompt": text, "add_special_tokens": False}
    found: list[int] = (await client.post("/tokenize", body))["tokens"]
    end = span.skip + span.tokens
    if len(found) < end:
        raise ConfigError(
            [f"--tokens: the prompts hold {len(found)} tokens, not {end}; ask for fewer or give more text"]
        )
    return [found[start : start + span.piece] for start in range(span.skip, end - span.piece + 1, span.piece)]


async def _read(client: Client, gate: asyncio.Semaphore, text: Sequence[int]) -> float:
    """Sum of the log-probabilities of all tokens but the first."""
    sampling = {"max_new_tokens": 1, "temperature": 0}
    body = {"input_ids": list(text), "sampling_params": sampling, "return_logprob": True, "logprob_start_len": 0}
    async with gate:
        answer = await client.post("/generate", body)
    logprobs = [entry[0] for entry in answer["meta_info"]["input_token_logprobs"]]
    if len(logprobs) != len(text) or any(value is None for value in logprobs[1:]):
        raise EngineError(f"the engine gave {len(logprobs)} log-probabilities for {len(text)} tokens")
    return math.fsum(logprobs[1:])


def perplexity_rows(readings: Sequence[Reading], slots: Mapping[str, float]) -> list[dict[str, Any]]:
    """One row a cache, with the bytes of a token in it; ratios are against `bfloat16`, None where that is unknown."""
    known = {reading.cache: reading for reading in readings}
    reference = known.get(REFERENCE)
    return [
        {
            "cache": reading.cache,
            "tokens": reading.tokens,
            "perplexity": reading.perplexity,
            "perplexity_ratio": reading.perplexity / reference.perplexity if reference else None,
            "bytes_per_token": slots[reading.cache],
            "bytes_ratio": slots[REFERENCE] / slots[reading.cache] if REFERENCE in slots else None,
        }
        for reading in readings
    ]
