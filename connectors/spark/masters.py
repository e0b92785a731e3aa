"""The addresses of standalone Spark masters in ``spark.master``."""

from __future__ import annotations

from connect.errors import ConfigError

_SCHEME = "spark://"
_PORT = 7077


def parse_masters(key: str, text: str) -> list[tuple[str, int]]:
    """Host and port of each master in ``spark://host:port[,host:port...]``; none for other kinds of masters. Raises ConfigError,
    with the key, for an address without a host or with a port that is no number."""
    if not text.startswith(_SCHEME):
        return []
    found = []
    for part in text.removeprefix(_SCHEME).split(","):
        host, colon, port = part.rpartition(":")
        if not (host if colon else part) or (colon and not port.isdigit()):
            raise ConfigError.invalid(key, text, f"expected {_SCHEME}host:port")
        found.append((host.strip("[]"), int(port)) if colon else (part, _PORT))
    return found
