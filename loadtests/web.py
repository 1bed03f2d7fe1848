"""Our part of Locust's web page: a table by kind with speculation in it, and a page of live charts."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, request
from locust.env import Environment

from loadtests.charts import live_page
from loadtests.summary import summarize

TAB = "speculation"
COLUMNS = (
    ("kind", "Kind"),
    ("requests", "# Requests"),
    ("ttft_p50_ms", "TTFT p50 (ms)"),
    ("ttft_p99_ms", "TTFT p99 (ms)"),
    ("itl_p50_ms", "ITL p50 (ms)"),
    ("tpot_p50_ms", "TPOT p50 (ms)"),
    ("tokens_per_s", "Tokens/s"),
    ("goodput", "Goodput (%)"),
    ("acceptance_length", "Acceptance length"),
    ("prefix_hits", "Prefix hits (%)"),
)


def add_pages(environment: Environment) -> None:
    """Add the tab, its figures, and `/speculation`."""
    web = environment.web_ui
    assert web is not None
    structure = [{"key": key, "title": title} for key, title in COLUMNS]
    web.template_args |= {
        "extended_tabs": [{"title": "Speculation", "key": TAB}],
        "extended_tables": [{"key": TAB, "structure": structure}],
        "extended_csv_files": [{"href": "speculation", "title": "Charts of latency and speculation"}],
    }

    @web.app.route("/speculation")
    def charts() -> str:
        test = getattr(environment, "specserve", None)
        return live_page(test.journal.records if test else ())

    @web.app.after_request
    def extend(response: Response) -> Response:
        if request.path == "/stats/requests" and response.is_json:
            page = orjson.loads(response.get_data())
            page["extended_stats"] = [{"key": TAB, "data": table(environment)}]
            response.set_data(orjson.dumps(page))
        return response


def table(environment: Environment) -> list[dict[str, Any]]:
    """One row a kind and one of all; an absent figure is a dash."""
    test = getattr(environment, "specserve", None)
    if test is None or not test.journal.records:
        return []
    figures = summarize(test.journal.records, max(test.clock(), 1e-9), test.options.slo)
    return [_row(name, row) for name, row in [*figures["kinds"].items(), ("all", figures["all"])]]


def _row(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "requests": row["requests"],
        "ttft_p50_ms": _shown(row["ttft_s"]["p50"], 1e3),
        "ttft_p99_ms": _shown(row["ttft_s"]["p99"], 1e3),
        "itl_p50_ms": _shown(row["itl_s"]["p50"], 1e3),
        "tpot_p50_ms": _shown(row["tpot_s"]["p50"], 1e3),
        "tokens_per_s": _shown(row["tokens_per_s"]),
        "goodput": _shown(row["goodput_share"], 100),
        "acceptance_length": _shown(row["acceptance_length"]),
        "prefix_hits": _shown(row["prefix_hit_share"], 100),
    }


def _shown(value: float | None, times: float = 1) -> str:
    return "-" if value is None else f"{value * times:.4g}"
