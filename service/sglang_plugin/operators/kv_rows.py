"""Slot bookkeeping between a request's row of `req_to_token` and the flat KV slots.

Every function mutates its marked output argument in place and blocks until done. Index tensors are int32 or
int64; `req_to_token` is int32 [requests, row_width].
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch


def _spans(
    req_pool_indices: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, row_width: int
) -> Iterator[tuple[int, slice, slice]]:
    """(row, columns of the row, places in the packed slots) of each request.

    Raises IndexError for columns behind the row, where torch would silently write nothing.
    """
    offset = 0
    for row, start, end in zip(req_pool_indices.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if end > row_width:
            raise IndexError(f"slots {start} to {end} do not fit a request's row of {row_width}")
        yield row, slice(start, end), slice(offset, offset + end - start)
        offset += end - start


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    out_cache_loc: torch.Tensor,
    row_width: int,
) -> None:
    """Write slots into rows: `req_to_token[r, start:end] = next (end - start) slots`. Mutates `req_to_token`."""
    for row, columns, packed in _spans(req_pool_indices, starts, ends, row_width):
        req_to_token[row, columns] = out_cache_loc[packed].to(req_to_token.dtype)


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    out_cache_loc: torch.Tensor,
    row_width: int,
) -> None:
    """The reverse: pack `req_to_token[r, start:end]` of all requests. Mutates `out_cache_loc`."""
    for row, columns, packed in _spans(req_pool_indices, starts, ends, row_width):
        out_cache_loc[packed] = req_to_token[row, columns].to(out_cache_loc.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    row_width: int,
    topk: int,
    num_steps: int,
) -> None:
    """Pack the `topk * num_steps` slots behind each request's text. Mutates `out_cache_loc`."""
    del row_width
    width = topk * num_steps
    for i, (row, start) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        slots = req_to_token[row, start : start + width]
        out_cache_loc[i * width : (i + 1) * width] = slots.to(out_cache_loc.dtype)


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Pack the slots of accepted nodes (index >= 0), in order. Mutates `accept_out_cache_loc`."""
    flat = accept_index.reshape(-1)
    kept = flat[flat >= 0].long()
    accept_out_cache_loc[: kept.numel()] = out_cache_loc[kept].to(accept_out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, row_bytes: torch.Tensor, targets: torch.Tensor, sources: torch.Tensor
) -> None:
    """Copy slots inside every layer's K and V buffer, all sources read before the first target is written.

    `data_ptrs` [buffers] are addresses (uint64), `row_bytes` [buffers] the bytes of one slot. Mutates the buffers.
    """
    moves = [(t, s) for t, s in zip(targets.tolist(), sources.tolist(), strict=True) if t != s]
    for pointer, size in zip(data_ptrs.tolist(), row_bytes.tolist(), strict=True):
        rows = [ctypes.string_at(pointer + source * size, size) for _, source in moves]
        for (target, _), row in zip(moves, rows, strict=True):
            ctypes.memmove(pointer + target * size, row, size)
