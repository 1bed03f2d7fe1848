"""The pool's quantization settings: they come to the engine as JSON in one environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.sglang_plugin.environment import settings_in

VARIABLE = "SPECSERVE_KV_QUANTIZATION"


@dataclass(frozen=True)
class QuantizationConfig:
    """`bits` a channel, 0 for none; channels of a `group`, None for the head's whole dimension; a `rotation`'s name.

    `calibration` is the path of the rotation's file, for those that have one. The first `sinks` and the newest
    `recent` tokens of each request are read in full precision.
    """

    bits: int = 0
    group: int | None = None
    rotation: str = "none"
    calibration: str | None = None
    sinks: int = 0
    recent: int = 0

    @property
    def windowed(self) -> bool:
        """Whether some tokens are read in full precision."""
        return bool(self.sinks or self.recent)


def read_config(environment: Mapping[str, str]) -> QuantizationConfig:
    """The configuration in `environment`; no quantization without the variable. Raises ValueError for a bad one."""
    return settings_in(environment, VARIABLE, QuantizationConfig)
