"""Asks the system behind a connector's file, from this machine: for ``sluice doctor FILE`` and ``sluice tables FILE``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.errors import OK
from sluice.cli.output import emit, named_option, notice, print_names

if TYPE_CHECKING:
    from connect.config.connector_file import ConnectorFile
    from worker.model import SystemQuestion


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """What :func:`worker.validation.external_systems.answer_about_system` answers about a file."""

    file: ConnectorFile
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The connector's name, or else the file's."""
        return self.file.name or Path(self.file.path).stem

    def as_json(self) -> dict[str, Any]:
        """A connection test with the connector, and the file and line of each finding."""
        steps = [{**step, "findings": [self._located(one) for one in step["findings"]]} for step in self.content["steps"]]
        return {"connector": self.name, **self.content, "steps": steps}

    def _located(self, finding: Mapping[str, Any]) -> dict[str, Any]:
        return {**finding, "file": self.file.path, "line": self.file.lines.get(finding["path"] or "")}


def ask_about_file(path: str, worker_file: str | None, question: SystemQuestion) -> SystemAnswer:
    """Resolves the references of a connector's file with the providers of the worker's file, and asks its connector's class.

    The address rules of the worker's file apply. Raises ConfigError, UnsupportedError, and errors of the connector, without
    secrets.
    """
    from connect.config.connector_file import parse_connector_file
    from connect.config.properties import read_properties
    from connect.config.providers.references import find_references
    from connect.errors import ConfigError
    from connect.plugins import Plugins
    from worker.config.providers import resolve_with_worker
    from worker.config.secrets import SecretMask
    from worker.validation.external_systems import answer_about_system

    file = parse_connector_file(path)
    values, mask = dict(file.config), SecretMask()
    if worker_file is not None:
        worker, values = resolve_with_worker(read_properties(worker_file), worker_file, values, path, mask)
        _install_rules(worker)
    elif (unresolved := next((key for key, value in values.items() if any(find_references(value or ""))), None)) is not None:
        raise ConfigError(
            f"{file.location(unresolved)}: {unresolved} refers to a config provider of the worker; pass the worker's file with "
            "--worker",
            key=unresolved,
        )
    if not values.get("connector.class"):
        raise ConfigError(f"{path} has no connector.class", key="connector.class")
    return SystemAnswer(file, answer_about_system(Plugins.discover(), values, question, mask.learned))


def _install_rules(worker: Mapping[str, str]) -> None:
    from connect.addresses import ALLOW_DEFAULT, ALLOW_KEY, DENY_DEFAULT, DENY_KEY, AddressRules, install_address_rules
    from connect.config.parsing import parse_value
    from connect.config.types import ConfigType

    defaults = {ALLOW_KEY: ALLOW_DEFAULT, DENY_KEY: DENY_DEFAULT}
    lists = {key: parse_value(key, worker.get(key, default), ConfigType.LIST) for key, default in defaults.items()}
    install_address_rules(AddressRules.of(lists[ALLOW_KEY], lists[DENY_KEY]))


@click.command()
@click.argument("connector", type=click.Path())
@click.option("--worker", "worker_file", metavar="FILE", help="Worker file with config providers and address rules.")
@click.option("--search", default="", metavar="TEXT", help="Only tables whose names contain this, in any case.")
@named_option
def tables(connector: str, worker_file: str | None, search: str, output: str) -> int:
    """List the tables that the file CONNECTOR can name, as this machine sees them: rows and sizes are estimates.

    With -o name, the entries for its include list are printed: regular expressions where the list has such.
    """
    from worker.model import SystemQuestion

    answer = ask_about_file(connector, worker_file, SystemQuestion.DATA_COLLECTIONS)
    found = [one for one in answer.content["collections"] if search.lower() in one["name"].lower()]
    keys = answer.content["keys"]
    is_regex = any(key["form"] == "regex" for key in keys)
    if output == "name":
        print_names(one["entry"] if is_regex else one["name"] for one in found)
    else:
        columns = ["table", "kind", "rows", "size", "key", "notes"]
        rows = [[one["name"], one["kind"], one["rows"], one["size_bytes"], _key(one), _notes(one)] for one in found]
        emit(output, found, columns, rows)
    if answer.content["is_truncated"]:
        notice("there are more tables; the list ends here")
    if answer.content["hidden"]:
        notice(f"{answer.content['hidden']} tables are not shown: their names contain a secret of the configuration")
    return OK


def _key(one: Mapping[str, Any]) -> str | None:
    return None if one["has_primary_key"] is None else "yes" if one["has_primary_key"] else "no"


def _notes(one: Mapping[str, Any]) -> str:
    facts = [f"{name}: {value}" for name, value in one["details"].items()]
    return "; ".join([*facts, *(finding["code"] for finding in one["findings"])])
