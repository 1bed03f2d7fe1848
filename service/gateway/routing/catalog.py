"""The registry of routing policies, open to third parties through the entry points `specserve.routing`."""

from __future__ import annotations

from service.gateway.routing.base import RoutingPolicy
from service.registry import Registry

ROUTING = {
    "round_robin": "service.gateway.routing.round_robin:RoundRobin",
    "random": "service.gateway.routing.random:Random",
    "weighted": "service.gateway.routing.weighted:Weighted",
    "least_load": "service.gateway.routing.least_load:LeastLoad",
    "power_of_two": "service.gateway.routing.power_of_two:PowerOfTwo",
    "session": "service.gateway.routing.session:Session",
    "cache_aware": "service.gateway.routing.cache_aware:CacheAware",
}
"""Built-in policies: name and class, imported when the policy is used."""


def routing_registry() -> Registry[type[RoutingPolicy]]:
    """The classes of policies by name, third parties' included."""
    registry: Registry[type[RoutingPolicy]] = Registry("routing")
    for name, path in ROUTING.items():
        registry.register_path(name, path)
    return registry
