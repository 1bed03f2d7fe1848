"""Real Helm renders every example, and Kubernetes would take what it renders."""

from __future__ import annotations

import copy

import pytest

from tests.helm.chart import EXAMPLES, KUBERNETES, Helm, Object, example, of_kind
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
        *("NetworkPolicy", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PodMonitor", "ScaledObject"),
        *("Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }


@pytest.mark.parametrize(
    ("release", "kind", "path"),
    [
        ("laptop-cpu", "StatefulSet", ("spec", "template", "spec")),
        ("multi-node-tp16", "LeaderWorkerSet", ("spec", "leaderWorkerTemplate", "workerTemplate", "spec")),
        ("multi-pool-auto", "ScaledObject", ("spec",)),
        ("multi-pool-auto", "HTTPRoute", ("spec",)),
        ("one-gpu", "ServiceMonitor", ("spec",)),
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


def test_names_fit_whatever_the_release_is_called(helm: Helm) -> None:
    objects = helm.template(example("pd-disaggregation"), fullnameOverride="a-very-long-name-of-a-release-indeed")
    names = [found["metadata"]["name"] for found in of_kind(objects, "StatefulSet")]
    assert names and max(map(len, names)) <= 52
