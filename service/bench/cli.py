"""`specserve bench`: one command a benchmark."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure a running service or a pool."""
