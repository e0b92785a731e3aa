"""Decodes QUERY events of MySQL and MariaDB, and their status variables."""

from __future__ import annotations

import struct
from typing import Any

from connectors.mysql.binlog.compression import decompress_event_part
from connectors.mysql.binlog.events import EventHeader, Query
from connectors.mysql.binlog.wire import short_bytes, take, u16, u64

_post_header = struct.Struct("<IIBHH").unpack_from
_POST_HEADER_LENGTH = 13
_TOO_MANY_DATABASES = 254
_HAS_ALTER_SEQUENCE = 4 | 8  # COMMIT or ROLLBACK of a MariaDB ALTER in two phases

_SKIPPED = {0: 4, 3: 4, 7: 2, 9: 8, 10: 4, 14: 0, 15: 0, 19: 1, 20: 1}
"""Sizes of variables that do not matter here, by code."""


def decode_query(data: bytes, at: int, end: int, header: EventHeader, post_header_length: int, *, compressed: bool) -> Query:
    """Decodes the event whose post-header is at ``at``."""
    thread_id, execution_time_s, schema_length, error_code, variables_length = _post_header(data, at)
    at += max(post_header_length, _POST_HEADER_LENGTH)
    variables, at = take(data, at, variables_length, end)
    schema, at = take(data, at, schema_length, end)
    at += 1  # a zero byte
    if at > end:
        raise IndexError(f"statement expected at {at}")
    sql = decompress_event_part(data, at, end) if compressed else data[at:end]
    values = read_variables(variables)
    return Query(
        header, schema.decode(), sql, thread_id, execution_time_s, error_code, compressed,
        values.get("sql_mode"), values.get("charset_client"), values.get("collation_connection"),
        values.get("collation_server"), values.get("collation_database"), values.get("time_zone"), values.get("invoker"),
        values.get("microseconds"), values.get("ddl_xid"), values.get("explicit_defaults_for_timestamp"),
        values.get("default_collation_for_utf8mb4"), values.get("updated_databases"), values.get("gtid_flags_extra"),
        values.get("start_alter_sequence"),
    )  # fmt: skip


def read_variables(data: bytes) -> dict[str, Any]:
    """Reads status variables. Like the server, it stops at one that it does not know: newer servers only append."""
    values: dict[str, Any] = {}
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        at += 1
        if code == 1:
            values["sql_mode"] = u64(data, at)[0]
            at += 8
        elif code == 2:  # the catalog with a zero byte, before MySQL 5.0.4
            _, at = short_bytes(data, at, end)
            at += 1
        elif code == 4:
            names = ("charset_client", "collation_connection", "collation_server")
            values.update(zip(names, struct.unpack_from("<HHH", data, at), strict=True))
            at += 6
        elif code == 5:
            zone, at = short_bytes(data, at, end)
            values["time_zone"] = zone.decode()
        elif code == 6:
            _, at = short_bytes(data, at, end)
        elif code == 8:
            values["collation_database"] = u16(data, at)[0]
            at += 2
        elif code == 11:
            user, at = short_bytes(data, at, end)
            host, at = short_bytes(data, at, end)
            values["invoker"] = (user.decode(), host.decode())
        elif code == 12:
            count = data[at]
            at += 1
            if count != _TOO_MANY_DATABASES:
                databases = []
                for _ in range(count):
                    stop = data.index(b"\0", at)
                    databases.append(data[at:stop].decode())
                    at = stop + 1
                values["updated_databases"] = tuple(databases)
        elif code in (13, 128):
            part, at = take(data, at, 3, end)
            values["microseconds"] = int.from_bytes(part, "little")
        elif code == 16:
            values["explicit_defaults_for_timestamp"] = data[at] != 0
            at += 1
        elif code in (17, 129):
            values["ddl_xid"] = u64(data, at)[0]
            at += 8
        elif code == 18:
            values["default_collation_for_utf8mb4"] = u16(data, at)[0]
            at += 2
        elif code == 130:
            values["gtid_flags_extra"] = flags = data[at]
            at += 1
            if flags & _HAS_ALTER_SEQUENCE:
                values["start_alter_sequence"] = u64(data, at)[0]
                at += 8
        elif code == 131:  # collations of MariaDB's character_set_collations
            at += 1 + 4 * data[at]
        elif (size := _SKIPPED.get(code)) is not None:
            at += size
        else:
            break
    if at > end:
        raise IndexError(f"status variables end at {end}, and the last one at {at}")
    return values
