"""Routing policies: which backend of a pool a request tries first. One file each, registered by name."""

from service.gateway.routing.base import RoutingPolicy
from service.gateway.routing.catalog import POLICIES

__all__ = ["POLICIES", "RoutingPolicy"]
