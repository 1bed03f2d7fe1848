"""Packed pools whose first and newest tokens are in full precision: pieces, steps and trees read the same rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("sglang")

from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from service.profiles.facts import ModelShape
from service.profiles.kv_methods import slot_bytes
from service.profiles.schema import KvCache
from service.sglang_plugin.attention import CpuTreeAttention
from service.sglang_plugin.kv_series import token_bytes
from service.sglang_plugin.operators.window import WindowShape
from service.sglang_plugin.quantization.config import QuantizationConfig
from service.sglang_plugin.quantization.pool import PackedKvPool, packed_size

LAYERS, HEADS, KV_HEADS, DIM, VALUE_DIM, SLOTS, TEXT, SCALE = 2, 6, 3, 32, 16, 120, 60, 0.3
SINKS, RECENT, WIDTH = 3, 8, 6
ROW = 2


class Text:
    """One request whose queries, keys and values come from a seed; slots are scattered."""

    def __init__(self, sinks: int = SINKS, recent: int = RECENT, dtype: torch.dtype = torch.float32, bits: int = 2):
        draw = torch.Generator().manual_seed(5)
        config = QuantizationConfig(bits, None, "hadamard", None, sinks, recent)
        kind = type("Pool", (PackedKvPool,), {"config": config}) if bits else MHATokenToKVPool
        self.pool: Any = kind(
            size=SLOTS,
            page_size=1,
            dtype=dtype,
            head_num=KV_HEADS,
            head_dim=DIM,
            v_head_dim=VALUE_DIM,
            layer_num=LAYERS,
            device="cpu",
            enable_memory_saver=False,
        )
        self.table = torch.zeros(4, SLOTS, dtype=torch.int32)
        self.table[ROW, :TEXT] = 1 + torch.randperm(SLOTS - 1, generator=draw)[:TEXT].int()
        runner: Any = SimpleNamespace(
            device="cpu",
            req_to_token_pool=SimpleNamespace(req_to_token=self.table),
            token_to_kv_pool=self.pool,
            server_args=SimpleNamespace(speculative_num_draft_tokens=WIDTH),
        )
        self.backend: Any = CpuTreeAttention(runner)
        self.queries = 2 * torch.randn(TEXT, HEADS, DIM, generator=draw)
        self.keys = torch.randn(TEXT, KV_HEADS, DIM, generator=draw)
        self.values = torch.randn(TEXT, KV_HEADS, VALUE_DIM, generator=draw)

    def read(self, begin: int, end: int) -> torch.Tensor:
        """The tokens' outputs [n, heads * value dim] of one pass."""
        mode = ForwardMode.DECODE if end - begin == 1 else ForwardMode.EXTEND
        return self.forward(mode, torch.arange(begin, end), begin, seq_lens=torch.tensor([end]))

    def verify(self, begin: int, tokens: list[int], tree: torch.Tensor) -> torch.Tensor:
        """A verify step behind the first `begin` tokens, whose nodes are these tokens of the text."""
        spec = SimpleNamespace(custom_mask=tree.flatten(), draft_token_num=len(tokens))
        mode = ForwardMode.TARGET_VERIFY
        return self.forward(mode, torch.tensor(tokens), begin, seq_lens=torch.tensor([begin]), spec_info=spec)

    def accept(self, begin: int, sources: list[int]) -> None:
        """Move the rows of accepted nodes behind the first `begin` tokens, as the worker does."""
        slots = self.table[ROW].long()
        nodes = begin + torch.tensor(sources)
        self.pool.move_kv_cache(slots[begin : begin + len(sources)], slots[nodes])

    def forward(self, mode: ForwardMode, tokens: torch.Tensor, begin: int, **fields: Any) -> torch.Tensor:
        count = len(tokens)
        batch: Any = SimpleNamespace(
            forward_mode=mode,
            req_pool_indices=torch.tensor([ROW]),
            extend_seq_lens=torch.tensor([count]),
            out_cache_loc=self.table[ROW, begin : begin + count].long(),
            **fields,
        )
        self.backend.init_forward_metadata(batch)
        layer = SimpleNamespace(layer_id=1, tp_q_head_num=HEADS, qk_head_dim=DIM, v_head_dim=VALUE_DIM, scaling=SCALE)
        forward = self.backend.forward_decode if mode.is_decode() else self.backend.forward_extend
        out: torch.Tensor = forward(
            self.queries[tokens].flatten(1), self.keys[tokens], self.values[tokens], layer, batch
        )
        return out

    def expected(self, position: int) -> torch.Tensor:
        """Softmax written out, each row as the window has it: [1, heads * value dim]."""
        places = torch.arange(position + 1)
        full = (places < self.pool.config.sinks) | (places > position - self.pool.config.recent)
        at = self.table[ROW, : position + 1].long()
        frames = self.pool._key_frames[1], self.pool._value_frames[1]
        stored = [
            quantizer.decode(buffer[1][at]) @ frame.rotation.T
            for quantizer, buffer, frame in zip(
                (self.pool.keys, self.pool.values), (self.pool.k_buffer, self.pool.v_buffer), frames, strict=True
            )
        ]
        pairs = zip((self.keys, self.values), stored, strict=True)
        keys, values = (torch.where(full[:, None, None], rows[: position + 1], low) for rows, low in pairs)
        group = HEADS // KV_HEADS
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        weights = (torch.einsum("hd,thd->ht", self.queries[position], keys) * SCALE).softmax(-1)
        return torch.einsum("ht,thd->hd", weights, values).flatten()[None]


