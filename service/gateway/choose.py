"""Second step of a request: the pool that serves it. The policy then orders the pool's backends."""

from __future__ import annotations

from service.errors import BadRequestError
from service.gateway.extras import Extras
from service.gateway.pools import ServedModel, ServedPool


def choose_pool(model: ServedModel, extras: Extras) -> ServedPool:
    """The named pool, else the first that obeys the mode.

    Raises BadRequestError when the pool is unknown or when nothing can obey: a mode is never ignored.
    """
    if extras.pool is not None:
        return _named(model, extras)
    for pool in model.pools:
        if pool.obeys(extras.mode):
            return pool
    algorithms = ", ".join(f"{pool.name} ({pool.speculation.algorithm})" for pool in model.pools)
    raise BadRequestError(
        f"No pool of `{model.name}` can obey `speculation.mode` `{extras.mode}`; its pools: {algorithms}.",
        param="speculation.mode",
        code="mode_not_available",
    )


def _named(model: ServedModel, extras: Extras) -> ServedPool:
    pool = model.pool(extras.pool or "")
    if pool is None:
        names = ", ".join(pool.name for pool in model.pools)
        raise BadRequestError(
            f"`{model.name}` has no pool `{(extras.pool or '')[:64]}`; it has: {names}.",
            param=extras.pool_param,
            code="pool_not_found",
        )
    if not pool.obeys(extras.mode):
        raise BadRequestError(
            f"Pool `{pool.name}` runs `{pool.speculation.algorithm}` and cannot obey `speculation.mode`"
            f" `{extras.mode}`.",
            param="speculation.mode",
            code="mode_not_available",
        )
    return pool
