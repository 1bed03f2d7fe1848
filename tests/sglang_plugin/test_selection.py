"""Decode steps that read chosen pages, against dense attention under the same mask."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from service.kvcache.answer_keys import READ_KEY
from service.sglang_plugin.operators.attention import RequestPlan, attend
from service.sglang_plugin.selection.config import VARIABLE, SelectionConfig, read_config
from service.sglang_plugin.selection.reader import PageReader, attend_by_head

HEADS, KV_HEADS, DIM, LENGTH, SCALE = 6, 2, 8, 50, 0.35


def request(row: int, wish: str | None = None) -> Any:
    params = SimpleNamespace(custom_params=None if wish is None else {"specserve": {"kv": wish}})
    kv = SimpleNamespace(req_pool_idx=row)
    return SimpleNamespace(
        kv=kv, sampling_params=params, output_ids=[1, 2], customized_info=None, finished=lambda: True
    )


def reader(name: str, *reqs: Any, tokens: int = 16) -> PageReader:
    made = PageReader(SelectionConfig(name, tokens, 4))
    made.serve(SimpleNamespace(model_config=SimpleNamespace(num_hidden_layers=2)))  # type: ignore[arg-type]
    made.enter(None, SimpleNamespace(reqs=list(reqs)))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize("name", ["none", "quest", "locks", "async_spade"])
def test_a_step_equals_dense_attention_under_its_mask(name: str) -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 120, KV_HEADS, DIM)
    slots = torch.randperm(120)[:LENGTH].int()
    query = torch.randn(1, HEADS, DIM)
    req = request(1)
    made = reader(name, req)
    read = made.reading(1, slots)
    assert read is not None
    ours = read(0, query, keys, values, SCALE)
    pages = made.rows[1].layers[0]
    positions = reader(name, request(1)).rows[1].layers[0]
    positions.fill(LENGTH, lambda start, end: keys[slots[start:end].long()])
    chosen = positions.choose(query[0], SCALE, 16, LENGTH)
    assert chosen.shape[1] < LENGTH and pages.page == 4
    group = HEADS // KV_HEADS
    for head in range(HEADS):
        visible = slots.long()[chosen[head // group]]
        weights = (keys[visible, head // group] @ query[0, head] * SCALE).softmax(0)
        torch.testing.assert_close(ours[0, head], weights @ values[visible, head // group], atol=1e-5, rtol=0)
    made.forget(None, req)
    assert req.customized_info == {READ_KEY: [chosen.shape[1] / LENGTH] * 2} and not made.rows


def test_all_pages_are_plain_attention() -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 120, KV_HEADS, DIM)
    slots, query = torch.randperm(120)[:LENGTH], torch.randn(1, HEADS, DIM)
    plain = attend(query, keys[slots], values[slots], RequestPlan(1, slots, None), SCALE)
    found = attend_by_head(query, keys, values, slots.expand(KV_HEADS, -1), SCALE)
    torch.testing.assert_close(found, plain, atol=1e-6, rtol=0)


def test_short_texts_and_requests_that_ask_read_everything() -> None:
    made = reader("quest", request(1), request(2, "full"))
    assert made.reading(1, torch.arange(16)) is None and made.reading(1, torch.arange(17)) is not None
    assert made.reading(2, torch.arange(40)) is None


def test_settings_are_read_and_bad_ones_told() -> None:
    assert read_config({}) == SelectionConfig()
    assert read_config({VARIABLE: json.dumps({"selector": "quest", "tokens": 64})}) == SelectionConfig("quest", 64)
    for bad in ("[", '{"budget": 1}', '{"tokens": 47}', "[1]"):
        with pytest.raises(ValueError, match="SPECSERVE_KV_SELECTION holds no valid settings"):
            read_config({VARIABLE: bad})
