"""Checks of configurations and offsets that all connectors make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from connect.config.definition import ConfigValue
from connect.errors import BadRequestError, ConnectError
from connectors.cdc.offsets import CONTRACTS, PARTITION_KEY
from connectors.cdc.schema.contracts import parse_contracts


def with_findings(values: list[ConfigValue], findings: Iterable[ConfigValue]) -> list[ConfigValue]:
    """Returns the values of a configuration with what else was found out about its keys."""
    known = {value.name: value for value in values}
    for finding in findings:
        if finding.name in known:
            known[finding.name].errors += finding.errors
        else:
            values.append(finding)
    return values


def check_given_offset(
    partition: tuple[tuple[str, Any], ...] | None, offset: Mapping[str, Any] | None, topic_prefix: str
) -> bool:
    """Checks what a new offset has in common with those of other connectors; returns whether it is one, and not a removal.

    Raises BadRequestError for another source partition.
    """
    if offset is None:
        return False
    given = dict(partition or ())
    if given != {PARTITION_KEY: topic_prefix}:
        raise BadRequestError(
            f'source partition {given} is not this connector\'s, which is {{"{PARTITION_KEY}": "{topic_prefix}"}}'
        )
    try:
        parse_contracts(offset.get(CONTRACTS))
    except ConnectError as e:
        raise BadRequestError(e.message) from e
    return True
