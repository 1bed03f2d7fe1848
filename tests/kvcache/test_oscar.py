"""Rotations fitted to what attention looks at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from service.kvcache.calibration import Moments, write_calibration
from service.kvcache.quantizer import Quantizer
from service.kvcache.rotation import make_rotation
from service.kvcache.rotations.hadamard import Hadamard
from service.kvcache.rotations.oscar import turn_of

HEADS, DIM = 2, 16


def seen(tokens: int = 400) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values [heads, tokens, dim]: queries look along three directions, keys lie off the origin."""
    draw = torch.Generator().manual_seed(5)
    narrow = torch.randn(3, DIM, generator=draw)
    queries = torch.randn(2 * HEADS, tokens, 3, generator=draw) @ narrow
    keys, values = (torch.randn(HEADS, tokens, DIM, generator=draw) for _ in range(2))
    return queries, keys + 6 * torch.randn(HEADS, 1, DIM, generator=draw), values


def test_turns_are_orthogonal() -> None:
    moments = Moments(HEADS, DIM)
    moments.add(*seen())
    for turn in (turn_of(moments.keys), turn_of(moments.values)):
        torch.testing.assert_close(turn @ turn.T, torch.eye(DIM), rtol=1e-5, atol=1e-5)


def test_scores_of_coded_keys_are_nearer_than_under_hadamard() -> None:
    queries, keys, values = seen()
    moments = Moments(HEADS, DIM)
    moments.add(queries, keys, values)
    centre = (moments.key_sum / moments.tokens).float()
    quantizer = Quantizer(2, DIM, DIM)

    def error(matrix: torch.Tensor, centre: torch.Tensor) -> float:
        """Of differences between keys' scores, which are all that a softmax sees."""
        rows = keys[0] - centre
        wrong = quantizer.decode(quantizer.encode(rows @ matrix)) @ matrix.T - rows
        scores = queries[0] @ wrong.T
        return float((scores - scores.mean(-1, keepdim=True)).square().mean())

    hadamard = error(Hadamard().matrix(DIM), torch.zeros(DIM))
    fitted = error(turn_of(moments.keys), centre[0])
    assert fitted < hadamard / 2


def test_a_calibration_is_read_as_it_was_written(tmp_path: Path) -> None:
    turns = {"keys": torch.eye(DIM)[None], "values": 2 * torch.eye(DIM)[None]}
    means = {"keys_mean": torch.ones(1, HEADS, DIM), "values_mean": torch.zeros(1, HEADS, DIM)}
    write_calibration(tmp_path / "kv.pt", turns | means)
    rotation = make_rotation("oscar", str(tmp_path / "kv.pt"))
    assert torch.equal(rotation.of_layer(0, "values", DIM), turns["values"][0])
    assert torch.equal(rotation.centre(0, "keys"), means["keys_mean"][0])
    with pytest.raises(ValueError, match="another model"):
        rotation.of_layer(1, "keys", DIM)
    with pytest.raises(ValueError, match="another model"):
        rotation.of_layer(0, "keys", 2 * DIM)


def test_without_a_calibration_there_is_none() -> None:
    with pytest.raises(ValueError, match="specserve calibrate kv"):
        make_rotation("oscar", None)
