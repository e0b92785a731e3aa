"""Polls of these tests do not wait for changes that never come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.spark.source import task


@pytest.fixture(autouse=True, scope="package")
def short_polls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "_POLL_S", 0.005)
        yield
