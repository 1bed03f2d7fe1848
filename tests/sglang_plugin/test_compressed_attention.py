"""The attention backend with every policy and selector: a text read whole in pieces, then decoded.

Under a policy each step equals dense attention masked to what the request holds; with room for all of the text every
output is the plain one, bit for bit. Freed slots hold NaN.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from service.kvcache.eviction import EVICTORS
from service.kvcache.selection import SELECTORS
from service.sglang_plugin.attention import CpuTreeAttention
from service.sglang_plugin.eviction.config import EvictionConfig
from service.sglang_plugin.eviction.evictor import Evictor
from service.sglang_plugin.eviction.poison import poison_freed
from service.sglang_plugin.selection.config import SelectionConfig
from service.sglang_plugin.selection.reader import PageReader

LAYERS, HEADS, KV_HEADS, DIM, SLOTS = 2, 6, 2, 8, 400
ROW, PROMPT, PIECE, STEPS, SCALE = 1, 90, 50, 40, 0.35
POLICIES = [name for name in EVICTORS if name != "none"]
READERS = [name for name in SELECTORS if name != "none"]


class Pool:
    """SGLang's KV pool and allocator in one."""

    start_layer, layer_num = 0, LAYERS

    def __init__(self) -> None:
        self.keys, self.values = torch.full((2, LAYERS, SLOTS, KV_HEADS, DIM), float("nan"))
        self.unused = torch.randperm(SLOTS - 1) + 1

    def get_key_buffer(self, layer: int) -> torch.Tensor:
        return self.keys[layer]

    def get_value_buffer(self, layer: int) -> torch.Tensor:
        return self.values[layer]

    def set_kv_buffer(self, layer: Any, where: Any, k: torch.Tensor, v: torch.Tensor) -> None:
        self.keys[layer.layer_id][where.loc.long()] = k.view(-1, KV_HEADS, DIM)
        self.values[layer.layer_id][where.loc.long()] = v.view(-1, KV_HEADS, DIM)

    def get_kvcache(self) -> Pool:
        return self

    def alloc(self, count: int) -> torch.Tensor:
        taken, self.unused = self.unused[:count], self.unused[count:]
        return taken

    def free(self, slots: torch.Tensor) -> None:
        poison_freed(self, slots)
        self.unused = torch.cat((self.unused, slots))


class Text:
    """One request in an engine of two layers, whose queries, keys and values come from a seed."""

    def __init__(self, evictor: Evictor | None = None, reader: PageReader | None = None) -> None:
        torch.manual_seed(0)
        self.pool, self.rows = Pool(), torch.zeros(4, 200, dtype=torch.int32)
        runner: Any = SimpleNamespace(
            device="cpu",
            model_config=SimpleNamespace(num_hidden_layers=LAYERS),
            req_to_token_pool=SimpleNamespace(req_to_token=self.rows),
            token_to_kv_pool=self.pool,
            forward=self._ahead,
        )
        self.evictor, self.backend = evictor, CpuTreeAttention(runner, evictor, reader)
        length = PROMPT + STEPS
        self.queries = 3 * torch.randn(LAYERS, length, HEADS, DIM)
        self.keys, self.values = torch.randn(2, LAYERS, length, KV_HEADS, DIM)
        self.req: Any = SimpleNamespace(
            origin_input_ids=list(range(PROMPT)),
            output_ids=[],
            full_untruncated_fill_ids=list(range(PROMPT)),
            sampling_params=SimpleNamespace(max_new_tokens=STEPS, custom_params=None),
            beam_group=None,
            tokenizer=None,
            kv=SimpleNamespace(req_pool_idx=ROW, holds_kv=True, kv_committed_len=0, cache_protected_len=0),
            finished=lambda: False,
        )
        for helper in (evictor, reader):
            if helper is not None:
                helper.enter(None, SimpleNamespace(reqs=[self.req]))  # type: ignore[arg-type]

    def read(self, begin: int, end: int) -> list[torch.Tensor]:
        """One forward pass over these tokens, then the policy's turn: each layer's output [tokens, heads * dim]."""
        slots = self.pool.alloc(end - begin)
        self.rows[ROW, begin:end] = slots.int()
        one = end - begin == 1
        batch = SimpleNamespace(
            forward_mode=ForwardMode.DECODE if one else ForwardMode.EXTEND,
            req_pool_indices=torch.tensor([ROW]),
            seq_lens=torch.tensor([end]),
            extend_seq_lens=torch.tensor([end - begin]),
            out_cache_loc=slots,
        )
        outputs = self._forward(batch, self.queries[:, begin:end], self.keys[:, begin:end], self.values[:, begin:end])
        self.req.kv.kv_committed_len = end
        self.req.output_ids = [7] * max(0, end - PROMPT + 1)
        return outputs

    def choose(self) -> None:
        if self.evictor is not None:
            cache = SimpleNamespace(
                token_to_kv_pool_allocator=self.pool, req_to_token_pool=SimpleNamespace(req_to_token=self.rows)
            )
            processor = SimpleNamespace(tree_cache=cache)
            self.evictor.choose(None, processor, SimpleNamespace(reqs=[self.req]))  # type: ignore[arg-type]

    def _forward(self, batch: Any, *rows: torch.Tensor) -> list[torch.Tensor]:
        self.backend.init_forward_metadata(batch)
        outputs = []
        for number, (q, k, v) in enumerate(zip(*rows, strict=True)):
            layer = SimpleNamespace(
                layer_id=number, tp_q_head_num=HEADS, qk_head_dim=DIM, v_head_dim=DIM, scaling=SCALE
            )
            forward = self.backend.forward_decode if batch.forward_mode.is_decode() else self.backend.forward_extend
            outputs.append(forward(q.flatten(1), k.flatten(1), v.flatten(1), layer, batch))
        return outputs

    def _ahead(self, batch: Any) -> None:
        count = batch.extend_num_tokens
        heads = (HEADS, KV_HEADS, KV_HEADS)
        self._forward(batch, *(torch.randn(LAYERS, count, n, DIM) for n in heads))

    def dense(self, layer: int, position: int, held: torch.Tensor) -> torch.Tensor:
        """Softmax written out over all tokens so far, with those that are not held masked: [1, heads * dim]."""
        mask = torch.full((position + 1,), float("-inf"))
        mask[held] = 0
        group = HEADS // KV_HEADS
        keys, values = (rows[layer, : position + 1].repeat_interleave(group, 1) for rows in (self.keys, self.values))
        weights = (torch.einsum("hd,thd->ht", self.queries[layer, position], keys) * SCALE + mask).softmax(-1)
        return torch.einsum("ht,thd->hd", weights, values).flatten()[None]


