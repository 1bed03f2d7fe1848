"""Settings of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # A busy machine must not fail a test of properties.


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command run inside a test leaves structlog writing into that test's output, closed by the next one."""
    yield
    structlog.reset_defaults()
