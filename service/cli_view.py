"""What the commands print."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import typer
import yaml
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from service.engine.inspection import PoolReport, Report
from service.profiles.config import Config

_READY_POLL_S = 0.2
_EVERYWHERE = ("0.0.0.0", "::", "")


@contextmanager
def preparing(description: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total_bytes)
        yield lambda done: progress.advance(task, done)


@dataclass(frozen=True)
class Announcement:
    """Says once that the service answers: seconds since `started` (Unix time), disk used, one curl line."""

    started: float
    folders: tuple[Path, ...]

    async def when_ready(self, config: Config) -> None:
        """Wait until the gateway reports ready, then print."""
        host = "127.0.0.1" if config.gateway.host in _EVERYWHERE else config.gateway.host
        await _wait_for(f"http://{host}:{config.gateway.ops_port}/readyz")
        used = await asyncio.to_thread(disk_bytes, self.folders)
        url = f"http://{host}:{config.gateway.port}"
        typer.echo(
            f"\nready after {time.time() - self.started:.0f} s; {used / 1e9:.1f} GB on disk\n"
            f"API {url}/v1   metrics {url}/metrics   stop with Ctrl-C\n\n{curl_line(url, config)}\n"
        )


def curl_line(url: str, config: Config) -> str:
    """One request that a shell can run."""
    key = "" if config.gateway.api_key is None else " -H 'Authorization: Bearer YOUR_KEY'"
    question = '{"role": "user", "content": "What is the capital of France?"}'
    body = f'{{"model": "{config.models[0].name}", "messages": [{question}], "max_tokens": 32, "temperature": 0}}'
    return f"curl -s {url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'"


def disk_bytes(folders: Sequence[Path]) -> int:
    """Disk space under the folders, each file once however many hard links it has. Blocks."""
    seen: dict[tuple[int, int], int] = {}
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                try:
                    stat = os.lstat(os.path.join(root, name))
                except FileNotFoundError:  # written and removed by the running service
                    continue
                seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


def print_report(report: Report) -> None:
    """Settings as YAML, then each pool."""
    typer.echo("# resolved settings")
    typer.echo(yaml.safe_dump(report.settings, sort_keys=False))
    for pool in report.pools:
        _print_pool(pool)


def print_methods(methods: Mapping[str, Sequence[str]]) -> None:
    """One row a kind."""
    table = Table("kind", "names")
    for kind, names in methods.items():
        table.add_row(kind, ", ".join(names))
    Console().print(table)


def _print_pool(pool: PoolReport) -> None:
    where = "local engine" if not pool.backends else ", ".join(pool.backends)
    engines = "" if pool.role == "whole" else f", {pool.role} engines"
    typer.echo(f"# model {pool.model}, pool {pool.pool}{engines}: {where}")
    if pool.command is not None:
        typer.echo(pool.command.shell())
    for finding in pool.findings:
        colour = typer.colors.RED if finding.level == "error" else typer.colors.YELLOW
        typer.echo(f"{typer.style(finding.level, fg=colour)} {finding.field}: {finding.message}")
    typer.echo("")


async def _wait_for(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while not await _answers(session, url):
            await asyncio.sleep(_READY_POLL_S)


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
