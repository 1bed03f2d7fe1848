"""Strict schemas of Kubernetes, from the wheel `kubernetes-validate`, and of the custom resources that we render.

The wheel was taken because it holds every minor version from 1.25 on, closed against unknown fields, made from
Kubernetes' own OpenAPI. Nobody publishes such a set of custom resources on PyPI: `custom_resources.json` is ours. It
names only the fields that the chart uses, as their definitions have them (LeaderWorkerSet v1, KEDA 2, v1 of the
prometheus-operator and of the Gateway API), and pods inside are judged as Kubernetes judges them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

_WHEEL = Path(str(distribution("kubernetes-validate").locate_file("kubernetes_validate/kubernetes-json-schema")))
_OURS = Path(__file__).with_name("custom_resources.json")


def faults(document: dict[str, Any], kubernetes: str) -> list[str]:
    """What is wrong with an object, as a minor version such as `1.37` sees it; KeyError for an unknown kind."""
    found = _validator(document["apiVersion"], document["kind"], kubernetes).iter_errors(document)
    return [f"{document['kind']} {'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


@cache
def _validator(api_version: str, kind: str, kubernetes: str) -> Draft202012Validator:
    group, _, version = api_version.rpartition("/")
    short = f"{group.split('.')[0]}-" if group else ""
    path = _folder(kubernetes) / f"{kind.lower()}-{short}{version}.json"
    if path.is_file():
        schema = _load(path)
    else:
        schema = json.loads(_OURS.read_text(encoding="utf-8"))[f"{api_version} {kind}"]
    return Draft202012Validator(schema, registry=_registry(kubernetes))


@cache
def _registry(kubernetes: str) -> Registry[Any]:
    folder = _folder(kubernetes)
    shared = (_load(folder / name) for name in ("_definitions.json", "podtemplatespec-v1.json"))
    return Registry().with_resources([(schema["$id"], Resource.from_contents(schema)) for schema in shared])


def _folder(kubernetes: str) -> Path:
    return _WHEEL / f"v{kubernetes}.0-local-strict"


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
