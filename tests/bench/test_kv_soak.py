"""The soak's mix of requests and its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.bench.kv_soak import LONGEST, SHORTEST, Job, Outcome, make_jobs, outcome_of, soak_row
from service.kvcache.answer_keys import HELD_KEY

JOB = Job((1, 2), 8, whole=False, mode="on", temperature=0.0, abort_after=None)
GOOD = [
    Outcome(JOB, "length", 8, True, 70),
    Outcome(replace(JOB, whole=True), "length", 8, True, None),
    Outcome(replace(JOB, abort_after=0.1), "abort", 2, True, None),
]


def row(outcomes: list[Outcome] = GOOD, asked: int = 3, free: tuple[int, int] = (9, 9), taken: int = 2) -> Any:
    return soak_row(outcomes, asked, free, taken)


def test_a_run_that_saw_everything_and_lost_nothing_passes() -> None:
    found = row()
    assert found["passed"] and (found["finished"], found["aborted"], found["compressed"]) == (2, 1, 1)
    assert (found["tokens"], found["most_held"], found["unsound"]) == (18, 70, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"free": (9, 8)},
        {"taken": 0},
        {"asked": 4},
        {"outcomes": GOOD[1:]},
        {"outcomes": [GOOD[0], GOOD[2], GOOD[2]]},
        {"outcomes": [replace(GOOD[0], sound=False), *GOOD[1:]]},
        {"outcomes": [GOOD[0], replace(GOOD[1], held=70), GOOD[2]]},
        {"outcomes": [replace(GOOD[0], finish="error"), *GOOD[1:]]},
    ],
)
def test_what_was_lost_poisoned_or_not_seen_is_missed(change: dict[str, Any]) -> None:
    assert not row(**change)["passed"]


def test_poison_comes_as_null_or_nan() -> None:
    def meta(*logprobs: float | None) -> dict[str, Any]:
        entries = [[value, 5, None] for value in logprobs]
        return {"finish_reason": {"type": "length"}, "completion_tokens": 2, "output_token_logprobs": entries}

    assert outcome_of(JOB, meta(-0.1, -2.0)).sound
    assert not outcome_of(JOB, meta(-0.1, None)).sound and not outcome_of(JOB, meta(float("nan"))).sound
    assert outcome_of(JOB, meta(-1.0) | {HELD_KEY: [None, 64]}).held == 64


def test_jobs_are_mixed_and_the_same_for_one_seed() -> None:
    text = list(range(2000))
    jobs = make_jobs(text, 200, 0, drafts=True)
    assert jobs == make_jobs(text, 200, 0, drafts=True) != make_jobs(text, 200, 1, drafts=True)
    assert all(SHORTEST <= len(job.prompt) < LONGEST for job in jobs)
    assert 60 <= sum(job.whole for job in jobs) <= 70 and {job.mode for job in jobs} == {"on", "off"}
    assert 20 <= sum(job.abort_after is not None for job in jobs) <= 60
    shared = [job for job in jobs if job.prompt[0] == 0]
    assert len(shared) >= 100
