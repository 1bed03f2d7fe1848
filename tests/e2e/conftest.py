"""One service for all end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.live import Service, running_service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`specserve serve` with the default settings on free ports; gone before other tests start engines."""
    with running_service(tmp_path_factory.mktemp("service") / "log") as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in item.path.as_posix():
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(600))
