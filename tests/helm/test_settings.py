"""The settings file of a release, the schema of its values, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from service.cli_values import settings_schema
from service.profiles.config import load_config
from tests.helm.chart import CHART, EXAMPLES, Helm, Object, example, of_kind, pods_of, settings_of

NAMESPACE = "llm"


def test_the_schema_of_the_settings_is_current() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["$defs"]["settings"] == json.loads(json.dumps(settings_schema())), "run `make docs`"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_file_holds_the_values_with_addresses_and_nothing_else(
    releases: dict[str, list[Object]], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "specserve.yaml"
    path.write_text(settings_of(releases[name]), encoding="utf-8")
    load_config(path)  # refuses what is wrong
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    asked = yaml.safe_load(example(name).read_text(encoding="utf-8")).get("config", {})
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    asked = {**defaults, **asked, "engine": {**defaults["engine"], **asked.get("engine", {})}}
    filled = [pool.pop("backends") for model in written["models"] for pool in model["pools"]]
    given = [pool.pop("backends", None) for model in asked["models"] for pool in model["pools"]]
    assert written == asked
    assert all(filled) and all(found == own for found, own in zip(filled, given, strict=True) if own)


def test_backends_are_the_names_of_pods_up_to_the_most_replicas(releases: dict[str, list[Object]]) -> None:
    models = yaml.safe_load(settings_of(releases["multi-pool-auto"]))["models"]
    pools = {pool["name"]: pool["backends"] for model in models for pool in model["pools"]}
    workloads = {found["metadata"]["name"]: found for found in of_kind(releases["multi-pool-auto"], "StatefulSet")}
    name = "demo-specserve-drafted"
    assert pools["drafted"] == [f"http://{name}-{index}.{name}.{NAMESPACE}.svc:30000" for index in range(3)]
    assert len(pools["throughput"]) == 4
    assert workloads[name]["spec"]["serviceName"] == name
    assert "demo-specserve-elsewhere" not in workloads


def test_prefill_and_decode_engines_are_reached_through_their_router(releases: dict[str, list[Object]]) -> None:
    objects = releases["pd-disaggregation"]
    (model,) = yaml.safe_load(settings_of(objects))["models"]
    assert model["pools"][0]["backends"] == ["http://demo-specserve-split.llm.svc:30000"]
    args = pods_of(objects)["demo-specserve-split"]["containers"][0]["args"]
    assert args.count("--prefill") == 2 and args.count("--decode") == 3
    assert args[args.index("--prefill") + 1 :][:2] == [
        "http://demo-specserve-split-prefill-0.demo-specserve-split-prefill.llm.svc:30000",
        "8998",
    ]


BAD: dict[str, tuple[str, str]] = {
    "unknown setting": ("config: {gateway: {prot: 1}}", "additional properties 'prot' not allowed"),
    "unknown value": ("engineDefaults: {replica: 1}", "additional properties 'replica' not allowed"),
    "wrong kind": ("gateway: {replicas: two}", "at '/gateway/replicas': got string, want integer"),
    "wrong algorithm": (
        "config: {models: [{pools: [{profile: {speculation: {algorithm: eagle4}}}]}]}",
        "value must be one of 'none', 'specserve', 'ngram'",
    ),
    "secret in the open": ("config: {gateway: {api_key: s3cret}}", "name that in secrets.apiKey"),
    "store in the open": ("config: {admission: {rate_store: 'redis://:s3cret@x'}}", "name that in secrets.rateStore"),
    "host": ("config: {gateway: {host: 0.0.0.0}}", "use gateway.listen"),
    "cache folder": ("config: {cache_dir: /x}", "the volume of modelCache"),
    "place": ("config: {engine: {node_rank: 1}}", "set by the chart in each pod: remove it"),
    "pool name": ("config: {models: [{pools: [{name: Big_Pool}]}]}", "lower-case letters, digits and hyphens"),
    "two pools": (
        "config: {models: [{name: a, pools: [{name: x}]}, {name: b, pools: [{name: x}]}]}",
        'two pools are named "x"',
    ),
    "engines of no pool": ("engines: {odd: {replicas: 2}}", "belongs to no pool of config.models: pools are default"),
    "kind of GPU": ("engineDefaults: {gpuKind: h300}", 'gpuKind "h300" is not in gpuKinds'),
    "root user": ("podSecurityContext: {runAsNonRoot: false}", "/podSecurityContext/runAsNonRoot"),
    "image volume": ("modelCache: {image: {reference: models:1}}", "set offline true"),
    "draft volume": ("engineDefaults: {draftVolume: {mountPath: /d}}", "needs existingClaim or image"),
    "uneven machines": (
        "config: {models: [{pools: [{profile: {runtime: {device: cuda, tp: 3, nodes: 2}}}]}]}",
        "3 processes do not split over 2 machines",
    ),
    "scaled pairs": (
        "engineDefaults: {autoscaling: {mode: keda}}\n"
        "config: {models: [{pools: [{profile: {runtime: {device: cuda}}, prefill: {device: cuda}}]}]}",
        "set autoscaling.mode none",
    ),
    "route to nowhere": ("httpRoute: {enabled: true}", "which Gateway takes the route?"),
    "ingress without a name": ("ingress: {enabled: true}", "under which name do clients come?"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_values_are_refused_with_a_readable_message(helm: Helm, name: str, tmp_path: Path) -> None:
    text, words = BAD[name]
    values = tmp_path / "bad.yaml"
    values.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="Error") as refused:
        helm.template(values)
    assert words in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_large_numbers_stay_whole(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "large.yaml"
    values.write_text(
        "config: {gateway: {max_body_bytes: 1000000}, models: [{pools: [{profile: {kv: {max_tokens: 20000000}}}]}]}"
    )
    path = tmp_path / "specserve.yaml"
    path.write_text(settings_of(helm.template(values)), encoding="utf-8")
    config = load_config(path)
    assert config.gateway.max_body_bytes == 1_000_000
    assert config.models[0].pools[0].profile.kv.max_tokens == 20_000_000
