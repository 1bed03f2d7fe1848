"""What SGLang 0.5.23 asks of each speculative algorithm that it ships, and what ours asks.

Read in its source, `sglang/srt`: the names in `speculative/spec_info.py` (`SpeculativeAlgorithm`, which resolves
NEXTN to EAGLE) and `speculative/spec_registry.py`; start-up checks in `arg_groups/speculative_hook.py` (one
`_handle_*` function an algorithm), `arg_groups/validation_hook.py` (pipeline stages),
`speculative/adaptive_spec_params.py` (adaptive steps) and `arg_groups/lora_hook.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from service.profiles.schema import Algorithm

Source = Literal["nothing", "text", "model", "heads", "adapter"]
"""Where drafts come from: the text alone; a draft model; a draft model or heads in the target; a LoRA of the target."""
Shape = Literal["nothing", "text", "steps", "block"]
"""How a draft grows: as the drafter likes; `steps` times `topk` branches; one block, a chain, in a single pass."""
Parallel = Literal["no", "yes", "with dp lm head"]


@dataclass(frozen=True)
class Traits:
    """One algorithm. `sglang` is its value of `--speculative-algorithm`, None without speculation.

    `attention_dp` says whether attention groups may differ in their requests, `pipeline` whether a colocated engine
    can have several stages, `adaptive` whether SGLang can choose the steps, `logit_processors` whether custom ones
    reach the verify pass, `mixed_chunk` whether prefill and decoding may share a step, `lora` whether requests may
    name adapters.
    """

    sglang: str | None
    source: Source
    shape: Shape
    cpu: bool = False
    tp: bool = True
    attention_dp: Parallel = "yes"
    pipeline: bool = False
    adaptive: bool = False
    logit_processors: bool = False
    mixed_chunk: bool = False
    lora: bool = False


TRAITS: dict[Algorithm, Traits] = {
    "none": Traits(
        None, "nothing", "nothing", cpu=True, pipeline=True, logit_processors=True, mixed_chunk=True, lora=True
    ),
    # Ours; service/sglang_plugin.
    "specserve": Traits("SPECSERVE", "text", "text", cpu=True, tp=False, attention_dp="no"),
    # speculative/ngram_worker.py: a trie that all requests share; trees of up to ten branches.
    "ngram": Traits("NGRAM", "text", "text", cpu=True, attention_dp="no", lora=True),
    # speculative/standalone_worker_v2.py: a whole model of the same vocabulary.
    "standalone": Traits("STANDALONE", "model", "steps", cpu=True, attention_dp="no"),
    # speculative/eagle_worker_v2.py: one layer that reads the target's hidden states.
    "eagle": Traits("EAGLE", "model", "steps", cpu=True, pipeline=True, adaptive=True, mixed_chunk=True, lora=True),
    "eagle3": Traits("EAGLE3", "model", "steps", cpu=True, adaptive=True, mixed_chunk=True, lora=True),
    # EAGLE with multi-token-prediction heads; speculative/multi_layer_eagle_worker_v2.py for several layers of them.
    "nextn": Traits("NEXTN", "heads", "steps", cpu=True, pipeline=True, adaptive=True, mixed_chunk=True, lora=True),
    # speculative/frozen_kv_mtp_worker_v2.py: Gemma 4's assistant, which reads the target's KV cache and writes none.
    "frozen_kv_mtp": Traits("FROZEN_KV_MTP", "model", "steps"),
    # speculative/dflash_worker_v2.py: a block-diffusion drafter.
    "dflash": Traits(
        "DFLASH",
        "model",
        "block",
        attention_dp="with dp lm head",
        logit_processors=True,
        mixed_chunk=True,
        lora=True,
    ),
    # speculative/dspark_components: a block drafter with a Markov head and confidences.
    "dspark": Traits(
        "DSPARK",
        "heads",
        "block",
        attention_dp="with dp lm head",
        logit_processors=True,
        mixed_chunk=True,
        lora=True,
    ),
    # speculative/uno_worker_v2.py: the target drafts for itself under a LoRA.
    "uno": Traits("UNO", "adapter", "block", tp=False, attention_dp="no"),
}


def names_where(fits: Callable[[Traits], bool]) -> tuple[Algorithm, ...]:
    """The algorithms whose traits fit, in the order of the table."""
    return tuple(name for name, traits in TRAITS.items() if fits(traits))


def listed(names: tuple[str, ...]) -> str:
    """The names as words: `a`, `a or b`, `a, b or c`. Raises IndexError for no names."""
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
