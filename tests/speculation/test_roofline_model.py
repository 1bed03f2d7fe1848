"""The modelled table follows its equations and the published figures."""

from __future__ import annotations

import pytest

from service.speculation.roofline_model import (
    A100,
    BATCHES,
    H200,
    METHODS,
    QWEN25_7B,
    Method,
    cost_ratio,
    markdown,
    pass_s,
    speedup,
    table,
    tokens_per_step,
)


def test_a_plain_pass_by_hand() -> None:
    seconds = pass_s(A100, QWEN25_7B, batch=8, context=1000, rows=1, overhead_s=39e-6)
    assert seconds == pytest.approx((15.2e9 + 26205 * 8 * 1000) / 1.617e12 + 39e-6 * 8)


def test_a_wide_pass_is_compute_bound() -> None:
    seconds = pass_s(A100, QWEN25_7B, batch=64, context=1000, rows=16, overhead_s=0.0)
    assert seconds == pytest.approx(16 * 64 * (15.2e9 + 4 * 28 * 3584 * 1000) / 2.335e14)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_load_and_rows_never_help(method: Method) -> None:
    for gpu in (A100, H200):
        # Small batches first; very large KV caches make every pass memory bound again, which is why 64 may recover.
        assert speedup(method, gpu, 1) >= speedup(method, gpu, 8) >= speedup(method, gpu, 32)
        assert cost_ratio(method, gpu, 1, 1024) >= 1


def test_inferred_tokens_give_the_published_figure_back() -> None:
    for method in METHODS:
        if method.tokens is None and method.figure is not None:
            assert speedup(method, method.gpu, method.batch) == pytest.approx(method.figure)
            assert 1 < tokens_per_step(method) <= method.rows


def test_published_tokens_predict_the_published_figures_roughly() -> None:
    for method in METHODS:
        if method.tokens is not None and method.figure is not None and method.batch == 1:
            assert speedup(method, A100, 1) == pytest.approx(method.figure, rel=0.45)


def test_the_table_says_that_it_is_a_model() -> None:
    text = markdown()
    assert text.startswith("Modelled, not measured")
    assert text.count("\n| ") == len(METHODS) + 1
    rows = table()
    assert len(rows) == len(METHODS)
    assert all(row["difference"] and row["source"] for row in rows)
    predicted = rows[0]["predicted"]
    assert isinstance(predicted, dict) and list(predicted["H200"]) == [str(batch) for batch in BATCHES]
