"""The provider ``directory``: reads a folder with one file per key, ``${directory:/run/secrets:db-password}``."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from connect.config.definition import ConfigDef
from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.providers.file_settings import ALLOWED_PATHS, TTL_MS, AllowedPaths
from connect.errors import ConfigError

log = logging.getLogger(__name__)


class DirectoryConfigProvider(ConfigProvider):
    """Reads the files of a folder, such as secrets that Docker and Kubernetes mount. The key is the name of a file, the value its
    whole content, including line ends, as in Kafka."""

    def configure(self, configs: Mapping[str, str]) -> None:
        parsed = self.config_def().parse(configs)
        self._allowed = AllowedPaths(parsed[ALLOWED_PATHS.name])
        self._ttl_ms: int | None = parsed[TTL_MS.name]

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        folder = self._allowed.permitted(path) if path else None
        if folder is None:
            return ConfigData({})
        if not folder.is_dir():
            # As in Kafka, this is not an error: the references remain, and the worker reports them.
            log.warning("The path %s is not a directory", path)
            return ConfigData({}, self._ttl_ms, restarts_only_if_changed=True)
        try:
            # List the folder instead of opening the keys: a key is a file name and must not be a path.
            names = [entry.name for entry in folder.iterdir() if entry.is_file() and (keys is None or entry.name in keys)]
        except OSError as e:
            raise ConfigError(f"Could not list directory {path}: {e.strerror or e}") from e
        return ConfigData({name: self._read(folder / name) for name in names}, self._ttl_ms, restarts_only_if_changed=True)

    def _read(self, file: Path) -> str:
        if self._allowed.permitted(str(file)) is None:
            raise ConfigError(f"Could not read file {file} for property {file.name}: it is a link out of allowed.paths")
        try:
            return file.read_bytes().decode()
        except OSError as e:
            raise ConfigError(f"Could not read file {file} for property {file.name}: {e.strerror or e}") from e
        except UnicodeDecodeError as e:
            raise ConfigError(f"Could not read file {file} for property {file.name}: it is not UTF-8 at byte {e.start}") from None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef((ALLOWED_PATHS, TTL_MS))
