"""Crossovers of decode costs, by hand."""

from __future__ import annotations

import pytest

from service.bench.kv_cost import Contest, Steps, measured_crossover, predicted_crossover
from service.bench.kv_cost_cli import Options
from service.bench.kv_cost_run import summary_bytes
from service.kvcache.eviction import EVICTORS
from service.kvcache.selection import SELECTORS
from service.profiles.facts import ModelShape
from service.profiles.schema import KvCache

CONTEXTS = (500, 1000, 2000)


def test_lines_meet_where_the_longer_text_pays_for_the_fixed_part() -> None:
    # 10 + context / 100 against 20 flat.
    assert predicted_crossover(CONTEXTS, [15, 20, 30], [20, 20, 20]) == pytest.approx(1000)
    assert predicted_crossover(CONTEXTS, [15, 20, 30], [3, 3, 3]) == 0
    assert predicted_crossover(CONTEXTS, [15, 20, 30], [16, 21, 31]) is None


def test_the_ends_alone_predict() -> None:
    assert predicted_crossover(CONTEXTS, [15, 99, 30], [20, 1, 20]) == pytest.approx(1000)


@pytest.mark.parametrize(
    ("whole", "own", "expected"),
    [
        ([15, 20, 30], [20, 22, 22], 1200),
        ([15, 20, 30], [9, 9, 9], 500),
        ([15, 20, 30], [20, 22, 31], None),
        # Faster once, slower again: only the last crossing counts.
        ([15, 20, 30], [14, 21, 29], 1500),
    ],
)
def test_the_sweep_tells_from_where_on_it_is_faster(
    whole: list[float], own: list[float], expected: float | None
) -> None:
    assert measured_crossover(CONTEXTS, whole, own) == (None if expected is None else pytest.approx(expected))


def test_rows_hold_lower_quartiles_and_bytes() -> None:
    whole = (Steps(100, (10.0, 10.0, 40.0), 140), Steps(200, (20.0, 20.0, 20.0), 240))
    own = (Steps(100, (5.0, 5.0, 50.0), 64), Steps(200, (5.0, 5.0, 5.0), 64, 1000))
    contest = Contest("streaming:64", whole, own, True)
    first, second = contest.rows(10)
    assert (first["whole_ms"], first["ms"], first["speedup"]) == (10.0, 5.0, 2.0)
    assert (first["mean_ms"], first["whole_bytes"], second["bytes"]) == (20.0, 1400, 1640)
    assert contest.summary() == {
        "policy": "streaming:64",
        "identical_within_budget": True,
        "crossover_predicted": pytest.approx(50.0),
        "crossover_measured": 100.0,
    }


def test_summaries_are_counted_as_the_selector_makes_them() -> None:
    shape = ModelShape(layers=30, kv_heads=3, head_dim=64)
    # Least and greatest key of a page.
    assert summary_bytes(KvCache(selector="quest"), shape) == 30 * 3 * 2 * 64 * 4
    # Centre, 8 directions, 8 weights for each of 16 tokens.
    assert summary_bytes(KvCache(selector="locks"), shape) == 30 * 3 * (64 + 8 * (64 + 16)) * 4


def test_everything_registered_is_compared_unless_named() -> None:
    def names(*policies: str, selectors: tuple[str, ...] = ()) -> list[str]:
        options = Options((), policies, selectors, (512, 6000), 256, 500, None, print)  # type: ignore[arg-type]
        caches = options.caches(KvCache(eviction="h2o", budget=99))
        assert all(kv.max_tokens == 13024 for kv in caches)
        return [kv.eviction if kv.selector == "none" else kv.selector for kv in caches]

    everything = [name for name in (*EVICTORS, *SELECTORS) if name != "none"]
    assert sorted(names()) == sorted(everything) and names()[:2] == ["streaming", "quest"]
    assert names("snapkv") == ["snapkv"] and names(selectors=("quest",)) == ["quest"]
