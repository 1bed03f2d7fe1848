"""Process groups: who is in one, and ending them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

_POLL_S = 0.05
_KILL_WAIT_S = 5.0


def members(group: int) -> tuple[int, ...]:
    """Ids of the living processes of a group; zombies do not count, they hold nothing.

    Without /proc the answer is the group's own id while any process is left.
    """
    if not Path("/proc/self/stat").exists():
        return (group,) if _exists(group) else ()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and _living_group(int(entry)) == group:
            found.append(int(entry))
    return tuple(found)


async def end(group: int, grace_s: float) -> tuple[int, ...]:
    """SIGTERM to the leader, SIGKILL to all after `grace_s` seconds; returns the ids that even so did not go.

    The leader ends the others itself; when it is gone already, they get the SIGTERM.
    """
    if not _signal_leader(group):
        _signal(group, signal.SIGTERM)
    if not await _gone(group, grace_s):
        _signal(group, signal.SIGKILL)
        await _gone(group, _KILL_WAIT_S)
    return members(group)


async def _gone(group: int, timeout_s: float) -> bool:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while members(group):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _signal_leader(group: int) -> bool:
    if _living_group(group) != group and Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(group, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _living_group(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name in brackets may hold spaces and brackets itself; state, parent and group follow the last one.
    state, _parent, group = stat.rpartition(")")[2].split()[:3]
    return None if state in "ZX" else int(group)
