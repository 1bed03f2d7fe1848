"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # A busy machine must not fail a test of properties.
