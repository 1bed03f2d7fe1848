"""What is taken out of answers and what is added, for any cut of the stream."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.gateway.edit import StreamEditor, Wants, edit_body, is_rare
from service.gateway.sse import Splitter, event_data
from service.gateway.tally import Tally
from tests.doubles.fake_sglang import spec_details, sse

HEAD = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
SGLEXT = {"spec_tokens_details": spec_details((0, 4, 0, 2))}
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
NOTHING = Wants(usage=False, sglext=frozenset(), metrics=False)


def tally(**changes: Any) -> Tally:
    return Tally(**{"choices": 1, "batch": False, "drafts_per_step": 3, **changes})


def content(text: str) -> str:
    return sse({**HEAD, "choices": [{"index": 0, "delta": {"content": text}}], "usage": None})


def stream(texts: list[str]) -> str:
    return "".join(
        [
            *map(content, texts),
            sse({**HEAD, "choices": [], "usage": None, "sglext": SGLEXT}),
            sse({**HEAD, "choices": [], "usage": USAGE}),
            "data: [DONE]\n\n",
        ]
    )


def run(text: str, wants: Wants, places: list[int] = []) -> tuple[bytes, Tally]:  # noqa: B006
    data, found = text.encode(), tally()
    editor = StreamEditor(wants, found)
    borders = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    out = b"".join(editor.feed(data[a:b]) for a, b in zip(borders, borders[1:], strict=False))
    return out, found


def bodies(data: bytes) -> list[Any]:
    return [json.loads(text) for event in Splitter().feed(data) if (text := event_data(event)) != b"[DONE]"]


tricky = st.sampled_from(
    ['"choices":[]', '"sglext"', "[DONE]", '"error"', "data: [DONE]\n\n", "\r\n\r\n", "日本語", "😀"]
)
texts = st.lists(st.one_of(st.text(max_size=8), tricky), max_size=5)


@given(texts, st.lists(st.integers(0, 5_000), max_size=15))
def test_a_client_that_asked_for_nothing_gets_the_content_bytes_only(parts: list[str], places: list[int]) -> None:
    out, found = run(stream(parts), NOTHING, places)
    assert out == ("".join(map(content, parts)) + "data: [DONE]\n\n").encode()
    assert found.usage == USAGE
    assert found.records is not None
    assert found.records[0].accepted == 10
    assert found.done


@given(texts, st.lists(st.integers(0, 5_000), max_size=15), st.booleans())
def test_crlf_streams_mean_the_same(parts: list[str], places: list[int], usage: bool) -> None:
    text = stream(parts).replace("\n", "\r\n")
    out, found = run(text, Wants(usage, frozenset(), False), places)
    assert (
        bodies(out)
        == bodies(("".join(map(content, parts))).encode()) + [{**HEAD, "choices": [], "usage": USAGE}] * usage
    )
    assert found.done


def test_usage_that_was_asked_for_keeps_its_bytes() -> None:
    out, _ = run(stream(["a"]), Wants(True, frozenset(), False))
    assert out == (content("a") + sse({**HEAD, "choices": [], "usage": USAGE}) + "data: [DONE]\n\n").encode()


def test_metrics_go_into_the_usage_chunk() -> None:
    out, _ = run(stream(["a"]), Wants(True, frozenset(), True))
    assert len(bodies(out)) == 2
    assert bodies(out)[-1]["usage"] == USAGE
    assert bodies(out)[-1]["metrics"]["speculative_decoding"]["acceptance_histogram"] == [0, 4, 0, 2]


def test_metrics_without_usage_get_a_chunk_before_done() -> None:
    out, _ = run(stream(["a"]), Wants(False, frozenset(), True))
    last = bodies(out)[-1]
    assert last["choices"] == []
    assert last["id"] == "r"
    assert "usage" not in last
    assert last["metrics"]["speculative_decoding"]["num_draft_tokens"] == 18
    assert out.endswith(b"data: [DONE]\n\n")


def test_metrics_are_null_when_the_engine_told_nothing() -> None:
    out, found = run(
        content("a") + sse({**HEAD, "choices": [], "usage": USAGE}) + "data: [DONE]\n\n", Wants(True, frozenset(), True)
    )
    assert bodies(out)[-1]["metrics"] == {"speculative_decoding": None}
    assert found.records is None


def test_a_client_that_asked_for_sglext_gets_that_chunk_untouched() -> None:
    text = stream(["a"])
    out, _ = run(text, Wants(True, frozenset({"spec_tokens_details"}), False))
    assert out == text.encode()


def test_only_the_asked_extension_keys_stay() -> None:
    both = {**SGLEXT, "cached_tokens_details": {"device": 3}}
    text = sse({**HEAD, "choices": [], "usage": None, "sglext": both})
    out, found = run(text, Wants(False, frozenset({"cached_tokens_details"}), False))
    assert bodies(out)[0]["sglext"] == {"cached_tokens_details": {"device": 3}}
    assert found.records is not None


def test_sglext_inside_a_content_chunk_is_removed() -> None:
    out, _ = run(sse({**HEAD, "choices": [{"index": 0}], "sglext": SGLEXT}), NOTHING)
    assert bodies(out) == [{**HEAD, "choices": [{"index": 0}]}]


def test_an_error_event_takes_the_openai_shape() -> None:
    out, found = run(
        sse({"error": {"object": "error", "message": "bad", "type": "X", "param": None, "code": 400}}), NOTHING
    )
    assert bodies(out) == [{"error": {"message": "bad", "type": "invalid_request_error", "param": None, "code": None}}]
    assert found.error is not None


def test_an_unknown_extension_shape_is_noted_and_not_guessed() -> None:
    _, found = run(sse({**HEAD, "choices": [], "sglext": {"spec_tokens_details": {"new": 1}}}), NOTHING)
    assert found.records is None
    assert found.fault is not None


def test_figures_of_the_first_prompt_are_not_those_of_all() -> None:
    found = tally(choices=3, batch=True)
    found.take_sglext(SGLEXT)
    assert found.records is None
    assert found.fault == "details of 1 of 3 choices"


def test_ordinary_events_are_not_rare() -> None:
    assert not is_rare(content('say "choices":[] or "sglext" or "error"').encode())


BODY = {"id": "r", "choices": [{"index": 0}], "usage": USAGE}


def test_a_body_without_extras_keeps_its_bytes() -> None:
    raw = json.dumps(BODY, indent=2).encode()
    assert edit_body(raw, NOTHING, tally()) is raw


def test_a_body_is_stripped_and_gets_metrics() -> None:
    raw = orjson.dumps({**BODY, "sglext": SGLEXT})
    assert orjson.loads(edit_body(raw, NOTHING, tally())) == BODY
    found = tally()
    edited = orjson.loads(edit_body(raw, Wants(False, frozenset(), True), found))
    assert edited["metrics"]["speculative_decoding"]["num_spec_steps"] == 6
    assert found.tokens("completion_tokens") == 5


@pytest.mark.parametrize("raw", [b"[]", b"not json", b""])
def test_a_body_that_is_no_object_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        edit_body(raw, NOTHING, tally())
