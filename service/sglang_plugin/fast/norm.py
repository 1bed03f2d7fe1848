"""RMSNorm in float32 as five small operators, where torch's own needs six and SGLang's portable path eight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: Tensor) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension; `eps` is a float32 tensor of one element."""
    norm = torch.linalg.vector_norm(x, 2, -1, True)
    return x * torch.rsqrt(torch.addcmul(eps, norm, norm, value=1.0 / x.shape[-1])) * weight


def rms_norm_native(
    original: Callable[..., Any],
    module: Any,
    x: Tensor,
    residual: Tensor | None = None,
    post_residual_addition: Tensor | None = None,
    quant_linear: Any = None,
) -> Any:
    """AROUND hook of `RMSNorm.forward_native`: all float32 is computed here, the rest by SGLang's own code."""
    if not _is_plain(module, x, residual, quant_linear):
        return original(module, x, residual, post_residual_addition, quant_linear)
    if residual is not None:
        x = x + residual
        if post_residual_addition is not None:
            x = x + post_residual_addition
    out = rms_norm(x, module.weight, torch.tensor(module.variance_epsilon, dtype=torch.float32))
    return out if residual is None else (out, x)


def _is_plain(module: Any, x: Tensor, residual: Tensor | None, quant_linear: Any) -> bool:
    return (
        x.dtype == torch.float32
        and module.weight.dtype == torch.float32
        and (residual is None or residual.dtype == torch.float32)
        and module.variance_size_override is None
        and x.shape[-1] == module.hidden_size
        and module.override_orig_dtype in (None, torch.float32)
        and quant_linear is None
    )
