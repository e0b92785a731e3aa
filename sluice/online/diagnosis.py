"""The diagnosis of a cluster: asked from a worker of Sluice, or made here from the REST API of Apache Kafka Connect."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import ConnectError, NotFoundError, UnreachableError
from rest.client import ConnectClient, lacks_resource
from rest.security.config_mask import ConfigMask
from worker.config.secrets import SecretMask
from worker.observability.diagnosis.problem import Problem
from worker.observability.diagnosis.rules import diagnose
from worker.observability.diagnosis.snapshot import ClusterSnapshot, ConnectorSnapshot

UNSEEN_OF_APACHE = (
    "whether running tasks move, their lag and figures, replication slots, dead letter queues, topics, consumer groups, and "
    "since when: the worker is one of Apache Kafka Connect, whose REST API has none of that"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, errors first, and what could not be looked at."""

    problems: Sequence[Problem]
    unseen: Sequence[str] = ()

    @property
    def has_problems(self) -> bool:
        """Whether there is anything but notes."""
        return any(one.is_problem for one in self.problems)

    def of(self, names: Collection[str]) -> Diagnosis:
        """Returns the part about these connectors and the worker."""
        return Diagnosis([one for one in self.problems if one.connector is None or one.connector in names], self.unseen)

    def as_json(self) -> dict[str, Any]:
        return {"problems": [one.as_json() for one in self.problems], "unseen": list(self.unseen)}


def read_diagnosis(client: ConnectClient, name: str | None = None) -> Diagnosis:
    """Returns the diagnosis of a connector, or of all. Raises NotFoundError for an unknown one, and the client's other errors."""
    try:
        answer = client.diagnosis(name)
    except NotFoundError as e:
        if not lacks_resource(e):
            raise
        return _diagnose_apache(client, name)
    return Diagnosis([Problem.of_json(one) for one in answer["problems"]], [str(one) for one in answer["unseen"]])


def _diagnose_apache(client: ConnectClient, name: str | None) -> Diagnosis:
    expanded = client.connectors_expanded("status", "info")
    if name is not None and name not in expanded:
        raise NotFoundError(f"Connector {name} not found")
    mask, config_mask = SecretMask(), ConfigMask(client)
    connectors = []
    for one, found in sorted(expanded.items()):
        config = found.get("info", {}).get("config", {})
        config_mask.add_secrets(config, mask)
        has_offsets = _has_offsets(client, one, found) if name in (None, one) else None
        connectors.append(ConnectorSnapshot.of_json(one, found, has_offsets=has_offsets))
    classes = _plugins(client)
    cluster = ClusterSnapshot(connectors, time.time_ns() // 1_000_000, plugins=classes, is_sluice=False)
    problems = [one.masked(mask.mask) for one in diagnose(cluster) if name is None or one.connector in (None, name)]
    return Diagnosis(problems, [UNSEEN_OF_APACHE])


def _has_offsets(client: ConnectClient, name: str, found: Mapping[str, Any]) -> bool | None:
    if found.get("info", {}).get("type") != "sink":
        return None
    try:
        return bool(client.offsets(name))
    except UnreachableError:
        raise
    except ConnectError:  # releases before 3.5 have no such resource
        return None


def _plugins(client: ConnectClient) -> frozenset[str] | None:
    try:
        classes = [one["class"] for one in client.plugins()]
    except UnreachableError:
        raise
    except ConnectError:
        return None
    simple = [name.rpartition(".")[2] for name in classes]
    return frozenset([*classes, *simple, *(name.removesuffix("Connector") for name in simple)])
