"""PyMySQL connections to addresses that the worker allows (``connection.deny.addresses``)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from connect.addresses import address_rules

OpenSocket = Callable[[str, int, float | None, tuple[str, int] | None], Any]
"""Connects to a host, a port, and in a time, from an address or any; returns a socket for PyMySQL. May raise OSError."""

_CANNOT_CONNECT = 2003


def connect_pymysql(*arguments: Any, open_socket: OpenSocket | None = None, tls_context: Any = None, **keywords: Any) -> Any:
    """Calls ``pymysql.connect``, over a socket to a checked address; TLS still verifies the name.

    ``open_socket`` replaces how the socket is opened; it applies the address rules itself. ``tls_context`` wraps its socket in
    place of the context that PyMySQL has built from the arguments ``ssl*``, which still decide whether TLS is used.
    """
    import pymysql  # optional, and only loaded for MySQL

    if keywords.get("unix_socket"):
        return pymysql.connect(*arguments, **keywords)
    connection: Any = pymysql.connect(*arguments, **keywords, defer_connect=True)
    source = None if connection.bind_address is None else (connection.bind_address, 0)
    try:
        link = (open_socket or _open_socket)(connection.host, connection.port, connection.connect_timeout, source)
    except OSError as e:
        text = f"Can't connect to MySQL server on {connection.host!r} ({e})"
        raise pymysql.err.OperationalError(_CANNOT_CONNECT, text) from e
    if tls_context is not None:
        connection.ctx = tls_context
    connection.connect(link)
    return connection


def _open_socket(host: str, port: int, timeout_s: float | None, source: tuple[str, int] | None) -> socket.socket:
    link = address_rules().open_socket(host, port, timeout_s, source)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return link
