"""Builds a release into ``dist/``: wheel, sdist, SBOM, license report, and release notes.

Run it in an environment that has ``sluice-connect[all,dev]``: the SBOM (CycloneDX 1.6) and the license report list the
distributions that the extra ``all`` installs here, with the extras that need each one. The version is that of
``pyproject.toml``, the notes are its section of ``CHANGELOG.md``.

Usage: ``python scripts/build_release.py [--unreleased] [FOLDER]``. Without ``--unreleased``, entries that the changelog has not
assigned to a version are an error.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BASE = "base"
"""In the place of an extra: what every installation has."""


class ReleaseError(Exception):
    """The release cannot be built. The message says what to change."""


@dataclass(frozen=True, slots=True)
class Component:
    """A distribution that an installation brings along, and the extras that need it."""

    name: str
    version: str
    license: str
    home: str
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL, which identifies the distribution in an SBOM."""
        return _purl(self.name, self.version)


def read_project(root: Path) -> dict[str, Any]:
    """Returns the table ``project`` of ``pyproject.toml``."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def release_notes(changelog: str, version: str, *, unreleased: bool) -> str:
    """Returns the changelog's section of a version; with ``unreleased``, that of what has no version yet.

    Raises ReleaseError if there is no such section, or if entries have no version although they should.
    """
    sections: dict[str, str] = dict(re.findall(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S))
    waiting = sections.get("Unreleased", "").strip()
    if unreleased:
        return waiting
    if waiting:
        raise ReleaseError(
            "CHANGELOG.md has entries under Unreleased. Give them a version and a date, and raise the version in pyproject.toml; "
            "to build without a release, use --unreleased"
        )
    if version not in sections:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}], which is the version in pyproject.toml")
    return sections[version].strip()


def resolve_components(project: Mapping[str, Any]) -> list[Component]:
    """Returns the distributions that the base and the extras (without ``dev`` and ``all``) install here, by name.

    Raises ReleaseError if one is not installed.
    """
    needed: dict[str, set[str]] = {}
    found: dict[str, Distribution] = {}
    extras = {BASE: project["dependencies"], **project["optional-dependencies"]}
    for extra, requirements in extras.items():
        if extra not in ("all", "dev"):
            for one in required_distributions(requirements, project):
                name = canonicalize_name(one.name)
                found[name] = one
                needed.setdefault(name, set()).add(extra)
    return [_component(found[name], needed[name]) for name in sorted(found)]


def required_distributions(requirements: Iterable[str], project: Mapping[str, Any]) -> Iterable[Distribution]:
    """Returns the installed distributions that requirements need directly and indirectly, without the project itself.

    Raises ReleaseError if one is not installed.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(Requirement(text), frozenset[str]()) for text in requirements]
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        name, wanted = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name == canonicalize_name(project["name"]):
            inner = [text for extra in wanted for text in project["optional-dependencies"][extra]]
            waiting += [(Requirement(text), frozenset()) for text in inner]
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise ReleaseError(f"{requirement} is not installed; install {project['name']}[all,dev] first") from None
        waiting += [(Requirement(text), wanted) for text in found[name].requires or ()]
    return found.values()


def _component(one: Distribution, needed_by: set[str]) -> Component:
    extras = (BASE,) if BASE in needed_by else tuple(sorted(needed_by))
    return Component(one.name, one.version, _license(one), _home(one), extras)


def _license(one: Distribution) -> str:
    """The SPDX expression if there is one, else the classifiers or the first line of the license field."""
    if expression := _field(one, "License-Expression"):
        return expression
    classifiers = one.metadata.get_all("Classifier") or []
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::") and text.count(" :: ") > 1]
    if named:
        return " and ".join(named)
    text = _field(one, "License")
    return text.splitlines()[0].strip() if text else "unknown"


def _home(one: Distribution) -> str:
    addresses: dict[str, str] = {}
    for text in one.metadata.get_all("Project-URL") or []:
        label, _, address = text.partition(",")
        addresses[label.strip().lower()] = address.strip()
    for label in ("homepage", "home", "source", "source code", "repository", "code", "github"):
        if label in addresses:
            return addresses[label]
    return _field(one, "Home-page") or next(iter(addresses.values()), "")


def _field(one: Distribution, name: str) -> str:
    return str((one.metadata.get_all(name) or [""])[0]).strip()


def sbom(project: Mapping[str, Any], components: Sequence[Component]) -> dict[str, Any]:
    """Returns the software bill of materials, in CycloneDX's JSON. Equal input gives an equal document."""
    root = _purl(project["name"], project["version"])
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([root, *(one.purl for one in components)]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": root,
            }
        },
        "components": [_sbom_component(one) for one in components],
        "dependencies": [{"ref": root, "dependsOn": [one.purl for one in components]}],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def _sbom_component(one: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "licenses": [{"license": {"name": one.license}}],
        "properties": [{"name": "sluice:needed-by", "value": extra} for extra in one.needed_by],
    }
    if one.home:
        entry["externalReferences"] = [{"type": "website", "url": one.home}]
    return entry


def license_report(project: Mapping[str, Any], components: Sequence[Component]) -> str:
    """Returns the licenses of all distributions as a Markdown table."""
    lines = [
        f"# Licenses of {project['name']} {project['version']} and what it installs",
        "",
        f"{project['name']} itself is licensed under {project['license']}. The list has no Java, no Kafka, and",
        "no JARs of table formats: they are no Python packages, and `sluice setup` fetches them.",
        "",
        "| distribution | version | license | needed by | home |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in components:
        cells = (one.name, one.version, one.license, ", ".join(one.needed_by), one.home)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build wheel, sdist, SBOM, license report, and release notes.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--unreleased", action="store_true", help="build although the changelog has entries without a version")
    options = parser.parse_args(arguments)
    try:
        build(options.folder, unreleased=options.unreleased)
    except ReleaseError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


def build(folder: Path, *, unreleased: bool) -> None:
    """Writes all files of the release into the folder and prints their paths."""
    project = read_project(ROOT)
    stem = f"{project['name']}-{project['version']}"
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), project["version"], unreleased=unreleased)
    components = resolve_components(project)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{stem}.cdx.json": json.dumps(sbom(project, components), indent=1) + "\n",
        f"{stem}-licenses.md": license_report(project, components),
        f"{stem}-notes.md": f"{notes}\n",
    }
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder.absolute())]
    # hatchling prints the paths of what it built.
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise ReleaseError("hatchling failed; see its output above")
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        print(folder / name)


if __name__ == "__main__":
    sys.exit(main())
