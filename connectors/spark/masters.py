"""The forms of ``spark.master`` that are checked: the addresses of standalone masters, and Spark inside the worker."""

from __future__ import annotations

import re

from connect.errors import ConfigError

_SCHEME = "spark://"
_PORT = 7077
_LOCAL = re.compile(r"local(\[(\*|[1-9][0-9]*)(,[1-9][0-9]*)?\])?|local-cluster\[[0-9, ]+\]")


def is_local(master: str) -> bool:
    """Whether Spark runs inside the worker's JVM, without a cluster."""
    return master.startswith("local")


def parse_masters(key: str, text: str) -> list[tuple[str, int]]:
    """Host and port of each master in ``spark://host:port[,host:port...]``; none for other kinds of masters. Raises ConfigError,
    with the key, for an address without a host or with a port that is no number, and for an unknown form of ``local``."""
    if is_local(text) and not _LOCAL.fullmatch(text):
        raise ConfigError.invalid(key, text, "expected local, local[<threads>], or local[*]")
    if not text.startswith(_SCHEME):
        return []
    found = []
    for part in text.removeprefix(_SCHEME).split(","):
        host, colon, port = part.rpartition(":")
        if not (host if colon else part) or (colon and not port.isdigit()):
            raise ConfigError.invalid(key, text, f"expected {_SCHEME}host:port")
        found.append((host.strip("[]"), int(port)) if colon else (part, _PORT))
    return found
