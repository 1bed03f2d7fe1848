"""Locust itself with our file: closed and open loops against the mock engine, its page, the report of two runs."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from loadtests.journal import read_records
from loadtests.record import Record, Slo
from loadtests.report import Run, main, ratios
from loadtests.service import free_port, started
from loadtests.summary import summarize

ROOT = Path(__file__).parents[2]
PLAN = ("--model", "plan=6,2,even;", "--think-s", "0.01", "--spawn-rate", "100", "--stop-timeout", "20")


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "service.bench.gateway.mock", str(port)]
    with started("mock", command, tmp_path_factory.mktemp("mock"), {"PYTHONPATH": str(ROOT)}):
        url = f"http://127.0.0.1:{port}"
        _get(f"{url}/v1/models")
        yield url


def locust(url: str, out: Path, *arguments: str, data: Path) -> list[str]:
    file = str(ROOT / "loadtests" / "locustfile.py")
    return [
        sys.executable,
        "-m",
        "locust",
        "-f",
        file,
        "--host",
        url,
        "--out",
        str(out),
        "--data",
        str(data),
        *PLAN,
        *arguments,
    ]


def headless(url: str, out: Path, *arguments: str, data: Path) -> list[Record]:
    command = [*locust(url, out, *arguments, data=data), "--headless"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return read_records(out / "requests.jsonl")


def _get(url: str) -> bytes:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            body: bytes = answer.read()
            return body
        time.sleep(0.1)
    raise AssertionError(f"no answer from {url}")


def sent(out: Path) -> int:
    count: int = orjson.loads((out / "sent.json").read_bytes())["sent"]
    return count


def test_a_closed_loop_and_a_report_of_two_runs(
    mock: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        records = headless(mock, folder, "--users", "16", "--run-time", "2", data=data)
        assert sent(folder) == len(records) > 50
        assert {record.outcome for record in records} <= {"ok", "left"}
        assert {record.kind for record in records} >= {"chat", "rag", "code", "agent", "abandon"}
        summary = summarize(records, 2.0, Slo(1, 1)) | {"facts": {"cores": 2}}
        (folder / "summary.json").write_bytes(orjson.dumps(summary))
    assert main([str(folder) for folder in folders]) == 0
    page = Path(capsys.readouterr().out.strip()).read_text(encoding="utf-8")
    assert page.count("<svg") >= 6
    assert "one over two" in page and "http" not in page.replace("http://www.w3.org", "").split("<svg")[0]
    rows = {row["measure"]: row for row in ratios(*(Run.read(folder) for folder in folders))}
    assert rows["ttft_s"]["low"] <= rows["ttft_s"]["ratio"] <= rows["ttft_s"]["high"]


def test_an_open_loop_sends_when_due_however_slow_the_answers(mock: str, data: Path, tmp_path: Path) -> None:
    # Answers of 0.5 s at 40 arrivals a second: a closed loop of few users could not send so many.
    arguments = ("--arrivals", "poisson", "--rate", "40", "--run-time", "2", "--mix", "chat=1")
    records = headless(mock, tmp_path, *arguments, "--model", "plan=25,20,even;", data=data)
    first = [record for record in records if record.late_s < 0.05]
    assert sent(tmp_path) == len(records)
    assert len(first) > 50
    assert max(record.at for record in records) < 4


def test_a_trace_is_replayed(mock: str, data: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    shape = {"prompt_tokens": 80, "completion_tokens": 4, "prefix": ["a"], "stream": True}
    trace.write_bytes(b"\n".join(orjson.dumps({"at": 100 + at, **shape}) for at in (0, 0.3, 0.6)))
    records = headless(mock, tmp_path, "--arrivals", "trace", "--trace", str(trace), "--run-time", "30", data=data)
    assert [round(record.at, 6) for record in sorted(records, key=lambda r: r.at)] == [0, 0.3, 0.6]


def test_a_bounded_number_of_requests(mock: str, data: Path, tmp_path: Path) -> None:
    records = headless(mock, tmp_path, "--users", "2", "--run-time", "30", "--requests", "10", data=data)
    assert 10 <= len(records) <= 14


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--rate", "-1"), "--rate must be"), (("--data", "/nowhere"), "/nowhere/prompts.jsonl")]
)
def test_bad_options_are_one_sentence(data: Path, arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    command = [*locust("http://127.0.0.1:9", tmp_path, *arguments, data=data), "--headless"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr


def test_the_page_has_a_tab_and_charts(mock: str, data: Path, tmp_path: Path) -> None:
    port = free_port()
    command = locust(
        mock, tmp_path, "--users", "4", "--run-time", "20", "--autostart", "--web-port", str(port), data=data
    )
    with started("locust", command, tmp_path, {"PYTHONPATH": str(ROOT)}):
        page = f"http://127.0.0.1:{port}"
        assert b"Speculation" in _get(f"{page}/?tab=speculation")
        deadline = time.monotonic() + 20
        rows: list[dict[str, str]] = []
        while not rows and time.monotonic() < deadline:
            time.sleep(0.3)
            (told,) = orjson.loads(_get(f"{page}/stats/requests"))["extended_stats"]
            rows = told["data"]
        assert rows[-1]["kind"] == "all" and float(rows[-1]["tokens_per_s"]) > 0
        assert rows[-1]["acceptance_length"] == "-"  # the mock told nothing: no client of it asked
        assert _get(f"{page}/speculation").count(b"<svg") >= 3


@pytest.mark.parametrize("broken", [None, b"{", b'{"at": 1}'])
def test_a_folder_without_a_run_is_refused(
    broken: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.json").write_bytes(b"{}")
    if broken is not None:
        (tmp_path / "requests.jsonl").write_bytes(broken)
    assert main([str(tmp_path)]) == 2
    assert "requests.jsonl" in capsys.readouterr().err
