"""TLS of https listeners: turns Kafka's ``ssl.*`` settings into an SSL context that is reloaded when its files change.

The keys are ``ssl.*``, optionally with a prefix (``listeners.https.``, ``admin.listeners.https.``). As in Apache's worker, if any
key has the prefix, keys without it are ignored.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connect.errors import ConfigError
from connect.tls import JavaTlsSettings, Store, allow_suites, load_identity, load_trust

log = logging.getLogger(__name__)

LISTENERS_PREFIX = "listeners.https."
ADMIN_PREFIX = "admin.listeners.https."

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("TLS", "SSL", "SSLv3", "TLSv1", "TLSv1.1")
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

Fingerprint = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Typed settings of https listeners."""

    identity: Store
    trust: Store
    client_auth: str = "none"
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = field(default=())
    verifies_host_names: bool = True
    """For requests to other workers; an empty ``ssl.endpoint.identification.algorithm`` disables it, as in Java."""

    @classmethod
    def from_properties(cls, props: Mapping[str, str], prefix: str = LISTENERS_PREFIX) -> TlsSettings:
        """Reads a worker's properties. Raises ConfigError for invalid or unsupported values."""
        below = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
        given = below or {key: value for key, value in props.items() if key.startswith("ssl.")}
        shown = prefix if below else ""
        java = JavaTlsSettings.from_properties(given, shown, instead_of_engine="ssl.keystore.location")
        client_auth = given.get("ssl.client.auth", "none").strip().lower()
        if client_auth not in _CLIENT_AUTH:
            raise ConfigError.invalid(f"{shown}ssl.client.auth", client_auth, f"String must be one of: {', '.join(_CLIENT_AUTH)}")
        return cls(
            java.key_store,
            java.trust_store,
            client_auth,
            _versions(java.enabled_protocols, given.get("ssl.protocol", ""), shown),
            java.cipher_suites,
            java.checks_host_names,
        )

    def files(self) -> list[Path]:
        """The files that the context is loaded from."""
        return [Path(store.location) for store in (self.identity, self.trust) if store.location]


def _versions(enabled_protocols: Sequence[str], protocol: str, shown: str) -> tuple[str, ...]:
    enabled = enabled_protocols or tuple(_VERSIONS)
    for word in enabled:
        if word not in _VERSIONS and word not in _OLD_VERSIONS:
            raise ConfigError.invalid(f"{shown}ssl.enabled.protocols", word, f"expected {' or '.join(_VERSIONS)}")
    highest = protocol.strip() or "TLSv1.3"
    # In Java, TLSv1.2 allows nothing newer; TLS allows every version.
    found = tuple(word for word in _VERSIONS if word in enabled and (word <= highest or highest == "TLS"))
    if not found:
        raise ConfigError(
            f"{shown}ssl.enabled.protocols and {shown}ssl.protocol leave no secure TLS version; expected "
            f"{' or '.join(_VERSIONS)} among {', '.join(enabled)}",
            key=f"{shown}ssl.enabled.protocols",
        )
    return found


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns the context of a listener. Raises ConfigError for an invalid file or password, without naming the password."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions: Sequence[str] = settings.versions
    if settings.cipher_suites:
        versions = allow_suites(context, settings.cipher_suites, versions)
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if not settings.identity.is_given:
        key = settings.identity.key
        raise ConfigError(
            f"listeners has an https listener but no certificate is configured. Set {key}.location to a file with key and "
            f"certificate chain (PEM, PKCS12 or JKS), or {key}.key and {key}.certificate.chain",
            key=f"{key}.location",
        )
    load_identity(context, settings.identity)
    if settings.client_auth != "none":
        _trust(context, settings.trust, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns the context for requests to other workers, with the listener's trust store and, if any, its certificate.
    Raises ConfigError like :func:`server_context`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    context.check_hostname = settings.verifies_host_names
    _trust(context, settings.trust, ssl.Purpose.SERVER_AUTH)
    if settings.identity.is_given:
        load_identity(context, settings.identity)
    return context


def _trust(context: ssl.SSLContext, store: Store, purpose: ssl.Purpose) -> None:
    if store.is_given:
        load_trust(context, store)
    else:
        context.load_default_certs(purpose)


class ReloadingContext:
    """An SSL context that can be reloaded when its files change. ``create`` builds it; the default is a listener's context.

    Not thread-safe.
    """

    def __init__(self, settings: TlsSettings, create: Callable[[TlsSettings], ssl.SSLContext] = server_context) -> None:
        """Raises ConfigError, see :func:`server_context`."""
        self._settings = settings
        self._create = create
        self._seen = self._fingerprint()
        self.context = create(settings)

    def reload_if_changed(self) -> bool:
        """Reloads the context if its files have changed; returns whether it did.

        Invalid files, such as half-written ones, leave the context unchanged until they change again.
        """
        found = self._fingerprint()
        if found == self._seen:
            return False
        self._seen = found
        try:
            self.context = self._create(self._settings)
        except ConfigError as e:
            log.error("The changed certificate of the https listeners cannot be loaded; keeping the old one: %s", e.message)
            return False
        return True

    def _fingerprint(self) -> Fingerprint:
        return tuple(_file_state(path) for path in self._settings.files())


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
