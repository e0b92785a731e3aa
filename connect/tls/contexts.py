"""Loads key stores and trust stores into Python's TLS contexts."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from connect.errors import ConfigError
from connect.tls.store import Store, read_identity, read_trusted_certificates


def load_identity(context: ssl.SSLContext, store: Store) -> None:
    """Loads the key and certificate chain of a store into the context. Raises ConfigError."""
    identity = read_identity(store)
    key = store.location_key if store.certificates is None else f"{store.key}.certificate.chain"

    def asked() -> str:
        # Without this, OpenSSL would ask on the terminal.
        if identity.password is None:
            raise ConfigError(f"The key of {key} is encrypted; set {store.key_password_key}", key=store.key_password_key)
        return identity.password

    with _temporary_key_file(identity.pem) as path:
        try:
            context.load_cert_chain(path, password=asked)
        except (ssl.SSLError, ValueError) as e:
            hint = f"{store.key_password_key} does not open the key, or " if identity.password is not None else ""
            message = f"The key and certificates of {key} cannot be used: {hint}there are no key and chain that belong together"
            raise ConfigError(f"{message} ({_reason(e)})", key=key) from e


def load_trust(context: ssl.SSLContext, store: Store) -> None:
    """Loads the trusted certificates of a configured store into the context. Raises ConfigError."""
    pem = read_trusted_certificates(store)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as e:
        if store.certificates is not None:
            key = f"{store.key}.certificates"
            raise ConfigError(f"{key} holds no certificate that can be read ({_reason(e)})", key=key) from e
        raise store.error(f"it holds no certificate that can be read ({_reason(e)})") from e


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


@contextmanager
def _temporary_key_file(pem: str) -> Iterator[str]:
    """Writes a temporary file that only this user can read, because Python loads keys from files only. On Linux, it is in
    memory."""
    in_memory = hasattr(os, "memfd_create")
    handle, path = (os.memfd_create("key"), None) if in_memory else tempfile.mkstemp(prefix="sluice-key-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        try:
            file.write(pem)
            file.flush()
            yield path or f"/proc/self/fd/{handle}"
        finally:
            if path is not None:
                os.unlink(path)
