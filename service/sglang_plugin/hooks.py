"""Every place where the plugin enters SGLang 0.5.23, in one list."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES, DRAFT_ATTENTION_BACKEND_CHOICES
from sglang.srt.layers.attention.attention_registry import register_attention_backend
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from sglang.srt.utils import is_cpu

from service.sglang_plugin import accounting, capacity, teacher
from service.sglang_plugin.eviction import config as eviction_config
from service.sglang_plugin.quantization import config as quantization_config
from service.sglang_plugin.reporting import abort_children, numbered_child_rid, spec_tokens_details
from service.sglang_plugin.request_extras import pass_tools
from service.sglang_plugin.selection import config as selection_config

if TYPE_CHECKING:
    from service.sglang_plugin.eviction.evictor import Evictor
    from service.sglang_plugin.selection.reader import PageReader

BACKEND_NAME = "specserve_cpu"


def register_all() -> None:
    """Register what the device needs. Mutates SGLang's registries."""
    _register_reporting()
    _register_accounting()
    _register_capacity()
    _register_algorithm()
    _register_teacher()
    if is_cpu():
        _register_cpu()


def _register_reporting() -> None:
    """In the HTTP server: figures that the worker really counted, and request ids that abort reaches."""
    HookRegistry.register(
        "sglang.srt.entrypoints.openai.utils.spec_tokens_details_from_meta_info", spec_tokens_details, HookType.REPLACE
    )
    HookRegistry.register(
        "sglang.srt.entrypoints.openai.protocol.ChatCompletionRequest.to_sampling_params", pass_tools, HookType.AFTER
    )
    HookRegistry.register(
        "sglang.srt.managers.io_struct.GenerateReqInput.regenerate_rid", numbered_child_rid, HookType.AROUND
    )
    HookRegistry.register(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager.abort_request", abort_children, HookType.AROUND
    )


def _register_accounting() -> None:
    """In the scheduler: what every decode step proposed and got accepted."""
    processor = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"
    ngram = "sglang.srt.speculative.ngram_worker.NGRAMWorker"
    HookRegistry.register(f"{processor}._resolve_spec_v2_tokens", accounting.trace_steps, HookType.AFTER)
    HookRegistry.register(f"{ngram}._prepare_draft_tokens", accounting.count_real_nodes, HookType.AFTER)
    HookRegistry.register(f"{ngram}.forward_batch_generation", accounting.report_real_nodes, HookType.AFTER)


def _register_capacity() -> None:
    """In the scheduler: rows wide enough for the drafts of a request that fills its context."""
    HookRegistry.register(
        "sglang.srt.mem_cache.allocation_sizing.get_req_to_token_extra_context_len",
        capacity.extra_row_slots,
        HookType.AROUND,
    )


def _register_algorithm() -> None:
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    from service.sglang_plugin.algorithm import SpecserveAlgorithm, worker_class

    SpeculativeAlgorithm.register("SPECSERVE", supports_overlap=False, spec_class=SpecserveAlgorithm)(worker_class)


def _register_teacher() -> None:
    """In the scheduler of a benchmark's engine: answers that requests bring with them."""
    if teacher.is_teaching(os.environ):
        HookRegistry.register(
            "sglang.srt.managers.tp_worker.TpModelWorker.forward_batch_generation",
            teacher.force_tokens,
            HookType.AFTER,
        )


def _register_cpu() -> None:
    for choices in (ATTENTION_BACKEND_CHOICES, DRAFT_ATTENTION_BACKEND_CHOICES):
        if BACKEND_NAME not in choices:
            choices.append(BACKEND_NAME)

    evictor, reader = _register_eviction(), _register_selection()
    _register_quantization()

    @register_attention_backend(BACKEND_NAME)
    def create(runner):  # type: ignore[no-untyped-def]
        from service.sglang_plugin.attention import CpuTreeAttention

        return CpuTreeAttention(runner, evictor, reader)

    from service.sglang_plugin import draft_attention, sampling, seeds, verify
    from service.sglang_plugin.fast import install

    install()
    factory = "sglang.srt.speculative.draft_utils.DraftBackendFactory."
    around = {
        factory + "create_decode_backend": draft_attention.create_decode_backend,
        factory + "create_draft_extend_backend": draft_attention.create_draft_extend_backend,
        "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch": sampling.sample_filtered,
    }
    for target, hook in around.items():
        HookRegistry.register(target, hook, HookType.AROUND)
    HookRegistry.register("sglang.srt.layers.sampler.multinomial_with_seed", sampling.draw_seeded, HookType.REPLACE)
    HookRegistry.register("sglang.srt.speculative.eagle_utils.eagle_sample", verify.sample_tree, HookType.REPLACE)
    HookRegistry.register(
        "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.from_schedule_batch",
        seeds.add_seeds,
        HookType.AFTER,
    )
    HookRegistry.register(
        "sglang.srt.distributed.bootstrap._init_cpu_threads_env", _no_thread_binding, HookType.REPLACE
    )


def _register_eviction() -> Evictor | None:
    """In the scheduler of a pool with an eviction policy: kept tokens, and slots that are free already."""
    config = eviction_config.read_config(os.environ)
    if config.policy == "none":
        return None
    from service.sglang_plugin.eviction.evictor import Evictor
    from service.sglang_plugin.eviction.install import install

    evictor = Evictor(config)
    install(evictor)
    return evictor


def _register_selection() -> PageReader | None:
    """In the scheduler of a pool with a page selector: pages by request."""
    config = selection_config.read_config(os.environ)
    if config.selector == "none":
        return None
    from service.sglang_plugin.selection.install import install
    from service.sglang_plugin.selection.reader import PageReader

    reader = PageReader(config)
    install(reader)
    return reader


def _register_quantization() -> None:
    """In the scheduler of a pool that quantizes: packed keys and values."""
    config = quantization_config.read_config(os.environ)
    if config.bits:
        from service.sglang_plugin.quantization.install import install

        install(config)


def _no_thread_binding(**kwargs: object) -> None:
    """SGLang pins its threads to cores, so one busy neighbour stalls every step; the scheduler does better."""
    del kwargs
