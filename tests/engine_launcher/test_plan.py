from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.engine.inspection import inspect
from service.engine.plan import plan_engines, with_local_backends
from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.config import Config
from service.profiles.facts import Facts
from service.profiles.machine import Role
from service.settings import EngineSettings

MODELS = [
    {"name": "a", "pools": [{"name": "x"}, {"name": "far", "backends": ["http://h:31000"]}]},
    {"name": "b", "pools": [{"name": "y", "profile": {"speculation": {"algorithm": "none"}}}]},
]


PLAIN_GPU = {"target": {"model": "org/m", "dtype": "bfloat16"}, "speculation": {"algorithm": "none"}}


def disaggregated() -> Config:
    pool = {
        "name": "split",
        "profile": {**PLAIN_GPU, "runtime": {"device": "cuda"}},
        "prefill": {"device": "cuda", "tp": 4},
        "backends": ["http://router:30000"],
    }
    return Config.model_validate({"models": [{"pools": [pool]}]})


def two_machines(**engine: Any) -> Config:
    pool = {"profile": {**PLAIN_GPU, "runtime": {"device": "cuda", "tp": 16, "nodes": 2}}}
    return Config.model_validate({"models": [{"pools": [pool]}], "engine": engine})


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
    with pytest.raises(ConfigError, match="no pool 'odd'; pools: x, far, y"):
        plan_engines(config, store, "odd")


def test_a_named_pool_with_backends_is_served_to_other_machines(config: Config, store: ModelStore) -> None:
    (plan,) = plan_engines(config, store, "far")
    assert (plan.host, plan.port, plan.url) == ("0.0.0.0", 31000, "http://127.0.0.1:31000")
    assert plan.generates
    everywhere = config.model_copy(update={"engine": EngineSettings(host="::")})
    assert plan_engines(everywhere, store, "far")[0].url == "http://[::1]:31000"
    assert plan_engines(everywhere, store, "x")[0].host == "127.0.0.1"


def test_what_is_started_is_what_inspection_shows(store: ModelStore) -> None:
    config = disaggregated()
    shown = {(report.pool, report.role): report.command for report in inspect(config, store, Facts()).pools}
    for role in ("prefill", "decode"):
        (plan,) = plan_engines(config, store, "split", role)
        assert plan.command == shown["split", role]
        assert plan.command.argv[plan.command.argv.index("--disaggregation-mode") + 1] == role
        assert not plan.generates
    tp = [command.argv[command.argv.index("--tp-size") + 1] for command in shown.values() if command is not None]
    assert tp == ["4", "1"]


@pytest.mark.parametrize(
    ("pool", "role", "sentence"),
    [("split", None, "give --role prefill or --role decode"), ("split", "whole", "no whole engines: leave --role out")],
)
def test_roles_must_fit_the_pool(pool: str, role: Role | None, sentence: str, store: ModelStore) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan_engines(disaggregated(), store, pool, role)


def test_a_pool_with_prefill_engines_needs_the_router_that_pairs_them() -> None:
    with pytest.raises(ValidationError, match="SGLang's router that pairs"):
        Config.model_validate({"models": [{"pools": [{"prefill": {"device": "cuda"}}]}]})


def test_machines_of_one_engine_know_their_places(store: ModelStore) -> None:
    config = two_machines(leader_address="first:20000", node_rank=1)
    (plan,) = plan_engines(config, store, "default")
    place = plan.command.argv[plan.command.argv.index("--nnodes") :][:6]
    assert place == ("--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "first:20000")
    assert not plan.generates
    assert plan_engines(two_machines(leader_address="first:20000"), store, "default")[0].generates


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        ({}, "runs on 2 machines: set engine.leader_address"),
        ({"leader_address": "a:1", "node_rank": 2}, "engine.node_rank 2 is beyond the 2 machines"),
    ],
)
def test_a_machine_without_a_place_is_refused(engine: dict[str, Any], sentence: str, store: ModelStore) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan_engines(two_machines(**engine), store, "default")


def test_inspection_names_the_missing_leader_and_shows_the_command(store: ModelStore) -> None:
    (report,) = inspect(two_machines(), store, Facts()).pools
    assert report.command is not None and "LEADER:20000" in report.command.argv
    assert "engine.leader_address" in {finding.field for finding in report.findings}
    (told,) = inspect(two_machines(leader_address="first:20000"), store, Facts()).pools
    assert "engine.leader_address" not in {finding.field for finding in told.findings}


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
