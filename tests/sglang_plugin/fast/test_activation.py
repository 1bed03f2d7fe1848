"""The gate against its definition."""

import pytest
import torch

from service.sglang_plugin.fast.activation import silu_and_mul


@pytest.mark.parametrize("rows", [1, 3, 12, 70])
def test_equals_the_definition(rows):
    torch.manual_seed(0)
    gate_up = torch.randn(rows, 200)[:, :96]
    gate, up = gate_up[:, :48], gate_up[:, 48:]
    kept = gate_up.clone()
    torch.testing.assert_close(silu_and_mul(gate_up), gate / (1 + torch.exp(-gate)) * up, atol=1e-6, rtol=1e-6)
    assert torch.equal(gate_up, kept)
