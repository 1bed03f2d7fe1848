"""Locust's users: one class a kind of traffic in a closed loop, one dispatcher in an open loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import gevent
import orjson
from gevent.pool import Group
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from loadtests.arrivals import poisson
from loadtests.caller import Call, Caller, Reply, now
from loadtests.journal import Journal
from loadtests.levels import LEVELS
from loadtests.options import Options
from loadtests.prompts import PromptBook
from loadtests.record import Record
from loadtests.storm import strike
from loadtests.trace import replay
from loadtests.traffic import KINDS, Session, Traffic, play

MOST_IN_FLIGHT = 2000
"""An open loop counts what is due beyond that as failed: the generator must not be what breaks."""


@dataclass
class Test:
    """Everything that the users of one test share; hung on Locust's environment as `specserve`."""

    options: Options
    book: PromptBook
    journal: Journal
    caller: Caller
    environment: Environment
    began: float
    finished: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def begin(cls, options: Options, host: str, environment: Environment) -> Test:
        """Start the clock. Raises OSError and ValueError for prompts that cannot be read."""
        began = now()
        caller = Caller(host, clock=lambda: now() - began, limit_s=options.limit_s)
        test = cls(options, PromptBook.read(options.data), Journal(options.out), caller, environment, began)
        if options.storm_at is not None:
            gevent.spawn_later(options.storm_at * run_seconds(environment), test.storm)
        return test

    def storm(self) -> None:
        """Half of the clients leave now; blocks until the engine was looked at."""
        strike(self.caller, self.options.engine).write(self.options.out)

    def end(self) -> None:
        """Close connections and files; the records stay."""
        self.finished = False  # The page may start another test, which asks the shape first.
        (self.options.out / "sent.json").write_bytes(orjson.dumps({"sent": self.journal.sent}))
        self.caller.close()
        self.journal.close()

    def clock(self) -> float:
        """Seconds since the test began."""
        return now() - self.began

    def traffic(self) -> Traffic:
        """A source for the next client: its own random numbers and the next tenant's key."""
        number = next(self._numbers)
        keys = self.options.keys
        tenant, key = keys[number % len(keys)] if keys else (None, None)
        return Traffic(self.book, self.options, Random(self.options.seed * 1_000_003 + number), key, tenant)

    def ask(self, call: Call, due: float | None = None) -> Reply:
        """Make the call, keep its record, tell Locust. Blocks its greenlet."""
        if self.options.requests is not None and self.journal.sent >= self.options.requests:
            raise StopUser()
        self.journal.sent += 1
        return self.caller.call(call, due, self._keep)

    def refuse(self, due: float) -> None:
        """Record a client that was due while too many were waiting."""
        self.journal.sent += 1
        error = f"not sent: {MOST_IN_FLIGHT} requests wait for answers, the rate is far above what is served"
        late = self.clock() - due
        self._keep(Record(due, late, "unsent", None, uuid4().hex, "failed", False, late, error=error))

    def _keep(self, record: Record) -> None:
        self.journal.add(record)
        bad = record.outcome in ("failed", "refused")
        self.environment.events.request.fire(
            request_type=record.outcome,
            name=record.kind,
            response_time=record.e2e_s * 1e3,
            response_length=record.completion_tokens or 0,
            exception=RuntimeError(f"{record.status}: {record.error}") if bad else None,
            context={},
        )
        if self.options.requests is not None and self.journal.sent >= self.options.requests:
            self.finished = True


class TrafficUser(User):
    """A client of one kind: one call after the other, with a short think time. Subclasses name the kind."""

    abstract = True
    kind: str

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._test: Test = environment.specserve
        self._traffic = self._test.traffic()
        self._replies: Iterator[Reply] = iter(())

    def wait_time(self) -> float:
        """Seconds of thinking, as of a person who comes back at any moment."""
        pause: float = self._traffic.random.expovariate(1 / self._test.options.think_s)
        return pause

    @task
    def next_call(self) -> None:
        """The session's next call, or the first one of a new session. Locust never stops within it."""
        if next(self._replies, None) is None:
            self._replies = play(KINDS[self.kind](self._traffic), self._test.ask)
            next(self._replies, None)


class ChatUser(TrafficUser):
    """Conversations."""

    kind, weight = "chat", 4


class RagUser(TrafficUser):
    """Questions over given passages."""

    kind, weight = "rag", 2


class SummarizeUser(TrafficUser):
    """Texts to shorten."""

    kind, weight = "summarize", 1


class CodeUser(TrafficUser):
    """Functions to complete."""

    kind, weight = "code", 2


class ToolsUser(TrafficUser):
    """Forced tool calls."""

    kind, weight = "tools", 1


class AgentUser(TrafficUser):
    """Sessions of many turns over one history."""

    kind, weight = "agent", 1


class AbandonUser(TrafficUser):
    """Clients that go away before the end."""

    kind, weight = "abandon", 1


class SlowUser(TrafficUser):
    """Clients that read slowly."""

    kind, weight = "slow", 1


class OpenLoop(User):
    """Starts each client when it is due, however many are waiting; Locust runs one of these."""

    fixed_count = 1

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._test: Test = environment.specserve
        self._clients = Group()

    @task
    def dispatch(self) -> None:
        """All arrivals of the test; ends the test when the last one is answered."""
        for due, make in self._arrivals():
            gevent.sleep(max(due - self._test.clock(), 0))
            if len(self._clients) < MOST_IN_FLIGHT:
                self._clients.spawn(self._client, due, make)
            else:
                self._test.refuse(due)
        self._clients.join()
        self._test.finished = True
        raise StopUser()

    def on_stop(self) -> None:
        """Nothing sent is left without a record."""
        self._clients.join()

    def _arrivals(self) -> Iterator[tuple[float, Callable[[Traffic], Session]]]:
        options = self._test.options
        if options.trace is not None:
            yield from replay(options.trace)
            return
        seconds = run_seconds(self.environment)
        random = Random(options.seed)
        names, shares = zip(*options.mix, strict=True)
        for due in poisson(options.rate, LEVELS[options.level], seconds, random):
            yield due, KINDS[random.choices(names, shares)[0]]

    def _client(self, due: float, make: Callable[[Traffic], Session]) -> None:
        first: float | None = due

        def ask(call: Call) -> Reply:
            """Only the first call of a session has a due time: the next ones follow the answers."""
            nonlocal first
            at, first = first, None
            return self._test.ask(call, at)

        for _ in play(make(self._test.traffic()), ask):
            pass


def run_seconds(environment: Environment) -> float:
    """Locust's `--run-time`, 60 when none was given."""
    options: Any = environment.parsed_options
    return float(options.run_time or 60) if options is not None else 60.0
