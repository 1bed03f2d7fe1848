"""Dependencies of the route handlers: state lives in `app.state` and nowhere else."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.gateway.service import Gateway


def get_gateway(request: Request) -> Gateway:
    """The gateway of the application that got the request."""
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway


GatewayDep = Annotated[Gateway, Depends(get_gateway)]
