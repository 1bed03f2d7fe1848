"""Runs the services of docker-compose.yml as plain processes on this machine, without Docker.

`python deploy/compose/without_docker.py` starts engine and gateway with the commands and variables of the file, and
Prometheus where it is installed; Grafana and the services of profiles do not run. Names of services become 127.0.0.1 in
copies of the mounted files. Ctrl-C ends all.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ORDER = ("engine", "gateway", "prometheus")
SETTINGS = "/etc/specserve/specserve.yaml"
PROGRAMS = {"engine": "specserve", "gateway": "specserve", "prometheus": "prometheus"}
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True)
class Process:
    """One service as a process; `env` is added to ours."""

    name: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


def read_compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables filled in, from `variables` or their defaults; anchors are resolved by YAML."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(lambda found: variables.get(found[1], found[2]), text))
    return content


def processes(compose: Mapping[str, Any], folder: Path, settings: Path | None = None) -> list[Process]:
    """What to start, in order. Writes copies of the mounted files, and empty volumes, into `folder`.

    `settings` goes in the place of the settings file that the compose file mounts.
    """
    services = compose["services"]
    return [_process(name, services[name], services, folder / name, settings) for name in ORDER]


def _process(
    name: str, service: Mapping[str, Any], services: Mapping[str, Any], folder: Path, settings: Path | None
) -> Process:
    mounts = {}
    for source, place in _mounts(service):
        source = str(settings) if settings is not None and place == SETTINGS else source
        mounts[place] = _mounted(source, folder / place[1:].replace("/", "-"), services)
    argv = [PROGRAMS[name], *(_here(arg, mounts) for arg in service["command"])]
    env = {key: _here(str(value), mounts) for key, value in service.get("environment", {}).items() if key != "HOME"}
    # A machine has a model cache of its own, which need not be filled again.
    if "SPECSERVE_CACHE_DIR" in env and (own := os.environ.get("SPECSERVE_CACHE_DIR")):
        env["SPECSERVE_CACHE_DIR"] = own
    if "engine" in argv:
        env["SPECSERVE_ENGINE__HOST"] = "127.0.0.1"
    return Process(name, tuple(argv), tuple(sorted(env.items())))


def _mounts(service: Mapping[str, Any]) -> list[tuple[str, str]]:
    parts = (mount.split(":") for mount in service.get("volumes", ()))
    return [(part[0], part[1]) for part in parts]


def _mounted(source: str, target: Path, services: Mapping[str, Any]) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    original = ROOT / source
    if not source.startswith((".", "/")):
        target.mkdir()
    elif original.is_dir():
        shutil.copytree(original, target)
    else:
        shutil.copy(original, target)
    for file in (target, *target.rglob("*")):
        if file.is_file():
            file.write_text(_on_this_machine(file.read_text(encoding="utf-8"), services), encoding="utf-8")
    return str(target)


def _on_this_machine(text: str, services: Mapping[str, Any]) -> str:
    """Addresses of services that do not run here get a port where nobody answers."""
    names = "|".join(sorted(services, key=len, reverse=True))
    addresses = re.compile(rf"(?<![\w.-])({names}):(\d+)")
    return addresses.sub(lambda found: f"127.0.0.1:{found[2] if found[1] in ORDER else 9}", text)


def _here(text: str, mounts: Mapping[str, str]) -> str:
    places = "|".join(re.escape(place) for place in sorted(mounts, key=len, reverse=True))
    text = re.sub(rf"(?<![\w/.-])({places})(?![\w-])", lambda found: mounts[found[1]], text)
    return "127.0.0.1" if text == "0.0.0.0" else text


def main() -> None:
    """Start all, and end all when one ends or at Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=Path, metavar="FILE", help="in place of deploy/compose/specserve.yaml")
    settings = parser.parse_args().settings
    if settings is not None and not settings.is_file():
        parser.error(f"there is no file {settings}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    with tempfile.TemporaryDirectory(prefix="specserve-compose-") as folder:
        running = []
        for process in processes(read_compose(os.environ), Path(folder), settings and settings.resolve()):
            program = shutil.which(process.argv[0], path=path)
            if program is None:
                sys.stderr.write(f"{process.name} is left out: {process.argv[0]} is not installed\n")
                continue
            environment = {**os.environ, "PATH": path, **dict(process.env)}
            running.append(subprocess.Popen([program, *process.argv[1:]], env=environment))
        try:
            os.wait()
        except KeyboardInterrupt:
            pass
        for child in running:
            child.terminate()
        for child in running:
            child.wait()


if __name__ == "__main__":
    main()
