"""Probes, drains, scaling, security and networks of every example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from service.telemetry.kv import KvSeries
from service.telemetry.metrics import FIRST_TOKEN, Metrics
from tests.helm.chart import CHART, EXAMPLES, Helm, Object, engines_of, example, of_kind, pods_of, settings_of

# Series of the gateway that carry no suffix of their own, and what the chart's README makes of them.
ADAPTED = {"specserve_kv_used_percent", "specserve_first_token_late_percent"}


def settings(objects: list[Object]) -> Any:
    return yaml.safe_load(settings_of(objects))


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_pod_can_do_more_than_it_must(releases: dict[str, list[Object]], name: str) -> None:
    for pod in pods_of(releases[name]).values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert set(security["capabilities"].get("add", ())) <= {"IPC_LOCK"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_engine_may_load_as_long_as_its_launcher_waits(releases: dict[str, list[Object]], name: str) -> None:
    ready_s = settings(releases[name])["engine"]["ready_timeout_s"]
    assert ready_s >= 3600
    for container in engines_of(releases[name]).values():
        startup, liveness = container["startupProbe"], container["livenessProbe"]
        assert ready_s + 30 <= startup["periodSeconds"] * startup["failureThreshold"] <= ready_s + 120
        assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 120
        assert {probe["httpGet"]["port"] for probe in (startup, liveness, container["readinessProbe"])} == {"engine"}
    (gateway,) = gateways(releases[name])
    assert gateway["spec"]["progressDeadlineSeconds"] > ready_s


@pytest.mark.parametrize("name", EXAMPLES)
def test_gateways_are_probed_on_the_operations_port(releases: dict[str, list[Object]], name: str) -> None:
    (container,) = pods_of(releases[name])["demo-specserve-gateway"]["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in paths.values()} == {"ops"}
    assert [probe["path"] for probe in paths.values()] == ["/livez", "/livez", "/readyz"]
    assert {"name": "ops", "containerPort": 8001} in container["ports"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_pods_live_until_their_drain_is_over(releases: dict[str, list[Object]], name: str) -> None:
    told, pods = settings(releases[name]), pods_of(releases[name])
    gateway = pods["demo-specserve-gateway"]
    pause = gateway["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = told.get("gateway", {}).get("drain_timeout_s", 30)
    assert gateway["terminationGracePeriodSeconds"] > pause + drain_s
    for workload in engines_of(releases[name]):
        assert pods[workload]["terminationGracePeriodSeconds"] > told["engine"]["stop_grace_s"]


def test_no_drain_means_none(helm: Helm) -> None:
    pods = pods_of(helm.template(config__gateway__drain_timeout_s="0"))
    assert pods["demo-specserve-gateway"]["terminationGracePeriodSeconds"] == 20


@pytest.mark.parametrize(
    ("name", "gpus"), [("one-gpu", 1), ("multi-pool-auto", 2), ("multi-node-tp16", 8), ("laptop-cpu", None)]
)
def test_each_machine_asks_for_the_gpus_of_its_processes(
    releases: dict[str, list[Object]], name: str, gpus: int | None
) -> None:
    for container in engines_of(releases[name]).values():
        assert container["resources"]["limits"].get("nvidia.com/gpu") == gpus


def test_scaling_asks_for_series_that_exist_and_never_for_the_cpu(releases: dict[str, list[Object]]) -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    KvSeries(registry)
    families = {family.name for family in registry.collect()}
    known = families | ADAPTED | {f"{name}_{part}" for name in families for part in ("bucket", "count")}
    scalers = of_kind(releases["multi-pool-auto"], "HorizontalPodAutoscaler", "ScaledObject")
    assert len(scalers) == 3
    for scaler in scalers:
        asked = set(re.findall(r"specserve_\w+", str(scaler["spec"].get("metrics") or scaler["spec"]["triggers"])))
        assert asked and asked <= known
        assert "Resource" not in str(scaler["spec"])


def test_scaled_workloads_leave_their_replicas_to_the_scaler(releases: dict[str, list[Object]]) -> None:
    workloads = of_kind(releases["multi-pool-auto"], "Deployment", "StatefulSet")
    assert len(workloads) == 3
    assert not [found for found in workloads if "replicas" in found["spec"]]


def test_kv_is_scaled_by_the_part_that_running_requests_hold(releases: dict[str, list[Object]]) -> None:
    (scaler,) = of_kind(releases["multi-pool-auto"], "ScaledObject")
    one, other, _ = scaler["spec"]["triggers"]
    assert one["metricType"] == "AverageValue" and one["metadata"]["threshold"] == "24"
    pool = '{namespace="llm",model="qwen3-32b",pool="drafted"}'
    assert one["metadata"]["query"] == f"sum(specserve_requests_in_flight{pool})"
    full = f'sum(specserve_kv_tokens{pool[:-1]},state="full"}})'
    assert other["metadata"]["query"] == f"100 * {full} / ({full} + sum(specserve_kv_room_tokens{pool}))"


def test_goodput_is_the_share_of_streams_within_a_bucket_that_exists(releases: dict[str, list[Object]]) -> None:
    (scaler,) = of_kind(releases["multi-pool-auto"], "ScaledObject")
    query = scaler["spec"]["triggers"][2]["metadata"]["query"]
    pool = 'namespace="llm",model="qwen3-32b",pool="drafted"'
    name = "specserve_time_to_first_token_seconds"
    early = f'sum(rate({name}_bucket{{{pool},le=~"0.8|0.8.0"}}[5m]))'
    assert query == f"100 * (1 - {early} / (sum(rate({name}_count{{{pool}}}[5m])) > 0)) or vector(0)"
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    scaling = schema["$defs"]["engine"]["properties"]["autoscaling"]["properties"]
    assert set(scaling["firstTokenSeconds"]["enum"]) - {None} <= set(FIRST_TOKEN)


def test_offline_asks_no_hub(releases: dict[str, list[Object]]) -> None:
    for name in ("laptop-cpu", "air-gapped"):
        for container in engines_of(releases[name]).values():
            assert {"name": "HF_HUB_OFFLINE", "value": "1"} in container["env"]
        engine = next(
            found for found in of_kind(releases[name], "NetworkPolicy") if "engine" in found["metadata"]["name"]
        )
        assert 443 not in [port["port"] for rule in engine["spec"]["egress"] for port in rule.get("ports", ())]


def test_the_hub_token_is_a_secret_of_engines_alone(releases: dict[str, list[Object]]) -> None:
    with_token = {
        name
        for name, pod in pods_of(releases["one-gpu"]).items()
        if "HF_TOKEN" in [entry["name"] for entry in pod["containers"][0].get("env", ())]
    }
    assert with_token == set(engines_of(releases["one-gpu"]))


def test_keys_and_the_store_of_rates_are_secrets_of_the_gateway_alone(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    named = "{apiKeys: {existingSecret: keys}, rateStore: {existingSecret: store}}"
    values.write_text(f"secrets: {named}", encoding="utf-8")
    objects = helm.template(values)
    pods = pods_of(objects)
    (gateway,) = pods["demo-specserve-gateway"]["containers"]
    env = {one["name"]: one for one in gateway["env"]}
    assert env["SPECSERVE_GATEWAY__API_KEYS"]["value"] == "/etc/specserve-keys/keys.yaml"
    reference = {"secretKeyRef": {"name": "store", "key": "url"}}
    assert env["SPECSERVE_ADMISSION__RATE_STORE"]["valueFrom"] == reference
    assert {"name": "keys", "mountPath": "/etc/specserve-keys", "readOnly": True} in gateway["volumeMounts"]
    volumes = {name: [volume["name"] for volume in pod["volumes"]] for name, pod in pods.items() if "volumes" in pod}
    assert [name for name, mounted in volumes.items() if "keys" in mounted] == ["demo-specserve-gateway"]
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "NetworkPolicy")}
    assert {"ports": [{"port": 6379}]} in policies["demo-specserve-gateway"]["egress"]


def test_only_gateways_and_readers_of_metrics_reach_engines(releases: dict[str, list[Object]]) -> None:
    policies = {found["metadata"]["name"]: found["spec"] for found in of_kind(releases["air-gapped"], "NetworkPolicy")}
    peers, callers = policies["demo-specserve-engine"]["ingress"]
    assert [found["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for found in peers["from"]] == [
        "engine",
        "pairing",
    ]
    assert callers["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    assert callers["ports"] == [{"port": 30000}]
    clients, test = policies["demo-specserve-gateway"]["ingress"][0]["from"]
    assert clients == {"namespaceSelector": {"matchLabels": {"team": "apps"}}}
    assert test["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"


def test_streams_pass_ingress_and_route_unbuffered_and_unbounded(releases: dict[str, list[Object]]) -> None:
    (ingress,) = of_kind(releases["one-gpu"], "Ingress")
    notes = {key.rpartition("/")[2]: value for key, value in ingress["metadata"]["annotations"].items()}
    assert (notes["proxy-buffering"], notes["proxy-read-timeout"]) == ("off", "3600")
    (route,) = of_kind(releases["multi-pool-auto"], "HTTPRoute")
    assert route["spec"]["rules"][0]["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_settings_of_the_gateway_restart_no_engine(helm: Helm) -> None:
    def marks(**sets: str) -> dict[str, str]:
        found = of_kind(helm.template(example("one-gpu"), **sets), "Deployment", "StatefulSet")
        return {
            found["kind"]: found["spec"]["template"]["metadata"]["annotations"]["specserve/config"] for found in found
        }

    before, gateway, engine = marks(), marks(config__gateway__max_choices="4"), marks(config__engine__log_level="info")
    assert before["StatefulSet"] == gateway["StatefulSet"] != engine["StatefulSet"]
    assert before["Deployment"] != gateway["Deployment"]


def gateways(objects: list[Object]) -> list[Object]:
    return [found for found in of_kind(objects, "Deployment") if found["metadata"]["name"].endswith("-gateway")]
