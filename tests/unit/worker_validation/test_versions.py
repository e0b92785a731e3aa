from __future__ import annotations

import pytest

from worker.validation.versions import version_fits


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (None, True), ("latest", True), ("1.2.0", True), ("1.2", False), ("[1.2.0]", True), ("[1.0,2.0)", True),
        ("[1.2.0,)", True), ("(1.2.0,)", False), ("(,1.2.0)", False), ("(,1.10.0]", True), ("[2,3]", False),
    ],
)  # fmt: skip
def test_version_requirements(requirement: str | None, fits: bool) -> None:
    assert version_fits(requirement, "1.2.0") is fits
    assert version_fits("1.0", None) is False
