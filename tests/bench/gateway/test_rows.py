"""What the summary says: medians, differences to the mock of the same rounds, and null for what is not known."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.bench.gateway import peers
from service.bench.gateway.peers import PEERS, Peer, Place, install
from service.bench.gateway.phases import Round, percentile
from service.bench.gateway.rounds import DIRECT, row, unavailable

CONTRACT = {
    "name",
    "seq_added_ms_p50",
    "seq_added_ms_p99",
    "rps_c32",
    "ttft_added_ms_p50",
    "chunk_delay_ms_p50",
    "chunk_delay_ms_p99",
    "chunks_per_s",
    "cpu_s_per_1k_requests",
    "cpu_s_per_100k_chunks",
    "rss_mb",
}
BASE = Round(0.1, 0.2, 9000, 0.2, 0.05, 0.1, 0.2, 0.4, 90000, None, None, None, 0, 21)
GATEWAY = Round(0.4, 1.2, 4000, 0.7, 0.15, 0.5, 1.0, 2.0, 50000, 0.12, 3.5, 80, 0, 25)


def test_added_is_the_difference_of_medians() -> None:
    rounds = [GATEWAY, replace(GATEWAY, seq_ms_p50=0.5, rps=5000), replace(GATEWAY, seq_ms_p50=9, rps=10)]
    found = row("ours", rounds, [BASE] * 3)
    assert found.keys() >= CONTRACT
    assert found["seq_added_ms_p50"] == pytest.approx(0.4)
    assert found["ttft_added_ms_p50"] == pytest.approx(0.5)
    assert found["rps_c32"] == 4000
    assert found["chunk_delay_ms_p50"] == 0.15
    assert found["spread"]["rps"] == [10, 5000]


def test_the_mock_itself_adds_nothing_that_could_be_told() -> None:
    found = row(DIRECT, [BASE], [BASE])
    assert found["seq_added_ms_p50"] is None
    assert found["cpu_s_per_1k_requests"] is None
    assert found["rps_c32"] == 9000


def test_a_peer_that_cannot_be_had_is_null_and_says_why() -> None:
    found = unavailable("smg", "no such version")
    assert found["unavailable"] == "no such version"
    assert all(found[key] is None for key in CONTRACT - {"name"})


def test_a_failed_installation_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: Any) -> None:
        raise subprocess.CalledProcessError(1, command, stderr=b"line\nERROR: no matching distribution\n")

    monkeypatch.setattr(peers.subprocess, "run", fail)  # type: ignore[attr-defined]
    reason = install(tmp_path, Peer("x", "x==1", lambda _, __: []))
    assert reason == "x==1 cannot be installed: ERROR: no matching distribution"


def test_every_peer_listens_where_it_is_told(tmp_path: Path) -> None:
    place = Place("http://127.0.0.1:1", 4242, 4243, tmp_path)
    for peer in PEERS:
        assert "4242" in peer.command(tmp_path, place)


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([1, 2, 3, 4], 0.99) == 4
    assert percentile([5], 0.5) == 5
