"""RMSNorm against its definition, and what falls through to SGLang's own code."""

from types import SimpleNamespace

import pytest
import torch

from service.sglang_plugin.fast.decoder import tensor_eps
from service.sglang_plugin.fast.norm import rms_norm, rms_norm_native


def naive(x, weight, eps):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def module(**changes):
    fields = {
        "weight": torch.rand(32),
        "variance_epsilon": 1e-5,
        "variance_size_override": None,
        "hidden_size": 32,
        "override_orig_dtype": None,
    }
    return SimpleNamespace(**(fields | changes))


def unexpected(*args):
    raise AssertionError("SGLang's own code was called")


@pytest.mark.parametrize("rows", [1, 2, 7, 12, 70])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 300.0])
def test_equals_the_definition(rows, scale):
    torch.manual_seed(0)
    x, weight = torch.randn(rows, 576) * scale, torch.rand(576)
    torch.testing.assert_close(rms_norm(x, weight, tensor_eps(1e-5)), naive(x, weight, 1e-5), atol=1e-5, rtol=1e-5)


def test_rows_of_zeros_stay_zero_and_strided_input_works():
    weight = torch.rand(16)
    assert torch.equal(rms_norm(torch.zeros(3, 16), weight, tensor_eps(1e-5)), torch.zeros(3, 16))
    x = torch.randn(5, 32)[:, ::2]
    torch.testing.assert_close(rms_norm(x, weight, tensor_eps(1e-6)), naive(x, weight, 1e-6))


def test_hook_adds_the_residual_before_the_norm():
    norm, x, residual, more = module(), *torch.randn(3, 4, 32)
    out, total = rms_norm_native(unexpected, norm, x, residual, more)
    assert torch.equal(total, x + residual + more)
    torch.testing.assert_close(out, naive(total, norm.weight, 1e-5))
    torch.testing.assert_close(rms_norm_native(unexpected, norm, x), naive(x, norm.weight, 1e-5))


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (module(), torch.zeros(2, 32, dtype=torch.bfloat16)),
        (module(weight=torch.rand(32, dtype=torch.bfloat16)), torch.zeros(2, 32)),
        (module(variance_size_override=16), torch.zeros(2, 32)),
        (module(override_orig_dtype=torch.bfloat16), torch.zeros(2, 32)),
        (module(), torch.zeros(2, 16)),
    ],
)
def test_everything_else_is_sglangs(norm, x):
    assert rms_norm_native(lambda *args: "stock", norm, x) == "stock"
