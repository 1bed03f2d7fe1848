"""`specserve models`: the model store by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli_view import preparing
from service.engine.store import PACKAGED, ModelStore
from service.engine.truncate import truncate as truncate_model
from service.errors import ConfigError
from service.profiles.config import load_config

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help=f"packaged model: {', '.join(PACKAGED)}")]
_DEFAULT = next(iter(PACKAGED))


@app.command()
def prepare(model: Name = _DEFAULT) -> None:
    """Make a packaged model ready for SGLang, and print its folder."""
    typer.echo(ModelStore(load_config().cache_dir).prepare(model, preparing))


@app.command()
def verify(model: Name = _DEFAULT) -> None:
    """Compare every file of a prepared model with its checksum; exit status 2 when one is damaged."""
    store = ModelStore(load_config().cache_dir)
    if damaged := store.damaged_files(model):
        raise ConfigError([f"damaged or missing in {store.location(model)}: {', '.join(damaged)}"])
    typer.echo(f"{store.location(model)}: all files are intact")


@app.command()
def truncate(
    target: Annotated[Path, typer.Argument(help="new model folder")],
    drop: Annotated[str, typer.Option(help="layers to leave out, as 12,13,14,15")],
    source: Annotated[str, typer.Option(help="model folder or packaged model")] = _DEFAULT,
) -> None:
    """Copy a model without some layers, as a draft model for experiments."""
    try:
        layers = {int(layer) for layer in drop.split(",")}
    except ValueError:
        raise ConfigError([f"--drop takes layer numbers with commas, not {drop!r}"]) from None
    folder = Path(ModelStore(load_config().cache_dir).prepare(source, preparing))
    typer.echo(f"{target}: {truncate_model(folder, target, layers)} layers")
