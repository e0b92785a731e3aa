"""Requests about the dead letters of a connector: resolves its configuration, with edits, and asks an executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.errors import BadRequestError
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.dead_letters.requests import parse_transforms
from worker.executor import ConnectorSpec, Executor
from worker.validation.config_validator import mask_error


class DeadLetterRequests:
    """Safe from any thread."""

    def __init__(self, executor: Executor, values: ResolvedConfigs, mask: SecretMask) -> None:
        self._executor = executor
        self._values = values
        self._mask = mask

    def answer(
        self,
        name: str,
        stored: Mapping[str, str | None],
        request: Mapping[str, Any],
        edits: Mapping[str, str | None],
    ) -> dict[str, Any]:
        """As :meth:`worker.herder.DeadLetterOperations.dead_letters`; ``stored`` is the connector's configuration."""
        given = {key: value for key, value in {**stored, **edits}.items() if value is not None}
        changed = sorted(key for key in edits if given.get(key) != stored.get(key))
        if changed and request.get("action") == "replay" and request.get("dry_run") is False:
            raise BadRequestError(
                f"Connector {name} does not have this configuration: {', '.join(changed)} would differ, so replayed records "
                "would fail again. Change the connector first; edits are for dry runs"
            )
        resolution = self._values.resolve_for_validation(given)
        resolved = {key: value for key, value in resolution.values.items() if value is not None}
        own, secrets = SecretMask(), set(resolution.secrets)
        transforms = parse_transforms(request.get("transforms"))
        if transforms is not None:
            found = self._values.resolve_for_validation(transforms)
            secrets |= set(found.secrets)
            transforms = {key: value for key, value in found.values.items() if value is not None}
            request = {**request, "transforms": transforms}
        own.add_provided(secrets)
        for mask in (own, self._mask):
            mask.add(resolved)
            mask.add(transforms or {})
        try:
            answer = self._executor.dead_letters(ConnectorSpec(name, given, resolved), request)
        except Exception as e:
            raise mask_error(e, self._mask) from e
        # Promise 9: transformations may insert secrets of the configuration.
        return {**answer, "letters": own.mask_json(answer["letters"])} if request.get("action") == "replay" else answer
