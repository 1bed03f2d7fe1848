"""A pool that changes texts says so in every answer that it may have changed."""

from __future__ import annotations

import pytest

from tests.doubles.stack import running_stack


@pytest.mark.parametrize("stream", [False, True])
def test_a_lossy_rule_is_named(stream: bool) -> None:
    with running_stack(accept="asd") as stack:
        assert stack.chat(stream=stream).headers["x-specserve-lossy"] == "accept=asd"
        assert "x-specserve-lossy" not in stack.chat(stream=stream, speculation={"mode": "off"}).headers


def test_a_compressed_cache_is_named_with_its_budget() -> None:
    with running_stack(accept="asd", kv={"eviction": "snapkv", "budget": 256}) as stack:
        assert stack.chat().headers["x-specserve-lossy"] == "accept=asd, kv=snapkv:256"
        assert stack.chat(speculation={"mode": "off"}).headers["x-specserve-lossy"] == "kv=snapkv:256"


def test_a_lossless_pool_names_nothing() -> None:
    with running_stack() as stack:
        assert "x-specserve-lossy" not in stack.chat().headers
