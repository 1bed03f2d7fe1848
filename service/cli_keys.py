"""`specserve keys`: makes keys for the file of `gateway.api_keys`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from service.errors import ConfigError
from service.gateway.admission.key_file import hash_of, new_key

app = typer.Typer(no_args_is_help=True)


@app.callback()
def keys() -> None:
    """Make API keys."""


@app.command()
def new(name: Annotated[str, typer.Argument(help="tenant of the key: A-Z a-z 0-9 _ . -, at most 64")]) -> None:
    """Print a new key, which is stored nowhere, and the line for the key file."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ConfigError([f"{name!r} is no tenant name: use 1 to 64 characters of A-Z a-z 0-9 _ . -"])
    key = new_key()
    typer.echo(f"key, shown once: {key}\nfor the file of gateway.api_keys, under `keys:`")
    typer.echo(f'  - {{tenant: "{name}", hash: "sha256:{hash_of(key.encode()).hex()}"}}')
