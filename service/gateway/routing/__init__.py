"""Routing policies: which backend of a pool a request tries first. One file each, registered by name."""

from service.gateway.routing.base import Routed, RoutingPolicy
from service.gateway.routing.catalog import routing_registry

__all__ = ["Routed", "RoutingPolicy", "routing_registry"]
