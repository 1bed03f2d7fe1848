"""Rules and dashboards of a release."""

from __future__ import annotations

import json

import yaml

from tests.deploy.promql import RULES, dashboards
from tests.helm.chart import Helm, Object, example, of_kind


def test_the_release_has_the_rules_of_the_repository(releases: dict[str, list[Object]]) -> None:
    (found,) = of_kind(releases["one-gpu"], "PrometheusRule")
    own = RULES.read_text(encoding="utf-8").replace(
        "docs/runbooks/", "https://wiki.example.org/specserve/docs/runbooks/"
    )
    assert found["spec"] == yaml.safe_load(own)
    assert of_kind(releases["laptop-cpu"], "PrometheusRule") == []


def test_links_stay_as_they_are_without_a_place_for_the_pages(helm: Helm) -> None:
    (found,) = of_kind(helm.template(example("one-gpu"), prometheusRule__runbooks=""), "PrometheusRule")
    assert found["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))


def test_the_release_has_a_config_map_for_each_dashboard(releases: dict[str, list[Object]]) -> None:
    maps = [found for found in of_kind(releases["one-gpu"], "ConfigMap") if "specserve.yaml" not in found["data"]]
    read = {name: json.loads(text) for found in maps for name, text in found["data"].items()}
    assert read == {f"specserve-{name}.json": board for name, board in dashboards().items()}
    for found in maps:
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["annotations"] == {"grafana_folder": "specserve"}
