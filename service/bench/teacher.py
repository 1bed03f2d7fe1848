"""Asks an engine that was started with `SPECSERVE_TEACHER=1` how likely given answers are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from service.bench.client import Client, connected
from service.bench.quality import Score, Task
from service.bench.servers import SERVED_NAME, Workshop, free_port
from service.errors import EngineError
from service.kvcache.answer_keys import BEST_KEY, HELD_KEY, LOGPROB_KEY, READ_KEY, TEACHER_VARIABLE, last_value
from service.profiles.command import engine_command
from service.profiles.schema import Profile, Speculation

AT_ONCE = 4
"""Requests in flight; more would only share the same steps."""


class Teacher:
    """One engine's answers by token ids."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tokens(self, text: str) -> tuple[int, ...]:
        """The text's tokens without special ones."""
        found = await self._client.post(
            "/tokenize", {"model": SERVED_NAME, "prompt": text, "add_special_tokens": False}
        )
        return tuple(found["tokens"])

    async def chat_tokens(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """A chat's tokens, up to where the answer begins."""
        found = await self._client.post("/tokenize", {"model": SERVED_NAME, "messages": list(messages)})
        return tuple(found["tokens"])

    async def answer(self, prompt: Sequence[int], tokens: int) -> tuple[tuple[int, ...], str]:
        """The greedy answer of at most `tokens` tokens, and its text."""
        found = await self._generate(prompt, tokens, {})
        return tuple(found["output_ids"]), str(found["text"])

    async def score(self, task: Task) -> Score:
        """How the engine takes the task's answer. Raises EngineError when the engine does not teach."""
        wishes = {"forced": list(task.answer)}
        found = await self._generate(task.prompt, len(task.answer), wishes, ignore_eos=True)
        meta = found["meta_info"]
        logprobs, best = (tuple(meta.get(key) or ()) for key in (LOGPROB_KEY, BEST_KEY))
        if tuple(found["output_ids"]) != task.answer or not len(logprobs) == len(best) == len(task.answer):
            raise EngineError(f"the engine did not take the answer: start it with {TEACHER_VARIABLE}=1")
        length = len(task.prompt) + len(task.answer)
        # The last token is never read back, so its KV is not there.
        held = last_value(meta, HELD_KEY)
        read = last_value(meta, READ_KEY)
        return Score(
            logprobs,
            tuple(bool(hit) for hit in best),
            held=length - 1 if held is None else held,
            length=length - 1,
            read=1.0 if read is None else read,
        )

    async def scores(self, tasks: Sequence[Task]) -> list[Score]:
        """All of them, a few at once, in order."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(task: Task) -> Score:
            async with gate:
                return await self.score(task)

        return list(await asyncio.gather(*(one(task) for task in tasks)))

    async def _generate(
        self, prompt: Sequence[int], tokens: int, wishes: Mapping[str, Any], **params: Any
    ) -> dict[str, Any]:
        sampling = {"temperature": 0, "max_new_tokens": tokens, "custom_params": {"specserve": wishes}, **params}
        return await self._client.post("/generate", {"input_ids": list(prompt), "sampling_params": sampling})


@asynccontextmanager
async def teaching(workshop: Workshop, name: str, profile: Profile) -> AsyncIterator[Teacher]:
    """An engine of the profile without speculation, which takes forced answers."""
    port = free_port()
    plain = profile.model_copy(update={"speculation": Speculation(algorithm="none")})
    command = engine_command(plain, port=port, served_name=SERVED_NAME, target=workshop.source(profile.target.model))
    command = replace(command, env=tuple(sorted((*command.env, (TEACHER_VARIABLE, "1")))))
    async with workshop.running(name, command, port) as url, connected(url, "engine", SERVED_NAME) as client:
        yield Teacher(client)
