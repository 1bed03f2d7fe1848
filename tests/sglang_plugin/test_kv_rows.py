"""KV slot bookkeeping against plain Python."""

from __future__ import annotations

import pytest
import torch

from service.sglang_plugin.operators.kv_rows import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
)

integers = pytest.mark.parametrize("dtype", [torch.int32, torch.int64])


def table(rows: int = 4, width: int = 10) -> torch.Tensor:
    return torch.arange(rows * width, dtype=torch.int32).view(rows, width) + 1000


@integers
def test_slots_are_written_into_rows(dtype: torch.dtype) -> None:
    slots, rows = table(), torch.tensor([2, 0], dtype=dtype)
    before = slots.clone()
    starts, ends = torch.tensor([3, 0], dtype=dtype), torch.tensor([5, 3], dtype=dtype)
    assign_req_to_token_pool_cpu(rows, slots, starts, ends, torch.tensor([7, 8, 1, 2, 3], dtype=dtype), 10)
    before[2, 3:5] = torch.tensor([7, 8])
    before[0, :3] = torch.tensor([1, 2, 3])
    assert torch.equal(slots, before)


@integers
def test_slots_are_packed_from_rows(dtype: torch.dtype) -> None:
    slots, packed = table(), torch.zeros(5, dtype=dtype)
    starts, ends = torch.tensor([4, 0]), torch.tensor([6, 3])
    assign_extend_cache_locs_cpu(torch.tensor([1, 3], dtype=dtype), slots, starts, ends, packed, 10)
    assert packed.tolist() == [1014, 1015, 1030, 1031, 1032]


def test_packing_reverses_writing() -> None:
    slots, rows = table(), torch.tensor([3, 1])
    starts, ends, given = torch.tensor([2, 5]), torch.tensor([6, 8]), torch.tensor([9, 8, 7, 6, 5, 4, 3])
    assign_req_to_token_pool_cpu(rows, slots, starts, ends, given, 10)
    packed = torch.zeros_like(given)
    assign_extend_cache_locs_cpu(rows, slots, starts, ends, packed, 10)
    assert packed.tolist() == given.tolist()


def test_draft_slots_follow_the_text() -> None:
    packed = torch.zeros(8, dtype=torch.int64)
    assign_draft_cache_locs_contiguous_cpu(torch.tensor([0, 2]), table(), torch.tensor([1, 6]), packed, 10, 2, 2)
    assert packed.tolist() == [1001, 1002, 1003, 1004, 1026, 1027, 1028, 1029]


def test_slots_of_accepted_nodes_in_order() -> None:
    slots, packed = torch.arange(100, 108), torch.zeros(8, dtype=torch.int64)
    fill_accept_out_cache_loc_cpu(torch.tensor([[0, 2, -1], [4, -1, -1]]), slots, packed)
    assert packed.tolist() == [100, 102, 104, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_copied_as_if_all_were_read_first(dtype: torch.dtype) -> None:
    buffers = [torch.randn(6, 3, 5).to(dtype) for _ in range(4)]
    targets, sources = torch.tensor([1, 2, 4, 3]), torch.tensor([2, 3, 4, 1])
    expected = [buffer.clone() for buffer in buffers]
    for buffer in expected:
        buffer[targets] = buffer[sources].clone()
    pointers = torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64)
    row_bytes = torch.tensor([buffer[0].nbytes for buffer in buffers])
    copy_all_layer_kv_cache_cpu(pointers, row_bytes, targets, sources)
    assert all(torch.equal(buffer, other) for buffer, other in zip(buffers, expected, strict=True))


def test_slots_behind_a_row_are_refused() -> None:
    table = torch.zeros(1, 4, dtype=torch.int32)
    index, start, end = torch.tensor([0]), torch.tensor([3]), torch.tensor([5])
    with pytest.raises(IndexError, match="do not fit"):
        assign_req_to_token_pool_cpu(index, table, start, end, torch.tensor([7, 8]), 4)
