"""Brings programs of Debian's packages that the tests use, without installing them: no root is needed.

`python deploy/debian/programs.py prometheus chromium` downloads what is missing with apt-get, unpacks it into folder
`debian` of the cache and prints where each program lies. A program on the path is used as it is. Prometheus brings
promtool; Chromium brings the libraries and fonts that this machine lacks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_DOWNLOAD_S = 300


@dataclass(frozen=True)
class Source:
    """The packages of a program and its place in them; `whole`: with all that they depend on and is not installed."""

    packages: tuple[str, ...]
    place: str
    whole: bool = False


# Prometheus depends on scripts for its web page alone, which nobody looks at here.
SOURCES = {
    "prometheus": Source(("prometheus",), "usr/bin/prometheus"),
    "promtool": Source(("prometheus",), "usr/bin/promtool"),
    "chromium": Source(("chromium", "fonts-dejavu-core"), "usr/lib/chromium/chromium", whole=True),
}


@dataclass(frozen=True)
class Program:
    """A program and the variables that it needs beside ours."""

    path: Path
    env: Mapping[str, str] = field(default_factory=dict)


def program(name: str) -> Program:
    """The program on the path, or unpacked from Debian's packages; blocks for its download, at the first call.

    Raises FileNotFoundError, saying why, where there is neither.
    """
    if (found := shutil.which(name)) is not None:
        return Program(Path(found))
    source = SOURCES[name]
    folder = _cache() / "-".join(source.packages)
    if not folder.is_dir():
        _unpack(source, folder)
    return Program(folder / source.place, _surroundings(folder))


def _cache() -> Path:
    """As the settings have it by default; this script needs no package."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specserve"
    return Path(os.environ.get("SPECSERVE_CACHE_DIR") or base) / "debian"


def _unpack(source: Source, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise FileNotFoundError(f"{source.packages[0]} is not installed, and there is no apt-get to bring it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        try:
            _download(source, Path(work))
        except subprocess.CalledProcessError as error:
            words = (error.stderr or "").strip().splitlines()
            raise FileNotFoundError(f"apt-get cannot bring {source.packages[0]}: {words[-1:] or ['']}") from error
        except subprocess.TimeoutExpired as error:
            raise FileNotFoundError(f"apt-get did not bring {source.packages[0]} in {_DOWNLOAD_S} s") from error
        root = Path(work) / "root"
        for package in sorted(Path(work).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
        _place(root, folder)


def _download(source: Source, work: Path) -> None:
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    # Lists and cache of our own: the machine's belong to root, and may be old or empty.
    apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]

    def run(*args: str) -> str:
        done = subprocess.run([*apt, *args], cwd=work, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_S)
        return done.stdout

    run("update")
    names = list(source.packages)
    if source.whole:
        lines = run("install", "--print-uris", "--yes", "--no-install-recommends", *names).splitlines()
        # 'address' name_version_architecture.deb size checksum
        names = [line.split()[1].partition("_")[0] for line in lines if line.startswith("'")] or names
    run("download", *names)


def _place(root: Path, folder: Path) -> None:
    try:
        root.rename(folder)
    except OSError:
        if not folder.is_dir():  # unless another process was faster
            raise


def _surroundings(folder: Path) -> dict[str, str]:
    found = sorted({str(path.parent) for path in (folder / "usr/lib").rglob("*.so*")})
    if not found:
        return {}
    known = os.environ.get("LD_LIBRARY_PATH")
    # Fontconfig looks for fonts in XDG_DATA_HOME too.
    return {"LD_LIBRARY_PATH": ":".join([*found, *([known] if known else [])]), "XDG_DATA_HOME": f"{folder}/usr/share"}


def main() -> int:
    """Print where each program lies; 1 when one cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"of {', '.join(sorted(SOURCES))}; none: all")
    names = parser.parse_args().name or sorted(SOURCES)
    if unknown := set(names) - set(SOURCES):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    missing = 0
    for name in names:
        try:
            sys.stdout.write(f"{name}: {program(name).path}\n")
        except FileNotFoundError as error:
            missing += 1
            sys.stderr.write(f"{name}: {error}\n")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
