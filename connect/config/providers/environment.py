"""The provider ``env``: reads environment variables of the worker, ``${env:DB_PASSWORD}`` (KIP-887)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from connect.config.definition import ConfigDef
from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex

_PATTERN = "allowlist.pattern"


class EnvVarConfigProvider(ConfigProvider):
    """Reads the environment in which the worker was started. References have no path."""

    def configure(self, configs: Mapping[str, str]) -> None:
        text = self.config_def().parse(configs)[_PATTERN]
        try:
            pattern = compile_java_regex(text)
        except RegexError as e:
            raise ConfigError.invalid(_PATTERN, text, f"Invalid regex: {e}") from e
        self._variables = {name: value for name, value in os.environ.items() if pattern.fullmatch(name)}

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return ConfigData({name: value for name, value in self._variables.items() if keys is None or name in keys})

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define(
            _PATTERN,
            ConfigType.STRING,
            ".*",
            doc="A regular expression; only variables whose whole name matches it can be read.",
        )
