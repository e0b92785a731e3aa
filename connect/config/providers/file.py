"""The provider ``file``: reads a properties file, ``${file:/path/to/secrets.properties:key}``."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.config.definition import ConfigDef
from connect.config.properties import read_properties
from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.providers.file_settings import ALLOWED_PATHS, TTL_MS, AllowedPaths
from connect.errors import ConfigError


class FileConfigProvider(ConfigProvider):
    """Reads properties files. A reference has the path of the file and one of its keys."""

    def configure(self, configs: Mapping[str, str]) -> None:
        parsed = self.config_def().parse(configs)
        self._allowed = AllowedPaths(parsed[ALLOWED_PATHS.name])
        self._ttl_ms: int | None = parsed[TTL_MS.name]

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        permitted = self._allowed.permitted(path) if path else None
        if permitted is None:
            return ConfigData({})
        try:
            found = read_properties(permitted)
        except ConfigError as e:
            reason = e.__cause__.strerror if isinstance(e.__cause__, OSError) else e.message
            raise ConfigError(f"Could not read properties from file {path}: {reason}") from e
        data = {key: value for key, value in found.items() if keys is None or key in keys}
        return ConfigData(data, self._ttl_ms, restarts_only_if_changed=True)

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef((ALLOWED_PATHS, TTL_MS))
