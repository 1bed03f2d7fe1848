"""Builds a prior: the model talks to itself, and what it found probable is counted.

`python -m service.speculation.prior_build MODEL_FOLDER PRIOR_FILE`, then give drafters the option `prior: PRIOR_FILE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from service.speculation.prior import Prior, PriorCounts, save_prior

_MARK = "\u2063specserve\u2063"


@dataclass(frozen=True)
class SelfTalk:
    """How the model is made to talk: it writes a user's message, then answers it, many at a time.

    Chat models write a question when they are given the template up to the user's words; models without a template
    write on from nothing. No text of anybody is used. Source of the trick: Magpie, arXiv:2406.08464.

    Parameters: `conversations` in all; `batch` of them at a time; `question` and `answer` tokens at most;
    `temperature` of the questions, which makes them differ, and `answer_temperature`; `best` next tokens counted
    behind each position; `threads` of torch, None for its own choice; `seed`.
    """

    conversations: int = 384
    batch: int = 192
    question: int = 40
    answer: int = 72
    temperature: float = 1.0
    answer_temperature: float = 0.7
    best: int = 12
    threads: int | None = None
    seed: int = 0


def build_prior(model: Path, talk: SelfTalk | None = None, counts: PriorCounts | None = None) -> Prior:
    """Sample from the model in `model` (a folder that transformers can load) and count what it found probable.

    Blocks for minutes on a CPU and loads the weights once in bfloat16. Raises what transformers raises for a folder
    that it cannot load.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    talk, counts = talk or SelfTalk(), counts or PriorCounts()
    if talk.threads is not None:
        torch.set_num_threads(talk.threads)
    tokenizer = AutoTokenizer.from_pretrained(model)
    # Fused attention of one query in bfloat16 took half of a decode step on a CPU.
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, attn_implementation="eager").eval()
    speaker = _Speaker(network, talk, counts, torch.Generator().manual_seed(talk.seed))
    before, after = _frame(tokenizer)
    ends = {token for token in (tokenizer.eos_token_id, *after[:1]) if token is not None}
    with torch.inference_mode():
        for start in range(0, talk.conversations, talk.batch):
            rows = min(talk.batch, talk.conversations - start)
            questions = speaker.speak([before] * rows, ends, talk.question, talk.temperature)
            answers = [before + question + after for question in questions]
            speaker.speak(answers, ends, talk.answer, talk.answer_temperature)
    return counts.prior()


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Tokens before and after a user's message in the chat template; a start token and nothing without template."""
    if tokenizer.chat_template is None:
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        return [start or 0], []
    messages = [{"role": "user", "content": _MARK}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    before, _, after = text.partition(_MARK)
    return tuple(tokenizer.encode(part, add_special_tokens=False) for part in (before, after))


class _Speaker:
    """Samples many texts at once and counts the model's best next tokens behind every sampled position."""

    def __init__(self, network: Any, talk: SelfTalk, counts: PriorCounts, generator: Any) -> None:
        self._network, self._talk, self._counts, self._generator = network, talk, counts, generator

    def speak(self, prompts: list[list[int]], ends: set[int], limit: int, temperature: float) -> list[list[int]]:
        """Up to `limit` tokens behind each prompt, cut before a token that ends the message."""
        said: list[list[int]] = [[] for _ in prompts]
        live = set(range(len(prompts)))
        before = [prompt[-2] if len(prompt) > 1 else prompt[-1] for prompt in prompts]
        tokens = [prompt[-1] for prompt in prompts]
        for ids, probabilities, chosen in self._sampled(prompts, temperature):
            rows = sorted(live)
            self._counts.add(np.array(before)[rows], np.array(tokens)[rows], ids[rows], probabilities[rows])
            before, tokens = tokens, chosen
            for row in rows:
                if chosen[row] in ends:
                    live.discard(row)
                else:
                    said[row].append(chosen[row])
                    if len(said[row]) == limit:
                        live.discard(row)
            if len(live) <= len(prompts) // 8:
                break
        return said

    def _sampled(
        self, prompts: list[list[int]], temperature: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray, list[int]]]:
        """Position by position: the best next tokens, their probabilities, and a drawn token, for all rows."""
        import torch

        longest = max(len(prompt) for prompt in prompts)
        tokens = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        cache = None
        while True:
            places = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
            out = self._network(
                tokens,
                attention_mask=mask,
                position_ids=places,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.past_key_values
            logits = out.logits[:, -1].float()
            top = logits.softmax(-1).topk(self._talk.best)
            drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=self._generator)
            yield top.indices.numpy(), top.values.numpy(), drawn[:, 0].tolist()
            tokens = drawn
            mask = torch.cat((mask, torch.ones_like(drawn)), 1)


def main(model: Path, out: Path, conversations: int = SelfTalk.conversations, seed: int = SelfTalk.seed) -> None:
    """Build the prior of the model in a folder and write it to a file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    prior = build_prior(model, SelfTalk(conversations=conversations, seed=seed))
    save_prior(prior, out)
    typer.echo(f"{len(prior)} contexts, {out.stat().st_size / 1e6:.1f} MB: {out}")


if __name__ == "__main__":
    typer.run(main)
