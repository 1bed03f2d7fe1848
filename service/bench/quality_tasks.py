"""What the quality gate asks: long texts to continue, needles to find, answers to repeat, second turns."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.bench.prompts import Prompt
from service.bench.quality import Task
from service.bench.teacher import Teacher
from service.errors import ConfigError

LONG = ("summarization", "rag")
"""Categories whose prompts are long."""
DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
_PLACES = ("Oslo", "Lima", "Cairo", "Dakar", "Quito", "Riga", "Turin", "Osaka", "Perth", "Boston")


@dataclass(frozen=True)
class Sizes:
    """Tokens of context and of forced answers, and tasks of each kind; needles are as many at each depth."""

    context: int = 1024
    answer: int = 64
    texts: int = 8
    needles: int = 2
    chats: int = 6


async def make_tasks(teacher: Teacher, prompts: Sequence[Prompt], sizes: Sizes) -> list[Task]:
    """All tasks, with answers of the whole cache where an answer is compared. Raises ConfigError for short prompts."""
    articles = [prompt.text for prompt in prompts if prompt.category in LONG]
    texts = [ids for text in articles if len(ids := await teacher.tokens(text)) >= sizes.context // 2]
    if not texts:
        raise ConfigError([f"--prompts: none of {'/'.join(LONG)} holds {sizes.context // 2} tokens: lower --context"])
    chats = [prompt for prompt in prompts if prompt.category in LONG][: sizes.chats]
    return [
        *_continuations(texts, sizes),
        *await _needles(teacher, texts, sizes),
        *[task for prompt in chats for task in await _turns(teacher, prompt, sizes)],
    ]


def _continuations(texts: Sequence[tuple[int, ...]], sizes: Sizes) -> Iterator[Task]:
    for ids in texts[: sizes.texts]:
        cut = min(sizes.context, len(ids) - sizes.answer)
        yield Task("perplexity", ids[:cut], ids[cut : cut + sizes.answer])


async def _needles(teacher: Teacher, texts: Sequence[tuple[int, ...]], sizes: Sizes) -> list[Task]:
    """A key in foreign text, and the beginning of a sentence that ends with it."""
    draw = random.Random(0)
    filler = [token for ids in texts for token in ids]
    tasks = []
    for depth in DEPTHS * sizes.needles:
        place, key = draw.choice(_PLACES), str(draw.randrange(10_000, 100_000))
        needle = await teacher.tokens(f"\nThe secret number of {place} is {key}.\n")
        question = await teacher.tokens(f"\nRemember: the secret number of {place} is ")
        room = sizes.context - len(needle) - len(question)
        begin = draw.randrange(max(1, len(filler) - room))
        hay = tuple(filler[begin : begin + room])
        at = int(depth * len(hay))
        tasks.append(Task("recall", (*hay[:at], *needle, *hay[at:], *question), await teacher.tokens(key), depth))
    return tasks


async def _turns(teacher: Teacher, prompt: Prompt, sizes: Sizes) -> list[Task]:
    """The whole cache's answer to a long prompt, and to a question about that answer."""
    first = await teacher.chat_tokens(prompt.messages)
    answer, text = await teacher.answer(first, sizes.answer)
    history = [{"role": "assistant", "content": text}, {"role": "user", "content": "Say that in one sentence."}]
    second = await teacher.chat_tokens([*prompt.messages, *history])
    again, _ = await teacher.answer(second, sizes.answer)
    return [Task("agreement", first, answer), Task("multi_turn", second, again)]
