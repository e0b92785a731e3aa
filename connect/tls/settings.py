"""TLS settings of Java clients and listeners: the keys ``ssl.*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.errors import ConfigError
from connect.tls.store import Store, parse_store


@dataclass(frozen=True, slots=True)
class JavaTlsSettings:
    """The settings ``ssl.*`` that mean the same for every connection."""

    key_store: Store
    trust_store: Store
    cipher_suites: tuple[str, ...] = ()
    enabled_protocols: tuple[str, ...] = ()
    """As configured; empty means all."""
    checks_host_names: bool = True
    """False for an empty ``ssl.endpoint.identification.algorithm``, as in Java."""

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], prefix: str = "", *, instead_of_engine: str = "ssl.truststore.location"
    ) -> JavaTlsSettings:
        """Reads the settings. ``prefix`` is what the keys have before ``ssl.`` in the file, for messages.

        Raises ConfigError for ``ssl.engine.factory.class``, a Java class; ``instead_of_engine`` is the setting to suggest.
        """
        if properties.get("ssl.engine.factory.class"):
            key = f"{prefix}ssl.engine.factory.class"
            raise ConfigError(f"{key} names a Java class, which cannot be used here; set {prefix}{instead_of_engine}", key=key)
        return cls(
            parse_store(properties, "ssl.keystore", prefix),
            parse_store(properties, "ssl.truststore", prefix),
            _parse_list(properties, "ssl.cipher.suites"),
            _parse_list(properties, "ssl.enabled.protocols"),
            properties.get("ssl.endpoint.identification.algorithm", "https").strip() != "",
        )


def _parse_list(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(word for part in properties.get(key, "").split(",") if (word := part.strip()))
