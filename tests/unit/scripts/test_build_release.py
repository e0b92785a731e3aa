"""The files of a release: notes, SBOM, and license report. tests/integration/packaging covers the wheel."""

from __future__ import annotations

import pytest

from scripts.build_release import (
    ROOT,
    Component,
    ReleaseError,
    license_report,
    read_project,
    release_notes,
    resolve_components,
    sbom,
)

CHANGELOG = """# Changelog

## [Unreleased]
{waiting}
## [1.1.0] - 2026-05-01

### Fixed

- A race.

## [1.0.0]

- First.
"""


def test_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG.format(waiting=""), "1.1.0", unreleased=False) == "### Fixed\n\n- A race."
    assert release_notes(CHANGELOG.format(waiting=""), "1.0.0", unreleased=False) == "- First."


def test_entries_without_a_version_are_an_error_of_a_release() -> None:
    changelog = CHANGELOG.format(waiting="\n- New.\n")
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md has entries under Unreleased"):
        release_notes(changelog, "1.1.0", unreleased=False)
    assert release_notes(changelog, "1.1.0", unreleased=True) == "- New."


def test_version_without_a_section_is_an_error() -> None:
    with pytest.raises(ReleaseError, match=r"no section \[2\.0\.0\]"):
        release_notes(CHANGELOG.format(waiting=""), "2.0.0", unreleased=False)


@pytest.fixture(scope="module")
def components() -> list[Component]:
    return resolve_components(read_project(ROOT))


def test_components_are_what_the_extras_install(components: list[Component]) -> None:
    needed_by = {one.name: one.needed_by for one in components}
    assert needed_by["confluent-kafka"] == needed_by["starlette"] == ("base",)
    assert needed_by["pyspark"] == needed_by["py4j"] == ("embedded", "spark", "verify")
    assert needed_by["pytz"] == ("duckdb",)
    assert not {"pytest", "ruff", "sluice-connect"} & set(needed_by)
    assert {one.name for one in components if one.license == "unknown"} == set()


def test_requirement_that_is_not_installed_is_an_error() -> None:
    project = {"name": "sluice-connect", "dependencies": ["no-such-distribution>=1"], "optional-dependencies": {}}
    with pytest.raises(ReleaseError, match=r"no-such-distribution>=1 is not installed"):
        resolve_components(project)


def test_sbom_identifies_each_component(components: list[Component]) -> None:
    project = read_project(ROOT)
    document = sbom(project, components)
    assert document == sbom(project, components)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    references = [one["bom-ref"] for one in document["components"]]
    assert len(set(references)) == len(references) == len(components)
    assert document["dependencies"][0]["dependsOn"] == references
    assert all(one["purl"].startswith("pkg:pypi/") and one["licenses"] for one in document["components"])


def test_license_report_has_a_row_for_each_component(components: list[Component]) -> None:
    rows = [line for line in license_report(read_project(ROOT), components).splitlines() if line.startswith("| ")]
    assert len(rows) == len(components) + 2
    assert all(row.count(" | ") == 4 for row in rows)
