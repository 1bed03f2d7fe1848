"""A pool that drops tokens names the report that proves its answers."""

from __future__ import annotations

import json
from pathlib import Path

from service.profiles.facts import Facts, QualityReport
from service.profiles.quality_file import read_quality
from service.profiles.rules import Finding, check
from tests.profiles.profiles import profile

MODEL = "smollm2-135m-instruct"


def findings(report: QualityReport | None, **kv: object) -> list[Finding]:
    settings = {"eviction": "snapkv", "budget": 256, "quality_report": "summary.json", **kv}
    return list(check(profile(kv=settings), Facts(quality=report)))


def test_a_report_that_passed_is_enough() -> None:
    assert findings(QualityReport(policy="snapkv:256", model=MODEL, passed=True)) == []


def test_a_report_of_something_else_proves_nothing() -> None:
    for report in (
        QualityReport(policy="snapkv:512", model=MODEL, passed=True),
        QualityReport(policy="snapkv:256", model="another", passed=True),
    ):
        (found,) = findings(report)
        assert (found.level, found.field) == ("error", "kv.quality_report")
        assert "run `specserve bench quality` for this pool" in found.message


def test_missed_thresholds_refuse_unless_forced_by_name() -> None:
    report = QualityReport(policy="snapkv:256", model=MODEL, passed=False, missed=("recall_ratio",))
    (refused,) = findings(report)
    assert (refused.level, refused.field) == ("error", "kv.eviction")
    assert "recall_ratio" in refused.message and "kv.quality_forced snapkv" in refused.message
    (other,) = findings(report, quality_forced="streaming")
    assert other.level == "error"
    (forced,) = findings(report, quality_forced="snapkv")
    assert (forced.level, forced.field) == ("warning", "kv.quality_forced")


def test_reports_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps({"policy": "snapkv:256", "model": MODEL, "passed": False, "missed": ["agreement"]}))
    assert read_quality(None) is None
    assert read_quality(str(file)) == QualityReport(None, "snapkv:256", MODEL, False, ("agreement",))
    file.write_text("{}")
    for path, words in ((file, "is no report"), (tmp_path / "absent.json", "cannot be read (No such file")):
        report = read_quality(str(path))
        assert report is not None and report.problem is not None and words in report.problem
        (found,) = findings(report)
        assert (found.level, found.field) == ("error", "kv.quality_report")
