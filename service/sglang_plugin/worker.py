"""The spec worker of algorithm SPECSERVE: drafts per request, ragged verification, per-request counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import torch
from sglang.srt.layers.logprob_processor import compute_spec_logprobs
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req, ScheduleBatch
from sglang.srt.managers.scheduler import GenerationBatchResult
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.runtime_context import get_spec
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker
from sglang.srt.speculative.ngram_info import NgramVerifyInput

from service.sglang_plugin.acceptance import Acceptance, Found
from service.sglang_plugin.grammar import obeying_grammar
from service.sglang_plugin.padded_input import PaddedVerifyInput
from service.sglang_plugin.penalties import penalize
from service.sglang_plugin.spec_config import read_config
from service.sglang_plugin.speculator import Speculator
from service.sglang_plugin.teaching import teach
from service.sglang_plugin.tokenizer import ModelTokenizer
from service.sglang_plugin.trace import StepTrace
from service.sglang_plugin.verify import adjust_logits
from service.sglang_plugin.verify_input import RaggedVerifyInput

THOUGHT_ENDS = ("</think>", "<|/think|>", "[/THINK]", "<|end_of_thought|>")
"""Tags that close a thought, where a tokenizer has them as one token."""


class SpecserveWorker(BaseSpecWorker):
    """Drafts between forward passes and verifies all requests' trees in one ragged target pass.

    A request told `off` contributes its one plain row, so that speculation is chosen per request inside one engine.
    """

    def __init__(self, server_args: ServerArgs, gpu_id: int, nccl_port: int, target_worker: TpModelWorker) -> None:
        super().__init__()
        del gpu_id, nccl_port
        self.server_args = server_args
        self._target_worker = target_worker
        self.width = get_spec().speculative_num_draft_tokens
        config = read_config(os.environ)
        self.device = target_worker.model_runner.device
        self.padded = padded(config.layout, self.device)
        self.acceptance = Acceptance(config.accept, config.accept_options, _ends(target_worker))
        self.speculator = Speculator(
            config,
            self.width - 1,
            tokenizer=ModelTokenizer.of(target_worker.tokenizer),
            model=server_args.model_path,
        )

    @property
    def draft_worker(self) -> None:
        """No draft model."""
        return None

    def alloc_memory_pool(self, **kwargs: Any) -> None:
        """The target's pools exist now; the sizes that SGLang passes are the target's."""
        del kwargs
        self.req_to_token_pool, self.token_to_kv_pool_allocator = self._target_worker.get_memory_pool()

    def clear_cache_pool(self) -> None:
        """Forget what drafters learnt; SGLang calls this when its caches are flushed."""
        self.speculator.clear()

    def forward_batch_generation(
        self,
        batch: ScheduleBatch,
        on_publish: Callable[[torch.Tensor], None] | None = None,
        pp_proxy_tensors: Any = None,
    ) -> GenerationBatchResult:
        """One scheduler step: a plain prefill, or draft and verify. Mutates the batch as SGLang's workers do."""
        if batch.forward_mode.is_decode():
            return self._decode(batch, on_publish)
        result = self._target_worker.forward_batch_generation(batch, pp_proxy_tensors=pp_proxy_tensors)
        lengths = batch.seq_lens.clone()
        tokens = torch.zeros(len(batch.reqs), self.width, dtype=torch.int32, device=self.device)
        tokens[:, 0] = result.next_token_ids
        one = torch.ones(len(batch.reqs), device=self.device)
        return self._result(result, result.next_token_ids, tokens, one, lengths, on_publish)

    def _decode(self, batch: ScheduleBatch, on_publish: Callable[[torch.Tensor], None] | None) -> GenerationBatchResult:
        self._refuse_unknown(batch.reqs)
        prepared = self.speculator.prepare(batch.reqs)
        trees, last_tokens = [draft.tree for draft in prepared.drafts], [_last_token(req) for req in batch.reqs]
        lengths = batch.seq_lens_cpu
        verify, mask = obeying_grammar(batch, RaggedVerifyInput(trees, last_tokens, lengths, self.width))
        for draft, tree in zip(prepared.drafts, verify.trees, strict=True):
            draft.tree = tree
        begin = time.perf_counter()
        result, slots = self._verify(batch, verify)
        logits = result.logits_output.next_token_logits
        penalize(logits, batch.reqs, verify)
        adjust_logits(logits, batch.sampling_info, verify.rows, mask)
        found = self.acceptance.found(batch.reqs, verify, logits, batch.sampling_info)
        tokens, accept_lens = self._commit(batch, verify, found, result.logits_output, slots)
        verify_s = time.perf_counter() - begin
        batch.forward_mode = ForwardMode.DECODE
        self.speculator.finish(batch.reqs, prepared, found, context=int(lengths.sum()), verify_s=verify_s)
        teach(self.speculator.book, batch.reqs, verify, logits, found)
        result = self._result(result, tokens.flatten(), tokens, accept_lens, batch.seq_lens + accept_lens, on_publish)
        result.cap_lens = torch.tensor([len(tree) for tree in verify.trees], dtype=torch.int32)
        result.specserve_steps = [
            StepTrace.of(draft.tree, path, draft.plan.drafter, draft.seconds, verify_s)
            for draft, (path, _) in zip(prepared.drafts, found, strict=True)
        ]
        return result

    def _refuse_unknown(self, reqs: Sequence[Req]) -> None:
        """End requests that name a drafter which is not here. Mutates them."""
        for req in reqs:
            reason = self.speculator.unknown_drafter(req)
            if reason is not None and req.to_finish is None:
                req.to_finish = FINISH_ABORT(reason, HTTPStatus.BAD_REQUEST, "BadRequestError")

    def _verify(self, batch: ScheduleBatch, verify: RaggedVerifyInput) -> tuple[GenerationBatchResult, torch.Tensor]:
        """The target's pass over the trees: its result with the logits of their rows, and the rows' KV slots, int64.

        Mutates the batch. The slots are the ones that SGLang reserved behind each request's text.
        """
        table, steps = batch.req_to_token_pool.req_to_token, torch.arange(self.width, device=self.device)
        reserved = table[batch.req_pool_indices[:, None], batch.seq_lens[:, None] + steps].view(-1).long()
        slots = reserved[verify.places]
        passed = PaddedVerifyInput(verify, batch.seq_lens_cpu.tolist(), self.device) if self.padded else verify
        batch.spec_info = passed
        batch.forward_mode = ForwardMode.TARGET_VERIFY
        batch.input_ids = passed.draft_token
        batch.out_cache_loc = reserved if self.padded else slots
        result = self._target_worker.forward_batch_generation(batch, is_verify=True)
        if self.padded:
            output = result.logits_output
            output.next_token_logits = output.next_token_logits[passed.real]
        return result, slots

    def _commit(
        self,
        batch: ScheduleBatch,
        verify: RaggedVerifyInput,
        found: Sequence[Found],
        logits_output: Any,
        slots: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Move KV rows and compute logprobs of the accepted; tokens int32 [batch, width] and lengths [batch]."""
        tokens = torch.zeros(len(batch.reqs), self.width, dtype=torch.int32)
        accept_index = torch.zeros(len(batch.reqs), self.width, dtype=torch.int64)
        predicted = torch.zeros(len(verify.rows), dtype=torch.int32)
        sources, targets = [], []
        for i, ((path, emitted), start) in enumerate(zip(found, verify.starts, strict=True)):
            tokens[i, : len(emitted)] = torch.tensor(emitted, dtype=torch.int32)
            rows = [start, *(start + 1 + node for node in path)]
            accept_index[i, : len(rows)] = torch.tensor(rows)
            predicted[rows] = tokens[i, : len(rows)]
            sources += [row for step, row in enumerate(rows) if row != start + step]
            targets += [start + step for step, row in enumerate(rows) if row != start + step]
        if sources:
            self.token_to_kv_pool_allocator.get_kvcache().move_kv_cache(slots[targets], slots[sources])
        accept_lens = [len(emitted) for _, emitted in found]
        if batch.return_logprob:
            index = accept_index[:, : max(accept_lens)]
            predicted, index = predicted.to(self.device), index.to(self.device)
            compute_spec_logprobs(batch, logits_output, predicted, accept_index=index)
        return tokens.to(self.device), torch.tensor(accept_lens, dtype=torch.int32, device=self.device)

    def _result(
        self,
        result: GenerationBatchResult,
        next_token_ids: torch.Tensor,
        tokens: torch.Tensor,
        accept_lens: torch.Tensor,
        new_seq_lens: torch.Tensor,
        on_publish: Callable[[torch.Tensor], None] | None,
    ) -> GenerationBatchResult:
        if on_publish is not None:
            on_publish(new_seq_lens)
        carried = NgramVerifyInput(
            draft_token_num=self.width,
            new_seq_lens=new_seq_lens,
            accept_tokens=tokens.flatten(),
            accept_lens=accept_lens.int(),
        )
        return GenerationBatchResult(
            logits_output=result.logits_output,
            next_token_ids=next_token_ids,
            can_run_cuda_graph=result.can_run_cuda_graph,
            accept_lens=accept_lens.int(),
            new_seq_lens=new_seq_lens,
            next_draft_input=carried,
            speculative_num_draft_tokens=self.width,
        )


def padded(layout: str, device: str) -> bool:
    """Whether verify batches are padded. Only our CPU attention reads ragged ones: raises ValueError for others."""
    if layout == "ragged" and device != "cpu":
        raise ValueError(f"layout ragged runs on a CPU only: set auto or padded on {device}")
    return layout == "padded" or (layout == "auto" and device != "cpu")


def _last_token(req: Req) -> int:
    """The last committed token, whose KV row the coming pass writes."""
    return req.output_ids[-1] if req.output_ids else req.origin_input_ids[-1]


def _ends(worker: TpModelWorker) -> set[int]:
    """Tokens that end a text or a thought."""
    config, tokenizer = worker.model_config, ModelTokenizer.of(worker.tokenizer)
    ends = set(config.hf_eos_token_id or ())
    if tokenizer is not None:
        closing = [tokenizer.encode(tag) for tag in THOUGHT_ENDS]
        ends |= {tokens[0] for tokens in closing if len(tokens) == 1}
    return ends
