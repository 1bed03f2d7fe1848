"""What a model's folder says about it, and whether two models speak the same tokens; reads JSON only, no torch."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from service.errors import ConfigError


@cache
def config_of(folder: str) -> dict[str, Any]:
    """The folder's config.json. Raises ConfigError when there is none."""
    path = Path(folder, "config.json")
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ConfigError([f"{folder} is no model folder: its config.json cannot be read ({error})"]) from None


def vocabulary_size(folder: str) -> int:
    """How many token ids the model scores, unused ones included."""
    try:
        return int(config_of(folder)["vocab_size"])
    except KeyError:
        raise ConfigError(
            [f"the config.json of {folder} has no vocab_size; only plain text models can draft"]
        ) from None


def _tokens(folder: str) -> dict[str, int] | None:
    """Token texts and ids of the tokenizer, added tokens included; None without a tokenizer.json."""
    path = Path(folder, "tokenizer.json")
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    if not isinstance(vocabulary, dict):  # unigram tokenizers list pairs of text and score
        vocabulary = {text: token for token, (text, _) in enumerate(vocabulary)}
    return vocabulary | {added["content"]: added["id"] for added in content.get("added_tokens", ())}


@cache
def shared_vocabulary(draft: str, target: str) -> int:
    """The number of token ids that both models score, if every token means the same to both.

    Where both folders have a tokenizer.json, the tokenizers must agree token by token; the sizes of the score rows
    may then differ by padding, as they do in some model families. Else the sizes must be equal. Raises ConfigError.
    """
    sizes = vocabulary_size(draft), vocabulary_size(target)
    ours, theirs = _tokens(draft), _tokens(target)
    if ours is None or theirs is None:
        if sizes[0] != sizes[1]:
            raise ConfigError(
                [
                    f"draft model {draft} has {sizes[0]} tokens and target {target} {sizes[1]}; choose a draft model"
                    " with the target's vocabulary"
                ]
            )
    elif ours != theirs:
        example = next(iter(sorted(ours.items() ^ theirs.items(), key=lambda item: item[1])))
        raise ConfigError(
            [
                f"the tokenizers of draft model {draft} and target {target} differ, first at token {example[1]}"
                f" ({example[0]!r}); choose a draft model with the target's tokenizer"
            ]
        )
    return min(sizes)
