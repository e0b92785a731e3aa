"""Options for the connection to a Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from connect.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "localhost:9092"


def bootstrap_options(function: F) -> F:
    """Adds ``--bootstrap-server`` and ``--command-config``; the command passes both to `client_properties`."""
    server = click.option(
        "--bootstrap-server",
        envvar="SLUICE_BOOTSTRAP_SERVERS",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        help="Kafka brokers, HOST:PORT[,HOST:PORT...]; also SLUICE_BOOTSTRAP_SERVERS.",
    )
    config = click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        help="Properties file with client settings, for example for security.",
    )
    return server(config(function))


def client_properties(bootstrap_server: str, command_config: Path | None) -> dict[str, str]:
    """Returns client properties from the two options: Java's, as in files of Apache's tools, or librdkafka's own. Raises
    `ConfigError` for a file that cannot be read, a property that no client has, and a malformed address."""
    properties: dict[str, str] = {}
    if command_config is not None:
        properties.update(_read_client_properties(command_config))
    for server in bootstrap_server.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"'{server}' in --bootstrap-server is not HOST:PORT")
    return {**properties, "bootstrap.servers": bootstrap_server}


def _read_client_properties(path: Path) -> Mapping[str, str]:
    from connect.config.properties import read_properties
    from worker.kafka.clients import check_client_properties

    properties = read_properties(path)
    try:
        check_client_properties(properties)
    except ConfigError as e:
        where = str(path) if e.key is None else properties.location(e.key)
        raise ConfigError(f"{where}: {e.message}", key=e.key) from e
    return properties


def key_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Click callback that returns repeated ``KEY=VALUE`` options as a dict."""
    found: dict[str, str] = {}
    for word in values:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{word}' is not KEY=VALUE", ctx, parameter)
        found[key] = value
    return found
