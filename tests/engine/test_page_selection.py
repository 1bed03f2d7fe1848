"""Decode steps that read some pages, on a real engine."""

from __future__ import annotations

import pytest

from service.kvcache.answer_keys import HELD_KEY, READ_KEY, last_value
from service.profiles.schema import KvCache, Speculation
from tests.engine.conftest import SMALL
from tests.engine.host import EngineHost
from tests.engine.test_eviction import ARTICLE, generate, kv_figures, tokens_of

READ = 160


def test_short_texts_are_read_whole_and_long_ones_in_part(host: EngineHost) -> None:
    """With the selector that asks most of an engine; `specserve bench kv-cost` runs the others."""
    kv = KvCache(max_tokens=4096, selector="async_spade", selector_tokens=READ)
    profile = SMALL.model_copy(update={"kv": kv, "speculation": Speculation(algorithm="none")})
    engine = host.use("selection", profile)
    text = tokens_of(engine, ARTICLE)
    whole, short = (generate(engine, text[:120], 32, **wish) for wish in ({"kv": "full"}, {}))
    assert short["output_ids"] == whole["output_ids"] and last_value(short["meta_info"], READ_KEY) is None
    long = generate(engine, text[:400], 24)
    share = last_value(long["meta_info"], READ_KEY)
    # Steps see 401 to 423 tokens, of which they read `READ` less a part of a page.
    assert (READ - 16) / 423 < share <= READ / 401 and last_value(long["meta_info"], HELD_KEY) is None
    figures = kv_figures(engine)
    assert figures.rows_read is not None and figures.rows_visible is not None and figures.evictions is None
    assert figures.rows_read / figures.rows_visible == pytest.approx(share)
    asked = generate(engine, text[:400], 24, kv="full")
    assert last_value(asked["meta_info"], READ_KEY) is None
