"""Random caches for tests of policies."""

from __future__ import annotations

import torch

from service.kvcache.eviction import CacheView, TokenEvictionPolicy


def random_view(policy: TokenEvictionPolicy, held: int, length: int, seed: int) -> CacheView:
    """`held` of `length` positions, the last one among them, with random attention as the policy asks for."""
    generator = torch.Generator().manual_seed(seed)
    others = torch.randperm(length - 1, generator=generator)[: held - 1]
    positions = torch.cat((others, torch.tensor([length - 1]))).sort().values
    attention = torch.rand(3, policy.window, held, generator=generator).softmax(-1) if policy.window else None
    return CacheView(
        positions=positions,
        length=length,
        attention=attention,
        mass=torch.rand(held, generator=generator) if policy.every_query else None,
        keys=torch.randn(3, held, 2, 8, generator=generator) if policy.wants_keys else None,
        onset=torch.rand(held, generator=generator) if policy.onset else None,
        breaks=torch.rand(held, generator=generator) < 0.2 if policy.wants_breaks else None,
    )
