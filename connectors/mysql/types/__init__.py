"""Maps columns of MySQL and MariaDB to Connect schemas, with decoders of their values. Pure: no connection, no queries.

The mapping is Debezium's (names, units, defaults), so that its consumers can read our topics. Use::

    mapped = column_type(column, settings, table.charset)     # None: Debezium captures no such column
    mapped.schema                                             # of the field: optional, default, documentation
    mapped.select.format(name=quoted)                         # what a query must select
    mapped.text.decode(value)                                 # a value of a query: str, or bytes if mapped.is_bytes
    RowDecoder(table_map, [mapped.reader, ...])               # values of the binary log

Both decoders return equal values for equal rows, if the session of the query has ``time_zone='+00:00'``,
``character_set_results='utf8mb4'``, and no PAD_CHAR_TO_FULL_LENGTH in its sql_mode. A null is never decoded; the result may be
None for a date such as 0000-00-00. A column that an image lacks has ``mapped.text.placeholder``, None for types without one.

Masks, truncation, and lenient columns (``connectors.cdc.schema``) apply to ``mapped.text`` for queries and to ``mapped.raw()``
for the log; ``mapped.read_by(changed)`` is the reader for the latter.

Differences from Debezium, so that nothing is lost or differs between snapshot and stream (promise 8):

- BIGINT UNSIGNED beyond 64 bits with a sign, and TIME beyond 32 bits of milliseconds (adaptive) are errors; Debezium's wrap.
- Bytes that are invalid in the column's character set are an error; Debezium replaces them.
- TIMESTAMP has all digits of the column in snapshots, too; REAL is a float64 in the stream, too; FLOAT is exact in snapshots.
- The year 0000 of YEAR is 0, not 1900 or 2000. JSON has the server's spaces in the stream, too.
- INET4 and INET6 are strings; Debezium does not know them.

What only MySQL has (VECTOR, binary JSON) has never met a server.
"""

from connectors.mysql.types.column_type import MySqlColumnType
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.types.java_keys import MYSQL_JAVA_KEYS, key_type_name
from connectors.mysql.types.registry import column_type, text_charset
from connectors.mysql.types.source_type import source_type

__all__ = [
    "MYSQL_JAVA_KEYS",
    "MySqlColumnType",
    "MySqlTypeSettings",
    "column_type",
    "key_type_name",
    "source_type",
    "text_charset",
]
