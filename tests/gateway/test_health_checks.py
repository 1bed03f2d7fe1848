"""Readiness follows the backends."""

from __future__ import annotations

from service.gateway.backends import Backend
from service.gateway.health import missing
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, running_stack
from tests.doubles.wait import wait_until


def test_readiness_comes_and_goes_with_the_backend() -> None:
    with running_stack({"default": [FakeSGLang(healthy=False)]}, health_interval_s=0.05) as stack:
        wait_until(lambda: next(stack.gateway.catalog.backends())[1].health == "down")
        assert MODEL in stack.gateway.unready()[0]
        assert stack.chat().status_code == 503
        stack.fake.knobs.healthy = True
        wait_until(lambda: not stack.gateway.unready())
        assert stack.chat().status_code == 200
        url = next(stack.gateway.catalog.backends())[1].url
        assert stack.metric("specserve_backend_up", model=MODEL, pool="default", backend=url) == 1
        stack.gateway.draining = True
        assert stack.gateway.unready() == ["the service is shutting down"]
        assert missing(stack.gateway.catalog) == []


def test_one_slow_health_check_does_not_take_a_busy_backend_down() -> None:
    backend = Backend("http://x")
    backend.mark_up()
    for _ in range(2):
        backend.miss("slow")
    assert backend.health == "up"
    backend.in_flight = 1
    backend.miss("slow")
    assert backend.health == "up"
    backend.in_flight = 0
    backend.miss("slow")
    assert backend.health == "down"
    backend.mark_up()
    assert (backend.health, backend.misses) == ("up", 0)


def test_a_backend_that_never_answered_is_down_at_the_first_miss() -> None:
    backend = Backend("http://x")
    assert backend.usable
    backend.miss("slow")
    assert not backend.usable


def test_a_backend_that_was_away_is_tried_before_its_next_health_check() -> None:
    with running_stack(health_interval_s=3600) as stack:
        backend = next(stack.gateway.catalog.backends())[1]
        wait_until(lambda: backend.health == "up")
        backend.mark_down("refused", away=True)
        assert stack.chat().status_code == 200
        backend.mark_down("not ready")
        assert stack.chat().status_code == 503
