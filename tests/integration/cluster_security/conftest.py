"""One secured broker for all tests in this directory, and a unique cluster name for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.cluster_security import secured_cluster
from tests.integration.cluster_security.secured_cluster import SecuredCluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    started = secured_cluster.start(tmp_path_factory.mktemp("secured"))
    yield started
    started.broker.remove()


@pytest.fixture
def cluster(unique_name: Callable[[str], str]) -> str:
    return unique_name("cl")
