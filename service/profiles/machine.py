"""One engine among others: its part in prefill/decode disaggregation, and its place among several machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["whole", "prefill", "decode"]
"""`whole` does both; a `prefill` engine hands the KV cache of a prompt to a `decode` engine."""

ANY_LEADER = "LEADER:20000"
"""Stands for the leader's address where none is known yet."""


@dataclass(frozen=True)
class Machine:
    """Place `rank` among the machines of one engine; they meet at `leader`, host:port of the machine of rank 0."""

    rank: int = 0
    leader: str = ANY_LEADER


def machine_args(nodes: int, machine: Machine, role: Role) -> list[str]:
    """SGLang's arguments for an engine on `nodes` machines that plays `role`."""
    args = []
    if nodes > 1:
        args += ["--nnodes", str(nodes), "--node-rank", str(machine.rank), "--dist-init-addr", machine.leader]
    if role != "whole":
        args += ["--disaggregation-mode", role]
    return args
