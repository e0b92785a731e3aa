"""Schema contracts: compares versions of tables with those that were captured first, and says what becomes of a change.

The contract of a table is the version of its first row that was captured. It is part of stored offsets, so a change while the
task is not running is found, too. A version is the names and types of the captured columns: the stream says nothing about NOT
NULL.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect.config.schema_contracts import ContractMode, FrozenSchemaError
from connect.errors import ConnectError, DataError
from connectors.cdc.config.contract_keys import ContractSettings

log = logging.getLogger(__name__)

Version = Mapping[str, str]
"""The types of a table's captured columns by name, in the table's order."""


class ContractError(DataError):
    """A row of a version that its contract sends to the dead letter queue."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """What becomes of a version of a table. ``accepted`` is the contract once a row of it is captured; None without a contract.

    ``left_out`` are columns that are not captured, and ``error`` what each row fails with.
    """

    table: str = ""
    accepted: Version | None = None
    left_out: frozenset[str] = field(default_factory=frozenset)
    error: FrozenSchemaError | ContractError | None = None

    def raise_error(self) -> None:
        """Raises the error, if there is one."""
        if self.error is not None:
            raise self.error.with_traceback(None)


class SchemaContracts:
    """The contracts of all tables."""

    def __init__(self, settings: ContractSettings) -> None:
        self._settings = settings
        self._contracts: Mapping[str, Version] = {}
        self._store: Callable[[str], None] = lambda text: None

    def load(self, contracts: Mapping[str, Version], store: Callable[[str], None]) -> None:
        """Sets the contracts of a stored offset. ``store`` makes them, and later changes, part of offsets."""
        if self._settings.rules.are_used:
            self._contracts, self._store = contracts, store
            self._store_text()

    def judge(self, name: str, version: Callable[[], Version], key: tuple[str, ...]) -> Judgment:
        """Compares a version of a table with its contract; ``key`` are the columns of its record key."""
        if not self._settings.rules.are_used:
            return Judgment()
        return self._judge(name, version(), key)

    def _judge(self, name: str, version: Version, key: tuple[str, ...]) -> Judgment:
        contract = self._contracts.get(name)
        if contract is None or contract == version:
            return Judgment(name, version)
        token = f"{name}@{hashlib.sha256(json.dumps(version).encode()).hexdigest()[:8]}"
        if token in self._settings.accepted:
            return Judgment(name, version)
        return self._judge_changes(name, version, contract, key, token)

    def _judge_changes(self, name: str, version: Version, contract: Version, key: tuple[str, ...], token: str) -> Judgment:
        found: dict[ContractMode, dict[str, str]] = {mode: {} for mode in ContractMode}
        for column in sorted(version.keys() | contract.keys()):
            before, now = contract.get(column), version.get(column)
            if before == now:
                continue
            if now is None:
                text = f"column {column} {before} is missing"
            elif before is None:
                text = f"column {column} {now} is new"
            else:
                text = f"column {column} is {now}, not {before}"
            mode = self._settings.rules.mode_of(name, column)
            if mode is ContractMode.DROP_COLUMN and column in key:
                mode, text = ContractMode.FREEZE, f"{text} and part of the key"
            found[mode][column] = text
        frozen, reported = found[ContractMode.FREEZE], found[ContractMode.DEAD_LETTER_QUEUE]
        left_out = found[ContractMode.DROP_COLUMN]
        advice = f"to accept this version, add {token} to schema.contract.accepted"
        if frozen:
            message = f"table {name} has changed, but its schema contract is freeze: {'; '.join(frozen.values())}"
            return Judgment(name, error=FrozenSchemaError(f"{message}; {advice}"))
        if reported:
            message = f"table {name} has changed, and its schema contract is dead_letter_queue: {'; '.join(reported.values())}"
            return Judgment(name, error=ContractError(f"{message}; {advice}"))
        if left_out:
            log.warning(
                "table %s has changed, and its schema contract is drop_column, so events lack what has changed: %s; %s",
                name, "; ".join(left_out.values()), advice,
            )  # fmt: skip
        accepted = {column: type_ for column, type_ in version.items() if column not in left_out}
        accepted |= {column: contract[column] for column in left_out if column in contract}
        return Judgment(name, accepted, frozenset(left_out))

    def capture(self, judgment: Judgment) -> None:
        """A row of a version is captured. Raises FrozenSchemaError and ContractError instead if its contract says so."""
        judgment.raise_error()
        if judgment.accepted is not None and self._contracts.get(judgment.table) != judgment.accepted:
            self._contracts = {**self._contracts, judgment.table: judgment.accepted}
            self._store_text()

    def _store_text(self) -> None:
        if self._contracts:
            self._store(json.dumps(self._contracts, separators=(",", ":"), ensure_ascii=False))


def parse_contracts(text: str | None) -> Mapping[str, Version]:
    """Parses the contracts in an offset, None if there are none. Raises ConnectError."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(version, dict) for version in found.values()):
        raise ConnectError(f"schema_contracts of the stored offset is no JSON object of tables with their columns: {text[:60]}")
    return found