def test_every_step_reads_sinks_and_window_in_full_and_the_rest_packed() -> None:
    text = Text()
    text.read(0, 30)
    for position in range(30, TEXT):
        torch.testing.assert_close(text.read(position, position + 1), text.expected(position), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pieces", [(TEXT,), (2, 5, 40, TEXT), (25, 26, 30, TEXT)])
def test_pieces_change_nothing(pieces: tuple[int, ...]) -> None:
    text, begin, found = Text(), 0, []
    for end in pieces:
        found.append(text.read(begin, end))
        begin = end
    wanted = torch.cat([text.expected(position) for position in range(TEXT)])
    torch.testing.assert_close(torch.cat(found), wanted, atol=1e-5, rtol=0)


def test_trees_read_as_steps_do_and_accepted_rows_move() -> None:
    """Of a step's six nodes the branch 0, 2, 4 is the text; 1, 3, 5 are other tokens, which are thrown away."""
    text, steps = Text(), Text()
    text.read(0, 20)
    steps.read(0, 20)
    begin = 20
    tree = torch.eye(WIDTH, dtype=torch.bool)
    tree[:, 0] = True
    tree[4, 2] = tree[5, 1] = True
    while begin + 3 <= 50:
        nodes = [begin, 58, begin + 1, 59, begin + 2, 57]
        found = text.verify(begin, nodes, tree)[[0, 2, 4]]
        text.accept(begin, [0, 2, 4])
        wanted = torch.cat([steps.read(position, position + 1) for position in range(begin, begin + 3)])
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
        begin += 3
    torch.testing.assert_close(text.read(begin, begin + 1), steps.read(begin, begin + 1), atol=1e-5, rtol=0)


def test_a_window_with_room_for_all_changes_no_bit() -> None:
    texts = Text(sinks=0, recent=TEXT), Text(sinks=TEXT, recent=WIDTH), Text(bits=0)
    pieces = ((0, 20), (20, 40), *((at, at + 1) for at in range(40, TEXT)))
    *windowed, plain = [torch.cat([text.read(*piece) for piece in pieces]) for text in texts]
    assert all(torch.equal(outputs, plain) for outputs in windowed)


def test_rows_are_rounded_before_they_are_read_first() -> None:
    """So that a token looks the same in its own piece and in later ones."""
    whole, stepwise = Text(dtype=torch.bfloat16), Text(dtype=torch.bfloat16)
    found = torch.cat([stepwise.read(at, at + 1) for at in range(TEXT)])
    torch.testing.assert_close(whole.read(0, TEXT), found, atol=1e-5, rtol=0)
    assert not torch.equal(found, torch.cat([Text().read(0, TEXT)]))


def test_a_row_that_another_request_had_is_read_no_more() -> None:
    text = Text()
    text.read(0, TEXT)
    again = torch.cat((text.read(0, 7), *(text.read(at, at + 1) for at in range(7, 30))))
    torch.testing.assert_close(again, torch.cat([text.expected(at) for at in range(30)]), atol=1e-5, rtol=0)


def test_the_window_is_counted() -> None:
    text = Text()
    row = 4 * (SINKS + RECENT + WIDTH) * LAYERS * KV_HEADS * (DIM + VALUE_DIM) * 4
    assert text.pool.window_bytes == row
    packed = LAYERS * KV_HEADS * (text.pool.keys.row_bytes + text.pool.values.row_bytes)
    assert token_bytes(text.pool) == packed + -(-row // SLOTS)


def test_a_token_costs_what_its_keys_and_values_do() -> None:
    pool = Text().pool
    floats = LAYERS * KV_HEADS * (DIM + VALUE_DIM) * 4
    packed = packed_size(pool.config, floats, (DIM, VALUE_DIM), 4)
    assert packed == LAYERS * KV_HEADS * (pool.keys.row_bytes + pool.values.row_bytes)
    shape = ModelShape(LAYERS, KV_HEADS, DIM, value_dim=VALUE_DIM)
    assert packed == slot_bytes(KvCache(quantization="int2"), shape, "float32")


def test_a_window_below_a_verify_step_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kv.full_recent 4 does not hold a verify step of 6 rows"):
        WindowShape(4, 4, 6)
