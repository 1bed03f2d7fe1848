"""Kinds of traffic, prompts, traces."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from random import Random

import orjson
import pytest

from loadtests.caller import Call, Reply
from loadtests.options import KEYS, Options, add_options, read_options
from loadtests.options import KINDS as OPTION_KINDS
from loadtests.prompts import PromptBook
from loadtests.trace import BLOCK, read_trace, replay
from loadtests.traffic import AGENT_TURNS, KINDS, Traffic, play
from tests.loadtests.records import record


def options(*arguments: str) -> Options:
    parser = ArgumentParser()
    add_options(parser)
    return read_options(parser.parse_args(arguments))


@pytest.fixture(scope="module")
def book(data: Path) -> PromptBook:
    return PromptBook.read(data)


def calls_of(kind: str, traffic: Traffic, outcome: str = "ok") -> list[Call]:
    seen: list[Call] = []

    def ask(call: Call) -> Reply:
        seen.append(call)
        return Reply(record(outcome=outcome), "an answer", ())

    for _ in play(KINDS[kind](traffic), ask):
        pass
    return seen


def test_the_options_know_the_same_kinds() -> None:
    assert tuple(KINDS) == OPTION_KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_asks_what_it_says(kind: str, book: PromptBook) -> None:
    traffic = Traffic(book, options("--model", "m", "--speculation", "off", "--max-tokens", "9"), Random(4), "key", "a")
    calls = calls_of(kind, traffic)
    assert calls
    for call in calls:
        assert (call.kind, call.key, call.tenant) == (kind, "key", "a")
        assert call.body["model"] == "m" and call.body["max_tokens"] == 9
        assert call.body["speculation"] == {"mode": "off"}
        assert call.body["messages"][-1]["role"] == "user" and call.body["messages"][-1]["content"]
        orjson.dumps(call.body)


def test_an_agent_s_history_grows_and_keeps_its_beginning(book: PromptBook) -> None:
    histories = [call.body["messages"] for call in calls_of("agent", Traffic(book, options(), Random(1)))]
    assert len(histories) == AGENT_TURNS
    for shorter, longer in zip(histories, histories[1:], strict=False):
        assert longer[: len(shorter)] == shorter
        assert longer[len(shorter)]["content"] == "an answer"


def test_a_refused_call_ends_the_session(book: PromptBook) -> None:
    assert len(calls_of("agent", Traffic(book, options(), Random(1)), "refused")) == 1


def test_abandoning_clients_leave_early_or_late(book: PromptBook) -> None:
    traffic = Traffic(book, options(), Random(1))
    leaves = [calls_of("abandon", traffic)[0].leave for _ in range(40)]
    assert all(leave is not None for leave in leaves)
    assert {leave.pieces is None for leave in leaves if leave} == {True, False}


def test_a_seed_gives_the_same_requests(book: PromptBook) -> None:
    first, again = (calls_of("rag", Traffic(book, options(), Random(7)))[0].body for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--arrivals", "trace"), "--trace"),
        (("--rate", "0"), "--rate"),
        (("--mix", "chat"), "--mix"),
        (("--storm-at", "1"), "--storm-at"),
        (("--mix", "chit=1"), "--mix"),
        (("--mix", "chat=x"), "--mix"),
        (("--max-tokens", "0"), "--max-tokens"),
        (("--requests", "0"), "--requests"),
    ],
)
def test_bad_options_are_named(arguments: tuple[str, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        options(*arguments)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, "blue=k1, green=k2")
    assert options().keys == (("blue", "k1"), ("green", "k2"))
    monkeypatch.setenv(KEYS, "secret")
    with pytest.raises(ValueError, match=KEYS) as raised:
        options()
    assert "secret" not in str(raised.value)


def shapes(path: Path, *lines: object) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else orjson.dumps(line) for line in lines))
    return path


def shape(at: float, prefix: list[str], prompt: int = 200) -> dict[str, object]:
    return {"at": at, "prompt_tokens": prompt, "completion_tokens": 5, "prefix": prefix, "stream": True}


def test_equal_hashes_give_equal_beginnings(tmp_path: Path, book: PromptBook) -> None:
    path = shapes(tmp_path / "t", shape(7, ["x", "z"]), shape(5, ["x", "y"]), shape(6, ["x", "y"], 20))
    first, short, other = read_trace(path)
    assert [one.at for one in (first, short, other)] == [0, 1, 2]
    words, others = first.text().split(), other.text().split()
    assert len(words) == 200 and len(short.text().split()) == 20
    assert words[:BLOCK] == others[:BLOCK] and words[BLOCK : 2 * BLOCK] != others[BLOCK : 2 * BLOCK]
    assert words[:20] == short.text().split()
    due, make = next(replay(path))
    (call,) = (call for call in make(Traffic(book, options(), Random(1))))
    assert due == 0 and call.body["max_tokens"] == 5 and call.body["ignore_eos"] is True


@pytest.mark.parametrize(
    "line", [b"{", {"at": 1}, [], {**shape(0, []), "prompt_tokens": 0}, {**shape(0, []), "prefix": 3}]
)
def test_a_bad_trace_names_the_line(line: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=":2"):
        read_trace(shapes(tmp_path / "t", shape(0, []), line))


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no traffic shape"):
        read_trace(shapes(tmp_path / "t"))
