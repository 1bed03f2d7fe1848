"""The rules: taken by Prometheus, tried by promtool, about series that are there, each with a page that helps."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.compose import ROOT, compose_file, sources
from tests.deploy.programs import program
from tests.deploy.promql import RULES, gateway_series, known, names_in, rules

CASES = Path(__file__).with_name("rules") / "alerts.test.yml"
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}


def promtool(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool").path, *args], cwd=cwd, capture_output=True, text=True, timeout=60)


def test_prometheus_takes_its_configuration_with_the_rules() -> None:
    done = promtool("check", "config", "deploy/prometheus/prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert f"{len(rules())} rules found" in done.stdout


def test_alerts_fire_when_they_must_and_stay_silent_otherwise() -> None:
    done = promtool("test", "rules", str(CASES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_rule_fails_its_cases(tmp_path: Path) -> None:
    rule = tmp_path / "rules.yml"
    rule.write_text(RULES.read_text("utf-8").replace("backend:specserve_kv_used:ratio > 0.95", "vector(0) > 1"))
    cases = tmp_path / "cases.yml"
    cases.write_text(re.sub(r"rule_files: .*", f"rule_files: [{rule}]", CASES.read_text("utf-8")))
    done = promtool("test", "rules", str(cases))
    assert done.returncode != 0 and "SpecserveKvRoomExhausted" in done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_case_in_which_it_fires(alert: str) -> None:
    firing = [
        case["expr"] if "expr" in case else case["alertname"]
        for group in yaml.safe_load(CASES.read_text("utf-8"))["tests"]
        for case in group.get("promql_expr_test", []) + group.get("alert_rule_test", [])
        if case.get("exp_samples") or case.get("exp_alerts")
    ]
    assert any(alert in text or re.search(r'=~"SpecserveErrorBudget', text) and "Budget" in alert for text in firing)


def test_rules_ask_for_series_that_are_there() -> None:
    asked = {name for rule in rules() for name in names_in(rule["expr"])}
    assert asked - known() == set()
    assert "specserve_requests_total" in gateway_series() and "specserve_sheds_total" not in known()


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_is_wrong_and_links_a_page_about_it(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert len(rule["annotations"]["summary"]) > 30
    link = rule["annotations"]["runbook_url"]
    assert re.fullmatch(r"docs/runbooks/[a-z0-9-]+\.md", link)
    page = (ROOT / link).read_text(encoding="utf-8")
    assert f"`{alert}`" in page
    assert {"## Look at", "## Do"} <= set(page.splitlines())
    for query in re.findall(r"```promql\n(.+?)\n```", page, re.DOTALL):
        assert names_in(query) <= known(), query


def test_every_page_is_of_an_alert() -> None:
    pages = {f"docs/runbooks/{path.name}" for path in (ROOT / "docs/runbooks").glob("*.md")}
    assert pages == {rule["annotations"]["runbook_url"] for rule in ALERTS.values()} | {"docs/runbooks/README.md"}
    index = (ROOT / "docs/runbooks/README.md").read_text(encoding="utf-8")
    assert all(f"`{alert}`" in index for alert in ALERTS)


def test_compose_mounts_the_rules() -> None:
    mounts = sources(compose_file()["services"]["prometheus"])
    assert mounts["/etc/prometheus"] == "./deploy/prometheus"
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    assert [path for pattern in config["rule_files"] for path in (ROOT / "deploy/prometheus").glob(pattern)] == [RULES]
