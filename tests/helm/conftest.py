from __future__ import annotations

import pytest

from tests.helm.chart import EXAMPLES, Helm, Object, example, helm_binary


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config) -> Helm:
    assert pytestconfig.cache is not None
    return Helm(helm_binary(pytestconfig.cache.mkdir("helm")))


@pytest.fixture(scope="session")
def releases(helm: Helm) -> dict[str, list[Object]]:
    """Every example, rendered."""
    return {name: helm.template(example(name)) for name in EXAMPLES}
