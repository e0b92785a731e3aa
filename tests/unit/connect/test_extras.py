"""Extras: the table in the code agrees with pyproject.toml, and only what needs an extra imports its packages."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from connect import extras
from connect.errors import MissingExtraError
from connect.extras import EXTRAS, explain_import_error, missing_modules, require_extra
from connect.plugins import Kind, PluginDesc, Plugins
from connect.version import DISTRIBUTION

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OWN = ("connect", "connectors", "worker", "rest", "sluice")
# Which extras the modules below a folder may import, besides the base.
FOLDERS = {
    "connect/spool": {"spark"},
    "connectors/spark": {"spark"},
    "connectors/spark/verification": {"verify"},
    "connectors/databases/mysql": {"mysql"},
    "connectors/mysql": {"mysql"},
    "connectors/postgres": {"postgres"},
    "connectors/jdbc": {"jdbc", "duckdb"},
    "connectors/registry": {"registry"},
    "sluice/demo": {"embedded"},
    "sluice/embedded": {"embedded"},
    "sluice/assistant": {"mcp"},
    "sluice/verify": {"verify"},
    "sluice/cli/mcp.py": {"mcp"},
    "rest/security/passwords.py": {"bcrypt"},
    "worker/observability": {"otel"},
}


@cache
def _distributions(extra: str | None) -> frozenset[str]:
    """The distributions that an extra names, with those of the extras that it includes; None is the base."""
    listed = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    found: set[str] = set()
    for requirement in listed:
        parsed = Requirement(requirement)
        if parsed.name == DISTRIBUTION:
            found.update(*map(_distributions, parsed.extras))
        else:
            found.add(canonicalize_name(parsed.name))
    return frozenset(found)


def test_table_has_the_extras_of_the_distribution() -> None:
    declared = set(PROJECT["optional-dependencies"]) - {"all", "dev"}
    assert declared == set(EXTRAS)
    assert _distributions("all") == frozenset().union(*map(_distributions, declared))


@cache
def _known_modules() -> Mapping[str, list[str]]:
    return packages_distributions()


@pytest.mark.parametrize("extra", EXTRAS)
def test_modules_of_an_extra_come_from_its_distributions(extra: str) -> None:
    known = _known_modules()
    for module in EXTRAS[extra].modules:
        parts = module.split(".")
        found = known.get(parts[0], ())
        # Several distributions share a namespace package.
        assert {canonicalize_name(name) for name in found} & _distributions(extra), f"{module} is of {found}"
    assert missing_modules(extra) == []


def test_every_plugin_names_a_known_extra() -> None:
    for desc in Plugins.discover().all():
        top = ".".join(desc.path.partition(":")[0].split(".")[:2])
        expected = top.removeprefix("connectors.") if top.removeprefix("connectors.") in EXTRAS else ""
        if desc.distribution == DISTRIBUTION:
            assert desc.extra == expected, desc.path


# Lines instead of syntax trees, which take several seconds for all modules.
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import\b|import (\w+))", re.M)


def test_packages_are_imported_only_where_their_extra_is_required() -> None:
    known = _known_modules()
    for package in OWN:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT).as_posix()
            allowed = set(_distributions(None))
            for folder, names in FOLDERS.items():
                if relative.startswith(folder):
                    allowed.update(*map(_distributions, names))
            for module in {first or second for first, second in IMPORT.findall(path.read_text("utf-8"))}:
                if module in OWN or module in sys.stdlib_module_names:
                    continue
                found = {canonicalize_name(name) for name in known.get(module, [module])}
                # Starlette comes with FastAPI, Py4J with PySpark, and so on: what a distribution exposes in its own API.
                found |= {canonicalize_name(each) for name in found for each in EXPOSED.get(name, ())}
                assert found & allowed, f"{relative} imports {module}; the base has no such package"


EXPOSED = {
    "httpcore2": ("httpx2",),
    "mcp-types": ("mcp",),
    "py4j": ("pyspark",),
    "referencing": ("jsonschema",),
    "starlette": ("fastapi",),
}


def test_missing_extra_is_an_error_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_complete", set())
    monkeypatch.setattr(extras, "_is_installed", lambda module: module not in ("pyspark", "delta", "pyarrow"))
    with pytest.raises(MissingExtraError) as caught:
        require_extra("spark", "The connector SparkSink")
    assert caught.value.message == (
        "The connector SparkSink needs pyspark, delta and pyarrow, which are not installed; "
        "run: pip install 'sluice-connect[spark]'"
    )
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "mcp")
    with pytest.raises(
        MissingExtraError, match=r"sluice mcp needs mcp, which is not installed; run: pip install 'sluice-connect\[mcp\]'"
    ):
        require_extra("mcp", "sluice mcp")
    require_extra("spark", "The connector SparkSink")


def test_plugin_is_not_imported_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_complete", set())
    monkeypatch.setattr(extras, "_is_installed", lambda module: False)
    desc = PluginDesc(Kind.CONNECTOR, "no.such:Sink", (), (), "sink", "1", DISTRIBUTION, extra="jdbc")
    with pytest.raises(MissingExtraError, match=r"^The connector no\.such:Sink needs sqlalchemy, which is not installed"):
        Plugins([desc]).load(desc)


def test_import_errors_of_packages_in_extras_are_explained() -> None:
    explained = explain_import_error(ModuleNotFoundError("", name="psycopg.errors"), "sluice demo")
    assert explained is not None
    assert "sluice-connect[postgres]" in explained.message
    assert explain_import_error(ModuleNotFoundError("", name="worker.nowhere"), "sluice demo") is None


def test_module_whose_parent_is_missing_is_not_installed() -> None:
    assert not extras._is_installed("no_such_parent.child")
