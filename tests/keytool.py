"""Creates key stores with Java's keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sluice.embedded.java import ensure_java


def trust_store(target: Path, authority: Path, kind: str, password: str) -> str:
    """Creates a trust store (JKS, PKCS12, JCEKS) with the certificate from a PEM file."""
    _run("-importcert", "-noprompt", "-alias", "authority", "-file", authority, "-keystore", target, "-storetype", kind,
         "-storepass", password)  # fmt: skip
    return str(target)


def key_store(target: Path, pkcs12: Path | str, kind: str, password: str, key_password: str | None = None) -> str:
    """Creates a key store with the key and the chain of a PKCS12 store that has the same password."""
    _run("-importkeystore", "-noprompt", "-srckeystore", pkcs12, "-srcstoretype", "PKCS12", "-srcstorepass", password,
         "-destkeystore", target, "-deststoretype", kind, "-deststorepass", password,
         "-srcalias", "worker", "-srckeypass", password, "-destkeypass", key_password or password)  # fmt: skip
    return str(target)


def _run(*arguments: Path | str) -> None:
    keytool = ensure_java().executable.with_name("keytool")
    done = subprocess.run([keytool, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
