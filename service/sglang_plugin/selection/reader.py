"""Which pages each layer of each request reads in a decode step, and the attention over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from service.kvcache.answer_keys import READ_KEY
from service.kvcache.pages import LayerPages
from service.kvcache.selection import selector_registry
from service.sglang_plugin.kv_series import reading_series
from service.sglang_plugin.operators.attention import Reading
from service.sglang_plugin.request_extras import wants_whole_cache
from service.sglang_plugin.selection.config import SelectionConfig

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.model_executor.model_runner import ModelRunner


@dataclass
class RequestPages:
    """One running request: its pages by layer, and the key rows read and visible so far, over layers and heads."""

    layers: list[LayerPages]
    read: int = 0
    visible: int = 0


class PageReader:
    """The pool's selector and the state of its running requests, by row of SGLang's `req_to_token`.

    Nothing is freed, and prefills read everything. Lives in the scheduler process, like the evictor.
    """

    def __init__(self, config: SelectionConfig) -> None:
        self.config = config
        self.selector = selector_registry().load(config.selector)(**config.options)
        self.rows: dict[int, RequestPages] = {}
        self._layers = 0

    def serve(self, runner: ModelRunner) -> None:
        """The attention backend tells whose KV it reads. Mutates."""
        self._layers = int(runner.model_config.num_hidden_layers)

    def enter(self, result: Any, batch: ScheduleBatch) -> None:
        """After `ScheduleBatch.prepare_for_extend`: rows of new requests exist now. Mutates."""
        del result
        for req in batch.reqs:
            row = req.kv.req_pool_idx
            if row is not None and row not in self.rows and not wants_whole_cache(req):
                pages = [LayerPages(self.selector, self.config.page) for _ in range(self._layers)]
                self.rows[row] = RequestPages(pages)

    def forget(self, pool: Any, req: Req) -> None:
        """Before `ReqToTokenPool.free`: the request's row is given back. Mutates, and tells the request's client."""
        del pool
        state = self.rows.pop(req.kv.req_pool_idx, None)
        if state is not None and state.visible and req.finished():
            info = req.customized_info if req.customized_info is not None else {}
            reading_series().steps(state.read, state.visible)
            info[READ_KEY] = [state.read / state.visible] * len(req.output_ids)
            req.customized_info = info

    def reading(self, row: int, slots: torch.Tensor) -> Reading | None:
        """How a decode step of a request with KV in `slots` attends; None when it reads everything."""
        state, length = self.rows.get(row), len(slots)
        if state is None or length <= self.config.tokens:
            return None
        slots = slots.long()

        def read(
            layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
        ) -> torch.Tensor:
            pages = state.layers[layer]
            pages.fill(length, lambda start, end: keys.index_select(0, slots[start:end]))
            positions = pages.choose(query[0], scale, self.config.tokens, length)
            state.read += positions.numel()
            state.visible += length * positions.shape[0]
            return attend_by_head(query, keys, values, slots[positions], scale)

        return read


def attend_by_head(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor, scale: float
) -> torch.Tensor:
    """Attention of one query [1, heads, dim] over slots of its own for each KV head, int64 [kv_heads, n].

    `keys` and `values` are one layer's cache [slots, kv_heads, dim]; the result is [1, heads, dim].
    """
    kv_heads = slots.shape[0]
    # One flat gather: row slot * kv_heads + head of the cache seen as [slots * kv_heads, dim].
    index = (slots * kv_heads + torch.arange(kv_heads)[:, None]).flatten()
    k, v = (
        cache.reshape(-1, cache.shape[-1]).index_select(0, index).view(1, kv_heads, -1, cache.shape[-1])
        for cache in (keys, values)
    )
    out = scaled_dot_product_attention(query.view(1, kv_heads, -1, query.shape[-1]), k, v, scale=scale)
    return out.reshape(1, query.shape[1], -1)
