"""Memory across requests never crosses tenants."""

from __future__ import annotations

import pytest

from service.speculation.memory import DraftMemory


def test_a_tenants_things_are_kept_and_its_own() -> None:
    memory = DraftMemory()
    mine = memory.get("a", "corpus", list[int])
    mine.append(1)
    assert memory.get("a", "corpus", list[int]) is mine
    assert memory.get("b", "corpus", list[int]) == []
    assert memory.get("a", "table", dict[int, int]) == {}


def test_requests_of_no_tenant_share_nothing() -> None:
    memory = DraftMemory()
    memory.get(None, "corpus", list[int]).append(1)
    assert memory.get(None, "corpus", list[int]) == []


def test_the_longest_unused_tenant_is_forgotten() -> None:
    memory = DraftMemory(tenants=2)
    for tenant in ("a", "b"):
        memory.get(tenant, "corpus", list[str]).append(tenant)
    memory.get("a", "corpus", list[str])
    memory.get("c", "corpus", list[str])
    assert memory.get("a", "corpus", list[str]) == ["a"]
    assert memory.get("b", "corpus", list[str]) == []


def test_clear_forgets_everyone() -> None:
    memory = DraftMemory()
    memory.get("a", "corpus", list[int]).append(1)
    memory.clear()
    assert memory.get("a", "corpus", list[int]) == []


def test_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one tenant"):
        DraftMemory(tenants=0)
