"""Real Helm renders every example, and Kubernetes would take what it renders."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.helm.chart import EXAMPLES, KUBERNETES, Helm, Object, engines_of, example, of_kind
from tests.helm.schemas import faults

WANTED = {
    *("laptop-cpu", "one-gpu", "eagle3-fp8kv", "multi-pool-auto"),
    *("multi-node-tp16", "pd-disaggregation", "air-gapped"),
}


def test_every_wanted_example_is_there() -> None:
    assert set(EXAMPLES) == WANTED


@pytest.mark.parametrize("name", EXAMPLES)
def test_lint_is_strict(helm: Helm, name: str) -> None:
    helm.lint(example(name))


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_three_versions_of_kubernetes_take_every_object(helm: Helm, name: str, kubernetes: str) -> None:
    objects = helm.template(example(name), kubernetes=kubernetes)
    assert [fault for found in objects for fault in faults(found, kubernetes)] == []


def test_the_examples_cover_every_kind(releases: dict[str, list[Object]]) -> None:
    kinds = {found["kind"] for objects in releases.values() for found in objects}
    assert kinds == {
        *("ConfigMap", "Deployment", "HTTPRoute", "HorizontalPodAutoscaler", "Ingress", "LeaderWorkerSet"),
        *("NetworkPolicy", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule"),
        *("ScaledObject", "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }


@pytest.mark.parametrize(
    ("release", "kind", "path"),
    [
        ("laptop-cpu", "StatefulSet", ("spec", "template", "spec")),
        ("multi-node-tp16", "LeaderWorkerSet", ("spec", "leaderWorkerTemplate", "workerTemplate", "spec")),
        ("multi-pool-auto", "ScaledObject", ("spec",)),
        ("multi-pool-auto", "HTTPRoute", ("spec",)),
        ("one-gpu", "ServiceMonitor", ("spec",)),
        ("one-gpu", "PrometheusRule", ("spec", "groups", 0, "rules", 0)),
    ],
)
def test_the_schemas_refuse_unknown_fields(
    releases: dict[str, list[Object]], release: str, kind: str, path: tuple[str, ...]
) -> None:
    broken = copy.deepcopy(of_kind(releases[release], kind)[0])
    place = broken
    for key in path:
        place = place[key]
    place["replicaz"] = 1
    assert any("replicaz" in fault for fault in faults(broken, KUBERNETES[-1]))


ODD = """
offline: true
modelCache: {image: {reference: "models:1"}}
engineDefaults: {draftVolume: {mountPath: /drafts, image: "drafts:1"}, autoscaling: {mode: keda}}
engines: {"on": {autoscaling: {mode: hpa}}}
config: {models: [{name: "org/a: b #c", pools: [{name: "on"}, {name: "null"}]}]}
"""


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_odd_names_and_image_volumes_are_taken(helm: Helm, kubernetes: str, tmp_path: Path) -> None:
    values = tmp_path / "odd.yaml"
    values.write_text(ODD, encoding="utf-8")
    objects = helm.template(values, kubernetes=kubernetes)
    assert [fault for found in objects for fault in faults(found, kubernetes)] == []
    for container in engines_of(objects).values():
        assert container["args"][-1] in ("on", "null")
    (scaler,) = of_kind(objects, "ScaledObject")
    assert 'model="org/a: b #c",pool="null"' in scaler["spec"]["triggers"][0]["metadata"]["query"]
    (scaler,) = of_kind(objects, "HorizontalPodAutoscaler")
    assert [metric["external"]["metric"]["selector"] for metric in scaler["spec"]["metrics"]] == [
        {"matchLabels": {"pool": "on"}}
    ] * 2


def test_names_fit_whatever_the_release_is_called(helm: Helm) -> None:
    objects = helm.template(example("pd-disaggregation"), fullnameOverride="a-very-long-name-of-a-release-indeed")
    names = [found["metadata"]["name"] for found in of_kind(objects, "StatefulSet")]
    assert names and max(map(len, names)) <= 52
