"""`specserve calibrate`: files that fit a method to a model."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from service.bench.prompts import load_prompts
from service.cli_view import preparing
from service.engine.store import PACKAGED, ModelStore
from service.errors import ConfigError
from service.profiles.config import load_config

app = typer.Typer(no_args_is_help=True)


@app.callback()
def calibrate() -> None:
    """Keeps `kv` a command of its own beside those to come."""


@app.command()
def kv(
    out: Annotated[Path, typer.Argument(help="file to write; name it in kv.calibration")],
    prompts: Annotated[Path, typer.Option(help="jsonl file of prompts, whose text the model reads")],
    model: Annotated[str, typer.Option(help="packaged model or model folder")] = next(iter(PACKAGED)),
    tokens: Annotated[int, typer.Option(min=64, help="tokens of text that are read")] = 16_384,
    piece: Annotated[int, typer.Option(min=64, help="tokens of one text")] = 1024,
) -> None:
    """Fit the rotation `oscar` of quantized KV caches to a model; blocks while the model reads the text."""
    text = "\n\n".join(prompt.text for prompt in load_prompts(prompts))
    # By name: the gateway's commands must not import torch.
    work = import_module("service.kvcache.calibration")
    folder = Path(ModelStore(load_config().cache_dir).prepare(model, preparing))
    if not folder.is_dir():
        raise ConfigError([f"--model: {model} is a hub name; give a packaged model or a folder"])
    try:
        turns = work.calibrate(folder, text, tokens, piece)
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    work.write_calibration(out, turns)
    typer.echo(f"{out}: rotation oscar for {len(turns['keys'])} layers")
