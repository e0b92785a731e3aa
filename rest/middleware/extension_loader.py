"""Loads the REST extensions of ``rest.extension.classes``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from connect.errors import ConfigError, ConnectError
from rest.extensions import RestExtension

KEY = "rest.extension.classes"
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def load_extensions(names: Sequence[str], settings: Mapping[str, str]) -> list[RestExtension]:
    """Returns the configured extensions in the order of ``names``: the first one sees a request first. Raises ConfigError."""
    extensions = []
    for name in names:
        extension = _create(name)
        try:
            extension.configure(settings)
        except ConnectError:
            raise
        except Exception as e:
            raise ConfigError.invalid(KEY, name, f"its configure() failed: {type(e).__name__}: {e}") from e
        extensions.append(extension)
    return extensions


def _create(name: str) -> RestExtension:
    if name in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
        from rest.middleware.basic_auth import BasicAuth

        return BasicAuth()
    module, colon, cls = name.partition(":")
    if not colon:
        raise ConfigError.invalid(
            KEY, name, f"Java classes are not supported; use {BASIC_AUTH} or a Python class of your own, named module:Class"
        )
    try:
        created = getattr(importlib.import_module(module), cls)()
    except Exception as e:
        raise ConfigError.invalid(KEY, name, f"the class cannot be loaded: {type(e).__name__}: {e}") from e
    missing = [method for method in ("configure", "wrap", "close") if not callable(getattr(created, method, None))]
    if missing:
        raise ConfigError.invalid(KEY, name, f"the class has no {', '.join(f'{method}()' for method in missing)}")
    extension: RestExtension = created
    return extension
