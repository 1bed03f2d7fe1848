"""Real SGLang engines for tests: at most one runs at a time, and none is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.bench.models import truncated_draft
from service.bench.servers import free_port
from service.engine.store import ModelStore
from service.profiles.command import HOST, ModelSource, engine_command
from service.profiles.config import load_config
from service.profiles.schema import Profile, Target
from service.sglang_plugin.spec_config import VARIABLE

START_SECONDS = 400
MODEL = "test"
TARGET = Target().model


@dataclass(frozen=True)
class Engine:
    """A running engine; every call blocks for its answer."""

    url: str

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """JSON there and back; AssertionError for anything but 200."""
        response = httpx.post(f"{self.url}{path}", json=body, timeout=300)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def chat(self, text: str, mode: str | None = None, **fields: Any) -> dict[str, Any]:
        """One chat completion: greedy, 48 tokens, with token ids and speculation details, unless `fields` differ."""
        return self.post("/v1/chat/completions", chat_body(text, mode, **fields))

    def chats(self, texts: Sequence[str], modes: Sequence[str | None], **fields: Any) -> list[dict[str, Any]]:
        """Several chats at once, in the order of `texts`; modes are given in turn."""
        with ThreadPoolExecutor(len(texts)) as pool:
            jobs = [pool.submit(self.chat, text, modes[i % len(modes)], **fields) for i, text in enumerate(texts)]
            return [job.result() for job in jobs]

    def running(self) -> int:
        """Requests that the engine has, running or waiting."""
        load = httpx.get(f"{self.url}/v1/loads", timeout=10).json()
        return sum(rank["num_running_reqs"] + rank["num_waiting_reqs"] for rank in load["loads"])

    def flush(self) -> None:
        """Empty the prefix cache; fails while requests run."""
        assert httpx.post(f"{self.url}/flush_cache", params={"timeout": 30}, timeout=60).status_code == 200


class EngineHost:
    """Starts the engine that a test asks for, and stops the one before it."""

    def __init__(self, logs: Path) -> None:
        config = load_config()
        self._store = ModelStore(config.cache_dir)
        self._cache = config.cache_dir
        self._logs = logs
        self._name: str | None = None
        self._engine: Engine | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> Path:
        """The prepared target model's folder."""
        return Path(self._store.prepare(TARGET, lambda _what, _size: nullcontext(lambda _done: None)))

    @property
    def cut_draft(self) -> Path:
        """The target without four layers."""
        return truncated_draft(self.target, self._cache)

    def use(self, name: str, profile: Profile, **speculation: Any) -> Engine:
        """The engine of that name, started unless it runs already; `speculation` goes to the plugin alone."""
        if self._name != name or self._engine is None:
            self.stop()
            self._engine = self._start(name, profile, speculation)
            self._name = name
        return self._engine

    def stop(self) -> None:
        """End the whole process group, if any."""
        process, self._process, self._name = self._process, None, None
        if process is None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(15)

    def _start(self, name: str, profile: Profile, speculation: dict[str, Any]) -> Engine:
        port, draft = free_port(), profile.speculation.draft_model
        command = engine_command(
            profile,
            port=port,
            served_name=MODEL,
            target=ModelSource(str(self.target), offline=True),
            draft=None if draft is None else ModelSource(draft, offline=True),
        )
        environment = command.environment(os.environ)
        if speculation:
            environment[VARIABLE] = json.dumps(json.loads(environment[VARIABLE]) | speculation)
        strict = {f"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_{when}": "1" for when in ("IDLE", "BUSY")}
        log = self._logs / f"{name}.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command.argv,
                env=environment | strict,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        engine, process = Engine(f"http://{HOST}:{port}"), self._process
        wait_until(lambda: process.poll() is not None or _healthy(engine), START_SECONDS, 0.5)
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        return engine


def chat_body(text: str, mode: str | None = None, **fields: Any) -> dict[str, Any]:
    """What `Engine.chat` sends."""
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 48}
    body |= {"temperature": 0, "return_token_ids": True, "return_spec_tokens_details": True}
    if mode is not None:
        body["custom_params"] = {"specserve": {"mode": mode}}
    return body | fields


def ids(answer: dict[str, Any], choice: int = 0) -> list[int]:
    """Token ids of a choice."""
    found: list[int] = answer["choices"][choice]["response_token_ids"]
    return found


def details(answer: dict[str, Any]) -> Any:
    """The speculation details; None when nothing was speculated."""
    return (answer.get("sglext") or {}).get("spec_tokens_details")


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.1) -> float:
    """Wait for a condition; the seconds it took. AssertionError after `seconds`."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, f"still not so after {seconds} s"
        time.sleep(pause)
    return time.monotonic() - start


def _healthy(engine: Engine) -> bool:
    try:
        return httpx.get(f"{engine.url}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
