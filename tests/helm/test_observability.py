"""Rules of a release."""

from __future__ import annotations

import yaml

from tests.deploy.promql import RULES
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
