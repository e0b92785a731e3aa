"""One secured broker for all tests of this folder, and a name of its own for each test's cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.cluster_security import secured_cluster
from tests.integration.cluster_security.secured_cluster import SecuredCluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    found = secured_cluster.start(tmp_path_factory.mktemp("secured"))
    yield found
    found.broker.remove()


@pytest.fixture
def cluster(unique_name: Callable[[str], str]) -> str:
    return unique_name("cl")
