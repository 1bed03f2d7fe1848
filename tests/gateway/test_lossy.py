"""A pool that changes texts says so in every answer that it may have changed."""

from __future__ import annotations

import pytest

from tests.doubles.stack import running_stack


@pytest.mark.parametrize("stream", [False, True])
def test_a_lossy_rule_is_named(stream: bool) -> None:
    with running_stack(accept="asd") as stack:
        assert stack.chat(stream=stream).headers["x-specserve-lossy"] == "accept=asd"
        assert "x-specserve-lossy" not in stack.chat(stream=stream, speculation={"mode": "off"}).headers


def test_a_lossless_pool_names_nothing() -> None:
    with running_stack() as stack:
        assert "x-specserve-lossy" not in stack.chat().headers
