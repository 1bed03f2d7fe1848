"""What rules and dashboards ask for, and what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser
import yaml
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from service.api.app import create_app
from service.profiles.config import Config, Model, Pool
from tests.deploy.compose import ROOT

DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
RULES = ROOT / "deploy" / "prometheus" / "rules" / "specserve.yml"
# What SGLang 0.5.23 exposes with --enable-metrics, as far as we use it; tests/e2e holds the list against an engine.
SGLANG = frozenset(
    {
        *("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate"),
        *("sglang:gen_throughput",),
    }
)
# What Prometheus makes itself.
PROMETHEUS = frozenset({"up", "ALERTS", "scrape_duration_seconds"})
_PARTS = ("expr", "lhs", "rhs", "param", "vector_selector", "args")


@cache
def gateway_series() -> frozenset[str]:
    """Names of all samples that a gateway can expose."""
    registry = CollectorRegistry()
    pool = Pool(name="p", backends=("http://127.0.0.1:9",))
    create_app(Config(models=(Model(name="m", pools=(pool,)),)), registry=registry)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    names = set()
    for family in registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "info": ("_info",)}
        names |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return frozenset(names)


def known() -> frozenset[str]:
    """Every series that can be asked for."""
    return gateway_series() | SGLANG | PROMETHEUS | recorded()


@cache
def rules() -> list[dict[str, Any]]:
    """Every rule of the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def dashboards() -> dict[str, dict[str, Any]]:
    """Every dashboard as Grafana gets it, by the name of its file."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))}


def asked_by(dashboard: dict[str, Any]) -> list[tuple[str, str]]:
    """Title of the panel and query of everything that a dashboard asks."""
    found = ((panel["title"], target) for panel in dashboard["panels"] for target in panel.get("targets", []))
    return [(title, target["expr"]) for title, target in found]


def filled_in(query: str, interval: str = "5m") -> str:
    """A query with Grafana's variables filled in: everything chosen."""
    return re.sub(r"\$(namespace|model|pool)\b", ".*", query.replace("$__rate_interval", interval))


def recorded() -> frozenset[str]:
    """Names of series that recording rules make."""
    return frozenset(rule["record"] for rule in rules() if "record" in rule)


def names_in(expression: str) -> set[str]:
    """The series that an expression asks for. Raises ValueError when it is no PromQL."""
    return set(_names(promql_parser.parse(expression)))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
    for part in _PARTS:
        found = getattr(node, part, None)
        for child in found if isinstance(found, list) else [found]:
            if child is not None and not isinstance(child, str):
                yield from _names(child)
