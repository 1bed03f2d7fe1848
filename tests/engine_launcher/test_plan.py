from __future__ import annotations

from pathlib import Path

import pytest

from service.engine.inspection import inspect
from service.engine.plan import plan_engines, with_local_backends
from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.config import Config
from service.profiles.facts import Facts

MODELS = [
    {"name": "a", "pools": [{"name": "x"}, {"name": "far", "backends": ["http://h:31000"]}]},
    {"name": "b", "pools": [{"name": "y", "profile": {"speculation": {"algorithm": "none"}}}]},
]


@pytest.fixture
def config() -> Config:
    return Config.model_validate({"models": MODELS, "engine": {"first_port": 40000}})


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path)


def test_every_pool_without_backends_gets_a_port(config: Config, store: ModelStore) -> None:
    plans = plan_engines(config, store)
    assert [(plan.model, plan.pool, plan.url) for plan in plans] == [
        ("a", "x", "http://127.0.0.1:40000"),
        ("b", "y", "http://127.0.0.1:40001"),
    ]
    assert plan_engines(config, store, "y") == plans[1:]


def test_unknown_pools_are_refused(config: Config, store: ModelStore) -> None:
    with pytest.raises(ConfigError, match="no pool 'far' without backends; such pools: x, y"):
        plan_engines(config, store, "far")


def test_the_gateway_is_told_where_local_engines_are(config: Config) -> None:
    filled = with_local_backends(config)
    assert [[pool.backends for pool in model.pools] for model in filled.models] == [
        [("http://127.0.0.1:40000",), ("http://h:31000",)],
        [("http://127.0.0.1:40001",)],
    ]
    assert with_local_backends(filled) == filled


def test_target_and_draft_are_prepared(store: ModelStore) -> None:
    speculation = {"algorithm": "standalone", "draft_model": "/d", "draft_tokens": 4}
    pools = [{"profile": {"speculation": speculation}}]
    plan = plan_engines(Config.model_validate({"models": [{"pools": pools}]}), store)[0]
    assert plan.models == ("smollm2-135m-instruct", "/d")


def test_an_adapter_is_prepared_like_a_draft_model(store: ModelStore) -> None:
    profile = {
        "target": {"dtype": "bfloat16"},
        "speculation": {"algorithm": "uno", "adapter": "org/lora", "draft_tokens": 8},
        "runtime": {"device": "cuda"},
    }
    plan = plan_engines(Config.model_validate({"models": [{"pools": [{"profile": profile}]}]}), store)[0]
    assert plan.models == ("smollm2-135m-instruct", "org/lora")
    assert plan.command.argv[plan.command.argv.index("--uno-lora-path") + 1] == "org/lora"
    assert "HF_HUB_OFFLINE" not in dict(plan.command.env)


def test_inspection_shows_remote_pools_as_they_must_be_started(config: Config, store: ModelStore) -> None:
    report = inspect(config, store, Facts(drafters=("goose",)))
    local, far, _ = report.pools
    assert local.command is not None and far.command is not None
    assert "127.0.0.1" in local.command.argv
    assert far.command.argv[far.command.argv.index("--host") + 1] == "0.0.0.0"
    assert far.command.argv[far.command.argv.index("--port") + 1] == "31000"
    assert not report.has_errors


def test_inspection_of_an_impossible_pool_has_no_command(store: ModelStore) -> None:
    pools = [{"profile": {"target": {"model": "/no/such"}, "speculation": {"drafter": "oracle"}}}]
    report = inspect(Config.model_validate({"models": [{"pools": pools}]}), store, Facts(drafters=("goose",)))
    assert report.has_errors
    assert report.pools[0].command is None
    assert [finding.field for finding in report.pools[0].findings] == ["target.model", "speculation.drafter"]
