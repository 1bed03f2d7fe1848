"""The speculative algorithm `SPECSERVE` as SGLang sees it."""

from __future__ import annotations

from typing import Any

from sglang.srt.speculative.spec_registry import CustomSpecAlgo


class SpecserveAlgorithm(CustomSpecAlgo):
    """Registered under `--speculative-algorithm SPECSERVE`; behaves like NGRAM where SGLang asks for a family.

    Like NGRAM it has no draft KV cache and carries only tokens between steps. It runs without overlap scheduling:
    a draft needs the tokens of the step before.
    """

    def is_ngram(self) -> bool:
        """Take SGLang's branches for drafts without a draft model."""
        return True

    def has_draft_kv(self) -> bool:
        """No draft model, no draft KV cache."""
        return False

    def need_topk(self) -> bool:
        """No draft scores are kept between steps."""
        return False

    def carries_draft_hidden_states(self) -> bool:
        """No hidden states are kept between steps."""
        return False

    def create_future_map(
        self,
        device: Any,
        req_to_token_pool: Any,
        needs_cpu_seq_lens: bool = True,
        needs_confidence_relay: bool = False,
    ) -> Any:
        """As SGLang's own algorithms do; `CustomSpecAlgo` lacks it."""
        from sglang.srt.managers.overlap_utils import FutureMap

        return FutureMap(device, self, req_to_token_pool, needs_cpu_seq_lens, needs_confidence_relay)

    def handle_server_args(self, server_args: Any) -> None:
        """Fill what SGLang needs and the profile left open. Mutates `server_args`."""
        server_args.disable_overlap_schedule = True
        if server_args.max_running_requests is None:
            server_args.max_running_requests = 48
        if server_args.speculative_num_draft_tokens is None:
            raise ValueError("algorithm SPECSERVE needs --speculative-num-draft-tokens; `specserve check` prints it")
        server_args.speculative_eagle_topk = 1
        server_args.speculative_num_steps = server_args.speculative_num_draft_tokens - 1


def worker_class(server_args: Any) -> type:
    """The worker factory that SGLang calls when it builds the scheduler."""
    del server_args
    from service.sglang_plugin.worker import SpecserveWorker

    return SpecserveWorker
