"""`python -m loadtests.run SCENARIO`: starts the service on real SGLang, loads it with Locust, writes the report."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from loadtests.facts import machine_facts
from loadtests.gateway_view import compare, read_scrape
from loadtests.journal import read_records
from loadtests.levels import SPIKE_AT
from loadtests.monitor import Monitor
from loadtests.options import KEYS
from loadtests.record import Record, Slo
from loadtests.report import Run, write_report
from loadtests.scenarios import SCENARIOS, Scenario
from loadtests.service import Service, free_port, running, started
from loadtests.summary import recovery_s, summarize

_LOCUSTFILE = Path(__file__).with_name("locustfile.py")
_ROOT = Path(__file__).parents[1]
SLO = Slo(ttft_s=2.0, tpot_s=0.2)
_WINDOW_S, _WITHIN = 5.0, 1.5
"""Recovered: the p90 of first tokens within 5 s windows is at most 1.5 times what it was before the spike."""


def measure(name: str, scenario: Scenario, out: Path, config: Path | None, say: Callable[[str], None]) -> Run:
    """Run the scenario; `out` then holds requests.jsonl, summary.json and logs. Blocks for the whole test.

    Raises RuntimeError when the service or Locust does not run.
    """
    out.mkdir(parents=True, exist_ok=True)
    ceiling = _ceiling(out / "ceiling", say) if scenario.ceiling else None
    say("starting the service")
    with running(out, config, scenario.tenants) as service:
        before = read_scrape(service.metrics())
        say(f"{name}: {scenario.about}")
        arguments = (*scenario.arguments, "--engine", service.engine)
        env = {KEYS: ",".join(f"{tenant}={key}" for tenant, key in service.keys.items())}
        monitor = _locust(service.url, arguments, out, env, service)
        after = read_scrape(service.metrics())
    records = read_records(out / "requests.jsonl")
    seconds = max((record.at + record.e2e_s for record in records), default=0.0)
    if not records:
        raise RuntimeError(f"Locust sent nothing; see {out / 'locust.log'}")
    processes = {each: series.line(scenario.settle_s) for each, series in monitor.series.items()}
    summary = summarize(records, seconds, SLO) | {
        "scenario": name,
        "command": f"make loadtest SCENARIO={name}",
        "facts": machine_facts() | _verdicts(records, scenario, out, seconds, processes, ceiling),
        "gateway": [row.line() for row in compare(before, after, records)],
        "processes": processes,
    }
    (out / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    return Run.read(out)


def _locust(url: str, arguments: Sequence[str], out: Path, env: Mapping[str, str], service: Service | None) -> Monitor:
    """Run Locust to its end, everything watched meanwhile."""
    command = [sys.executable, "-m", "locust", "-f", str(_LOCUSTFILE), "--headless", "--host", url, "--out", str(out)]
    command += ["--spawn-rate", "100", "--stop-timeout", "150", "--exit-code-on-error", "0", *arguments]
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with started("locust", command, out, {**env, "PYTHONPATH": path}) as process:
        pids = {"locust": process.pid}
        if service is not None:
            pids |= {"gateway": service.gateway_pid, "engine": service.engine_pid}
        with Monitor(pids, alone=("gateway",)) as monitor:
            status = process.wait()
    if status:
        last = (out / "locust.log").read_text(errors="replace").splitlines()[-3:]
        raise RuntimeError(f"Locust ended with status {status}; see {out / 'locust.log'}: {' | '.join(last)}")
    return monitor


def _ceiling(out: Path, say: Callable[[str], None]) -> dict[str, float | None]:
    """Requests and pieces of text a second that the generator manages when the answers cost nothing."""
    say("the generator's own ceiling, against the mock engine")
    out.mkdir(parents=True, exist_ok=True)
    port = free_port()
    mock = [sys.executable, "-m", "service.bench.gateway.mock", str(port)]
    # The mock reads its plan anywhere in the request.
    arguments = ("--model", "plan=24,1,even;", "--users", "64", "--run-time", "10", "--think-s", "0", "--mix", "chat=1")
    with started("mock", mock, out, {}):
        monitor = _locust(f"http://127.0.0.1:{port}", arguments, out, {}, None)
    records = [record for record in read_records(out / "requests.jsonl") if record.outcome == "ok"]
    seconds = max(record.at + record.e2e_s for record in records)
    return {
        "requests_per_s": len(records) / seconds,
        "pieces_per_s": sum(1 + len(record.gaps_s) for record in records) / seconds,
        "cpu_mean": monitor.series["locust"].line(0)["cpu_mean"],
    }


def _verdicts(
    records: Sequence[Record],
    scenario: Scenario,
    out: Path,
    seconds: float,
    processes: Mapping[str, Mapping[str, Any]],
    ceiling: Mapping[str, float | None] | None,
) -> dict[str, Any]:
    """What the scenario is about, in figures; None is what could not be told."""
    sent = orjson.loads((out / "sent.json").read_bytes())["sent"]
    facts: dict[str, Any] = {"sent and never accounted for": sent - len(records)}
    facts["failed"] = sum(record.outcome == "failed" for record in records)
    facts["generator's CPU, % of a core"] = processes["locust"]["cpu_mean"]
    if ceiling is not None:
        facts["generator's ceiling, requests/s"] = ceiling["requests_per_s"]
        facts["generator's ceiling, pieces of text/s"] = ceiling["pieces_per_s"]
        facts["requests/s in this run"] = len(records) / seconds
        facts["pieces of text/s in this run"] = sum(1 + len(record.gaps_s) for record in records) / seconds
    if "spike" in scenario.arguments:
        length = float(scenario.arguments[scenario.arguments.index("--run-time") + 1])
        begin, end = (share * length for share in SPIKE_AT)
        facts["recovery after the spike, s"] = recovery_s(records, begin, end, window_s=_WINDOW_S, within=_WITHIN)
    if (out / "storm.json").exists():
        storm = orjson.loads((out / "storm.json").read_bytes())
        facts |= {f"storm: {key}": value for key, value in storm.items()}
    return facts


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when something failed or was lost, 2 for a run that could not be."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.run", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS, nargs="?", default="mixed")
    parser.add_argument("--config", type=Path, help="settings with one local engine; none: the default model")
    parser.add_argument("--out", type=Path, help="folder; none: bench-out/loadtest/SCENARIO")
    parser.add_argument("--against", type=Path, help="folder of an earlier run to compare with in the report")
    options = parser.parse_args(arguments)
    out = options.out or Path("bench-out/loadtest") / options.scenario
    try:
        other = Run.read(options.against) if options.against else None
        run = measure(options.scenario, SCENARIOS[options.scenario], out, options.config, _say)
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
        _say(f"error: {error}")
        return 2
    _say(f"written: {write_report(out / 'report.html', run, other)}")
    facts, disagreeing = run.summary["facts"], [row for row in run.summary["gateway"] if row["agrees"] is False]
    for name, value in facts.items():
        _say(f"{name}: {value}")
    for row in disagreeing:
        _say(f"the gateway's histogram disagrees: {row}")
    lost = facts["sent and never accounted for"] or facts["failed"] or facts.get("storm: orphans")
    return 1 if lost or disagreeing else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
