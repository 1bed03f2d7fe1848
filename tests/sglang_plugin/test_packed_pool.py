"""SGLang's KV pool with packed rows: what is written is read, moved and counted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("sglang")

from sglang.srt.mem_cache.memory_pool import KVWriteLoc, MHATokenToKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from service.kvcache.calibration import write_calibration
from service.kvcache.quantizer import Quantizer
from service.profiles.facts import ModelShape
from service.profiles.kv_methods import QUANTIZED_BITS, slot_bytes
from service.profiles.schema import KvCache
from service.sglang_plugin.attention import CpuTreeAttention
from service.sglang_plugin.kv_series import token_bytes
from service.sglang_plugin.operators.attention import RequestPlan, attend
from service.sglang_plugin.quantization.config import VARIABLE, QuantizationConfig, read_config
from service.sglang_plugin.quantization.pool import PackedKvPool

LAYERS, HEADS, DIM = 2, 3, 64


SIZES: dict[str, Any] = {
    "size": 32,
    "page_size": 1,
    "head_num": HEADS,
    "head_dim": DIM,
    "layer_num": LAYERS,
    "device": "cpu",
    "enable_memory_saver": False,
}


def pool_of(bits: int, rotation: str, calibration: str | None = None) -> Any:
    kind = type("Pool", (PackedKvPool,), {"config": QuantizationConfig(bits, None, rotation, calibration)})
    return kind(**SIZES, dtype=torch.float32)


def filled(bits: int, rotation: str, calibration: str | None = None) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A pool with twenty rows in slots 5 to 24 of layer 1, and what they were."""
    pool, generator = pool_of(bits, rotation, calibration), torch.Generator().manual_seed(bits)
    keys, values = (torch.randn(20, HEADS, DIM, generator=generator) for _ in range(2))
    pool.set_kv_buffer(SimpleNamespace(layer_id=1), KVWriteLoc(torch.arange(5, 25), None), keys, values)
    return pool, keys, values


@pytest.mark.parametrize("rotation", ["none", "hadamard"])
@pytest.mark.parametrize(("bits", "close"), [(8, 0.02), (4, 0.35), (2, 1.6)])
def test_attention_over_packed_rows_is_near_that_over_floats(bits: int, close: float, rotation: str) -> None:
    pool, keys, values = filled(bits, rotation)
    query = torch.randn(2, 9, DIM, generator=torch.Generator().manual_seed(1))
    plan = RequestPlan(2, slice(5, 25), None)
    stored = pool.keys.decode(pool.get_key_buffer(1)[5:25]), pool.values.decode(pool.get_value_buffer(1)[5:25])
    found = pool.rotated_back(attend(pool.rotated(query, 1), *stored, plan, DIM**-0.5), 1)
    wanted = attend(query, keys, values, plan, DIM**-0.5)
    assert float((found - wanted).abs().max()) < close
    assert not pool.get_key_buffer(0).any()


def test_moved_rows_keep_every_bit() -> None:
    pool, _, _ = filled(4, "hadamard")
    before = pool.get_key_buffer(1).clone(), pool.get_value_buffer(1).clone()
    pool.move_kv_cache(torch.tensor([1, 2]), torch.tensor([7, 9]))
    assert torch.equal(pool.get_key_buffer(1)[[1, 2]], before[0][[7, 9]])
    assert torch.equal(pool.get_value_buffer(1)[[1, 2]], before[1][[7, 9]])
    assert torch.equal(pool.get_key_buffer(1)[5:], before[0][5:])


@pytest.mark.parametrize(("bits", "ratio"), [(8, 1.9), (4, 3.5), (2, 6.0)])
def test_bytes_are_those_of_the_codes(bits: int, ratio: float) -> None:
    pool = pool_of(bits, "none")
    bfloat16 = 2 * LAYERS * HEADS * DIM * 2
    assert bfloat16 / token_bytes(pool) >= ratio
    assert sum(pool.get_kv_size_bytes()) == 33 * token_bytes(pool)


