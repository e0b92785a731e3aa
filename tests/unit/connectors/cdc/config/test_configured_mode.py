"""What the keys of snapshot.mode=configuration_based mean, for PostgreSQL and MySQL alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.cdc.config.unsupported_keys import check_shared_keys
from connectors.mysql.config import parse_config as parse_mysql
from connectors.postgres.config import parse_config as parse_postgres

SHARED = {"topic.prefix": "shop", "database.hostname": "db", "database.user": "u", "snapshot.mode": "configuration_based"}
PARSERS: list[Callable[[dict[str, str]], Any]] = [
    lambda keys: parse_postgres({**SHARED, "database.dbname": "shop", **keys}),
    lambda keys: parse_mysql({**SHARED, "database.server.id": "5", "schema.history.internal.kafka.topic": "history", **keys}),
]


def configured(*names: str) -> dict[str, str]:
    return {f"snapshot.mode.configuration.based.{name}": "true" for name in names}


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("names", "mode"),
    [
        (("snapshot.data", "snapshot.schema", "start.stream"), "always"),
        (("snapshot.data", "start.stream", "snapshot.on.data.error", "snapshot.on.schema.error"), "always"),
        (("snapshot.data", "snapshot.schema"), "initial_only"),
        (("snapshot.schema", "start.stream"), "no_data"),
        (("start.stream",), "no_data"),
    ],
)
def test_keys_are_one_of_the_other_modes(parse: Callable[[dict[str, str]], Any], names: tuple[str, ...], mode: str) -> None:
    assert parse(configured(*names)).snapshot.mode == mode


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "start.stream or snapshot.mode.configuration.based.snapshot.data to true"),
        (("snapshot.schema",), "there is nothing to do"),
        (("start.stream", "snapshot.on.data.error"), "use snapshot.mode=when_needed"),
        (("start.stream", "snapshot.schema", "snapshot.on.schema.error"), "snapshot.on.schema.error needs"),
    ],
)
def test_other_combinations_are_refused(parse: Callable[[dict[str, str]], Any], names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(configured(*names))
    (found,) = check_shared_keys({**SHARED, **configured(*names)}, ())  # what lint reports
    assert message in found.errors[0]
