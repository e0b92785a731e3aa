"""What a config provider is: a place from which a configuration takes values that should not stand in it (KIP-297).

A worker's properties name its providers (``config.providers=vault``, ``config.providers.vault.class``,
``config.providers.vault.param.<name>``); a value ``${vault:path:key}`` of a connector or of the worker itself is then asked of
the provider when it is needed, and is written down nowhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect.config.definition import ConfigDef


@dataclass(frozen=True, slots=True)
class ConfigData:
    """What a provider answered. Everything in ``data`` is taken for a secret and never printed (promise 9)."""

    data: Mapping[str, str] = field(repr=False)
    """The values that there are, by key. A key that is not in it leaves its reference as it is, as in Kafka."""
    ttl_ms: int | None = None
    """How long the values hold, in milliseconds; None: for good. When it is over, a connector that uses them is restarted,
    unless its configuration says ``config.action.reload=none``."""
    restarts_only_if_changed: bool = False
    """When the time is over the values are only looked up again, and the connector is restarted if they are others. For a
    provider that watches something; a lease that has to be renewed wants the restart in any case."""


class ConfigProvider(ABC):
    """Looks values up. Made once a worker, from any thread asked, by many at once; :meth:`get` may block for as long as a request
    may take.

    Subscriptions, which Kafka's interface has besides, are no part of this one: Kafka Connect never makes any, and what they
    would do, ``ttl_ms`` does.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Takes its parameters, ``config.providers.<name>.param.*`` without the prefix. Called once, before anything else.
        Raises ConfigError for a wrong one."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """The values of these keys at a path, or with None all that there are. ``path`` is empty for ``${provider:key}``.

        A key that there is not is left out of the answer. Raises ConfigError when the path cannot be read.
        """

    def close(self) -> None:
        """Called once, when the worker stops."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        """The table of its parameters; :meth:`configure` parses with it."""
        return ConfigDef()
