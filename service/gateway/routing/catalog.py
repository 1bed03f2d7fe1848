"""The registry of routing policies, open to third parties through the entry points `specserve.routing`."""

from __future__ import annotations

from service.gateway.routing.base import RoutingPolicy
from service.registry import Registry

POLICIES: Registry[RoutingPolicy] = Registry("routing")


@POLICIES.register("round_robin")
def _round_robin() -> RoutingPolicy:
    from service.gateway.routing.round_robin import RoundRobin

    return RoundRobin()


@POLICIES.register("least_load")
def _least_load() -> RoutingPolicy:
    from service.gateway.routing.least_load import LeastLoad

    return LeastLoad()
