"""Connectors of a cluster as commands and tools show them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from connect.errors import ConnectError, NotFoundError, UnreachableError
from connect.suggestions import did_you_mean

if TYPE_CHECKING:
    from rest.client import ConnectClient

T = TypeVar("T")

WILDCARDS = frozenset("*?[")


def matching(names: Collection[str], pattern: str) -> list[str]:
    """Returns the name that is the pattern, else those that it matches (``*``, ``?``, ``[...]``), in order."""
    return [pattern] if pattern in names else [name for name in sorted(names) if fnmatch.fnmatchcase(name, pattern)]


def select(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Returns the names that patterns match (:func:`matching`), each once. Raises NotFoundError for a pattern without any."""
    found: dict[str, None] = {}
    for pattern in patterns:
        own = matching(names, pattern)
        if not own:
            near = did_you_mean(pattern, names, "; ")
            raise NotFoundError(f"No connector {'matches' if WILDCARDS & set(pattern) else 'is named'} {pattern}{near}")
        found |= dict.fromkeys(own)
    return list(found)


def connector_row(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what ``sluice get`` shows of a connector, from its ``status`` and ``info``."""
    from sluice.online.rates import summary_of

    one = summary_of(name, found)
    return {
        "name": name,
        "type": one.type,
        "state": one.state,
        "tasks": f"{one.running}/{one.tasks}",
        "failed": list(one.failed),
        "worker": found.get("status", {}).get("connector", {}).get("worker_id"),
        "class": str(found.get("info", {}).get("config", {}).get("connector.class", "")).rpartition(".")[2] or None,
    }


def describe_connector(client: ConnectClient, name: str) -> dict[str, Any]:
    """Returns what ``sluice describe`` shows of a connector, without secrets in its config. Raises the client's errors."""
    config = client.config(name)
    status = client.status(name)
    return {
        "name": name,
        "type": status.get("type"),
        "connector": status["connector"],
        "tasks": status["tasks"],
        "config": shown_config(client, config),
        "topics": _unless_refused(lambda: client.topics(name)),
        "offsets": _unless_refused(lambda: client.offsets(name)),
    }


def shown_config(client: ConnectClient, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns a config without secrets, in the order of its keys."""
    from rest.security.config_mask import ConfigMask

    return dict(sorted(ConfigMask(client).show(config).items()))


def require_sluice(client: ConnectClient, call: Callable[[], T], otherwise: str) -> T:
    """Returns the result of a call of a resource that Apache's workers do not have; ``otherwise`` continues ``The worker at ...``
    in the error if the worker is one of those."""
    from rest.client import lacks_resource

    try:
        return call()
    except NotFoundError as e:
        if lacks_resource(e):
            raise ConnectError(f"The worker at {client.url} {otherwise}: it is one of Apache Kafka Connect") from e
        raise


def _unless_refused(read: Callable[[], Any]) -> Any:
    """None if the worker does not tell: Apache's versions differ, and topic tracking can be off."""
    try:
        return read()
    except UnreachableError:
        raise
    except ConnectError:
        return None
