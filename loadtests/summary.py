"""From records to tables: percentiles, goodput, acceptance, prefix hits, fairness, recovery; absent is None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from loadtests.record import Record, Slo

QUANTILES = (0.5, 0.9, 0.99)
MEASURES: Mapping[str, Callable[[Record], Iterable[float]]] = {
    "ttft_s": lambda record: () if record.ttft_s is None else (record.ttft_s,),
    "itl_s": lambda record: record.gaps_s,
    "tpot_s": lambda record: () if record.tpot_s is None else (record.tpot_s,),
    "e2e_s": lambda record: (record.e2e_s,) if record.outcome == "ok" else (),
}
OUTCOMES = ("ok", "refused", "failed", "left")


def quantile(values: Sequence[float], share: float) -> float | None:
    """By linear interpolation between the two nearest ranks; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def row(records: Sequence[Record], seconds: float, slo: Slo) -> dict[str, Any]:
    """One line of a table. Rates are per second of the test; acceptance is of tokens, not a mean of means."""
    counts = {outcome: sum(record.outcome == outcome for record in records) for outcome in OUTCOMES}
    good = sum(record.meets(slo) for record in records)
    asked = len(records) - counts["left"]
    steps, accepted = _total(records, "steps"), _total(records, "accepted")
    prompt, cached = _total(records, "prompt_tokens"), _total(records, "cached_tokens")
    tokens = _total(records, "completion_tokens")
    figures: dict[str, Any] = {"requests": len(records), **counts}
    for name, take in MEASURES.items():
        values = [value for record in records for value in take(record)]
        figures[name] = {f"p{share * 100:g}": quantile(values, share) for share in QUANTILES}
    return figures | {
        "requests_per_s": len(records) / seconds,
        "tokens_per_s": None if tokens is None else tokens / seconds,
        "goodput_per_s": good / seconds,
        "goodput_share": good / asked if asked else None,
        "acceptance_length": 1 + accepted / steps if steps and accepted is not None else None,
        "proposed": _total(records, "proposed"),
        "accepted": accepted,
        "prefix_hit_share": cached / prompt if prompt and cached is not None else None,
    }


def summarize(records: Sequence[Record], seconds: float, slo: Slo) -> dict[str, Any]:
    """Tables of all, by kind, by pool and by tenant; fairness is over the tenants' completion tokens a second."""
    tenants = _by(records, lambda record: record.tenant)
    return {
        "seconds": seconds,
        "all": row(records, seconds, slo),
        "kinds": {name: row(those, seconds, slo) for name, those in _by(records, lambda r: r.kind).items()},
        "pools": {name: row(those, seconds, slo) for name, those in _by(records, lambda r: r.pool).items()},
        "tenants": {name: row(those, seconds, slo) for name, those in tenants.items()},
        "fairness": fairness([_total(those, "completion_tokens") or 0 for those in tenants.values()]),
        "worst_late_s": max((record.late_s for record in records), default=None),
    }


def fairness(shares: Sequence[float]) -> float | None:
    """Jain's index, 1 when all got the same and 1/n when one got all; None of fewer than two.

    Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination", 1984.
    """
    squares = len(shares) * sum(share * share for share in shares)
    return sum(shares) ** 2 / squares if len(shares) > 1 and squares else None


def recovery_s(records: Sequence[Record], begin: float, end: float, *, window_s: float, within: float) -> float | None:
    """Seconds after `end` until the p90 of first tokens is back within `within` times what it was before `begin`.

    Counted over windows of `window_s` by due time; None when there was nothing before, or it never came back.
    """
    firsts = sorted((record.at, record.ttft_s) for record in records if record.ttft_s is not None)
    before = quantile([first for at, first in firsts if at < begin], 0.9)
    if before is None:
        return None
    at = end
    while any(due >= at for due, _ in firsts):
        here = quantile([first for due, first in firsts if at <= due < at + window_s], 0.9)
        if here is not None and here <= within * before:
            return at - end
        at += window_s / 4
    return None


def _total(records: Iterable[Record], name: str) -> int | None:
    values = [value for record in records if (value := getattr(record, name)) is not None]
    return sum(values) if values else None


def _by(records: Sequence[Record], key: Callable[[Record], str | None]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if (name := key(record)) is not None:
            groups.setdefault(name, []).append(record)
    return dict(sorted(groups.items()))
