"""Checks references to config providers, ``${provider:path:key}``, without resolving them.

Values belong to the deployment, are often secret, and are usually unavailable where lint runs, so a value with a reference is not
checked. Checked are whether the worker has the provider and, if the referenced file exists, whether it contains the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from connect.config.finding import Finding
from connect.config.parsing import parse_value
from connect.config.properties import read_properties
from connect.config.providers.references import Reference, find_references
from connect.config.types import ConfigType
from connect.errors import ConfigError
from worker.lint.codes import MISSING_REFERENCE, UNKNOWN_PROVIDER
from worker.lint.suggestions import did_you_mean

_FILE_PROVIDERS = frozenset({"FileConfigProvider", "File", "file"})


def has_reference(value: str | None) -> bool:
    """Returns whether the value contains a reference to a config provider."""
    return value is not None and next(find_references(value), None) is not None


def check_references(config: Mapping[str, str | None], worker: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yields findings about references. Without a worker's file, every provider is assumed to exist."""
    providers = None if worker is None else _providers(worker)
    for key, value in config.items():
        for reference in find_references(value or ""):
            name = reference.provider
            if providers is not None and name not in providers:
                yield _unknown(key, name, providers)
            elif (name if providers is None else providers[name]) in _FILE_PROVIDERS and _is_missing(reference):
                message = f"{key} refers to {reference.key} in {reference.path}, which has no such key"
                yield MISSING_REFERENCE.finding(message, key)


def _providers(worker: Mapping[str, str]) -> dict[str, str]:
    """Returns the simple class name of each provider that the worker declares."""
    names = parse_value("config.providers", worker.get("config.providers"), ConfigType.LIST) or []
    return {name: worker.get(f"config.providers.{name}.class", "").strip().rpartition(".")[2] for name in names}


def _unknown(key: str, name: str, providers: Collection[str]) -> Finding:
    declared = f"lists only {', '.join(sorted(providers))}" if providers else "lists none"
    message = (
        f"{key} refers to the config provider {name}, but the worker's config.providers {declared}; "
        "the reference will not be resolved"
    )
    return UNKNOWN_PROVIDER.finding(message, key, did_you_mean(name, providers))


def _is_missing(reference: Reference) -> bool:
    if not reference.path or not Path(reference.path).is_file():
        return False
    try:
        return reference.key not in read_properties(reference.path)
    except ConfigError:
        return False
