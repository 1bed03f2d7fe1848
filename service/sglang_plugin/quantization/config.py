"""The pool's quantization settings: they come to the engine as JSON in one environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.sglang_plugin.environment import settings_in

VARIABLE = "SPECSERVE_KV_QUANTIZATION"


@dataclass(frozen=True)
class QuantizationConfig:
    """`bits` a channel, 0 for none; channels of a `group`, None for the head's whole dimension; a `rotation`'s name.

    `calibration` is the path of the rotation's file, for those that have one.
    """

    bits: int = 0
    group: int | None = None
    rotation: str = "none"
    calibration: str | None = None


def read_config(environment: Mapping[str, str]) -> QuantizationConfig:
    """The configuration in `environment`; no quantization without the variable. Raises ValueError for a bad one."""
    return settings_in(environment, VARIABLE, QuantizationConfig)
