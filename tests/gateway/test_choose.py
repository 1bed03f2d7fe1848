"""Which pool serves which mode, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.errors import BadRequestError
from service.gateway.choose import choose_pool
from service.gateway.extras import Extras
from service.gateway.pools import ServedModel, build_catalog
from service.profiles.config import Config, Model, Pool
from service.profiles.schema import Profile, Speculation
from service.telemetry.metrics import Metrics
from tests.doubles.stack import pool_config


def model(*algorithms: str) -> ServedModel:
    pools = tuple(pool_config(f"p{number}-{name}", [], name) for number, name in enumerate(algorithms))
    config = Config(models=(Model(name="smol", pools=pools),))
    return build_catalog(config, Metrics(CollectorRegistry())).resolve("smol")


@pytest.mark.parametrize(
    ("algorithms", "mode", "chosen"),
    [
        (("specserve",), "auto", "p0-specserve"),
        (("specserve",), "on", "p0-specserve"),
        (("specserve",), "off", "p0-specserve"),
        (("ngram", "none"), "auto", "p0-ngram"),
        (("ngram", "none"), "on", "p0-ngram"),
        (("ngram", "none"), "off", "p1-none"),
        (("none", "ngram"), "on", "p1-ngram"),
        (("none", "specserve"), "on", "p1-specserve"),
        (("ngram", "specserve"), "off", "p1-specserve"),
    ],
)
def test_mode_picks_a_pool_that_obeys(algorithms: tuple[str, ...], mode: Any, chosen: str) -> None:
    assert choose_pool(model(*algorithms), Extras(mode=mode)).name == chosen


@pytest.mark.parametrize(("algorithms", "mode"), [(("ngram",), "off"), (("none",), "on")])
def test_a_mode_that_nobody_can_obey_is_refused(algorithms: tuple[str, ...], mode: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        choose_pool(model(*algorithms), Extras(mode=mode))
    assert caught.value.param == "speculation.mode"


def test_a_named_pool_is_taken_or_refused() -> None:
    served = model("specserve", "none")
    assert choose_pool(served, Extras(pool="p1-none")).name == "p1-none"
    with pytest.raises(BadRequestError) as caught:
        choose_pool(served, Extras(pool="p1-none", mode="on"))
    assert caught.value.param == "speculation.mode"
    with pytest.raises(BadRequestError) as caught:
        choose_pool(served, Extras(pool="nope", pool_param="speculation.pool"))
    assert caught.value.param == "speculation.pool"


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"algorithm": "specserve", "draft_tokens": 12}, 11),
        ({"algorithm": "standalone", "draft_tokens": 5}, 4),
        ({"algorithm": "standalone", "draft_tokens": 16, "topk": 4, "steps": 3}, 3),
        ({"algorithm": "standalone", "draft_tokens": 4, "topk": 2, "steps": 6}, 3),
    ],
)
def test_a_step_accepts_one_draft_a_level_at_the_most(settings: dict[str, Any], most: int) -> None:
    pool = Pool(profile=Profile(speculation=Speculation(**settings)))
    config = Config(models=(Model(name="smol", pools=(pool,)),))
    served = build_catalog(config, Metrics(CollectorRegistry())).resolve("smol").pools[0]
    assert served.drafts_per_step == most