def test_settings_come_from_the_environment() -> None:
    assert read_config({}).bits == 0
    found = read_config({VARIABLE: '{"bits": 4, "group": 32, "rotation": "hadamard"}'})
    assert found == QuantizationConfig(4, 32, "hadamard")
    with pytest.raises(ValueError, match="SPECSERVE_KV_QUANTIZATION holds no valid settings"):
        read_config({VARIABLE: '{"bite": 4}'})


def test_a_fitted_pool_gives_values_and_scores_back(tmp_path: Path) -> None:
    """With 8 bits what is taken off and turned comes back, for two query heads a KV head."""
    draw = torch.Generator().manual_seed(9)
    turns = {kind: torch.linalg.qr(torch.randn(LAYERS, DIM, DIM, generator=draw)).Q for kind in ("keys", "values")}
    means = {f"{kind}_mean": torch.randn(LAYERS, HEADS, DIM, generator=draw) for kind in turns}
    write_calibration(tmp_path / "kv.pt", turns | means)
    pool, keys, values = filled(8, "oscar", str(tmp_path / "kv.pt"))
    query = torch.randn(2, 2 * HEADS, DIM, generator=draw)
    plan = RequestPlan(2, slice(5, 25), None)
    stored = pool.keys.decode(pool.get_key_buffer(1)[5:25]), pool.values.decode(pool.get_value_buffer(1)[5:25])
    found = pool.rotated_back(attend(pool.rotated(query, 1), *stored, plan, DIM**-0.5), 1)
    assert float((found - attend(query, keys, values, plan, DIM**-0.5)).abs().max()) < 0.03


@pytest.mark.parametrize(("kv", "close"), [("float32", 1e-5), ("bfloat16", 0.03), ("int8", 0.03)])
def test_the_backend_reads_caches_of_fewer_bits_than_the_model(kv: str, close: float) -> None:
    """A prefill, which attends causally, and a decode step behind it, in slots that do not follow each other."""
    pool = pool_of(8, "hadamard") if kv == "int8" else MHATokenToKVPool(**SIZES, dtype=getattr(torch, kv))
    table = torch.randperm(32, generator=torch.Generator().manual_seed(3)).int().view(1, 32)
    backend: Any = CpuTreeAttention(
        SimpleNamespace(device="cpu", req_to_token_pool=SimpleNamespace(req_to_token=table), token_to_kv_pool=pool)  # type: ignore[arg-type]
    )
    layer = SimpleNamespace(layer_id=1, tp_q_head_num=9, qk_head_dim=DIM, v_head_dim=DIM, scaling=DIM**-0.5)
    generator = torch.Generator().manual_seed(4)
    query, key, value = (torch.randn(12, heads, DIM, generator=generator) for heads in (9, HEADS, HEADS))
    found = []
    for begin, end in ((0, 11), (11, 12)):
        batch: Any = SimpleNamespace(
            forward_mode=ForwardMode.DECODE if end - begin == 1 else ForwardMode.EXTEND,
            req_pool_indices=torch.tensor([0]),
            seq_lens=torch.tensor([end]),
            extend_seq_lens=torch.tensor([end - begin]),
            out_cache_loc=table[0, begin:end].long(),
        )
        backend.init_forward_metadata(batch)
        forward = backend.forward_decode if end - begin == 1 else backend.forward_extend
        found.append(forward(query[begin:end].flatten(1), key[begin:end], value[begin:end], layer, batch))
    wanted = attend(query, key, value, RequestPlan(12, slice(0, 12), None, causal=True), DIM**-0.5)
    assert float((torch.cat(found) - wanted.flatten(1)).abs().max()) < close


@pytest.mark.parametrize("quantization", ["int8", "int4", "int2"])
@pytest.mark.parametrize("group", [None, 32])
def test_the_gateway_counts_the_bytes_of_the_quantizer(quantization: str, group: int | None) -> None:
    cache = KvCache.model_validate({"quantization": quantization, "group_size": group})
    row = Quantizer(QUANTIZED_BITS[quantization], DIM, group or DIM).row_bytes
    assert slot_bytes(cache, ModelShape(LAYERS, HEADS, DIM), "float32") == 2 * LAYERS * HEADS * row
