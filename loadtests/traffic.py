"""Kinds of traffic: what one client of each does. They know no Locust, so that open and closed loops share them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from loadtests.caller import Call, Leave, Reply
from loadtests.options import Options
from loadtests.prompts import PromptBook, Task

Session = Generator[Call, Reply, None]
"""The calls of one client, one after the other; the reply to each comes back by `send`."""
Kind = Callable[["Traffic"], Session]

LEAVES_AFTER = (1, 12)
"""Pieces of text, at least and at most, after which an abandoning client goes."""
LEAVES_EARLY_S = (0.05, 0.6)
"""Seconds after which an abandoning client goes, for half of them often before the first token."""
SLOW_PAUSE_S = 0.2
AGENT_TURNS = 4


@dataclass
class Traffic:
    """What the kinds draw from; not shared between greenlets."""

    book: PromptBook
    options: Options
    random: Random
    key: str | None = None
    tenant: str | None = None

    def call(self, kind: str, messages: list[dict[str, Any]], **more: Any) -> Call:
        """A streamed chat completion with the test's common fields."""
        options = self.options
        body: dict[str, Any] = {
            "model": options.model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": options.max_tokens,
            "temperature": 0,
            "speculation": {"mode": options.mode} | ({"pool": options.pool} if options.pool else {}),
        }
        return Call(kind, body | more, self.key, self.tenant)


def chat(traffic: Traffic) -> Session:
    """A conversation with all turns of its task; the last answer is not streamed."""
    task = traffic.book.pick("chat", traffic.random)
    messages = _opening(task)
    for number, turn in enumerate(task.turns, 1):
        messages.append({"role": "user", "content": turn})
        streamed = number < len(task.turns) or traffic.random.random() < 0.75
        more = {} if streamed else {"stream": False, "stream_options": None}
        reply = yield traffic.call("chat", messages, **more)
        messages.append({"role": "assistant", "content": reply.text})


def rag(traffic: Traffic) -> Session:
    """One question over given passages."""
    yield from _single(traffic, "rag")


def summarize(traffic: Traffic) -> Session:
    """One text to shorten."""
    yield from _single(traffic, "summarize")


def code(traffic: Traffic) -> Session:
    """One function to complete."""
    yield from _single(traffic, "code")


def tools(traffic: Traffic) -> Session:
    """One forced tool call."""
    task = traffic.book.pick("tools", traffic.random)
    messages = [*_opening(task), *({"role": "user", "content": turn} for turn in task.turns)]
    yield traffic.call("tools", messages, tools=list(task.tools), tool_choice="required")


def agent(traffic: Traffic) -> Session:
    """Several turns over one growing history, as an agent loop sends them: call a tool, read its result, go on."""
    task = traffic.book.pick("tools", traffic.random)
    messages: list[dict[str, Any]] = [*_opening(task), {"role": "user", "content": task.turns[0]}]
    for number in range(AGENT_TURNS):
        reply: Reply = yield traffic.call("agent", messages, tools=list(task.tools), tool_choice="auto")
        result = f"Result {number + 1} of {AGENT_TURNS}: done, no error. Go on with the next step of the same task."
        messages = [*messages, {"role": "assistant", "content": reply.text}, {"role": "user", "content": result}]


def abandon(traffic: Traffic) -> Session:
    """A client that goes away: after some text, or after a time that may be before the first token."""
    random = traffic.random
    call = next(_single(traffic, "chat"))
    if random.random() < 0.5:
        leave = Leave(pieces=random.randint(*LEAVES_AFTER))
    else:
        leave = Leave(after_s=random.uniform(*LEAVES_EARLY_S))
    yield replace(call, kind="abandon", leave=leave)


def slow(traffic: Traffic) -> Session:
    """A client that reads slower than the engine writes."""
    yield replace(next(_single(traffic, "chat")), kind="slow", pause_s=SLOW_PAUSE_S)


KINDS: Mapping[str, Kind] = {kind.__name__: kind for kind in (chat, rag, summarize, code, tools, agent, abandon, slow)}


def _opening(task: Task) -> list[dict[str, Any]]:
    return [{"role": "system", "content": task.system}] if task.system else []


def _single(traffic: Traffic, kind: str) -> Session:
    task = traffic.book.pick(kind, traffic.random)
    yield traffic.call(kind, [*_opening(task), {"role": "user", "content": task.turns[0]}])


def play(session: Session, ask: Callable[[Call], Reply]) -> Iterator[Reply]:
    """Make the session's calls, one at each step; a reply that is no whole answer ends the session."""
    reply = None
    for _ in count():
        try:
            call = next(session) if reply is None else session.send(reply)
        except StopIteration:
            return
        reply = ask(call)
        yield reply
        if reply.record.outcome != "ok":
            return
