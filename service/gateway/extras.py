"""The request extras: the `speculation` object and the two `X-` headers. None is forwarded raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from service.errors import BadRequestError
from service.profiles.schema import SpeculationMode

POOL_HEADER = "X-Specserve-Pool"
METRICS_HEADER = "X-Speculation-Metrics"
MODES: tuple[str, ...] = get_args(SpeculationMode)


@dataclass(frozen=True, slots=True)
class Extras:
    """What the client asked of specserve, not of the model; `pool_param` is the field that named the pool."""

    mode: SpeculationMode = "auto"
    pool: str | None = None
    pool_param: str = POOL_HEADER
    metrics: bool = False


def take_extras(body: dict[str, Any], headers: Mapping[bytes, bytes]) -> Extras:
    """Remove the extras from `body` and read them and the headers.

    Raises BadRequestError, naming the field or header, for anything that is not as documented.
    """
    if body.pop("strategy", None) is not None:
        raise BadRequestError(
            "`strategy` is not offered by this version; leave the field out.",
            param="strategy",
            code="unsupported_parameter",
        )
    mode, named = _speculation(body.pop("speculation", None))
    header = _header(headers, POOL_HEADER)
    if header is not None and named is not None and header != named:
        raise BadRequestError(
            f"`{POOL_HEADER}` says `{header[:64]}` and `speculation.pool` says `{named[:64]}`; send one.",
            param=POOL_HEADER,
        )
    return Extras(
        mode=mode,
        pool=named if named is not None else header,
        pool_param="speculation.pool" if named is not None else POOL_HEADER,
        metrics=_metrics(_header(headers, METRICS_HEADER)),
    )


def _speculation(value: object) -> tuple[SpeculationMode, str | None]:
    if value is None:
        return "auto", None
    if not isinstance(value, dict):
        raise BadRequestError("`speculation` must be an object with `mode` or `pool`.", param="speculation")
    for key in value:
        if key not in ("mode", "pool"):
            raise BadRequestError(
                f"`speculation` has no field `{key[:64]}`; it has `mode` and `pool`.",
                param=f"speculation.{key[:64]}",
                code="unknown_parameter",
            )
    mode, pool = value.get("mode"), value.get("pool")
    if mode is not None and (not isinstance(mode, str) or mode not in MODES):
        raise BadRequestError(f"`speculation.mode` must be one of {', '.join(MODES)}.", param="speculation.mode")
    if pool is not None and not isinstance(pool, str):
        raise BadRequestError("`speculation.pool` must be a string.", param="speculation.pool")
    return cast(SpeculationMode, mode or "auto"), pool


def _metrics(value: str | None) -> bool:
    if value not in (None, "0", "1"):
        raise BadRequestError(f"The header `{METRICS_HEADER}` must be 1 or 0.", param=METRICS_HEADER)
    return value == "1"


def _header(headers: Mapping[bytes, bytes], name: str) -> str | None:
    value = headers.get(name.lower().encode())
    return None if value is None else value.decode("latin-1").strip()
