"""The interface of config providers: sources of values that should not be in a configuration itself (KIP-297).

A worker's properties name its providers (``config.providers=vault``, ``config.providers.vault.class``,
``config.providers.vault.param.<name>``). A reference ``${vault:path:key}`` in the configuration of a connector or the worker is
resolved when the value is needed, and the value is stored nowhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect.config.definition import ConfigDef


@dataclass(frozen=True, slots=True)
class ConfigData:
    """A provider's values. Everything in ``data`` is a secret and never printed (promise 9)."""

    data: Mapping[str, str] = field(repr=False)
    """The values by key. As in Kafka, a reference whose key is missing is not replaced."""
    ttl_ms: int | None = None
    """How long the values are valid, in milliseconds; None: forever. After that, a connector that uses them is restarted, unless
    its configuration has ``config.action.reload=none``."""
    restarts_only_if_changed: bool = False
    """After ``ttl_ms``, read the values again, and restart the connector only if they have changed. For providers that watch
    something; a lease that must be renewed needs the restart in any case."""


class ConfigProvider(ABC):
    """Provides values. Created once per worker and called from any thread, also concurrently; :meth:`get` may block for as long
    as a request may take.

    Unlike Kafka's interface, this one has no subscriptions: Kafka Connect never uses them, and ``ttl_ms`` replaces them.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Configures the provider with ``config.providers.<name>.param.*``, without the prefix. Called once, first. Raises
        ConfigError for an invalid parameter."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        """Returns the values of these keys at a path; None means all keys. ``path`` is empty for ``${provider:key}``.

        Keys that do not exist are omitted. Raises ConfigError when the path cannot be read.
        """

    def close(self) -> None:
        """Called once, when the worker stops."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Returns the definition of the parameters, with which :meth:`configure` parses them."""
        return ConfigDef()