def evictor(policy: str, budget: int) -> Evictor:
    return Evictor(EvictionConfig(policy, budget, 8, {"sinks": 2, "recent": 8}))


def outputs(text: Text) -> list[torch.Tensor]:
    """All outputs of a whole life."""
    found = []
    pieces = [(0, PIECE), (PIECE, PROMPT), *((at, at + 1) for at in range(PROMPT, PROMPT + STEPS))]
    for begin, end in pieces:
        found += text.read(begin, end)
        text.choose()
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_steps_equal_dense_attention_masked_to_what_is_held(policy: str) -> None:
    text = Text(evictor(policy, 30))
    assert text.evictor is not None
    for begin, end in ((0, PIECE), (PIECE, PROMPT)):
        text.read(begin, end)
        text.choose()
    kept: set[tuple[int, ...]] = set()
    for position in range(PROMPT, PROMPT + STEPS):
        before = text.evictor.positions(ROW, position + 1)
        assert before is not None and 30 < len(before) <= 38
        for layer, out in enumerate(text.read(position, position + 1)):
            torch.testing.assert_close(out, text.dense(layer, position, before), atol=1e-5, rtol=0)
        text.choose()
        kept.add(tuple(text.evictor.rows[ROW].held.kept.tolist()))
    assert len(kept) >= STEPS // 8, "the policy chose again while the text grew"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [PROMPT + STEPS - 1, PROMPT])
def test_room_for_all_changes_no_bit(policy: str, budget: int) -> None:
    plain = outputs(Text())
    compressed = outputs(Text(evictor(policy, budget)))
    # With room for the prompt alone, the first `interval` tokens of the answer fit as well.
    fitting = len(plain) if budget > PROMPT else LAYERS * (2 + 8)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(compressed[:fitting], plain[:fitting], strict=True))
    assert all(bool(out.isfinite().all()) for out in compressed)


@pytest.mark.parametrize("selector", READERS)
def test_a_selector_with_room_for_all_changes_no_bit(selector: str) -> None:
    plain = outputs(Text())
    whole, part = (outputs(Text(reader=PageReader(SelectionConfig(selector, n, 4)))) for n in (PROMPT + STEPS, 40))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(whole, plain, strict=True))
    assert not all(torch.equal(ours, theirs) for ours, theirs in zip(part, plain, strict=True))
