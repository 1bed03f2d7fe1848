"""What routing policies see of real requests, and which backends get them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from pydantic import ValidationError

from service.api.app import create_app
from service.profiles.config import Config, Model, Pool
from service.settings import GatewaySettings
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.stack import MODEL, Stack


@contextmanager
def fleet(routing: str, weights: tuple[float, ...]) -> Iterator[Stack]:
    """A gateway in front of one backend for each weight."""
    fakes = [FakeSGLang() for _ in weights]
    with ExitStack() as stack:
        urls = tuple(stack.enter_context(serving(fake.app)) for fake in fakes)
        settings = GatewaySettings(routing=routing)
        pool = Pool(backends=urls, weights=weights)
        app = create_app(Config(gateway=settings, models=(Model(name=MODEL, pools=(pool,)),)))
        url = stack.enter_context(serving(app))
        http = stack.enter_context(httpx.Client(base_url=url, timeout=20))
        yield Stack(app, url, {"default": fakes}, http)


def served(stack: Stack) -> list[int]:
    """Requests that each backend got."""
    return [len(fake.bodies) for fake in stack.fakes["default"]]


@pytest.mark.parametrize("key", [{"prompt_cache_key": "a"}, {"user": "a"}, {"headers": {"X-Session-Id": "a"}}])
def test_a_session_is_named_by_field_or_header(key: dict[str, object]) -> None:
    with fleet("session", (1.0, 1.0, 1.0)) as stack:
        for _ in range(6):
            assert stack.chat(**key).status_code == 200  # type: ignore[arg-type]
        assert sorted(served(stack)) == [0, 0, 6]


def test_requests_of_no_session_are_spread() -> None:
    with fleet("session", (1.0, 1.0, 1.0)) as stack:
        for _ in range(6):
            assert stack.chat().status_code == 200
        assert served(stack) == [2, 2, 2]


def test_conversations_come_back_to_the_backend_that_read_them() -> None:
    with fleet("cache_aware", (1.0, 1.0)) as stack:
        for turns in range(1, 5):
            for topic in ("rivers", "mountains"):
                messages = [{"role": "user", "content": f"{topic} " * 200}] * turns
                assert stack.chat(messages=messages).status_code == 200
        first, second = ({body["messages"][0]["content"][:6] for body in f.bodies} for f in stack.fakes["default"])
        assert {frozenset(first), frozenset(second)} == {frozenset({"rivers"}), frozenset({"mounta"})}


def test_a_prompt_of_tokens_has_a_beginning_too() -> None:
    with fleet("cache_aware", (1.0, 1.0)) as stack:
        for _ in range(4):
            answer = stack.http.post("/v1/completions", json={"model": MODEL, "prompt": list(range(400))})
            assert answer.status_code == 200
        assert sorted(served(stack)) == [0, 4]


def test_too_deep_a_prompt_is_refused_whatever_reads_it() -> None:
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    with fleet("cache_aware", (1.0, 1.0)) as stack:
        answer = stack.chat(messages=[{"role": "user", "content": deep}])
        assert answer.status_code == 400


@pytest.mark.parametrize("routing", ["round_robin", "weighted", "session", "cache_aware", "random"])
def test_a_backend_of_weight_0_gets_nothing(routing: str) -> None:
    with fleet(routing, (1.0, 0.0)) as stack:
        for i in range(4):
            assert stack.chat(user=str(i)).status_code == 200
        assert served(stack) == [4, 0]


def test_a_canary_gets_its_share() -> None:
    with fleet("weighted", (9.0, 1.0)) as stack:
        for _ in range(20):
            assert stack.chat().status_code == 200
        assert served(stack) == [18, 2]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ((1.0,), "each backend one"),
        ((0.0, 0.0), "above 0"),
        ((-1.0, 1.0), "greater than or equal"),
        ((float("inf"), 1.0), "finite"),
    ],
)
def test_impossible_weights_are_refused(weights: tuple[float, ...], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Pool(backends=("http://a", "http://b"), weights=weights)
