"""The CPU benchmarks run on a tiny replica and write what they print."""

import json

import torch

from service.bench import cpu_ops, cpu_threads
from service.bench.cpu_replica import Shape

TINY = Shape(layers=1, hidden=64, heads=4, kv_heads=2, dim=16, intermediate=96, vocabulary=128, context=16)


def test_summary_counts_in_single_steps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cpu_ops, "Shape", lambda layers: TINY)
    before = torch.is_grad_enabled()
    try:
        cpu_ops.main(out=tmp_path / "ops.json", tokens="1,2,4", rounds=1, layers=1, bfloat16=True)
    finally:
        torch.set_grad_enabled(before)
    summary = json.loads((tmp_path / "ops.json").read_text())
    assert set(summary["step_ms"]) == {"packed float32", "plain float32", "plain bfloat16"}
    assert summary["verify_cost"]["1"] == 1.0 and set(summary["verify_cost"]) == {"1", "2", "4"}
    assert "packed float32" in capsys.readouterr().out


def test_a_busy_process_ends_with_its_block():
    with cpu_threads.busy_process():
        pass


def test_timings_take_the_least_idle_turn(monkeypatch):
    turns = iter([[9.0], [5.0, 5.0], [4.0, 4.0], [6.0, 8.0], [6.0, 10.0]])

    class Fake:
        def __init__(self, env, tokens):
            pass

        def turn(self, steps):
            return next(turns)

        def stop(self):
            pass

    monkeypatch.setattr(cpu_threads, "Worker", Fake)
    (timing,) = cpu_threads.compare({"one": {}}, rounds=2, steps=2, tokens=1)
    assert (timing.idle_ms, timing.busy_ms, timing.busy_p90_ms) == (4.0, 7.0, 10.0)
