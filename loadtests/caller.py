"""Sends one request and watches its answer; the only place with sockets. Runs under gevent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import gevent
import orjson
from gevent import Greenlet, GreenletExit
from gevent.timeout import Timeout
from geventhttpclient import HTTPClient

from loadtests.answer import Answer
from loadtests.record import Outcome, Record

_PATH = "/v1/chat/completions"
_REFUSALS = frozenset({400, 401, 403, 404, 408, 413, 422, 429, 503})


@dataclass(frozen=True, slots=True)
class Leave:
    """When a client goes away: after some pieces of text, or after some seconds, whichever is first."""

    pieces: int | None = None
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request to make. `pause_s` is how long a slow reader rests after each piece of text."""

    kind: str
    body: Mapping[str, Any]
    key: str | None = None
    tenant: str | None = None
    leave: Leave | None = None
    pause_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """The record of a request, and what the model wrote."""

    record: Record
    text: str
    tool_calls: tuple[dict[str, Any], ...]


class Caller:
    """Calls one service over kept connections; any number of greenlets may share it.

    `clock` gives seconds since the test began. An answer that does not end within `limit_s` has failed.
    """

    def __init__(self, url: str, *, clock: Callable[[], float], limit_s: float, concurrency: int = 1024) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._open: list[Greenlet] = []
        self._client = HTTPClient.from_url(
            url, concurrency=concurrency, connection_timeout=10, network_timeout=limit_s, insecure=False
        )

    @property
    def open(self) -> int:
        """Requests under way."""
        return len(self._open)

    def drop(self, share: float) -> int:
        """That share of the clients goes away at once; how many. Returns when their connections are closed."""
        leaving = self._open[: round(len(self._open) * share)]
        gevent.killall(leaving)
        return len(leaving)

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()

    def call(self, call: Call, due: float | None = None, keep: Callable[[Record], None] | None = None) -> Reply:
        """Send it and read the answer; blocks its greenlet. `due` is when it should have been sent, none: now.

        Never raises for what the service does: that is in the record, which `keep` gets in any case, also when this
        greenlet is killed.
        """
        sent = self._clock()
        due = sent if due is None else due
        one = _One(call, due, sent, self._clock)
        # Its own greenlet: what ends the client's leaves its record to be written.
        worker = gevent.spawn(one.run, self._client, self._limit_s)
        self._open.append(worker)
        try:
            worker.join()
        finally:
            if not worker.ready():
                one.left = True
                worker.kill()
            self._open.remove(worker)
            reply = one.reply()
            if keep is not None:
                keep(reply.record)
        return reply


class _One:
    """One request under way."""

    def __init__(self, call: Call, due: float, sent: float, clock: Callable[[], float]) -> None:
        self._call, self._due, self._sent, self._clock = call, due, sent, clock
        self._id = uuid4().hex
        self._answer = Answer()
        self._status: int | None = None
        self._pool: str | None = None
        self.left = False
        self.error: str | None = None

    def run(self, client: HTTPClient, limit_s: float) -> None:
        """Send and read, for at most `limit_s`; a kill is a client that leaves."""
        try:
            with Timeout(limit_s, False):
                self._run(client)
                return
            self.error = f"no end within {limit_s:g} s"
        except GreenletExit:
            self.left = True
        except (OSError, ValueError) as error:
            # geventhttpclient's own errors are ValueErrors and OSErrors.
            self.error = f"{type(error).__name__}: {error}"

    def _run(self, client: HTTPClient) -> None:
        leave = self._call.leave
        with Timeout(leave.after_s if leave else None, False):
            headers = {"Content-Type": "application/json", "X-Request-Id": self._id, "X-Speculation-Metrics": "1"}
            if self._call.key is not None:
                headers["Authorization"] = f"Bearer {self._call.key}"
            # A client that leaves releases an unfinished response, which closes its connection.
            with client.post(_PATH, orjson.dumps(self._call.body), headers={**headers, **self._call.headers}) as answer:
                self._status = answer.status_code
                self._pool = answer.get("x-specserve-pool")
                if self._status != 200:
                    self.error = answer.read()[:300].decode(errors="replace")
                elif not self._call.body.get("stream"):
                    self._answer.whole(answer.read())
                else:
                    self._read(answer)
            return
        self.left = True

    def _read(self, answer: Any) -> None:
        leave = self._call.leave
        while event := answer.readline(b"\n\n"):
            before = self._answer.pieces
            self._answer.event(self._clock() - self._due, event)
            if leave is not None and leave.pieces is not None and self._answer.pieces >= leave.pieces:
                self.left = True
                return
            if self._call.pause_s and self._answer.pieces > before:
                gevent.sleep(self._call.pause_s)

    def reply(self) -> Reply:
        """What came of it, now."""
        answer = self._answer
        details = answer.usage.get("prompt_tokens_details") or {}
        record = Record(
            at=self._due,
            late_s=self._sent - self._due,
            kind=self._call.kind,
            tenant=self._call.tenant,
            request_id=self._id,
            outcome=self._outcome(),
            streamed=bool(self._call.body.get("stream")),
            e2e_s=self._clock() - self._due,
            status=self._status,
            error=self.error or answer.error,
            first_event_s=answer.first_event_s,
            ttft_s=answer.ttft_s,
            gaps_s=() if self._call.pause_s else tuple(answer.gaps_s),
            slow_reader=self._call.pause_s > 0,
            prompt_tokens=answer.usage.get("prompt_tokens"),
            cached_tokens=details.get("cached_tokens"),
            completion_tokens=answer.usage.get("completion_tokens"),
            pool=self._pool,
            steps=answer.drafts.get("num_spec_steps"),
            proposed=answer.drafts.get("num_draft_tokens"),
            accepted=answer.drafts.get("num_accepted_draft_tokens"),
        )
        return Reply(record, "".join(answer.text), tuple(answer.tool_calls))

    def _outcome(self) -> Outcome:
        if self.left:
            return "left"
        if self._status in _REFUSALS:
            return "refused"
        if self.error or self._answer.error:
            return "failed"
        if not self._answer.done:
            self.error = "the answer stopped before its end"
            return "failed"
        return "ok"


def now() -> float:
    """Seconds of a clock that never jumps."""
    return time.perf_counter()
