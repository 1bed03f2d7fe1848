"""The body of `/metrics`: OpenMetrics for who asks for it, the text format otherwise."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def render(registry: CollectorRegistry, accept: str | None) -> tuple[bytes, str]:
    """The exposition and its content type. Thread-safe; it blocks for as long as the encoding takes."""
    encoder, content_type = choose_encoder(accept or "")
    return encoder(registry), content_type
