"""What is checked, what is added for the backend, and what passes through."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from service.errors import BadRequestError, ModelNotFoundError, RequestError
from service.gateway.endpoints import Kind
from service.gateway.pools import Catalog, build_catalog
from service.gateway.prepare import Prepared, prepare
from service.profiles.config import Config, Model
from service.settings import GatewaySettings
from service.telemetry.metrics import Metrics

SETTINGS = GatewaySettings(max_choices=4, max_prompts=3)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    config = Config(models=(Model(name="smol", aliases=("gpt",)),))
    return build_catalog(config, Metrics(CollectorRegistry()))


def chat(**extra: Any) -> dict[str, Any]:
    return {"model": "smol", "messages": [{"role": "user", "content": "Hi"}], **extra}


def run(body: Any, catalog: Catalog, kind: Kind = "chat", headers: dict[bytes, bytes] | None = None) -> Prepared:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return prepare(raw, headers or {}, kind=kind, catalog=catalog, settings=SETTINGS)


def test_the_upstream_body(catalog: Catalog) -> None:
    body = chat(
        model="gpt",
        stream=True,
        temperature=0.5,
        unknown={"deep": [1]},
        speculation={"mode": "off"},
        custom_params={"mine": 1, "specserve": "forged"},
        stream_options={"continuous_usage_stats": True},
    )
    prepared = run(body, catalog)
    sent = orjson.loads(prepared.encode("the-rid"))
    assert sent == {
        "model": "smol",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "temperature": 0.5,
        "unknown": {"deep": [1]},
        "custom_params": {"mine": 1, "specserve": {"mode": "off"}},
        "stream_options": {"continuous_usage_stats": True, "include_usage": True},
        "return_spec_tokens_details": True,
        "rid": "the-rid",
    }
    assert not prepared.wants_usage
    assert prepared.wants_sglext == frozenset()


def test_what_the_client_wants_back(catalog: Catalog) -> None:
    body = chat(stream=True, stream_options={"include_usage": True}, return_spec_tokens_details=True, n=3)
    prepared = run(body, catalog, headers={b"x-speculation-metrics": b"1", b"x-specserve-pool": b"default"})
    assert prepared.wants_usage
    assert prepared.wants_sglext == {"spec_tokens_details"}
    assert prepared.choices == 3
    assert prepared.extras.metrics
    assert prepared.extras.pool == "default"


@pytest.mark.parametrize(
    ("prompt", "choices", "batch"),
    [("text", 2, False), (["a", "b"], 4, True), ([1, 2, 3], 2, False), ([[1], [2, 3], [4]], 6, True), (["a"], 2, True)],
)
def test_prompts(prompt: Any, choices: int, batch: bool, catalog: Catalog) -> None:
    prepared = run({"model": "smol", "prompt": prompt, "n": 2}, catalog, "completion")
    assert (prepared.choices, prepared.batch) == (choices, batch)


BAD_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"model": 5}, "model"),
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "user"}, {"content": "x"}]}, "messages[1]"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": []}, "stream_options"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"n": 0}, "n"),
    ({"n": 5}, "n"),
    ({"n": "2"}, "n"),
    ({"n": True}, "n"),
    ({"n": 1.5}, "n"),
    ({"custom_params": "x"}, "custom_params"),
    ({"rid": "mine"}, "rid"),
    ({"strategy": {"name": "x"}}, "strategy"),
    ({"speculation": "off"}, "speculation"),
    ({"speculation": {"mode": "maybe"}}, "speculation.mode"),
    ({"speculation": {"mode": ["on"]}}, "speculation.mode"),
    ({"speculation": {"pool": 3}}, "speculation.pool"),
    ({"speculation": {"drafts": 3}}, "speculation.drafts"),
]


@pytest.mark.parametrize(("change", "param"), BAD_CHAT)
def test_bad_fields_are_named(change: dict[str, Any], param: str, catalog: Catalog) -> None:
    with pytest.raises(BadRequestError) as caught:
        run(chat(**change), catalog)
    assert caught.value.param == param
    assert caught.value.status == 400


@pytest.mark.parametrize("prompt", [None, [], 5, {"a": 1}, [True], [1, "a"], ["a", 1], ["a"] * 4])
def test_bad_prompts(prompt: Any, catalog: Catalog) -> None:
    with pytest.raises(BadRequestError) as caught:
        run({"model": "smol", "prompt": prompt}, catalog, "completion")
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b'{"a": NaN}', b"[" * 5000 + b"]" * 5000],
)
def test_bad_json(raw: bytes, catalog: Catalog) -> None:
    with pytest.raises(BadRequestError) as caught:
        run(raw, catalog)
    assert caught.value.param == "body"


def test_nesting_that_cannot_be_sent_on(catalog: Catalog) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    raw = b'{"model":"smol","messages":[{"role":"user"}],"x":' + b"[" * 400 + b"]" * 400 + b"}"
    with pytest.raises(BadRequestError) as caught:
        run(raw, catalog).encode("r")
    assert caught.value.param == "body"


def test_unknown_model_lists_the_known_ones(catalog: Catalog) -> None:
    with pytest.raises(ModelNotFoundError, match="smol"):
        run(chat(model="other" * 1000), catalog)


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({b"x-speculation-metrics": b"yes"}, "X-Speculation-Metrics"),
        ({b"x-speculation-metrics": b""}, "X-Speculation-Metrics"),
        ({b"x-specserve-pool": b"other"}, "X-Specserve-Pool"),
    ],
)
def test_bad_headers_are_named(headers: dict[bytes, bytes], param: str, catalog: Catalog) -> None:
    with pytest.raises(RequestError) as caught:
        run(chat(speculation={"pool": "default"}), catalog, headers=headers)
    assert caught.value.param == param
