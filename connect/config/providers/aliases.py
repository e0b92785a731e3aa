"""Alias table of the config providers."""

from connect.plugin_entry import Kind, PluginEntry

_JAVA = "org.apache.kafka.common.config.provider."
_HERE = "connect.config.providers."

PLUGINS: tuple[PluginEntry, ...] = (
    PluginEntry(Kind.CONFIG_PROVIDER, f"{_HERE}file:FileConfigProvider", (f"{_JAVA}FileConfigProvider",), ("file",)),
    PluginEntry(
        Kind.CONFIG_PROVIDER,
        f"{_HERE}directory:DirectoryConfigProvider",
        (f"{_JAVA}DirectoryConfigProvider",),
        ("directory", "dir"),
    ),
    PluginEntry(
        Kind.CONFIG_PROVIDER,
        f"{_HERE}environment:EnvVarConfigProvider",
        (f"{_JAVA}EnvVarConfigProvider",),
        ("env", "environment"),
    ),
)
