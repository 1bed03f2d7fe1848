"""Event borders under arbitrary cuts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.gateway.sse import Splitter, event_data

lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=8)
events = st.lists(lines.map(lambda text: f"data: {text}"), min_size=1, max_size=3)
streams = st.lists(events, min_size=1, max_size=5)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in zip(borders, borders[1:], strict=False)]


@given(streams, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut_gives_the_same_events(stream: list[list[str]], end: str, places: list[int]) -> None:
    whole = "".join(end.join(event) + end + end for event in stream).encode()
    splitter = Splitter()
    found = [event for chunk in cut(whole, places) for event in splitter.feed(chunk)]
    assert b"".join(found) + splitter.rest == whole
    expected = ["\n".join(line[6:] for line in event).encode() for event in stream]
    assert [event_data(event) for event in found] == expected


def test_a_crlf_is_one_line_end() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: a\r") == []
    assert splitter.feed(b"\ndata: b\r\n") == []
    assert splitter.feed(b"\r\n") == [b"data: a\r\ndata: b\r\n\r\n"]


def test_data_lines_are_joined_and_comments_have_none() -> None:
    assert event_data(b"event: x\ndata: a\ndata:b\n\n") == b"a\nb"
    assert event_data(b": ping\n\n") == b""
